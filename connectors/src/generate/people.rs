//! The people of a corpus: their activity, their names and where they live.

use rand::Rng;
use rand_distr::{Distribution, Zipf};

use super::names::{TOWNS, Town, ascii, name};
use super::script::DEPARTMENTS;

/// A data subject and the agent that serves them.
#[derive(Debug, Clone)]
pub(super) struct Person {
    /// The rank by activity, from 1 on.
    pub(super) rank: usize,
    /// The `user_id`.
    pub(super) user_id: String,
    /// The first name.
    pub(super) first: &'static str,
    /// The last name.
    pub(super) last: &'static str,
    /// The full name.
    pub(super) name: String,
    /// The DID of the person.
    pub(super) did: String,
    /// Where the person lives.
    pub(super) town: &'static Town,
    /// Index in [`DEPARTMENTS`] of the department that serves them.
    pub(super) department: usize,
    /// The namespace of this department.
    pub(super) namespace: String,
    /// The DID of the agent that serves them.
    pub(super) agent: String,
}

impl Person {
    /// Returns true for the few people whose records are under a legal hold. None of them is among
    /// the most active.
    pub(super) const fn is_on_hold(&self) -> bool {
        self.rank % 64 == 63
    }
}

/// The people of a corpus. Their activity follows Zipf's law.
#[derive(Debug, Clone)]
pub(super) struct People {
    ranks: Zipf<f64>,
}

/// The exponent of Zipf's law.
const EXPONENT: f64 = 0.9;

impl People {
    #[expect(
        clippy::expect_used,
        reason = "at least one person and a constant exponent are valid parameters"
    )]
    pub(super) fn new(count: u32) -> Self {
        People {
            ranks: Zipf::new(f64::from(count.max(1)), EXPONENT).expect("valid parameters"),
        }
    }

    /// Picks a person at random, weighted by activity.
    pub(super) fn sample(&self, random: &mut impl Rng) -> Person {
        person_of_rank(self.ranks.sample(random) as usize)
    }
}

/// Returns the person of a rank; the same person for the same rank.
pub(super) fn person_of_rank(rank: usize) -> Person {
    let town = &TOWNS[rank % TOWNS.len()];
    let department = rank % DEPARTMENTS.len();
    // Two towns of one country have different people.
    let offset = if rank % TOWNS.len() < 5 { 0 } else { 90 };
    let (first, last, name) = name(town.country, rank / TOWNS.len() + offset);
    let place = (town.slug, DEPARTMENTS[department]);
    Person {
        rank,
        user_id: format!("{}-{rank}", ascii(first)),
        first,
        last,
        name,
        did: format!("did:web:people.example:{rank}"),
        town,
        department,
        namespace: format!("alder:{}:{}", place.0, place.1),
        agent: format!("did:web:alder.example:{}:{}", place.0, place.1),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn people_differ_in_id_and_few_share_a_name() {
        let people: Vec<_> = (1..=1_000).map(person_of_rank).collect();
        let ids: HashSet<_> = people.iter().map(|person| &person.user_id).collect();
        let names: HashSet<_> = people.iter().map(|person| &person.name).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(names.len() > 800, "{} names", names.len());
    }

    #[test]
    fn every_town_has_every_department() {
        let namespaces: HashSet<_> = (1..=90)
            .map(|rank| person_of_rank(rank).namespace)
            .collect();
        assert_eq!(namespaces.len(), TOWNS.len() * DEPARTMENTS.len());
    }

    #[test]
    fn user_ids_are_ascii() {
        for rank in 1..=1_000 {
            let id = person_of_rank(rank).user_id;
            assert!(id.is_ascii() && !id.starts_with('-'), "{id}");
        }
    }
}

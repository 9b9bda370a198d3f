//! People: who is how active, and what they are called.

use rand::Rng;
use rand_distr::{Distribution, Zipf};

const FIRST: &[&str] = &[
    "Alice", "Bob", "Chiara", "Dmitri", "Elif", "Farah", "Goran", "Hana", "Ivo", "Jana", "Kofi",
    "Lena", "Mateo", "Noor", "Olu", "Priya", "Quinn", "Rosa", "Sven", "Tariq", "Uma", "Vera",
    "Wei", "Ximena", "Yuki", "Zoë",
];

const LAST: &[&str] = &[
    "Abe", "Berg", "Costa", "Dahl", "Eze", "Fischer", "García", "Huang", "Ito", "Jensen", "Kaur",
    "Lund", "Müller", "Novak", "Okafor", "Patel", "Quist", "Rossi", "Sato", "Tanaka", "Ueda",
    "Vogel", "Wang", "Xu", "Yılmaz", "Zhang",
];

/// A data subject.
#[derive(Debug, Clone)]
pub(super) struct Person {
    /// `user_id`.
    pub(super) user_id: String,
    /// As others speak of them.
    pub(super) name: String,
    /// Their DID.
    pub(super) did: String,
    /// The namespace of the organisation that serves them.
    pub(super) namespace: String,
    /// The DID of the agent that serves them.
    pub(super) agent: String,
}

/// The people of a corpus.
#[derive(Debug, Clone)]
pub(super) struct People {
    ranks: Zipf<f64>,
}

impl People {
    #[expect(
        clippy::expect_used,
        reason = "at least one person and a constant exponent are within the law's range"
    )]
    pub(super) fn new(count: u32) -> Self {
        People {
            ranks: Zipf::new(f64::from(count.max(1)), 0.9).expect("a law of people"),
        }
    }

    /// Somebody: the active ones come often.
    pub(super) fn somebody(&self, random: &mut impl Rng) -> Person {
        person(self.ranks.sample(random) as usize)
    }
}

/// The person of a rank: always the same for the same rank.
fn person(rank: usize) -> Person {
    let (first, last) = (
        FIRST[rank % FIRST.len()],
        LAST[rank / FIRST.len() % LAST.len()],
    );
    let organisation = rank % 17;
    let slug: String = first
        .chars()
        .filter(char::is_ascii_alphabetic)
        .collect::<String>()
        .to_lowercase();
    Person {
        user_id: format!("{slug}-{rank}"),
        name: format!("{first} {last}"),
        did: format!("did:web:people.example:{rank}"),
        namespace: format!("org{organisation}:assistant:agent-{}", rank % 5),
        agent: format!("did:web:org{organisation}.example:agents:{}", rank % 5),
    }
}

//! The people of a corpus: their activity and their names.

use rand::Rng;
use rand_distr::{Distribution, Zipf};

const FIRST_NAMES: &[&str] = &[
    "Alice", "Bob", "Chiara", "Dmitri", "Elif", "Farah", "Goran", "Hana", "Ivo", "Jana", "Kofi",
    "Lena", "Mateo", "Noor", "Olu", "Priya", "Quinn", "Rosa", "Sven", "Tariq", "Uma", "Vera",
    "Wei", "Ximena", "Yuki", "Zoë",
];

const LAST_NAMES: &[&str] = &[
    "Abe", "Berg", "Costa", "Dahl", "Eze", "Fischer", "García", "Huang", "Ito", "Jensen", "Kaur",
    "Lund", "Müller", "Novak", "Okafor", "Patel", "Quist", "Rossi", "Sato", "Tanaka", "Ueda",
    "Vogel", "Wang", "Xu", "Yılmaz", "Zhang",
];

/// A data subject and the agent that serves them.
#[derive(Debug, Clone)]
pub(super) struct Person {
    /// The `user_id`.
    pub(super) user_id: String,
    /// The full name.
    pub(super) name: String,
    /// The DID of the person.
    pub(super) did: String,
    /// The namespace of the organisation that serves them.
    pub(super) namespace: String,
    /// The DID of the agent that serves them.
    pub(super) agent: String,
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
fn person_of_rank(rank: usize) -> Person {
    let (first, last) = (
        FIRST_NAMES[rank % FIRST_NAMES.len()],
        LAST_NAMES[rank / FIRST_NAMES.len() % LAST_NAMES.len()],
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

//! A seeded generator of realistic corpora of any size, for benches and for people who try the
//! tool.
//!
//! A corpus is a sequence of blocks of grains. A block depends on nothing but the seed, the number
//! of people and its own number, so blocks can be made side by side and a corpus of a million
//! grains begins with that of a thousand. Grains refer only to grains of their own block.
//!
//! | module | what it answers |
//! |---|---|
//! | `words` | what do people say? |
//! | `people` | who are they, and who is how active? |
//! | `scenes` | which grains does a piece of an agent's life leave? |
//! | `grains` | how is one grain put together? |

mod grains;
mod people;
mod scenes;
mod words;

use std::collections::HashSet;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::IndexState;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::EncodedGrain;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use people::People;
use scenes::Scenes;

/// Grains of a block, at least: the last scene is played to its end.
pub const BLOCK_GRAINS: usize = 2_000;

/// What a corpus is made from.
#[derive(Debug, Clone, Copy)]
pub struct Corpus {
    /// The same seed gives the same corpus.
    pub seed: u64,
    /// How many people there are; their activity follows Zipf's law.
    pub people: u32,
}

/// A run of grains in the order of their creation.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// The grains.
    pub grains: Vec<EncodedGrain>,
    /// The index-layer state of those that aren't in their first state any more.
    pub states: Vec<(ContentAddress, IndexState)>,
}

impl Block {
    /// Keeps the first `at` grains and answers the others. State goes with the later of the grains
    /// that it names, so that no part tells of a grain that only a part behind it has.
    pub fn split_off(&mut self, at: usize) -> Block {
        let grains = self.grains.split_off(at.min(self.grains.len()));
        let later: HashSet<ContentAddress> = grains.iter().map(|grain| grain.address).collect();
        let names_later = |(address, state): &(ContentAddress, IndexState)| {
            later.contains(address)
                || state
                    .superseded_by
                    .is_some_and(|successor| later.contains(&successor))
        };
        let (states, own) = std::mem::take(&mut self.states)
            .into_iter()
            .partition(names_later);
        self.states = own;
        Block { grains, states }
    }
}

impl Corpus {
    /// The block `number`, counted from 0.
    ///
    /// # Errors
    /// None that a scene causes; those of encoding are passed on.
    pub fn block(&self, number: u64) -> Result<Block, GrainError> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        // Streams of one seed are independent of each other.
        random.set_stream(number + 1);
        Scenes::new(People::new(self.people), number, random).play(BLOCK_GRAINS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Field, Grain, GrainType, Mode, Payload};

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_corpus_and_another_seed_another() {
        let block = |seed, number| Corpus { seed, people: 100 }.block(number).unwrap().grains;
        assert_eq!(block(1, 3), block(1, 3));
        assert_ne!(block(1, 3), block(2, 3));
        assert_ne!(block(1, 3), block(1, 4));
    }

    #[test]
    fn a_block_has_all_types_and_every_grain_is_canonical() {
        let block = Corpus {
            seed: 7,
            people: 1_000,
        }
        .block(0)
        .unwrap();
        let mut types: HashMap<GrainType, usize> = HashMap::new();
        for grain in &block.grains {
            let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
            let decoded = Grain::decode(&payload, Mode::Strict).unwrap();
            assert!(
                decoded.marks().is_empty(),
                "{:?} {}",
                decoded.marks(),
                decoded.to_json()
            );
            *types.entry(decoded.grain_type().unwrap()).or_default() += 1;
        }
        assert_eq!(types.len(), GrainType::ALL.len(), "{types:?}");
        assert!(!block.states.is_empty());
        let bytes: usize = block.grains.iter().map(|grain| grain.blob.len()).sum();
        let average = bytes / block.grains.len();
        assert!((400..600).contains(&average), "{average} bytes a grain");
    }

    #[test]
    fn a_part_of_a_block_tells_only_of_grains_that_came_by_then() {
        let mut block = Corpus {
            seed: 7,
            people: 1_000,
        }
        .block(0)
        .unwrap();
        let states = block.states.len();
        let rest = block.split_off(700);
        let first: HashSet<_> = block.grains.iter().map(|grain| grain.address).collect();
        let told = |(address, state): &(ContentAddress, IndexState)| {
            first.contains(address)
                && state
                    .superseded_by
                    .is_none_or(|successor| first.contains(&successor))
        };
        assert!(!block.states.is_empty() && block.states.iter().all(told));
        assert_eq!(block.states.len() + rest.states.len(), states);
        assert!(!rest.states.iter().any(told));
    }

    #[test]
    fn withdrawals_name_the_consent_that_they_end() {
        let block = Corpus {
            seed: 7,
            people: 1_000,
        }
        .block(1)
        .unwrap();
        let mut withdrawals = 0;
        for grain in &block.grains {
            let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
            let decoded = Grain::decode(&payload, Mode::Strict).unwrap();
            if let Some(prior) = decoded.text(Field::PriorConsent) {
                withdrawals += 1;
                assert!(
                    block
                        .grains
                        .iter()
                        .any(|grain| grain.address.to_string() == prior)
                );
            }
        }
        assert!(withdrawals > 0);
    }
}

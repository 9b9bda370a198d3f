//! A seeded generator of realistic corpora of any size, for benchmarks and for trying the tool.
//!
//! A corpus is a sequence of blocks of grains. A block depends only on the seed, the number of people
//! and its own number, so blocks can be generated in parallel, and a corpus of a million grains
//! begins with that of a thousand. Grains refer only to grains of their own block.
//!
//! | module | what it answers |
//! |---|---|
//! | `block` | what is a block, and how is it split? |
//! | `block_generator` | which scenarios are in a block, and when do they take place? |
//! | `scenarios` | which grains does a scenario leave? |
//! | `people` | who are the users, and how active is each? |
//! | `text` | which words are in texts? |
//! | `grain_draft` | how is one grain constructed? |

mod block;
mod block_generator;
mod grain_draft;
mod people;
mod scenarios;
mod text;

use gristmill_schemas::error::GrainError;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use block::Block;
use block_generator::BlockGenerator;
use people::People;

/// Minimum number of grains of a block: the last scenario is completed.
pub const BLOCK_GRAINS: usize = 2_000;

/// The parameters of a corpus.
#[derive(Debug, Clone, Copy)]
pub struct Corpus {
    /// The seed; the same parameters give the same corpus.
    pub seed: u64,
    /// The number of people. Their activity follows Zipf's law.
    pub people: u32,
}

impl Corpus {
    /// Generates the block `number`, counted from 0.
    ///
    /// # Errors
    /// Errors of the encoding; no scenario causes one.
    pub fn block(&self, number: u64) -> Result<Block, GrainError> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        // Streams of one seed are independent of each other.
        random.set_stream(number + 1);
        BlockGenerator::new(People::new(self.people), number, random).generate(BLOCK_GRAINS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use gristmill_schemas::address::ContentAddress;
    use gristmill_schemas::container::IndexState;
    use gristmill_schemas::grain::{
        DEFAULT_PAYLOAD_LIMIT, DecodeMode, Field, Grain, GrainType, Payload,
    };

    use super::*;

    #[test]
    fn the_seed_and_the_number_determine_a_block() {
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
            let decoded = Grain::decode(&payload, DecodeMode::Strict).unwrap();
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
        assert!((400..600).contains(&average), "{average} bytes per grain");
    }

    #[test]
    fn a_split_block_has_no_states_of_later_grains() {
        let mut block = Corpus {
            seed: 7,
            people: 1_000,
        }
        .block(0)
        .unwrap();
        let states = block.states.len();
        let rest = block.split_off(700);
        let first: HashSet<_> = block.grains.iter().map(|grain| grain.address).collect();
        let is_of_first_part = |(address, state): &(ContentAddress, IndexState)| {
            first.contains(address)
                && state
                    .superseded_by
                    .is_none_or(|successor| first.contains(&successor))
        };
        assert!(!block.states.is_empty() && block.states.iter().all(is_of_first_part));
        assert_eq!(block.states.len() + rest.states.len(), states);
        assert!(!rest.states.iter().any(is_of_first_part));
    }

    #[test]
    fn a_withdrawal_names_its_consent() {
        let block = Corpus {
            seed: 7,
            people: 1_000,
        }
        .block(1)
        .unwrap();
        let mut withdrawals = 0;
        for grain in &block.grains {
            let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
            let decoded = Grain::decode(&payload, DecodeMode::Strict).unwrap();
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

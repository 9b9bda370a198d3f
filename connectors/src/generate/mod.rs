//! A seeded generator of realistic corpora of any size, for benchmarks and for trying the tool.
//!
//! The grains are the memory of an invented cooperative with bicycle hire, a clinic, a bank, smart
//! homes and a team of developers, in eighteen towns and four languages. Texts are templates
//! (`script`) with slots for names, places, dates, codes and personal data; the latter is labelled.
//!
//! A corpus is a sequence of blocks of grains. A block depends only on the seed, the number of
//! people and its own number, so blocks can be generated in parallel, and a corpus of a million
//! grains begins with that of a thousand. Grains refer only to grains of their own block.
//!
//! | module | question |
//! |---|---|
//! | `block` | what is a block, and how is it split? |
//! | `block_generator` | which scenarios are in a block, and when do they take place? |
//! | `conversations` | which grains does a scene of a script leave? |
//! | `beliefs` | which facts, changes of facts, consents and holds are there? |
//! | `scenarios` | which grains do goals, sensors, workflows and the like leave? |
//! | `people` | who are the users, and how active is each? |
//! | `names` | in which towns do they live, and what are they called there? |
//! | `personal_data`, `national_ids`, `check_digits` | which identifiers do they have? |
//! | `script` | which scenes and sentences does a language have? |
//! | `text`, `slots`, `calendar` | how is a template filled? |
//! | `draws` | how are choices in texts made? |
//! | `grain_draft` | how is one grain constructed? |

mod beliefs;
mod block;
mod block_generator;
mod calendar;
mod check_digits;
mod conversations;
mod draws;
mod grain_draft;
mod names;
mod national_ids;
mod people;
mod personal_data;
mod scenarios;
mod script;
mod slots;
#[cfg(test)]
mod tests;
mod text;

use gristmill_schemas::error::GrainError;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use block::{Block, Label};
use block_generator::BlockGenerator;
use people::People;

/// The time of the first block by default: 2025-01-01, in milliseconds since 1970.
const EPOCH_MS: i64 = 1_735_689_600_000;

/// The time between two blocks, in milliseconds.
const BLOCK_MS: i64 = 6 * 3_600_000;

/// Number of blocks after which the times begin anew.
const BLOCKS_PER_CYCLE: i64 = 2_000;

/// Minimum number of grains of a block: the last scenario is completed.
pub const BLOCK_GRAINS: usize = 2_000;

/// The parameters of a corpus.
#[derive(Debug, Clone, Copy)]
pub struct Corpus {
    /// The seed; the same parameters give the same corpus.
    pub seed: u64,
    /// The number of people. Their activity follows Zipf's law.
    pub people: u32,
    /// The time of the first block, in milliseconds since 1970.
    pub begin_ms: i64,
}

impl Corpus {
    /// Returns the corpus of a seed and a number of people that begins with the year 2025.
    pub const fn new(seed: u64, people: u32) -> Self {
        Corpus {
            seed,
            people,
            begin_ms: EPOCH_MS,
        }
    }

    /// Generates the block `number`, counted from 0.
    ///
    /// # Errors
    /// Errors of the encoding; no scenario causes one.
    pub fn block(&self, number: u64) -> Result<Block, GrainError> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        // Streams of one seed are independent of each other.
        random.set_stream(number + 1);
        let now_ms = self.begin_ms + (number as i64 % BLOCKS_PER_CYCLE) * BLOCK_MS;
        BlockGenerator::new(People::new(self.people), number, now_ms, random).generate(BLOCK_GRAINS)
    }
}

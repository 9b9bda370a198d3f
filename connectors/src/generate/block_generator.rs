//! Generation of one block: which scenarios it consists of, and when they take place.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::GrainType;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use super::block::{Block, Label};
use super::draws::Draws;
use super::grain_draft::GrainDraft;
use super::people::{People, Person};
use super::text::{TextContext, TextWriter};

/// Maximum time between two grains, in seconds.
const MAX_PAUSE_S: i64 = 20;

/// Generates the scenarios of a block.
pub(super) struct BlockGenerator {
    people: People,
    pub(super) text: TextWriter,
    pub(super) random: ChaCha8Rng,
    /// Choices in texts; begins anew with each scene.
    draws: Draws,
    /// Determines the values of the current scene's slots.
    scene: u64,
    /// The current time, in milliseconds since 1970.
    pub(super) now_ms: i64,
    /// The number of the block.
    pub(super) number: u64,
    pub(super) block: Block,
}

impl BlockGenerator {
    /// Begins the block `number` at `now_ms`.
    pub(super) fn new(people: People, number: u64, now_ms: i64, random: ChaCha8Rng) -> Self {
        BlockGenerator {
            people,
            text: TextWriter::default(),
            random,
            draws: Draws::new(0),
            scene: 0,
            now_ms,
            number,
            block: Block::default(),
        }
    }

    /// Generates scenarios until the block has at least `grains` grains.
    pub(super) fn generate(mut self, grains: usize) -> Result<Block, GrainError> {
        while self.block.grains.len() < grains {
            let person = self.people.sample(&mut self.random);
            self.begin_scene();
            match self.random.random_range(0..100) {
                0..50 => self.conversation(&person)?,
                50..68 => self.beliefs(&person)?,
                68..74 => self.sensor_series(&person)?,
                74..82 => self.goal(&person)?,
                82..88 => self.consent(&person)?,
                88..93 => self.state_snapshot(&person)?,
                93..96 => self.workflow(&person)?,
                _ => self.consensus(&person)?,
            }
        }
        Ok(self.block)
    }

    /// Picks an item at random.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.random.random_range(0..items.len())]
    }

    /// Begins a scene: slots get new values.
    pub(super) fn begin_scene(&mut self) {
        self.scene = self.random.next_u64();
        self.draws = Draws::new(self.scene);
        self.text.begin_scene();
    }

    /// Returns the text of a template.
    pub(super) fn write(&mut self, person: &Person, template: &'static str) -> String {
        let context = TextContext {
            person,
            now_ms: self.now_ms,
            scene: self.scene,
        };
        self.text.text(&context, &mut self.draws, template)
    }

    /// Returns the text of one of `templates`, empty if there are none.
    pub(super) fn write_one(&mut self, person: &Person, templates: &[&'static str]) -> String {
        let template = self.draws.even(templates).unwrap_or_default();
        self.write(person, template)
    }

    /// Advances the time at random and begins a grain.
    pub(super) fn draft(&mut self, kind: GrainType, person: &Person) -> GrainDraft {
        self.now_ms += self.random.random_range(1..=MAX_PAUSE_S * 1_000);
        GrainDraft::new(kind, person, self.now_ms)
    }

    /// Encodes a grain and adds it to the block.
    pub(super) fn add(&mut self, draft: GrainDraft) -> Result<ContentAddress, GrainError> {
        let grain = draft.encode()?;
        let address = grain.address;
        self.block.grains.push(grain);
        let planted = self.text.take_planted().into_iter();
        self.block.labels.extend(planted.map(|data| Label {
            address,
            kind: data.kind,
            value: data.value,
        }));
        Ok(address)
    }
}

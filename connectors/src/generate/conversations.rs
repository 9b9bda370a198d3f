//! Conversations: the grains that a scene of a script leaves.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{Field, GrainType, Value};
use rand::RngExt;

use super::block_generator::BlockGenerator;
use super::grain_draft::{GrainDraft, map};
use super::people::Person;
use super::scenarios::department;
use super::script::{FactTemplate, SceneStep, script};

/// Models, the most used first.
pub(super) const MODELS: [&str; 4] = [
    "anthropic:claude-sonnet-4-6",
    "openai:gpt-5",
    "openai:gpt-5-mini",
    "anthropic:claude-haiku-4-5",
];

/// Calls of a hundred that fail at first and are repeated.
const SLIPS: u32 = 6;

/// Bytes of text per token, about.
const BYTES_PER_TOKEN: usize = 4;

type Result<T = ()> = std::result::Result<T, GrainError>;

/// A dialogue so far.
pub(super) struct Dialogue {
    session: String,
    model: &'static str,
    parent: Option<ContentAddress>,
    /// The last call without a result: its grain and id.
    call: Option<(ContentAddress, String)>,
    /// The last fact.
    fact: Option<ContentAddress>,
    /// Bytes of the messages and results so far.
    length: usize,
}

impl BlockGenerator {
    /// Begins a dialogue.
    pub(super) fn begin_conversation(&mut self) -> Dialogue {
        Dialogue {
            session: format!("sess-{}-{}", self.number, self.block.grains.len()),
            model: self.pick(&MODELS),
            parent: None,
            call: None,
            fact: None,
            length: 4_000,
        }
    }

    /// A scene of the department that serves `person`.
    pub(super) fn conversation(&mut self, person: &Person) -> Result {
        let scenes = &department(person).scenes;
        let scene = &scenes[self.random.random_range(0..scenes.len())];
        let mut dialogue = self.begin_conversation();
        let is_long = self.random.random_bool(0.5);
        for line in scene {
            if is_long || !line.optional {
                self.play(&line.step, &mut dialogue, person)?;
            }
        }
        Ok(())
    }

    /// Adds the grains of one step.
    fn play(
        &mut self,
        step: &'static SceneStep,
        dialogue: &mut Dialogue,
        person: &Person,
    ) -> Result {
        match step {
            SceneStep::User(text) => {
                let mut content = self.write(person, text);
                self.push_asides(person, &mut content);
                self.message(dialogue, person, true, content)?;
            }
            SceneStep::Agent(text) => {
                let content = self.write(person, text);
                self.message(dialogue, person, false, content)?;
            }
            SceneStep::Think { text, conclusion } => {
                self.reasoning(dialogue, person, (text, conclusion))?;
            }
            SceneStep::Fact(fact) | SceneStep::Then(fact) => {
                let is_change = matches!(step, SceneStep::Then(_));
                self.play_fact(fact, is_change, dialogue, person)?;
            }
            SceneStep::Call { .. } | SceneStep::Done(_) | SceneStep::Fail { .. } => {
                self.play_tool(step, dialogue, person)?;
            }
        }
        Ok(())
    }

    /// Adds the grain of a call or of its result.
    fn play_tool(
        &mut self,
        step: &'static SceneStep,
        dialogue: &mut Dialogue,
        person: &Person,
    ) -> Result {
        match step {
            SceneStep::Call { tool, input } => {
                if self.random.random_ratio(SLIPS, 100) {
                    self.slip(dialogue, person, (tool, input))?;
                }
                self.call(dialogue, person, (tool, input))?;
            }
            SceneStep::Done(text) => {
                let content = self.write(person, text);
                self.result(dialogue, person, content, None)?;
            }
            SceneStep::Fail { kind, text } => {
                let content = self.write(person, text);
                self.result(dialogue, person, content, Some(kind))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a fact, which supersedes the last one if it `is_change`.
    fn play_fact(
        &mut self,
        fact: &FactTemplate,
        is_change: bool,
        dialogue: &mut Dialogue,
        person: &Person,
    ) -> Result {
        let object = self.write(person, fact.object);
        let sources = dialogue.fact.into_iter().chain(dialogue.parent);
        let sources: Vec<_> = sources.collect();
        let draft = self.belief(person, fact, object);
        dialogue.fact = Some(match is_change {
            true => self.add_successor(draft, &sources)?,
            false => self.add(draft)?,
        });
        Ok(())
    }

    /// Appends up to two sentences that a person adds to a message.
    fn push_asides(&mut self, person: &Person, content: &mut String) {
        let asides = &department(person).asides;
        let first = self.random.random_range(0..asides.len().max(1));
        for at in 0..self.random.random_range(0..3) {
            if let Some(aside) = asides.get((first + at) % asides.len()) {
                content.push(' ');
                content.push_str(&self.write(person, aside));
            }
        }
    }

    /// Adds a message and returns its address.
    pub(super) fn message(
        &mut self,
        dialogue: &mut Dialogue,
        person: &Person,
        is_user: bool,
        content: String,
    ) -> Result<ContentAddress> {
        dialogue.length += content.len();
        let length = content.len();
        let mut draft = self
            .draft(GrainType::Event, person)
            .about(person)
            .with(Field::SessionId, dialogue.session.clone())
            .with(Field::Role, if is_user { "user" } else { "assistant" })
            .with(Field::Content, content)
            .with(Field::Importance, self.importance());
        if let Some(parent) = dialogue.parent {
            draft = draft.with(Field::ParentMessageId, parent.to_string());
        }
        if !is_user {
            draft = self.with_response_metadata(draft, dialogue, length);
        }
        let address = self.add(draft)?;
        dialogue.parent = Some(address);
        Ok(address)
    }

    /// Returns the importance of a message, from 0.1 to 1.
    fn importance(&mut self) -> f64 {
        f64::from(self.random.random_range(1..=10)) / 10.0
    }

    fn with_response_metadata(
        &mut self,
        draft: GrainDraft,
        dialogue: &Dialogue,
        length: usize,
    ) -> GrainDraft {
        let tokens = |bytes: usize| (bytes / BYTES_PER_TOKEN) as i64;
        let input = tokens(dialogue.length);
        let cached = self.random.random_range(0..=input / 2);
        let usage = [
            ("input_tokens", Value::from(input)),
            (
                "output_tokens",
                Value::from(tokens(length) + self.random.random_range(8..90i64)),
            ),
            ("cache_read_tokens", Value::from(cached)),
        ];
        draft
            .with(Field::ModelId, dialogue.model)
            .with(Field::StopReason, "end_turn")
            .with(Field::TokenUsage, map(usage))
    }

    /// Adds a call that fails and will be repeated.
    fn slip(
        &mut self,
        dialogue: &mut Dialogue,
        person: &Person,
        (tool, input): (&'static str, &[(&'static str, &'static str)]),
    ) -> Result {
        self.call(dialogue, person, (tool, input))?;
        let slips = &script(person.town.language).common.slips;
        if let Some((text, kind)) = slips.get(self.random.random_range(0..slips.len().max(1))) {
            self.text.bind("tool", tool, &[]);
            let content = self.write(person, text);
            self.result(dialogue, person, content, Some(kind))?;
        }
        Ok(())
    }

    fn call(
        &mut self,
        dialogue: &mut Dialogue,
        person: &Person,
        (tool, input): (&'static str, &[(&'static str, &'static str)]),
    ) -> Result {
        let call_id = format!("toolu_{:012x}", self.random.random_range(0..1u64 << 48));
        let input = self.input_of(person, input);
        let draft = self
            .draft(GrainType::Action, person)
            .about(person)
            .with(Field::SessionId, dialogue.session.clone())
            .with(Field::ActionPhase, "call")
            .with(Field::ToolName, tool)
            .with(Field::ToolCallId, call_id.clone())
            .with(Field::Input, map(input));
        dialogue.call = Some((self.add(draft)?, call_id));
        Ok(())
    }

    /// Fills the templates of a tool's input.
    fn input_of(
        &mut self,
        person: &Person,
        input: &[(&'static str, &'static str)],
    ) -> Vec<(&'static str, Value<'static>)> {
        let filled = input.iter();
        filled
            .map(|(name, template)| (*name, self.write(person, template).into()))
            .collect()
    }

    /// Adds the result of the last call, or its error.
    fn result(
        &mut self,
        dialogue: &mut Dialogue,
        person: &Person,
        content: String,
        error: Option<&'static str>,
    ) -> Result {
        let Some((call, call_id)) = dialogue.call.take() else {
            return Ok(());
        };
        dialogue.length += content.len();
        let slowest = if error == Some("timeout") {
            40_000
        } else {
            4_000
        };
        let mut draft = self
            .draft(GrainType::Action, person)
            .about(person)
            .with(Field::SessionId, dialogue.session.clone())
            .with(Field::ActionPhase, "result")
            .with(Field::ToolCallId, call_id)
            .with(Field::Content, content)
            .with(Field::IsError, error.is_some())
            .with(
                Field::DurationMs,
                self.random.random_range(slowest / 800..slowest) as i64,
            )
            .with(Field::DerivedFrom, vec![call.to_string()]);
        if let Some(error) = error {
            draft = draft.with(Field::ErrorType, error);
        }
        self.add(draft).map(|_| ())
    }

    fn reasoning(
        &mut self,
        dialogue: &Dialogue,
        person: &Person,
        (text, conclusion): (&'static str, &'static str),
    ) -> Result {
        let thinking = self.write(person, text);
        let conclusion = self.write(person, conclusion);
        let premises: Vec<_> = dialogue.parent.iter().map(ToString::to_string).collect();
        let draft = self
            .draft(GrainType::Reasoning, person)
            .about(person)
            .with(Field::SessionId, dialogue.session.clone())
            .with(Field::InferenceMethod, "inductive")
            .with(Field::ThinkingContent, thinking)
            .with(Field::Conclusion, conclusion)
            .with(Field::Premises, premises);
        self.add(draft).map(|_| ())
    }
}

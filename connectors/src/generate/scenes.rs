//! Scenes of an agent's life, and the grains that each leaves.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{IndexState, VerificationStatus};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{Field, GrainType, Value};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::Block;
use super::grains::{Draft, map};
use super::people::{People, Person};
use super::words::Words;

/// When the first block begins: 2025-01-01, in milliseconds since 1970.
const EPOCH: i64 = 1_735_689_600_000;

/// Milliseconds that a block lasts.
const BLOCK_TIME: i64 = 6 * 3_600_000;

const RELATIONS: &[&str] = &[
    "prefers",
    "works_at",
    "lives_in",
    "mg:prefers",
    "mg:knows",
    "uses",
    "speaks",
    "owns",
    "avoids",
];
const TOOLS: &[&str] = &[
    "web_search",
    "get_weather",
    "sql_query",
    "send_email",
    "calendar_lookup",
    "read_file",
    "create_ticket",
];
const MODELS: &[&str] = &[
    "anthropic:claude-sonnet-4-6",
    "openai:gpt-5",
    "openai:gpt-5-mini",
    "anthropic:claude-haiku-4-5",
];
const SENSORS: &[(&str, f64, &str)] = &[
    ("temperature", 21.5, "C"),
    ("pressure", 1013.0, "hPa"),
    ("accelerometer", 0.2, "g"),
];
const TAGS: &[&str] = &[
    "ui",
    "billing",
    "support",
    "pii:name",
    "pii:email",
    "reg:gdpr-art17",
    "profile:consumer",
    "work",
];
const SCOPES: &[&str] = &["store", "retrieve", "share", "process", "train", "profile"];

/// Plays scenes into a block.
pub(super) struct Scenes {
    people: People,
    words: Words,
    random: ChaCha8Rng,
    /// The time on the stage, in milliseconds since 1970.
    now: i64,
    number: u64,
    block: Block,
}

type Done = Result<(), GrainError>;

impl Scenes {
    pub(super) fn new(people: People, number: u64, random: ChaCha8Rng) -> Self {
        let now = EPOCH + (number as i64 % 2_000) * BLOCK_TIME;
        Scenes {
            people,
            words: Words::new(),
            random,
            now,
            number,
            block: Block::default(),
        }
    }

    /// Plays scenes until the block has `grains` grains.
    pub(super) fn play(mut self, grains: usize) -> Result<Block, GrainError> {
        while self.block.grains.len() < grains {
            let person = self.people.somebody(&mut self.random);
            match self.random.random_range(0..100) {
                0..45 => self.conversation(&person)?,
                45..63 => self.belief(&person)?,
                63..74 => self.sensor_series(&person)?,
                74..82 => self.task(&person)?,
                82..88 => self.consent(&person)?,
                88..93 => self.snapshot(&person)?,
                93..96 => self.lesson(&person)?,
                _ => self.vote(&person)?,
            }
        }
        Ok(self.block)
    }

    fn later(&mut self, up_to_seconds: i64) -> i64 {
        self.now += self.random.random_range(1..=up_to_seconds * 1_000);
        self.now
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.random_range(0..from.len())]
    }

    fn draft(&mut self, kind: GrainType, person: &Person) -> Draft {
        let at = self.later(20);
        Draft::new(kind, person, at)
    }

    fn add(&mut self, draft: Draft) -> Result<ContentAddress, GrainError> {
        let grain = draft.encode()?;
        let address = grain.address;
        self.block.grains.push(grain);
        Ok(address)
    }

    /// A thread of messages, with tool calls and thinking in between.
    fn conversation(&mut self, person: &Person) -> Done {
        let session = format!("sess-{}-{}", self.number, self.block.grains.len());
        let model = self.pick(MODELS);
        let mut parent: Option<ContentAddress> = None;
        for turn in 0..self.random.random_range(2..10) {
            let user = turn % 2 == 0;
            let length = if user { 26 } else { 72 };
            let content = self.words.text(&mut self.random, length);
            let mut draft = self
                .draft(GrainType::Event, person)
                .about(person)
                .with(Field::SessionId, session.clone())
                .with(Field::Role, if user { "user" } else { "assistant" })
                .with(Field::Content, content)
                .with(
                    Field::Importance,
                    f64::from(self.random.random_range(1..=10)) / 10.0,
                );
            if let Some(parent) = parent {
                draft = draft.with(Field::ParentMessageId, parent.to_string());
            }
            if !user {
                let usage = [("input_tokens", 40, 4_000), ("output_tokens", 20, 900)];
                let usage = usage.map(|(name, low, high)| {
                    (
                        name,
                        Value::from(self.random.random_range(low..high) as i64),
                    )
                });
                draft = draft
                    .with(Field::ModelId, model)
                    .with(Field::StopReason, "end_turn")
                    .with(Field::TokenUsage, map(usage));
            }
            let message = self.add(draft)?;
            parent = Some(message);
            if !user && self.random.random_bool(0.35) {
                self.tool_call(person, &session)?;
            } else if !user && self.random.random_bool(0.15) {
                self.thought(person, &session, message)?;
            }
        }
        Ok(())
    }

    fn tool_call(&mut self, person: &Person, session: &str) -> Done {
        let tool = self.pick(TOOLS);
        let call_id = format!("toolu_{:012x}", self.random.random_range(0..1u64 << 48));
        let input = map([
            ("query", self.words.sentence(&mut self.random, 6).into()),
            ("limit", Value::from(10i64)),
        ]);
        let call = self
            .draft(GrainType::Action, person)
            .about(person)
            .with(Field::SessionId, session.to_owned())
            .with(Field::ActionPhase, "call")
            .with(Field::ToolName, tool)
            .with(Field::ToolCallId, call_id.clone())
            .with(Field::Input, input);
        let call = self.add(call)?;
        let failed = self.random.random_bool(0.06);
        let content = self.words.text(&mut self.random, 48);
        let mut result = self
            .draft(GrainType::Action, person)
            .about(person)
            .with(Field::SessionId, session.to_owned())
            .with(Field::ActionPhase, "result")
            .with(Field::ToolCallId, call_id)
            .with(Field::Content, content)
            .with(Field::IsError, failed)
            .with(Field::DurationMs, self.random.random_range(5..4_000) as i64)
            .with(Field::DerivedFrom, vec![call.to_string()]);
        if failed {
            result = result.with(Field::ErrorType, "timeout");
        }
        self.add(result).map(|_| ())
    }

    fn thought(&mut self, person: &Person, session: &str, about: ContentAddress) -> Done {
        let thinking = self.words.text(&mut self.random, 80);
        let conclusion = self.words.sentence(&mut self.random, 8);
        let draft = self
            .draft(GrainType::Reasoning, person)
            .about(person)
            .with(Field::SessionId, session.to_owned())
            .with(Field::InferenceMethod, "inductive")
            .with(Field::ThinkingContent, thinking)
            .with(Field::Conclusion, conclusion)
            .with(Field::Premises, vec![about.to_string()]);
        self.add(draft).map(|_| ())
    }

    /// A belief about a person, perhaps changed later on.
    fn belief(&mut self, person: &Person) -> Done {
        let relation = self.pick(RELATIONS);
        let versions = if self.random.random_bool(0.15) {
            self.random.random_range(2..5)
        } else {
            1
        };
        let mut previous: Option<ContentAddress> = None;
        for _ in 0..versions {
            let object = self
                .words
                .sentence(&mut self.random, 4)
                .trim_end_matches('.')
                .to_lowercase();
            let tags: Vec<_> = (0..self.random.random_range(0..3))
                .map(|_| self.pick(TAGS))
                .collect();
            let mut draft = self
                .draft(GrainType::Belief, person)
                .about(person)
                .with(Field::Subject, person.name.clone())
                .with(Field::Relation, relation)
                .with(Field::Object, object)
                .with(
                    Field::Confidence,
                    f64::from(self.random.random_range(40..=100)) / 100.0,
                )
                .with(
                    Field::SourceType,
                    self.pick(&["user_explicit", "llm_generated", "consolidated"]),
                )
                .with(Field::TimestampMs, self.now)
                .with(Field::ValidFrom, self.now - 86_400_000);
            if !tags.is_empty() {
                draft = draft.with(Field::StructuralTags, tags);
            }
            if let Some(previous) = previous {
                let link = map([
                    ("h", previous.to_string().into()),
                    ("rl", "replaces".into()),
                    ("w", Value::from(1.0)),
                ]);
                draft = draft
                    .with(Field::DerivedFrom, vec![previous.to_string()])
                    .with(Field::RelatedTo, vec![link]);
            }
            let address = self.add(draft)?;
            if let Some(previous) = previous {
                let state = IndexState {
                    superseded_by: Some(address),
                    system_valid_to: Some(self.now),
                    ..IndexState::default()
                };
                self.block.states.push((previous, state));
            } else if self.random.random_bool(0.03) {
                let status =
                    self.pick(&[VerificationStatus::Verified, VerificationStatus::Contested]);
                let state = IndexState {
                    verification_status: Some(status),
                    ..IndexState::default()
                };
                self.block.states.push((address, state));
            }
            previous = Some(address);
        }
        Ok(())
    }

    /// Readings of one instrument, one after another.
    fn sensor_series(&mut self, person: &Person) -> Done {
        let (sensor, base, unit) = self.pick(SENSORS);
        let id = format!("{sensor}-{:03}", self.random.random_range(0..500));
        let mut value = base;
        for _ in 0..self.random.random_range(5..20) {
            value += self.random.random_range(-0.5..0.5);
            let draft = self
                .draft(GrainType::Observation, person)
                .with(Field::ObserverId, id.clone())
                .with(Field::ObserverType, sensor)
                .with(Field::ObservationMode, "active")
                .with(Field::ObservationScope, "point")
                .with(
                    Field::Subject,
                    format!("room-{}", self.random.random_range(1..40)),
                )
                .with(Field::Relation, "mg:perceives")
                .with(Field::Object, format!("{value:.2} {unit}"))
                .with(Field::Confidence, 0.99)
                .with(Field::SourceType, "sensor")
                .with(Field::TimestampMs, self.now);
            self.add(draft)?;
        }
        Ok(())
    }

    /// A goal that is set and, most times, reached.
    fn task(&mut self, person: &Person) -> Done {
        let description = self.words.sentence(&mut self.random, 10);
        let criteria = vec![
            self.words.sentence(&mut self.random, 6),
            self.words.sentence(&mut self.random, 6),
        ];
        let goal = |scene: &mut Self, state: &'static str| {
            scene
                .draft(GrainType::Goal, person)
                .about(person)
                .with(Field::Description, description.clone())
                .with(Field::GoalState, state)
                .with(Field::Criteria, criteria.clone())
                .with(Field::Priority, scene.random.random_range(1..5) as i64)
                .with(Field::AssignedAgent, person.agent.clone())
                .with(Field::Deadline, scene.now + 7 * 86_400_000)
        };
        let active = goal(self, "active");
        let active = self.add(active)?;
        if self.random.random_bool(0.7) {
            let satisfied = goal(self, "satisfied")
                .with(Field::DerivedFrom, vec![active.to_string()])
                .with(Field::Progress, 1.0);
            let satisfied = self.add(satisfied)?;
            let state = IndexState {
                superseded_by: Some(satisfied),
                system_valid_to: Some(self.now),
                ..IndexState::default()
            };
            self.block.states.push((active, state));
        }
        Ok(())
    }

    /// A consent, perhaps withdrawn, and a belief that rests on it.
    fn consent(&mut self, person: &Person) -> Done {
        let scope: Vec<_> = SCOPES
            .iter()
            .copied()
            .filter(|_| self.random.random_bool(0.5))
            .chain(["store"])
            .collect();
        let jurisdiction = self.pick(&["eu", "us_ccpa", "br_lgpd"]);
        let draft = |scene: &mut Self, withdrawal: bool| {
            scene
                .draft(GrainType::Consent, person)
                .about(person)
                .with(Field::SubjectDid, person.did.clone())
                .with(Field::GranteeDid, person.agent.clone())
                .with(Field::Scope, scope.clone())
                .with(Field::IsWithdrawal, withdrawal)
                .with(Field::Basis, "explicit_consent")
                .with(Field::Jurisdiction, jurisdiction)
        };
        let grant = draft(self, false);
        let grant = self.add(grant)?;
        let policy = map([("mode", "consent_cascade".into())]);
        let object = self.words.word(&mut self.random);
        let belief = self
            .draft(GrainType::Belief, person)
            .about(person)
            .with(Field::Subject, person.name.clone())
            .with(Field::Relation, "mg:prefers")
            .with(Field::Object, object)
            .with(Field::Confidence, 0.8)
            .with(Field::ProcessingBasis, grant.to_string())
            .with(Field::InvalidationPolicy, policy)
            .with(Field::StructuralTags, vec!["pii:name"]);
        self.add(belief)?;
        if self.random.random_bool(0.2) {
            let withdrawal = draft(self, true).with(Field::PriorConsent, grant.to_string());
            self.add(withdrawal)?;
        }
        Ok(())
    }

    /// A save point of an agent.
    fn snapshot(&mut self, person: &Person) -> Done {
        let memory = map([
            ("persona", self.words.text(&mut self.random, 30).into()),
            (
                "human",
                format!("{} ({})", person.name, person.user_id).into(),
            ),
        ]);
        let context = map([
            ("memory_blocks", memory),
            ("model", self.pick(MODELS).into()),
            ("step", "3".into()),
        ]);
        let plan: Vec<_> = (0..3)
            .map(|_| self.words.sentence(&mut self.random, 5))
            .collect();
        let draft = self
            .draft(GrainType::State, person)
            .about(person)
            .with(Field::Context, context)
            .with(Field::Plan, plan);
        self.add(draft).map(|_| ())
    }

    /// A way of working that was learned.
    fn lesson(&mut self, person: &Person) -> Done {
        let steps: Vec<_> = (0..self.random.random_range(2..6))
            .map(|_| self.words.sentence(&mut self.random, 6))
            .collect();
        let trigger = format!("on:{}", self.words.word(&mut self.random));
        let draft = self
            .draft(GrainType::Workflow, person)
            .with(Field::Steps, steps)
            .with(Field::Trigger, trigger)
            .with(Field::SuccessCount, self.random.random_range(0..50) as i64);
        self.add(draft).map(|_| ())
    }

    /// An agreement of several agents.
    fn vote(&mut self, person: &Person) -> Done {
        let observers: Vec<_> = (0..4)
            .map(|number| format!("{}-{number}", person.agent))
            .collect();
        let agreed = self.random.random_range(2..=4i64);
        let claim = self.words.sentence(&mut self.random, 8);
        let draft = self
            .draft(GrainType::Consensus, person)
            .with(Field::ParticipatingObservers, observers)
            .with(Field::Threshold, 3i64)
            .with(Field::AgreementCount, agreed)
            .with(Field::DissentCount, 4 - agreed)
            .with(Field::AgreedContent, claim);
        self.add(draft).map(|_| ())
    }
}

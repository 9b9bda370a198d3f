//! Scenarios of an agent's work, and the grains that each leaves.
//!
//! Every random number is drawn in a fixed order, which is part of the format of a corpus: a change
//! of the order changes all corpora.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{IndexState, VerificationStatus};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{Field, GrainType, Value};
use rand::RngExt;

use super::block_generator::BlockGenerator;
use super::grain_draft::{GrainDraft, map};
use super::people::Person;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

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

type Result<T = ()> = std::result::Result<T, GrainError>;

/// Conversations.
impl BlockGenerator {
    /// A thread of messages, with tool calls and reasoning in between.
    pub(super) fn conversation(&mut self, person: &Person) -> Result {
        let session = format!("sess-{}-{}", self.number, self.block.grains.len());
        let model = self.pick(MODELS);
        let mut parent: Option<ContentAddress> = None;
        for turn in 0..self.random.random_range(2..10) {
            let is_user = turn % 2 == 0;
            let mut draft = self.message(person, &session, is_user);
            if let Some(parent) = parent {
                draft = draft.with(Field::ParentMessageId, parent.to_string());
            }
            if is_user {
                parent = Some(self.add(draft)?);
                continue;
            }
            let draft = self.with_response_metadata(draft, model);
            let message = self.add(draft)?;
            parent = Some(message);
            self.steps_of_answer(person, &session, message)?;
        }
        Ok(())
    }

    /// Adds a tool call or the reasoning of some answers.
    fn steps_of_answer(
        &mut self,
        person: &Person,
        session: &str,
        message: ContentAddress,
    ) -> Result {
        if self.random.random_bool(0.35) {
            self.tool_call(person, session)?;
        } else if self.random.random_bool(0.15) {
            self.reasoning(person, session, message)?;
        }
        Ok(())
    }

    fn message(&mut self, person: &Person, session: &str, is_user: bool) -> GrainDraft {
        let words = if is_user { 26 } else { 72 };
        let content = self.text.sentences(&mut self.random, words);
        self.draft(GrainType::Event, person)
            .about(person)
            .with(Field::SessionId, session.to_owned())
            .with(Field::Role, if is_user { "user" } else { "assistant" })
            .with(Field::Content, content)
            .with(
                Field::Importance,
                f64::from(self.random.random_range(1..=10)) / 10.0,
            )
    }

    fn with_response_metadata(&mut self, draft: GrainDraft, model: &'static str) -> GrainDraft {
        let ranges = [("input_tokens", 40, 4_000), ("output_tokens", 20, 900)];
        let usage = ranges.map(|(name, low, high)| {
            let tokens = self.random.random_range(low..high) as i64;
            (name, Value::from(tokens))
        });
        draft
            .with(Field::ModelId, model)
            .with(Field::StopReason, "end_turn")
            .with(Field::TokenUsage, map(usage))
    }

    fn tool_call(&mut self, person: &Person, session: &str) -> Result {
        let tool = self.pick(TOOLS);
        let call_id = format!("toolu_{:012x}", self.random.random_range(0..1u64 << 48));
        let input = map([
            ("query", self.text.sentence(&mut self.random, 6).into()),
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
        self.tool_result(person, session, call_id, call)
    }

    fn tool_result(
        &mut self,
        person: &Person,
        session: &str,
        call_id: String,
        call: ContentAddress,
    ) -> Result {
        let is_error = self.random.random_bool(0.06);
        let content = self.text.sentences(&mut self.random, 48);
        let mut result = self
            .draft(GrainType::Action, person)
            .about(person)
            .with(Field::SessionId, session.to_owned())
            .with(Field::ActionPhase, "result")
            .with(Field::ToolCallId, call_id)
            .with(Field::Content, content)
            .with(Field::IsError, is_error)
            .with(Field::DurationMs, self.random.random_range(5..4_000) as i64)
            .with(Field::DerivedFrom, vec![call.to_string()]);
        if is_error {
            result = result.with(Field::ErrorType, "timeout");
        }
        self.add(result).map(|_| ())
    }

    fn reasoning(&mut self, person: &Person, session: &str, premise: ContentAddress) -> Result {
        let thinking = self.text.sentences(&mut self.random, 80);
        let conclusion = self.text.sentence(&mut self.random, 8);
        let draft = self
            .draft(GrainType::Reasoning, person)
            .about(person)
            .with(Field::SessionId, session.to_owned())
            .with(Field::InferenceMethod, "inductive")
            .with(Field::ThinkingContent, thinking)
            .with(Field::Conclusion, conclusion)
            .with(Field::Premises, vec![premise.to_string()]);
        self.add(draft).map(|_| ())
    }
}

/// Beliefs.
impl BlockGenerator {
    /// A belief about a person, possibly with several versions.
    pub(super) fn belief(&mut self, person: &Person) -> Result {
        let relation = self.pick(RELATIONS);
        let versions = if self.random.random_bool(0.15) {
            self.random.random_range(2..5)
        } else {
            1
        };
        let mut previous: Option<ContentAddress> = None;
        for _ in 0..versions {
            let mut draft = self.belief_version(person, relation);
            if let Some(previous) = previous {
                draft = with_predecessor(draft, previous);
            }
            let address = self.add(draft)?;
            if let Some(previous) = previous {
                self.supersede(previous, address);
            } else if self.random.random_bool(0.03) {
                self.verify(address);
            }
            previous = Some(address);
        }
        Ok(())
    }

    fn belief_version(&mut self, person: &Person, relation: &'static str) -> GrainDraft {
        let object = self
            .text
            .sentence(&mut self.random, 4)
            .trim_end_matches('.')
            .to_lowercase();
        let tags: Vec<_> = (0..self.random.random_range(0..3))
            .map(|_| self.pick(TAGS))
            .collect();
        let draft = self
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
            .with(Field::TimestampMs, self.now_ms)
            .with(Field::ValidFrom, self.now_ms - DAY_MS);
        if tags.is_empty() {
            draft
        } else {
            draft.with(Field::StructuralTags, tags)
        }
    }

    /// Adds the state of a grain that `successor` supersedes.
    fn supersede(&mut self, address: ContentAddress, successor: ContentAddress) {
        let state = IndexState {
            superseded_by: Some(successor),
            system_valid_to: Some(self.now_ms),
            ..IndexState::default()
        };
        self.block.states.push((address, state));
    }

    /// Adds the state of a grain that was verified or contested.
    fn verify(&mut self, address: ContentAddress) {
        let status = self.pick(&[VerificationStatus::Verified, VerificationStatus::Contested]);
        let state = IndexState {
            verification_status: Some(status),
            ..IndexState::default()
        };
        self.block.states.push((address, state));
    }
}

fn with_predecessor(draft: GrainDraft, previous: ContentAddress) -> GrainDraft {
    let link = map([
        ("h", previous.to_string().into()),
        ("rl", "replaces".into()),
        ("w", Value::from(1.0)),
    ]);
    draft
        .with(Field::DerivedFrom, vec![previous.to_string()])
        .with(Field::RelatedTo, vec![link])
}

/// Other scenarios.
impl BlockGenerator {
    /// A series of readings of one sensor.
    pub(super) fn sensor_series(&mut self, person: &Person) -> Result {
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
                .with(Field::TimestampMs, self.now_ms);
            self.add(draft)?;
        }
        Ok(())
    }

    /// A goal that is set and, in most cases, satisfied.
    pub(super) fn goal(&mut self, person: &Person) -> Result {
        let description = self.text.sentence(&mut self.random, 10);
        let criteria = vec![
            self.text.sentence(&mut self.random, 6),
            self.text.sentence(&mut self.random, 6),
        ];
        let draft = |generator: &mut Self, state: &'static str| {
            generator
                .draft(GrainType::Goal, person)
                .about(person)
                .with(Field::Description, description.clone())
                .with(Field::GoalState, state)
                .with(Field::Criteria, criteria.clone())
                .with(Field::Priority, generator.random.random_range(1..5) as i64)
                .with(Field::AssignedAgent, person.agent.clone())
                .with(Field::Deadline, generator.now_ms + 7 * DAY_MS)
        };
        let active = draft(self, "active");
        let active = self.add(active)?;
        if self.random.random_bool(0.7) {
            let satisfied = draft(self, "satisfied")
                .with(Field::DerivedFrom, vec![active.to_string()])
                .with(Field::Progress, 1.0);
            let satisfied = self.add(satisfied)?;
            self.supersede(active, satisfied);
        }
        Ok(())
    }

    /// A consent, possibly withdrawn, and a belief that is based on it.
    pub(super) fn consent(&mut self, person: &Person) -> Result {
        let scope: Vec<_> = SCOPES
            .iter()
            .copied()
            .filter(|_| self.random.random_bool(0.5))
            .chain(["store"])
            .collect();
        let jurisdiction = self.pick(&["eu", "us_ccpa", "br_lgpd"]);
        let draft = |generator: &mut Self, is_withdrawal: bool| {
            generator
                .draft(GrainType::Consent, person)
                .about(person)
                .with(Field::SubjectDid, person.did.clone())
                .with(Field::GranteeDid, person.agent.clone())
                .with(Field::Scope, scope.clone())
                .with(Field::IsWithdrawal, is_withdrawal)
                .with(Field::Basis, "explicit_consent")
                .with(Field::Jurisdiction, jurisdiction)
        };
        let grant = draft(self, false);
        let grant = self.add(grant)?;
        self.consented_belief(person, grant)?;
        if self.random.random_bool(0.2) {
            let withdrawal = draft(self, true).with(Field::PriorConsent, grant.to_string());
            self.add(withdrawal)?;
        }
        Ok(())
    }

    fn consented_belief(&mut self, person: &Person, grant: ContentAddress) -> Result {
        let policy = map([("mode", "consent_cascade".into())]);
        let object = self.text.word(&mut self.random);
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
        self.add(belief).map(|_| ())
    }

    /// A snapshot of the state of an agent.
    pub(super) fn state_snapshot(&mut self, person: &Person) -> Result {
        let memory = map([
            ("persona", self.text.sentences(&mut self.random, 30).into()),
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
            .map(|_| self.text.sentence(&mut self.random, 5))
            .collect();
        let draft = self
            .draft(GrainType::State, person)
            .about(person)
            .with(Field::Context, context)
            .with(Field::Plan, plan);
        self.add(draft).map(|_| ())
    }

    /// A learned workflow.
    pub(super) fn workflow(&mut self, person: &Person) -> Result {
        let steps: Vec<_> = (0..self.random.random_range(2..6))
            .map(|_| self.text.sentence(&mut self.random, 6))
            .collect();
        let trigger = format!("on:{}", self.text.word(&mut self.random));
        let draft = self
            .draft(GrainType::Workflow, person)
            .with(Field::Steps, steps)
            .with(Field::Trigger, trigger)
            .with(Field::SuccessCount, self.random.random_range(0..50) as i64);
        self.add(draft).map(|_| ())
    }

    /// A consensus of several agents.
    pub(super) fn consensus(&mut self, person: &Person) -> Result {
        let observers: Vec<_> = (0..4)
            .map(|number| format!("{}-{number}", person.agent))
            .collect();
        let agreed = self.random.random_range(2..=4i64);
        let claim = self.text.sentence(&mut self.random, 8);
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

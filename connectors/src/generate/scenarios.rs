//! Scenarios other than conversations and beliefs: sensors, goals, states of agents, workflows and
//! consensus.
//!
//! Every random number is drawn in a fixed order, which is part of the format of a corpus: a change
//! of the order changes all corpora.

use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{Field, GrainType};
use rand::RngExt;

use super::block_generator::BlockGenerator;
use super::conversations::MODELS;
use super::grain_draft::map;
use super::people::Person;
use super::script::{Department, Parts, script};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

const SENSORS: [(&str, f64, &str); 5] = [
    ("temperature", 21.5, "C"),
    ("humidity", 48.0, "%"),
    ("pressure", 1013.0, "hPa"),
    ("power", 7.4, "W"),
    ("accelerometer", 0.2, "g"),
];

type Result<T = ()> = std::result::Result<T, GrainError>;

/// Returns the texts of the department that serves `person`.
pub(super) fn department(person: &Person) -> &'static Department {
    &script(person.town.language).departments[person.department]
}

impl BlockGenerator {
    /// Returns the texts of one of `lines`.
    fn parts(&mut self, person: &Person, lines: &'static [Parts]) -> (String, Vec<String>) {
        let (first, rest) = &lines[self.random.random_range(0..lines.len())];
        let first = self.write(person, first);
        let rest = rest.iter().map(|part| self.write(person, part)).collect();
        (first, rest)
    }

    /// A series of readings of one sensor.
    pub(super) fn sensor_series(&mut self, person: &Person) -> Result {
        let (sensor, base, unit) = self.pick(&SENSORS);
        let room = self.write(person, "{room}");
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
                .with(Field::Subject, room.clone())
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
        let (description, criteria) = self.parts(person, &department(person).goals);
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

    /// A snapshot of the state of an agent.
    pub(super) fn state_snapshot(&mut self, person: &Person) -> Result {
        let memory = map([
            (
                "persona",
                self.write_one(person, &script(person.town.language).common.personas)
                    .into(),
            ),
            (
                "human",
                format!("{} ({})", person.name, person.user_id).into(),
            ),
        ]);
        let context = map([
            ("memory_blocks", memory),
            ("model", self.pick(&MODELS).into()),
            ("step", "3".into()),
        ]);
        let plan = self.parts(person, &department(person).workflows).1;
        let draft = self
            .draft(GrainType::State, person)
            .about(person)
            .with(Field::Context, context)
            .with(Field::Plan, plan);
        self.add(draft).map(|_| ())
    }

    /// A learned workflow.
    pub(super) fn workflow(&mut self, person: &Person) -> Result {
        let (trigger, steps) = self.parts(person, &department(person).workflows);
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
        let claim = self.write_one(person, &department(person).claims);
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

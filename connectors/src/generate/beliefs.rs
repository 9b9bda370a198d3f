//! Beliefs about people: facts that change, facts under a legal hold, and consents.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{IndexState, VerificationStatus};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{Field, GrainType, Value};
use rand::RngExt;

use super::block_generator::BlockGenerator;
use super::grain_draft::{GrainDraft, map};
use super::people::Person;
use super::personal_data::Country;
use super::script::{FactTemplate, script};
use super::text::PlantedData;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// The department whose grains mention legal disputes.
const BANK: usize = 4;

const TAGS: [&str; 6] = [
    "preferences",
    "billing",
    "support",
    "pii:name",
    "reg:gdpr-art17",
    "work",
];

const SCOPES: [&str; 6] = ["store", "retrieve", "share", "process", "train", "profile"];

type Result<T = ()> = std::result::Result<T, GrainError>;

/// A version of a fact.
struct FactVersion {
    address: ContentAddress,
    object: String,
    /// The personal data in `object`.
    planted: Vec<PlantedData>,
}

impl BlockGenerator {
    /// A fact about a person, possibly with several versions, or one under a legal hold.
    pub(super) fn beliefs(&mut self, person: &Person) -> Result {
        if person.is_on_hold() && self.random.random_bool(0.3) {
            return self.held_fact(person);
        }
        let fact = self.fact(person);
        let versions = if self.random.random_bool(0.15) {
            self.random.random_range(2..5)
        } else {
            1
        };
        let mut last = self.first_version(person, fact)?;
        if versions == 1 && self.random.random_bool(0.03) {
            self.verify(last.address);
        }
        for _ in 1..versions {
            last = self.changed_fact(person, fact, last)?;
        }
        Ok(())
    }

    /// Adds the first version of a fact.
    fn first_version(&mut self, person: &Person, fact: &FactTemplate) -> Result<FactVersion> {
        let object = self.write(person, fact.object);
        let planted = self.text.take_planted();
        self.text.plant(planted.clone());
        let draft = self.belief(person, fact, object.clone());
        Ok(FactVersion {
            address: self.add(draft)?,
            object,
            planted,
        })
    }

    /// Adds another version of a fact, after a message that mentions the change. Returns `last` if
    /// nothing changes.
    fn changed_fact(
        &mut self,
        person: &Person,
        fact: &FactTemplate,
        last: FactVersion,
    ) -> Result<FactVersion> {
        self.begin_scene();
        let object = self.write(person, fact.object);
        let planted = self.text.take_planted();
        if object == last.object {
            return Ok(last);
        }
        self.text.bind("old", &last.object, &last.planted);
        self.text.bind("new", &object, &planted);
        let message = self.remark(person, &script(person.town.language).common.corrections)?;
        self.text.plant(planted.clone());
        let draft = self.belief(person, fact, object.clone());
        let address = self.add_successor(draft, &[last.address, message])?;
        Ok(FactVersion {
            address,
            object,
            planted,
        })
    }

    /// Picks a fact of the department of `person`.
    fn fact(&mut self, person: &Person) -> &'static FactTemplate {
        let script = script(person.town.language);
        let facts = match self.random.random_bool(0.6) {
            true => &script.departments[person.department].beliefs,
            false => &script.common.beliefs,
        };
        &facts[self.random.random_range(0..facts.len())]
    }

    /// Adds a message of a person in a conversation of its own.
    fn remark(&mut self, person: &Person, templates: &[&'static str]) -> Result<ContentAddress> {
        let content = self.write_one(person, templates);
        let mut conversation = self.begin_conversation();
        self.message(&mut conversation, person, true, content)
    }

    /// Begins a belief with the given object.
    pub(super) fn belief(
        &mut self,
        person: &Person,
        fact: &FactTemplate,
        object: String,
    ) -> GrainDraft {
        let mut tags: Vec<_> = (0..self.random.random_range(0..3))
            .map(|_| self.pick(&TAGS))
            .collect();
        tags.extend(fact.tag);
        let draft = self
            .draft(GrainType::Belief, person)
            .about(person)
            .with(Field::Subject, person.name.clone())
            .with(Field::Relation, fact.relation)
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

    /// Adds a belief that supersedes the first of `sources`.
    pub(super) fn add_successor(
        &mut self,
        draft: GrainDraft,
        sources: &[ContentAddress],
    ) -> Result<ContentAddress> {
        let sources_text: Vec<_> = sources.iter().map(ToString::to_string).collect();
        let Some((previous, text)) = sources.first().zip(sources_text.first()) else {
            return self.add(draft);
        };
        let link = map([
            ("h", text.clone().into()),
            ("rl", "replaces".into()),
            ("w", Value::from(1.0)),
        ]);
        let draft = draft
            .with(Field::DerivedFrom, sources_text)
            .with(Field::RelatedTo, vec![link]);
        let address = self.add(draft)?;
        self.supersede(*previous, address);
        Ok(address)
    }

    /// Adds the state of a grain that `successor` supersedes.
    pub(super) fn supersede(&mut self, address: ContentAddress, successor: ContentAddress) {
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

    /// A fact that must not be deleted.
    fn held_fact(&mut self, person: &Person) -> Result {
        let holds = &script(person.town.language).departments[BANK].holds;
        let Some(fact) = holds.get(self.random.random_range(0..holds.len().max(1))) else {
            return Ok(());
        };
        let object = self.write(person, fact.object);
        let draft = self
            .belief(person, fact, object)
            .with(Field::InvalidationPolicy, map([("mode", "hold".into())]));
        self.add(draft).map(|_| ())
    }

    /// A consent, possibly withdrawn, and a belief that is based on it.
    pub(super) fn consent(&mut self, person: &Person) -> Result {
        let scope: Vec<_> = SCOPES
            .iter()
            .copied()
            .filter(|_| self.random.random_bool(0.5))
            .chain(["store"])
            .collect();
        let grant = self.consent_draft(person, &scope, false);
        let grant = self.add(grant)?;
        self.consented_belief(person, grant)?;
        if self.random.random_bool(0.2) {
            self.remark(person, &script(person.town.language).common.withdrawals)?;
            let withdrawal = self
                .consent_draft(person, &scope, true)
                .with(Field::PriorConsent, grant.to_string());
            self.add(withdrawal)?;
        }
        Ok(())
    }

    fn consent_draft(
        &mut self,
        person: &Person,
        scope: &[&'static str],
        is_withdrawal: bool,
    ) -> GrainDraft {
        self.draft(GrainType::Consent, person)
            .about(person)
            .with(Field::SubjectDid, person.did.clone())
            .with(Field::GranteeDid, person.agent.clone())
            .with(Field::Scope, scope.to_vec())
            .with(Field::IsWithdrawal, is_withdrawal)
            .with(Field::Basis, "explicit_consent")
            .with(Field::Jurisdiction, jurisdiction(person.town.country))
    }

    fn consented_belief(&mut self, person: &Person, grant: ContentAddress) -> Result {
        let policy = map([("mode", "consent_cascade".into())]);
        let object = self.write(person, "{food}");
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
}

/// Returns the law that consents are given under.
const fn jurisdiction(country: Country) -> &'static str {
    match country {
        Country::UnitedStates => "us_ccpa",
        Country::Brazil => "br_lgpd",
        Country::GreatBritain => "uk",
        Country::Canada => "ca_pipeda",
        Country::India => "in_dpdp",
        Country::China => "cn_pipl",
        _ => "eu",
    }
}

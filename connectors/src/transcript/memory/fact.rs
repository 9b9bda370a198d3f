//! Facts as beliefs, and chains of their versions.

use std::collections::HashMap;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, encode_json};
use gristmill_schemas::json::{Json, Number, Object};
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::grains::{json_text, mark_time};

use crate::transcript::line::Line;
use crate::transcript::told::{Made, Told};

/// One version of a fact.
#[derive(Debug, Clone)]
pub(super) struct Fact {
    pub(super) line: Line,
    pub(super) subject: String,
    pub(super) relation: String,
    pub(super) object: String,
    pub(super) created_at: Timestamp,
    pub(super) valid_from: Option<Timestamp>,
    pub(super) valid_to: Option<Timestamp>,
    /// When it stopped being current, unless a later version took its place.
    pub(super) ended: Option<Timestamp>,
    pub(super) user_id: Option<String>,
    pub(super) run_id: Option<String>,
    pub(super) tags: Vec<String>,
    /// Texts.
    pub(super) context: Object<'static>,
}

/// How sure a system is that doesn't say: it kept the fact.
const CONFIDENCE: f64 = 1.0;

impl Fact {
    /// A fact that says nothing but itself.
    pub(super) fn new(
        line: Line,
        subject: &str,
        relation: &str,
        object: String,
        created_at: Timestamp,
    ) -> Fact {
        Fact {
            line,
            subject: subject.to_owned(),
            relation: relation.to_owned(),
            object,
            created_at,
            valid_from: None,
            valid_to: None,
            ended: None,
            user_id: None,
            run_id: None,
            tags: Vec::new(),
            context: Object::new(),
        }
    }

    /// Keeps the members of `json` that aren't in `said` under `system:`; null and empty ones say
    /// nothing.
    pub(super) fn keep(&mut self, system: &str, json: &Json, said: &[&str]) {
        for (key, value) in json
            .as_object()
            .into_iter()
            .flat_map(|object| object.iter())
        {
            let empty = match value {
                Json::Null => true,
                Json::Array(items) => items.is_empty(),
                Json::Object(members) => members.is_empty(),
                _ => false,
            };
            if !empty && !said.contains(&key) {
                self.context
                    .insert(format!("{system}:{key}"), text_of(value));
            }
        }
    }

    /// True if the two are one version, told twice.
    fn says_as(&self, other: &Fact) -> bool {
        let same_time = self.created_at == other.created_at && self.ended == other.ended;
        same_time && self.object == other.object && self.subject == other.subject
    }

    /// The grain; one that takes the place of others names them as what it is derived from (§23.1).
    fn grain(
        &self,
        supersedes: &[ContentAddress],
        namespace: Option<&str>,
    ) -> Result<EncodedGrain, GrainError> {
        let mut belief = Object::new();
        belief.insert("type", "belief");
        belief.insert("subject", self.subject.clone());
        belief.insert("relation", self.relation.clone());
        belief.insert("object", self.object.clone());
        belief.insert(
            "confidence",
            Number::from_f64(CONFIDENCE).map_or(Json::Null, Json::Number),
        );
        belief.insert("source_type", "imported");
        belief.insert("created_at", millis(self.created_at));
        for (key, moment) in [("valid_from", self.valid_from), ("valid_to", self.valid_to)] {
            if let Some(moment) = moment {
                belief.insert(key, millis(moment));
            }
        }
        for (key, text) in [("user_id", &self.user_id), ("run_id", &self.run_id)] {
            if let Some(text) = text {
                belief.insert(key, text.clone());
            }
        }
        if let Some(namespace) = namespace {
            belief.insert("namespace", namespace.to_owned());
        }
        if !supersedes.is_empty() {
            let parents = supersedes
                .iter()
                .map(|old| Json::from(old.to_string()))
                .collect::<Vec<_>>();
            belief.insert("derived_from", parents);
        }
        if !self.tags.is_empty() {
            belief.insert(
                "structural_tags",
                self.tags
                    .iter()
                    .map(|tag| Json::from(tag.clone()))
                    .collect::<Vec<_>>(),
            );
        }
        let mut context = self.context.clone();
        mark_time(self.created_at, &mut context);
        if !context.is_empty() {
            belief.insert("context", context);
        }
        encode_json(&Json::Object(belief), EncodeOptions::default())
    }
}

fn millis(moment: Timestamp) -> i64 {
    moment.micros().div_euclid(1_000)
}

/// A text as it is, any other value as JSON text.
pub(super) fn text_of(json: &Json) -> String {
    json.as_str().map_or_else(|| json_text(json), str::to_owned)
}

/// Facts by what they are versions of.
#[derive(Debug, Default)]
pub(super) struct Chains {
    order: Vec<String>,
    chains: HashMap<String, Vec<Fact>>,
}

impl Chains {
    /// Adds a version of `key`.
    pub(super) fn push(&mut self, key: String, fact: Fact) {
        let chain = self.chains.entry(key.clone()).or_default();
        if chain.is_empty() {
            self.order.push(key);
        }
        chain.push(fact);
    }

    /// The versions of `key` so far.
    pub(super) fn of(&mut self, key: &str) -> &mut [Fact] {
        self.chains
            .get_mut(key)
            .map(Vec::as_mut_slice)
            .unwrap_or_default()
    }

    /// Tells all chains, the versions of each by their times, every one taking the place of the one
    /// before it. Neighbours that say the same are one.
    pub(super) fn tell(mut self, namespace: Option<&str>, told: &mut Told) {
        for key in self.order {
            let mut versions = self.chains.remove(&key).unwrap_or_default();
            versions.sort_by_key(|version| version.created_at);
            versions.dedup_by(|later, earlier| later.says_as(earlier));
            let mut before: Option<ContentAddress> = None;
            let last = versions.len().saturating_sub(1);
            for (number, version) in versions.into_iter().enumerate() {
                let ended = version.ended.filter(|_| number == last);
                let supersedes: Vec<_> = before.into_iter().collect();
                before = tell_fact(&version, supersedes, ended, namespace, told).or(before);
            }
        }
    }
}

/// Tells a fact; answers its address unless no grain can hold it, which is told instead.
pub(super) fn tell_fact(
    fact: &Fact,
    supersedes: Vec<ContentAddress>,
    ended: Option<Timestamp>,
    namespace: Option<&str>,
    told: &mut Told,
) -> Option<ContentAddress> {
    match fact.grain(&supersedes, namespace) {
        Ok(grain) => {
            let address = grain.address;
            told.made.push(Made {
                line: fact.line.clone(),
                grain,
                supersedes,
                ended: ended.map(millis),
            });
            Some(address)
        }
        Err(error) => {
            told.faults.push(fact.line.grain_fault(&error));
            None
        }
    }
}

//! One version of a fact, encoded as a belief.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, encode_json};
use gristmill_schemas::json::{Json, Number, Object};
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::grains::{json_text, record_time_source};

use crate::transcript::line::Line;
use crate::transcript::parsed::{ParsedPart, StandaloneGrain};

/// The confidence of facts. The systems export none, but they kept the fact.
const CONFIDENCE: f64 = 1.0;

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
    /// When it stopped being current; ignored if a later version supersedes it.
    pub(super) ended_at: Option<Timestamp>,
    pub(super) user_id: Option<String>,
    pub(super) run_id: Option<String>,
    pub(super) tags: Vec<String>,
    /// All values are texts.
    pub(super) context: Object<'static>,
}

impl Fact {
    /// Returns a fact with only the required fields.
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
            ended_at: None,
            user_id: None,
            run_id: None,
            tags: Vec::new(),
            context: Object::new(),
        }
    }

    /// Adds the members of `json` to the context as `system:member`, except those in `represented`,
    /// nulls, and empty arrays and objects.
    pub(super) fn add_context(&mut self, system: &str, json: &Json, represented: &[&str]) {
        let members = json
            .as_object()
            .into_iter()
            .flat_map(|object| object.iter());
        for (key, value) in members {
            let is_empty = match value {
                Json::Null => true,
                Json::Array(items) => items.is_empty(),
                Json::Object(members) => members.is_empty(),
                _ => false,
            };
            if !is_empty && !represented.contains(&key) {
                self.context
                    .insert(format!("{system}:{key}"), text_of(value));
            }
        }
    }

    /// Returns true if the two are the same version, exported twice.
    pub(super) fn is_same_version(&self, other: &Fact) -> bool {
        self.created_at == other.created_at
            && self.ended_at == other.ended_at
            && self.object == other.object
            && self.subject == other.subject
    }

    /// Encodes the fact and appends it to `part`. Returns its address, or `None` if it can't be
    /// encoded, which is a fault.
    pub(super) fn emit(
        &self,
        supersedes: Vec<ContentAddress>,
        ended_at: Option<Timestamp>,
        namespace: Option<&str>,
        part: &mut ParsedPart,
    ) -> Option<ContentAddress> {
        match self.encode(&supersedes, namespace) {
            Ok(grain) => {
                let address = grain.address;
                part.grains.push(StandaloneGrain {
                    line: self.line.clone(),
                    grain,
                    supersedes,
                    system_valid_to: ended_at.map(millis),
                });
                Some(address)
            }
            Err(error) => {
                part.faults.push(self.line.grain_fault(&error));
                None
            }
        }
    }

    /// Encodes the belief. It is derived from the grains that it supersedes (§23.1).
    fn encode(
        &self,
        supersedes: &[ContentAddress],
        namespace: Option<&str>,
    ) -> Result<EncodedGrain, GrainError> {
        let mut belief = Object::new();
        belief.insert("type", "belief");
        belief.insert("subject", self.subject.clone());
        belief.insert("relation", self.relation.clone());
        belief.insert("object", self.object.clone());
        let confidence = Number::from_f64(CONFIDENCE);
        belief.insert("confidence", confidence.map_or(Json::Null, Json::Number));
        belief.insert("source_type", "imported");
        belief.insert("created_at", millis(self.created_at));
        self.insert_optional_fields(&mut belief, namespace);
        let derived_from = supersedes.iter().map(ContentAddress::to_string);
        insert_texts(&mut belief, "derived_from", derived_from);
        insert_texts(&mut belief, "structural_tags", self.tags.iter().cloned());
        let mut context = self.context.clone();
        record_time_source(self.created_at, &mut context);
        if !context.is_empty() {
            belief.insert("context", context);
        }
        encode_json(&Json::Object(belief), EncodeOptions::default())
    }

    fn insert_optional_fields(&self, belief: &mut Object<'static>, namespace: Option<&str>) {
        for (key, time) in [("valid_from", self.valid_from), ("valid_to", self.valid_to)] {
            if let Some(time) = time {
                belief.insert(key, millis(time));
            }
        }
        let texts = [
            ("user_id", self.user_id.as_deref()),
            ("run_id", self.run_id.as_deref()),
            ("namespace", namespace),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                belief.insert(key, text.to_owned());
            }
        }
    }
}

/// Inserts a list of texts, unless it is empty.
fn insert_texts(
    belief: &mut Object<'static>,
    key: &'static str,
    texts: impl Iterator<Item = String>,
) {
    let texts: Vec<_> = texts.map(Json::from).collect();
    if !texts.is_empty() {
        belief.insert(key, texts);
    }
}

/// Returns milliseconds since 1970.
fn millis(time: Timestamp) -> i64 {
    time.micros().div_euclid(1_000)
}

/// Returns the member `key` if it is a non-empty text or a number: some exports number their ids.
pub(super) fn id_text(json: &Json, key: &str) -> Option<String> {
    match json.get(key)? {
        Json::String(text) if !text.is_empty() => Some(text.to_string()),
        Json::Number(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

/// Returns a text as it is, and any other value as JSON text.
pub(super) fn text_of(json: &Json) -> String {
    json.as_str().map_or_else(|| json_text(json), str::to_owned)
}

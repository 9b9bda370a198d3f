//! What a query yields, and the envelope that carries it (CAL 1.0, section 21; OMS 1.3, section
//! 28.1).

use gristmill_schemas::json::{Json, Number, Object};

use crate::cal::Warning;
use crate::cal::describe::VERSION;
use crate::render::{GrainView, RenderGrain};

/// A grain that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The grain.
    pub view: GrainView<'static>,
    /// How well it fits, 0 to 1; 1 where nothing was searched.
    pub score: f64,
    /// The fields that made it match.
    pub matched_fields: Vec<String>,
    /// Another grain took its place.
    pub is_superseded: bool,
    /// That grain, if the session may see it.
    pub superseded_by: Option<String>,
}

impl Hit {
    /// The content address.
    pub fn address(&self) -> &str {
        &self.view.address
    }
}

impl RenderGrain for Hit {
    fn grain_type(&self) -> crate::cal::GrainType {
        self.view.grain_type
    }

    fn address(&self) -> &str {
        &self.view.address
    }

    fn field(&self, name: &str) -> Option<&Json<'_>> {
        self.view.field(name)
    }

    fn created_at(&self) -> i64 {
        self.view.created_at()
    }

    fn score(&self) -> Option<f64> {
        Some(self.score)
    }

    fn verification_status(&self) -> Option<&str> {
        self.view.verification_status()
    }

    fn contradicted(&self) -> bool {
        self.view.contradicted
    }
}

/// One grain of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultEntry {
    /// The grain, or the fields of it that SELECT keeps.
    pub grain: Object<'static>,
    /// How well it fits.
    pub score: f64,
    /// The fields that made it match.
    pub matched_fields: Vec<String>,
    /// Its address.
    pub content_address: String,
    /// What WITH options add.
    pub notes: Object<'static>,
}

impl ResultEntry {
    fn to_json(&self) -> Json<'static> {
        let mut object = Object::new();
        object.insert("grain", self.grain.clone());
        object.insert("score", number(self.score));
        object.insert("matched_fields", texts(&self.matched_fields));
        object.insert("content_address", self.content_address.clone());
        for (key, value) in self.notes.iter() {
            object.insert(key.to_owned(), value.clone());
        }
        Json::Object(object)
    }
}

fn number(value: f64) -> Json<'static> {
    // A whole score is written without fraction.
    match value == value.trunc() {
        true => Json::from(value as i64),
        false => Number::from_f64(value).map_or(Json::Null, Json::Number),
    }
}

fn texts(items: &[String]) -> Json<'static> {
    Json::Array(items.iter().cloned().map(Json::from).collect())
}

/// What a statement yields. Parts that the statement has no answer for are absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The grains, in order.
    pub results: Vec<ResultEntry>,
    /// How many grains matched before LIMIT and OFFSET, exactly.
    pub total: u64,
    /// Fields of the results that SELECT chose.
    pub rows: Option<Vec<Object<'static>>>,
    /// A count, a truth, a list of values, a description.
    pub value: Option<Json<'static>>,
    /// Grains by the value of a field, in the order of the values.
    pub groups: Option<Vec<(String, Vec<ResultEntry>)>>,
    /// The branch of a COALESCE that had grains, counted from 0.
    pub branch: Option<usize>,
    /// The grains in the format that `AS` names.
    pub formatted: Option<String>,
    /// An assembled context and its format.
    pub context: Option<(String, String)>,
    /// How many grains of each source the context shows, by label or place.
    pub source_counts: Option<Vec<(String, usize)>>,
    /// What differs between two versions.
    pub changes: Option<Vec<Json<'static>>>,
    /// What EXPLAIN tells.
    pub plan: Option<Json<'static>>,
    /// The answers or errors of a BATCH, by label.
    pub entries: Option<Vec<(String, Json<'static>)>>,
    /// The events of a STREAM.
    pub events: Option<Vec<Json<'static>>>,
    /// What a statement that appends did.
    pub written: Option<Object<'static>>,
    /// Estimated tokens of the text that came out.
    pub tokens_used: u64,
    /// What the reader should know.
    pub warnings: Vec<Warning>,
}

impl Answer {
    /// An answer that is one value.
    pub fn of_value(value: impl Into<Json<'static>>) -> Answer {
        Answer {
            value: Some(value.into()),
            ..Answer::default()
        }
    }

    /// True if it has at least one grain, value or group, or counts one: what COALESCE looks for.
    pub fn has_grains(&self) -> bool {
        let has_value = match &self.value {
            Some(Json::Array(items)) => !items.is_empty(),
            Some(Json::Number(count)) => count.as_u64() != Some(0),
            Some(Json::Null) | None => false,
            Some(_) => true,
        };
        has_value
            || !self.results.is_empty()
            || self
                .groups
                .as_ref()
                .is_some_and(|groups| !groups.is_empty())
    }

    /// The members of the response that are the answer itself.
    pub fn to_object(&self) -> Object<'static> {
        let mut object = Object::new();
        object.insert("results", entries(&self.results));
        object.insert("total", self.total);
        object.insert("next_cursor", Json::Null);
        let mut put = |key: &'static str, value: Option<Json<'static>>| {
            if let Some(value) = value {
                object.insert(key, value);
            }
        };
        put(
            "rows",
            self.rows.as_ref().map(|rows| {
                rows.iter()
                    .cloned()
                    .map(Json::Object)
                    .collect::<Vec<_>>()
                    .into()
            }),
        );
        put("value", self.value.clone());
        put(
            "groups",
            self.groups.as_ref().map(|groups| {
                Json::Object(
                    groups
                        .iter()
                        .map(|(value, group)| (value.clone(), entries(group)))
                        .collect(),
                )
            }),
        );
        put(
            "branch",
            self.branch.map(|branch| Json::from(branch as u64)),
        );
        put("formatted", self.formatted.clone().map(Json::from));
        put(
            "formatted_context",
            self.context.as_ref().map(|(format, text)| {
                let pairs = [
                    ("text", Json::from(text.clone())),
                    ("format", Json::from(format.clone())),
                ];
                Json::Object(pairs.into_iter().collect())
            }),
        );
        put(
            "source_counts",
            self.source_counts.as_ref().map(|counts| {
                Json::Object(
                    counts
                        .iter()
                        .map(|(label, count)| (label.clone(), Json::from(*count as u64)))
                        .collect(),
                )
            }),
        );
        put("changes", self.changes.clone().map(Json::Array));
        put("plan", self.plan.clone());
        put(
            "entries",
            self.entries
                .as_ref()
                .map(|entries| Json::Object(entries.iter().cloned().collect())),
        );
        put("events", self.events.clone().map(Json::Array));
        put("written", self.written.clone().map(Json::Object));
        if !self.warnings.is_empty() {
            object.insert(
                "warnings",
                Json::Array(self.warnings.iter().map(Warning::to_json).collect()),
            );
        }
        object
    }
}

fn entries(list: &[ResultEntry]) -> Json<'static> {
    Json::Array(list.iter().map(ResultEntry::to_json).collect())
}

/// An answer with what is told about every query.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The statement, as in JSON: `recall`, `set_op`, …
    pub statement_type: &'static str,
    /// The tier that it needs.
    pub tier: u8,
    /// What audit records know the query by.
    pub query_hash: String,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// How many rows of the lake were read for it.
    pub grains_scanned: u64,
    /// The answer.
    pub answer: Answer,
}

impl Response {
    /// The envelope as JSON.
    pub fn to_json(&self) -> Json<'static> {
        let mut budget = Object::new();
        budget.insert("tokens_used", self.answer.tokens_used);
        budget.insert("grains_returned", self.answer.results.len() as u64);
        budget.insert("grains_scanned", self.grains_scanned);
        let mut head = Object::new();
        head.insert("version", VERSION);
        head.insert("statement_type", self.statement_type);
        head.insert("tier", u64::from(self.tier));
        head.insert("query_hash", self.query_hash.clone());
        head.insert("duration_ms", self.duration_ms);
        head.insert("budget", budget);
        let mut object = Object::new();
        object.insert("_cal", head);
        for (key, value) in self.answer.to_object().iter() {
            object.insert(key.to_owned(), value.clone());
        }
        Json::Object(object)
    }
}

//! Results of a query and their JSON envelope (CAL 1.0, section 21; OMS 1.3, section 28.1).

use gristmill_schemas::json::{Json, Number, Object};

use super::assembly_usage::AssemblyUsage;
use crate::cal::describe::VERSION;
use crate::cal::{GrainType, Warning};
use crate::render::{GrainView, RenderGrain};

/// A grain that a query found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The decoded grain.
    pub view: GrainView<'static>,
    /// Relevance from 0 to 1; 1 for queries without a search.
    pub score: f64,
    /// Names of the fields that made it match.
    pub matched_fields: Vec<String>,
    /// True if another grain superseded it.
    pub is_superseded: bool,
    /// Address of the superseding grain, if the session may see that grain.
    pub superseded_by: Option<String>,
}

impl Hit {
    /// Returns the content address.
    pub fn address(&self) -> &str {
        &self.view.address
    }

    /// Returns true for reasoning that must not drive decisions until a human has cleared it (OMS
    /// 1.3, sections 6.1 and 8.8). The verification status `verified` clears it.
    pub fn needs_review(&self) -> bool {
        self.view.grain_type == GrainType::Reasoning
            && self.view.field("requires_human_review") == Some(&Json::Bool(true))
            && self.view.verification_status() != Some("verified")
    }
}

impl RenderGrain for Hit {
    fn grain_type(&self) -> GrainType {
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

/// One grain in a response.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultEntry {
    /// The whole grain, or the fields that SELECT keeps.
    pub grain: Object<'static>,
    /// Relevance from 0 to 1.
    pub score: f64,
    /// Names of the fields that made it match.
    pub matched_fields: Vec<String>,
    /// Content address.
    pub content_address: String,
    /// Members that WITH options add.
    pub annotations: Object<'static>,
}

impl ResultEntry {
    fn to_json(&self) -> Json<'static> {
        let mut object = Object::new();
        object.insert("grain", self.grain.clone());
        object.insert("score", score_to_json(self.score));
        object.insert("matched_fields", texts_to_json(&self.matched_fields));
        object.insert("content_address", self.content_address.clone());
        for (key, value) in self.annotations.iter() {
            object.insert(key.to_owned(), value.clone());
        }
        Json::Object(object)
    }
}

/// Whole scores are written without a fraction.
fn score_to_json(value: f64) -> Json<'static> {
    match value == value.trunc() {
        true => Json::from(value as i64),
        false => Number::from_f64(value).map_or(Json::Null, Json::Number),
    }
}

fn texts_to_json(items: &[String]) -> Json<'static> {
    Json::Array(items.iter().cloned().map(Json::from).collect())
}

/// The result of a statement. Parts that the statement doesn't produce are absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The grains, in order.
    pub results: Vec<ResultEntry>,
    /// Exact number of matches before LIMIT and OFFSET.
    pub total: u64,
    /// The fields that SELECT keeps, one object for each result.
    pub rows: Option<Vec<Object<'static>>>,
    /// A count, a boolean, a list of values or a description.
    pub value: Option<Json<'static>>,
    /// Grains by the value of a field, in the order of the values.
    pub groups: Option<Vec<(String, Vec<ResultEntry>)>>,
    /// Index of the COALESCE branch that had a result, from 0.
    pub branch: Option<usize>,
    /// The grains in the format of `AS`.
    pub formatted: Option<String>,
    /// Format and text of an assembled context.
    pub context: Option<(String, String)>,
    /// What each source of an ASSEMBLE contributed to the context.
    pub assembly: Option<AssemblyUsage>,
    /// Differences between two versions.
    pub changes: Option<Vec<Json<'static>>>,
    /// The plan that EXPLAIN shows.
    pub plan: Option<Json<'static>>,
    /// Answers and errors of a BATCH, by label.
    pub entries: Option<Vec<(String, Json<'static>)>>,
    /// Events of a STREAM.
    pub events: Option<Vec<Json<'static>>>,
    /// Receipt of a statement that appended a grain.
    pub written: Option<Object<'static>>,
    /// Estimated number of tokens in the formatted text or context.
    pub tokens_used: u64,
    /// Warnings for the query's author.
    pub warnings: Vec<Warning>,
}

impl Answer {
    /// Returns an answer that consists of one value.
    pub fn of_value(value: impl Into<Json<'static>>) -> Answer {
        Answer {
            value: Some(value.into()),
            ..Answer::default()
        }
    }

    /// Returns true if there is at least one grain, value or group, or a count above zero. COALESCE
    /// takes the first branch with a result.
    pub fn has_result(&self) -> bool {
        let has_value = match &self.value {
            Some(Json::Array(items)) => !items.is_empty(),
            Some(Json::Number(count)) => count.as_u64() != Some(0),
            Some(Json::Null) | None => false,
            Some(_) => true,
        };
        let has_groups = self
            .groups
            .as_ref()
            .is_some_and(|groups| !groups.is_empty());
        has_value || has_groups || !self.results.is_empty()
    }

    /// Returns the number of grains and values in the answer, and in those of a BATCH.
    pub fn returned(&self) -> u64 {
        let items = |value: Option<&Json<'_>>| value.and_then(Json::as_array).map_or(0, <[_]>::len);
        let groups = self.groups.iter().flatten();
        let grouped = groups.map(|(_, group)| group.len()).sum::<usize>();
        let entries = self.entries.iter().flatten();
        let in_entries = entries.map(|(_, entry)| {
            let groups = entry.get("groups").and_then(Json::as_object);
            let groups = groups.into_iter().flat_map(|groups| groups.iter());
            let grouped = groups.map(|(_, group)| items(Some(group))).sum::<usize>();
            grouped + items(entry.get("results")) + items(entry.get("value"))
        });
        let count = self.results.len() + items(self.value.as_ref()) + grouped;
        (count + in_entries.sum::<usize>()) as u64
    }

    /// Returns the members of the response that are specific to the statement.
    pub fn to_object(&self) -> Object<'static> {
        let mut object = Object::new();
        object.insert("results", entries_to_json(&self.results));
        object.insert("total", self.total);
        object.insert("next_cursor", Json::Null);
        for (key, value) in self.optional_members() {
            if let Some(value) = value {
                object.insert(key, value);
            }
        }
        if !self.warnings.is_empty() {
            let warnings = self.warnings.iter().map(Warning::to_json);
            object.insert("warnings", Json::Array(warnings.collect()));
        }
        object
    }

    /// Returns the optional members in the order in which they are written.
    fn optional_members(&self) -> [(&'static str, Option<Json<'static>>); 13] {
        let branch = self.branch.map(|branch| Json::from(branch as u64));
        [
            ("rows", self.rows.as_deref().map(rows_to_json)),
            ("value", self.value.clone()),
            ("groups", self.groups.as_deref().map(groups_to_json)),
            ("branch", branch),
            ("formatted", self.formatted.clone().map(Json::from)),
            (
                "formatted_context",
                self.context.as_ref().map(context_to_json),
            ),
            (
                "source_counts",
                self.assembly.as_ref().map(AssemblyUsage::counts_to_json),
            ),
            (
                "assembly",
                self.assembly.as_ref().map(AssemblyUsage::to_json),
            ),
            ("changes", self.changes.clone().map(Json::Array)),
            ("plan", self.plan.clone()),
            (
                "entries",
                self.entries
                    .as_ref()
                    .map(|entries| Json::Object(entries.iter().cloned().collect())),
            ),
            ("events", self.events.clone().map(Json::Array)),
            ("written", self.written.clone().map(Json::Object)),
        ]
    }
}

fn entries_to_json(entries: &[ResultEntry]) -> Json<'static> {
    Json::Array(entries.iter().map(ResultEntry::to_json).collect())
}

fn rows_to_json(rows: &[Object<'static>]) -> Json<'static> {
    Json::Array(rows.iter().cloned().map(Json::Object).collect())
}

fn groups_to_json(groups: &[(String, Vec<ResultEntry>)]) -> Json<'static> {
    let groups = groups.iter();
    Json::Object(
        groups
            .map(|(value, group)| (value.clone(), entries_to_json(group)))
            .collect(),
    )
}

fn context_to_json((format, text): &(String, String)) -> Json<'static> {
    let mut object = Object::new();
    object.insert("text", text.clone());
    object.insert("format", format.clone());
    Json::Object(object)
}

/// An answer with the metadata that every query has.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The statement's name in JSON: `recall`, `set_op`, …
    pub statement_type: &'static str,
    /// The tier that the statement requires.
    pub tier: u8,
    /// Hash of the canonical query, as audit records use it.
    pub query_hash: String,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Number of rows that were read from the lake.
    pub grains_scanned: u64,
    /// The answer.
    pub answer: Answer,
}

impl Response {
    /// Returns the envelope as JSON.
    pub fn to_json(&self) -> Json<'static> {
        let mut object = Object::new();
        object.insert("_cal", self.head());
        for (key, value) in self.answer.to_object().iter() {
            object.insert(key.to_owned(), value.clone());
        }
        Json::Object(object)
    }

    fn head(&self) -> Object<'static> {
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
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_zero_and_an_empty_list_are_no_result() {
        assert!(!Answer::default().has_result());
        assert!(!Answer::of_value(0_u64).has_result());
        assert!(!Answer::of_value(Json::Array(Vec::new())).has_result());
        assert!(!Answer::of_value(Json::Null).has_result());
        assert!(Answer::of_value(1_u64).has_result());
        assert!(Answer::of_value(false).has_result());
        let groups = Answer {
            groups: Some(vec![("a".to_owned(), Vec::new())]),
            ..Answer::default()
        };
        assert!(groups.has_result());
    }

    #[test]
    fn grains_and_values_are_counted_also_in_the_entries_of_a_batch() {
        let entry = || ResultEntry {
            grain: Object::new(),
            score: 1.0,
            matched_fields: Vec::new(),
            content_address: "ab".to_owned(),
            annotations: Object::new(),
        };
        let values = Answer::of_value(Json::Array(vec![Json::from("a"), Json::from("b")]));
        let found = Answer {
            results: vec![entry(), entry(), entry()],
            ..Answer::default()
        };
        let groups = Answer {
            groups: Some(vec![
                ("a".to_owned(), vec![entry()]),
                ("b".to_owned(), vec![entry(), entry(), entry()]),
            ]),
            ..Answer::default()
        };
        let (answers, counts) = ([values, found, groups], [2, 3, 4]);
        assert_eq!(answers.each_ref().map(Answer::returned), counts);
        let in_batch = |answer: &Answer| ("x".to_owned(), Json::Object(answer.to_object()));
        let batch = Answer {
            entries: Some(answers.iter().map(in_batch).collect()),
            ..Answer::default()
        };
        assert_eq!(batch.returned(), 9);
        assert_eq!(Answer::of_value(7_u64).returned(), 0);
    }

    #[test]
    fn whole_scores_have_no_fraction() {
        assert_eq!(score_to_json(1.0).to_canonical_string(), "1");
        assert_eq!(score_to_json(0.25).to_canonical_string(), "0.25");
        assert_eq!(score_to_json(f64::NAN), Json::Null);
    }

    #[test]
    fn members_that_a_statement_lacks_are_absent() {
        let object = Answer::of_value("x").to_object();
        let keys: Vec<&str> = object.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["results", "total", "next_cursor", "value"]);
    }

    #[test]
    fn annotations_follow_the_members_of_an_entry() {
        let entry = ResultEntry {
            grain: Object::new(),
            score: 0.5,
            matched_fields: vec!["subject".to_owned()],
            content_address: "ab".to_owned(),
            annotations: [("contradicted", Json::from(true))].into_iter().collect(),
        };
        assert_eq!(
            Json::Array(vec![entry.to_json()]).to_string(),
            r#"[{"grain":{},"score":0.5,"matched_fields":["subject"],"content_address":"ab","contradicted":true}]"#
        );
    }
}

//! Builds the entries of a response from hits: SELECT, AS, and the annotations of WITH options.

use gristmill_schemas::json::{Json, Number, Object};

use super::answer::{Answer, Hit, ResultEntry};
use super::diversity::diversity_of;
use crate::cal::ast::{
    Diversity, Field, InSet, Let, Query, Recall, SetBody, SetOperand, SetOperation, StageKind,
    Statement, Test, WithOption,
};
use crate::cal::vocabulary::Format;
use crate::cal::{ResultShape, Warning, WarningCode, result_shape};
use crate::render::budget::token_cost;
use crate::render::field_value::value_of;
use crate::render::{self, RenderStyle, render_recall};

/// Payload fields that WITH provenance copies.
const PROVENANCE_FIELDS: [&str; 5] = [
    "derived_from",
    "provenance_chain",
    "source_type",
    "author_did",
    "origin_did",
];

/// Puts the grains of a RECALL into its answer. `recall` is the statement as written, `desugared`
/// the one without shortcuts.
pub(super) fn fill(
    answer: &mut Answer,
    hits: &[Hit],
    recall: &Recall,
    desugared: &Recall,
    now_ms: i64,
) {
    let fields = selected_fields(recall);
    answer.results = hits
        .iter()
        .map(|hit| entry(hit, fields.as_deref(), desugared))
        .collect();
    if fields.is_some() {
        let rows = answer.results.iter().map(|entry| entry.grain.clone());
        answer.rows = Some(rows.collect());
    }
    let is_of_grains = result_shape(&recall.stages).is_of_grains();
    if let Some(format) = recall.format.filter(|_| is_of_grains) {
        set_formatted(answer, formatted(hits, recall, format, now_ms));
    }
}

/// Sets the formatted text and its cost. An answer without grains costs nothing.
fn set_formatted(answer: &mut Answer, text: String) {
    answer.tokens_used = match answer.results.is_empty() {
        true => 0,
        false => token_cost(&text),
    };
    answer.formatted = Some(text);
}

/// Renders the grains in the format of AS.
fn formatted(hits: &[Hit], recall: &Recall, format: Format, now_ms: i64) -> String {
    let style = RenderStyle::new(now_ms, &recall.options, None);
    let entries: Vec<_> = hits
        .iter()
        .map(|hit| render::GrainEntry::new(hit, recall.projection(), &style))
        .collect();
    render_recall(&entries, format, &style)
}

/// Returns the entry of a grain: all of it or the given fields, annotated by the WITH options of
/// `desugared`.
pub(super) fn entry(hit: &Hit, fields: Option<&[&Field]>, desugared: &Recall) -> ResultEntry {
    ResultEntry {
        grain: match fields {
            Some(fields) => row(hit, fields),
            None => hit.view.payload.clone(),
        },
        score: hit.score,
        matched_fields: hit.matched_fields.clone(),
        content_address: hit.address().to_owned(),
        annotations: annotations(hit, desugared),
    }
}

/// Returns the entry of a grain for a statement that has neither WITH nor stages.
pub(super) fn plain_entry(hit: &Hit) -> ResultEntry {
    entry(hit, None, &Recall::default())
}

/// Returns the fields that all SELECT stages keep, in the order of the last; `None` without SELECT.
pub(super) fn selected_fields(recall: &Recall) -> Option<Vec<&Field>> {
    let mut kept: Option<Vec<&Field>> = None;
    for stage in &recall.stages {
        if let StageKind::Select(fields) = &stage.kind {
            let left = |field: &&Field| kept.as_ref().is_none_or(|before| before.contains(field));
            kept = Some(fields.iter().filter(left).collect());
        }
    }
    kept
}

fn row(hit: &Hit, fields: &[&Field]) -> Object<'static> {
    let cell = |field: &&Field| {
        Some((
            field.to_string(),
            value_of(hit, field)?.into_owned().into_owned(),
        ))
    };
    fields.iter().filter_map(cell).collect()
}

/// Returns the members that WITH options add to an entry.
fn annotations(hit: &Hit, desugared: &Recall) -> Object<'static> {
    let mut annotations = Object::new();
    for option in &desugared.options {
        if let Some((name, value)) = annotation(hit, option, desugared) {
            annotations.insert(name, value);
        }
    }
    annotations
}

fn annotation(
    hit: &Hit,
    option: &WithOption,
    desugared: &Recall,
) -> Option<(&'static str, Json<'static>)> {
    Some(match option {
        WithOption::Superseded => {
            let successor = hit.superseded_by.clone().map_or(Json::Null, Json::from);
            ("superseded_by", successor)
        }
        WithOption::ScoreBreakdown => ("score_breakdown", score_breakdown(hit.score)),
        WithOption::Explanation => {
            let conditions = desugared.conditions.iter();
            let texts = conditions.map(|condition| Json::from(condition.to_string()));
            ("explanation", Json::Array(texts.collect()))
        }
        WithOption::Provenance => ("provenance", provenance(hit)),
        WithOption::ContradictionDetection => ("contradicted", Json::from(hit.view.contradicted)),
        _ => return None,
    })
}

/// Returns the score under the part of the query that produced it. Grains that only passed filters
/// score 1.
fn score_breakdown(score: f64) -> Json<'static> {
    let part = if score < 1.0 { "text" } else { "filter" };
    let number = Number::from_f64(score).map_or(Json::Null, Json::Number);
    Json::Object([(part, number)].into_iter().collect())
}

fn provenance(hit: &Hit) -> Json<'static> {
    let known = PROVENANCE_FIELDS
        .into_iter()
        .filter_map(|name| Some((name, hit.view.payload.get(name)?.clone())));
    Json::Object(known.collect())
}

/// Returns a warning for each option that has no effect here.
pub(super) fn warnings(options: &[WithOption]) -> Vec<Warning> {
    let ineffective = options.iter().filter_map(|option| {
        Some(match option {
            WithOption::Summarize => {
                "WITH summarize has no effect: no language model is part of this engine."
            }
            WithOption::Locale(_) => "WITH locale has no effect: texts are ordered by code point.",
            WithOption::Cache(_) => "WITH cache has no effect: every answer is fresh.",
            WithOption::Dedup(_) => "WITH dedup works among the sources of an ASSEMBLE.",
            _ => return None,
        })
    });
    ineffective.map(no_effect).collect()
}

fn no_effect(message: &str) -> Warning {
    Warning {
        code: WarningCode::W101,
        message: message.to_owned(),
        span: None,
    }
}

/// Returns a warning for each option of `recall` and of its subqueries that has no effect, where
/// the result of `recall` has `shape`.
pub(super) fn recall_warnings(recall: &Recall, shape: ResultShape) -> Vec<Warning> {
    let mut all = warnings(&recall.options);
    if !shape.is_of_grains() && diversity_of(&recall.options).is_some() {
        all.push(no_effect(
            "WITH diversity has no effect on counts, values and groups.",
        ));
    }
    for condition in &recall.conditions {
        if let Test::In(InSet::Subquery(subquery)) = &condition.test {
            all.extend(recall_warnings(&subquery.query, ResultShape::Values));
        }
    }
    all
}

/// Returns the warnings of the LETs of `query`, and of the operands of a set operation, each once.
/// Those of a RECALL are part of its answer.
pub(super) fn warnings_of_parts(query: &Query) -> Vec<Warning> {
    let mut all = let_warnings(&query.lets);
    if let Statement::SetOperation(operation) = &query.statement {
        all.extend(set_warnings(operation));
    }
    let mut each: Vec<Warning> = Vec::new();
    for warning in all {
        if !each.contains(&warning) {
            each.push(warning);
        }
    }
    each
}

fn let_warnings(lets: &[Let]) -> Vec<Warning> {
    let of_let = |binding: &Let| {
        let shape = match binding.extract {
            Some(_) => ResultShape::Values,
            None => result_shape(&binding.query.stages),
        };
        recall_warnings(&binding.query, shape)
    };
    lets.iter().flat_map(of_let).collect()
}

fn set_warnings(operation: &SetOperation) -> Vec<Warning> {
    let of_operand = |operand: &SetOperand| {
        let mut all = let_warnings(&operand.lets);
        match &operand.body {
            SetBody::Recall(recall) => {
                all.extend(recall_warnings(recall, result_shape(&recall.stages)));
                if let Some(Diversity::Mmr(_)) = diversity_of(&recall.options) {
                    all.push(no_effect(
                        "WITH diversity(mmr) has no effect on operands, which have no order.",
                    ));
                }
            }
            SetBody::SetOperation(inner) => all.extend(set_warnings(inner)),
        }
        all
    };
    let operands = [&operation.left, &operation.right];
    operands.into_iter().flat_map(of_operand).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::testing::{hit, query, recall};

    fn names(fields: Option<Vec<&Field>>) -> Option<Vec<String>> {
        fields.map(|fields| fields.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn several_selects_keep_what_all_of_them_name_in_the_order_of_the_last() {
        let both = recall("RECALL beliefs | SELECT subject, object | SELECT object, subject, hash");
        assert_eq!(
            names(selected_fields(&both)),
            Some(vec!["object".to_owned(), "subject".to_owned()])
        );
        assert_eq!(selected_fields(&recall("RECALL beliefs | LIMIT 3")), None);
    }

    #[test]
    fn a_selected_field_that_a_grain_lacks_is_absent_from_its_row() {
        let statement = recall("RECALL beliefs | SELECT subject, object");
        let fields = selected_fields(&statement).unwrap();
        let row = row(&hit("01", r#"{"subject":"alice"}"#), &fields);
        assert_eq!(Json::Object(row).to_string(), r#"{"subject":"alice"}"#);
    }

    #[test]
    fn options_annotate_entries() {
        let mut found = hit("01", r#"{"subject":"a","source_type":"user"}"#);
        found.score = 0.5;
        found.superseded_by = Some("02".to_owned());
        let statement = recall(
            "RECALL beliefs WHERE subject = \"a\" WITH superseded, score_breakdown, explanation, \
             provenance, contradiction_detection",
        );
        let entry = plain_entry(&found);
        assert!(entry.annotations.is_empty());
        let annotations = Json::Object(annotations(&found, &statement));
        assert_eq!(
            annotations.to_string(),
            r#"{"superseded_by":"02","score_breakdown":{"text":0.5},"explanation":["subject = \"a\""],"provenance":{"source_type":"user"},"contradicted":false}"#
        );
    }

    #[test]
    fn a_grain_that_only_passed_filters_has_its_score_from_them() {
        assert_eq!(score_breakdown(1.0).to_string(), r#"{"filter":1.0}"#);
    }

    #[test]
    fn rows_and_text_are_present_only_if_requested() {
        let hits = [hit("01", r#"{"subject":"a","relation":"is","object":"b"}"#)];
        let mut answer = Answer::default();
        let statement = recall("RECALL beliefs");
        fill(&mut answer, &hits, &statement, &statement, 0);
        assert_eq!((answer.results.len(), answer.tokens_used), (1, 0));
        assert!(answer.rows.is_none() && answer.formatted.is_none());

        let statement = recall("RECALL beliefs | SELECT subject AS markdown");
        fill(&mut answer, &hits, &statement, &statement, 0);
        assert_eq!(answer.rows.as_ref().map(Vec::len), Some(1));
        assert!(answer.tokens_used > 0 && answer.formatted.is_some());

        fill(&mut answer, &[], &statement, &statement, 0);
        assert_eq!(answer.tokens_used, 0);
    }

    #[test]
    fn options_without_effect_of_every_part_are_warned_of() {
        let text = "LET $x = RECALL beliefs WITH cache(ttl = 1) | SUBJECTS; \
                    LET $y = RECALL beliefs WITH diversity(mmr) | SUBJECTS; \
                    (LET $z = RECALL beliefs WITH summarize | OBJECTS; \
                     RECALL beliefs WHERE object IN ($z) WITH diversity(mmr)) \
                    UNION ((RECALL beliefs WHERE subject IN \
                     (RECALL beliefs WITH locale(\"de\") | SUBJECTS)) \
                    EXCEPT (RECALL beliefs WITH dedup(subject), diversity(threshold, 0.5)))";
        let warnings = warnings_of_parts(&query(text));
        let ineffective = warnings.iter().map(|warning| {
            assert_eq!(warning.code, WarningCode::W101);
            warning.message.split(' ').nth(1).unwrap_or_default()
        });
        let ineffective: Vec<&str> = ineffective.collect();
        assert_eq!(
            ineffective,
            [
                "cache",
                "diversity",
                "summarize",
                "diversity(mmr)",
                "locale",
                "dedup"
            ]
        );
    }

    #[test]
    fn options_without_effect_are_warned_of_once_each() {
        let statement = recall("RECALL beliefs WITH locale(\"de\"), superseded");
        let warnings = warnings(&statement.options);
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].code, WarningCode::W101);
    }
}

//! Answers of tools, cut to what a model's context has room for.

use gristmill_queries::exec::Response;
use gristmill_queries::render::budget::token_cost;
use serde_json::{Map, Value as JsonValue, json};

use super::arguments::AnswerShape;

/// Longest text within a grain, in characters; the rest is left out with a note.
const MAX_TEXT_CHARACTERS: usize = 2_000;

/// Returns the answer to a statement as text of at most about `max_tokens` tokens. Grains that
/// don't fit are left out, from the end, and counted.
pub(super) fn answer(response: &Response, shape: AnswerShape, max_tokens: usize) -> String {
    let context = response.answer.context.as_ref();
    if let (AnswerShape::Context, Some((_, text))) = (shape, context) {
        return match text.is_empty() {
            true => "The memory has nothing about this.".to_owned(),
            false => text.clone(),
        };
    }
    let text = response.answer.to_object();
    let text = gristmill_schemas::json::Json::Object(text).to_string();
    // The response is JSON that this program wrote.
    let mut whole: JsonValue = serde_json::from_str(&text).unwrap_or_default();
    let results = take_results(&mut whole);
    simplify(&mut whole);
    let mut budget = max_tokens.saturating_sub(cost(&whole));
    let number = results.len();
    let mut kept = Vec::new();
    for result in results {
        let grain = compact(result);
        let Some(left) = budget.checked_sub(cost(&grain)) else {
            break;
        };
        budget = left;
        kept.push(grain);
    }
    let left_out = number - kept.len();
    if let Some(object) = whole.as_object_mut() {
        if number > 0 {
            object.insert("results".to_owned(), JsonValue::Array(kept));
        }
        if left_out > 0 {
            object.insert("left_out".to_owned(), left_out.into());
            object.insert("advice".to_owned(), ADVICE.into());
        }
    }
    bounded(whole, max_tokens)
}

/// What a model can do about grains that were left out.
const ADVICE: &str = "The answer was cut to fit. Add conditions, lower `limit`, or use `assemble`.";

/// Returns the text of an answer; one that is still too long is replaced by a note.
fn bounded(whole: JsonValue, max_tokens: usize) -> String {
    let tokens = cost(&whole);
    match tokens > max_tokens.saturating_mul(2) {
        true => json!({ "left_out": "everything", "tokens": tokens, "advice": ADVICE }).to_string(),
        false => whole.to_string(),
    }
}

fn cost(value: &JsonValue) -> usize {
    usize::try_from(token_cost(&value.to_string())).unwrap_or(usize::MAX)
}

fn take_results(whole: &mut JsonValue) -> Vec<JsonValue> {
    let results = whole
        .as_object_mut()
        .and_then(|object| object.remove("results"));
    match results {
        Some(JsonValue::Array(results)) => results,
        _ => Vec::new(),
    }
}

/// Removes what is empty, and reduces the counts of a BATCH to numbers.
fn simplify(whole: &mut JsonValue) {
    let Some(object) = whole.as_object_mut() else {
        return;
    };
    object.retain(|_, value| !value.is_null());
    if let Some(JsonValue::Object(entries)) = object.get_mut("entries") {
        for entry in entries.values_mut() {
            if let Some(value) = entry.get_mut("value") {
                *entry = value.take();
            }
        }
    }
}

/// Members of a result that aren't fields of its grain.
const OF_RESULT: [&str; 4] = ["address", "fields", "score", "superseded_by"];

/// Returns a result as one object: address, score below 1, and the grain's fields. Fields with the
/// name of one of these are in `fields`: a grain can't pass for another one.
fn compact(mut result: JsonValue) -> JsonValue {
    let mut object = Map::new();
    if let Some(address) = result.get("content_address").and_then(JsonValue::as_str) {
        object.insert("address".to_owned(), format!("sha256:{address}").into());
    }
    // Grains that only passed filters have the score 1.
    let score = result.get("score").and_then(JsonValue::as_f64);
    if let Some(score) = score.filter(|score| *score < 1.0) {
        object.insert("score".to_owned(), ((score * 1e3).round() / 1e3).into());
    }
    if let Some(JsonValue::Object(grain)) = result.get_mut("grain").map(JsonValue::take) {
        let grain = grain.into_iter();
        let grain = grain.map(|(key, value)| (key, shortened(value)));
        let (confusable, others): (Map<String, JsonValue>, Map<_, _>) =
            grain.partition(|(key, _)| OF_RESULT.contains(&&**key));
        object.extend(others);
        if !confusable.is_empty() {
            object.insert("fields".to_owned(), JsonValue::Object(confusable));
        }
    }
    if let Some(successor) = result.get("superseded_by").filter(|value| !value.is_null()) {
        object.insert("superseded_by".to_owned(), successor.clone());
    }
    JsonValue::Object(object)
}

/// Cuts long texts, at any depth.
fn shortened(value: JsonValue) -> JsonValue {
    match value {
        JsonValue::String(text) => match text.char_indices().nth(MAX_TEXT_CHARACTERS) {
            Some((end, _)) => {
                let left = text.chars().count() - MAX_TEXT_CHARACTERS;
                format!("{}… ({left} characters left out)", &text[..end]).into()
            }
            None => JsonValue::String(text),
        },
        JsonValue::Array(items) => items.into_iter().map(shortened).collect(),
        JsonValue::Object(members) => {
            let members = members.into_iter();
            JsonValue::Object(
                members
                    .map(|(key, value)| (key, shortened(value)))
                    .collect(),
            )
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let cut = shortened(json!({ "content": ["ä".repeat(MAX_TEXT_CHARACTERS + 5)] }));
        let text = cut["content"][0].as_str().unwrap();
        assert!(text.ends_with("ä… (5 characters left out)"), "{text}");
        let whole = json!({ "content": "ä".repeat(MAX_TEXT_CHARACTERS) });
        assert_eq!(shortened(whole.clone()), whole);
    }

    #[test]
    fn a_result_has_address_score_and_fields() {
        let result = json!({
            "grain": { "type": "belief", "subject": "ada" }, "score": 0.123_456,
            "matched_fields": ["subject"], "content_address": "ab", "superseded_by": null,
        });
        assert_eq!(
            compact(result),
            json!({ "address": "sha256:ab", "score": 0.123, "type": "belief", "subject": "ada" })
        );
    }

    #[test]
    fn a_field_cannot_pass_for_the_address_of_its_grain() {
        let result = json!({
            "grain": { "type": "fact", "address": "12 High Street", "superseded_by": "ef" },
            "score": 1.0, "content_address": "ab", "superseded_by": "cd",
        });
        assert_eq!(
            compact(result),
            json!({
                "address": "sha256:ab", "type": "fact", "superseded_by": "cd",
                "fields": { "address": "12 High Street", "superseded_by": "ef" },
            })
        );
    }

    #[test]
    fn an_answer_that_cannot_be_cut_is_replaced_by_a_note() {
        let text = bounded(json!({ "value": "x".repeat(1_000) }), 10);
        assert!(text.contains("left_out"), "{text}");
    }
}

//! Decoding and validation of blocks, messages, metadata and tools.

use std::hash::{DefaultHasher, Hash, Hasher};

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::MessageStatus;
use gristmill_schemas::message::decode::{
    self, DecodeError, DecodeProblem, DecodeWarning, MessageDecodeMode,
};
use gristmill_schemas::message::encode::{UnknownFields, encode_blocks, encode_message};
use gristmill_schemas::message::session::{self, SessionViolation};
use gristmill_schemas::message::tool::ToolSet;
use gristmill_schemas::message::tool_schema::check_schema;
use gristmill_schemas::message::validate::{Violation, validate_message};

use super::compare::{Row, Rows, same};
use super::{Checked, asked};

pub fn decode_blocks_strict(input: &Json, target: &Json) -> Checked {
    decode_blocks(input, target, MessageDecodeMode::Strict)
}

pub fn decode_blocks_tolerant(input: &Json, target: &Json) -> Checked {
    decode_blocks(input, target, MessageDecodeMode::Tolerant)
}

fn decode_blocks(input: &Json, target: &Json, mode: MessageDecodeMode) -> Checked {
    let blocks = input.get("blocks").ok_or("no blocks")?;
    match decode::decode_blocks(blocks, mode) {
        Ok((decoded, warnings)) => {
            check_warnings(target, &warnings)?;
            decoded_as(
                target,
                "blocks",
                encode_blocks(&decoded, UnknownFields::Drop),
            )
        }
        Err(error) => refused_as(target, &error),
    }
}

pub fn decode_message(input: &Json, target: &Json) -> Checked {
    let message = input.get("message").ok_or("no message")?;
    match decode::decode_message(message, MessageDecodeMode::Strict) {
        Ok((message, _)) => decoded_as(
            target,
            "message",
            encode_message(&message, UnknownFields::Drop),
        ),
        Err(error) => refused_as(target, &error),
    }
}

fn decoded_as(target: &Json, key: &'static str, value: Json) -> Checked {
    let answer: Object = [("ok", Json::from(true)), (key, value)]
        .into_iter()
        .collect();
    let (target, answer) = asked(target, answer);
    let target: Object = target
        .as_object()
        .into_iter()
        .flat_map(Object::iter)
        .filter(|(key, _)| *key != "warnings")
        .map(|(key, value)| (key, value.reborrow()))
        .collect();
    same(&Json::Object(target), &answer)
}

fn check_warnings(target: &Json, warnings: &[DecodeWarning]) -> Result<(), String> {
    let wanted = target
        .get("warnings")
        .and_then(Json::as_array)
        .map(<[_]>::len);
    match wanted {
        Some(wanted) if wanted != warnings.len() => Err(format!(
            "expected {wanted} warnings, found {}",
            warnings.len()
        )),
        _ => Ok(()),
    }
}

/// Refusals are compared by path and kind, where the target's wording contains them.
fn refused_as(target: &Json, error: &DecodeError) -> Checked {
    if target.get("ok").and_then(Json::as_bool) != Some(false) {
        return Err(format!("expected to be decoded, found {error}"));
    }
    let words = target.get("msg").and_then(Json::as_str).unwrap_or_default();
    let quoted = |before: &str| {
        words
            .split_once(before)
            .and_then(|(_, rest)| rest.split_once('`'))
            .map(|(name, _)| name)
    };
    // A missing field is named in the object that lacks it, any other fault at its own place.
    let place = quoted("at `");
    let Some(field) = quoted("missing required field `") else {
        return match place.filter(|path| *path != error.path()) {
            Some(path) => Err(format!("expected a fault at {path}, found {error}")),
            None => Ok(Rows::default()),
        };
    };
    let is_there = match place {
        Some(object) => error.path() == format!("{object}.{field}"),
        None => error.path().ends_with(&format!(".{field}")),
    };
    if error.problem != DecodeProblem::Missing || !is_there {
        let object = place.map_or(String::new(), |path| format!(" in {path}"));
        return Err(format!(
            "expected the field {field} to be missed{object}, found {error}"
        ));
    }
    Ok(Rows::default())
}

pub fn validate(input: &Json, target: &Json) -> Checked {
    let json = with_defaults(input.get("message").ok_or("no message")?);
    let (mut message, _) = decode::decode_message(&json, MessageDecodeMode::Tolerant)
        .map_err(|error| error.to_string())?;
    let wanted = ExpectedFindings::of(target, "errors")?;
    let listed: Vec<String> = wanted.listed().map(subject).collect();
    let mut rows = Rows::default();
    let mut found = validate_message(&message);
    let differs = |violation: &Violation| matches!(violation, Violation::ParentDiffers { .. });
    if wanted.is_none && found.iter().any(differs) {
        found.retain(|violation| !differs(violation));
        rows.add(Row::ParentCompared);
    }
    if !wanted.is_none && has_ended(message.metadata.status) {
        // The reference checks these messages as if they were complete.
        message.metadata.status = MessageStatus::Complete;
        let of_complete = subjects(&validate_message(&message));
        let is_excused = found.is_empty() && !of_complete.is_empty();
        if is_excused && listed.iter().all(|subject| of_complete.contains(subject)) {
            rows.add(Row::CompleteOnly);
            return Ok(rows);
        }
    }
    wanted.matches(listed, subjects(&found)).map(|()| rows)
}

/// What a case expects a check to find: whether something, and which findings if it lists them.
struct ExpectedFindings<'j> {
    is_none: bool,
    list: Option<Vec<&'j str>>,
}

impl<'j> ExpectedFindings<'j> {
    /// Reads `ok`, and the list of texts under `key`.
    fn of(target: &'j Json<'j>, key: &str) -> Result<Self, String> {
        let list = match target.get(key) {
            None => None,
            Some(list) => {
                let texts = list.as_array().unwrap_or_default().iter();
                let texts: Option<Vec<&str>> = texts.map(Json::as_str).collect();
                let texts = texts.filter(|_| list.as_array().is_some());
                Some(texts.ok_or_else(|| format!("`{key}` is no list of texts: {list}"))?)
            }
        };
        let ok = target.get("ok").and_then(Json::as_bool);
        match (ok, list.as_ref().map(Vec::is_empty)) {
            (Some(ok), Some(is_empty)) if ok != is_empty => {
                Err(format!("`ok` contradicts `{key}`"))
            }
            (ok, is_empty) => Ok(ExpectedFindings {
                is_none: ok
                    .or(is_empty)
                    .ok_or_else(|| format!("the case expects neither `ok` nor `{key}`"))?,
                list,
            }),
        }
    }

    fn listed(&self) -> impl Iterator<Item = &'j str> + '_ {
        self.list.iter().flatten().copied()
    }

    /// Compares `found` with `listed`, the list in the same form, or with `ok` alone.
    fn matches(&self, listed: Vec<String>, found: Vec<String>) -> Result<(), String> {
        match self.list {
            Some(_) => same_set(listed, found).map(|_| ()),
            None if found.is_empty() == self.is_none => Ok(()),
            None => Err(format!("expected ok {}, found {found:?}", self.is_none)),
        }
    }
}

/// Returns true for a message that was cancelled or failed.
fn has_ended(status: MessageStatus) -> bool {
    matches!(status, MessageStatus::Cancelled | MessageStatus::Error)
}

fn subjects(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(Violation::subject).collect()
}

/// Returns the subject of a reference's message: the part before its colon, or its first word.
fn subject(text: &str) -> String {
    let head = text.split_once(':').map(|(head, _)| head).unwrap_or(text);
    if head.contains(' ') {
        head.split(' ').next().unwrap_or_default().to_lowercase()
    } else {
        head.to_lowercase()
    }
}

pub fn validate_session(input: &Json, target: &Json) -> Checked {
    let list = input
        .get("messages")
        .and_then(Json::as_array)
        .ok_or("no messages")?;
    let list: Vec<Json> = list.iter().map(with_defaults).collect();
    let messages: Result<Vec<_>, _> = list
        .iter()
        .map(|json| decode::decode_message(json, MessageDecodeMode::Tolerant))
        .collect();
    let messages: Vec<_> = messages
        .map_err(|error| error.to_string())?
        .into_iter()
        .map(|(message, _)| message)
        .collect();
    let found = session::validate_session(&messages, &ToolSet::default());
    let found = found.iter().map(|violation| match violation {
        SessionViolation::Message { violation, .. } => violation.to_string(),
        SessionViolation::UnknownCall { tool_use_id } => format!("unknown {tool_use_id}"),
        SessionViolation::ResultBeforeCall { tool_use_id } => format!("precedes {tool_use_id}"),
        SessionViolation::AnsweredTwice { tool_use_id } => format!("twice {tool_use_id}"),
        SessionViolation::IdUsedTwice { tool_use_id } => format!("reused {tool_use_id}"),
        SessionViolation::InputInvalid { tool_use_id, .. } => format!("input {tool_use_id}"),
    });
    let wanted = ExpectedFindings::of(target, "violations")?;
    let listed = wanted.listed().map(|text| {
        let id = text
            .split(' ')
            .find(|word| word.starts_with("tu_"))
            .unwrap_or_default();
        let kinds = [
            ("more than once", "twice"),
            ("unknown", "unknown"),
            ("precedes", "precedes"),
            ("reuse", "reused"),
            ("duplicate", "reused"),
        ];
        let kind = kinds
            .iter()
            .find(|(words, _)| text.contains(words))
            .map_or(text, |(_, kind)| kind);
        format!("{kind} {id}")
    });
    let matched = wanted.matches(listed.collect(), found.collect());
    matched.map(|()| Rows::default())
}

pub fn metadata_equal(input: &Json, target: &Json) -> Checked {
    let side = |key| {
        let json = input.get(key).ok_or(format!("no {key}"))?;
        decode::decode_metadata(json).map_err(|error| error.to_string())
    };
    let (a, b) = (side("a")?, side("b")?);
    let hash = |metadata: &gristmill_schemas::message::MessageMetadata| {
        let mut hasher = DefaultHasher::new();
        metadata.hash(&mut hasher);
        hasher.finish()
    };
    let answer = [("equal", a == b), ("hash_equal", hash(&a) == hash(&b))]
        .into_iter()
        .collect();
    let (target, answer) = asked(target, answer);
    same(&target, &answer)
}

pub fn tool_schema(input: &Json, target: &Json) -> Checked {
    let ok = target.get("ok").and_then(Json::as_bool);
    let Some(schema) = input.get("schema").and_then(Json::as_object) else {
        let is_refused = ok == Some(false);
        let passed = is_refused.then(Rows::default);
        return passed.ok_or_else(|| "the schema is no object".to_owned());
    };
    let (errors, listed) = (check_schema(schema), target.get("errors"));
    if ok.or(listed.map(|_| errors.is_empty())) != Some(errors.is_empty()) {
        return Err(format!("found {errors:?}"));
    }
    if listed.is_none() {
        return Ok(Rows::default());
    }
    let wanted = strings(listed);
    if wanted.len() != errors.len() {
        return Err(format!(
            "expected {} errors, found {errors:?}",
            wanted.len()
        ));
    }
    // An error may be reported at the schema or at its keyword.
    let near = |wanted: &str, found: &str| {
        found.strip_prefix(wanted).is_some_and(|rest| {
            let keyword = rest.strip_prefix('.');
            rest.is_empty() || keyword.is_some_and(|keyword| !keyword.contains('.'))
        })
    };
    let path = |text: &str| {
        text.split_once(": ")
            .map_or(text, |(path, _)| path)
            .to_owned()
    };
    let unmatched = wanted.iter().find(|text| {
        !errors
            .iter()
            .any(|error| near(&path(text), &error.path) || near(&error.path, &path(text)))
    });
    match unmatched {
        Some(text) => Err(format!("expected {text}, found {errors:?}")),
        None => Ok(Rows::default()),
    }
}

/// A message with arbitrary values for fields that the case omits.
pub fn with_defaults<'j>(message: &'j Json<'j>) -> Json<'j> {
    let mut object = message
        .as_object()
        .map(Object::reborrow)
        .unwrap_or_default();
    for (key, value) in [
        ("id", "01HZ0000000000000000000001"),
        ("session_id", "sess_1"),
        ("created_at", "2026-05-08T12:00:00Z"),
    ] {
        if !object.contains_key(key) {
            object.insert(key, value);
        }
    }
    Json::Object(object)
}

fn strings<'j>(json: Option<&'j Json<'j>>) -> Vec<&'j str> {
    json.and_then(Json::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(Json::as_str)
        .collect()
}

fn same_set(mut wanted: Vec<String>, mut found: Vec<String>) -> Checked {
    wanted.sort();
    found.sort();
    if wanted == found {
        Ok(Rows::default())
    } else {
        Err(format!("expected {wanted:?}, found {found:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_may_be_refused_without_a_list_of_errors() {
        let refused = r#"{"schema":{"type":"float"}}"#;
        for (input, target, passes) in [
            (refused, r#"{"ok":false}"#, true),
            (refused, r#"{"ok":true}"#, false),
            (refused, r#"{"ok":false,"errors":[]}"#, false),
            (refused, r#"{"errors":["$.type: unknown"]}"#, true),
            (refused, "{}", false),
            (r#"{"schema":[]}"#, r#"{"ok":false}"#, true),
            (r#"{"schema":[]}"#, r#"{"ok":true}"#, false),
            (r#"{"schema":{}}"#, r#"{"ok":true}"#, true),
        ] {
            let (case, expect) = (
                Json::parse(input.as_bytes()),
                Json::parse(target.as_bytes()),
            );
            let checked = tool_schema(&case.unwrap(), &expect.unwrap());
            assert_eq!(checked.is_ok(), passes, "{input} {target}");
        }
    }
}

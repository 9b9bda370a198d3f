//! The JSON form of patches, which [the module's page](super) defines.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

use super::json_text::JsonStyle;
use super::{ArrayEdit, MemberEdit, Patch, TextFragment, ValueTemplate};

/// The JSON isn't a patch; the text names the unexpected part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a patch: {0}")]
pub struct PatchError(String);

/// The key of a reference in a template.
const REFERENCE: &str = "$";
/// The key of a replacement.
const REPLACE: &str = "=";
/// The key of a style.
const RESTYLE: &str = "j";

/// Encodes a patch as JSON.
pub fn patch_to_json<'a>(patch: Patch<'a>) -> Json<'a> {
    match patch {
        Patch::Replace(template) => single(REPLACE, template_to_json(template)),
        Patch::Restyle(style) => single(RESTYLE, Json::from(style.code())),
        Patch::Members(edits) => {
            let members = edits.into_iter().map(|(key, edit)| match edit {
                MemberEdit::Set(template) => (format!("+{key}"), template_to_json(template)),
                MemberEdit::Remove => (format!("-{key}"), Json::from(0u64)),
                MemberEdit::Change(patch) => (format!("~{key}"), patch_to_json(patch)),
            });
            Json::Object(members.collect())
        }
        Patch::Items(steps) => Json::Array(steps.into_iter().map(step_to_json).collect()),
    }
}

fn step_to_json(step: ArrayEdit<'_>) -> Json<'_> {
    match step {
        ArrayEdit::Keep(count) => Json::from(count as u64),
        ArrayEdit::Skip(count) => Json::from(-(count as i64)),
        // A plain array means an insertion.
        ArrayEdit::Change(Patch::Items(steps)) => single("~", patch_to_json(Patch::Items(steps))),
        ArrayEdit::Change(patch) => patch_to_json(patch),
        ArrayEdit::Insert(template) => Json::Array(vec![template_to_json(template)]),
    }
}

fn template_to_json(template: ValueTemplate<'_>) -> Json<'_> {
    match template {
        ValueTemplate::Literal(json) => escape(json),
        ValueTemplate::At(pointer) => single(REFERENCE, Json::from(pointer)),
        ValueTemplate::Text(pieces) => single(
            REFERENCE,
            Json::Array(pieces.into_iter().map(piece_to_json).collect()),
        ),
        ValueTemplate::Array(items) => {
            Json::Array(items.into_iter().map(template_to_json).collect())
        }
        ValueTemplate::Object(members) => {
            let object = members
                .into_iter()
                .map(|(key, value)| (key, template_to_json(value)))
                .collect();
            escape_reference(object)
        }
    }
}

fn piece_to_json(piece: TextFragment<'_>) -> Json<'_> {
    match piece {
        TextFragment::Literal(text) => Json::String(text),
        TextFragment::Slice {
            pointer,
            start,
            end,
        } => Json::Array(vec![
            Json::from(pointer),
            Json::from(start as u64),
            Json::from(end as u64),
        ]),
    }
}

/// Escapes the objects of a literal that look like references.
fn escape(json: Json<'_>) -> Json<'_> {
    match json {
        Json::Array(items) => Json::Array(items.into_iter().map(escape).collect()),
        Json::Object(object) => escape_reference(
            object
                .into_iter()
                .map(|(key, value)| (key, escape(value)))
                .collect(),
        ),
        scalar => scalar,
    }
}

fn escape_reference(object: Object<'_>) -> Json<'_> {
    if object.len() == 1 && object.contains_key(REFERENCE) {
        single(REFERENCE, Json::Object(object))
    } else {
        Json::Object(object)
    }
}

/// Decodes a patch from JSON.
///
/// # Errors
/// If `json` isn't a patch. The input may be untrusted.
pub fn patch_from_json<'a>(json: &'a Json<'_>) -> Result<Patch<'a>, PatchError> {
    match json {
        Json::Array(steps) => Ok(Patch::Items(
            steps.iter().map(step_from_json).collect::<Result<_, _>>()?,
        )),
        Json::Object(object) => match only_member(object) {
            Some((REPLACE, template)) => Ok(Patch::Replace(template_from_json(template)?)),
            Some((RESTYLE, code)) => style_from_json(code).map(Patch::Restyle),
            _ => Ok(Patch::Members(
                object
                    .iter()
                    .map(edit_from_json)
                    .collect::<Result<_, _>>()?,
            )),
        },
        other => Err(error("a patch", other)),
    }
}

fn edit_from_json<'a>(
    (key, value): (&'a str, &'a Json<'_>),
) -> Result<(Cow<'a, str>, MemberEdit<'a>), PatchError> {
    let edit = |sign: char| key.strip_prefix(sign).map(Cow::Borrowed);
    if let Some(key) = edit('+') {
        return Ok((key, MemberEdit::Set(template_from_json(value)?)));
    }
    if let Some(key) = edit('-') {
        return Ok((key, MemberEdit::Remove));
    }
    let key = edit('~').ok_or_else(|| PatchError(format!("a member `{key}` without a sign")))?;
    Ok((key, MemberEdit::Change(patch_from_json(value)?)))
}

fn step_from_json<'a>(json: &'a Json<'_>) -> Result<ArrayEdit<'a>, PatchError> {
    let count =
        |count: i64| usize::try_from(count.unsigned_abs()).map_err(|_| error("a count", json));
    match json {
        Json::Number(number) => match number.as_i64() {
            Some(number) if number >= 0 => count(number).map(ArrayEdit::Keep),
            Some(number) => count(number).map(ArrayEdit::Skip),
            None => Err(error("a count", json)),
        },
        Json::Array(items) => match items.as_slice() {
            [template] => Ok(ArrayEdit::Insert(template_from_json(template)?)),
            _ => Err(error("an insertion", json)),
        },
        Json::Object(object) => match only_member(object) {
            Some(("~", patch)) => Ok(ArrayEdit::Change(patch_from_json(patch)?)),
            _ => Ok(ArrayEdit::Change(patch_from_json(json)?)),
        },
        other => Err(error("a step", other)),
    }
}

fn template_from_json<'a>(json: &'a Json<'_>) -> Result<ValueTemplate<'a>, PatchError> {
    match json {
        Json::Array(items) => Ok(ValueTemplate::Array(
            items
                .iter()
                .map(template_from_json)
                .collect::<Result<_, _>>()?,
        )),
        Json::Object(object) => match only_member(object) {
            Some((REFERENCE, target)) => reference_from_json(target),
            _ => members_from_json(object),
        },
        scalar => Ok(ValueTemplate::Literal(scalar.reborrow())),
    }
}

/// Decodes the value of a reference: a pointer, pieces of text, or an escaped object.
fn reference_from_json<'a>(target: &'a Json<'_>) -> Result<ValueTemplate<'a>, PatchError> {
    match target {
        Json::String(pointer) => Ok(ValueTemplate::At(pointer.to_string())),
        Json::Array(pieces) => Ok(ValueTemplate::Text(
            pieces
                .iter()
                .map(piece_from_json)
                .collect::<Result<_, _>>()?,
        )),
        Json::Object(inner) => members_from_json(inner),
        other => Err(error("a reference", other)),
    }
}

fn members_from_json<'a>(object: &'a Object<'_>) -> Result<ValueTemplate<'a>, PatchError> {
    let members = object
        .iter()
        .map(|(key, value)| Ok((Cow::Borrowed(key), template_from_json(value)?)));
    Ok(ValueTemplate::Object(
        members.collect::<Result<_, PatchError>>()?,
    ))
}

fn piece_from_json<'a>(json: &'a Json<'_>) -> Result<TextFragment<'a>, PatchError> {
    let index = |json: &Json| json.as_u64().and_then(|value| usize::try_from(value).ok());
    match json {
        Json::String(text) => Ok(TextFragment::Literal(Cow::Borrowed(text))),
        Json::Array(parts) => match parts.as_slice() {
            [Json::String(pointer), start, end] => match (index(start), index(end)) {
                (Some(start), Some(end)) => Ok(TextFragment::Slice {
                    pointer: pointer.to_string(),
                    start,
                    end,
                }),
                _ => Err(error("a slice", json)),
            },
            _ => Err(error("a slice", json)),
        },
        other => Err(error("a piece of text", other)),
    }
}

fn style_from_json(code: &Json) -> Result<JsonStyle, PatchError> {
    let style = code.as_str().and_then(JsonStyle::from_code);
    style.ok_or_else(|| error("a style", code))
}

fn single<'a>(key: &'static str, value: Json<'a>) -> Json<'a> {
    Json::Object([(key, value)].into_iter().collect())
}

fn only_member<'o, 'a>(object: &'o Object<'a>) -> Option<(&'o str, &'o Json<'a>)> {
    object.iter().next().filter(|_| object.len() == 1)
}

fn error(expected: &str, found: &Json) -> PatchError {
    PatchError(format!("expected {expected}, got {}", found.kind()))
}

//! Cassettes of HTTP recorders, as JSON or YAML.

use std::borrow::Cow;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::json::{Json, Number, Object};
use serde_norway::Value as Yaml;

use super::http::{Decompressor, HttpBody, HttpPair, header};
use super::{NormalizedExchanges, TOO_LONG, recorded_entries, yaml_size};
use crate::transcript::line::LINE_LIMIT_BYTES;
use crate::wire::json_access::object;

/// The YAML tag of bytes in base64. The parser drops standard tags, so it is replaced by a local
/// tag before parsing.
const BINARY_TAG: &str = "!!binary";

/// The local tag that some recorders write in place of [`BINARY_TAG`].
const LOCAL_BINARY_TAG: &str = "!binary";

/// Maximum size in memory of a YAML file whose aliases are resolved.
const YAML_LIMIT_BYTES: usize = 4 * LINE_LIMIT_BYTES;

/// Maximum depth of YAML values; deeper ones become null.
const YAML_DEPTH_LIMIT: usize = 96;

pub(super) fn normalize(bytes: &[u8]) -> NormalizedExchanges {
    if bytes.trim_ascii_start().starts_with(b"{") {
        return NormalizedExchanges::from_document(bytes, convert_cassette);
    }
    if bytes.len() > LINE_LIMIT_BYTES {
        return NormalizedExchanges::unreadable(bytes, TOO_LONG);
    }
    // Binary bodies are in base64, so a YAML file is always UTF-8.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return NormalizedExchanges::unreadable(bytes, "not UTF-8");
    };
    let tag = unused_tag(text);
    let text = text.replace(BINARY_TAG, &tag);
    let parse = |()| serde_norway::from_str::<Yaml>(&text);
    match yaml_size::check(&text, YAML_LIMIT_BYTES).and_then(parse) {
        Ok(yaml) => convert_cassette(&yaml_to_json(&yaml, &tag, YAML_DEPTH_LIMIT)),
        Err(error) => NormalizedExchanges::unreadable(bytes, error.to_string()),
    }
}

/// Returns a local tag that doesn't occur in `text`: it has the digest of the text.
fn unused_tag(text: &str) -> String {
    format!("{LOCAL_BINARY_TAG}{}", ContentAddress::of(text.as_bytes()))
}

/// Converts YAML in which `tag` replaces [`BINARY_TAG`].
fn yaml_to_json(yaml: &Yaml, tag: &str, depth: usize) -> Json<'static> {
    if depth == 0 {
        return Json::Null;
    }
    let nested = |yaml: &Yaml| yaml_to_json(yaml, tag, depth - 1);
    match yaml {
        Yaml::Null => Json::Null,
        Yaml::Bool(value) => Json::Bool(*value),
        Yaml::Number(number) => number_to_json(number),
        Yaml::String(text) => Json::from(text.replace(tag, BINARY_TAG)),
        Yaml::Sequence(items) => Json::Array(items.iter().map(nested).collect()),
        Yaml::Mapping(members) => Json::Object(
            members
                .iter()
                .filter_map(|(key, value)| Some((key.as_str()?.to_owned(), nested(value))))
                .collect(),
        ),
        Yaml::Tagged(tagged) => match &tagged.value {
            Yaml::String(text) if tagged.tag == tag || tagged.tag == LOCAL_BINARY_TAG => {
                let encoded: String = text.split_ascii_whitespace().collect();
                Json::Object(object("base64_string", encoded))
            }
            value => nested(value),
        },
    }
}

fn number_to_json(number: &serde_norway::Number) -> Json<'static> {
    let integer = number
        .as_u64()
        .map(Json::from)
        .or_else(|| number.as_i64().map(Json::from));
    let double = || number.as_f64().and_then(Number::from_f64).map(Json::Number);
    integer.or_else(double).unwrap_or_default()
}

fn convert_cassette(json: &Json) -> NormalizedExchanges {
    let mut decompressor = Decompressor::new();
    let interactions = recorded_entries(json, json).iter();
    NormalizedExchanges::from_entries(
        interactions.map(|interaction| convert_interaction(interaction, &mut decompressor)),
    )
}

/// Converts an interaction, in any of the forms of the common recorders.
fn convert_interaction(json: &Json, decompressor: &mut Decompressor) -> Option<Object<'static>> {
    let (request, response) = (json.get("request")?, json.get("response")?);
    let status = response.get("status");
    let pair = HttpPair {
        url: ["uri", "url"]
            .iter()
            .find_map(|key| request.get(key)?.as_str())?,
        status: status
            .and_then(|status| status.get("code"))
            .or(status)
            .map(|status| status.clone().into_owned()),
        recorded_at: json.get("recorded_at").and_then(Json::as_str),
        date: header(response, "date"),
        content_type: header(response, "content-type")
            .unwrap_or_default()
            .to_ascii_lowercase(),
        request: body_of(request, decompressor),
        response: body_of(response, decompressor),
    };
    Some(pair.into_exchange())
}

/// Returns the body of a request or response; `None` if it is empty.
fn body_of<'h>(message: &'h Json<'h>, decompressor: &mut Decompressor) -> Option<HttpBody<'h>> {
    match message.get("parsed_body") {
        Some(Json::String(text)) => return Some(HttpBody::Text(Cow::Borrowed(text))),
        Some(parsed) => return Some(HttpBody::Json(parsed)),
        None => {}
    }
    let body = message.get("body")?;
    let wrapped = ["string", "content"].iter().filter_map(|key| body.get(key));
    std::iter::once(body)
        .chain(wrapped)
        .find_map(|body| text_or_base64(body, decompressor))
        .filter(|body| !matches!(body, HttpBody::Text(text) if text.is_empty()))
}

fn text_or_base64<'h>(json: &'h Json<'h>, decompressor: &mut Decompressor) -> Option<HttpBody<'h>> {
    if let Some(text) = json.as_str() {
        return Some(HttpBody::Text(text.into()));
    }
    let encoded = json.get("base64_string").and_then(Json::as_str)?;
    Some(HttpBody::decode(encoded, decompressor))
}

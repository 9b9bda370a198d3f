//! Scalar functions for compliance: tags, fields of domain profiles, personal data in text.
//!
//! | function | result |
//! |---|---|
//! | `has_tag(tags, tag)` | whether the list contains the tag; false, not NULL, for grains without tags |
//! | `has_tag_prefix(tags, prefix)` | whether a tag starts with the prefix: `phi:`, `reg:` … |
//! | `profile_field(context, name)` | a field of a domain profile in `context`, also under its short keys; values other than texts as JSON |
//! | `domain_field(blob, name)` | a field of a domain profile in the grain or in its `context`: the value that CAL and erasure use |
//! | `grain_reference(text)` | the address that a reference names, with or without `sha256:` before it; NULL for anything else |
//! | `template_parameters(path)` | the names in braces in a path, as a sorted JSON list |
//! | `sorted_list(json)` | a JSON list of texts, sorted, without duplicates; NULL for anything else |
//! | `personal_data(text)` | the kinds of personal data in a text, as a list; NULL if there are none |
//! | `mask_personal_data(text)` | the text with each occurrence replaced by its kind in brackets |

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListBuilder, StringArray, StringBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, DomainFieldScope, Grain, GrainHeader, Payload,
    find_domain_field, integration_keys, may_contain_domain_field, to_json,
};
use gristmill_schemas::json::Json;

use super::scalar_functions::{blobs, function, nth, strings, texts};
use crate::detect;

/// Registers all of them.
pub(super) fn register(context: &SessionContext) {
    for function in functions() {
        context.register_udf(function);
    }
}

/// Returns the type of text lists in the lake's tables.
fn text_list() -> DataType {
    DataType::List(Arc::new(Field::new("element", DataType::Utf8, true)))
}

fn functions() -> Vec<ScalarUDF> {
    use DataType::{Boolean, Utf8};
    vec![
        function("has_tag", vec![text_list(), Utf8], Boolean, |arguments| {
            any_tag(arguments, |tag, wanted| tag == wanted)
        }),
        function(
            "has_tag_prefix",
            vec![text_list(), Utf8],
            Boolean,
            |arguments| any_tag(arguments, |tag, prefix| tag.starts_with(prefix)),
        ),
        function("profile_field", vec![Utf8, Utf8], Utf8, |arguments| {
            let (contexts, names) = (strings(arguments, 0)?, strings(arguments, 1)?);
            Ok(texts(
                contexts
                    .iter()
                    .zip(names.iter())
                    .map(|(context, name)| profile_field(context?, name?)),
            ))
        }),
        function(
            "domain_field",
            vec![DataType::Binary, Utf8],
            Utf8,
            |arguments| {
                let (blobs, names) = (blobs(arguments)?, strings(arguments, 1)?);
                Ok(texts(
                    blobs
                        .iter()
                        .zip(names.iter())
                        .map(|(blob, name)| domain_field(blob?, name?)),
                ))
            },
        ),
        function("grain_reference", vec![Utf8], Utf8, |arguments| {
            let named = |text: &str| {
                ContentAddress::from_reference(text).map(|address| address.to_string())
            };
            Ok(texts(
                strings(arguments, 0)?.iter().map(|text| named(text?)),
            ))
        }),
        function("template_parameters", vec![Utf8], Utf8, |arguments| {
            Ok(texts(
                strings(arguments, 0)?
                    .iter()
                    .map(|path| Some(list_of(&parameters(path?)))),
            ))
        }),
        function("sorted_list", vec![Utf8], Utf8, |arguments| {
            Ok(texts(
                strings(arguments, 0)?.iter().map(|json| sorted(json?)),
            ))
        }),
        function("personal_data", vec![Utf8], text_list(), |arguments| {
            Ok(personal_data(&strings(arguments, 0)?))
        }),
        function("mask_personal_data", vec![Utf8], Utf8, |arguments| {
            Ok(texts(
                strings(arguments, 0)?
                    .iter()
                    .map(|text| Some(detect::mask(text?).into_owned())),
            ))
        }),
    ]
}

/// Returns for each row whether a tag satisfies `is`. The second argument is nearly always
/// constant.
fn any_tag(arguments: &[ArrayRef], is: impl Fn(&str, &str) -> bool) -> Result<ArrayRef> {
    let lists = cast(nth(arguments, 0)?, &text_list())?;
    let (lists, wanted) = (lists.as_list::<i32>(), strings(arguments, 1)?);
    let tags: &StringArray = lists.values().as_string();
    let offsets = lists.value_offsets();
    let verdicts = offsets.windows(2).enumerate().map(|(row, window)| {
        let range = window[0] as usize..window[1] as usize;
        let wanted = if wanted.is_valid(row) {
            wanted.value(row)
        } else {
            return false;
        };
        lists.is_valid(row)
            && range
                .into_iter()
                .any(|at| tags.is_valid(at) && is(tags.value(at), wanted))
    });
    Ok(Arc::new(verdicts.map(Some).collect::<BooleanArray>()))
}

fn profile_field(context: &str, name: &str) -> Option<String> {
    // Most contexts have no profile field; a substring search avoids parsing them.
    if !integration_keys(name).any(|key| context.contains(key)) {
        return None;
    }
    let json = Json::parse(context.as_bytes()).ok()?;
    let found = find_domain_field(name, |place, key| match place {
        DomainFieldScope::Grain => None,
        DomainFieldScope::Context => json.get(key).filter(|value| !value.is_null()),
    });
    found.map(as_text)
}

/// Returns a text unquoted, anything else as JSON.
fn as_text(json: &Json<'_>) -> String {
    json.as_str()
        .map_or_else(|| json.to_string(), str::to_owned)
}

fn domain_field(blob: &[u8], name: &str) -> Option<String> {
    let header = GrainHeader::read(blob).ok()?;
    // Most grains have no profile field; a byte search avoids decoding them.
    if !header.flags.compressed() && !may_contain_domain_field(blob, name) {
        return None;
    }
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok()?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient).ok()?;
    grain
        .domain_field(name)
        .map(|value| as_text(&to_json(&value)))
}

fn parameters(path: &str) -> BTreeSet<&str> {
    path.split('{')
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('}')?.0.trim_start_matches('+')))
        .collect()
}

fn sorted(json: &str) -> Option<String> {
    let list = Json::parse(json.as_bytes()).ok()?;
    let names: Option<BTreeSet<&str>> = list.as_array()?.iter().map(Json::as_str).collect();
    Some(list_of(&names?))
}

fn list_of(names: &BTreeSet<&str>) -> String {
    Json::Array(names.iter().map(|name| Json::string(*name)).collect()).to_string()
}

fn personal_data(texts: &StringArray) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(Field::new(
        "element",
        DataType::Utf8,
        true,
    ));
    for text in texts {
        let kinds = text.map(detect::kinds).unwrap_or_default();
        kinds
            .iter()
            .for_each(|kind| lists.values().append_value(kind.name()));
        lists.append(!kinds.is_empty());
    }
    Arc::new(lists.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_fields_are_found_by_short_key() {
        let context = r#"{"ihp":"/a/{b}","int:read_only":true,"hc:icd10":["J45"]}"#;
        assert_eq!(
            profile_field(context, "int:http_path").as_deref(),
            Some("/a/{b}")
        );
        assert_eq!(
            profile_field(context, "int:read_only").as_deref(),
            Some("true")
        );
        assert_eq!(
            profile_field(context, "hc:icd10").as_deref(),
            Some(r#"["J45"]"#)
        );
        assert_eq!(profile_field(context, "hc:cpt"), None);
    }

    #[test]
    fn path_parameters_equal_a_list_in_any_order() {
        let path = list_of(&parameters("/repos/{owner}/{repo}/issues/{number}"));
        assert_eq!(Some(path), sorted(r#"["repo","number","owner"]"#));
        assert_eq!(sorted("{}"), None);
    }
}

//! Validation of the input of a tool call against the tool's schema (§5.2.4), both when it is
//! parsed and before it is run.
//!
//! `pattern` and `format` are treated as annotations, since the schemas of providers use
//! incompatible dialects of them.

use std::fmt;

use crate::json::{Json, Object};

/// A mismatch between an input and its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputError {
    /// The path from `$`.
    pub path: String,
    /// The violated keyword of the schema.
    pub keyword: &'static str,
}

impl fmt::Display for InputError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: breaks `{}`", self.path, self.keyword)
    }
}

/// Returns all mismatches between `input` and `schema`; empty if it matches.
pub fn check_input(schema: &Object, input: &Object) -> Vec<InputError> {
    let mut errors = Vec::new();
    if type_refuses(schema, "object") {
        errors.push(InputError {
            path: "$".to_owned(),
            keyword: "type",
        });
    }
    check_object(schema, input, "$", &mut errors);
    errors
}

fn check(schema: &Object, value: &Json, path: &str, errors: &mut Vec<InputError>) {
    let mut fail = |keyword| {
        errors.push(InputError {
            path: path.to_owned(),
            keyword,
        })
    };
    if type_refuses(schema, type_of(value))
        && (!is_integral(value) || type_refuses(schema, "integer"))
    {
        fail("type");
    }
    if schema
        .get("enum")
        .and_then(Json::as_array)
        .is_some_and(|allowed| !allowed.contains(value))
    {
        fail("enum");
    }
    if schema.get("const").is_some_and(|only| only != value) {
        fail("const");
    }
    match value {
        Json::Number(number) => {
            let bound = |keyword| schema.get(keyword).and_then(Json::as_f64);
            check_range(
                number.as_f64(),
                bound("minimum"),
                bound("maximum"),
                ["minimum", "maximum"],
                fail,
            );
        }
        Json::String(text) => {
            check_length(
                schema,
                text.chars().count(),
                ["minLength", "maxLength"],
                fail,
            );
        }
        Json::Array(items) => {
            check_length(schema, items.len(), ["minItems", "maxItems"], fail);
            if let Some(Json::Object(each)) = schema.get("items") {
                let items = items.iter().enumerate();
                items.for_each(|(index, item)| {
                    check(each, item, &format!("{path}[{index}]"), errors)
                });
            }
        }
        Json::Object(object) => check_object(schema, object, path, errors),
        Json::Null | Json::Bool(_) => {}
    }
}

/// The number of arguments from which the properties of a schema are indexed.
const MANY_ARGUMENTS: usize = 64;

fn check_object(schema: &Object, object: &Object, path: &str, errors: &mut Vec<InputError>) {
    let required = schema
        .get("required")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let present = object.index();
    for name in required
        .iter()
        .filter_map(Json::as_str)
        .filter(|name| present.get(name).is_none())
    {
        errors.push(InputError {
            path: format!("{path}.{name}"),
            keyword: "required",
        });
    }
    let properties = schema.get("properties").and_then(Json::as_object);
    // The schema may be large, and its calls small and many.
    let indexed = properties.filter(|_| object.len() >= MANY_ARGUMENTS);
    let indexed = indexed.map(Object::index);
    let closed = schema.get("additionalProperties").and_then(Json::as_bool) == Some(false);
    for (name, value) in object.iter() {
        let path = format!("{path}.{name}");
        let property = match &indexed {
            Some(indexed) => indexed.get(name),
            None => properties.and_then(|properties| properties.get(name)),
        };
        match property {
            Some(Json::Object(property)) => check(property, value, &path, errors),
            Some(_) => {}
            None if closed => errors.push(InputError {
                path,
                keyword: "additionalProperties",
            }),
            None => {}
        }
    }
}

fn type_refuses(schema: &Object, name: &str) -> bool {
    // An integer is also a number.
    let fits = |allowed: &Json| {
        allowed
            .as_str()
            .is_some_and(|allowed| allowed == name || (allowed, name) == ("number", "integer"))
    };
    match schema.get("type") {
        None => false,
        Some(Json::Array(names)) => !names.iter().any(fits),
        Some(only) => !fits(only),
    }
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Number(number) if number.is_integer() => "integer",
        other => other.kind(),
    }
}

/// Returns true for integers as defined by JSON Schema, which include `1.0`.
fn is_integral(value: &Json) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn check_length(
    schema: &Object,
    length: usize,
    keywords: [&'static str; 2],
    fail: impl FnMut(&'static str),
) {
    let bound = |keyword| schema.get(keyword).and_then(Json::as_f64);
    check_range(
        length as f64,
        bound(keywords[0]),
        bound(keywords[1]),
        keywords,
        fail,
    );
}

fn check_range(
    value: f64,
    least: Option<f64>,
    most: Option<f64>,
    [below, above]: [&'static str; 2],
    mut fail: impl FnMut(&'static str),
) {
    if least.is_some_and(|least| value < least) {
        fail(below);
    }
    if most.is_some_and(|most| value > most) {
        fail(above);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(schema: &str, input: &str) -> Vec<String> {
        let (schema, input) = (
            Json::parse(schema.as_bytes()).unwrap(),
            Json::parse(input.as_bytes()).unwrap(),
        );
        let errors = check_input(schema.as_object().unwrap(), input.as_object().unwrap());
        errors.iter().map(InputError::to_string).collect()
    }

    const SCHEMA: &str = r#"{"type":"object","required":["n"],"additionalProperties":false,"properties":{
        "n":{"type":"integer","minimum":1,"maximum":3},"s":{"type":["string","null"],"minLength":2},
        "l":{"type":"array","maxItems":2,"items":{"enum":["a","b"]}},"f":{"type":"number"},"o":{"properties":{"x":{"const":1}}}}}"#;

    #[test]
    fn a_matching_input_has_no_errors() {
        let input = r#"{"n":2.0,"s":null,"l":["a","b"],"f":1,"o":{"x":1.0,"y":"free"}}"#;
        assert!(faults(SCHEMA, input).is_empty());
    }

    #[test]
    fn all_mismatches_are_reported_with_their_paths() {
        let input = r#"{"s":"é","l":["a","c","b"],"f":"1","o":{"x":2},"z":0}"#;
        assert_eq!(
            faults(SCHEMA, input),
            [
                "$.n: breaks `required`",
                "$.s: breaks `minLength`",
                "$.l: breaks `maxItems`",
                "$.l[1]: breaks `enum`",
                "$.f: breaks `type`",
                "$.o.x: breaks `const`",
                "$.z: breaks `additionalProperties`",
            ]
        );
        assert_eq!(
            faults(SCHEMA, r#"{"n":0.5}"#),
            ["$.n: breaks `type`", "$.n: breaks `minimum`"]
        );
    }

    #[test]
    fn many_arguments_of_a_schema_with_many_properties_are_checked_in_linear_time() {
        // By linear look-ups this takes minutes.
        const COUNT: usize = 100_000;
        let members = |value: &str| {
            let members = (0..COUNT).map(|n| format!(r#""p{n}":{value}"#));
            members.collect::<Vec<_>>().join(",")
        };
        let names = (0..=COUNT).map(|n| format!(r#""p{n}""#));
        let names = names.collect::<Vec<_>>().join(",");
        let schema = format!(
            r#"{{"required":[{names}],"properties":{{{}}}}}"#,
            members(r#"{"type":"string"}"#)
        );
        let object = |text: &str| match Json::parse(text.as_bytes()).unwrap().into_owned() {
            Json::Object(object) => object,
            other => panic!("{other:?}"),
        };
        let input = object(&format!("{{{}}}", members("0")));
        let errors = check_input(&object(&schema), &input);
        assert_eq!(errors.len(), COUNT + 1);
    }
}

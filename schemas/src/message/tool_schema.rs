//! The subset of JSON Schema for the input schemas of tools (§5.4), which the major providers
//! support reliably.
//!
//! A schema outside the subset is rejected when the tool is registered, with all violations and
//! their paths.

use std::fmt;

use crate::json::{Json, Object};

const TYPES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

const ALLOWED: &[&str] = &[
    "type",
    "enum",
    "required",
    "properties",
    "items",
    "description",
    "format",
    "const",
    "title",
    "default",
    "examples",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "additionalProperties",
];

const DISALLOWED: &[&str] = &[
    "$ref",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
];

/// A violation of the subset by a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// The path: `$`, `$.properties.x`, `$.items` and so on.
    pub path: String,
    /// The problem.
    pub problem: SchemaProblem,
}

/// A problem of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaProblem {
    /// A keyword of JSON Schema that the subset excludes.
    Disallowed(String),
    /// An unknown keyword.
    Unknown(String),
    /// An unknown type.
    Type(String),
    /// A keyword with a value of the wrong kind; holds the expected kind.
    Kind(&'static str),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.path)?;
        match &self.problem {
            SchemaProblem::Disallowed(keyword) => {
                write!(formatter, "disallowed JSON Schema keyword `{keyword}`")
            }
            SchemaProblem::Unknown(keyword) => {
                write!(formatter, "unknown JSON Schema keyword `{keyword}`")
            }
            SchemaProblem::Type(name) => write!(
                formatter,
                "`{name}` is not one of the types {}",
                TYPES.join(", ")
            ),
            SchemaProblem::Kind(expected) => write!(formatter, "must be {expected}"),
        }
    }
}

/// Returns all violations of the subset by `schema`; empty if there are none.
///
/// Property names are not keywords. Tuple-form `items` and sub-schemas that are not objects are
/// ignored.
pub fn check_schema(schema: &Object) -> Vec<SchemaError> {
    let mut errors = Vec::new();
    walk(schema, "$", &mut errors);
    errors
}

fn walk(schema: &Object, path: &str, errors: &mut Vec<SchemaError>) {
    for (keyword, value) in schema.iter() {
        let here = || format!("{path}.{keyword}");
        match (keyword, value) {
            ("type", value) => check_type(value, path, errors),
            ("properties", Json::Object(properties)) => {
                for (name, property) in properties.iter() {
                    if let Json::Object(property) = property {
                        walk(property, &format!("{path}.properties.{name}"), errors);
                    }
                }
            }
            ("properties", _) => errors.push(SchemaError {
                path: here(),
                problem: SchemaProblem::Kind("an object"),
            }),
            ("items", Json::Object(items)) => walk(items, &here(), errors),
            ("additionalProperties", value) if value.as_bool().is_none() => {
                errors.push(SchemaError {
                    path: here(),
                    problem: SchemaProblem::Kind("a boolean"),
                });
            }
            _ if ALLOWED.contains(&keyword) => {}
            _ => {
                let make = if DISALLOWED.contains(&keyword) {
                    SchemaProblem::Disallowed
                } else {
                    SchemaProblem::Unknown
                };
                errors.push(SchemaError {
                    path: path.to_owned(),
                    problem: make(keyword.to_owned()),
                });
            }
        }
    }
}

fn check_type(value: &Json, path: &str, errors: &mut Vec<SchemaError>) {
    let mut check = |name: &Json| {
        let problem = match name.as_str() {
            Some(name) if TYPES.contains(&name) => return,
            Some(name) => SchemaProblem::Type(name.to_owned()),
            None => SchemaProblem::Kind("a type name or a list of them"),
        };
        errors.push(SchemaError {
            path: format!("{path}.type"),
            problem,
        });
    };
    match value {
        Json::Array(names) => names.iter().for_each(check),
        name => check(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(schema: &str) -> Vec<String> {
        let json = Json::parse(schema.as_bytes()).unwrap();
        check_schema(json.as_object().unwrap())
            .iter()
            .map(SchemaError::to_string)
            .collect()
    }

    #[test]
    fn all_violations_are_reported_with_their_paths() {
        let schema = r#"{"type":["string","any",3],"$defs":{},"properties":{"a":{"anyOf":[]},"b":{"items":{"not":{}}}},
            "additionalProperties":{}}"#;
        assert_eq!(
            faults(schema),
            [
                "$.type: `any` is not one of the types array, boolean, integer, null, number, \
                 object, string",
                "$.type: must be a type name or a list of them",
                "$: unknown JSON Schema keyword `$defs`",
                "$.properties.a: disallowed JSON Schema keyword `anyOf`",
                "$.properties.b.items: disallowed JSON Schema keyword `not`",
                "$.additionalProperties: must be a boolean",
            ]
        );
    }

    #[test]
    fn names_of_properties_are_not_keywords() {
        assert!(
            faults(r#"{"properties":{"oneOf":{"type":"string"},"$ref":{"type":"null"},"x":true}}"#)
                .is_empty()
        );
        assert_eq!(
            faults(r#"{"properties":[]}"#),
            ["$.properties: must be an object"]
        );
        assert!(faults(r##"{"items":[{"$ref":"#"}]}"##).is_empty());
    }
}

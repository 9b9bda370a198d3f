//! Functions of one statement of CAL for other processes: what a function over blobs is made of, as
//! JSON. Conditions and fields are written as in a statement.

use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ScalarUDF;
use gristmill_engine::text::{Statistics, Terms};
use gristmill_schemas::grain::Field;
use serde::{Deserialize, Serialize};

use super::blob_functions::{BlobFunction, FunctionKind};
use super::domain_field::DomainPredicate;
use crate::cal::ast::{Condition, Statement};
use crate::cal::fields::KnownField;
use crate::cal::{Options, parse};

/// A function over blobs.
#[derive(Serialize, Deserialize)]
enum SentFunction {
    PayloadText {
        field: String,
    },
    DomainPredicate {
        condition: String,
    },
    DomainTexts {
        field: String,
    },
    HasWords {
        terms: Terms,
        fields: Vec<String>,
    },
    Frequencies {
        terms: Terms,
    },
    Score {
        terms: Terms,
        statistics: Statistics,
    },
}

/// Returns a function of one statement in the form that [`decode_function`] reads; `None` for other
/// functions.
pub fn encode_function(function: &ScalarUDF) -> Option<Vec<u8>> {
    let function = function.inner().downcast_ref::<BlobFunction>()?;
    let bytes = serde_json::to_vec(&SentFunction::of(&function.kind)).ok()?;
    // A condition that doesn't mean the same as text can't be sent.
    let decoded = decode_function(&bytes).ok()?;
    let is_same = decoded.inner().downcast_ref::<BlobFunction>() == Some(function);
    is_same.then_some(bytes)
}

/// Returns the function of which [`encode_function`] returned `bytes`.
///
/// # Errors
/// If `bytes` aren't a function of this version.
pub fn decode_function(bytes: &[u8]) -> Result<ScalarUDF> {
    let sent: SentFunction = serde_json::from_slice(bytes)
        .map_err(|error| exec_datafusion_err!("a function can't be decoded: {error}"))?;
    let kind = sent.into_kind();
    let kind = kind.ok_or_else(|| exec_datafusion_err!("a function has an unknown field"))?;
    Ok(BlobFunction::of(kind))
}

impl SentFunction {
    fn of(kind: &FunctionKind) -> SentFunction {
        match kind {
            FunctionKind::PayloadText(field) => SentFunction::PayloadText {
                field: field.name().to_owned(),
            },
            FunctionKind::DomainPredicate(test) => SentFunction::DomainPredicate {
                condition: test.to_string(),
            },
            FunctionKind::DomainTexts(field) => SentFunction::DomainTexts {
                field: field.to_string(),
            },
            FunctionKind::HasWords(terms, fields) => SentFunction::HasWords {
                terms: terms.clone(),
                fields: fields.iter().map(|field| field.name().to_owned()).collect(),
            },
            FunctionKind::Frequencies(terms) => SentFunction::Frequencies {
                terms: terms.clone(),
            },
            FunctionKind::Score(terms, statistics) => SentFunction::Score {
                terms: terms.clone(),
                statistics: statistics.clone(),
            },
        }
    }

    /// Returns `None` for a field or condition that CAL doesn't have.
    fn into_kind(self) -> Option<FunctionKind> {
        Some(match self {
            SentFunction::PayloadText { field } => {
                FunctionKind::PayloadText(KnownField::from_name(&field)?)
            }
            SentFunction::DomainPredicate { condition } => {
                FunctionKind::DomainPredicate(DomainPredicate::new(&condition_of(&condition)?))
            }
            SentFunction::DomainTexts { field } => {
                FunctionKind::DomainTexts(condition_of(&format!("{field} = 0"))?.field)
            }
            SentFunction::HasWords { terms, fields } => {
                let fields = fields.iter().map(|name| Field::from_name(name));
                FunctionKind::HasWords(terms, fields.collect::<Option<_>>()?)
            }
            SentFunction::Frequencies { terms } => FunctionKind::Frequencies(terms),
            SentFunction::Score { terms, statistics } => FunctionKind::Score(terms, statistics),
        })
    }
}

/// Parses one condition.
fn condition_of(text: &str) -> Option<Condition> {
    let parsed = parse(&format!("RECALL WHERE {text}"), Options::default()).ok()?;
    match parsed.query.statement {
        Statement::Recall(mut recall) if recall.conditions.len() == 1 => recall.conditions.pop(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::blob_functions::{
        domain_test, domain_texts, frequencies, has_words, payload_text, score,
    };
    use crate::exec::testing::condition;

    #[test]
    fn functions_are_the_same_after_they_were_sent() {
        let terms = Terms::of("green \"tea\"");
        let mut statistics = Statistics::new(2);
        statistics.add(7, [1, 0].into_iter());
        let conditions = [
            "hc:icd10 = \"J45 \\\"x\\\"\"",
            "fin:amount BETWEEN 0.1 AND 9007199254740993",
            "legal:hold_ref IN (\"a\", \"b, c\")",
            "con:ccpa_opted_out = true",
            "hc:codes INCLUDE [\"x\"]",
            "sci:n != -3",
        ];
        let tests = conditions.map(|text| domain_test(DomainPredicate::new(&condition(text))));
        let others = [
            payload_text(KnownField::Context),
            domain_texts(condition("hc:x = 5").field),
            has_words(terms.clone(), vec![Field::Content, Field::Object]),
            frequencies(terms.clone()),
            score(terms, statistics),
        ];
        for function in tests.iter().chain(&others) {
            let bytes = encode_function(function).unwrap_or_default();
            let decoded = decode_function(&bytes);
            assert!(decoded.is_ok_and(|it| it == *function), "{function:?}");
        }
    }

    #[test]
    fn what_is_no_function_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"PayloadText":{"field":"no such field"}}"#,
            r#"{"DomainPredicate":{"condition":"hc:x = 1 AND hc:y = 2"}}"#,
            r#"{"DomainTexts":{"field":"x y"}}"#,
        ] {
            assert!(decode_function(text.as_bytes()).is_err(), "{text}");
        }
    }
}

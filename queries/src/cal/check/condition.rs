//! Rules about the operators and values of a field (CAL 1.0, sections 5 and 6).

use crate::cal::ast::{Field, Value};
use crate::cal::error::{CalError, Code, Result, WarningCode};
use crate::cal::fields::{FieldKind, FieldSpec, KnownField, Operator};
use crate::cal::grain_type::{GrainType, NameForm, TypeName};
use crate::cal::limits;
use crate::cal::relations::{is_unknown_mg, vocabulary};
use crate::cal::span::Span;
use crate::cal::suggest::nearest;
use crate::cal::time::TimePoint;

use super::Checker;

/// Checks that `field` supports `operator`.
///
/// # Errors
/// E020.
pub(crate) fn operator(field: &Field, operator: Operator, span: Span) -> Result<()> {
    let operators = field.operators();
    if operators.contains(operator) {
        return Ok(());
    }
    let names: Vec<_> = operators.iter().map(Operator::name).collect();
    Err(
        CalError::new(Code::E020, format!("\"{field}\" doesn't take {operator}."))
            .at(span)
            .suggest(format!("Use {}.", names.join(", ")))
            .valid_values(names),
    )
}

/// Checks one value that `field` is compared with, and normalises type names to those of CAL 1.0.
/// Parameters are checked when they are bound.
///
/// # Errors
/// E020 for a value of another type or a text that is no time, E003 for a type name, E062 to E066
/// for choices.
pub(crate) fn scalar(
    checker: &mut Checker,
    field: &Field,
    value: &mut Value,
    span: Span,
) -> Result<()> {
    if matches!(value, Value::Parameter(_)) {
        return Ok(());
    }
    let Some(spec) = field.spec() else {
        return domain_scalar(field, value, span);
    };
    warn_of_relation(checker, spec, value, span);
    match (spec.kind, &*value) {
        (FieldKind::Search | FieldKind::Text, Value::Text(_))
        | (FieldKind::Number, Value::Number(_))
        | (FieldKind::Boolean, Value::Boolean(_))
        | (FieldKind::Hash, Value::Hash(_)) => Ok(()),
        (FieldKind::Choice(code), Value::Text(text)) => choice(spec, code, text, span),
        (FieldKind::Time, Value::Text(_) | Value::Number(_)) => time(spec.name, value, span),
        (FieldKind::Type, Value::Text(text)) => {
            *value = type_name(text, checker.options.aliases, span)?;
            Ok(())
        }
        _ => Err(wrong_kind(field, spec.kind.name(), value).at(span)),
    }
}

/// Returns the name of a grain type in the spelling of stored grains.
fn type_name(text: &str, aliases: bool, span: Span) -> Result<Value> {
    let grain_type = GrainType::parse(text, NameForm::Singular, aliases);
    Ok(Value::text(
        grain_type.map_err(|error| error.at(span))?.name(),
    ))
}

/// Checks the number of values in an IN list.
///
/// # Errors
/// E011.
pub(crate) fn in_length(values: usize, span: Span) -> Result<()> {
    if values > limits::MAX_IN_VALUES {
        return Err(
            CalError::new(Code::E011, format!("The IN list has {values} values.")).at(span),
        );
    }
    Ok(())
}

/// Checks the items of INCLUDE and EXCLUDE: texts or parameters.
///
/// # Errors
/// E020.
pub(crate) fn items(field: &Field, values: &[Value], span: Span) -> Result<()> {
    match values
        .iter()
        .find(|value| !matches!(value, Value::Text(_) | Value::Parameter(_)))
    {
        Some(wrong) => Err(wrong_kind(field, "string", wrong).at(span)),
        None => Ok(()),
    }
}

/// Checks a point in time.
///
/// # Errors
/// E020.
pub(crate) fn time(what: &str, value: &Value, span: Span) -> Result<()> {
    if matches!(value, Value::Parameter(_)) || TimePoint::of(value).is_some() {
        return Ok(());
    }
    let message = match value {
        Value::Text(text) => format!(
            "\"{}\" is not a time.",
            text.chars().take(64).collect::<String>()
        ),
        other => format!("{what} can't be {}.", other.kind()),
    };
    Err(CalError::new(Code::E020, message).at(span).suggest(
        "Write an ISO date, \"today\", \"yesterday\", \"last 7 days\", \"3 hours ago\", \
                  or epoch seconds.",
    ))
}

/// Returns the error for a value of another type than that of `field`.
pub(crate) fn wrong_kind(field: &Field, kind: &str, value: &Value) -> CalError {
    let error = CalError::new(
        Code::E020,
        format!(
            "\"{field}\" is a {kind} and can't be compared with {}.",
            value.kind()
        ),
    );
    match (kind, value) {
        ("hash", Value::Text(text)) if is_hex(text) => {
            error.suggest(format!("Write sha256:{text}, without quotes."))
        }
        ("hash", _) => {
            error.suggest("Write sha256: and the digits of the address, without quotes.")
        }
        _ => error,
    }
}

fn is_hex(text: &str) -> bool {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits && (1..=64).contains(&text.len())
}

/// Checks a value of a choice.
///
/// # Errors
/// The code of the choice.
pub(crate) fn choice(spec: &FieldSpec, code: Code, text: &str, span: Span) -> Result<()> {
    if spec.values.contains(&text) {
        return Ok(());
    }
    let shown: String = text.chars().take(64).collect();
    let error = CalError::new(code, format!("\"{shown}\" is no {}.", spec.name))
        .at(span)
        .valid_values(spec.values.iter().copied());
    Err(match nearest(text, spec.values.iter().copied()) {
        Some(meant) => error.suggest(format!("Did you mean \"{meant}\"?")),
        None => error,
    })
}

/// Domain fields are open, so any scalar is valid.
fn domain_scalar(field: &Field, value: &Value, span: Span) -> Result<()> {
    match value {
        Value::Array(_) => Err(wrong_kind(field, "scalar", value).at(span)),
        _ => Ok(()),
    }
}

/// Warns about `mg:` relations that are not in the vocabulary.
fn warn_of_relation(checker: &mut Checker, spec: &FieldSpec, value: &Value, span: Span) {
    let Value::Text(relation) = value else { return };
    if spec.field != KnownField::Relation || !is_unknown_mg(relation) {
        return;
    }
    let mut message = format!("\"{relation}\" is not in the mg: vocabulary.");
    if let Some(meant) = nearest(relation, vocabulary()) {
        message += &format!(" Did you mean \"{meant}\"?");
    }
    checker.warn(WarningCode::W001, message, span);
}

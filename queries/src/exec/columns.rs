//! Fields of CAL as expressions over the columns of `grains` (digest of CAL 1.0, section 4, "CAL
//! name → OMS payload").
//!
//! A field that has a column is that column, so that scans can prune files and row groups. The
//! others are functions of the blob.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_nested::expr_fn::array_has;
use datafusion::logical_expr::{Expr, cast, col, in_list, lit, when};
use gristmill_schemas::columns::SystemColumn;

use super::blob_functions;
use crate::cal::ast::Field;
use crate::cal::fields::{FieldKind, FieldSource, KnownField};

/// Column of content addresses.
pub(super) const ADDRESS: &str = SystemColumn::ContentAddress.name();
/// Column of the grains' bytes.
pub(super) const BLOB: &str = SystemColumn::Blob.name();
/// Column of the score, which plans add.
pub(super) const SCORE: &str = "__score";
/// Column of contradictions, which the fold of `state` adds.
pub(super) const CONTRADICTED: &str = "__contradicted";
/// Column of the verification status, which the fold of `state` adds.
pub(super) const VERIFICATION: &str = "__verification";

/// A field as an expression, by the type of its comparisons.
pub(super) enum Column {
    /// A text.
    Text(Expr),
    /// A double.
    Float(Expr),
    /// An integer.
    Integer(Expr),
    /// A boolean.
    Boolean(Expr),
    /// A timestamp in microseconds.
    Instant(Expr),
    /// A list of texts.
    Texts(Expr),
    /// A domain field, which is read from the blob.
    Domain(Field),
}

impl Column {
    /// Returns the column of `field`; `None` for full-text fields and for `namespace`, which has
    /// rules of its own.
    pub(super) fn of(field: &Field) -> Option<Column> {
        let Field::Known(known) = field else {
            return Some(Column::Domain(field.clone()));
        };
        let expression = single(*known);
        Some(match (known, known.spec().kind) {
            (KnownField::Namespace, _) | (_, FieldKind::Search) => return None,
            (KnownField::DependsOn | KnownField::Scope, _) | (_, FieldKind::Items) => {
                Column::Texts(expression)
            }
            (KnownField::Threshold | KnownField::AgreementCount, _) => Column::Integer(expression),
            (_, FieldKind::Number) => Column::Float(expression),
            (_, FieldKind::Boolean) => Column::Boolean(expression),
            (_, FieldKind::Time) => Column::Instant(expression),
            (_, FieldKind::Text | FieldKind::Choice(_) | FieldKind::Type | FieldKind::Hash) => {
                Column::Text(expression)
            }
        })
    }
}

/// Returns the expression of a field: one value or one list for each grain.
pub(super) fn single(field: KnownField) -> Expr {
    match field {
        KnownField::Score => col(SCORE),
        KnownField::Type => col(SystemColumn::Type.name()),
        KnownField::Hash => col(ADDRESS),
        KnownField::Time => coalesce(vec![col("timestamp_ms"), col("created_at")]),
        KnownField::Contradicted => with_default(CONTRADICTED, lit(false)),
        KnownField::VerificationStatus => with_default(VERIFICATION, lit("unverified")),
        // §22.8: the default when absent.
        KnownField::RecallPriority => with_default("recall_priority", lit("warm")),
        KnownField::ActionPhase => with_default("action_phase", lit("complete")),
        KnownField::ConsentAction => consent_action(),
        KnownField::Context | KnownField::Purpose => {
            blob_functions::payload_text(field).call(vec![col(BLOB)])
        }
        _ => match field.spec().source {
            FieldSource::Payload([column, ..]) => col(*column),
            _ => lit(ScalarValue::Null),
        },
    }
}

/// Returns the values of `column`, with `default` instead of NULL.
fn with_default(column: &str, default: Expr) -> Expr {
    coalesce(vec![col(column), default])
}

/// Returns `grant` or `withdraw`; NULL for grains without `is_withdrawal`.
fn consent_action() -> Expr {
    let is_withdrawal = col("is_withdrawal");
    when(is_withdrawal.clone().is_true(), lit("withdraw"))
        .when(is_withdrawal.is_false(), lit("grant"))
        .end()
        .unwrap_or_else(|_| lit(ScalarValue::Utf8(None)))
}

/// Returns the name of the plan column that holds a stage's key.
pub(super) fn key_name(field: KnownField) -> String {
    format!("__{}", field.name())
}

/// Returns true for fields whose value is in the fold of `state`.
pub(super) fn is_lifecycle_field(field: &Field) -> bool {
    matches!(
        field,
        Field::Known(KnownField::Contradicted | KnownField::VerificationStatus)
    )
}

/// Casts an expression to text.
pub(super) fn as_text(expression: Expr) -> Expr {
    cast(expression, DataType::Utf8)
}

/// Returns the filter that a text column is one of `values`.
pub(super) fn is_one_of<'v>(column: &str, values: impl IntoIterator<Item = &'v String>) -> Expr {
    let values = values.into_iter().map(|value| lit(value.as_str()));
    in_list(col(column), values.collect(), false)
}

/// Returns whether the list contains the text; NULL without a list.
pub(super) fn list_has(list: Expr, text: &str) -> Expr {
    array_has(list, lit(text))
}

/// Returns a timestamp literal of an instant in milliseconds since the epoch.
pub(super) fn instant(milliseconds: i64) -> Expr {
    lit(ScalarValue::TimestampMicrosecond(
        Some(milliseconds.saturating_mul(1000)),
        Some("UTC".into()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(field: KnownField) -> Option<Column> {
        Column::of(&Field::Known(field))
    }

    #[test]
    fn every_field_has_a_column_unless_it_is_searched_or_the_namespace() {
        for spec in crate::cal::fields::FIELDS {
            let is_special = spec.kind == FieldKind::Search || spec.field == KnownField::Namespace;
            assert_eq!(column(spec.field).is_none(), is_special, "{}", spec.name);
        }
    }

    #[test]
    fn lists_and_whole_numbers_are_compared_as_such() {
        assert!(matches!(column(KnownField::Tags), Some(Column::Texts(_))));
        assert!(matches!(
            column(KnownField::DependsOn),
            Some(Column::Texts(_))
        ));
        assert!(matches!(
            column(KnownField::AgreementCount),
            Some(Column::Integer(_))
        ));
        assert!(matches!(
            column(KnownField::Confidence),
            Some(Column::Float(_))
        ));
    }

    #[test]
    fn an_instant_saturates_instead_of_wrapping() {
        let text = |milliseconds| instant(milliseconds).to_string();
        assert_eq!(text(i64::MAX), text(i64::MAX / 1000 + 1));
        assert_ne!(text(1), text(2));
    }
}

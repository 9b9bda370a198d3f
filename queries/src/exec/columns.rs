//! Fields of CAL as expressions over the columns of `grains` (digest of CAL 1.0, section 4, "CAL
//! name → OMS payload").
//!
//! Everything that a column holds is that column, so that scans can be narrowed; only what just the
//! blob knows is a function of the blob.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_nested::expr_fn::array_has;
use datafusion::logical_expr::{Expr, cast, col, lit, when};
use gristmill_schemas::columns::IdentityColumn;

use super::blob_functions;
use crate::cal::ast::Field;
use crate::cal::fields::{FieldKind, KnownField, Source};

/// The column of addresses.
pub(super) const ADDRESS: &str = IdentityColumn::ContentAddress.name();
/// The column of the bytes.
pub(super) const BLOB: &str = IdentityColumn::Blob.name();
/// The column that a plan adds for the score.
pub(super) const SCORE: &str = "__score";
/// The column that the fold of `state` adds for contradictions.
pub(super) const CONTRADICTED: &str = "__contradicted";
/// The column that the fold of `state` adds for verification.
pub(super) const VERIFICATION: &str = "__verification";

/// How a field is compared.
pub(super) enum Column {
    /// As one text.
    Text(Expr),
    /// As a double.
    Float(Expr),
    /// As an integer.
    Integer(Expr),
    /// As a truth.
    Boolean(Expr),
    /// As an instant in microseconds.
    Instant(Expr),
    /// As a list of texts.
    Texts(Expr),
    /// By what the blob says under a key of a domain.
    Domain(Field),
}

impl Column {
    /// The column of `field`; `None` for fields that are searched and for `namespace`, which the
    /// session decides.
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

/// The value of a field that has at most one per grain, or its list.
pub(super) fn single(field: KnownField) -> Expr {
    match field {
        KnownField::Score => col(SCORE),
        KnownField::Type => col(IdentityColumn::Type.name()),
        KnownField::Hash => col(ADDRESS),
        KnownField::Time => coalesce(vec![col("timestamp_ms"), col("created_at")]),
        KnownField::Contradicted => coalesce(vec![col(CONTRADICTED), lit(false)]),
        KnownField::VerificationStatus => coalesce(vec![col(VERIFICATION), lit("unverified")]),
        KnownField::ActionPhase => coalesce(vec![col("action_phase"), lit("complete")]),
        KnownField::ConsentAction => withdrawal(),
        KnownField::Context | KnownField::Purpose => {
            blob_functions::payload_text(field).call(vec![col(BLOB)])
        }
        _ => match field.spec().source {
            Source::Payload([column, ..]) => col(*column),
            _ => lit(ScalarValue::Null),
        },
    }
}

/// `grant` or `withdraw`, if the grain says which.
fn withdrawal() -> Expr {
    let said = col("is_withdrawal");
    when(said.clone().is_true(), lit("withdraw"))
        .when(said.is_false(), lit("grant"))
        .end()
        .unwrap_or_else(|_| lit(ScalarValue::Utf8(None)))
}

/// The name under which a stage's key travels through a plan.
pub(super) fn key_name(field: KnownField) -> String {
    format!("__{}", field.name())
}

/// True for fields whose value is in the fold of `state`.
pub(super) fn needs_state(field: &Field) -> bool {
    matches!(
        field,
        Field::Known(KnownField::Contradicted | KnownField::VerificationStatus)
    )
}

/// The expression as text.
pub(super) fn as_text(expression: Expr) -> Expr {
    cast(expression, DataType::Utf8)
}

/// True if the list has the text; unknown if there is no list.
pub(super) fn list_has(list: Expr, text: &str) -> Expr {
    array_has(list, lit(text))
}

/// An instant as a literal, in milliseconds since the epoch.
pub(super) fn instant(milliseconds: i64) -> Expr {
    lit(ScalarValue::TimestampMicrosecond(
        Some(milliseconds.saturating_mul(1000)),
        Some("UTC".into()),
    ))
}

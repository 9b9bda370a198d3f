//! Which part of the rows conditions are expected to keep. The lake has no statistics of values, so
//! only the kind of a condition counts.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, IsNotNullExpr, IsNullExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

/// An equality keeps one in so many rows.
const EQUALITY: usize = 10;

/// Any other condition that isn't one of those that keep nearly all, as DataFusion assumes.
const OTHER: usize = 5;

/// Returns a number: of so many rows, `condition` is expected to keep one.
pub(super) fn kept_one_in(condition: &Arc<dyn PhysicalExpr>) -> usize {
    split_conjunction(condition)
        .into_iter()
        .map(of_part)
        .fold(1, usize::saturating_mul)
}

fn of_part(part: &Arc<dyn PhysicalExpr>) -> usize {
    let is_test_for_null = part.downcast_ref::<IsNullExpr>().is_some()
        || part.downcast_ref::<IsNotNullExpr>().is_some();
    if is_test_for_null || part.downcast_ref::<Literal>().is_some() {
        return 1;
    }
    match part.downcast_ref::<BinaryExpr>().map(BinaryExpr::op) {
        Some(Operator::Eq | Operator::IsNotDistinctFrom) => EQUALITY,
        Some(Operator::NotEq | Operator::IsDistinctFrom) => 1,
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::DFSchema;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn equalities_keep_less_than_inequalities() {
        let context = SessionContext::new();
        let fields = ["a", "b"]
            .map(|name| arrow::datatypes::Field::new(name, arrow::datatypes::DataType::Utf8, true));
        let schema = arrow::datatypes::Schema::new(fields.to_vec());
        let schema = DFSchema::try_from(schema).unwrap();
        for (condition, expected) in [
            ("a = 'x'", 10),
            ("a = 'x' AND b = 'y'", 100),
            ("a <> 'x' AND b IS NULL", 1),
            ("b IS NOT NULL AND a LIKE 'x%'", 5),
            ("a = 'x' OR b = 'y'", 5),
            ("true", 1),
        ] {
            let logical = context.parse_sql_expr(condition, &schema).unwrap();
            let physical = context.create_physical_expr(logical, &schema).unwrap();
            assert_eq!(kept_one_in(&physical), expected, "{condition}");
        }
    }
}

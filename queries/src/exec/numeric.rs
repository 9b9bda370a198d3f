//! Comparison of numeric columns with exact decimals.
//!
//! A literal such as `0.1` lies between two doubles, and `2.5` between two integers. The comparison
//! is replaced by one with a neighbouring column value that has the same result for every value of
//! the column, so no literal is rounded.

use std::cmp::Ordering;

use datafusion::common::DataFusionError;
use datafusion::logical_expr::{Expr, lit, when};

use crate::cal::Number;
use crate::cal::ast::Comparison;

/// Returns the comparison of a double column with `literal`.
pub(super) fn compare_float(column: Expr, comparison: Comparison, literal: &Number) -> Expr {
    let nearest = literal.as_f64();
    if !nearest.is_finite() {
        let negative = literal.as_str().starts_with('-');
        return constant_if_present(column, holds_out_of_range(comparison, negative));
    }
    if literal.shortest() == "0" {
        return compare_with_zero(column, comparison);
    }
    let exact =
        Number::parse(&format!("{nearest:?}")).or_else(|| Number::parse(&format!("{nearest}")));
    let order = exact.map_or(Ordering::Equal, |exact| exact.compare(literal));
    compare_with_neighbour(column, comparison, order, lit(nearest))
}

/// Returns the comparison of a double column with zero. The two zeros of doubles are equal, but
/// Arrow orders the negative one before the other.
fn compare_with_zero(column: Expr, comparison: Comparison) -> Expr {
    let (negative, positive) = (lit(-0.0_f64), lit(0.0_f64));
    match comparison {
        Comparison::Equal => column.clone().eq(negative).or(column.eq(positive)),
        Comparison::NotEqual => column.clone().not_eq(negative).and(column.not_eq(positive)),
        Comparison::AtLeast => column.gt_eq(negative),
        Comparison::AtMost => column.lt_eq(positive),
        Comparison::Greater => column.gt(positive),
        Comparison::Less => column.lt(negative),
    }
}

/// Returns a double column with one zero, for an order: the two zeros of doubles are equal, but
/// Arrow orders the negative one before the other.
///
/// # Errors
/// None, unless DataFusion refuses the expression.
pub(super) fn with_one_zero(column: Expr) -> Result<Expr, DataFusionError> {
    let is_zero = compare_with_zero(column.clone(), Comparison::Equal);
    when(is_zero, lit(0.0_f64)).otherwise(column)
}

/// Returns the comparison of an integer column with `literal`.
pub(super) fn compare_integer(column: Expr, comparison: Comparison, literal: &Number) -> Expr {
    let text = literal.shortest();
    let negative = text.starts_with('-');
    let (whole, has_fraction) = match text.split_once('.') {
        Some((whole, _)) => (whole, true),
        None => (text, false),
    };
    match whole.parse::<i64>() {
        Err(_) => constant_if_present(column, holds_out_of_range(comparison, negative)),
        Ok(whole) => {
            // Truncation moves towards zero.
            let order = match (has_fraction, negative) {
                (false, _) => Ordering::Equal,
                (true, false) => Ordering::Less,
                (true, true) => Ordering::Greater,
            };
            compare_with_neighbour(column, comparison, order, lit(whole))
        }
    }
}

/// Returns the comparison with a literal in terms of `neighbour`, the column value next to it.
/// `neighbour_is` is the order of the neighbour relative to the literal.
fn compare_with_neighbour(
    column: Expr,
    comparison: Comparison,
    neighbour_is: Ordering,
    neighbour: Expr,
) -> Expr {
    use Comparison::{AtLeast, AtMost, Equal, Greater, Less, NotEqual};
    match (comparison, neighbour_is) {
        (Equal, Ordering::Equal) => column.eq(neighbour),
        (NotEqual, Ordering::Equal) => column.not_eq(neighbour),
        (AtLeast, Ordering::Equal) => column.gt_eq(neighbour),
        (AtMost, Ordering::Equal) => column.lt_eq(neighbour),
        (Greater, Ordering::Equal) => column.gt(neighbour),
        (Less, Ordering::Equal) => column.lt(neighbour),
        (Equal, _) => constant_if_present(column, false),
        (NotEqual, _) => constant_if_present(column, true),
        (AtLeast | Greater, Ordering::Less) => column.gt(neighbour),
        (AtLeast | Greater, Ordering::Greater) => column.gt_eq(neighbour),
        (AtMost | Less, Ordering::Less) => column.lt_eq(neighbour),
        (AtMost | Less, Ordering::Greater) => column.lt(neighbour),
    }
}

/// Returns whether the comparison holds for every column value, where the literal is above the
/// column's range, or below it with `negative`.
fn holds_out_of_range(comparison: Comparison, negative: bool) -> bool {
    match comparison {
        Comparison::Equal => false,
        Comparison::NotEqual => true,
        Comparison::AtLeast | Comparison::Greater => negative,
        Comparison::AtMost | Comparison::Less => !negative,
    }
}

/// Returns `answer` for every grain that has the field; a missing field never matches.
fn constant_if_present(column: Expr, answer: bool) -> Expr {
    column.is_not_null().and(lit(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    use Comparison::{AtLeast, AtMost, Equal, Greater, Less, NotEqual};

    const COMPARISONS: [Comparison; 6] = [Equal, NotEqual, AtLeast, AtMost, Greater, Less];

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    /// Evaluates a comparison of a constant.
    fn evaluate(expression: Expr) -> bool {
        let frame = datafusion::prelude::SessionContext::new()
            .read_empty()
            .unwrap()
            .select(vec![expression])
            .unwrap();
        let batches = futures::executor::block_on(frame.collect()).unwrap();
        use arrow::array::AsArray;
        batches[0].column(0).as_boolean().value(0)
    }

    fn holds(order: Ordering, comparison: Comparison) -> bool {
        match comparison {
            Equal => order.is_eq(),
            NotEqual => order.is_ne(),
            AtLeast => order.is_ge(),
            AtMost => order.is_le(),
            Greater => order.is_gt(),
            Less => order.is_lt(),
        }
    }

    #[test]
    fn doubles_compare_with_decimals_as_exact_numbers() {
        // The double next to 0.3 prints as 0.3, that next to the second literal does not.
        let literals = ["0.3", "0.30000000000000001", "-0.30000000000000001", "5"];
        let values = [0.3, -0.3, 0.1 + 0.2, 5.0];
        for literal in literals.map(number) {
            for value in values {
                let exact = number(&format!("{value:?}"));
                for comparison in COMPARISONS {
                    let expected = holds(exact.compare(&literal), comparison);
                    let actual = evaluate(compare_float(lit(value), comparison, &literal));
                    assert_eq!(actual, expected, "{value} {comparison:?} {literal:?}");
                }
            }
        }
    }

    #[test]
    fn integers_compare_with_decimals_as_exact_numbers() {
        let literals = ["2", "2.5", "-2.5", "0.5", "-0.5", "99999999999999999999"];
        for literal in literals.map(number) {
            for value in [-3_i64, -2, 0, 1, 2, 3] {
                let exact = number(&value.to_string());
                for comparison in COMPARISONS {
                    let expected = holds(exact.compare(&literal), comparison);
                    let actual = evaluate(compare_integer(lit(value), comparison, &literal));
                    assert_eq!(actual, expected, "{value} {comparison:?} {literal:?}");
                }
            }
        }
    }

    #[test]
    fn a_literal_beyond_all_doubles_is_above_or_below_every_value() {
        let (huge, low) = (
            number(&"1".repeat(400)),
            number(&format!("-{}", "1".repeat(400))),
        );
        assert!(evaluate(compare_float(lit(1.0), Less, &huge)));
        assert!(!evaluate(compare_float(lit(1.0), AtLeast, &huge)));
        assert!(evaluate(compare_float(lit(1.0), Greater, &low)));
        assert!(evaluate(compare_float(lit(1.0), NotEqual, &low)));
    }

    #[test]
    fn the_two_zeros_are_one_number() {
        for literal in ["0", "0.0", "-0", "-0.0"].map(number) {
            for value in [0.0, -0.0, 0.5, -0.5] {
                let exact = number(&format!("{value:?}"));
                for comparison in COMPARISONS {
                    let expected = holds(exact.compare(&literal), comparison);
                    let actual = evaluate(compare_float(lit(value), comparison, &literal));
                    assert_eq!(actual, expected, "{value:?} {comparison:?} {literal:?}");
                }
            }
        }
    }

    #[test]
    fn a_missing_value_matches_no_comparison() {
        use datafusion::common::ScalarValue;
        let missing = lit(ScalarValue::Float64(None));
        let comparison = compare_float(missing, NotEqual, &number(&"1".repeat(400)));
        assert!(!evaluate(comparison));
    }
}

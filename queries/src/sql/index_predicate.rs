//! The values that a filter allows in the columns that sidecars index.
//!
//! Only exact restrictions are extracted: equality with a text, a list of texts, alternatives of
//! these over one column, the terms of a CAL search, and domain fields without which a condition
//! isn't true. Everything else is left to the scan, which applies the whole filter in any case.

use std::collections::BTreeSet;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use gristmill_engine::text::Terms;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;

use super::required_fields::required_fields;
use crate::exec::search_terms_of;

/// A column that a sidecar indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IndexedColumn {
    /// `subject`.
    Subject = 0,
    /// `relation`.
    Relation = 1,
    /// `object`.
    Object = 2,
    /// `content_address`.
    Address = 3,
}

impl IndexedColumn {
    const ALL: [IndexedColumn; 4] = [
        IndexedColumn::Subject,
        IndexedColumn::Relation,
        IndexedColumn::Object,
        IndexedColumn::Address,
    ];

    /// The column's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            IndexedColumn::Subject => Field::Subject.name(),
            IndexedColumn::Relation => Field::Relation.name(),
            IndexedColumn::Object => Field::Object.name(),
            IndexedColumn::Address => SystemColumn::ContentAddress.name(),
        }
    }
}

/// Restrictions of a filter on the indexed columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct IndexPredicate {
    /// Allowed values by column; `None` if the filter doesn't restrict the column. An empty set
    /// matches no row.
    columns: [Option<BTreeSet<String>>; 4],
    /// Terms that the text of a row's grain must contain.
    words: Option<Terms>,
    /// Sets of domain fields; of each set a row's grain must have one.
    fields: Vec<BTreeSet<String>>,
}

impl IndexPredicate {
    /// Returns the restrictions of the conjunction of `filters`.
    pub(super) fn of(filters: &[Expr]) -> IndexPredicate {
        let mut conditions = IndexPredicate::default();
        for filter in filters.iter().flat_map(split_conjunction) {
            // One search is enough for pruning: the scan applies all of them.
            conditions.words = conditions
                .words
                .or_else(|| search_terms_of(filter).cloned());
            conditions.fields.extend(required_fields(filter));
            let Some((column, values)) = restricted_values(filter, &indexed) else {
                continue;
            };
            let known = &mut conditions.columns[column as usize];
            *known = Some(match known.take() {
                Some(before) => before.intersection(&values).cloned().collect(),
                None => values,
            });
        }
        conditions
    }

    /// Returns the allowed values of `column`, or `None` if it is unrestricted.
    pub(super) fn values(&self, column: IndexedColumn) -> Option<&BTreeSet<String>> {
        self.columns[column as usize].as_ref()
    }

    /// Returns the terms that a row must contain.
    pub(super) fn words(&self) -> Option<&Terms> {
        self.words.as_ref()
    }

    /// Returns sets of domain fields, of each of which a row must have one.
    pub(super) fn fields(&self) -> &[BTreeSet<String>] {
        &self.fields
    }

    /// Returns the restrictions without those on words.
    pub(super) fn without_words(self) -> IndexPredicate {
        IndexPredicate {
            words: None,
            ..self
        }
    }

    /// Returns true if no sidecar can prune anything.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_none() && self.fields.is_empty() && self.columns().next().is_none()
    }

    /// Returns true if subject, relation and object are unrestricted.
    pub(super) fn leaves_triple_open(&self) -> bool {
        self.columns[..3].iter().all(Option::is_none)
    }

    /// Returns the restricted columns.
    pub(super) fn columns(&self) -> impl Iterator<Item = IndexedColumn> {
        IndexedColumn::ALL
            .into_iter()
            .filter(|column| self.values(*column).is_some())
    }
}

/// Returns the column that `filter` restricts and its allowed values. `known` maps column names to
/// columns; other columns are ignored.
pub(super) fn restricted_values<C: PartialEq>(
    filter: &Expr,
    known: &dyn Fn(&str) -> Option<C>,
) -> Option<(C, BTreeSet<String>)> {
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => known(&column.name),
        _ => None,
    };
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == Operator::Eq => {
            let (column, value) = match (column(left), column(right)) {
                (Some(column), None) => (column, text(right)?),
                (None, Some(column)) => (column, text(left)?),
                _ => return None,
            };
            Some((column, BTreeSet::from([value])))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == Operator::Or => {
            let (column, mut either) = restricted_values(left, known)?;
            let (other, or) = restricted_values(right, known)?;
            either.extend(or);
            (column == other).then_some((column, either))
        }
        Expr::InList(list) if !list.negated => {
            let values = list.list.iter().map(text).collect::<Option<_>>()?;
            Some((column(&list.expr)?, values))
        }
        _ => None,
    }
}

fn indexed(name: &str) -> Option<IndexedColumn> {
    IndexedColumn::ALL
        .into_iter()
        .find(|indexed| indexed.name() == name)
}

/// Returns the value of a literal text.
pub(super) fn text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text),
            _,
        ) => text.clone(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn set(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    #[test]
    fn equality_lists_and_alternatives_restrict_a_column() {
        let filters = [
            col("subject")
                .eq(lit("ann"))
                .and(col("importance").gt(lit(0.5))),
            lit("likes")
                .eq(col("relation"))
                .or(col("relation").eq(lit("knows"))),
            col("object").in_list(vec![lit("tea"), lit("milk")], false),
            col("object").in_list(vec![lit("milk"), lit("rum")], false),
        ];
        let conditions = IndexPredicate::of(&filters);
        assert_eq!(
            conditions.values(IndexedColumn::Subject),
            Some(&set(&["ann"]))
        );
        assert_eq!(
            conditions.values(IndexedColumn::Relation),
            Some(&set(&["knows", "likes"]))
        );
        assert_eq!(
            conditions.values(IndexedColumn::Object),
            Some(&set(&["milk"]))
        );
        assert_eq!(conditions.values(IndexedColumn::Address), None);
    }

    #[test]
    fn other_filters_restrict_no_column() {
        let filters = [
            col("subject").not_eq(lit("ann")),
            col("subject")
                .eq(lit("ann"))
                .or(col("relation").eq(lit("likes"))),
            col("object").in_list(vec![lit("tea")], true),
            col("subject").eq(col("object")),
            col("user_id").eq(lit("ann")),
            !col("relation").eq(lit("likes")),
        ];
        assert!(IndexPredicate::of(&filters).columns().next().is_none());
    }

    #[test]
    fn contradicting_filters_match_no_row() {
        let conditions =
            IndexPredicate::of(&[col("subject").eq(lit("ann")), col("subject").eq(lit("bob"))]);
        assert_eq!(
            conditions.values(IndexedColumn::Subject),
            Some(&BTreeSet::new())
        );
    }
}

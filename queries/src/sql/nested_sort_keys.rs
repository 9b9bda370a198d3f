//! Sort keys that compute something of computed values become columns.
//!
//! DataFusion derives what is known of the order and range of a sort key from its operands. Of the
//! results of most functions and operators it knows no range, and of a comparison with one of them,
//! such as `length(type) > 3`, nothing at all. It then doesn't recognise the sort that it has
//! planned for such a key, and refuses the query as one whose plan lacks it. Of a column it needs
//! to know nothing, so a projection below the operator computes these keys.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, Sort, SortExpr, Window};
use datafusion::optimizer::AnalyzerRule;

/// How the names of the columns begin.
const PREFIX: &str = "__sort_key_";

/// Computes nested sort keys in a projection below sorts, window functions and aggregates.
#[derive(Debug)]
pub(super) struct NestedSortKeyRule;

impl AnalyzerRule for NestedSortKeyRule {
    fn name(&self) -> &str {
        "gristmill_nested_sort_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            Ok(match with_key_columns(&plan)? {
                Some(rewritten) => Transformed::yes(rewritten),
                None => Transformed::no(plan),
            })
        })
        .data()
    }
}

/// Returns an operator with the columns of `plan` whose nested sort keys are columns of its input;
/// `None` if it has none.
fn with_key_columns(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let (rewritten, keys) = match plan {
        LogicalPlan::Sort(sort) => {
            let mut keys = SortKeys::of(&sort.input);
            let expr = keys.replaced_in_sorts(sort.expr.clone())?;
            let Some(input) = keys.computed()? else {
                return Ok(None);
            };
            let fetch = sort.fetch;
            (LogicalPlan::Sort(Sort { expr, input, fetch }), keys)
        }
        LogicalPlan::Window(window) => {
            let mut keys = SortKeys::of(&window.input);
            let functions = keys.replaced_in_functions(&window.window_expr)?;
            let Some(input) = keys.computed()? else {
                return Ok(None);
            };
            let window = Window::try_new(functions, input)?;
            (LogicalPlan::Window(window), keys)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let mut keys = SortKeys::of(&aggregate.input);
            let functions = keys.replaced_in_functions(&aggregate.aggr_expr)?;
            let Some(input) = keys.computed()? else {
                return Ok(None);
            };
            let groups = aggregate.group_expr.clone();
            let aggregate = Aggregate::try_new(input, groups, functions)?;
            (LogicalPlan::Aggregate(aggregate), keys)
        }
        _ => return Ok(None),
    };
    let columns = keys.removed(plan.schema(), rewritten.schema());
    let projection = Projection::try_new(columns, Arc::new(rewritten))?;
    Ok(Some(LogicalPlan::Projection(projection)))
}

/// The nested sort keys of one operator, each once.
struct SortKeys<'p> {
    input: &'p Arc<LogicalPlan>,
    /// The name of the column of each key.
    columns: Vec<(String, Expr)>,
}

impl<'p> SortKeys<'p> {
    fn of(input: &'p Arc<LogicalPlan>) -> SortKeys<'p> {
        SortKeys {
            input,
            columns: Vec::new(),
        }
    }

    /// Returns `functions` with columns for the nested keys by which they partition or order.
    fn replaced_in_functions(&mut self, functions: &[Expr]) -> Result<Vec<Expr>> {
        let mut replaced = |function: Expr| {
            Ok(match function {
                Expr::WindowFunction(mut function) => {
                    let params = &mut function.params;
                    params.partition_by = std::mem::take(&mut params.partition_by)
                        .into_iter()
                        .map(|key| self.replaced(key))
                        .collect::<Result<_>>()?;
                    params.order_by =
                        self.replaced_in_sorts(std::mem::take(&mut params.order_by))?;
                    Transformed::yes(Expr::WindowFunction(function))
                }
                // With DISTINCT, the keys have to be arguments as they are.
                Expr::AggregateFunction(mut function) if !function.params.distinct => {
                    let order = std::mem::take(&mut function.params.order_by);
                    function.params.order_by = self.replaced_in_sorts(order)?;
                    Transformed::yes(Expr::AggregateFunction(function))
                }
                other => Transformed::no(other),
            })
        };
        let functions = functions.iter().cloned();
        functions
            .map(|function| function.transform_down(&mut replaced).data())
            .collect()
    }

    fn replaced_in_sorts(&mut self, sorts: Vec<SortExpr>) -> Result<Vec<SortExpr>> {
        let replaced = |sort: SortExpr| {
            let SortExpr {
                expr,
                asc,
                nulls_first,
            } = sort;
            Ok(self.replaced(expr)?.sort(asc, nulls_first))
        };
        sorts.into_iter().map(replaced).collect()
    }

    /// Returns the column of `key` if it is nested, otherwise `key`.
    fn replaced(&mut self, key: Expr) -> Result<Expr> {
        if !is_nested(&key)? || !may_be_projected(&key)? {
            return Ok(key);
        }
        let known = self.columns.iter().find(|(_, known)| *known == key);
        let name = match known {
            Some((name, _)) => name.clone(),
            None => {
                let name = self.new_name();
                self.columns.push((name.clone(), key));
                name
            }
        };
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    fn new_name(&self) -> String {
        let mut name = format!("{PREFIX}{}", self.columns.len());
        while self.input.schema().has_column_with_unqualified_name(&name) {
            name.push('_');
        }
        name
    }

    /// Returns the input with the keys as further columns; `None` if there are no keys.
    fn computed(&self) -> Result<Option<Arc<LogicalPlan>>> {
        if self.columns.is_empty() {
            return Ok(None);
        }
        let columns = self.input.schema().columns().into_iter().map(Expr::Column);
        let keys = self.columns.iter();
        let keys = keys.map(|(name, key)| key.clone().alias(name.clone()));
        let columns = columns.chain(keys).collect();
        let projection = Projection::try_new(columns, Arc::clone(self.input))?;
        Ok(Some(Arc::new(LogicalPlan::Projection(projection))))
    }

    /// Returns the columns of `before`, an operator over the input, from `after`, the same over the
    /// input with keys. Functions over keys have other names there.
    fn removed(&self, before: &DFSchema, after: &DFSchema) -> Vec<Expr> {
        let is_key = |name: &str| self.columns.iter().any(|(key, _)| key == name);
        let kept = after.iter().filter(|(_, field)| !is_key(field.name()));
        type Field<'f> = (Option<&'f TableReference>, &'f FieldRef);
        let restored = |((qualifier, before), after): (Field<'_>, Field<'_>)| {
            let column = Expr::Column(Column::from(after));
            match after.1.name() == before.name() {
                true => column,
                false => column.alias_qualified(qualifier.cloned(), before.name()),
            }
        };
        before.iter().zip(kept).map(restored).collect()
    }
}

/// Returns whether an operand of `key` is computed, too.
fn is_nested(key: &Expr) -> Result<bool> {
    let mut is_nested = false;
    key.clone().unalias().apply_children(|operand| {
        let is_leaf = matches!(operand, Expr::Column(_) | Expr::Literal(..));
        is_nested |= !is_leaf;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_nested)
}

/// Returns whether a projection can compute `key`, which isn't the case for what only a condition
/// may contain.
fn may_be_projected(key: &Expr) -> Result<bool> {
    let is_bound = key.exists(|part| {
        Ok(matches!(
            part,
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::Unnest(_)
        ))
    })?;
    Ok(!is_bound && !key.contains_outer())
}

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;
    use arrow::util::display::array_value_to_string;

    use crate::sql::first_value::first_value;
    use crate::sql::{SqlOptions, bare_context};

    /// Keys that DataFusion's own plan fails with, or that are no operands of anything.
    const KEYS: [&str; 14] = [
        "n % 3 > 0",
        "abs(n - 4) > 2",
        "length(word) > 1",
        "length(word) * 2 > 3",
        "date_trunc('day', at) > '2026-01-01T00:00:00'",
        "extract(hour FROM at) > 5",
        "CASE WHEN n * 2 > 5 THEN 1 ELSE 2 END",
        "coalesce(n % 2, 0) > 0",
        "word IS NOT NULL AND length(word) > 1",
        "word LIKE 'a%' OR NOT n * 2 > 5",
        "acos(n % 2) * -1",
        "(SELECT max(n) FROM t) - n > 3",
        "n",
        "-n",
    ];

    /// Two partitions, so that sorted rows are merged.
    const ROWS: &str = "WITH t AS (SELECT value n, chr(96 + value) || repeat('x', value % 3) word, \
                        to_timestamp(1767225600 + 7200 * (value - 3)) at \
                        FROM (SELECT * FROM generate_series(1, 5) UNION ALL \
                        SELECT * FROM generate_series(6, 9)) s(value))";

    async fn listed(query: &str) -> Vec<String> {
        let query = format!("{ROWS} {query}");
        let context = bare_context(&SqlOptions::default()).unwrap();
        let rows = async { context.sql(&query).await?.collect().await }.await;
        let rows = rows.unwrap_or_else(|error| panic!("{query}: {error}"));
        let text = |batch: &RecordBatch, row| array_value_to_string(batch.column(0), row).unwrap();
        let of_batch = |batch| (0..RecordBatch::num_rows(batch)).map(move |row| text(batch, row));
        rows.iter().flat_map(of_batch).collect()
    }

    #[tokio::test]
    async fn keys_order_as_the_column_of_their_values_does() {
        for key in KEYS {
            let of_key = |query: &str| query.replace("KEY", key);
            let rows = format!("FROM (SELECT *, {key} k FROM t) t");
            let of_column = |query: &str| query.replace("FROM t", &rows).replace("KEY", "k");
            for query in [
                "SELECT n::text x FROM t ORDER BY KEY DESC, n LIMIT 4",
                "SELECT n::text x FROM t ORDER BY KEY, word DESC",
                "SELECT n || ':' || count(*) OVER (PARTITION BY KEY) x FROM t ORDER BY n",
                "SELECT n || ':' || row_number() OVER (PARTITION BY KEY ORDER BY n) || ':' || \
                 sum(n) OVER (PARTITION BY KEY ORDER BY n % 2 > 0, n) x FROM t ORDER BY n",
                "SELECT array_agg(n ORDER BY KEY, word)::text x FROM t",
                "SELECT n % 2 || string_agg(word, ',' ORDER BY KEY, at) x FROM t GROUP BY n % 2 \
                 ORDER BY 1",
            ] {
                let found = listed(&of_key(query)).await;
                assert_eq!(found, listed(&of_column(query)).await, "{key}: {query}");
            }
        }
    }

    #[tokio::test]
    async fn results_keep_their_columns() {
        let named = "SELECT a.n, count(*) OVER (PARTITION BY a.n % 2 > 0) FROM t a JOIN t b \
                     USING (n) ORDER BY a.n * 2 > 5, n";
        let query = format!("{ROWS} {named}");
        let context = bare_context(&SqlOptions::default()).unwrap();
        let frame = context.sql(&query).await.unwrap();
        let names = frame.schema().field_names();
        let batches = frame.collect().await.unwrap();
        let fields = batches[0].schema();
        let fields: Vec<_> = fields.fields().iter().map(|field| field.name()).collect();
        assert_eq!(names.len(), 2);
        assert_eq!(fields[0], "n");
        assert!(
            fields[1].starts_with("count(*) PARTITION BY [a.n %"),
            "{fields:?}"
        );
        // Keys of distinct values are the values.
        let named = "SELECT string_agg(DISTINCT lower(upper(word)), ' ' ORDER BY \
                     lower(upper(word)) DESC) FROM t WHERE n < 4";
        let found = first_value(&format!("{ROWS} {named}")).await;
        assert_eq!(found.unwrap(), "c bxx ax");
        // A column of the user may have the name of a key.
        let named = "SELECT string_agg(__sort_key_0::text, ' ' ORDER BY __sort_key_0 * 2 > 5, \
                     __sort_key_0 DESC) FROM (SELECT n __sort_key_0 FROM t)";
        let found = first_value(&format!("{ROWS} {named}")).await;
        assert_eq!(found.unwrap(), "2 1 9 8 7 6 5 4 3");
    }
}

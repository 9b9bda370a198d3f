//! Queries of catalog tables that never have rows, such as those of indexes, triggers and policies:
//! they are replaced by queries without rows, because clients join them in ways that DataFusion
//! doesn't plan. So are queries of those views of `information_schema` about keys and character
//! sets that DataFusion doesn't have.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Join, JoinOperator, Query, Select, SelectItem, SetExpr, TableFactor,
    Value,
};

use super::PG_CATALOG;
use super::table_specs::TABLES;

/// Tables of the catalog that have rows.
const WITH_ROWS: [&str; 12] = [
    "pg_am",
    "pg_attribute",
    "pg_class",
    "pg_database",
    "pg_namespace",
    "pg_roles",
    "pg_settings",
    "pg_tables",
    "pg_tablespace",
    "pg_type",
    "pg_user",
    "pg_views",
];

/// Views of `information_schema` that would have no rows.
const INFORMATION: [&str; 4] = [
    "character_sets",
    "key_column_usage",
    "referential_constraints",
    "table_constraints",
];

/// Replaces what a query selects from tables without rows.
pub(super) fn replace_empty(query: &mut Query) {
    if replace_body(&mut query.body) {
        // Names of the replaced tables are unknown in it.
        query.order_by = None;
    }
}

/// Returns true if all of a query's body was replaced.
fn replace_body(body: &mut SetExpr) -> bool {
    match body {
        SetExpr::Select(select) if selects_nothing(select) => {
            let items = select.projection.iter().enumerate();
            select.projection = items.map(|(at, item)| null_item(at, item)).collect();
            select.from.clear();
            select.selection = Some(Expr::value(Value::Boolean(false)));
            select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
            select.having = None;
            true
        }
        SetExpr::SetOperation { left, right, .. } => {
            let left = replace_body(left);
            replace_body(right) && left
        }
        _ => false,
    }
}

/// Returns true if a table without rows decides that there are none.
fn selects_nothing(select: &Select) -> bool {
    let is_named = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expression)
        | SelectItem::ExprWithAlias {
            expr: expression, ..
        } => !expression.to_string().to_lowercase().contains("count("),
        _ => false,
    };
    let keeps_left = |join: &Join| {
        matches!(
            join.join_operator,
            JoinOperator::Join(_)
                | JoinOperator::Inner(_)
                | JoinOperator::Left(_)
                | JoinOperator::LeftOuter(_)
                | JoinOperator::CrossJoin(_)
        )
    };
    let is_inner = |join: &Join| {
        matches!(
            join.join_operator,
            JoinOperator::Join(_) | JoinOperator::Inner(_)
        )
    };
    select.projection.iter().all(is_named)
        && select.from.iter().any(|from| {
            from.joins.iter().all(keeps_left)
                && (is_empty(&from.relation)
                    || from
                        .joins
                        .iter()
                        .any(|join| is_inner(join) && is_empty(&join.relation)))
        })
}

fn is_empty(relation: &TableFactor) -> bool {
    if let TableFactor::Derived { subquery, .. } = relation {
        return matches!(&*subquery.body, SetExpr::Select(select) if selects_nothing(select));
    }
    let TableFactor::Table {
        name, args: None, ..
    } = relation
    else {
        return false;
    };
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(|part| part.value.to_lowercase())
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [name] | [PG_CATALOG, name] => {
            !WITH_ROWS.contains(name) && TABLES.iter().any(|(known, _)| known == name)
        }
        ["information_schema", name] => INFORMATION.contains(name),
        _ => false,
    }
}

/// Returns NULL under the name of an item, or under one of its own.
fn null_item(at: usize, item: &SelectItem) -> SelectItem {
    let alias = match item {
        SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names
            .last()
            .cloned()
            .unwrap_or_else(|| Ident::new("column")),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => name.clone(),
        _ => Ident::with_quote('"', format!("?column{at}?")),
    };
    SelectItem::ExprWithAlias {
        expr: Expr::value(Value::Null),
        alias,
    }
}

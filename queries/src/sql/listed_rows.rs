//! Relations in the text of a query that are limited to listed values, so that grouping and joining
//! what views read of them costs what was asked for, and not the lake.

/// Returns a relation of the rows of `relation` whose `column` is one of the values of `listed`, a
/// query of one column `listed`; without `listed`, of all rows.
pub(super) fn listed_rows(relation: &str, column: &str, listed: Option<&str>) -> String {
    match listed {
        None => relation.to_owned(),
        Some(listed) => format!(
            "(SELECT * FROM {relation} AS whole LEFT SEMI JOIN ({listed}) AS list
              ON whole.{column} = listed)"
        ),
    }
}

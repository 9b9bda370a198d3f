//! Descriptions of the tables, columns and functions of SQL: what `\d` shows and `docs/sql.md`
//! contains.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// The descriptions, by name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqlReference {
    /// Description of each table and view.
    pub tables: BTreeMap<String, String>,
    columns: BTreeMap<String, String>,
    overrides: BTreeMap<String, BTreeMap<String, String>>,
    /// Signature and description of each function that DataFusion doesn't have.
    pub functions: BTreeMap<String, String>,
}

impl SqlReference {
    /// Returns the description of a table's column, or `None` if there is none.
    pub fn column(&self, table: &str, column: &str) -> Option<&str> {
        self.overrides
            .get(table)
            .and_then(|columns| columns.get(column))
            .or_else(|| self.columns.get(column))
            .map(String::as_str)
    }

    /// Returns the name of each described column with the table that it is described for; `None`
    /// is every table.
    pub fn columns(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let general = self.columns.keys().map(|column| (None, column.as_str()));
        let special = self.overrides.iter().flat_map(|(table, columns)| {
            columns
                .keys()
                .map(move |column| (Some(table.as_str()), column.as_str()))
        });
        general.chain(special)
    }
}

/// Returns the descriptions. They are part of the program and parsed once; a test fails if that
/// gives none.
pub fn sql_reference() -> &'static SqlReference {
    static REFERENCE: LazyLock<SqlReference> =
        LazyLock::new(|| toml::from_str(include_str!("reference.toml")).unwrap_or_default());
    &REFERENCE
}

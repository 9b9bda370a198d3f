//! `docs/sql.md` describes exactly the tables, columns and functions that a lake's context has.
//!
//! `GRISTMILL_UPDATE_DOCS=1 cargo test --test integration sql_reference::` writes the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use arrow::datatypes::{DataType, TimeUnit};
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{SessionContext, SqlOptions, lake_context, sql_reference};
use gristmill_tests::generated_page::assert_generated;

/// Views of one grain type have columns of `grains` only, which are described there.
const TYPE_VIEWS: [&str; 11] = [
    "beliefs",
    "events",
    "actions",
    "observations",
    "goals",
    "states",
    "workflows",
    "reasonings",
    "consensuses",
    "consents",
    "current",
];

/// The columns of each table, in order, with their types.
type Tables = BTreeMap<String, Vec<(String, DataType)>>;

async fn registered() -> (Tables, BTreeSet<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = Lake::open_or_create(folder.path().to_str().expect("a path"))
        .await
        .expect("a lake");
    let context = lake_context(&lake, &SqlOptions::default())
        .await
        .expect("a context");
    (tables(&context).await, functions(&context))
}

async fn tables(context: &SessionContext) -> Tables {
    let catalog = context.catalog("datafusion").expect("the catalog");
    let schema = catalog.schema("public").expect("the schema");
    let mut tables = Tables::new();
    for name in schema.table_names() {
        let table = schema
            .table(&name)
            .await
            .expect("a table")
            .expect("a table");
        let schema = table.schema();
        let columns = schema.fields().iter();
        let columns = columns.map(|field| (field.name().clone(), field.data_type().clone()));
        tables.insert(name, columns.collect());
    }
    tables
}

/// Functions of `datafusion-functions-json`, which has its own documentation.
fn is_json_function(name: &str) -> bool {
    name.starts_with("json_") || name == "scalar_to_json"
}

/// Returns the names of the functions that plain DataFusion hasn't.
fn functions(context: &SessionContext) -> BTreeSet<String> {
    let (own, plain) = (context.state(), SessionContext::new().state());
    let scalar = own.scalar_functions().keys();
    let table = own.table_functions().keys();
    scalar
        .chain(table)
        .filter(|name| !is_json_function(name))
        .filter(|name| {
            !plain.scalar_functions().contains_key(*name)
                && !plain.table_functions().contains_key(*name)
        })
        .cloned()
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_column_and_function_is_described_and_no_other() {
    let (tables, functions) = registered().await;
    let reference = sql_reference();
    let described: BTreeSet<&str> = reference.tables.keys().map(String::as_str).collect();
    let named: BTreeSet<&str> = tables.keys().map(String::as_str).collect();
    assert_eq!(described, named, "tables");
    let described: BTreeSet<&str> = reference.functions.keys().map(String::as_str).collect();
    let named: BTreeSet<&str> = functions.iter().map(String::as_str).collect();
    assert_eq!(described, named, "functions");
    for (table, columns) in &tables {
        for (column, _) in columns {
            let description = reference.column(table, column);
            assert!(description.is_some(), "{table}.{column} has no description");
        }
    }
    for (table, column) in reference.columns() {
        let exists = |(name, columns): (&String, &Vec<(String, DataType)>)| {
            table.is_none_or(|table| table == name)
                && columns.iter().any(|(name, _)| name == column)
        };
        assert!(
            tables.iter().any(exists),
            "{table:?}.{column} doesn't exist"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_generated_from_the_descriptions() {
    let (tables, _) = registered().await;
    assert_generated(
        "docs/sql.md",
        "tables",
        &generated(&tables),
        "sql_reference::",
    );
}

fn generated(tables: &Tables) -> String {
    let reference = sql_reference();
    let mut page = String::new();
    for (table, description) in &reference.tables {
        let columns = tables.get(table).map_or(&[][..], Vec::as_slice);
        let _ = write!(page, "\n### {table}\n\n{description}\n\n");
        if TYPE_VIEWS.contains(&table.as_str()) {
            if table != "current" {
                let names: Vec<String> = columns
                    .iter()
                    .map(|(column, _)| format!("`{column}`"))
                    .collect();
                let _ = writeln!(page, "{}.", names.join(", "));
            }
            continue;
        }
        page.push_str("| column | type | meaning |\n|---|---|---|\n");
        for (column, kind) in columns {
            let meaning = reference.column(table, column).unwrap_or_default();
            let _ = writeln!(page, "| `{column}` | {} | {meaning} |", type_name(kind));
        }
    }
    page.push_str("\n## Functions\n\n");
    for description in reference.functions.values() {
        let _ = writeln!(page, "- {description}");
    }
    page
}

/// Returns a type in the words of SQL.
fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Utf8 => "text".to_owned(),
        DataType::Binary => "binary".to_owned(),
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int16 | DataType::Int64 => "integer".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Decimal128(..) => "decimal".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "timestamp".to_owned(),
        DataType::Dictionary(_, value) => type_name(value),
        DataType::List(item) => format!("list of {}", type_name(item.data_type())),
        DataType::Struct(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|member| format!("{} {}", member.name(), type_name(member.data_type())))
                .collect();
            format!("struct({})", members.join(", "))
        }
        other => other.to_string(),
    }
}

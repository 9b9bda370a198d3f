//! The rows of PostgreSQL's catalog, made when a query reads them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::StringBuilder;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, ListBuilder, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use pgwire::api::Type;

use super::PG_CATALOG;
use super::functions::{OWNER, TYPES, oid_of};
use super::table_specs::TABLES;
use crate::postgres::types::columns;

/// Identifier of the schema with the lake's tables.
const LAKE_SCHEMA: i64 = 2200;

/// Identifier of the owner of everything.
const OWNER_ID: i64 = 10;

/// Identifier of where the database is stored.
const TABLESPACE: i64 = 1663;

/// A value of a row.
enum Cell {
    Integer(i64),
    Text(String),
    Flag(bool),
}

impl From<i64> for Cell {
    fn from(value: i64) -> Cell {
        Cell::Integer(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Cell {
        Cell::Text(value.to_owned())
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Cell {
        Cell::Flag(value)
    }
}

/// The values of a row that differ from those of its table.
type Row = HashMap<&'static str, Cell>;

/// The schema `pg_catalog` about the tables of `lake`.
#[derive(Debug)]
pub(super) struct PgCatalog {
    database: String,
    schema_name: String,
    lake: Arc<dyn SchemaProvider>,
}

impl PgCatalog {
    pub(super) fn new(
        database: &str,
        schema_name: &str,
        lake: Arc<dyn SchemaProvider>,
    ) -> PgCatalog {
        PgCatalog {
            database: database.to_owned(),
            schema_name: schema_name.to_owned(),
            lake,
        }
    }

    async fn rows(&self, table: &str) -> Result<Vec<Row>> {
        Ok(match table {
            "pg_class" | "pg_tables" | "pg_views" | "pg_attribute" => self.lake_rows(table).await?,
            "pg_namespace" => self.schemas(),
            "pg_type" => types(),
            "pg_database" => vec![Row::from([
                ("oid", 16_384.into()),
                ("datname", self.database.as_str().into()),
                ("datdba", OWNER_ID.into()),
                ("encoding", 6.into()),
                ("datcollate", "C".into()),
                ("datctype", "C".into()),
                ("datallowconn", true.into()),
                ("datlocprovider", "c".into()),
                ("dattablespace", TABLESPACE.into()),
            ])],
            "pg_tablespace" => vec![Row::from([
                ("oid", TABLESPACE.into()),
                ("spcname", "pg_default".into()),
                ("spcowner", OWNER_ID.into()),
            ])],
            "pg_roles" => vec![Row::from([
                ("oid", OWNER_ID.into()),
                ("rolname", OWNER.into()),
                ("rolcanlogin", true.into()),
                ("rolconnlimit", (-1).into()),
            ])],
            "pg_user" => vec![Row::from([
                ("usename", OWNER.into()),
                ("usesysid", OWNER_ID.into()),
            ])],
            "pg_am" => vec![Row::from([
                ("oid", 2.into()),
                ("amname", "heap".into()),
                ("amtype", "t".into()),
            ])],
            "pg_settings" => crate::postgres::statements::SETTINGS
                .iter()
                .map(|(name, value)| {
                    Row::from([("name", (*name).into()), ("setting", (*value).into())])
                })
                .collect(),
            _ => Vec::new(),
        })
    }

    fn schemas(&self) -> Vec<Row> {
        let schemas = [
            (LAKE_SCHEMA, self.schema_name.as_str()),
            (11, PG_CATALOG),
            (13_000, "information_schema"),
        ];
        let row = |(oid, name): (i64, &str)| {
            Row::from([
                ("oid", oid.into()),
                ("nspname", name.into()),
                ("nspowner", OWNER_ID.into()),
            ])
        };
        schemas.map(row).into()
    }

    /// Returns the rows about the lake's tables.
    async fn lake_rows(&self, table: &str) -> Result<Vec<Row>> {
        let mut names = self.lake.table_names();
        names.sort_unstable();
        let mut rows = Vec::new();
        for name in names {
            let Some(described) = self.lake.table(&name).await? else {
                continue;
            };
            let is_view = described.table_type() == TableType::View;
            match table {
                "pg_class" => rows.push(relation(&name, is_view, &described.schema())),
                "pg_attribute" => rows.extend(attributes(&name, &described.schema())),
                "pg_views" if is_view => rows.push(self.listed("viewname", "viewowner", &name)),
                "pg_tables" if !is_view => rows.push(self.listed("tablename", "tableowner", &name)),
                _ => {}
            }
        }
        Ok(rows)
    }

    fn listed(&self, name_column: &'static str, owner: &'static str, name: &str) -> Row {
        Row::from([
            ("schemaname", self.schema_name.as_str().into()),
            (name_column, name.into()),
            (owner, OWNER.into()),
        ])
    }
}

fn relation(name: &str, is_view: bool, schema: &Schema) -> Row {
    let columns = i64::try_from(schema.fields().len()).unwrap_or(0);
    Row::from([
        ("oid", oid_of(name).into()),
        ("relname", name.into()),
        ("relnamespace", LAKE_SCHEMA.into()),
        ("relowner", OWNER_ID.into()),
        ("relam", if is_view { 0 } else { 2 }.into()),
        ("reltuples", (-1).into()),
        ("relpersistence", "p".into()),
        ("relkind", if is_view { "v" } else { "r" }.into()),
        ("relnatts", columns.into()),
        ("relispopulated", true.into()),
        ("relreplident", "n".into()),
    ])
}

fn attributes(table: &str, schema: &Schema) -> Vec<Row> {
    let row = |(number, column): (i64, crate::postgres::types::Column)| {
        Row::from([
            ("attrelid", oid_of(table).into()),
            ("attname", column.name.as_str().into()),
            ("atttypid", i64::from(column.kind.oid()).into()),
            ("attlen", i64::from(column.size()).into()),
            ("attnum", number.into()),
            ("atttypmod", (-1).into()),
            ("attislocal", true.into()),
            ("attstattarget", (-1).into()),
            ("attstorage", "x".into()),
        ])
    };
    (1..).zip(columns(schema)).map(row).collect()
}

fn types() -> Vec<Row> {
    let row = |kind: &Type, category: &str, item: i64, array: i64| {
        Row::from([
            ("oid", i64::from(kind.oid()).into()),
            ("typname", kind.name().into()),
            ("typnamespace", 11.into()),
            ("typowner", OWNER_ID.into()),
            ("typlen", (-1).into()),
            ("typtype", "b".into()),
            ("typcategory", category.into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typelem", item.into()),
            ("typarray", array.into()),
            ("typtypmod", (-1).into()),
        ])
    };
    let rows = TYPES.iter().flat_map(|(kind, array)| {
        [
            row(kind, "U", 0, array.oid().into()),
            row(array, "A", kind.oid().into(), 0),
        ]
    });
    rows.collect()
}

#[async_trait]
impl SchemaProvider for PgCatalog {
    fn table_names(&self) -> Vec<String> {
        TABLES.map(|(name, _)| name.to_owned()).into()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some((_, columns)) = TABLES.iter().find(|(known, _)| *known == name) else {
            return Ok(None);
        };
        let batch = batch(columns, &self.rows(name).await?)?;
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        Ok(Some(Arc::new(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|(known, _)| *known == name)
    }
}

/// Returns rows with the columns of a specification.
fn batch(columns: &'static str, rows: &[Row]) -> Result<RecordBatch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for column in columns.split_ascii_whitespace() {
        let (name, kind) = column.split_once(':').unwrap_or((column, "t"));
        let array = array(name, kind, rows);
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn array(name: &str, kind: &str, rows: &[Row]) -> ArrayRef {
    let cells = rows.iter().map(|row| row.get(name));
    let is_null = kind.chars().all(char::is_uppercase);
    match kind.to_ascii_lowercase().as_str() {
        "i" => Arc::new(Int64Array::from_iter(cells.map(|cell| match cell {
            Some(Cell::Integer(value)) => Some(*value),
            _ => (!is_null).then_some(0),
        }))),
        "b" => Arc::new(BooleanArray::from_iter(cells.map(|cell| match cell {
            Some(Cell::Flag(value)) => Some(*value),
            _ => (!is_null).then_some(false),
        }))),
        "l" => {
            let item = Field::new_list_field(DataType::Utf8, true);
            let mut lists = ListBuilder::new(StringBuilder::new()).with_field(item);
            cells.for_each(|_| lists.append(!is_null));
            Arc::new(lists.finish())
        }
        _ => Arc::new(StringArray::from_iter(cells.map(|cell| match cell {
            Some(Cell::Text(value)) => Some(value.as_str()),
            _ => (!is_null).then_some(""),
        }))),
    }
}

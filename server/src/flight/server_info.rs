//! The capabilities of the server and its types, in the form that drivers request.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::{FlightError, Result};
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetSqlInfo, Nullable, Searchable, SqlInfo, XdbcDataType, XdbcDatetimeSubcode,
};
use tonic::Status;

use crate::http::MAX_BODY;

/// Unquoted names are those of lower case; of `SqlSupportedCaseSensitivity`.
const LOWER_CASE: i32 = 3;

/// NULL comes after every value; of `SqlNullOrdering`.
const NULLS_HIGH: i32 = 0;

/// There are no transactions; of `SqlSupportedTransaction`.
const NO_TRANSACTIONS: i32 = 0;

/// Handles of prepared statements don't expire: they contain the statement.
const NO_TIMEOUT: i32 = 0;

/// Answers the command of what the server can do.
///
/// # Errors
/// Too many names, and those of the encoding.
pub(super) fn info_rows(command: CommandGetSqlInfo) -> Result<RecordBatch> {
    check_names(command.info.len())?;
    command.into_builder(&sql_info()?).build()
}

/// Largest number of names in a command about the catalog: each is compared with every row.
const MAX_NAMES: usize = 1_000;

/// Refuses a command with more names than the server has.
pub(super) fn check_names(number: usize) -> Result<()> {
    match number <= MAX_NAMES {
        true => Ok(()),
        false => Err(FlightError::from(Status::invalid_argument(format!(
            "the command has {number} names, more than {MAX_NAMES}"
        )))),
    }
}

/// Returns what the server can do.
fn sql_info() -> Result<SqlInfoData> {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "gristmill");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    for (name, value) in [
        (SqlInfo::FlightSqlServerReadOnly, true),
        (SqlInfo::FlightSqlServerSql, true),
        (SqlInfo::FlightSqlServerSubstrait, false),
        (SqlInfo::FlightSqlServerCancel, false),
        (SqlInfo::FlightSqlServerBulkIngestion, false),
        (SqlInfo::SqlDdlCatalog, false),
        (SqlInfo::SqlDdlSchema, false),
        (SqlInfo::SqlDdlTable, false),
        (SqlInfo::SqlAllTablesAreSelectable, true),
        (SqlInfo::SqlCorrelatedSubqueriesSupported, true),
        (SqlInfo::SqlTransactionsSupported, false),
        (SqlInfo::SqlSavepointsSupported, false),
        (SqlInfo::SqlNamedParametersSupported, true),
    ] {
        info.append(name, value);
    }
    for (name, value) in [
        (SqlInfo::FlightSqlServerTransaction, NO_TRANSACTIONS),
        (SqlInfo::FlightSqlServerStatementTimeout, NO_TIMEOUT),
        (SqlInfo::SqlIdentifierCase, LOWER_CASE),
        (SqlInfo::SqlNullOrdering, NULLS_HIGH),
    ] {
        info.append(name, value);
    }
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(
        SqlInfo::SqlMaxStatementLength,
        i64::try_from(MAX_BODY).unwrap_or(i64::MAX),
    );
    info.build()
}

/// Returns the types that columns and parameters have, by the names that SQL has for them.
///
/// # Errors
/// Those of the encoding.
pub(super) fn types() -> Result<XdbcTypeInfoData> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, kind, size, quote) in [
        ("BOOLEAN", XdbcDataType::XdbcBit, 1, None),
        ("SMALLINT", XdbcDataType::XdbcSmallint, 5, None),
        ("INT", XdbcDataType::XdbcInteger, 10, None),
        ("BIGINT", XdbcDataType::XdbcBigint, 19, None),
        ("REAL", XdbcDataType::XdbcReal, 7, None),
        ("DOUBLE", XdbcDataType::XdbcDouble, 15, None),
        ("DECIMAL", XdbcDataType::XdbcDecimal, 38, None),
        ("VARCHAR", XdbcDataType::XdbcVarchar, i32::MAX, Some("'")),
        ("BYTEA", XdbcDataType::XdbcVarbinary, i32::MAX, Some("X'")),
        ("DATE", XdbcDataType::XdbcDate, 10, Some("'")),
        ("TIME", XdbcDataType::XdbcTime, 15, Some("'")),
        ("TIMESTAMP", XdbcDataType::XdbcTimestamp, 32, Some("'")),
    ] {
        types.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type: kind,
            sql_data_type: datetime_subcode(kind).map_or(kind, |_| XdbcDataType::XdbcDatetime),
            datetime_subcode: datetime_subcode(kind),
            column_size: Some(size),
            literal_prefix: quote.map(str::to_owned),
            literal_suffix: quote.map(|_| "'".to_owned()),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: kind == XdbcDataType::XdbcVarchar,
            searchable: Searchable::Full,
            ..XdbcTypeInfo::default()
        });
    }
    types.build()
}

/// Returns the code that distinguishes the types of dates and times, which all have the same
/// `sql_data_type`; `None` for other types.
fn datetime_subcode(kind: XdbcDataType) -> Option<XdbcDatetimeSubcode> {
    match kind {
        // Another name of the code of a date.
        XdbcDataType::XdbcDate => Some(XdbcDatetimeSubcode::XdbcSubcodeYear),
        XdbcDataType::XdbcTime => Some(XdbcDatetimeSubcode::XdbcSubcodeTime),
        XdbcDataType::XdbcTimestamp => Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
        _ => None,
    }
}

/// Returns the columns of an answer about primary keys. There are none: tables have no constraints.
pub(super) fn primary_keys() -> RecordBatch {
    RecordBatch::new_empty(key_schema(&[
        ("catalog_name", DataType::Utf8, true),
        ("db_schema_name", DataType::Utf8, true),
        ("table_name", DataType::Utf8, false),
        ("column_name", DataType::Utf8, false),
        ("key_name", DataType::Utf8, true),
        ("key_sequence", DataType::Int32, false),
    ]))
}

/// Returns the columns of an answer about foreign keys. There are none.
pub(super) fn foreign_keys() -> RecordBatch {
    RecordBatch::new_empty(key_schema(&[
        ("pk_catalog_name", DataType::Utf8, true),
        ("pk_db_schema_name", DataType::Utf8, true),
        ("pk_table_name", DataType::Utf8, false),
        ("pk_column_name", DataType::Utf8, false),
        ("fk_catalog_name", DataType::Utf8, true),
        ("fk_db_schema_name", DataType::Utf8, true),
        ("fk_table_name", DataType::Utf8, false),
        ("fk_column_name", DataType::Utf8, false),
        ("key_sequence", DataType::Int32, false),
        ("fk_key_name", DataType::Utf8, true),
        ("pk_key_name", DataType::Utf8, true),
        ("update_rule", DataType::UInt8, false),
        ("delete_rule", DataType::UInt8, false),
    ]))
}

fn key_schema(columns: &[(&str, DataType, bool)]) -> SchemaRef {
    let fields = columns
        .iter()
        .map(|(name, kind, is_nullable)| Field::new(*name, kind.clone(), *is_nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn handles_of_prepared_statements_do_not_expire() {
        let timeout = SqlInfo::FlightSqlServerStatementTimeout as u32;
        let row = sql_info().unwrap().record_batch([timeout]).unwrap();
        let value = row.column(1).as_union().value(0);
        assert_eq!(value.as_primitive::<Int32Type>().value(0), 0);
    }

    #[test]
    fn a_command_with_too_many_names_is_refused() {
        let command = |number: usize| CommandGetSqlInfo {
            info: vec![SqlInfo::FlightSqlServerName as u32; number],
        };
        assert_eq!(info_rows(command(MAX_NAMES)).unwrap().num_rows(), 1);
        let refused = info_rows(command(MAX_NAMES + 1)).unwrap_err().to_string();
        assert!(refused.contains("more than 1000"), "{refused}");
    }

    #[test]
    fn types_of_dates_and_times_have_the_general_type_and_a_code() {
        let all = types().unwrap();
        for (kind, sql_data_type, code) in [
            (XdbcDataType::XdbcDate, 9, Some(1)),
            (XdbcDataType::XdbcTime, 9, Some(2)),
            (XdbcDataType::XdbcTimestamp, 9, Some(3)),
            (XdbcDataType::XdbcBigint, -5, None),
        ] {
            let row = all.record_batch(kind as i32).unwrap();
            let column = |name: &str| {
                let column = row.column_by_name(name).unwrap();
                column.as_primitive::<Int32Type>().iter().next().unwrap()
            };
            assert_eq!(column("data_type"), Some(kind as i32));
            assert_eq!(column("sql_data_type"), Some(sql_data_type), "{kind:?}");
            assert_eq!(column("datetime_subcode"), code, "{kind:?}");
        }
    }
}

//! Functions that clients call about the catalog and the session. Most have one answer, because
//! there are no owners, privileges, defaults and comments.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use pgwire::api::Type;

use super::PG_CATALOG;
use crate::postgres::session::SERVER_VERSION;
use crate::postgres::statements::SETTINGS;

/// Name of the owner of everything.
pub(super) const OWNER: &str = "gristmill";

/// The types that columns and parameters have, with the types of their arrays.
pub(super) const TYPES: [(Type, Type); 19] = [
    (Type::BOOL, Type::BOOL_ARRAY),
    (Type::INT2, Type::INT2_ARRAY),
    (Type::INT4, Type::INT4_ARRAY),
    (Type::INT8, Type::INT8_ARRAY),
    (Type::FLOAT4, Type::FLOAT4_ARRAY),
    (Type::FLOAT8, Type::FLOAT8_ARRAY),
    (Type::NUMERIC, Type::NUMERIC_ARRAY),
    (Type::TEXT, Type::TEXT_ARRAY),
    (Type::VARCHAR, Type::VARCHAR_ARRAY),
    (Type::NAME, Type::NAME_ARRAY),
    (Type::OID, Type::OID_ARRAY),
    (Type::BYTEA, Type::BYTEA_ARRAY),
    (Type::DATE, Type::DATE_ARRAY),
    (Type::TIME, Type::TIME_ARRAY),
    (Type::TIMESTAMP, Type::TIMESTAMP_ARRAY),
    (Type::TIMESTAMPTZ, Type::TIMESTAMPTZ_ARRAY),
    (Type::JSON, Type::JSON_ARRAY),
    (Type::JSONB, Type::JSONB_ARRAY),
    (Type::UUID, Type::UUID_ARRAY),
];

/// What a function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Answer {
    Text(&'static str),
    NoText,
    Flag(bool),
    Integer(i64),
    /// The schemas in which unqualified names are looked up.
    Schemas,
    /// The name of a type.
    FormatType,
    /// The identifier of a table of the session, or NULL.
    Relation,
    /// The identifier of a type, or NULL.
    TypeNamed,
    /// The value of a setting.
    Setting,
    /// The second argument, which a setting would have.
    SecondText,
    /// The first argument as a text, quoted where SQL needs it.
    Quoted,
    /// A pattern of LIKE whose escape character is the second argument, with a backslash as such.
    LikePattern,
}

/// Name of the function for patterns of LIKE with an escape character.
pub(super) const LIKE_PATTERN: &str = "like_pattern";

const FUNCTIONS: [(&str, Answer); 61] = [
    (LIKE_PATTERN, Answer::LikePattern),
    ("version", Answer::Text("PostgreSQL 16.6 (gristmill)")),
    ("current_schema", Answer::Text("public")),
    ("current_database", Answer::Text("datafusion")),
    ("current_catalog", Answer::Text("datafusion")),
    ("current_user", Answer::Text(OWNER)),
    ("session_user", Answer::Text(OWNER)),
    ("user", Answer::Text(OWNER)),
    ("current_role", Answer::Text(OWNER)),
    ("current_schemas", Answer::Schemas),
    ("current_setting", Answer::Setting),
    ("set_config", Answer::SecondText),
    // There are no locks. asyncpg and Npgsql call it before a connection goes back to its pool.
    ("pg_advisory_unlock_all", Answer::Text("")),
    ("quote_ident", Answer::Quoted),
    ("format_type", Answer::FormatType),
    ("to_regclass", Answer::Relation),
    ("to_regtype", Answer::TypeNamed),
    ("pg_backend_pid", Answer::Integer(0)),
    ("pg_my_temp_schema", Answer::Integer(0)),
    ("pg_relation_size", Answer::Integer(0)),
    ("pg_table_size", Answer::Integer(0)),
    ("pg_indexes_size", Answer::Integer(0)),
    ("pg_total_relation_size", Answer::Integer(0)),
    ("pg_database_size", Answer::Integer(0)),
    ("pg_tablespace_size", Answer::Integer(0)),
    ("txid_current", Answer::Integer(0)),
    ("pg_is_in_recovery", Answer::Flag(false)),
    ("pg_is_other_temp_schema", Answer::Flag(false)),
    ("pg_relation_is_publishable", Answer::Flag(false)),
    ("row_security_active", Answer::Flag(false)),
    ("pg_table_is_visible", Answer::Flag(true)),
    ("pg_type_is_visible", Answer::Flag(true)),
    ("pg_function_is_visible", Answer::Flag(true)),
    ("pg_statistics_obj_is_visible", Answer::Flag(true)),
    ("pg_collation_is_visible", Answer::Flag(true)),
    ("has_table_privilege", Answer::Flag(true)),
    ("has_schema_privilege", Answer::Flag(true)),
    ("has_column_privilege", Answer::Flag(true)),
    ("has_any_column_privilege", Answer::Flag(true)),
    ("has_database_privilege", Answer::Flag(true)),
    ("has_function_privilege", Answer::Flag(true)),
    ("pg_has_role", Answer::Flag(true)),
    ("pg_get_userbyid", Answer::Text(OWNER)),
    ("pg_encoding_to_char", Answer::Text("UTF8")),
    ("pg_size_pretty", Answer::Text("0 bytes")),
    ("obj_description", Answer::NoText),
    ("col_description", Answer::NoText),
    ("shobj_description", Answer::NoText),
    ("pg_get_expr", Answer::NoText),
    ("pg_get_viewdef", Answer::NoText),
    ("pg_get_indexdef", Answer::NoText),
    ("pg_get_constraintdef", Answer::NoText),
    ("pg_get_partkeydef", Answer::NoText),
    ("pg_get_ruledef", Answer::NoText),
    ("pg_get_triggerdef", Answer::NoText),
    ("pg_get_functiondef", Answer::NoText),
    ("pg_get_function_result", Answer::NoText),
    ("pg_get_function_arguments", Answer::NoText),
    ("pg_get_statisticsobjdef_columns", Answer::NoText),
    ("pg_get_serial_sequence", Answer::NoText),
    ("pg_tablespace_location", Answer::NoText),
];

/// Returns all functions for a session with these `tables`.
pub(super) fn functions(tables: Vec<String>) -> Vec<ScalarUDF> {
    let tables: Arc<BTreeSet<String>> = Arc::new(tables.into_iter().collect());
    let functions = FUNCTIONS.iter();
    functions
        .map(|(name, answer)| {
            ScalarUDF::new_from_impl(CatalogFunction {
                name,
                answer: *answer,
                tables: Arc::clone(&tables),
                signature: Signature::one_of(
                    vec![TypeSignature::Nullary, TypeSignature::VariadicAny],
                    Volatility::Stable,
                ),
            })
        })
        .collect()
}

/// Returns the identifier of a table: a hash of its name, so that nothing else decides about it.
pub(super) fn oid_of(name: &str) -> i64 {
    let hash = unqualified(name)
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
    16_384 + i64::from(hash & 0x3fff_ffff)
}

/// Returns the name of a table without its schema and quotes.
fn unqualified(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name).trim_matches('"')
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CatalogFunction {
    name: &'static str,
    answer: Answer,
    /// Names of the tables that the session can query.
    tables: Arc<BTreeSet<String>>,
    signature: Signature,
}

fn schemas_type() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Utf8, true))
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.answer {
            Answer::Flag(_) => DataType::Boolean,
            Answer::Integer(_) | Answer::Relation | Answer::TypeNamed => DataType::Int64,
            Answer::Schemas => DataType::List(schemas_type()),
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = match self.answer {
            Answer::Text(text) => ScalarValue::from(text),
            Answer::NoText => ScalarValue::Utf8(None),
            Answer::Flag(flag) => ScalarValue::from(flag),
            Answer::Integer(value) => ScalarValue::from(value),
            Answer::Schemas => {
                let names = [PG_CATALOG, "public"].map(ScalarValue::from);
                ScalarValue::List(ScalarValue::new_list_nullable(&names, &DataType::Utf8))
            }
            _ => return self.by_argument(&args),
        };
        Ok(ColumnarValue::Scalar(constant))
    }
}

impl CatalogFunction {
    fn by_argument(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let at = usize::from(self.answer == Answer::SecondText);
        let Some(argument) = args.args.get(at) else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None)));
        };
        let argument = argument.to_array(args.number_rows)?;
        if let (Answer::LikePattern, Some(escape)) = (self.answer, args.args.get(1)) {
            let (patterns, escapes) = (
                cast(&argument, &DataType::Utf8)?,
                cast(&escape.to_array(args.number_rows)?, &DataType::Utf8)?,
            );
            let pairs = patterns.as_string::<i32>().iter();
            let pairs = pairs.zip(escapes.as_string::<i32>().iter());
            let patterns = pairs.map(|(pattern, escape)| Some(like_pattern(pattern?, escape?)));
            return Ok(ColumnarValue::Array(Arc::new(StringArray::from_iter(
                patterns,
            ))));
        }
        let answer: ArrayRef = if self.answer == Answer::FormatType {
            let oids = cast(&argument, &DataType::Int64)?;
            let oids = oids.as_primitive::<Int64Type>().iter();
            Arc::new(StringArray::from_iter(
                oids.map(|oid| Some(type_name(oid?))),
            ))
        } else {
            let texts = cast(&argument, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>();
            match self.answer {
                Answer::Relation => Arc::new(Int64Array::from_iter(
                    texts.iter().map(|name| self.relation(name?)),
                )),
                Answer::TypeNamed => Arc::new(Int64Array::from_iter(
                    texts.iter().map(|name| type_named(name?)),
                )),
                Answer::Setting => Arc::new(StringArray::from_iter(
                    texts.iter().map(|name| setting(name?)),
                )),
                Answer::Quoted => Arc::new(StringArray::from_iter(
                    texts.iter().map(|name| Some(quoted(name?))),
                )),
                _ => Arc::new(texts.clone()),
            }
        };
        Ok(ColumnarValue::Array(answer))
    }

    /// Returns the identifier of a table that the session can query, among them those of the
    /// catalog, or `None`.
    fn relation(&self, name: &str) -> Option<i64> {
        let table = unqualified(name);
        let is_of_catalog = table.starts_with("pg_") || name.starts_with("information_schema.");
        (is_of_catalog || self.tables.contains(table)).then(|| oid_of(name))
    }
}

/// Returns the name of a type in SQL.
fn type_name(oid: i64) -> String {
    let known = u32::try_from(oid).ok().and_then(Type::from_oid);
    let Some(known) = known else {
        return "???".to_owned();
    };
    let (name, array) = match known.name().strip_prefix('_') {
        Some(name) => (name, "[]"),
        None => (known.name(), ""),
    };
    let name = match name {
        "bool" => "boolean",
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "varchar" => "character varying",
        "time" => "time without time zone",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        name => name,
    };
    format!("{name}{array}")
}

fn type_named(name: &str) -> Option<i64> {
    let mut types = TYPES.iter().flat_map(|(kind, array)| [kind, array]);
    types
        .find(|kind| kind.name() == name || type_name(kind.oid().into()) == name)
        .map(|kind| kind.oid().into())
}

/// Returns a pattern of LIKE with a backslash before what stands for itself, instead of `escape`.
fn like_pattern(pattern: &str, escape: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let is_escape = escape.starts_with(letter);
        let letter = match is_escape {
            true => letters.next().unwrap_or(letter),
            false => letter,
        };
        if letter == '\\' || is_escape && matches!(letter, '%' | '_') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn setting(name: &str) -> Option<&'static str> {
    match name {
        "server_version" => Some(SERVER_VERSION),
        name => SETTINGS
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value),
    }
}

/// The words that aren't names unless they are quoted.
const RESERVED: &str = "all analyse analyze and any array as asc asymmetric authorization between \
    bigint binary bit boolean both case cast char character check coalesce collate collation \
    column concurrently constraint create cross current_catalog current_date current_role \
    current_schema current_time current_timestamp current_user dec decimal default deferrable desc \
    distinct do else end except exists extract false fetch float for foreign freeze from full \
    grant greatest group grouping having ilike in initially inner inout int integer intersect \
    interval into is isnull join lateral leading least left like limit localtime localtimestamp \
    national natural nchar none normalize not notnull null nullif numeric offset on only or order \
    out outer overlaps overlay placing position precision primary real references returning right \
    row select session_user setof similar smallint some substring symmetric system_user table \
    tablesample then time timestamp to trailing treat trim true union unique user using values \
    varchar variadic verbose when where window with";

fn quoted(name: &str) -> String {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let is_plain = name.bytes().next().is_some_and(is_letter)
        && name
            .bytes()
            .all(|byte| is_letter(byte) || byte.is_ascii_digit())
        && !RESERVED.split_ascii_whitespace().any(|word| word == name);
    match is_plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_would_be_something_else() {
        for (name, expected) in [
            ("grains", "grains"),
            ("_a1", "_a1"),
            ("type", "type"),
            ("", "\"\""),
            ("1a", "\"1a\""),
            ("A", "\"A\""),
            ("a b", "\"a b\""),
            ("a\"b", "\"a\"\"b\""),
            ("user", "\"user\""),
            ("with", "\"with\""),
        ] {
            assert_eq!(quoted(name), expected, "{name}");
        }
    }

    #[test]
    fn patterns_have_a_backslash_before_what_stands_for_itself() {
        for (pattern, escape, expected) in [
            ("pg/_%", "/", "pg\\_%"),
            ("a//b/c", "/", "a/bc"),
            ("a\\b_", "/", "a\\\\b_"),
            ("100!%", "!", "100\\%"),
            ("x/", "/", "x/"),
            ("a_b", "", "a_b"),
        ] {
            assert_eq!(like_pattern(pattern, escape), expected, "{pattern}");
        }
    }
}

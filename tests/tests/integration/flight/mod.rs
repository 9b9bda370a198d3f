//! `gristmill serve --flight`: answers, types, parameters, errors, limits, tokens, and the
//! isolation of namespaces, with Arrow's own client and the drivers of ADBC.

mod client;
mod clients;
mod failures;
mod isolation;

use std::sync::Arc;

use arrow::array::{Array, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::IpcMessage;
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetTables, SqlInfo};
use futures::TryStreamExt;
use gristmill_queries::sql::{ParamValues, SqlOptions, lake_context, query};
use gristmill_tests::lake::TestLake;
use gristmill_tests::test_server::{Protocol, TestServer, limits, own};

use crate::namespaces;
use client::{Client, collected, connected, count, rows_of, schema_of};

/// Queries whose answers have every type.
const VALUES: [&str; 27] = [
    "true",
    "CAST(NULL AS BOOLEAN)",
    "CAST(-7 AS SMALLINT)",
    "CAST(7 AS INT)",
    "CAST(9223372036854775807 AS BIGINT)",
    "CAST(1.5 AS REAL)",
    "CAST('NaN' AS DOUBLE)",
    "CAST(-1.50 AS DECIMAL(10,2))",
    "CAST('123456789012345678901234567890.12' AS DECIMAL(38,2))",
    "'tea'",
    "''",
    "NULL",
    "X'00ff'",
    "DATE '2027-01-31'",
    "TIME '12:30:01.5'",
    "TIMESTAMP '2027-01-31T12:30:00'",
    "arrow_cast('2027-01-31T12:30:00.25Z', 'Timestamp(Millisecond, Some(\"UTC\"))')",
    "INTERVAL '2 days'",
    "ARRAY[1, 2, NULL]",
    "ARRAY['a', 'b c', '']",
    "ARRAY[ARRAY[1], ARRAY[2, 3]]",
    "named_struct('a', 1, 'b', ARRAY['x'])",
    "ARRAY[named_struct('a', 1)]",
    "MAP(ARRAY['k'], ARRAY[2])",
    "arrow_cast(5, 'UInt64')",
    "arrow_cast('x', 'Utf8View')",
    "arrow_cast('x', 'LargeUtf8')",
];

/// Runs a query in the lake itself.
async fn expected(lake: &TestLake, text: &str) -> Vec<RecordBatch> {
    let context = lake_context(&lake.lake, &SqlOptions::default())
        .await
        .unwrap();
    let rows = query(&context, text, ParamValues::List(Vec::new())).await;
    let batches = rows.unwrap().collect().await.unwrap();
    batches
        .into_iter()
        .filter(|batch| batch.num_rows() > 0)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_sql() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Flight, &lake, None, limits()).await;
    let mut client = connected(&server).await;
    for query in [
        "SELECT type, count(*) FROM current GROUP BY type ORDER BY type",
        "SELECT content_address, object, confidence FROM beliefs ORDER BY content_address",
        "SELECT count(*), count(DISTINCT namespace) FROM grains",
        "SELECT subject, relation, object FROM triples ORDER BY subject, object",
        "SELECT * FROM grains ORDER BY content_address",
        "SELECT * FROM grains WHERE false",
    ] {
        let found = rows_of(&mut client, query).await.unwrap();
        let expected = expected(&lake, query).await;
        let columns = |batches: &[RecordBatch]| arrow::util::pretty::pretty_format_batches(batches);
        assert_eq!(
            columns(&found).unwrap().to_string(),
            columns(&expected).unwrap().to_string(),
            "{query}"
        );
        let info = client.execute(query.to_owned(), None).await.unwrap();
        let announced = info.try_decode_schema().unwrap();
        assert!(!announced.fields().is_empty(), "{query}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_all_types_arrive_as_they_are() {
    let lake = TestLake::new().await;
    let server = TestServer::start(Protocol::Flight, &lake, None, limits()).await;
    let mut client = connected(&server).await;
    for value in VALUES {
        let text = format!("SELECT {value} AS v");
        let found = rows_of(&mut client, &text).await.unwrap();
        assert_eq!(found, expected(&lake, &text).await, "{value}");
    }
    // A dictionary is sent as its values.
    let text = "SELECT arrow_cast('x', 'Dictionary(Int32, Utf8)') AS v";
    let found = rows_of(&mut client, text).await.unwrap();
    assert_eq!(found[0].column(0).as_string::<i32>().value(0), "x");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_announced_columns_are_those_that_are_sent() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Flight, &lake, None, limits()).await;
    let mut client = connected(&server).await;
    for query in [
        "SELECT arrow_cast('x', 'Dictionary(Int32, Utf8)') AS v",
        r#"SELECT make_array(json_get('{"a": [1]}', 'a'), json_get('{"a": 2}', 'a')) AS v"#,
        r#"SELECT arrow_cast('x', 'Dictionary(Int32, Utf8)') AS v,
                  make_array(json_get('{"a": [1]}', 'a'), json_get('{"a": 2}', 'a')) AS w"#,
        "SELECT * FROM message_views",
        "SELECT * FROM grains",
    ] {
        let info = client.execute(query.to_owned(), None).await.unwrap();
        let announced = info.clone().try_decode_schema().unwrap();
        let prepared = client.prepare(query.to_owned(), None).await.unwrap();
        assert_eq!(prepared.dataset_schema().unwrap(), &announced, "{query}");
        let rows = collected(&mut client, info).await.unwrap();
        assert_eq!(*rows[0].schema(), announced, "{query}");
    }
    let tables = CommandGetTables {
        include_schema: true,
        table_name_filter_pattern: Some("message_views".to_owned()),
        ..CommandGetTables::default()
    };
    let info = client.get_tables(tables).await.unwrap();
    let tables = collected(&mut client, info).await.unwrap();
    let columns = tables[0].column(4).as_binary::<i32>().value(0).to_vec();
    let columns = Schema::try_from(IpcMessage(columns.into())).unwrap();
    let kind = columns.field_with_name("kind").unwrap();
    assert_eq!(kind.data_type(), &DataType::Utf8);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn get_schema_answers_the_announced_columns() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Flight, &lake, own(), limits()).await;
    let mut client = connected(&server).await;
    let statement = "SELECT subject, arrow_cast('x', 'Dictionary(Int32, Utf8)') AS v FROM beliefs";
    let mut infos = vec![
        client.get_table_types().await.unwrap(),
        client
            .get_tables(CommandGetTables::default())
            .await
            .unwrap(),
    ];
    for query in [statement, "CAL RECALL beliefs | COUNT"] {
        infos.push(client.execute(query.to_owned(), None).await.unwrap());
    }
    let mut prepared = client.prepare(statement.to_owned(), None).await.unwrap();
    infos.push(prepared.execute().await.unwrap());
    let token = server.token.as_deref();
    for info in &infos {
        let schema = schema_of(server.address, token, info).await.unwrap();
        assert_eq!(schema, info.clone().try_decode_schema().unwrap());
        assert!(!schema.fields().is_empty(), "{schema:?}");
        let refused = schema_of(server.address, None, info).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{refused}");
    }
    server.end().await;
}

/// Returns one row of parameters.
fn row(columns: Vec<(&str, Arc<dyn Array>)>) -> RecordBatch {
    let field = |(name, column): &(&str, Arc<dyn Array>)| {
        Field::new(*name, column.data_type().clone(), true)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn text(value: Option<&str>) -> Arc<dyn Array> {
    Arc::new(StringArray::from(vec![value]))
}

fn number(value: i64) -> Arc<dyn Array> {
    Arc::new(Int64Array::from(vec![value]))
}

/// Binds a row to a statement and returns the number of rows of its answer.
async fn count_with(client: &mut Client, query: &str, bound: RecordBatch) -> Result<usize, String> {
    let prepared = client.prepare(query.to_owned(), None).await;
    let mut prepared = prepared.map_err(|error| error.to_string())?;
    let bound = prepared.set_parameters(bound);
    bound.map_err(|error| error.to_string())?;
    let info = prepared
        .execute()
        .await
        .map_err(|error| error.to_string())?;
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows = client
        .do_get(ticket)
        .await
        .map_err(|error| error.to_string())?;
    let rows: Vec<RecordBatch> = rows
        .try_collect()
        .await
        .map_err(|error| error.to_string())?;
    Ok(rows.iter().map(RecordBatch::num_rows).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_take_parameters() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Flight, &lake, None, limits()).await;
    let mut client = connected(&server).await;
    let by_subject = "SELECT * FROM beliefs WHERE subject = $1 AND namespace = $2 LIMIT $3";
    let prepared = client.prepare(by_subject.to_owned(), None).await.unwrap();
    let schema = prepared.parameter_schema().unwrap();
    let types: Vec<&DataType> = schema
        .fields()
        .iter()
        .map(|field| field.data_type())
        .collect();
    assert_eq!(types.len(), 3);
    assert_eq!(types[2], &DataType::Int64);
    assert!(
        prepared
            .dataset_schema()
            .unwrap()
            .field_with_name("subject")
            .is_ok()
    );
    let row_of = |subject, limit| {
        row(vec![
            ("a", text(subject)),
            ("b", text(Some("own"))),
            ("c", number(limit)),
        ])
    };
    for (subject, limit, count) in [(Some("bob"), 10, 4), (Some("bob"), 2, 2), (None, 9, 0)] {
        let bound = row_of(subject, limit);
        let found = count_with(&mut client, by_subject, bound).await;
        assert_eq!(found, Ok(count), "{subject:?}");
    }
    let named = "SELECT * FROM beliefs WHERE subject = $who AND namespace = $where";
    let bound = row(vec![
        ("where", text(Some("own"))),
        ("who", text(Some("bob"))),
    ]);
    assert_eq!(count_with(&mut client, named, bound).await, Ok(4));
    let quoted = row(vec![("1", text(Some("x' OR '1' = '1")))]);
    let one = "SELECT * FROM beliefs WHERE subject = $1";
    assert_eq!(count_with(&mut client, one, quoted).await, Ok(0));
    let two: Arc<dyn Array> = Arc::new(StringArray::from(vec!["a", "b"]));
    let two_rows = row(vec![("1", two)]);
    let fraction: Arc<dyn Array> = Arc::new(Float64Array::from(vec![2.5]));
    for (query, bound, expected) in [
        (one, row_of(None, 1), "3 parameters are bound"),
        (
            named,
            row(vec![("who", text(None)), ("x", text(None))]),
            "no value for $where",
        ),
        ("SELECT $1", two_rows, "one row"),
        (
            "SELECT * FROM range(0, 9) LIMIT $1",
            row(vec![("1", text(Some("a")))]),
            "'a'",
        ),
        (
            "SELECT value FROM range(0, 9) WHERE value < $1",
            row(vec![("1", fraction)]),
            "a whole number in place of 2.5",
        ),
    ] {
        let error = count_with(&mut client, query, bound).await.unwrap_err();
        assert!(error.contains(expected), "{query}: {error}");
    }
    let without = rows_of(&mut client, one).await.unwrap_err();
    assert!(
        without.message().contains("0 parameters are bound"),
        "{without}"
    );
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_cal_answer_with_their_response() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Flight, &lake, own(), limits()).await;
    let mut client = connected(&server).await;
    let statement = "CAL RECALL beliefs WHERE subject = \"bob\" | COUNT";
    let found = rows_of(&mut client, statement).await.unwrap();
    let response = found[0].column(0).as_string::<i32>().value(0);
    assert!(response.contains("\"value\":4"), "{response}");
    let refused = rows_of(&mut client, "CAL FORGET \"x\"").await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    let written = rows_of(
        &mut client,
        "CAL ADD belief SET subject = \"a\" SET relation = \"b\" SET object = \"c\" REASON \"d\"",
    )
    .await;
    assert_eq!(written.unwrap_err().code(), tonic::Code::PermissionDenied);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_has_what_the_session_can_query_and_nothing_else() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Flight, &lake, own(), limits()).await;
    let mut client = connected(&server).await;
    let all = CommandGetTables {
        include_schema: true,
        ..CommandGetTables::default()
    };
    let views = CommandGetTables {
        table_name_filter_pattern: Some("b%".to_owned()),
        table_types: vec!["VIEW".to_owned()],
        ..CommandGetTables::default()
    };
    let (all, views) = (
        client.get_tables(all).await.unwrap(),
        client.get_tables(views).await,
    );
    let names = |batches: Vec<RecordBatch>| -> Vec<String> {
        let columns = batches
            .iter()
            .map(|batch| batch.column(2).as_string::<i32>().clone());
        columns
            .flat_map(|column| {
                column
                    .iter()
                    .flatten()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect()
    };
    let found = collected(&mut client, all).await.unwrap();
    assert!(
        found[0].num_columns() == 5,
        "with the columns of each table"
    );
    let all = names(found);
    for name in ["grains", "beliefs", "current"] {
        assert!(all.iter().any(|found| found == name), "{name}: {all:?}");
    }
    for name in ["audit", "rejects", "tables"] {
        assert!(!all.iter().any(|found| found == name), "{name}: {all:?}");
    }
    let views = names(collected(&mut client, views.unwrap()).await.unwrap());
    assert!(views.contains(&"beliefs".to_owned()) && !views.contains(&"grains".to_owned()));
    let catalogs = client.get_catalogs().await.unwrap();
    assert_eq!(count(&mut client, catalogs).await, 1);
    let schemas = client
        .get_db_schemas(CommandGetDbSchemas::default())
        .await
        .unwrap();
    assert!(count(&mut client, schemas).await >= 1);
    let types = client.get_table_types().await.unwrap();
    assert_eq!(count(&mut client, types).await, 2);
    let some = vec![
        SqlInfo::FlightSqlServerName,
        SqlInfo::FlightSqlServerReadOnly,
    ];
    let info = client.get_sql_info(some).await.unwrap();
    assert_eq!(count(&mut client, info).await, 2);
    let keys = client.get_primary_keys(Default::default()).await.unwrap();
    assert_eq!(count(&mut client, keys).await, 0);
    let types = client.get_xdbc_type_info(Default::default()).await.unwrap();
    assert!(count(&mut client, types).await > 10);
    server.end().await;
}

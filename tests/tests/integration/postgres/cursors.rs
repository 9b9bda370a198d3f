//! Cursors of SQL, and `COPY … TO STDOUT`.

use std::time::Duration;

use futures::TryStreamExt;
use gristmill_server::http::QueryLimits;
use gristmill_tests::test_server::{Protocol, TestServer, limits, own};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::session::{ATTEMPTS, Sessions, answered_in_time, is_late, texts, value};
use crate::namespaces;

const NUMBERS: &str = "SELECT value FROM range(0, 10) ORDER BY value";

/// Returns the numbers that a simple query answers.
async fn numbers(client: &Client, query: &str) -> Result<Vec<i64>, String> {
    let rows = texts(client, query).await?;
    let number = |row: Vec<Option<String>>| row[0].as_deref().unwrap().parse().unwrap();
    Ok(rows.into_iter().map(number).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_are_read_in_parts_within_their_transaction() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, own(), limits()).await;
    let client = server.connect().await;
    let declared = format!("DECLARE c NO SCROLL CURSOR FOR {NUMBERS}");
    assert_eq!(numbers(&client, &declared).await, Err("25P01".to_owned()));
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute(&declared).await.unwrap();
    for (query, expected) in [
        ("FETCH NEXT FROM c", vec![0]),
        ("FETCH FORWARD 3 FROM c", vec![1, 2, 3]),
        ("FETCH 0 FROM c", vec![]),
        ("FETCH 2 FROM \"c\"", vec![4, 5]),
        ("FETCH ALL FROM c", vec![6, 7, 8, 9]),
        ("FETCH 5 FROM c", vec![]),
    ] {
        assert_eq!(numbers(&client, query).await, Ok(expected), "{query}");
    }
    let fetched = client.simple_query("FETCH 5 FROM c").await.unwrap();
    let complete = fetched.last();
    assert!(
        matches!(complete, Some(SimpleQueryMessage::CommandComplete(0))),
        "{complete:?}"
    );
    client.batch_execute("CLOSE c").await.unwrap();
    assert_eq!(
        numbers(&client, "FETCH 1 FROM c").await,
        Err("34000".to_owned())
    );
    client.batch_execute("ROLLBACK; BEGIN").await.unwrap();
    // A cursor of a confined session sees what the session sees.
    let count = "DECLARE d CURSOR FOR SELECT count(*) FROM grains; FETCH ALL FROM d; COMMIT";
    assert_eq!(value(&client, count).await, "24");
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(
        numbers(&client, "FETCH 1 FROM d").await,
        Err("34000".to_owned())
    );
    client.batch_execute("ROLLBACK").await.unwrap();
    for (statement, state) in [
        ("DECLARE c SCROLL CURSOR FOR SELECT 1", "0A000"),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", "0A000"),
        ("DECLARE c CURSOR FOR SELECT nothing", "42703"),
        (
            "DECLARE c CURSOR FOR SELECT * FROM mg_file('/etc/passwd')",
            "42501",
        ),
        ("FETCH PRIOR FROM c", "55000"),
        ("CLOSE c", "34000"),
    ] {
        let refused = numbers(&client, &format!("BEGIN; {statement}")).await;
        assert_eq!(refused, Err(state.to_owned()), "{statement}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    client.batch_execute("CLOSE ALL").await.unwrap();
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_take_parameters_and_answer_prepared_statements() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, own(), limits()).await;
    let mut client = server.connect().await;
    let transaction = client.transaction().await.unwrap();
    let declared = "DECLARE c CURSOR FOR SELECT value, 'x' AS x FROM range(0, 100) \
                    WHERE value >= $1 ORDER BY value";
    transaction.execute(declared, &[&95i64]).await.unwrap();
    let mut found = Vec::new();
    for expected in [2, 2, 1, 0] {
        let rows = transaction
            .query("FETCH FORWARD 2 FROM c", &[])
            .await
            .unwrap();
        assert_eq!(rows.len(), expected);
        found.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    assert_eq!(found, [95, 96, 97, 98, 99]);
    // Its rows are in binary since the first FETCH.
    let refused = transaction.simple_query("FETCH 1 FROM c").await;
    assert!(refused.is_ok(), "no rows are left");
    transaction.commit().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.execute(declared, &[&95i64]).await.unwrap();
    transaction.query("FETCH 1 FROM c", &[]).await.unwrap();
    let refused = transaction
        .simple_query("FETCH 1 FROM c")
        .await
        .unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "0A000", "{refused}");
    transaction.rollback().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    assert!(
        transaction
            .query("FETCH 1 FROM nothing", &[])
            .await
            .is_err()
    );
    transaction.rollback().await.unwrap();
    server.end().await;
}

/// Begins a transaction with the cursor `c` of many rows, and takes the first one.
pub(super) async fn begin_cursor(client: &Client) {
    let begun = "BEGIN; DECLARE c CURSOR FOR SELECT value FROM range(0, 50000000); \
                 FETCH 1 FROM c";
    for _ in 0..ATTEMPTS {
        match numbers(client, begun).await {
            Ok(found) => return assert_eq!(found, [0]),
            Err(state) => assert!(is_late(&state), "{state}"),
        }
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    panic!("no row in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_is_not_read_gives_its_slot_back() {
    let lake = namespaces::lake(false).await;
    let one_at_a_time = QueryLimits {
        time: Duration::from_secs(4),
        concurrent: 1,
        rows: 100_000_000,
        ..limits()
    };
    let server = TestServer::start(Protocol::Postgres, &lake, None, one_at_a_time).await;
    let (client, other) = (server.connect().await, server.connect().await);
    begin_cursor(&client).await;
    assert_eq!(answered_in_time(&other, "SELECT 1").await.len(), 1);
    // The slot is free before the cursor is closed, and some rows were computed before that.
    let state = loop {
        match numbers(&client, "FETCH 5000 FROM c").await {
            Ok(found) => assert_eq!(found.len(), 5_000),
            Err(state) => break state,
        }
    };
    assert!(["34000", "57014"].contains(&&*state), "{state}");
    server.end().await;
}

/// Returns what a COPY sends.
async fn copied(client: &Client, statement: &str) -> Result<Vec<u8>, tokio_postgres::Error> {
    let parts = client.copy_out(statement).await?;
    let parts: Vec<_> = parts.try_collect().await?;
    Ok(parts.concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_copied_as_text_as_csv_and_in_binary() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, own(), limits()).await;
    let client = server.connect().await;
    let rows = "SELECT 1 AS a, 'x\ty' AS b, NULL AS c UNION ALL SELECT 2, 'q\"', '' ORDER BY a";
    for (statement, expected) in [
        (
            format!("COPY ({rows}) TO STDOUT"),
            "1\tx\\ty\t\\N\n2\tq\"\t\n",
        ),
        (
            format!("COPY ({rows}) TO STDOUT WITH (FORMAT csv, HEADER)"),
            "a,b,c\n1,x\ty,\n2,\"q\"\"\",\"\"\n",
        ),
        (
            format!("COPY ({rows}) TO STDOUT CSV"),
            "1,x\ty,\n2,\"q\"\"\",\"\"\n",
        ),
    ] {
        let found = copied(&client, &statement).await.unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), expected, "{statement}");
    }
    let found = copied(
        &client,
        "COPY (SELECT CAST(7 AS INT) AS a, NULL AS b) TO STDOUT (FORMAT binary)",
    );
    let expected = [
        &b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0"[..],
        b"\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff",
        b"\xff\xff",
    ];
    assert_eq!(found.await.unwrap(), expected.concat());
    let table = copied(&client, "COPY grains (content_address) TO STDOUT")
        .await
        .unwrap();
    assert_eq!(table.iter().filter(|byte| **byte == b'\n').count(), 24);
    for (statement, state) in [
        ("COPY nothing TO STDOUT", "42P01"),
        ("COPY audit TO STDOUT", "42P01"),
        ("COPY (DROP TABLE grains) TO STDOUT", "42601"),
        (
            "COPY (SELECT * FROM mg_file('/etc/passwd')) TO STDOUT",
            "42501",
        ),
        ("COPY grains TO '/tmp/x.csv'", "42501"),
        ("COPY grains TO PROGRAM 'sh'", "42601"),
        ("COPY grains TO STDOUT (FORMAT parquet)", "0A000"),
        ("COPY (SELECT CAST('x' AS INT)) TO STDOUT", "22000"),
    ] {
        let refused = copied(&client, statement).await.unwrap_err();
        let code = refused.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some(state), "{statement}: {refused}");
    }
    assert_eq!(value(&client, "SELECT 1").await, "1");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_cursor_gives_its_slot_back_at_the_time_limit_and_has_no_more_rows() {
    let lake = namespaces::lake(false).await;
    let one_at_a_time = QueryLimits {
        time: Duration::from_secs(4),
        concurrent: 1,
        rows: 100_000_000,
        ..limits()
    };
    let server = TestServer::start(Protocol::Postgres, &lake, None, one_at_a_time).await;
    let (client, other) = (server.connect().await, server.connect().await);
    begin_cursor(&client).await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.simple_query("SHOW TimeZone").await.unwrap();
    }
    assert_eq!(answered_in_time(&other, "SELECT 7").await.len(), 1);
    let rest = numbers(&client, "FETCH FORWARD ALL FROM c").await;
    assert!(rest.is_err(), "{:?}", rest.map(|rows| rows.len()));
}

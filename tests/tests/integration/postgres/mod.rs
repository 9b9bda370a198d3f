//! `gristmill serve --postgres`: answers, parameters, errors and statements about the session, with
//! the driver `tokio-postgres`.

mod bi_tools;
mod clients;
mod cursors;
mod failures;
mod figures;
mod isolation;
mod session;
mod values;

use gristmill_tests::test_server::{Protocol, TestServer, limits};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};

use crate::namespaces;
use session::{
    Sessions, bind_message, execute_message, parse_message, startup, sync_message, texts, value,
};

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_sql() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    for query in [
        "SELECT type, count(*) FROM current GROUP BY type ORDER BY type",
        "SELECT content_address, object, confidence FROM beliefs ORDER BY content_address",
        "SELECT count(*), count(DISTINCT namespace) FROM grains",
        "SELECT subject, relation, object FROM triples ORDER BY subject, object",
        "SELECT namespace, max(content_address) FROM grains GROUP BY namespace ORDER BY namespace",
    ] {
        let expected = lake.rows(query).await;
        let found = texts(&client, query).await.unwrap();
        let found: Vec<Vec<String>> = found
            .into_iter()
            .map(|row| row.into_iter().map(Option::unwrap_or_default).collect())
            .collect();
        assert_eq!(found, expected, "{query}");
        let typed = client.query(query, &[]).await.unwrap();
        assert_eq!(typed.len(), expected.len(), "{query}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_take_parameters() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    let by_subject = "SELECT object FROM beliefs WHERE subject = $1 AND confidence > $2 LIMIT $3";
    let prepared = client.prepare(by_subject).await.unwrap();
    assert_eq!(prepared.params()[0], Type::TEXT);
    assert_eq!(prepared.columns()[0].name(), "object");
    for subject in ["alice", "bob", "nobody"] {
        let count = format!("SELECT count(*) FROM beliefs WHERE subject = '{subject}'");
        let expected: usize = lake.value(&count).await.parse().unwrap();
        let confidence: &(dyn ToSql + Sync) = match prepared.params()[1] {
            Type::FLOAT4 => &0.0f32,
            _ => &0.0f64,
        };
        let found = client
            .query(&prepared, &[&subject, confidence, &1000i64])
            .await;
        assert_eq!(found.unwrap().len(), expected, "{subject}");
    }
    let typed: [(Type, Box<dyn ToSql + Sync>, &str); 9] = [
        (Type::BOOL, Box::new(true), "true"),
        (Type::INT2, Box::new(3i16), "3"),
        (Type::INT4, Box::new(4i32), "4"),
        (Type::INT8, Box::new(5i64), "5"),
        (Type::FLOAT8, Box::new(1.5f64), "1.5"),
        (Type::TEXT, Box::new("tea"), "tea"),
        (
            Type::DATE,
            Box::new(chrono::NaiveDate::from_ymd_opt(2027, 1, 31).unwrap()),
            "2027-01-31",
        ),
        (
            Type::TIMESTAMPTZ,
            Box::new(chrono::DateTime::from_timestamp(1_800_000_000, 0).unwrap()),
            "2027-01-15T08:00:00Z",
        ),
        (Type::TEXT, Box::new(None::<String>), "NULL"),
    ];
    for (kind, parameter, expected) in &typed {
        let query = "SELECT coalesce(CAST($1 AS VARCHAR), 'NULL')";
        let prepared = client
            .prepare_typed(query, std::slice::from_ref(kind))
            .await
            .unwrap();
        let row = client.query_one(&prepared, &[&**parameter]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), *expected, "{kind}");
    }
    let identity = client
        .prepare_typed("SELECT $1 AS a", &[Type::INT4])
        .await
        .unwrap();
    assert_eq!(*identity.columns()[0].type_(), Type::INT4);
    assert_eq!(
        client
            .query_one(&identity, &[&9i32])
            .await
            .unwrap()
            .get::<_, i32>(0),
        9
    );
    let injected = client
        .query(&prepared, &[&"' OR true --", &0.0f64, &1000i64])
        .await;
    assert!(injected.is_err() || injected.unwrap().is_empty());
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_may_be_arrays() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    let any = "SELECT count(*) FROM beliefs WHERE subject = ANY($1)";
    let prepared = client.prepare(any).await.unwrap();
    assert_eq!(prepared.params(), [Type::TEXT_ARRAY]);
    for subjects in [vec!["alice", "bob"], vec!["it's \"{carol}\""], vec![]] {
        let of = |subject: &&str| format!("'{}'", subject.replace('\'', "''"));
        let list = subjects.iter().map(of).collect::<Vec<_>>().join(", ");
        let count = match list.is_empty() {
            true => "0".to_owned(),
            false => {
                let query = format!("SELECT count(*) FROM beliefs WHERE subject IN ({list})");
                lake.value(&query).await
            }
        };
        let row = client.query_one(&prepared, &[&subjects]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0).to_string(), count, "{subjects:?}");
    }
    let numbers = "SELECT value FROM range(0, 10) WHERE value = ANY($1) ORDER BY value";
    let given: Vec<Option<i64>> = vec![Some(3), None, Some(7), Some(20)];
    let rows = client.query(numbers, &[&given]).await.unwrap();
    let found: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, [3, 7]);
    for (kind, query) in [
        (Type::INT8_ARRAY, "SELECT $1 AS a"),
        (Type::INT8_ARRAY, "SELECT $1::BIGINT[] AS a"),
    ] {
        let prepared = client.prepare_typed(query, &[kind]).await.unwrap();
        let row = client.query_one(&prepared, &[&given]).await.unwrap();
        assert_eq!(row.get::<_, Vec<Option<i64>>>(0), given, "{query}");
    }
    let cast = client.prepare("SELECT $1::BIGINT[] AS a").await.unwrap();
    assert_eq!(cast.params(), [Type::INT8_ARRAY]);
    let injected = vec!["x') OR true --"];
    let row = client.query_one(&prepared, &[&injected]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_state_message_and_hint_and_the_session_goes_on() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    for (query, state) in [
        ("SELEC 1", "42601"),
        ("SELECT nothing FROM grains", "42703"),
        ("SELECT * FROM graims", "42P01"),
        ("DROP TABLE grains", "25006"),
        ("CREATE TABLE x AS SELECT 1", "25006"),
        ("INSERT INTO grains SELECT * FROM grains", "25006"),
        ("INSERT INTO grains VALUES (1)", "25006"),
        ("INSERT INTO nothing (a) VALUES (1, 2)", "25006"),
        ("UPDATE grains SET nothing = 1", "25006"),
        ("COPY grains (nothing) FROM STDIN", "25006"),
        (
            "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
            "42501",
        ),
        ("COPY grains TO '/tmp/x.csv'", "42501"),
        ("SELECT * FROM mg_file('/etc/passwd')", "42501"),
        ("PREPARE a AS SELECT 1", "0A000"),
        ("SELECT CAST('x' AS INT)", "22000"),
        ("SELECT $1", "42000"),
        ("SET datafusion.execution.batch_size = 1", "0A000"),
    ] {
        assert_eq!(
            texts(&client, query).await,
            Err(state.to_owned()),
            "{query}"
        );
        assert!(client.query(query, &[]).await.is_err(), "{query}");
    }
    let error = client
        .simple_query("SELECT * FROM graims")
        .await
        .unwrap_err();
    let error = error.as_db_error().unwrap();
    assert!(error.message().contains("did you mean"), "{error:?}");
    assert_eq!(error.hint(), Some("Change the query."));
    assert_eq!(value(&client, "SELECT 1").await, "1");
    let both = texts(&client, "SELECT 1; SELECT nothing; SELECT 2").await;
    assert_eq!(both, Err("42703".to_owned()), "none or all");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_about_the_session_change_nothing() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let mut client = server.connect().await;
    let several = "BEGIN; SET extra_float_digits = 3; SELECT 1 AS a; SELECT 2 AS b; COMMIT";
    let found = texts(&client, several).await.unwrap();
    assert_eq!(found, [[Some("1".to_owned())], [Some("2".to_owned())]]);
    assert_eq!(
        value(&client, "SHOW standard_conforming_strings").await,
        "on"
    );
    assert_eq!(
        value(&client, "SHOW transaction isolation level").await,
        "repeatable read"
    );
    assert_eq!(texts(&client, "").await, Ok(Vec::new()));
    assert_eq!(texts(&client, ";;").await, Ok(Vec::new()));
    client
        .batch_execute("DISCARD ALL; RESET ALL; DEALLOCATE ALL")
        .await
        .unwrap();
    // What asyncpg and Npgsql send before a connection goes back to its pool.
    for pooled in [
        "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;",
        "SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;\
         SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP",
    ] {
        client.batch_execute(pooled).await.unwrap();
    }
    let transaction = client.transaction().await.unwrap();
    assert!(transaction.simple_query("SELECT nothing").await.is_err());
    for error in [
        transaction.simple_query("SELECT 1").await.unwrap_err(),
        transaction.query("SELECT 1", &[]).await.unwrap_err(),
    ] {
        assert_eq!(error.code().map(SqlState::code), Some("25P02"), "{error}");
    }
    transaction.rollback().await.unwrap();
    assert_eq!(value(&client, "SELECT 1").await, "1");
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT value FROM range(0, 10) ORDER BY value", &[]);
    let portal = portal.await.unwrap();
    for expected in [4, 4, 2, 0] {
        let rows = transaction.query_portal(&portal, 4).await.unwrap();
        assert_eq!(rows.len(), expected);
    }
    transaction.commit().await.unwrap();
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_transaction_takes_only_its_end_or_a_savepoint() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    client.batch_execute("BEGIN; SAVEPOINT a").await.unwrap();
    assert!(texts(&client, "SELECT nothing").await.is_err());
    for text in [
        "SET extra_float_digits = 3",
        "BEGIN",
        "SHOW TimeZone",
        "SAVEPOINT b",
        "RELEASE SAVEPOINT a",
        "RESET ALL",
        "LISTEN a",
        "DISCARD PLANS",
    ] {
        assert_eq!(
            texts(&client, text).await,
            Err("25P02".to_owned()),
            "{text}"
        );
    }
    assert_eq!(texts(&client, "").await, Ok(Vec::new()));
    client
        .batch_execute("ROLLBACK TO SAVEPOINT a")
        .await
        .unwrap();
    assert_eq!(value(&client, "SELECT 1").await, "1");
    assert!(texts(&client, "SELECT nothing").await.is_err());
    client.batch_execute("COMMIT; BEGIN; COMMIT").await.unwrap();
    assert_eq!(value(&client, "SELECT 1").await, "1");
    server.end().await;
}

/// Returns the SQLSTATE of a prepared statement that is executed; none if it has rows.
async fn state_of(client: &Client, statement: &Statement) -> Option<String> {
    let error = client.query(statement, &[]).await.err()?;
    error.code().map(|state| state.code().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn deallocate_and_discard_forget_prepared_statements_and_portals() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    for forget in ["DEALLOCATE ALL", "DISCARD ALL"] {
        let statements = [
            client.prepare("SELECT 1").await.unwrap(),
            client.prepare("SELECT 2").await.unwrap(),
        ];
        assert_eq!(state_of(&client, &statements[0]).await, None);
        client.batch_execute(forget).await.unwrap();
        for statement in &statements {
            let state = state_of(&client, statement).await;
            assert_eq!(state.as_deref(), Some("26000"), "{forget}");
        }
    }
    let kept = client.prepare("SELECT 1").await.unwrap();
    for (text, state) in [
        ("DEALLOCATE nobody", "26000"),
        ("DEALLOCATE \"ALL\"", "26000"),
        ("BEGIN; DISCARD ALL", "25001"),
        ("DEALLOCATE ALL", "25P02"),
    ] {
        assert_eq!(texts(&client, text).await, Err(state.to_owned()), "{text}");
    }
    client
        .batch_execute("ROLLBACK; DISCARD PLANS")
        .await
        .unwrap();
    assert_eq!(state_of(&client, &kept).await, None);
    // A portal is executed after a statement about the session, in one batch.
    for (between, has_portal) in [("SET extra_float_digits = 3", true), ("DISCARD ALL", false)] {
        let messages = [
            startup(b"user\0a\0"),
            parse_message("", "SELECT 1", &[]),
            bind_message("p"),
            parse_message("", between, &[]),
            bind_message("q"),
            execute_message("q"),
            execute_message("p"),
            sync_message(),
        ];
        let answer = server.raw(messages.concat()).await;
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(!answer.contains("34000"), has_portal, "{between}: {answer}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_holds_a_limited_number_of_statements() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    let mut held = Vec::new();
    let refused = loop {
        match client.prepare("SELECT 1").await {
            Ok(statement) => held.push(statement),
            Err(error) => break error,
        }
        assert!(held.len() <= 1_000);
    };
    assert_eq!(
        refused.code().map(SqlState::code),
        Some("53400"),
        "{refused}"
    );
    drop(held);
    client.prepare("SELECT 1").await.unwrap();
    server.end().await;
}

//! `gristmill serve --postgres`: answers, types, errors, limits, tokens, and the isolation of
//! namespaces, with the driver `tokio-postgres`, `psql` and `psycopg`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use futures::{StreamExt, pin_mut};
use gristmill_queries::sql::{Confinement, SqlOptions};
use gristmill_server::NewestLake;
use gristmill_server::http::{HttpOptions, QueryLimits, Scope, Server, Tokens, new_token};
use gristmill_server::postgres;
use gristmill_server::tls::Tls;
use gristmill_tests::certificate::make_certificate;
use gristmill_tests::lake::TestLake;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::{http, namespaces};

/// A running server with one token.
struct TestServer {
    address: SocketAddr,
    token: Option<String>,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

fn limits() -> QueryLimits {
    QueryLimits {
        time: Duration::from_secs(60),
        rows: 100_000,
        memory: 64 << 20,
        concurrent: 4,
        queued: 16,
    }
}

fn own() -> Option<Confinement> {
    Some(Confinement {
        namespace: Some("own".to_owned()),
        user: None,
    })
}

impl TestServer {
    /// Starts a server over `lake`; without a confinement it has no tokens.
    async fn start(
        lake: &TestLake,
        confinement: Option<Confinement>,
        limits: QueryLimits,
    ) -> TestServer {
        TestServer::start_with(lake, confinement, limits, None).await
    }

    async fn start_with(
        lake: &TestLake,
        confinement: Option<Confinement>,
        limits: QueryLimits,
        tls: Option<Tls>,
    ) -> TestServer {
        let made = confinement
            .map(|confinement| new_token("test", &confinement, [Scope::Read].into()).unwrap());
        let options = HttpOptions {
            tokens: made
                .as_ref()
                .map(|(_, table)| Tokens::parse(table).unwrap()),
            allow_writes: false,
            limits,
            audit_rows: 50,
        };
        let newest = NewestLake::new(lake.lake.clone(), SqlOptions::default());
        let server = Server::new(newest.await.unwrap(), options).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or_default() };
            postgres::listen(server, listener, tls, stopped).await;
        });
        TestServer {
            address,
            token: made.map(|(token, _)| token),
            stop,
            served,
        }
    }

    /// Stops the server and waits for its end.
    async fn end(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap();
    }

    async fn connect_with(&self, password: &str) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::Config::new()
            .host("127.0.0.1")
            .port(self.address.port())
            .user("anyone")
            .dbname("lake")
            .password(password)
            .connect(NoTls)
            .await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn connect(&self) -> Client {
        let password = self.token.as_deref().unwrap_or("none");
        self.connect_with(password).await.unwrap()
    }

    /// Sends bytes and returns what the server answers until it closes the connection.
    async fn raw(&self, bytes: Vec<u8>) -> Vec<u8> {
        let address = self.address;
        let answered = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            answer
        });
        answered.await.unwrap()
    }
}

/// Returns the rows of a query in texts, or its SQLSTATE.
async fn texts(client: &Client, query: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let messages = client.simple_query(query).await.map_err(|error| {
        let code = error.code().map(SqlState::code);
        code.unwrap_or("closed").to_owned()
    })?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows
        .map(|row| {
            (0..row.len())
                .map(|at| row.get(at).map(str::to_owned))
                .collect()
        })
        .collect())
}

/// Returns the first value of a query.
async fn value(client: &Client, query: &str) -> String {
    let rows = texts(client, query).await.unwrap();
    rows[0][0].clone().unwrap_or_else(|| "NULL".to_owned())
}

fn startup(parameters: &[u8]) -> Vec<u8> {
    let mut message = vec![0, 3, 0, 0];
    message.extend(parameters);
    message.push(0);
    let mut framed = (message.len() as u32 + 4).to_be_bytes().to_vec();
    framed.extend(message);
    framed
}

fn query_message(text: &str) -> Vec<u8> {
    let mut framed = vec![b'Q'];
    framed.extend((text.len() as u32 + 5).to_be_bytes());
    framed.extend(text.as_bytes());
    framed.push(0);
    framed
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_sql() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(&lake, None, limits()).await;
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

/// Queries of one value, with its text.
const VALUES: [(&str, &str); 30] = [
    ("true", "t"),
    ("CAST(NULL AS BOOLEAN)", "NULL"),
    ("CAST(-7 AS SMALLINT)", "-7"),
    ("CAST(7 AS INT)", "7"),
    ("CAST(9223372036854775807 AS BIGINT)", "9223372036854775807"),
    ("CAST(1.5 AS REAL)", "1.5"),
    ("CAST(0.1 AS DOUBLE)", "0.1"),
    ("CAST('NaN' AS DOUBLE)", "NaN"),
    ("1e300", "1e300"),
    ("CAST(-1.50 AS DECIMAL(10,2))", "-1.50"),
    (
        "CAST('123456789012345678901234567890.12' AS DECIMAL(38,2))",
        "123456789012345678901234567890.12",
    ),
    ("'tea'", "tea"),
    ("''", ""),
    ("CAST(NULL AS VARCHAR)", "NULL"),
    ("NULL", "NULL"),
    ("X'00ff'", "\\x00ff"),
    ("DATE '2027-01-31'", "2027-01-31"),
    ("DATE '1969-12-31'", "1969-12-31"),
    ("TIME '12:30:01.5'", "12:30:01.500"),
    ("TIMESTAMP '2027-01-31T12:30:00'", "2027-01-31 12:30:00"),
    (
        "arrow_cast('2027-01-31T12:30:00.25Z', 'Timestamp(Millisecond, Some(\"UTC\"))')",
        "2027-01-31 12:30:00.250+00",
    ),
    ("ARRAY[1, 2, NULL]", "{1,2,NULL}"),
    ("ARRAY['a', 'b c', '']", "{a,\"b c\",\"\"}"),
    ("ARRAY[true]", "{t}"),
    ("ARRAY[ARRAY[1], ARRAY[2, 3]]", "[[1],[2,3]]"),
    (
        "named_struct('a', 1, 'b', ARRAY['x'])",
        "{\"a\":1,\"b\":[\"x\"]}",
    ),
    ("ARRAY[named_struct('a', 1)]", "[{\"a\":1}]"),
    ("MAP(ARRAY['k'], ARRAY[2])", "{\"k\":2}"),
    ("arrow_cast(5, 'UInt64')", "5"),
    ("arrow_cast('x', 'Dictionary(Int32, Utf8)')", "x"),
];

#[tokio::test(flavor = "multi_thread")]
async fn values_of_all_types_are_the_same_as_text_and_in_binary() {
    let lake = TestLake::new().await;
    let server = TestServer::start(&lake, None, limits()).await;
    let client = server.connect().await;
    for (query, expected) in VALUES {
        let query = format!("SELECT {query} AS a");
        assert_eq!(value(&client, &query).await, expected, "{query}");
        let rows = client.query(&query, &[]).await.unwrap();
        assert_eq!(rows.len(), 1, "{query}");
    }
    let row = "SELECT true, CAST(-7 AS SMALLINT), CAST(7 AS INT), CAST(8 AS BIGINT), \
               CAST(1.5 AS REAL), CAST(2.5 AS DOUBLE), 'tea', X'00ff', DATE '2027-01-31', \
               TIMESTAMP '2027-01-31T12:30:00.25', ARRAY[1, NULL], ARRAY['a', ''], \
               named_struct('a', 1), CAST(NULL AS INT)";
    let row = client.query_one(row, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0));
    assert_eq!(row.get::<_, i16>(1), -7);
    assert_eq!(row.get::<_, i32>(2), 7);
    assert_eq!(row.get::<_, i64>(3), 8);
    assert_eq!(row.get::<_, f32>(4), 1.5);
    assert_eq!(row.get::<_, f64>(5), 2.5);
    assert_eq!(row.get::<_, &str>(6), "tea");
    assert_eq!(row.get::<_, &[u8]>(7), [0, 255]);
    assert_eq!(row.get::<_, chrono::NaiveDate>(8).to_string(), "2027-01-31");
    let time = row.get::<_, chrono::NaiveDateTime>(9);
    assert_eq!(time.to_string(), "2027-01-31 12:30:00.250");
    assert_eq!(row.get::<_, Vec<Option<i64>>>(10), [Some(1), None]);
    assert_eq!(row.get::<_, Vec<String>>(11), ["a", ""]);
    assert_eq!(row.get::<_, Value>(12), json!({ "a": 1 }));
    assert_eq!(row.get::<_, Option<i32>>(13), None);
    let zoned = "SELECT arrow_cast('2027-01-31T12:30:00Z', 'Timestamp(Second, Some(\"UTC\"))')";
    let zoned = client.query_one(zoned, &[]).await.unwrap();
    let zoned = zoned.get::<_, chrono::DateTime<chrono::Utc>>(0);
    assert_eq!(zoned.to_rfc3339(), "2027-01-31T12:30:00+00:00");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_take_parameters() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(&lake, None, limits()).await;
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
async fn errors_have_state_message_and_hint_and_the_session_goes_on() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(&lake, None, limits()).await;
    let client = server.connect().await;
    for (query, state) in [
        ("SELEC 1", "42601"),
        ("SELECT nothing FROM grains", "42703"),
        ("SELECT * FROM graims", "42P01"),
        ("DROP TABLE grains", "25006"),
        ("CREATE TABLE x AS SELECT 1", "25006"),
        ("INSERT INTO grains SELECT * FROM grains", "25006"),
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
    let server = TestServer::start(&lake, None, limits()).await;
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
async fn a_session_holds_a_limited_number_of_statements() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(&lake, None, limits()).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_query_beyond_its_limits_fails_with_its_own_error() {
    let lake = namespaces::lake(false).await;
    let tight = QueryLimits {
        time: Duration::from_secs(2),
        rows: 20_000,
        memory: 1 << 20,
        ..limits()
    };
    let server = TestServer::start(&lake, None, tight).await;
    let (one, other) = (server.connect().await, server.connect().await);
    let endless = "SELECT count(*) FROM range(1, 100000000000) a WHERE a.value % 7 = 8";
    let (slow, quick) = tokio::join!(texts(&one, endless), texts(&other, "SELECT 1"));
    assert_eq!((slow, quick.unwrap().len()), (Err("57014".to_owned()), 1));
    let many = "SELECT value FROM range(0, 1000000)";
    assert_eq!(texts(&one, many).await, Err("54000".to_owned()));
    let rows = one.query_raw(many, Vec::<String>::new()).await.unwrap();
    pin_mut!(rows);
    let mut last = None;
    while let Some(row) = rows.next().await {
        last = Some(row);
    }
    let last = last.unwrap().unwrap_err();
    assert_eq!(
        last.code().map(SqlState::code),
        Some("54000"),
        "never looks complete"
    );
    let large = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(value AS VARCHAR), 50) FROM \
                 range(0, 20000000))";
    let large = texts(&one, large).await.unwrap_err();
    assert!(["53200", "57014"].contains(&&*large), "{large}");
    assert_eq!(value(&one, "SELECT 1").await, "1");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_stops_the_query_and_no_other() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(&lake, None, limits()).await;
    let (one, other) = (server.connect().await, server.connect().await);
    one.cancel_token().cancel_query(NoTls).await.unwrap();
    let endless = "SELECT count(*) FROM range(1, 100000000000) a WHERE a.value % 7 = 8";
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        one.cancel_token().cancel_query(NoTls).await.unwrap();
    };
    let started = Instant::now();
    let long = "SELECT count(*) FROM range(1, 60000000) a WHERE a.value % 7 = 8";
    let (stopped, finished, ()) = tokio::join!(texts(&one, endless), texts(&other, long), cancel);
    assert_eq!(stopped, Err("57014".to_owned()));
    assert!(started.elapsed() < Duration::from_secs(50));
    assert_eq!(finished.unwrap().len(), 1);
    assert_eq!(value(&one, "SELECT 1").await, "1", "the session goes on");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_no_more_gives_its_slot_back() {
    let lake = namespaces::lake(false).await;
    let tight = QueryLimits {
        time: Duration::from_secs(3),
        rows: 100_000_000,
        concurrent: 1,
        ..limits()
    };
    let server = TestServer::start(&lake, None, tight).await;
    let mut silent = TcpStream::connect(server.address).unwrap();
    silent.write_all(&startup(b"user\0a\0")).unwrap();
    let wide = "SELECT repeat('x', 1000) FROM range(0, 10000000)";
    silent.write_all(&query_message(wide)).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let client = server.connect().await;
    let found = loop {
        match texts(&client, "SELECT 1").await {
            Ok(found) => break found,
            // No slot in time, or one shortly before the end of the query's time.
            Err(state) => assert!(["53300", "57014"].contains(&&*state), "{state}"),
        }
    };
    assert_eq!(found.len(), 1);
    drop(silent);
    // The same for a client that asks for a part of the rows, and for nothing else.
    let mut lazy = server.connect().await;
    let transaction = lazy.transaction().await.unwrap();
    let portal = transaction
        .bind("SELECT value FROM range(0, 1000000)", &[])
        .await
        .unwrap();
    assert_eq!(transaction.query_portal(&portal, 5).await.unwrap().len(), 5);
    let found = loop {
        match texts(&client, "SELECT 1").await {
            Ok(found) => break found,
            // No slot in time, or one shortly before the end of the query's time.
            Err(state) => assert!(["53300", "57014"].contains(&&*state), "{state}"),
        }
    };
    assert_eq!(found.len(), 1);
    let error = transaction.query_portal(&portal, 5).await.unwrap_err();
    assert_eq!(error.code().map(SqlState::code), Some("34000"));
    drop(transaction);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_valid_token_begins_a_session_and_bulk_reads_are_audited() {
    let mut lake = namespaces::lake(true).await;
    let server = TestServer::start(&lake, Some(Confinement::default()), limits()).await;
    for password in ["", "gm_", "x'; --"] {
        let refused = server.connect_with(password).await.err().unwrap();
        let state = refused.code().map(SqlState::code);
        assert!(state == Some("28P01") || password.is_empty(), "{refused:?}");
    }
    let client = server.connect().await;
    let all = client
        .query("SELECT content_address FROM grains", &[])
        .await
        .unwrap();
    assert!(all.len() > 100);
    // Rows are recorded, although the client doesn't ask for the last one.
    let mut part = server.connect().await;
    let transaction = part.transaction().await.unwrap();
    let portal = transaction
        .bind("SELECT content_address AS a FROM grains", &[])
        .await
        .unwrap();
    transaction.query_portal(&portal, 100).await.unwrap();
    transaction.commit().await.unwrap();
    server.end().await;
    lake.lake.refresh().await.unwrap();
    let query = "SELECT count(*) FROM audit WHERE action = 'bulk_read'";
    assert_eq!(lake.value(query).await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bytes_end_their_own_connection_only() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(&lake, own(), limits()).await;
    let client = server.connect().await;
    let mut hostile = vec![
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
        startup(&[b'a'; 9_000]),
        [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f].repeat(20),
        [startup(b"user\0a\0"), query_message("SELECT 1")].concat(),
        [
            startup(b"user\0a\0"),
            b"p\x7f\xff\xff\xff".to_vec(),
            vec![b'a'; 1 << 20],
        ]
        .concat(),
        [
            startup(b"user\0a\0"),
            b"Q\x3f\xff\xff\xf0".to_vec(),
            vec![b'a'; 1 << 20],
        ]
        .concat(),
        [startup(b"user\0a\0"), b"p\0\0\0\x04".to_vec()].concat(),
        [startup(b"user\0a\0"), b"B\0\0\0\0".to_vec()].concat(),
    ];
    let mut seed = 7u64;
    for length in 0..60 {
        let mut bytes = startup(b"user\0a\0");
        for _ in 0..length {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.push((seed >> 33) as u8);
        }
        hostile.push(bytes);
    }
    for bytes in hostile {
        let answer = server.raw(bytes.clone()).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(!text.contains("own") && !text.contains("SELECT"), "{text}");
    }
    assert_eq!(value(&client, "SELECT 1").await, "1");
    let long = format!("SELECT '{}'", "x".repeat(2 << 20));
    assert!(texts(&client, &long).await.is_err());
    assert_eq!(value(&server.connect().await, "SELECT 1").await, "1");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gets_the_answers_of_a_lake_with_its_namespace_only() {
    let (alone, shared) = (namespaces::lake(false).await, namespaces::lake(true).await);
    let (expected, found) = (
        TestServer::start(&alone, own(), limits()).await,
        TestServer::start(&shared, own(), limits()).await,
    );
    let (alone, shared) = (expected.connect().await, found.connect().await);
    let generated = http::TABLES
        .iter()
        .flat_map(|table| http::QUERIES.map(|query| query.replace("TABLE", table)));
    let queries: Vec<String> = generated.chain(http::PROBES.map(str::to_owned)).collect();
    let addresses: Vec<String> = namespaces::grains_of("foreign", 60)
        .iter()
        .map(|text| namespaces::address(text))
        .collect();
    for query in &queries {
        let (expected, found) = (texts(&alone, query).await, texts(&shared, query).await);
        assert_eq!(found, expected, "{query}");
        let message = match shared.simple_query(query).await {
            Ok(messages) => format!("{messages:?}"),
            Err(error) => format!("{error:?}"),
        };
        let named = message.contains("foreign") && !query.contains("foreign");
        let told = addresses.iter().any(|address| message.contains(address));
        assert!(!named && !told, "{query}: {message}");
    }
    for query in [
        "SELECT * FROM grains",
        "SELECT * FROM current WHERE object LIKE '%tea%'",
    ] {
        for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE"] {
            let answer = texts(&shared, &format!("{explain} {query}")).await;
            let answer = format!("{answer:?}");
            for hidden in ["parquet", "namespace =", "foreign", "output_rows=144"] {
                assert!(!answer.contains(hidden), "{hidden}: {answer}");
            }
        }
    }
    let count = "SELECT count(*) FROM grains WHERE namespace = $1";
    for (namespace, rows) in [("own", 24), ("foreign", 0)] {
        let row = shared.query_one(count, &[&namespace]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), rows, "{namespace}");
    }
    expected.end().await;
    found.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_answer_is_finished_when_the_server_stops() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(&lake, None, limits()).await;
    let (idle, client) = (server.connect().await, server.connect().await);
    let asked = tokio::spawn(async move {
        let rows = client.query_raw("SELECT value FROM range(0, 90000)", Vec::<String>::new());
        let rows = rows.await.unwrap();
        pin_mut!(rows);
        let mut count = 0;
        while let Some(row) = rows.next().await {
            row.unwrap();
            count += 1;
            if count == 10 {
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
        }
        count
    });
    tokio::time::sleep(Duration::from_millis(250)).await;
    let started = Instant::now();
    server.end().await;
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "idle sessions don't hold the server up"
    );
    assert_eq!(asked.await.unwrap(), 90_000);
    let state = texts(&idle, "SELECT 1").await.unwrap_err();
    assert!(["57P01", "closed"].contains(&&*state), "{state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_has_what_the_session_can_query_and_nothing_else() {
    let (alone, shared) = (namespaces::lake(false).await, namespaces::lake(true).await);
    let (expected, found) = (
        TestServer::start(&alone, own(), limits()).await,
        TestServer::start(&shared, own(), limits()).await,
    );
    let (alone, shared) = (expected.connect().await, found.connect().await);
    for query in [
        "SELECT relname, relkind FROM pg_class ORDER BY relname",
        "SELECT * FROM pg_catalog.pg_attribute ORDER BY attrelid, attnum",
        "SELECT * FROM pg_type ORDER BY oid",
        "SELECT * FROM pg_namespace ORDER BY oid",
        "SELECT * FROM pg_tables ORDER BY tablename",
        "SELECT * FROM pg_views ORDER BY viewname",
        "SELECT * FROM pg_database",
        "SELECT * FROM pg_roles",
        "SELECT * FROM pg_stat_user_tables",
        "SELECT version(), current_schema(), current_database(), pg_catalog.current_schema()",
        "SELECT current_user, session_user, current_setting('TimeZone'), pg_table_size('audit')",
        "SELECT 'audit'::regclass, to_regclass('audit'), pg_catalog.format_type(25, -1)",
    ] {
        let (expected, found) = (texts(&alone, query).await, texts(&shared, query).await);
        assert_eq!(found, expected, "{query}");
        let found = format!("{found:?}");
        for hidden in [
            "foreign",
            "\"rejects\"",
            "\"audit\"",
            "\"segments\"",
            "parquet",
        ] {
            assert!(!found.contains(hidden), "{query}: {found}");
        }
    }
    let tables = "SELECT count(*) FROM pg_class c JOIN information_schema.tables t ON c.relname = \
                  t.table_name WHERE t.table_schema = 'public'";
    let all = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(value(&shared, tables).await, value(&shared, all).await);
    let listed = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'pg_%'";
    assert_eq!(value(&shared, listed).await, "0");
    let columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'grains'::regclass";
    let all = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'grains'";
    assert_eq!(value(&shared, columns).await, value(&shared, all).await);
    expected.end().await;
    found.end().await;
}

/// Runs a program with the address and token of a server; `None` if there is no such program.
async fn client_program(server: &TestServer, program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = std::process::Command::new(program);
    command
        .args(arguments)
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", server.address.port().to_string())
        .env("PGUSER", "me")
        .env("PGDATABASE", "lake")
        .env("PGPASSWORD", server.token.as_deref().unwrap_or_default());
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap();
    let Ok(output) = output else {
        eprintln!("skipped: there is no `{program}`");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    Some(format!(
        "{}{errors}",
        String::from_utf8_lossy(&output.stdout)
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_asks_and_shows_tables() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(&lake, own(), limits()).await;
    for (command, expected) in [
        ("SELECT count(*) FROM grains", "24"),
        ("SELECT version()", "PostgreSQL 16.6"),
        ("\\d", "public|grains|table|gristmill"),
        ("\\dv", "public|beliefs|view|gristmill"),
        ("\\dt gr*", "public|grains|table|gristmill"),
        ("\\d grains", "content_address|text"),
        ("\\d beliefs", "confidence|double precision"),
        ("\\du", "gristmill"),
        ("\\dn", "public|gristmill"),
        ("\\l", "datafusion|gristmill"),
        ("\\conninfo", "lake"),
    ] {
        let arguments = ["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", command];
        let Some(printed) = client_program(&server, "psql", &arguments).await else {
            return;
        };
        assert!(printed.contains(expected), "{command}: {printed}");
        assert!(!printed.contains("ERROR"), "{command}: {printed}");
        assert!(!printed.contains("audit"), "{command}: {printed}");
    }
    server.end().await;
}

/// Asks with `psycopg`, and with SQLAlchemy if it is installed.
const PYTHON: &str = r#"
import datetime, decimal, os, sys
try:
    import psycopg
except ImportError:
    print("skipped: the Python lacks psycopg (GRISTMILL_PYTHON names another)")
    sys.exit()
with psycopg.connect() as connection:
    count = connection.execute("SELECT count(*) FROM grains WHERE namespace = %s", ["own"])
    assert count.fetchone() == (24,), "parameters"
    row = "SELECT 1 AS a, 1.5 AS b, 'a' AS c, NULL AS d, true AS e, DATE '2027-01-31' AS f, CAST(1.50 AS DECIMAL(5,2)) AS g, ARRAY[1, 2] AS h, named_struct('a', 1) AS i, X'00ff' AS j"
    expected = (1, 1.5, "a", None, True, datetime.date(2027, 1, 31), decimal.Decimal("1.50"), [1, 2], {"a": 1}, b"\x00\xff")
    for binary in [False, True]:
        with connection.cursor(binary=binary) as cursor:
            assert cursor.execute(row).fetchone() == expected, cursor.execute(row).fetchone()
    given = [7, 2.5, "x", datetime.date(2027, 1, 31), decimal.Decimal("-12.50"), True, None]
    query = "SELECT " + ", ".join(["%s"] * len(given))
    for form in ["%s", "%b", "%t"]:
        found = connection.execute(query.replace("%s", form), given).fetchone()
        assert list(found) == given, (form, found)
    for _ in range(7):
        connection.execute("SELECT object FROM beliefs WHERE subject = %s", ["bob"]).fetchall()
    try:
        connection.execute("SELECT * FROM graims")
    except psycopg.errors.UndefinedTable as error:
        assert error.diag.message_hint
    connection.rollback()
    assert connection.execute("SELECT 1").fetchone() == (1,)
print("psycopg", psycopg.__version__)
try:
    import sqlalchemy
except ImportError:
    print("skipped: the Python lacks SQLAlchemy")
    sys.exit()
url = sqlalchemy.URL.create("postgresql+psycopg", os.environ["PGUSER"], os.environ["PGPASSWORD"],
    os.environ["PGHOST"], int(os.environ["PGPORT"]), os.environ["PGDATABASE"])
engine = sqlalchemy.create_engine(url)
with engine.connect() as connection:
    text = sqlalchemy.text("SELECT count(*) FROM grains WHERE namespace = :name")
    assert connection.execute(text, {"name": "own"}).scalar() == 24
inspector = sqlalchemy.inspect(engine)
assert "grains" in inspector.get_table_names(), inspector.get_table_names()
assert "beliefs" in inspector.get_view_names(), inspector.get_view_names()
columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("grains")}
assert columns["content_address"] == "TEXT", columns
assert inspector.get_pk_constraint("grains")["constrained_columns"] == []
assert inspector.get_foreign_keys("grains") == []
assert inspector.get_indexes("grains") == []
print("SQLAlchemy", sqlalchemy.__version__)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn psycopg_and_sqlalchemy_ask_and_inspect() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(&lake, own(), limits()).await;
    let python = std::env::var("GRISTMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if let Some(printed) = client_program(&server, &python, &["-c", PYTHON]).await {
        eprint!("{printed}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_encrypted_with_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = make_certificate(folder.path()) else {
        return;
    };
    let chain = std::fs::read(&files.certificate).unwrap();
    let key = std::fs::read(&files.key).unwrap();
    assert!(Tls::from_pem(b"", &key).is_err());
    assert!(Tls::from_pem(&chain, b"no key").is_err());
    let tls = Tls::from_pem(&chain, &key).unwrap();
    let lake = namespaces::lake(true).await;
    let server = TestServer::start_with(&lake, own(), limits(), Some(tls)).await;
    let root = format!(
        "sslmode=verify-full sslrootcert={}",
        files.certificate.display()
    );
    for (settings, expected) in [(&*root, "SSL connection"), ("sslmode=disable", "host")] {
        let arguments = ["-X", "-d", settings, "-c", "\\conninfo"];
        let Some(printed) = client_program(&server, "psql", &arguments).await else {
            return;
        };
        assert!(printed.contains(expected), "{settings}: {printed}");
    }
    let rows = [
        "-X",
        "-At",
        "-d",
        &*root,
        "-c",
        "SELECT count(*) FROM grains",
    ];
    let rows = client_program(&server, "psql", &rows).await.unwrap();
    assert_eq!(rows.trim(), "24");
    server.end().await;
}

#[test]
fn addresses_that_other_machines_reach_need_tls_and_tokens() {
    let lake = tempfile::tempdir().unwrap();
    for arguments in [
        &["--postgres", "0.0.0.0:0"][..],
        &["--postgres", "0.0.0.0:0", "--tokens", "none.toml"],
        &["--flight", "0.0.0.0:0"],
        &["--listen", "0.0.0.0:0"],
        &["--flight", "127.0.0.1:0", "--tls-cert", "c.pem"],
    ] {
        let mut command = gristmill_tests::binary::gristmill();
        command
            .arg("--lake")
            .arg(lake.path())
            .arg("serve")
            .args(arguments);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("--tls-key"), "{errors}");
    }
}

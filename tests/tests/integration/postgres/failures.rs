//! Limits, cancelled queries, clients that don't read, wrong tokens and hostile bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use gristmill_queries::sql::Confinement;
use gristmill_server::http::QueryLimits;
use gristmill_tests::test_server::{Protocol, TestServer, limits, own, short_limits, tight_limits};
use tokio::sync::oneshot;
use tokio_postgres::error::SqlState;
use tokio_postgres::{NoTls, Portal, Transaction};

use super::session::{
    ATTEMPTS, Sessions, answered_in_time, bind_message, execute_message, is_late, parse_message,
    query_message, startup, sync_message, texts, value,
};
use crate::namespaces;

const ENDLESS: &str = "SELECT count(*) FROM range(1, 100000000000) a WHERE a.value % 7 = 8";

#[tokio::test(flavor = "multi_thread")]
async fn a_query_beyond_its_time_fails_and_others_continue() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, short_limits()).await;
    let (one, other) = (server.connect().await, server.connect().await);
    let (slow, quick) = tokio::join!(texts(&one, ENDLESS), answered_in_time(&other, "SELECT 1"));
    assert_eq!((slow, quick.len()), (Err("57014".to_owned()), 1));
    let large = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(value AS VARCHAR), 50) FROM \
                 range(0, 20000000))";
    let large = texts(&one, large).await.unwrap_err();
    assert!(["53200", "57014"].contains(&&*large), "{large}");
    assert_eq!(answered_in_time(&one, "SELECT 1").await.len(), 1);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_beyond_its_limits_fails_with_its_own_error() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, tight_limits()).await;
    let one = server.connect().await;
    let many = "SELECT value FROM range(0, 1000000)";
    assert_eq!(texts(&one, many).await, Err("54000".to_owned()));
    let wide = "SELECT repeat('x', 60000) AS wide FROM range(0, 2000)";
    assert_eq!(texts(&one, wide).await, Err("54000".to_owned()));
    let row = "SELECT repeat('x', 20000000 + value) AS wide FROM range(0, 10)";
    assert_eq!(texts(&one, row).await, Err("53200".to_owned()));
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
    assert_eq!(value(&one, "SELECT 1").await, "1");
    server.end().await;
}

/// A request to cancel has no effect before the query begins, so it is repeated. The time of a
/// query is longer than these attempts, and than the other query takes on a busy machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_stops_the_query_and_no_other() {
    let lake = namespaces::lake(false).await;
    let patient = QueryLimits {
        time: Duration::from_secs(900),
        ..limits()
    };
    let server = TestServer::start(Protocol::Postgres, &lake, None, patient).await;
    let (one, other) = (server.connect().await, server.connect().await);
    one.cancel_token().cancel_query(NoTls).await.unwrap();
    let cancel = async {
        for _ in 0..400 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            one.cancel_token().cancel_query(NoTls).await.unwrap();
        }
    };
    let stopped = async {
        tokio::select! {
            stopped = texts(&one, ENDLESS) => stopped,
            () = cancel => panic!("the query isn't cancelled"),
        }
    };
    let long = "SELECT count(*) FROM range(1, 60000000) a WHERE a.value % 7 = 8";
    let (stopped, finished) = tokio::join!(stopped, texts(&other, long));
    assert_eq!(stopped, Err("57014".to_owned()));
    assert_eq!(finished.unwrap().len(), 1);
    // The last request may arrive after the end of the query that it is for.
    let rows = answered_in_time(&one, "SELECT 1").await;
    assert_eq!(rows.len(), 1, "the session goes on");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_releases_its_slot() {
    let lake = namespaces::lake(false).await;
    let tight = QueryLimits {
        time: Duration::from_secs(10),
        rows: 100_000_000,
        concurrent: 1,
        ..limits()
    };
    let server = TestServer::start(Protocol::Postgres, &lake, None, tight).await;
    let silent = silent_client(&server);
    let client = server.connect().await;
    assert_eq!(answered_in_time(&client, "SELECT 1").await.len(), 1);
    drop(silent);
    // The same for a client that asks for a part of the rows, and for nothing else.
    let mut lazy = server.connect().await;
    let mut attempts = 0;
    let (transaction, portal) = loop {
        let transaction = lazy.transaction().await.unwrap();
        match five_rows(&transaction, "SELECT value FROM range(0, 10000000)").await {
            Ok(portal) => break (transaction, portal),
            Err(error) => {
                let state = error.code().map_or("closed", SqlState::code);
                assert!(is_late(state), "{state}");
            }
        }
        attempts += 1;
        assert!(attempts < ATTEMPTS, "no rows in time");
    };
    assert_eq!(answered_in_time(&client, "SELECT 1").await.len(), 1);
    // The slot is free before the portal is closed, and some rows were computed before that.
    let error = loop {
        match transaction.query_portal(&portal, 5_000).await {
            Ok(rows) => assert_eq!(rows.len(), 5_000),
            Err(error) => break error,
        }
    };
    let state = error.code().map_or("closed", SqlState::code);
    assert!(["34000", "57014"].contains(&state), "{state}");
    drop(transaction);
    server.end().await;
}

/// Begins a query, and takes five of its rows.
async fn five_rows(
    transaction: &Transaction<'_>,
    query: &str,
) -> Result<Portal, tokio_postgres::Error> {
    let portal = transaction.bind(query, &[]).await?;
    let rows = transaction.query_portal(&portal, 5).await?;
    assert_eq!(rows.len(), 5);
    Ok(portal)
}

/// Connects a client that asks for ten gigabytes, and reads the first row of them.
fn silent_client(server: &TestServer) -> TcpStream {
    let query = query_message("SELECT repeat('x', 1000) FROM range(0, 10000000)");
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(&startup(b"user\0a\0")).unwrap();
    stream.write_all(&query).unwrap();
    let mut attempts = 1;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).unwrap();
        match head[0] {
            b'D' => return stream,
            b'E' => {
                let text = String::from_utf8_lossy(&body);
                assert!(text.contains("C57014") && attempts < ATTEMPTS, "{text}");
                stream.write_all(&query).unwrap();
                attempts += 1;
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_prepared_in_the_slot_of_a_query() {
    let lake = namespaces::lake(false).await;
    let alone = QueryLimits {
        concurrent: 1,
        queued: 0,
        rows: 100_000_000,
        ..limits()
    };
    let server = TestServer::start(Protocol::Postgres, &lake, None, alone).await;
    let (mut lazy, client) = (server.connect().await, server.connect().await);
    let transaction = lazy.transaction().await.unwrap();
    let endless = "SELECT value FROM range(0, 10000000)";
    let portal = transaction.bind(endless, &[]).await.unwrap();
    assert_eq!(transaction.query_portal(&portal, 5).await.unwrap().len(), 5);
    let refused = client.prepare("SELECT 1").await.unwrap_err();
    assert_eq!(refused.code().map(SqlState::code), Some("53300"));
    // What is planned without a query needs none.
    client.prepare("SHOW TimeZone").await.unwrap();
    transaction.rollback().await.unwrap();
    drop(portal);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_valid_token_begins_a_session_and_bulk_reads_are_audited() {
    let mut lake = namespaces::lake(true).await;
    let server = TestServer::start(
        Protocol::Postgres,
        &lake,
        Some(Confinement::default()),
        limits(),
    )
    .await;
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
async fn a_running_answer_is_finished_when_the_server_stops() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let (idle, client) = (server.connect().await, server.connect().await);
    let (begun, has_begun) = oneshot::channel();
    let (go_on, may_go_on) = oneshot::channel();
    // More bytes than the system holds for a client that doesn't read.
    let asked = tokio::spawn(async move {
        let wide = "SELECT repeat('x', 1000) FROM range(0, 20000)";
        let rows = client.query_raw(wide, Vec::<String>::new());
        let rows = rows.await.unwrap();
        pin_mut!(rows);
        rows.next().await.unwrap().unwrap();
        begun.send(()).unwrap();
        may_go_on.await.unwrap();
        let mut count = 1;
        while let Some(row) = rows.next().await {
            row.unwrap();
            count += 1;
        }
        count
    });
    has_begun.await.unwrap();
    let ended = tokio::spawn(server.end());
    // If it weren't closed at once, it would be by force, and the running answer with it.
    while !idle.is_closed() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    go_on.send(()).unwrap();
    assert_eq!(asked.await.unwrap(), 20_000);
    ended.await.unwrap();
    let state = texts(&idle, "SELECT 1").await.unwrap_err();
    assert!(["57P01", "closed"].contains(&&*state), "{state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bytes_end_their_own_connection_only() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, own(), limits()).await;
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
    // Messages that are shorter than their kind requires.
    for kind in b"EPBDCQpSHX" {
        let empty = [&[*kind], &b"\0\0\0\x04"[..]].concat();
        hostile.push([startup(b"user\0a\0"), empty].concat());
    }
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
async fn names_types_columns_and_texts_without_a_statement_count_among_what_a_session_holds() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let begun = || startup(b"user\0a\0");
    let name = |number: usize| format!("{number}{}", "n".repeat(1_000_000));
    let statements = (0..40).map(|number| parse_message(&name(number), "", &[]));
    let portals = (0..40).map(|number| bind_message(&name(number)));
    // Their texts have 6 MB.
    let columns: Vec<String> = (0..10_000).map(|number| format!("1 c{number}")).collect();
    let wide = format!("SELECT {}", columns.join(","));
    let wide = (0..70).map(|number| parse_message(&format!("s{number}"), &wide, &[]));
    for (messages, state) in [
        (statements.collect::<Vec<_>>().concat(), "53400"),
        (wide.collect::<Vec<_>>().concat(), "53400"),
        (
            [
                parse_message("", "SELECT 1", &[]),
                portals.collect::<Vec<_>>().concat(),
            ]
            .concat(),
            "53400",
        ),
        (parse_message("", "SELECT 1", &[23; 2_000]), "54023"),
        (parse_message("", "BEGIN", &[23; 2_000]), "54023"),
    ] {
        let answer = server
            .raw([begun(), messages, sync_message()].concat())
            .await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains(state), "{state}: {text}");
    }
    // A text without a statement is answered as often as it is executed.
    let empty = [
        begun(),
        parse_message("", "-- nothing", &[]),
        bind_message(""),
        execute_message("").repeat(2),
        sync_message(),
    ];
    let answer = server.raw(empty.concat()).await;
    let completed = answer.windows(5).filter(|window| *window == b"I\0\0\0\x04");
    assert_eq!(completed.count(), 2);
    server.end().await;
}

//! Limits, hostile statements, clients that don't read or send, and the end of a server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use gristmill_server::http::QueryLimits;
use gristmill_tests::test_server::{Protocol, TestServer, limits, own, short_limits, tight_limits};
use serde_json::json;
use tokio::sync::oneshot;

use super::{Answer, Requests, code, parsed};
use crate::namespaces;

/// Time that an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Asks until a query has a slot and is answered in time.
async fn answered_in_time(server: &TestServer, query: &str) -> Answer {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = server.sql(query).await;
        if ![503, 504].contains(&answer.status) {
            return answer;
        }
        assert!(Instant::now() < end, "{}", answer.body);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_beyond_its_time_fails_and_others_continue() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, short_limits()).await;
    let endless = "SELECT count(*) FROM range(1, 100000000000) a WHERE a.value % 7 = 8";
    let quick = answered_in_time(&server, "SELECT 1 AS a");
    let (slow, quick) = tokio::join!(server.sql(endless), quick);
    assert_eq!((slow.status, &*code(&slow)), (504, "TIME_LIMIT"));
    assert_eq!(quick.body, "{\"a\":1}\n", "others continue");
    let large = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(value AS VARCHAR), 50) FROM \
                 range(0, 20000000))";
    let large = server.sql(large).await;
    assert!(
        ["MEMORY_LIMIT", "TIME_LIMIT"].contains(&&*code(&large)),
        "{}",
        large.body
    );
    let after = answered_in_time(&server, "SELECT 1 AS a").await;
    assert_eq!(after.body, "{\"a\":1}\n");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_beyond_its_limits_fails_with_its_own_error() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, tight_limits()).await;
    let many = server.sql("SELECT value FROM range(0, 1000000)").await;
    assert!(
        !many.complete,
        "an answer that was cut must not look complete"
    );
    assert_eq!(code(&many), "ROW_LIMIT");
    let wide = "SELECT repeat('x', 60000) AS wide FROM range(0, 2000)";
    let wide = server.sql(wide).await;
    assert_eq!((wide.complete, &*code(&wide)), (false, "BYTE_LIMIT"));
    // One row doesn't fit in the memory of the query.
    let row = "SELECT repeat('x', 20000000 + value) AS wide FROM range(0, 10)";
    let row = server.sql(row).await;
    assert_eq!((row.status, &*code(&row)), (422, "MEMORY_LIMIT"));
    // Nor may a function make so much, whatever the memory.
    let call = "SELECT repeat('x', 300000000 + value) AS wide FROM range(0, 1)";
    let call = server.sql(call).await;
    assert_eq!((call.status, &*code(&call)), (422, "MEMORY_LIMIT"));
    assert!(call.body.contains("no option raises"), "{}", call.body);
    assert_eq!(server.sql("SELECT 1 AS a").await.body, "{\"a\":1}\n");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wide_rows_are_all_sent() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let wide = "SELECT value, repeat('x', 60000) || value AS wide FROM range(0, 300)";
    let rows = server.rows(wide).await;
    assert_eq!(rows.len(), 300);
    for (at, row) in rows.iter().enumerate() {
        let wide = format!("{}{at}", "x".repeat(60_000));
        assert_eq!((&row["value"], &row["wide"]), (&json!(at), &json!(wide)));
    }
    // A scan would evaluate the expression for whole batches.
    let plan = server
        .sql("EXPLAIN SELECT subject || 'x' FROM grains")
        .await;
    assert!(
        plan.body.contains("ProjectionExec: expr=[textcat(subject"),
        "{}",
        plan.body
    );
    server.end().await;
}

/// The time limit and other requests don't depend on the pauses of a query.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_query_that_never_pauses_is_refused_in_time_and_delays_no_other() {
    let lake = namespaces::lake(false).await;
    let tight = QueryLimits {
        time: Duration::from_secs(2),
        ..limits()
    };
    let server = TestServer::start(Protocol::Http, &lake, None, tight).await;
    // One call of a function that takes much longer than the limit.
    let busy = "SELECT levenshtein(repeat('a', 60000), repeat('b', 60000))";
    let health = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.request("GET", "/healthz", "", "").await.status
    };
    // The clock of the limit and the other request are on the one thread of connections: if the
    // query occupied it, the answer would be the query's result.
    let (slow, health) = tokio::join!(server.sql(busy), health);
    assert_eq!((slow.status, &*code(&slow)), (504, "TIME_LIMIT"));
    assert_eq!(health, 200);
    let after = answered_in_time(&server, "SELECT 1 AS a").await;
    assert_eq!(after.body, "{\"a\":1}\n");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_too_deep_are_refused_and_the_server_goes_on() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, own(), limits()).await;
    for (begin, part) in [
        ("SELECT 1", "+1"),
        ("SELECT 1", " UNION ALL SELECT 1"),
        ("SELECT true", " AND true"),
        ("SELECT 'a'", "||'a'"),
        ("SELECT 1", "::int"),
        ("", "EXPLAIN "),
        ("SELECT '{}'", "->'a'"),
        ("SELECT ", "INTERVAL "),
        ("SELECT cast(null AS ", "array<"),
        (
            "SELECT count(*) FROM grains WHERE subject = 'x'",
            " OR subject = 'i'",
        ),
    ] {
        let answer = server.sql(&(begin.to_owned() + &part.repeat(20_000))).await;
        assert_eq!(answer.status, 400, "{part}: {}", answer.body);
    }
    // As deep as is permitted, on the threads of a server.
    for (begin, part) in [("SELECT 1", "+1"), ("SELECT 1", " UNION ALL SELECT 1")] {
        let answer = server.sql(&(begin.to_owned() + &part.repeat(400))).await;
        assert_eq!(answer.status, 200, "{part}: {}", answer.body);
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_answer_is_finished_when_the_server_stops() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    // More bytes than the system holds for a client that doesn't read.
    let query = "SELECT repeat('x', 1000) AS text FROM range(0, 20000)";
    let address = server.address;
    let (begun, has_begun) = oneshot::channel();
    let asked = tokio::task::spawn_blocking(move || {
        let body = json!({ "query": query }).to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut bytes = vec![0; 64];
        stream.read_exact(&mut bytes).unwrap();
        begun.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        stream.read_to_end(&mut bytes).unwrap();
        parsed(&bytes)
    });
    has_begun.await.unwrap();
    server.end().await;
    let answer = asked.await.unwrap();
    assert!(answer.complete);
    assert_eq!(answer.body.lines().count(), 20_000);
}

/// Returns a connection of whose answer to a query, with many rows, the first bytes are read.
fn ask_without_reading(address: SocketAddr) -> TcpStream {
    let query = "SELECT value, repeat('x', 1000) AS text FROM range(0, 90000)";
    let body = json!({ "query": query }).to_string();
    let head = "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let end = Instant::now() + PATIENCE;
    loop {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut begin = [0; BEGIN.len()];
        stream.read_exact(&mut begin).unwrap();
        if begin == *BEGIN {
            return stream;
        }
        assert!(Instant::now() < end, "no slot, or no rows in time");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The begin of an answer with rows.
const BEGIN: &[u8; 12] = b"HTTP/1.1 200";

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_hold_no_slot_and_are_audited() {
    let mut lake = namespaces::lake(false).await;
    let tight = QueryLimits {
        time: Duration::from_secs(3),
        concurrent: 2,
        queued: 0,
        ..limits()
    };
    let server = TestServer::start(Protocol::Http, &lake, None, tight).await;
    let end = Instant::now() + PATIENCE;
    let mut asked = 0;
    let mut silent = loop {
        let silent = [(); 2].map(|()| ask_without_reading(server.address));
        asked += 2;
        let other = server.sql("SELECT 1 AS a").await;
        if other.status == 503 {
            assert_eq!(code(&other), "BUSY");
            break silent;
        }
        assert!(Instant::now() < end, "the slots are free: {}", other.body);
    };
    let other = answered_in_time(&server, "SELECT 1 AS a").await;
    assert_eq!(other.body, "{\"a\":1}\n");
    let mut bytes = BEGIN.to_vec();
    silent[0].set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = silent[0].read_to_end(&mut bytes);
    assert!(
        !parsed(&bytes).complete,
        "what was cut doesn't look complete"
    );
    drop(silent);
    server.end().await;
    lake.lake.refresh().await.unwrap();
    let query = "SELECT count(*) FROM audit WHERE action = 'bulk_read'";
    assert_eq!(lake.value(query).await, asked.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_arrive_is_refused() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let head = "POST /sql HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
                application/json\r\nContent-Length: 100\r\n\r\n{";
    let answer = server.raw(head.to_owned()).await;
    assert_eq!((answer.status, &*code(&answer)), (408, "BODY_TIME"));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_long_is_refused() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: ";
    let long = head.to_owned() + &"a".repeat(100_000);
    let answer = server.raw(long.clone()).await;
    assert_eq!(answer.status, 431);
    // Nor does it matter that it ends, and how its bytes arrive.
    let answer = server.raw(long + "\r\n\r\n").await;
    assert_eq!(answer.status, 431);
    server.end().await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_soon_returns_memory_to_the_system_and_keeps_its_arguments() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let lake = gristmill_tests::lake::TestLake::new().await;
    let lake = lake.folder().join("lake");
    let mut program = gristmill_tests::binary::program();
    program.env_remove("MIMALLOC_PURGE_DELAY").arg("--lake");
    program.arg(&lake);
    program.args(["serve", "--listen", "127.0.0.1:0"]);
    let mut served = program.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(served.stderr.take().unwrap());
    lines.read_line(&mut line).unwrap();
    let environment = std::fs::read(format!("/proc/{}/environ", served.id())).unwrap();
    served.kill().unwrap();
    served.wait().unwrap();
    assert!(line.contains("/lake on http://127.0.0.1:"), "{line}");
    let mut variables = environment.split(|byte| *byte == 0);
    assert!(variables.any(|variable| variable == b"MIMALLOC_PURGE_DELAY=100"));
}

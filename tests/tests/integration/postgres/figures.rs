//! The figures of a server about its answers to PostgreSQL's clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gristmill_queries::sql::SqlOptions;
use gristmill_server::http::{self, HttpOptions, QueryLimits, Server};
use gristmill_server::{NewestLake, postgres};
use gristmill_tests::lake::TestLake;
use gristmill_tests::test_server::{limits, tight_limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::{Client, NoTls};

use super::cursors::begin_cursor;
use super::session::{texts, value};
use crate::namespaces;

/// Returns the lines about PostgreSQL's answers by their status.
async fn counted(address: SocketAddr) -> Vec<String> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let start = "gristmill_requests_total{endpoint=\"postgres\",status=";
    let lines = answer.lines().filter_map(|line| line.strip_prefix(start));
    lines.map(str::to_owned).collect()
}

/// Serves a lake; returns a session and the address of the figures.
async fn served(lake: &TestLake, limits: QueryLimits) -> (Client, SocketAddr) {
    let options = HttpOptions {
        tokens: None,
        allow_writes: false,
        limits,
        audit_rows: 1_000_000,
        audit_key: None,
    };
    let newest = NewestLake::new(lake.lake.clone(), SqlOptions::default());
    let server = Server::new(newest.await.unwrap(), options).await.unwrap();
    let rows = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = rows.local_addr().unwrap().port();
    let stop = std::future::pending::<()>;
    tokio::spawn(postgres::listen(Arc::clone(&server), rows, None, stop()));
    let figures = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = figures.local_addr().unwrap();
    tokio::spawn(http::listen(server, figures, None, stop()));

    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port);
    config.user("anyone").dbname("lake").password("none");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    (client, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_fails_after_some_of_its_rows_is_counted_as_failed() {
    let lake = namespaces::lake(false).await;
    let (client, address) = served(&lake, tight_limits()).await;
    assert_eq!(value(&client, "SELECT 1").await, "1");
    assert_eq!(counted(address).await, ["\"200\"} 1"]);
    // More rows than the server sends, of which the first ones are sent.
    let many = "SELECT value FROM range(0, 1000000)";
    assert_eq!(texts(&client, many).await, Err("54000".to_owned()));
    assert!(client.query(many, &[]).await.is_err());
    assert_eq!(
        counted(address).await,
        ["\"200\"} 1", "\"422\"} 2"],
        "one each of the simple and the extended protocol"
    );
}

/// An answer is counted when its last row is sent, or when its cursor is closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_is_not_read_is_closed_at_the_time_limit() {
    let lake = namespaces::lake(false).await;
    let short = QueryLimits {
        time: Duration::from_secs(2),
        rows: 100_000_000,
        ..limits()
    };
    let (client, address) = served(&lake, short).await;
    begin_cursor(&client).await;
    let is_answered = |line: &String| line.starts_with("\"200\"");
    while !counted(address).await.iter().any(is_answered) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let next = texts(&client, "FETCH 1 FROM c").await;
    assert_eq!(next, Err("34000".to_owned()));
}

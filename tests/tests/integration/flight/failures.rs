//! Errors, limits, stalled clients, hostile bytes, and servers that stop or are killed.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightDescriptor, Ticket};
use futures::{StreamExt, TryStreamExt};
use gristmill_server::http::QueryLimits;
use gristmill_tests::lake::TestLake;
use tonic::{Code, Status};

use gristmill_tests::test_server::{Protocol, TestServer, limits, own, short_limits, tight_limits};

use super::client::{client_of, connected, rows_of, status_of};
use crate::namespaces;

const ENDLESS: &str = "SELECT count(*) FROM range(1, 100000000000) a WHERE a.value % 7 = 8";

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_status_message_and_remedy() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Flight, &lake, None, limits()).await;
    let mut client = connected(&server).await;
    for (query, message) in [
        ("SELEC 1", "SELEC"),
        ("SELECT * FROM graims", "grains"),
        ("SELECT subjet FROM grains", "subject"),
        ("DELETE FROM grains", "Change the query"),
        ("COPY grains TO 'x'", "Change the query"),
        ("SELECT * FROM mg_file('/etc/passwd')", "Change the query"),
        ("SELECT 1; SELECT 2", "exactly one"),
        ("", "exactly one"),
        ("SELECT CAST('x' AS INT)", "'x'"),
    ] {
        let error = rows_of(&mut client, query).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{query}: {error}");
        assert!(error.message().contains(message), "{query}: {error}");
    }
    let update = client
        .execute_update("DELETE FROM grains".to_owned(), None)
        .await;
    assert!(update.unwrap_err().to_string().contains("can't be changed"));
    assert_eq!(rows_of(&mut client, "SELECT 1").await.unwrap().len(), 1);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_beyond_its_time_fails_and_others_continue() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Flight, &lake, None, short_limits()).await;
    let (mut one, mut other) = (connected(&server).await, connected(&server).await);
    let (slow, quick) = tokio::join!(rows_of(&mut one, ENDLESS), rows_eventually(&mut other));
    assert_eq!(slow.unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(quick, 1);
    let large = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(value AS VARCHAR), 50) FROM \
                 range(0, 20000000))";
    let large = rows_of(&mut one, large).await.unwrap_err();
    assert!(
        [Code::ResourceExhausted, Code::DeadlineExceeded].contains(&large.code()),
        "{large}"
    );
    assert_eq!(rows_eventually(&mut one).await, 1);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_beyond_its_limits_fails_with_its_own_error() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Flight, &lake, None, tight_limits()).await;
    let mut one = connected(&server).await;
    let many = rows_of(&mut one, "SELECT value FROM range(0, 1000000)").await;
    let many = many.unwrap_err();
    assert_eq!(many.code(), Code::ResourceExhausted, "never looks complete");
    assert!(many.message().contains("--max-rows"), "{many}");
    let wide = "SELECT repeat('x', 60000) AS wide FROM range(0, 2000)";
    let wide = rows_of(&mut one, wide).await.unwrap_err();
    assert_eq!(wide.code(), Code::ResourceExhausted);
    assert!(wide.message().contains("--max-bytes"), "{wide}");
    let row = "SELECT repeat('x', 20000000 + value) AS wide FROM range(0, 10)";
    let row = rows_of(&mut one, row).await.unwrap_err();
    assert_eq!(row.code(), Code::ResourceExhausted);
    assert!(row.message().contains("--query-memory"), "{row}");
    assert_eq!(rows_of(&mut one, "SELECT 1").await.unwrap().len(), 1);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_releases_its_slot() {
    let lake = namespaces::lake(false).await;
    let tight = QueryLimits {
        time: Duration::from_secs(3),
        rows: 100_000_000,
        concurrent: 1,
        ..limits()
    };
    let server = TestServer::start(Protocol::Flight, &lake, None, tight).await;
    let mut silent = connected(&server).await;
    let mut unread = begun(&mut silent).await;
    let mut client = connected(&server).await;
    assert_eq!(rows_eventually(&mut client).await, 1);
    // What was sent before the end of the time is read, and the end is an error.
    let error = loop {
        if let Err(error) = unread.next().await.unwrap() {
            break status_of(error);
        }
    };
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disconnects_releases_its_slot_before_the_time_limit() {
    let lake = namespaces::lake(false).await;
    let patient = QueryLimits {
        time: 3 * PATIENCE,
        rows: 100_000_000,
        concurrent: 1,
        ..limits()
    };
    let server = TestServer::start(Protocol::Flight, &lake, None, patient).await;
    let mut silent = connected(&server).await;
    drop(begun(&mut silent).await);
    let mut client = connected(&server).await;
    let rows = tokio::time::timeout(PATIENCE, rows_of(&mut client, "SELECT 1")).await;
    let rows = rows.expect("a cancelled call ends its query");
    assert_eq!(rows.unwrap().len(), 1);
    server.end().await;
}

/// Time that an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Asks for ten gigabytes, and reads the first rows of them.
async fn begun(client: &mut super::Client) -> FlightRecordBatchStream {
    let end = Instant::now() + PATIENCE;
    loop {
        match first_rows(client).await {
            Ok(rows) => return rows,
            Err(error) => assert!(is_late(&error) && Instant::now() < end, "{error}"),
        }
    }
}

async fn first_rows(client: &mut super::Client) -> Result<FlightRecordBatchStream, Status> {
    let wide = "SELECT repeat('x', 1000) FROM range(0, 10000000)";
    let info = client.execute(wide.to_owned(), None).await;
    let info = info.map_err(status_of)?;
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows = client.do_get(ticket).await;
    let mut rows = rows.map_err(status_of)?;
    rows.next().await.unwrap().map_err(status_of)?;
    Ok(rows)
}

/// Returns true if a call had no slot in time, or one shortly before the end of its time.
fn is_late(error: &Status) -> bool {
    [Code::Unavailable, Code::DeadlineExceeded].contains(&error.code())
}

/// Asks until there is a slot.
async fn rows_eventually(client: &mut super::Client) -> usize {
    let end = Instant::now() + PATIENCE;
    loop {
        match rows_of(client, "SELECT 1").await {
            Ok(rows) => return rows.len(),
            Err(error) => assert!(is_late(&error) && Instant::now() < end, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bytes_end_their_own_call_only() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Flight, &lake, None, limits()).await;
    let address = server.address;
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        &[0; 4096],
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
    }
    let client = connected(&server).await;
    let mut plain = client.into_inner();
    for command in [vec![], vec![0xff; 40], b"SELECT 1".to_vec()] {
        let asked = plain
            .get_flight_info(FlightDescriptor::new_cmd(command.clone()))
            .await;
        assert!(asked.is_err());
        assert!(plain.do_get(Ticket::new(command)).await.is_err());
    }
    let forged = TicketStatementQuery {
        statement_handle: b"\x0a\x08SELECT 1\x12\x04\xff\xff\xff\xff".to_vec().into(),
    };
    let forged = Ticket::new(prost_bytes(&forged));
    assert_eq!(
        plain.do_get(forged).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    let long = format!("SELECT '{}'", "x".repeat(2 << 20));
    let mut client = connected(&server).await;
    let error = rows_of(&mut client, &long).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error}");
    assert_eq!(rows_of(&mut client, "SELECT 1").await.unwrap().len(), 1);
    server.end().await;
}

fn prost_bytes(message: &impl ProstMessageExt) -> Vec<u8> {
    let any = message.as_any();
    // The encoding of `google.protobuf.Any`: two fields with their lengths.
    let mut bytes = Vec::new();
    for (tag, value) in [(0x0a, any.type_url.as_bytes()), (0x12, &any.value[..])] {
        bytes.push(tag);
        bytes.push(u8::try_from(value.len()).unwrap());
        bytes.extend_from_slice(value);
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_answer_is_finished_when_the_server_stops() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Flight, &lake, None, limits()).await;
    let mut client = connected(&server).await;
    let many = "SELECT value, repeat('x', 200) FROM range(0, 90000)".to_owned();
    let info = client.execute(many, None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut rows = client.do_get(ticket).await.unwrap();
    let mut count = rows.next().await.unwrap().unwrap().num_rows();
    let read = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(400)).await;
        while let Some(batch) = rows.next().await {
            count += batch.unwrap().num_rows();
        }
        count
    });
    server.end().await;
    assert_eq!(read.await.unwrap(), 90_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_killed_server_sent_in_part_never_looks_complete() {
    let lake = TestLake::new().await;
    for _ in 0..3 {
        let mut served = gristmill_tests::binary::program()
            .arg("--lake")
            .arg(lake.folder().join("lake"))
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--flight",
                "127.0.0.1:0",
            ])
            .args(["--max-rows", "100000000"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(served.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            let address = line.split_once("grpc://")?.1.to_owned();
            Some(address.parse::<SocketAddr>().unwrap())
        });
        let mut client = client_of(address.unwrap(), None).await;
        let many = "SELECT value, repeat('x', 200) FROM range(0, 20000000)".to_owned();
        let info = client.execute(many, None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let mut rows = client.do_get(ticket).await.unwrap();
        assert!(rows.next().await.unwrap().is_ok());
        served.kill().unwrap();
        served.wait().unwrap();
        let rest: Result<Vec<_>, _> = rows.try_collect().await;
        assert!(rest.is_err());
    }
}

/// Returns a frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns the beginning of a call without a token: of its message of 1 MiB, 1,000 bytes.
fn unfinished_call() -> Vec<u8> {
    // `POST` and `http` by their numbers in the table of HPACK, then the names of two values.
    let mut head = vec![0x83, 0x86];
    let path = "/arrow.flight.protocol.FlightService/GetFlightInfo";
    for (name, value) in [(0x04, path), (0x01, "localhost")] {
        head.extend([name, u8::try_from(value.len()).unwrap()]);
        head.extend(value.as_bytes());
    }
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
        head.push(0);
        for text in [name, value] {
            head.push(u8::try_from(text.len()).unwrap());
            head.extend(text.as_bytes());
        }
    }
    let mut message = vec![0, 0, 0x10, 0, 0];
    message.resize(1_000, b'x');
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    for (kind, flags, stream, payload) in [
        (4, 0, 0, &[][..]),
        (1, 4, 1, &head[..]),
        (0, 0, 1, &message[..]),
    ] {
        bytes.extend(frame(kind, flags, stream, payload));
    }
    bytes
}

/// Waits for the head of an answer and returns its flags.
fn flags_of_answer(mut stream: &TcpStream) -> u8 {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).unwrap();
        if head[3] == 1 {
            return head[4];
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_token_is_refused_before_its_message_and_holds_no_connection() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Flight, &lake, own(), limits()).await;
    let address = server.address;
    let ended = tokio::task::spawn_blocking(move || {
        let connect = || {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        };
        let (mut calling, mut silent) = (connect(), connect());
        calling.write_all(&unfinished_call()).unwrap();
        // The answer ends with its head, although the message isn't complete.
        assert_eq!(flags_of_answer(&calling) & 1, 1);
        let mut bytes = Vec::new();
        [&mut calling, &mut silent].map(|stream| match stream.read_to_end(&mut bytes) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        })
    });
    assert_eq!(ended.await.unwrap(), [true, true]);
    // A client with a token stays connected.
    let mut client = connected(&server).await;
    assert_eq!(rows_of(&mut client, "SELECT 1").await.unwrap().len(), 1);
    server.end().await;
}

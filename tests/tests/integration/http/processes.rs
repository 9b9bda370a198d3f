//! Servers in processes of their own: their memory, and their tokens at SIGHUP.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use gristmill_queries::sql::Confinement;
use gristmill_server::http::{Scope, new_token};
use gristmill_tests::lake::TestLake;
use serde_json::json;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use super::{Answer, parsed};

/// A server, which is killed when this is dropped.
pub(super) struct ServerProcess {
    process: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl ServerProcess {
    pub(super) fn start(lake: &Path, options: &[&str]) -> ServerProcess {
        let mut program = gristmill_tests::binary::program();
        program.arg("--lake").arg(lake);
        program.args(["serve", "--listen", "127.0.0.1:0"]);
        program.args(options);
        let mut process = program.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap()).lines();
        ServerProcess { process, log }
    }

    /// Reads the log up to the first line with `text` and returns what follows it there.
    fn logged(&mut self, text: &str) -> String {
        let found = self.log.by_ref().find_map(|line| {
            let line = line.unwrap();
            Some(line.split_once(text)?.1.to_owned())
        });
        found.unwrap()
    }

    /// Returns the address at which it listens with `scheme`. Schemes have the order of the log.
    pub(super) fn address(&mut self, scheme: &str) -> SocketAddr {
        self.logged(scheme).parse().unwrap()
    }

    fn send_hangup(&self) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-HUP", &id]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a query and returns the connection.
fn sent(address: SocketAddr, token: Option<&str>, query: &str) -> TcpStream {
    let body = json!({ "query": query }).to_string();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let head = format!(
        "POST /sql HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
         application/json\r\n{}Content-Length: {}\r\n\r\n",
        token.unwrap_or_default(),
        body.len(),
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

fn answer(address: SocketAddr, token: Option<&str>, query: &str) -> Answer {
    let mut bytes = Vec::new();
    let _ = sent(address, token, query).read_to_end(&mut bytes);
    parsed(&bytes)
}

/// Returns the most memory that a process has held, in mebibytes.
#[cfg(target_os = "linux")]
fn most_memory(process: &Child) -> u64 {
    let path = format!("/proc/{}/status", process.id());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let digits = line.unwrap().trim().trim_end_matches(" kB");
    digits.parse::<u64>().unwrap() >> 10
}

/// Batches of 2,048 rows would have 246 MB, and each query several of them.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn wide_answers_that_are_read_slowly_stay_within_the_memory() {
    let lake = TestLake::new().await;
    let folder = lake.folder().join("lake");
    let mut server = ServerProcess::start(&folder, &["--memory", "256M"]);
    let address = server.address("http://");
    let wide = "SELECT repeat('x', 60000 + value % 3) || '-' || repeat('y', 60000) AS a FROM \
                range(0, 6000)";
    let unread = [wide; 3].map(|query| sent(address, None, query));
    tokio::time::sleep(Duration::from_secs(4)).await;
    let other = answer(address, None, "SELECT 1 AS a");
    assert_eq!(other.body, "{\"a\":1}\n", "others continue");
    let most = most_memory(&server.process);
    assert!(most < 256 + 500, "{most} MiB");
    for mut stream in unread {
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
    }
}

/// The system shows a timer of the kind 2 for a connection that it tests while it is silent.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_tested_by_the_system() {
    let lake = TestLake::new().await;
    let options = ["--postgres", "127.0.0.1:0"];
    let mut server = ServerProcess::start(&lake.folder().join("lake"), &options);
    for scheme in ["http://", "postgresql://"] {
        let address = server.address(scheme);
        let client = TcpStream::connect(address).unwrap();
        let ends = [address.port(), client.local_addr().unwrap().port()];
        let [own, other] = ends.map(|port| format!(":{port:04X}"));
        let timer = || {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            table.lines().find_map(|line| {
                let cells: Vec<&str> = line.split_whitespace().collect();
                let [_, local, remote, _, _, timer, ..] = cells[..] else {
                    return None;
                };
                let is_served = local.ends_with(&own) && remote.ends_with(&other);
                is_served.then(|| timer.to_owned())
            })
        };
        // The system may complete the connection on this side later than on the other.
        let end = Instant::now() + Duration::from_secs(60);
        while !timer().is_some_and(|timer| timer.starts_with("02:")) {
            assert!(Instant::now() < end, "{scheme} {:?}", timer());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_read_again_at_sighup() {
    let lake = TestLake::new().await;
    let file = lake.folder().join("tokens.toml");
    let make = || {
        let scopes = [Scope::Read].into_iter().collect();
        new_token("a", &Confinement::default(), scopes).unwrap()
    };
    let ((old, old_table), (new, new_table)) = (make(), make());
    std::fs::write(&file, old_table).unwrap();
    let path = file.display().to_string();
    let options = ["--tokens", &path, "--postgres", "127.0.0.1:0"];
    let mut server = ServerProcess::start(&lake.folder().join("lake"), &options);
    let address = server.address("http://");
    let port = server.address("postgresql://").port();
    let status = |token: &str| answer(address, Some(token), "SELECT 1 AS a").status;
    assert_eq!((status(&old), status(&new)), (200, 401));
    let (session, connection) = tokio_postgres::Config::new()
        .host("127.0.0.1")
        .port(port)
        .user("anyone")
        .password(&old)
        .connect(NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    session.simple_query("SELECT 1").await.unwrap();

    std::fs::write(&file, "token = 1").unwrap();
    server.send_hangup();
    server.logged("the tokens stay as they were");
    assert_eq!((status(&old), status(&new)), (200, 401));
    session.simple_query("SELECT 1").await.unwrap();

    std::fs::write(&file, new_table).unwrap();
    server.send_hangup();
    let deadline = Instant::now() + Duration::from_secs(240);
    while status(&old) == 200 {
        assert!(Instant::now() < deadline, "the file isn't read");
    }
    assert_eq!((status(&old), status(&new)), (401, 200));
    let ended = session.simple_query("SELECT 1").await.unwrap_err();
    assert_eq!(ended.code().map(SqlState::code), Some("28P01"), "{ended}");
}

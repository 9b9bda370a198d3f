//! Sessions with a server, and messages of the protocol by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use gristmill_tests::test_server::TestServer;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Sessions with a server.
pub(super) trait Sessions {
    async fn connect_with(&self, password: &str) -> Result<Client, tokio_postgres::Error>;
    /// Begins a session with the server's token.
    async fn connect(&self) -> Client;
    /// Sends bytes and returns what the server answers until it closes the connection.
    async fn raw(&self, bytes: Vec<u8>) -> Vec<u8>;
}

impl Sessions for TestServer {
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

    async fn raw(&self, bytes: Vec<u8>) -> Vec<u8> {
        let address = self.address;
        let answered = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(120)))
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
pub(super) async fn texts(
    client: &Client,
    query: &str,
) -> Result<Vec<Vec<Option<String>>>, String> {
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

/// Number of attempts at a query that may come too late on a busy machine.
pub(super) const ATTEMPTS: usize = 100;

/// Returns true if a query had no slot in time, or one shortly before the end of its time.
pub(super) fn is_late(state: &str) -> bool {
    ["53300", "57014"].contains(&state)
}

/// Returns the rows of a query, which may have to wait until another one ends.
pub(super) async fn answered_in_time(client: &Client, query: &str) -> Vec<Vec<Option<String>>> {
    for _ in 0..ATTEMPTS {
        match texts(client, query).await {
            Ok(found) => return found,
            Err(state) => assert!(is_late(&state), "{state}"),
        }
    }
    panic!("no slot is free");
}

/// Returns the first value of a query.
pub(super) async fn value(client: &Client, query: &str) -> String {
    let rows = texts(client, query).await.unwrap();
    rows[0][0].clone().unwrap_or_else(|| "NULL".to_owned())
}

pub(super) fn startup(parameters: &[u8]) -> Vec<u8> {
    let mut message = vec![0, 3, 0, 0];
    message.extend(parameters);
    message.push(0);
    let mut framed = (message.len() as u32 + 4).to_be_bytes().to_vec();
    framed.extend(message);
    framed
}

pub(super) fn query_message(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), b"\0"].concat())
}

/// Returns the message that prepares `text` under a name, with the identifiers of `types`.
pub(super) fn parse_message(name: &str, text: &str, types: &[u32]) -> Vec<u8> {
    let mut body = [name.as_bytes(), b"\0", text.as_bytes(), b"\0"].concat();
    body.extend((types.len() as u16).to_be_bytes());
    body.extend(types.iter().flat_map(|kind| kind.to_be_bytes()));
    message(b'P', &body)
}

/// Returns the message that makes a portal of the unnamed statement, which has no parameters.
pub(super) fn bind_message(portal: &str) -> Vec<u8> {
    message(b'B', &[portal.as_bytes(), &[0; 8]].concat())
}

/// Returns the message that requests all rows of a portal.
pub(super) fn execute_message(portal: &str) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), &[0; 5]].concat())
}

/// Returns the message that ends a batch.
pub(super) fn sync_message() -> Vec<u8> {
    message(b'S', b"")
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut framed = vec![kind];
    framed.extend((body.len() as u32 + 4).to_be_bytes());
    framed.extend(body);
    framed
}

//! A server over a lake in the process of the test, with at most one token.

use std::net::SocketAddr;
use std::time::Duration;

use gristmill_queries::sql::{Confinement, SqlOptions};
use gristmill_server::http::{HttpOptions, QueryLimits, Scope, Server, Tokens, new_token};
use gristmill_server::tls::Tls;
use gristmill_server::{NewestLake, flight, http, postgres};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::lake::TestLake;

/// Name of the token of a server: that of a person.
pub const TOKEN_NAME: &str = "Ada Okafor";

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// JSON over HTTP.
    Http,
    /// Arrow Flight SQL.
    Flight,
    /// PostgreSQL's.
    Postgres,
}

/// A running server on a port of its own.
pub struct TestServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its token; `None` if it answers everyone.
    pub token: Option<String>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// Returns limits that no query of a test reaches by accident.
pub fn limits() -> QueryLimits {
    QueryLimits {
        time: Duration::from_secs(300),
        rows: 100_000,
        bytes: 16 << 30,
        memory: 64 << 20,
        concurrent: 4,
        queued: 16,
    }
}

/// Returns limits of rows, bytes and memory that queries can exceed.
pub fn tight_limits() -> QueryLimits {
    QueryLimits {
        rows: 20_000,
        bytes: 4 << 20,
        memory: 1 << 20,
        ..limits()
    }
}

/// Returns the same limits with a time that queries can exceed. On a busy machine every query can.
pub fn short_limits() -> QueryLimits {
    QueryLimits {
        time: Duration::from_secs(2),
        ..tight_limits()
    }
}

/// Returns the confinement to the namespace `own`.
pub fn own() -> Option<Confinement> {
    Some(Confinement {
        namespace: Some("own".to_owned()),
        user: None,
    })
}

impl TestServer {
    /// Starts a server over `lake`. Without a confinement it has no tokens, else one that reads.
    ///
    /// # Panics
    /// If it can't listen.
    pub async fn start(
        protocol: Protocol,
        lake: &TestLake,
        confinement: Option<Confinement>,
        limits: QueryLimits,
    ) -> TestServer {
        TestServer::start_with(protocol, lake, confinement, &[Scope::Read], limits, None).await
    }

    /// Does the same with a token of `scopes`, and with TLS if there is a certificate.
    ///
    /// # Panics
    /// If it can't listen.
    pub async fn start_with(
        protocol: Protocol,
        lake: &TestLake,
        confinement: Option<Confinement>,
        scopes: &[Scope],
        limits: QueryLimits,
        tls: Option<Tls>,
    ) -> TestServer {
        let made = confinement.map(|confinement| {
            new_token(TOKEN_NAME, &confinement, scopes.iter().copied().collect()).unwrap()
        });
        let tokens = made
            .as_ref()
            .map(|(_, table)| Tokens::parse(table).unwrap());
        let options = HttpOptions {
            tokens,
            allow_writes: true,
            limits,
            audit_rows: 50,
            audit_key: None,
        };
        let newest = NewestLake::new(lake.lake.clone(), SqlOptions::default());
        let server = Server::new(newest.await.unwrap(), options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or_default() };
            match protocol {
                Protocol::Http => http::listen(server, listener, tls, stopped).await,
                Protocol::Flight => flight::listen(server, listener, tls, stopped).await,
                Protocol::Postgres => postgres::listen(server, listener, tls, stopped).await,
            }
        });
        TestServer {
            address,
            token: made.map(|(token, _)| token),
            stop,
            served,
        }
    }

    /// Stops the server and waits for its end.
    ///
    /// # Panics
    /// If the server has panicked.
    pub async fn end(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap();
    }
}

//! SQL over the protocol of PostgreSQL, for its clients: `psql`, drivers, BI tools.
//!
//! | module | question |
//! |---|---|
//! | this one | Who listens? |
//! | `connection` | How does a connection begin and end, and how much may it send and hold up? |
//! | `session` | Who is the client, and which context does it query? |
//! | `queries` | What do the messages of simple and extended queries answer? |
//! | `replies` | What do statements about the session answer, such as BEGIN and DISCARD? |
//! | `prepared` | Which parameters and columns has a prepared statement? |
//! | `cursors` | What do DECLARE, FETCH and CLOSE answer? |
//! | `copy` | How are rows sent to `COPY … TO STDOUT`? |
//! | `held_objects` | How many prepared statements and portals may a client hold? |
//! | `statements` | Which statements change nothing and are answered without a query? |
//! | `transaction_modes` | How does a transaction begin with a mode that the parser doesn't know? |
//! | `rows` | How are rows sent while the query runs? |
//! | `types` | Which type of PostgreSQL has a column? |
//! | `values` | How are values written, as text and in binary? |
//! | `parameters`, `array_parameters` | Which values do `$1`, `$2` … have? |
//! | `catalog` | Which part of PostgreSQL's catalog do clients find? |
//! | `failure` | Which SQLSTATE has an error? |
//!
//! The messages are those of the crate `pgwire`. Tokens, slots of queries, limits and the audit log
//! are those of the [`Server`] that answers HTTP. SQL is read-only, with the same allowlist.

mod array_parameters;
mod catalog;
mod connection;
mod copy;
mod cursors;
mod failure;
mod held_objects;
mod parameters;
mod prepared;
mod queries;
mod replies;
mod rows;
mod session;
mod statements;
mod transaction_modes;
mod types;
mod values;

use std::sync::Arc;

use pgwire::api::{ConnectionManager, RandomPidSecretKeyGenerator};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use self::held_objects::HeldByAll;
use crate::connections::serve_connections;
use crate::http::Server;
use crate::tls::Tls;

/// What the connections of a listener share.
struct Listener {
    server: Arc<Server>,
    tls: Option<TlsAcceptor>,
    /// The connections by the keys with which clients cancel queries.
    connections: Arc<ConnectionManager>,
    keys: RandomPidSecretKeyGenerator,
    /// What the clients of all connections hold.
    held: Arc<HeldByAll>,
}

/// Answers PostgreSQL's protocol on `listener` until `stop` is ready; running queries are finished
/// then, for at most half a minute. With a certificate, clients of other machines must use it.
pub async fn listen(
    server: Arc<Server>,
    listener: TcpListener,
    tls: Option<Tls>,
    stop: impl Future<Output = ()>,
) {
    let shared = Arc::new(Listener {
        server: Arc::clone(&server),
        tls: tls.map(|tls| tls.acceptor(&[])),
        connections: Arc::new(ConnectionManager::new()),
        keys: RandomPidSecretKeyGenerator::default(),
        held: Arc::default(),
    });
    serve_connections(listener, stop, |stream, stopped| {
        connection::serve(Arc::clone(&shared), stream, stopped)
    })
    .await;
    server.finish_entries().await;
}

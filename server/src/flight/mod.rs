//! SQL over Arrow Flight SQL (gRPC), for clients that take columns: ADBC, JDBC, Arrow's own.
//!
//! | module | question |
//! |---|---|
//! | this one | How are connections accepted? |
//! | `guarded_calls` | Which calls are read at all, and how long may a client show no token? |
//! | `calls` | Which answers do calls of Flight get that Flight SQL doesn't define? |
//! | `service` | What does each call of Flight SQL answer? |
//! | `statements` | How is a statement planned, run and sent as columns? |
//! | `sent_columns` | In which types are columns sent? |
//! | `handle` | What is in a ticket and in the handle of a prepared statement? |
//! | `parameters` | Which parameters has a statement, and which values are bound to them? |
//! | `bound_row` | How are the bytes of these values decoded? |
//! | `catalog` | Which tables does a client find? |
//! | `server_info` | What can the server do, and which types has it? |
//! | `authority` | Who is the client, and what may it read? |
//! | `failure` | Which gRPC status has an error? |
//!
//! Tokens, slots of queries, limits and the audit log are those of the [`Server`] that answers
//! HTTP. SQL is read-only, with the same allowlist. The server keeps nothing between calls: tickets
//! and handles contain the statement and its parameters, so they outlive a restart, need no
//! clean-up, and give a client no more than its own statement.

mod authority;
mod bound_row;
mod calls;
mod catalog;
mod failure;
mod guarded_calls;
mod handle;
mod parameters;
mod sent_columns;
mod server_info;
mod service;
mod statements;

use std::pin::Pin;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightServiceServer;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::connections::{TimedStream, serve_connections, timed_stream, until_ended};
use crate::http::{MAX_BODY, Server};
use crate::tls::Tls;
use calls::FlightCalls;
use guarded_calls::GuardedCalls;
use service::FlightSql;

/// Largest message of a client in bytes: a statement and its parameters as long as over HTTP, and
/// their frame.
const MAX_MESSAGE: usize = MAX_BODY + (64 << 10);

/// Calls at the same time on one connection.
const MAX_STREAMS: u32 = 100;

/// Largest head of a call in bytes.
const MAX_HEAD: u32 = 16 << 10;

/// Answers Flight SQL on `listener` until `stop` is ready; running answers are finished then, for
/// at most half a minute. With a certificate, clients must use TLS.
pub async fn listen(
    server: Arc<Server>,
    listener: TcpListener,
    tls: Option<Tls>,
    stop: impl Future<Output = ()>,
) {
    let tls = tls.map(|tls| tls.acceptor(&[b"h2"]));
    let calls = FlightCalls::new(FlightSql::new(Arc::clone(&server)));
    let service = FlightServiceServer::new(calls)
        .max_decoding_message_size(MAX_MESSAGE)
        // Rows can't be split.
        .max_encoding_message_size(usize::MAX);
    serve_connections(listener, stop, |stream, stopped| {
        let (server, service, tls) = (Arc::clone(&server), service.clone(), tls.clone());
        async move {
            if let Some(stream) = timed_stream(stream, tls, server.options.limits.time).await {
                connection(GuardedCalls::new(server, service), stream, stopped).await;
            }
        }
    })
    .await;
    server.finish_entries().await;
}

/// Answers the calls of a connection until it ends, is idle or stops to read, or its client has
/// shown no token in time.
///
/// Only HTTP/2 without a request to switch to it is understood, which no page in a browser can
/// send in the clear; so a server without tokens needs no check of the host's name here.
async fn connection(
    calls: GuardedCalls,
    stream: Pin<Box<TimedStream>>,
    stopped: watch::Receiver<bool>,
) {
    let answers = calls.clone();
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(move |request| answers.clone().answer(request)),
        );
    let ended = until_ended(connection, stopped, |connection| {
        connection.graceful_shutdown();
    });
    tokio::select! {
        () = ended => {}
        () = calls.unknown() => tracing::debug!("a client showed no token in time"),
    }
}

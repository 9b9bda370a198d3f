//! JSON over HTTP: `POST /sql`, `/cal` and `/search`, `GET /`, `/healthz` and `/metrics`.
//!
//! | module | question |
//! |---|---|
//! | this one | How are connections accepted, and how does the server stop? |
//! | `endpoints` | What does each request answer? |
//! | `tokens` | Who may ask, and what do they see? |
//! | `admission` | Which query runs now, waits, or is turned away? |
//! | `rows` | How are rows sent while the query runs? |
//! | `refusal` | What does a request get that isn't answered? |
//! | `metrics` | Which figures does the server have? |
//!
//! A session that is confined to a namespace or user queries a context that contains nothing else:
//! see [`confined_context`](gristmill_queries::sql::confined_context).

mod admission;
mod endpoints;
mod metrics;
mod refusal;
mod rows;
mod tokens;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gristmill_engine::lake::Lake;
use hyper::server::conn::Http;
use hyper::service::service_fn;
use hyper::{Body, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::newest_lake::{NewestLake, SnapshotError};
use admission::Admission;
use metrics::{Gauges, Metrics};

pub use admission::QueryLimits;
pub use tokens::{Authority, Scope, TokenError, Tokens, new_token};

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Who may ask; `None` lets every process of this machine read the whole lake.
    pub tokens: Option<Tokens>,
    /// Whether tokens with the scope `append`, or everyone without tokens, may append.
    pub allow_writes: bool,
    /// Limits of queries.
    pub limits: QueryLimits,
    /// An answer with more rows is recorded in the audit log.
    pub audit_rows: u64,
}

/// Time that running answers have after a request to stop.
const STOP_TIME: Duration = Duration::from_secs(30);

/// Time in which a client must send the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// State of a running server.
struct Server {
    lake: NewestLake,
    /// Handle for the audit log.
    audited: Mutex<Lake>,
    options: HttpOptions,
    admission: Admission,
    metrics: Metrics,
}

/// Serves `lake` on `listener` until `stop` is ready; running answers are finished then, for at
/// most half a minute.
///
/// # Errors
/// [`SnapshotError`] if the lake can't be read at the start. Later failures are answers.
pub async fn serve(
    listener: TcpListener,
    lake: NewestLake,
    options: HttpOptions,
    stop: impl Future<Output = ()>,
) -> Result<(), SnapshotError> {
    let audited = lake.snapshot().await?.lake.clone();
    let server = Arc::new(Server {
        admission: Admission::new(options.limits.clone()),
        metrics: Metrics::default(),
        audited: Mutex::new(audited),
        lake,
        options,
    });
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let served = connection(Arc::clone(&server), stream, stopped.clone());
                    connections.spawn(served);
                }
                Err(error) => {
                    // For example too many open files: others may end meanwhile.
                    tracing::warn!(%error, "can't accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    let _ = stopping.send(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_TIME, ended).await.is_err() {
        tracing::warn!("some answers weren't finished in time; their connections are closed");
    }
    Ok(())
}

async fn connection(server: Arc<Server>, stream: TcpStream, mut stopped: watch::Receiver<bool>) {
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(answered(server, request).await) }
    });
    let connection = Http::new()
        .http1_only(true)
        .http1_header_read_timeout(HEAD_TIME)
        .serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection");
    }
}

/// Answers a request and counts it.
async fn answered(server: Arc<Server>, request: Request<Body>) -> Response<Body> {
    let started = Instant::now();
    let endpoint = endpoints::name_of(request.uri().path());
    let response = match endpoints::answer(Arc::clone(&server), request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    };
    let status = response.status().as_u16();
    server
        .metrics
        .count_request(endpoint, status, started.elapsed());
    response
}

impl Server {
    async fn figures(&self) -> Result<String, SnapshotError> {
        let snapshot = self.lake.snapshot().await?;
        Ok(self.metrics.render(&Gauges {
            running: self.admission.running(),
            waiting: self.admission.waiting(),
            lake_version: snapshot.lake.grains.version(),
        }))
    }

    /// Counts the rows of a whole answer, and records many of them in the audit log.
    async fn count_rows(&self, rows: u64, (token, query): &(String, String)) {
        self.metrics.add_rows(rows);
        if rows <= self.options.audit_rows {
            return;
        }
        let details = serde_json::json!({ "token": token, "query_sha256": query, "rows": rows });
        let mut lake = self.audited.lock().await;
        if let Err(error) = lake.record("bulk_read", details).await {
            tracing::error!(%error, token, rows, "a bulk read can't be recorded in the audit log");
        }
    }
}

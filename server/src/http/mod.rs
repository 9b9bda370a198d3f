//! JSON over HTTP: `POST /sql`, `/cal` and `/search`, `GET /`, `/healthz` and `/metrics`.
//!
//! | module | question |
//! |---|---|
//! | this one | What do the listeners of a lake share, and how does HTTP begin and end? |
//! | `endpoints` | What does each request answer? |
//! | `in_process` | How are statements of the same process answered? |
//! | `tokens` | Who may query, and what do they see? |
//! | `admission` | Which query runs now, waits, or is refused? |
//! | `query_workers` | On which threads do queries run? |
//! | `limited_rows` | When does a running query end? |
//! | `audited_query` | What does an entry in the audit log contain of a query and its client? |
//! | `bulk_reads` | How are answers with many rows recorded in the audit log? |
//! | `rows` | How are rows sent while the query runs? |
//! | `refusal` | What does a request get that isn't answered? |
//! | `request_head` | How large may the head of a request be, and which host does it name? |
//! | `report_page` | Which page does a browser get? |
//! | `metrics` | Which figures does the server have? |
//!
//! A session that is confined to a namespace or user queries a context that contains nothing else:
//! see [`confined_context`](gristmill_queries::sql::confined_context).

mod admission;
mod audited_query;
mod bulk_reads;
mod endpoints;
mod in_process;
mod limited_rows;
mod metrics;
mod query_workers;
mod refusal;
mod report_page;
mod request_head;
mod rows;
mod tokens;

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use gristmill_queries::exec::WriteQuotas;
use gristmill_queries::sql::{DataFusionError, SessionContext, SharedMemory};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connections::{HEAD_TIME, TimedStream, serve_connections, timed_stream, until_ended};
use crate::newest_lake::{NewestLake, SnapshotError};
use crate::tls::Tls;
use admission::Admission;
use audited_query::AuditedQuery;
use bulk_reads::{BulkReads, PendingEntry};
use metrics::{Gauges, Metrics};
use query_workers::QueryWorkers;
use refusal::Body;
use report_page::ReportPages;

pub use admission::QueryLimits;
pub use audited_query::AuditKey;
pub use in_process::{AnswerError, AnsweredRows};
pub use tokens::{Authority, Scope, TokenError, Tokens, new_token};
#[cfg(feature = "flight")]
pub(crate) use {
    endpoints::{BODY_TIME, cal_response},
    limited_rows::RowQueue,
    tokens::token_of_header,
};
#[cfg(any(feature = "flight", feature = "postgres"))]
pub(crate) use {
    endpoints::{MAX_BODY, sql_context},
    limited_rows::LimitedRows,
    refusal::Refusal,
};

/// Bytes that a connection buffers, and of the head of a request at most: a client without a token
/// can have the server hold no more than twice as many.
const BUFFER_BYTES: usize = 64 << 10;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Who may query; with `None` every process of this machine may read the whole lake.
    pub tokens: Option<Tokens>,
    /// Whether tokens with the scope `append`, or everyone without tokens, may append.
    pub allow_writes: bool,
    /// Limits of queries.
    pub limits: QueryLimits,
    /// An answer with more rows is recorded in the audit log.
    pub audit_rows: u64,
    /// Key of the digests of queries there; with `None` the entries have none.
    pub audit_key: Option<AuditKey>,
}

/// Reason why a server can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The lake can't be read.
    #[error(transparent)]
    Lake(#[from] SnapshotError),
    /// The threads of queries can't be started.
    #[error("can't start threads: {0}")]
    Threads(#[source] std::io::Error),
}

/// A lake with what its listeners share: tokens, limits, slots of queries and figures.
pub struct Server {
    lake: NewestLake,
    bulk_reads: Arc<BulkReads>,
    pub(crate) options: HttpOptions,
    pub(crate) admission: Admission,
    memory: SharedMemory,
    workers: QueryWorkers,
    metrics: Metrics,
    pages: ReportPages,
    /// The quotas of tokens that have written, by their names.
    write_quotas: std::sync::Mutex<HashMap<String, WriteQuotas>>,
    /// Answers that are being sent and will be recorded in the audit log.
    entries: std::sync::Mutex<JoinSet<()>>,
}

/// Answers HTTP on `listener` until `stop` is ready, only HTTPS with a certificate; running answers
/// are finished then, for at most half a minute. Other listeners may share the server.
pub async fn listen(
    server: Arc<Server>,
    listener: TcpListener,
    tls: Option<Tls>,
    stop: impl Future<Output = ()>,
) {
    let tls = tls.map(|tls| tls.acceptor(&[b"http/1.1"]));
    serve_connections(listener, stop, |stream, stopped| {
        let (server, tls) = (Arc::clone(&server), tls.clone());
        async move {
            let query_time = server.options.limits.time;
            if let Some(stream) = timed_stream(stream, tls, query_time).await {
                connection(server, stream, stopped).await;
            }
        }
    })
    .await;
    // The tasks that send rows end with their connections.
    let idle = tokio::time::timeout(HEAD_TIME, server.admission.idle());
    if idle.await.is_err() {
        tracing::warn!("the rows of some answers aren't in the audit log");
    }
    server.finish_entries().await;
}

/// Answers the requests of a connection until it ends, is idle or stops to read.
async fn connection(
    server: Arc<Server>,
    stream: Pin<Box<TimedStream>>,
    stopped: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(answered(server, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    until_ended(connection, stopped, |connection| {
        connection.graceful_shutdown();
    })
    .await;
}

/// Answers a request and counts it.
async fn answered(server: Arc<Server>, request: Request<Incoming>) -> Response<Body> {
    let started = Instant::now();
    let endpoint = endpoints::name_of(request.uri().path());
    let response = match endpoints::answer(Arc::clone(&server), request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    };
    let status = response.status().as_u16();
    server.count_request(endpoint, status, started.elapsed());
    response
}

impl Server {
    /// Returns a server of `lake`, for [`listen`].
    ///
    /// # Errors
    /// [`StartError`] if the lake can't be read, or threads can't be started.
    pub async fn new(lake: NewestLake, options: HttpOptions) -> Result<Arc<Server>, StartError> {
        let snapshot = lake.snapshot().await?;
        let concurrent = options.limits.concurrent;
        let workers = QueryWorkers::start(concurrent);
        Ok(Arc::new(Server {
            workers: workers.map_err(StartError::Threads)?,
            admission: Admission::new(options.limits.clone()),
            metrics: Metrics::default(),
            pages: ReportPages::default(),
            write_quotas: std::sync::Mutex::default(),
            entries: std::sync::Mutex::default(),
            memory: SharedMemory::of(&snapshot.context, concurrent),
            bulk_reads: Arc::new(BulkReads::of(snapshot.lake.clone())),
            lake,
            options,
        }))
    }

    /// Returns a session for one query with the tables of `context`, within the limits of a query
    /// and of the server.
    fn session_of(&self, context: &SessionContext) -> Result<SessionContext, DataFusionError> {
        self.memory.session(context, self.options.limits.memory)
    }

    /// Returns the write quotas of a token, which all its requests share: a request is no session,
    /// and a quota for each would limit nothing.
    fn write_quotas_of(&self, authority: &Authority) -> WriteQuotas {
        let quotas = self.write_quotas.lock();
        let mut quotas = quotas.unwrap_or_else(PoisonError::into_inner);
        quotas.entry(authority.name.clone()).or_default().clone()
    }

    /// Counts an answer of `endpoint`; `duration` is the time until it begins.
    pub(crate) fn count_request(&self, endpoint: &'static str, status: u16, duration: Duration) {
        self.metrics.count_request(endpoint, status, duration);
    }

    async fn figures(&self) -> Result<String, SnapshotError> {
        let snapshot = self.lake.snapshot().await?;
        Ok(self.metrics.render(&Gauges {
            running: self.admission.running(),
            waiting: self.admission.waiting(),
            lake_version: snapshot.lake.grains.version(),
        }))
    }

    /// Returns the authority of a token, which must include `scope`. Without tokens, everyone has
    /// that of a process of this machine.
    ///
    /// # Errors
    /// `TOKEN` if it isn't known or has expired, `SCOPE` if it may not do this.
    pub(crate) fn authority_of(
        &self,
        token: Option<&str>,
        scope: Scope,
    ) -> refusal::Result<Authority> {
        let Some(tokens) = &self.options.tokens else {
            return Ok(Authority::local());
        };
        tokens.permitted(token, scope)
    }

    /// Returns true if the token of a session that has begun is still valid.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_current(&self, authority: &Authority) -> bool {
        let tokens = self.options.tokens.as_ref();
        tokens.is_none_or(|tokens| tokens.is_current(authority))
    }

    /// Returns what the audit log will have of a query and its client.
    pub(crate) fn audited(&self, authority: &Authority, query: &str) -> AuditedQuery {
        AuditedQuery::new(authority, query, self.options.audit_key.as_ref())
    }

    /// Counts the rows of an answer. If they are many, waits until the audit log has an entry.
    async fn record_rows(&self, rows: u64, audited: &AuditedQuery) {
        if let Some(entry) = self.count_rows(rows, audited) {
            entry.written().await;
        }
    }

    /// Counts the rows of an answer. If they are many, returns the entry in the audit log, which is
    /// written whether anybody waits for it or not.
    fn count_rows(&self, rows: u64, audited: &AuditedQuery) -> Option<PendingEntry> {
        self.metrics.add_rows(rows);
        (rows > self.options.audit_rows).then(|| self.bulk_reads.add(audited.entry(rows)))
    }

    /// Starts `work`, which sends an answer and records it in the audit log.
    fn spawn_recorded(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        while entries.try_join_next().is_some() {}
        entries.spawn(work);
    }

    /// Waits for the entries in the audit log that are being written. The connections have ended:
    /// their answers are sent no further.
    pub(crate) async fn finish_entries(&self) {
        let mut entries = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *entries)
        };
        // One that has panicked doesn't keep the server from its end.
        while entries.join_next().await.is_some() {}
        self.bulk_reads.finish().await;
    }
}

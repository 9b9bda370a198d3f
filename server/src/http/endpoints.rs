//! The requests: authority, body, limits, answer.

use std::sync::Arc;
use std::time::Duration;

use gristmill_queries::cal::json::value_from_json;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::{ExecutionError, Executor, LakeWriter, Session, current_millis};
use gristmill_queries::sql::{
    Confinement, CountedRows, ParamValues, SessionContext, parameters_from_json, query,
};
use gristmill_schemas::json::Json;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::Server;
use super::admission::too_long;
use super::limited_rows::LimitedRows;
use super::refusal::{Body, Refusal, Result, json_response, response, text_response};
use super::report_page::report_page;
use super::request_head::{check_head, check_host};
use super::rows::{RowBody, RowFormat};
use super::tokens::{Authority, Scope, bearer_token, token_of_header};
use crate::mcp::arguments::SearchArguments;
use crate::newest_lake::LakeSnapshot;

/// Largest body of a request in bytes.
pub(crate) const MAX_BODY: usize = 1 << 20;

/// Time in which a client must send the body of a request.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(10);

/// Media type of an Arrow IPC stream.
const ARROW: &str = "application/vnd.apache.arrow.stream";

/// Body of `POST /sql`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SqlRequest {
    query: String,
    /// Their numbers are read as they are written.
    parameters: Option<Box<RawValue>>,
}

/// Body of `POST /cal`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CalRequest {
    statement: String,
    /// Their numbers are read as they are written.
    parameters: Option<Box<RawValue>>,
}

/// Time in which a check of the server's health has its answer.
const HEALTH_TIME: Duration = Duration::from_secs(10);

/// Time beyond that of a query in which work with a limit of its own, such as an executor of CAL,
/// reports what took too long.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// Returns the name under which requests to `path` are counted.
pub(super) fn name_of(path: &str) -> &'static str {
    ["/", "/cal", "/healthz", "/metrics", "/search", "/sql"]
        .into_iter()
        .find(|known| *known == path)
        .unwrap_or("other")
}

/// Answers a request.
pub(super) async fn answer(
    server: Arc<Server>,
    request: Request<Incoming>,
) -> Result<Response<Body>> {
    check_head(&request)?;
    let path = name_of(request.uri().path());
    match (request.method(), path) {
        (&Method::GET | &Method::HEAD, "/healthz") => {
            let version = health(&server).await?.lake.grains.version();
            // Without a token, nothing of the lake is shown, such as how often it changes.
            let is_known = server.options.tokens.is_none() && check_host(&request).is_ok();
            let health = match is_known {
                true => json!({ "status": "ok", "lake_version": version }),
                false => json!({ "status": "ok" }),
            };
            Ok(json_response(StatusCode::OK, &health))
        }
        (&Method::GET | &Method::HEAD, "/metrics") => {
            authority(&server, &request, Scope::Govern)?;
            let text = server.figures().await?;
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            Ok(text_response(StatusCode::OK, kind, text))
        }
        (&Method::GET | &Method::HEAD, "/") => {
            let authority = authority_of_browser(&server, &request);
            match authority {
                Ok(authority) => report_page(&server, &authority).await,
                Err(refusal) => Ok(refusal.into_browser_response()),
            }
        }
        (&Method::POST, "/sql") => sql(server, request).await,
        (&Method::POST, "/cal") => {
            let authority = authority(&server, &request, Scope::Read)?;
            let asked: CalRequest = body(request).await?;
            let bindings = bindings(&json_of(asked.parameters.as_deref())?)?;
            cal(&server, &authority, &asked.statement, &bindings).await
        }
        (&Method::POST, "/search") => {
            let authority = authority(&server, &request, Scope::Read)?;
            let asked: SearchArguments = body(request).await?;
            let call = asked.into_call().map_err(ExecutionError::from)?;
            cal(&server, &authority, &call.statement, &Bindings::new()).await
        }
        (_, "other") => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
            "there is nothing here",
            "POST /sql, /cal or /search; GET /, /healthz or /metrics.",
        )),
        (_, path) => Ok(wrong_method(path)),
    }
}

/// Returns the newest version of the lake, if it can be read soon.
async fn health(server: &Server) -> Result<Arc<LakeSnapshot>> {
    let snapshot = tokio::time::timeout(HEALTH_TIME, server.lake.snapshot()).await;
    snapshot
        .map_err(|_| {
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "LAKE",
                "the lake isn't read in time",
                "Check the storage of the lake.",
            )
        })?
        .map_err(Refusal::from)
}

/// Returns the response to a request for `path` with a method that it doesn't have.
fn wrong_method(path: &str) -> Response<Body> {
    let allowed = match path {
        "/cal" | "/search" | "/sql" => "POST",
        _ => "GET, HEAD",
    };
    let refusal = Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "METHOD",
        "wrong method",
        "POST /sql, /cal and /search; GET the others.",
    );
    let mut response = refusal.into_response();
    let allowed = header::HeaderValue::from_static(allowed);
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

/// Returns the authority of a request, which must include `scope`.
fn authority(server: &Server, request: &Request<Incoming>, scope: Scope) -> Result<Authority> {
    if server.options.tokens.is_none() {
        check_host(request)?;
    }
    server.authority_of(authorization(request).and_then(bearer_token), scope)
}

/// Returns the authority of a request for a page, whose token may also be a password. Browsers add
/// a password to requests of other pages, too, so no other endpoint accepts it.
fn authority_of_browser(server: &Server, request: &Request<Incoming>) -> Result<Authority> {
    if server.options.tokens.is_none() {
        check_host(request)?;
    }
    let token = authorization(request).and_then(token_of_header);
    server.authority_of(token.as_deref(), Scope::Read)
}

fn authorization(request: &Request<Incoming>) -> Option<&str> {
    request.headers().get(header::AUTHORIZATION)?.to_str().ok()
}

/// Reads and parses the body of a request.
async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T> {
    check_is_json(&request)?;
    let received = tokio::time::timeout(BODY_TIME, received(request.into_body()));
    let bytes = received.await.unwrap_or_else(|_| {
        Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "BODY_TIME",
            format!("the body didn't arrive within {} s", BODY_TIME.as_secs()),
            "Send the whole body at once.",
        ))
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Refusal::bad_request(format!("the body: {error}")))
}

/// Refuses a request whose body isn't declared as JSON.
fn check_is_json(request: &Request<Incoming>) -> Result<()> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim();
    // Browsers send a preflight request before a page may send this kind to another origin.
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "CONTENT_TYPE",
            "the body isn't declared as JSON",
            "Send `Content-Type: application/json`.",
        ));
    }
    Ok(())
}

/// Receives a body.
async fn received(mut body: Incoming) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::bad_request(format!("the body: {error}")))?;
        let Ok(part) = frame.into_data() else {
            continue;
        };
        if bytes.len() + part.len() > MAX_BODY {
            return Err(Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "BODY",
                format!("the body has more than {MAX_BODY} bytes"),
                "Pass values as parameters, or ask in parts.",
            ));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

/// Answers `POST /sql`.
async fn sql(server: Arc<Server>, request: Request<Incoming>) -> Result<Response<Body>> {
    let authority = authority(&server, &request, Scope::Read)?;
    let accepted = request.headers().get(header::ACCEPT);
    let (format, kind) = match accepted.and_then(|value| value.to_str().ok()) {
        Some(kinds) if kinds.contains(ARROW) => (RowFormat::Arrow, ARROW),
        _ => (RowFormat::JsonLines, "application/x-ndjson"),
    };
    let asked: SqlRequest = body(request).await?;
    let parameters = parameters_from_json(&json_of(asked.parameters.as_deref())?)?;
    let deadline = server.admission.deadline();
    let rows = started(&server, &authority, &asked.query, parameters, deadline).await?;
    let rows = timeout_at(deadline, RowBody::start(rows, format))
        .await
        .map_err(|_| too_long(server.options.limits.time))??;
    Ok(response(StatusCode::OK, kind, rows.into_body()))
}

/// Starts a query within the server's limits.
pub(super) async fn started(
    server: &Arc<Server>,
    authority: &Authority,
    text: &str,
    parameters: ParamValues,
    deadline: Instant,
) -> Result<LimitedRows> {
    let permit = server.admission.admit(deadline).await?;
    let audited = server.audited(authority, text);
    let planned = {
        let (server, authority) = (Arc::clone(server), authority.clone());
        let text = text.to_owned();
        async move {
            let context = sql_context(&server, &authority).await?;
            let query = query(&context, &text, parameters).await?;
            Ok::<_, Refusal>((CountedRows::of(&query).await?, permit))
        }
    };
    let (rows, permit) = server.run_query(deadline, planned).await??;
    let server = Arc::clone(server);
    Ok(LimitedRows::new(server, rows, audited, permit, deadline))
}

/// Returns the context of SQL for an authority, with the memory limit of one query.
pub(crate) async fn sql_context(server: &Server, authority: &Authority) -> Result<SessionContext> {
    let snapshot = server.lake.snapshot().await?;
    let context = snapshot.confined(&authority.confinement).await?;
    Ok(server.session_of(&context)?)
}

/// Runs a CAL statement and answers with its response.
async fn cal(
    server: &Arc<Server>,
    authority: &Authority,
    statement: &str,
    bindings: &Bindings,
) -> Result<Response<Body>> {
    let text = cal_response(server, authority, statement, bindings).await?;
    let text = format!("{text}\n");
    Ok(text_response(StatusCode::OK, "application/json", text))
}

/// Runs a CAL statement within the server's limits and returns its response as JSON.
pub(crate) async fn cal_response(
    server: &Arc<Server>,
    authority: &Authority,
    statement: &str,
    bindings: &Bindings,
) -> Result<String> {
    let deadline = server.admission.deadline();
    let permit = server.admission.admit(deadline).await?;
    let writes = server.options.allow_writes && authority.scopes.contains(&Scope::Append);
    let (server_of_work, authority) = (Arc::clone(server), authority.clone());
    let (statement, bindings) = (statement.to_owned(), bindings.clone());
    let audited = server.audited(&authority, &statement);
    let work = async move {
        let server = server_of_work;
        let snapshot = match writes {
            true => server.lake.latest_snapshot().await?,
            false => server.lake.snapshot().await?,
        };
        let executor = executor(&server, &authority, &snapshot, writes, deadline).await?;
        let response = executor
            .run_text(statement.as_bytes(), &bindings, Options::default())
            .await?;
        // The log may be busy.
        drop(permit);
        server
            .record_rows(response.answer.returned(), &audited)
            .await;
        Ok::<_, Refusal>(response.to_json().to_string())
    };
    // The executor has its own limit, which names what took the time.
    server.run_query(deadline + GRACE, work).await?
}

/// Returns an executor for an authority. A namespace is confined by the session, which can use the
/// search indexes; a user by the context.
async fn executor(
    server: &Server,
    authority: &Authority,
    snapshot: &LakeSnapshot,
    writes: bool,
    deadline: Instant,
) -> Result<Executor> {
    let context = match authority.confinement.user {
        Some(_) => snapshot.confined(&authority.confinement).await?,
        None => snapshot.context.clone(),
    };
    let context = server.session_of(&context)?;
    let executor = Executor::new(context, cal_session(authority, writes, deadline));
    Ok(match writes {
        true => executor
            .with_writer(Arc::new(LakeWriter::new(snapshot.lake.clone())))
            .with_quotas(server.write_quotas_of(authority)),
        false => executor,
    })
}

/// Returns the session of CAL for an authority, whose queries end at `deadline`.
fn cal_session(authority: &Authority, writes: bool, deadline: Instant) -> Session {
    let Confinement { namespace, user } = &authority.confinement;
    let left = deadline.saturating_duration_since(Instant::now());
    Session {
        namespace: namespace.clone(),
        user: user.clone(),
        writes,
        hides_causes: !authority.confinement.is_whole_lake(),
        query_timeout: left,
        assemble_timeout: left,
        ..Session::at(current_millis())
    }
}

/// Parses parameters; there are none without a value.
fn json_of(parameters: Option<&RawValue>) -> Result<Json<'_>> {
    let text = parameters.map_or("null", RawValue::get);
    Json::parse(text.as_bytes())
        .map_err(|error| Refusal::bad_request(format!("the parameters: {error}")))
}

fn bindings(parameters: &Json<'_>) -> Result<Bindings> {
    let mut bindings = Bindings::new();
    let members = match parameters {
        Json::Object(members) => members,
        Json::Null => return Ok(bindings),
        _ => return Err(Refusal::bad_request("the parameters aren't an object")),
    };
    for (name, value) in members.iter() {
        let bound = value_from_json(value).and_then(|value| bindings.insert(name, value));
        bound.map_err(ExecutionError::from)?;
    }
    Ok(bindings)
}

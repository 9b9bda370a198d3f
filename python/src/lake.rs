//! A lake for Python. What reads or writes it waits without the interpreter's lock.

use std::sync::{Arc, PoisonError, RwLock};

use gristmill_connectors::source::{SourceKind, discover_all};
use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::describe::describe;
use gristmill_engine::index::vectors::embed::embedder;
use gristmill_engine::ingest::{IngestOptions, ingest};
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::Lake;
use gristmill_engine::verify::{VerifyOptions, VerifyScope, verify_lake};
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::{Executor, LakeWriter, Session, WriteQuotas};
use gristmill_queries::packs::report::{ReportFormat, ReportWriter};
use gristmill_queries::packs::{self, NAMES, Scan, ScanOptions, Since};
use gristmill_queries::sql::{
    SearchFilter, SearchMode, SearchRequest, SessionContext, SqlOptions, lake_context,
    newer_context, query, search_rows,
};
use gristmill_schemas::grain::DecodeMode;
use pyo3::prelude::*;
use serde::Serialize;
use tokio::sync::Mutex;

use crate::failure::{PythonError, Result};
use crate::findings::FindingTable;
use crate::parameters::{cal_parameters, sql_parameters};
use crate::query_result::NativeResult;
use crate::runtime::{wait, wait_with_progress};

/// An open lake at one version.
#[pyclass(frozen)]
pub struct NativeLake {
    /// The version that queries read.
    current: RwLock<OpenLake>,
    /// Locked by the operation that changes the lake: these run one after another, queries don't
    /// wait for them.
    turn: Mutex<()>,
    options: SqlOptions,
    /// Those of all statements over this handle, which are one session.
    write_quotas: WriteQuotas,
}

#[derive(Clone)]
struct OpenLake {
    lake: Lake,
    context: SessionContext,
}

/// Where a lake is, and how it is opened.
#[derive(Debug, Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct LakeLocationArguments {
    location: String,
    create: bool,
    keyring: Option<String>,
    passphrase: Option<String>,
    operator: Option<String>,
    memory: Option<usize>,
    threads: usize,
    embedder: Option<String>,
}

/// Options of an ingest.
#[derive(Debug, Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct IngestArguments {
    sources: Vec<String>,
    kind: Option<String>,
    lenient: bool,
    again: bool,
    retry_refused: bool,
    dry_run: bool,
}

/// A CAL statement with its parameters and session.
#[derive(Debug, Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct CalArguments {
    statement: String,
    /// JSON object of values by name.
    parameters: String,
    namespace: Option<String>,
    user: Option<String>,
    agent: Option<String>,
    allow_writes: bool,
    now_ms: i64,
}

impl NativeLake {
    /// Runs `work` on the open lake, and moves to the newest version afterwards. An operation that
    /// is dropped before its end leaves the version as it was.
    pub(crate) async fn change<T>(
        &self,
        work: impl AsyncFnOnce(&mut Lake) -> Result<T>,
    ) -> Result<T> {
        let _turn = self.turn.lock().await;
        let OpenLake { mut lake, context } = self.current();
        let done = work(&mut lake).await;
        // A failed operation may have committed a part.
        let refreshed = self.move_to_newest(lake, &context).await;
        let done = done?;
        refreshed?;
        Ok(done)
    }

    async fn move_to_newest(&self, mut lake: Lake, before: &SessionContext) -> Result<()> {
        lake.refresh().await?;
        let context = newer_context(&lake, &self.options, before).await?;
        let newest = OpenLake { lake, context };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = newest;
        Ok(())
    }

    fn current(&self) -> OpenLake {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn threads(&self) -> usize {
        self.options.threads
    }

    fn memory(&self) -> usize {
        self.options
            .memory
            .unwrap_or_else(|| IngestOptions::default().memory)
    }
}

impl OpenLake {
    async fn of(lake: Lake, options: &SqlOptions) -> Result<OpenLake> {
        let context = lake_context(&lake, options).await?;
        Ok(OpenLake { lake, context })
    }
}

#[pymethods]
impl NativeLake {
    #[new]
    fn open(py: Python<'_>, arguments: LakeLocationArguments) -> PyResult<NativeLake> {
        wait(py, || opened(arguments))
    }

    /// Returns the location.
    fn location(&self) -> String {
        self.current().lake.location().name()
    }

    /// Returns the version of the table `grains`.
    fn version(&self) -> u64 {
        self.current().lake.grains.version()
    }

    /// Moves to the newest version.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, || self.change(async |_: &mut Lake| Ok(())))
    }

    /// Ingests sources; returns the report as JSON.
    #[pyo3(signature = (arguments, progress=None))]
    fn ingest(
        &self,
        py: Python<'_>,
        arguments: IngestArguments,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let options = self.ingest_options(&arguments)?;
        wait_with_progress(py, progress.as_ref(), |tracked| async move {
            let sources = discover_all(&arguments.sources).await?;
            let work =
                async |lake: &mut Lake| to_json(&ingest(lake, sources, &options, tracked).await?);
            self.change(work).await
        })
    }

    /// Plans a query.
    fn sql(&self, py: Python<'_>, text: String, parameters: &str) -> PyResult<NativeResult> {
        let parameters = sql_parameters(parameters)?;
        wait(py, || async move {
            let OpenLake { context, .. } = self.current();
            Ok(NativeResult::new(query(&context, &text, parameters).await?))
        })
    }

    /// Runs a CAL statement; returns the response as JSON.
    fn cal(&self, py: Python<'_>, arguments: CalArguments) -> PyResult<String> {
        let bindings = cal_parameters(&arguments.parameters)?;
        wait(py, || self.run_cal(arguments, bindings))
    }

    /// Searches; `mode` is `text`, `vector` or `hybrid`.
    fn search(
        &self,
        py: Python<'_>,
        text: String,
        limit: usize,
        mode: &str,
    ) -> PyResult<NativeResult> {
        let mode = match mode {
            "text" => SearchMode::Text,
            "vector" => SearchMode::Vector,
            "hybrid" => SearchMode::Hybrid,
            other => {
                let message =
                    format!("there is no search mode `{other}`; use text, vector or hybrid");
                return Err(PythonError::usage(message).into());
            }
        };
        wait(py, || async move {
            let OpenLake { context, .. } = self.current();
            let request = SearchRequest {
                text: &text,
                limit,
                mode,
                filter: &SearchFilter::default(),
            };
            let frame = search_rows(&context, SEARCH_COLUMNS, request).await?;
            Ok(NativeResult::new(frame))
        })
    }

    /// Runs compliance packs; returns the findings and the summary as JSON.
    #[pyo3(signature = (packs, since=None))]
    fn scan(
        &self,
        py: Python<'_>,
        packs: Vec<String>,
        since: Option<u64>,
    ) -> PyResult<(NativeResult, String)> {
        wait(py, || async {
            let scan = self.prepared_scan(&packs, since).await?;
            let mut table = FindingTable::default();
            let summary = scan
                .run(|rule, finding| {
                    table.add(rule, finding);
                    Ok(())
                })
                .await?;
            let frame = self.current().context.read_batch(table.finish()?)?;
            Ok((NativeResult::new(frame), to_json(&summary)?))
        })
    }

    /// Runs compliance packs and returns the report as a file's content: `html`, `sarif`, `json` or
    /// `jsonl`.
    #[pyo3(signature = (packs, since, form))]
    fn scan_report(
        &self,
        py: Python<'_>,
        packs: Vec<String>,
        since: Option<u64>,
        form: &str,
    ) -> PyResult<Vec<u8>> {
        let form = match form {
            "html" => ReportFormat::Html,
            "sarif" => ReportFormat::Sarif,
            "json" => ReportFormat::Json,
            _ => ReportFormat::Jsonl,
        };
        wait(py, || async {
            let scan = self.prepared_scan(&packs, since).await?;
            let mut out = Vec::new();
            let mut report = ReportWriter::begin(&mut out, form, &scan)?;
            let summary = scan
                .run(|rule, finding| report.finding(rule, finding))
                .await?;
            report.add_contexts(&scan).await?;
            report.finish(&scan, &summary)?;
            Ok(out)
        })
    }

    /// Verifies the lake; returns the report as JSON.
    #[pyo3(signature = (sidecars, progress=None))]
    fn verify(
        &self,
        py: Python<'_>,
        sidecars: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let options = VerifyOptions {
            threads: self.threads(),
            memory: self.memory(),
            sidecars,
            ..VerifyOptions::default()
        };
        wait_with_progress(py, progress.as_ref(), |tracked| async move {
            // An erasure meanwhile removes files, which would look like damage.
            let _turn = self.turn.lock().await;
            let OpenLake { lake, .. } = self.current();
            let whole = VerifyScope::default();
            to_json(&verify_lake(&lake, whole, &options, tracked).await?)
        })
    }

    /// Applies operations, one JSON object per line; returns the outcomes as a JSON array.
    fn apply(&self, py: Python<'_>, operations: String) -> PyResult<String> {
        wait(py, || async move {
            let work = async |lake: &mut Lake| {
                let mut outcomes = Vec::new();
                let options = ApplyOptions::default();
                let mut lines = operations.as_bytes();
                apply(lake, &mut lines, &options, &mut |outcome| {
                    outcomes.push(serde_json::to_value(outcome));
                    Ok(())
                })
                .await?;
                let outcomes: std::result::Result<Vec<_>, _> = outcomes.into_iter().collect();
                to_json(&outcomes.map_err(|error| PythonError::json("the outcome", &error))?)
            };
            self.change(work).await
        })
    }

    /// Describes the lake as JSON.
    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        wait(py, || async {
            let OpenLake { lake, .. } = self.current();
            to_json(&describe(&lake).await?)
        })
    }
}

/// Columns of a search.
const SEARCH_COLUMNS: &str = "score, type, snippet, matched_fields, content_address, subject, \
                              relation, object, content, namespace, user_id, created_at";

impl NativeLake {
    fn ingest_options(&self, arguments: &IngestArguments) -> Result<IngestOptions> {
        let kind = arguments.kind.as_deref().map(|name| {
            SourceKind::from_name(name).ok_or_else(|| {
                let names: Vec<&str> = SourceKind::all().map(SourceKind::name).collect();
                let names = names.join(", ");
                PythonError::usage(format!("there is no kind `{name}`; use one of {names}"))
            })
        });
        Ok(IngestOptions {
            kind: kind.transpose()?,
            mode: match arguments.lenient {
                true => DecodeMode::Lenient,
                false => DecodeMode::StrictAliased,
            },
            again: arguments.again,
            retry_refused: arguments.retry_refused,
            dry_run: arguments.dry_run,
            threads: self.threads(),
            memory: self.memory(),
            ..IngestOptions::default()
        })
    }

    async fn run_cal(&self, arguments: CalArguments, bindings: Bindings) -> Result<String> {
        let session = Session {
            namespace: arguments.namespace,
            user: arguments.user,
            agent: arguments.agent,
            writes: arguments.allow_writes,
            ..Session::at(arguments.now_ms)
        };
        let statement = arguments.statement.as_bytes();
        if !arguments.allow_writes {
            let executor = Executor::new(self.current().context, session);
            let response = executor
                .run_text(statement, &bindings, Options::default())
                .await?;
            return Ok(response.to_json().to_string());
        }
        let work = async |lake: &mut Lake| {
            let OpenLake { context, .. } = self.current();
            let writer = Arc::new(LakeWriter::new(lake.clone()));
            let executor = Executor::new(context, session)
                .with_writer(writer)
                .with_quotas(self.write_quotas.clone());
            let response = executor
                .run_text(statement, &bindings, Options::default())
                .await?;
            Ok(response.to_json().to_string())
        };
        self.change(work).await
    }

    async fn prepared_scan(&self, names: &[String], since: Option<u64>) -> Result<Scan> {
        let named: Vec<&str> = names.iter().map(String::as_str).collect();
        let names: &[&str] = if named.is_empty() { NAMES } else { &named };
        let packs: std::result::Result<Vec<_>, _> =
            names.iter().map(|name| packs::find(name)).collect();
        let options = ScanOptions {
            sql: self.options.clone(),
            since: since.map_or(Since::Beginning, Since::Version),
        };
        let OpenLake { lake, .. } = self.current();
        Ok(Scan::prepare(&lake, packs?, &options).await?)
    }
}

/// What is wrong with a keyring for a lake without encryption.
const NOT_ENCRYPTED: &str = "isn't encrypted, so what is added would be stored in the clear: leave \
                             out `keyring`, or encrypt the lake with `gristmill keys encrypt`";

/// Opens the lake, or creates it: encrypted, if there is a keyring.
async fn opened(arguments: LakeLocationArguments) -> Result<NativeLake> {
    let location = &arguments.location;
    // Before the lake: with a wrong passphrase none is created.
    let passphrase = arguments.passphrase.as_deref();
    let keyring = arguments.keyring.as_deref();
    let keyring = keyring.map(|path| open_keyring(path, passphrase));
    let keys = keyring.transpose()?.map(FileKeys::next_to).transpose()?;
    let (lake, is_new) = match (arguments.create, &keys) {
        (false, _) => (Lake::open(location).await?, false),
        (true, None) => (Lake::open_or_create(location).await?, false),
        (true, Some(_)) => match Lake::open_if_exists(location).await? {
            Some(lake) => (lake, false),
            None => (Lake::open_or_create(location).await?, true),
        },
    };
    let mut lake = match &arguments.operator {
        Some(name) => lake.with_operator(name),
        None => lake,
    };
    match keys {
        None => {}
        Some(keys) if is_new => lake.enable_encryption(Box::new(keys)).await?,
        Some(keys) if lake.is_encrypted() => lake.unlock(Box::new(keys))?,
        Some(_) => return Err(PythonError::usage(format!("`{location}` {NOT_ENCRYPTED}"))),
    }
    let named = arguments.embedder.as_deref().unwrap_or("static");
    let embedder = embedder(named).map_err(|error| PythonError::usage(error.to_string()))?;
    let options = SqlOptions {
        threads: arguments.threads,
        memory: Some(
            arguments
                .memory
                .unwrap_or_else(|| IngestOptions::default().memory),
        ),
        embedder: Some(embedder),
        ..SqlOptions::default()
    };
    Ok(NativeLake {
        current: RwLock::new(OpenLake::of(lake, &options).await?),
        turn: Mutex::new(()),
        options,
        write_quotas: WriteQuotas::default(),
    })
}

/// Opens a keyring, which must exist.
pub(crate) fn open_keyring(path: &str, passphrase: Option<&str>) -> Result<Keyring> {
    let passphrase = passphrase.ok_or_else(|| {
        PythonError::usage(format!(
            "the keyring `{path}` needs its passphrase: pass `passphrase`"
        ))
    })?;
    Ok(Keyring::open(path.as_ref(), passphrase)?)
}

pub(crate) fn to_json(report: &impl Serialize) -> Result<String> {
    serde_json::to_string(report).map_err(|error| PythonError::json("the report", &error))
}

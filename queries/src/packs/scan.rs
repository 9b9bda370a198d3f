//! Runs all rules of the selected packs over a lake, or over what was added to it.
//!
//! Three passes run one after another, each on all cores: conditions on grains (one pass for all
//! rules), policies on message views (one pass for all rules), queries (one each). Findings are
//! streamed to the caller through a bounded channel, so memory doesn't grow with the lake or the
//! number of findings.
//!
//! **Incremental scans** read the segments that were added since a version. Conditions and policies
//! see only their rows; queries see them as the table `scanned`, next to the whole lake. The audit
//! log records the version and the rules of each scan.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::{DataFrame, JoinType, SessionContext, col};
use futures::StreamExt;
use gristmill_engine::error::EngineError;
use gristmill_engine::lake::Lake;
use gristmill_schemas::columns::{IdentityColumn, grains_schema};
use serde::Serialize;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinSet;

use super::error::{PackError, Result};
use super::finding::{Finding, RuleCount};
use super::pack::{Check, Pack, Rule};
use super::rego_policies::{PolicyOutcome, RegoPolicies};
use super::row_rules::{self, RowRules};
use crate::exec::plan_rule;
use crate::sql::{
    DataFusionError, LAKE_STORE, LakeTable, SqlOptions, lake_context, plan_query, user_message,
};

/// Table of the grains in scope of a scan.
pub(super) const SCANNED: &str = "scanned";

/// Name of the action in the audit log.
const ACTION: &str = "scan";

/// Capacity of the channel of findings, in batches.
const CHANNEL_CAPACITY: usize = 16;

/// Starting point of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Since {
    /// All grains.
    #[default]
    Beginning,
    /// Grains added after this version of `grains`.
    Version(u64),
    /// Grains added after the last scan with the same rules; all grains if there was none.
    Last,
}

/// Options of a scan.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// Threads, memory and other settings of the SQL session.
    pub sql: SqlOptions,
    /// Starting point of a scan.
    pub since: Since,
}

/// Scope of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScanScope {
    /// Name of the lake.
    pub lake: String,
    /// Version of `grains`.
    pub version: u64,
    /// Version after which grains were added; `None` for all.
    pub since: Option<u64>,
    /// Number of segments.
    pub segments: usize,
    /// Number of grains.
    pub grains: u64,
}

/// Result of a scan.
#[derive(Debug, Clone, Serialize)]
pub struct ScanSummary {
    /// Scope of the scan.
    #[serde(flatten)]
    pub scope: ScanScope,
    /// The packs with version and digest.
    pub packs: BTreeMap<String, String>,
    /// Number of message views on which policies were evaluated.
    pub views: u64,
    /// Total number of findings.
    pub findings: u64,
    /// Findings by severity.
    pub findings_by_severity: BTreeMap<&'static str, u64>,
    /// Number of views on which a policy failed.
    pub failures: u64,
    /// Results by rule id.
    pub rules: BTreeMap<String, RuleCount>,
    /// Wall-clock time in seconds.
    pub seconds: f64,
    /// Throughput in grains per second.
    pub grains_per_second: f64,
}

/// A scan, compiled and ready to run.
pub struct Scan {
    context: SessionContext,
    packs: Vec<Pack>,
    rules: Vec<Rule>,
    rows: Option<Arc<RowRules>>,
    policies: Option<Arc<RegoPolicies>>,
    queries: Vec<RuleQuery>,
    scope: ScanScope,
}

/// A planned query of a rule.
struct RuleQuery {
    rule: usize,
    frame: DataFrame,
}

/// Results of one batch.
#[derive(Default)]
struct BatchResult {
    findings: Vec<Finding>,
    failures: Vec<(usize, String)>,
    views: u64,
}

impl Scan {
    /// Compiles `packs` for `lake`.
    ///
    /// # Errors
    /// [`PackError::Rule`] for a rule that doesn't match the lake's tables, [`PackError::Engine`]
    /// if the lake can't be read or a version is no longer in its log.
    pub async fn prepare(lake: &Lake, packs: Vec<Pack>, options: &ScanOptions) -> Result<Scan> {
        let context = lake_context(lake, &options.sql).await?;
        let (since, old) = old_files(lake, &context, &packs, options.since).await?;
        let store = ObjectStoreUrl::parse(LAKE_STORE)?;
        let table = LakeTable::new(lake, lake.grains.clone(), grains_schema(), store)?
            .limited_to(|name| !old.contains(name));
        let scope = ScanScope {
            lake: lake.location().name(),
            version: lake.grains.version(),
            since,
            segments: table.files(),
            grains: table.rows(),
        };
        context.register_table(SCANNED, Arc::new(table))?;
        Scan::over(context, packs, scope).await
    }

    /// Compiles `packs` for the tables of `context`, which include `scanned`.
    pub(super) async fn over(
        context: SessionContext,
        packs: Vec<Pack>,
        scope: ScanScope,
    ) -> Result<Scan> {
        let rules: Vec<Rule> = packs
            .iter()
            .flat_map(|pack| pack.rules.iter().cloned())
            .collect();
        let rows = RowRules::compile(&context, &rules)?.map(Arc::new);
        let policies = RegoPolicies::compile(&rules)?.map(Arc::new);
        let mut queries = Vec::new();
        for (place, rule) in rules.iter().enumerate() {
            let frame = match &rule.check {
                Check::Sql(text) => plan(&context, rule, text).await?,
                Check::Cal(text) => plan_recall(&context, rule, text).await?,
                Check::Where { .. } | Check::Rego { .. } => continue,
            };
            queries.push(RuleQuery { rule: place, frame });
        }
        Ok(Scan {
            context,
            packs,
            rules,
            rows,
            policies,
            queries,
            scope,
        })
    }

    /// Returns the packs.
    pub fn packs(&self) -> &[Pack] {
        &self.packs
    }

    /// Returns all rules in the order of the packs. [`Finding::rule`] is an index into it.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the scope of the scan.
    pub fn scope(&self) -> &ScanScope {
        &self.scope
    }

    /// Runs all rules and calls `take` for every finding, in no order. If `take` fails, the scan
    /// stops.
    ///
    /// # Errors
    /// The error of `take`; [`PackError::Query`] if a page can't be read or a query fails.
    pub async fn run(
        &self,
        mut take: impl FnMut(&Rule, &Finding) -> Result<()>,
    ) -> Result<ScanSummary> {
        let began = Instant::now();
        let mut counts = vec![RuleCount::default(); self.rules.len()];
        let mut views = 0;
        let (sender, mut receiver) = channel::<BatchResult>(CHANNEL_CAPACITY);
        let collect = async {
            while let Some(report) = receiver.recv().await {
                views += report.views;
                count(&report, &mut counts);
                for finding in &report.findings {
                    if let Some(rule) = self.rules.get(finding.rule) {
                        take(rule, finding)?;
                    }
                }
            }
            Ok(())
        };
        futures::future::try_join(self.run_passes(sender), collect).await?;
        Ok(self.summary(counts, views, began.elapsed().as_secs_f64()))
    }

    async fn run_passes(&self, sender: Sender<BatchResult>) -> Result<()> {
        if let Some(rules) = &self.rows {
            let plan = rules
                .source(&self.context)
                .await?
                .create_physical_plan()
                .await?;
            let mut tasks = JoinSet::new();
            for partition in 0..plan.output_partitioning().partition_count() {
                let (plan, rules) = (Arc::clone(&plan), Arc::clone(rules));
                tasks.spawn(check_rows(
                    plan,
                    self.context.clone(),
                    partition,
                    rules,
                    sender.clone(),
                ));
            }
            finish(tasks).await?;
        }
        if let Some(policies) = &self.policies {
            let plan = policies
                .source(&self.context)
                .await?
                .create_physical_plan()
                .await?;
            let mut tasks = JoinSet::new();
            for partition in 0..plan.output_partitioning().partition_count() {
                let (plan, policies) = (Arc::clone(&plan), Arc::clone(policies));
                tasks.spawn(check_views(
                    plan,
                    self.context.clone(),
                    partition,
                    policies,
                    sender.clone(),
                ));
            }
            finish(tasks).await?;
        }
        for query in &self.queries {
            run_query(query, &sender).await?;
        }
        Ok(())
    }

    fn summary(&self, counts: Vec<RuleCount>, views: u64, seconds: f64) -> ScanSummary {
        let mut by_severity = BTreeMap::new();
        for (rule, count) in self
            .rules
            .iter()
            .zip(&counts)
            .filter(|(_, count)| count.findings > 0)
        {
            *by_severity.entry(rule.severity.name()).or_default() += count.findings;
        }
        ScanSummary {
            scope: self.scope.clone(),
            packs: self.stamps(),
            views,
            findings: counts.iter().map(|count| count.findings).sum(),
            findings_by_severity: by_severity,
            failures: counts.iter().map(|count| count.failures).sum(),
            rules: self
                .rules
                .iter()
                .map(|rule| rule.id.clone())
                .zip(counts)
                .collect(),
            seconds,
            grains_per_second: if seconds > 0.0 {
                self.scope.grains as f64 / seconds
            } else {
                0.0
            },
        }
    }

    fn stamps(&self) -> BTreeMap<String, String> {
        self.packs
            .iter()
            .map(|pack| (pack.id.clone(), pack.stamp()))
            .collect()
    }

    /// Records the scan in the audit log, from which the next incremental scan starts.
    ///
    /// # Errors
    /// [`PackError::Engine`] if the audit log can't be written.
    pub async fn record(&self, lake: &mut Lake, summary: &ScanSummary) -> Result<()> {
        let details = serde_json::json!({
            "version": summary.scope.version,
            "since": summary.scope.since,
            "packs": summary.packs,
            "grains": summary.scope.grains,
            "findings": summary.findings,
            "failures": summary.failures,
        });
        Ok(lake.record(ACTION, details).await?)
    }
}

fn count(report: &BatchResult, counts: &mut [RuleCount]) {
    for finding in &report.findings {
        if let Some(count) = counts.get_mut(finding.rule) {
            count.findings += 1;
        }
    }
    for (rule, message) in &report.failures {
        if let Some(count) = counts.get_mut(*rule) {
            count.failures += 1;
            count.first_failure.get_or_insert_with(|| message.clone());
        }
    }
}

/// Waits for all tasks; the first failure cancels the others.
async fn finish(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(task) = tasks.join_next().await {
        task.map_err(|error| DataFusionError::External(Box::new(error)))??;
    }
    Ok(())
}

async fn check_rows(
    plan: Arc<dyn ExecutionPlan>,
    context: SessionContext,
    partition: usize,
    rules: Arc<RowRules>,
    sender: Sender<BatchResult>,
) -> Result<()> {
    let mut batches = plan.execute(partition, context.task_ctx())?;
    while let Some(batch) = batches.next().await {
        let mut report = BatchResult::default();
        rules.evaluate(batch?, |finding| report.findings.push(finding))?;
        if !send(&sender, report).await {
            break;
        }
    }
    Ok(())
}

async fn check_views(
    plan: Arc<dyn ExecutionPlan>,
    context: SessionContext,
    partition: usize,
    policies: Arc<RegoPolicies>,
    sender: Sender<BatchResult>,
) -> Result<()> {
    let mut evaluator = policies.evaluator();
    let mut batches = plan.execute(partition, context.task_ctx())?;
    while let Some(batch) = batches.next().await {
        let mut report = BatchResult::default();
        report.views = evaluator.evaluate(&batch?, |verdict| match verdict {
            PolicyOutcome::Finding(finding) => report.findings.push(finding),
            PolicyOutcome::Failure(rule, message) => report.failures.push((rule, message)),
        });
        if !send(&sender, report).await {
            break;
        }
    }
    Ok(())
}

async fn run_query(query: &RuleQuery, sender: &Sender<BatchResult>) -> Result<()> {
    let mut batches = query.frame.clone().execute_stream().await?;
    while let Some(batch) = batches.next().await {
        if !send(
            sender,
            BatchResult {
                findings: findings(query.rule, &batch?)?,
                ..BatchResult::default()
            },
        )
        .await
        {
            break;
        }
    }
    Ok(())
}

/// Returns false if the receiver was dropped.
async fn send(sender: &Sender<BatchResult>, report: BatchResult) -> bool {
    let empty = report.findings.is_empty() && report.failures.is_empty() && report.views == 0;
    empty || sender.send(report).await.is_ok()
}

/// Converts rows of a query to findings: the first column is the address, the others are evidence.
fn findings(rule: usize, batch: &RecordBatch) -> Result<Vec<Finding>> {
    let schema = batch.schema();
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .skip(1)
        .map(|field| field.name().as_str())
        .collect();
    let columns: &[ArrayRef] = batch.columns().get(1..).unwrap_or_default();
    let Some(first) = batch.columns().first() else {
        return Ok(Vec::new());
    };
    let addresses = cast(first, &DataType::Utf8).map_err(DataFusionError::from)?;
    let addresses = addresses.as_string::<i32>();
    let finding = |row| {
        let address = addresses
            .is_valid(row)
            .then(|| addresses.value(row).to_owned());
        Ok(Finding {
            rule,
            address,
            evidence: row_rules::evidence(&names, columns, row)?,
        })
    };
    (0..batch.num_rows()).map(finding).collect()
}

/// Plans a rule's query, which must be read-only and return the grain's address first.
async fn plan(context: &SessionContext, rule: &Rule, text: &str) -> Result<DataFrame> {
    let fault = |problem: String| PackError::rule(&rule.id, problem);
    let frame = plan_query(context, text)
        .await
        .map_err(|error| fault(user_message(&error)))?;
    let names: Vec<&str> = frame
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    let address = IdentityColumn::ContentAddress.name();
    if names.first() != Some(&address) {
        return Err(fault(format!(
            "the first column of the query must be `{address}`, not `{}`",
            names.first().unwrap_or(&"")
        )));
    }
    match rule.message.names().find(|name| !names.contains(name)) {
        Some(name) => Err(fault(format!(
            "`message` refers to {{{name}}}, which isn't a column of the query"
        ))),
        None => Ok(frame),
    }
}

/// Plans a rule in CAL: the scanned grains that it matches, with the columns that the message
/// names.
async fn plan_recall(context: &SessionContext, rule: &Rule, text: &str) -> Result<DataFrame> {
    let fault = |problem: String| PackError::rule(&rule.id, problem);
    let now = chrono::Utc::now().timestamp_millis();
    let matched = plan_rule(context, text, now)
        .await
        .map_err(|error| fault(error.to_string()))?;
    let address = IdentityColumn::ContentAddress.name();
    let scanned = context.table(SCANNED).await?;
    let mut columns = vec![col(address)];
    for name in rule.message.names() {
        if scanned
            .schema()
            .fields()
            .iter()
            .all(|field| field.name() != name)
        {
            return Err(fault(format!(
                "`message` refers to {{{name}}}, which isn't a column of `grains`"
            )));
        }
        columns.extend((name != address).then(|| col(name)));
    }
    let matched = matched.select(vec![col(address).alias("__matched")])?;
    let found = scanned.select(columns)?.join(
        matched,
        JoinType::LeftSemi,
        &[address],
        &["__matched"],
        None,
    );
    Ok(found?)
}

/// Returns the version at which an incremental scan starts, and the files that existed then.
async fn old_files(
    lake: &Lake,
    context: &SessionContext,
    packs: &[Pack],
    since: Since,
) -> Result<(Option<u64>, HashSet<String>)> {
    let version = match since {
        Since::Beginning => None,
        Since::Version(version) => Some(version),
        Since::Last => last_scan(context, packs).await?,
    };
    let Some(version) = version else {
        return Ok((None, HashSet::new()));
    };
    let names = |files: Vec<gristmill_engine::lake::DataFile>| {
        files.into_iter().map(|file| file.name).collect()
    };
    match lake
        .grains
        .at_version(version)
        .await
        .and_then(|table| table.files())
    {
        Ok(files) => Ok((Some(version), names(files))),
        // The log was cleaned up, as an erasure does, so the state at that version is unknown and
        // everything is scanned.
        Err(EngineError::NoVersion { .. }) if since == Since::Last => {
            tracing::warn!(
                version,
                "the version of the last scan is no longer in the log: scanning everything"
            );
            Ok((None, HashSet::new()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the version that was last scanned with exactly the rules of `packs`.
async fn last_scan(context: &SessionContext, packs: &[Pack]) -> Result<Option<u64>> {
    let query =
        format!("SELECT details FROM audit WHERE action = '{ACTION}' ORDER BY sequence DESC");
    let batches = context.sql(&query).await?.collect().await?;
    for batch in batches {
        let details = cast(batch.column(0), &DataType::Utf8).map_err(DataFusionError::from)?;
        for text in details.as_string::<i32>().iter().flatten() {
            let Ok(entry) = serde_json::from_str::<serde_json::Value>(text) else {
                continue;
            };
            let same = |pack: &Pack| entry["packs"][&pack.id] == pack.stamp();
            if let (true, Some(version)) = (packs.iter().all(same), entry["version"].as_u64()) {
                return Ok(Some(version));
            }
        }
    }
    Ok(None)
}

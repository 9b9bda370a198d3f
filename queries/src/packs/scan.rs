//! Runs all rules of the selected packs over a lake, or over what was added to it.
//!
//! Three passes run one after another, each on all cores: conditions on grains (one pass for all
//! rules), policies on message views (one pass for all rules), queries (one each, but the consents
//! that several of them compare with are read once). Findings are streamed to the caller through a
//! bounded channel, so memory doesn't grow with the lake or the number of findings.
//!
//! **Incremental scans** read the segments with rows that were added since a version. Conditions
//! and policies see only their rows; queries see them as the table `scanned`, next to the whole
//! lake, and what changed since in the tables of [`changes`](super::changes). The audit log records
//! the versions and the rules of each scan.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use gristmill_engine::lake::Lake;
use gristmill_schemas::columns::grains_schema;
use serde::Serialize;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinSet;

use super::batch_result::BatchResult;
use super::changes::{register_changes, register_everything, share_consents};
use super::error::{PackError, Result};
use super::finding::{Finding, RuleCount};
use super::incremental::NewFiles;
use super::pack::{Pack, Rule};
use super::rule_query::RuleQuery;
use super::rules_exec::RulePass;
use crate::sql::{
    DataFusionError, LAKE_STORE, LakeTable, SqlOptions, is_exhausted, lake_context, user_message,
};

/// Table of the grains in scope of a scan.
pub(super) const SCANNED: &str = "scanned";

/// Name of the action in the audit log.
pub(super) const ACTION: &str = "scan";

/// Member of the entry that is true if sealed data was left out.
pub(super) const LEFT_OUT: &str = "sealed_left_out";

/// Version of gristmill, whose functions and detectors rules use.
pub(super) const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

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
    /// Grains added after the last scan that had all the rules; all grains if there was none.
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
    passes: Vec<RulePass>,
    queries: Vec<RuleQuery>,
    scope: ScanScope,
    /// The version of `state`, which the audit log records.
    state_version: u64,
}

impl Scan {
    /// Compiles `packs` for `lake`.
    ///
    /// # Errors
    /// [`PackError::Rule`](super::PackError::Rule) for a rule that doesn't match the lake's tables,
    /// [`PackError::Engine`](super::PackError::Engine) if the lake can't be read or a version is no
    /// longer in its log.
    pub async fn prepare(lake: &Lake, packs: Vec<Pack>, options: &ScanOptions) -> Result<Scan> {
        let context = lake_context(lake, &options.sql).await?;
        Scan::prepare_in(context, lake, packs, options.since).await
    }

    /// Does the same in `context`, a session over `lake` that may run its queries elsewhere.
    ///
    /// # Errors
    /// As [`Scan::prepare`].
    pub async fn prepare_in(
        context: SessionContext,
        lake: &Lake,
        mut packs: Vec<Pack>,
        since: Since,
    ) -> Result<Scan> {
        for pack in &mut packs {
            pack.rules.retain(Rule::concerns_stored_grains);
        }
        let new = NewFiles::of(lake, &context, &packs, since).await?;
        let store = ObjectStoreUrl::parse(LAKE_STORE)?;
        let table = LakeTable::new(lake, lake.grains.clone(), grains_schema(), store)?
            .with_sidecars(lake)
            .limited_to(|file| new.as_ref().is_none_or(|new| new.contain(file)));
        let scope = ScanScope {
            lake: lake.location().name(),
            version: lake.grains.version(),
            since: new.as_ref().map(NewFiles::since),
            segments: table.files(),
            grains: table.rows(),
        };
        context.register_table(SCANNED, Arc::new(table))?;
        share_consents(&context, &packs)?;
        match &new {
            Some(new) => register_changes(&context, lake, new, &packs)?,
            None => register_everything(&context)?,
        }
        Scan::over(context, packs, scope, lake.state.version()).await
    }

    /// Compiles `packs` for the tables of `context`, which include those of a scan.
    pub(super) async fn over(
        context: SessionContext,
        packs: Vec<Pack>,
        scope: ScanScope,
        state_version: u64,
    ) -> Result<Scan> {
        let rules: Vec<Rule> = packs
            .iter()
            .flat_map(|pack| pack.rules.iter().cloned())
            .collect();
        let passes = RulePass::compile_all(&context, &rules)?;
        let mut queries = Vec::new();
        for (place, rule) in rules.iter().enumerate() {
            queries.extend(RuleQuery::plan(&context, place, rule).await?);
        }
        RuleQuery::share_rows(&context, &mut queries)?;
        Ok(Scan {
            context,
            packs,
            rules,
            passes,
            queries,
            scope,
            state_version,
        })
    }

    /// Returns the SQL context of the scanned lake.
    pub(super) fn context(&self) -> &SessionContext {
        &self.context
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
    /// The error of `take`; [`PackError::Query`](super::PackError::Query) if a page can't be read
    /// or a query fails.
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
                self.pass_on(&report.findings, &mut take)?;
            }
            Ok(())
        };
        futures::future::try_join(self.run_passes(sender), collect).await?;
        Ok(self.summary(counts, views, began.elapsed().as_secs_f64()))
    }

    /// Calls `take` for each of `findings`, with its rule.
    fn pass_on(
        &self,
        findings: &[Finding],
        take: &mut impl FnMut(&Rule, &Finding) -> Result<()>,
    ) -> Result<()> {
        for finding in findings {
            if let Some(rule) = self.rules.get(finding.rule) {
                take(rule, finding)?;
            }
        }
        Ok(())
    }

    async fn run_passes(&self, sender: Sender<BatchResult>) -> Result<()> {
        for pass in &self.passes {
            let findings = pass.findings(&self.context).await?;
            let mut tasks = JoinSet::new();
            for rows in findings.execute_stream_partitioned().await? {
                tasks.spawn(collect(rows, sender.clone()));
            }
            finish(tasks).await?;
        }
        for query in &self.queries {
            let finished = run_query(query, &sender).await;
            finished.map_err(|error| self.named(error, query.rule()))?;
        }
        Ok(())
    }

    /// Returns `error` with the rule at index `place`, if its query exceeds the memory limit.
    fn named(&self, error: PackError, place: usize) -> PackError {
        match (error, self.rules.get(place)) {
            (PackError::Query(error), Some(rule)) if is_exhausted(&error) => {
                PackError::rule(&rule.id, user_message(&error))
            }
            (error, _) => error,
        }
    }

    fn summary(&self, counts: Vec<RuleCount>, views: u64, seconds: f64) -> ScanSummary {
        let by_severity = self.findings_by_severity(&counts);
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

    fn findings_by_severity(&self, counts: &[RuleCount]) -> BTreeMap<&'static str, u64> {
        let mut by_severity = BTreeMap::new();
        for (rule, count) in self
            .rules
            .iter()
            .zip(counts)
            .filter(|(_, count)| count.findings > 0)
        {
            *by_severity.entry(rule.severity.name()).or_default() += count.findings;
        }
        by_severity
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
    /// [`PackError::Engine`](super::PackError::Engine) if the audit log can't be written.
    pub async fn record(&self, lake: &mut Lake, summary: &ScanSummary) -> Result<()> {
        let files = lake.grains.files()?;
        let details = serde_json::json!({
            "gristmill": PROGRAM_VERSION,
            LEFT_OUT: files.iter().any(|file| lake.skips(&file.name)),
            "version": summary.scope.version,
            "state_version": self.state_version,
            "since": summary.scope.since,
            "packs": summary.packs,
            "rules": summary.rules.keys().collect::<Vec<_>>(),
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

/// Passes on what one partition of a pass finds.
async fn collect(mut rows: SendableRecordBatchStream, sender: Sender<BatchResult>) -> Result<()> {
    while let Some(batch) = rows.next().await {
        if !send(&sender, BatchResult::of_rows(&batch?)?).await {
            break;
        }
    }
    Ok(())
}

async fn run_query(query: &RuleQuery, sender: &Sender<BatchResult>) -> Result<()> {
    let mut batches = query.execute().await?;
    while let Some(batch) = batches.next().await {
        let report = BatchResult {
            findings: query.findings(&batch?)?,
            ..BatchResult::default()
        };
        if !send(sender, report).await {
            break;
        }
    }
    Ok(())
}

/// Returns false if the receiver was dropped.
async fn send(sender: &Sender<BatchResult>, report: BatchResult) -> bool {
    report.is_empty() || sender.send(report).await.is_ok()
}

//! Applying operations in batches: preparing, judging in order, and committing.
//!
//! An operation sees what the ones before it did. A batch is committed as a whole: `state` first,
//! `grains` last. The row of a new grain that supersedes another contains that itself, and no event
//! in `state` closes the old one: both become visible by one commit, and a kill before it leaves
//! the old one current (§28.4). If the superseding grain is in the lake already, an event closes
//! the old one, which is one commit as well. A repeated operation changes nothing and is reported
//! as done, so a run that was killed is simply run again.

use std::collections::HashSet;
use std::time::Instant;

use chrono::Utc;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::LifecycleEvent;
use gristmill_schemas::error::{ErrorCode, GrainError};
use rayon::prelude::*;

use super::judge::{BatchOutcome, OperationJudge, Refusal};
use super::new_grain::write;
use super::operation::OperationRequest;
use super::prepare::{PreparedLine, prepare, prepare_line};
use super::report::{ApplyOptions, ApplyReport, OperationOutcome};
use crate::error::{Context, EngineError, Result};
use crate::index::refresh_after;
use crate::lake::{Change, KnownAddresses, Lake};
use crate::policy::FactCache;

/// Maximum number of operations of a batch.
const BATCH_OPERATIONS: usize = 65_536;

/// A batch is closed when its lines have so many bytes.
const BATCH_BYTES: usize = 64 << 20;

/// Maximum size of a line in bytes, without the line feed at its end.
const LINE_BYTES: usize = 64 << 20;

/// With which some editors begin a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How often a batch is judged again because another writer was faster.
const ATTEMPTS: usize = 10;

/// Applies the operations of `lines` to `lake`, and calls `report_outcome` for each in their order.
///
/// # Errors
/// [`EngineError::Conflict`], errors of the system, and of `report_outcome`; batches that were
/// committed stay. A refused operation isn't an error but an outcome.
pub async fn apply(
    lake: &mut Lake,
    lines: &mut dyn std::io::BufRead,
    options: &ApplyOptions,
    report_outcome: &mut dyn FnMut(&OperationOutcome) -> Result<()>,
) -> Result<ApplyReport> {
    let started = Instant::now();
    let mut run = Apply::begin(lake, options, "apply").await?;
    while let Some(batch) = read_batch(lines, run.line == 0)? {
        let prepared: Vec<_> = batch
            .into_par_iter()
            .map(|line| match line {
                Ok(line) => prepare_line(&line, &*options.resolver),
                Err(error) => Some(Err(error)),
            })
            .collect();
        run.batch(&prepared)
            .await?
            .iter()
            .try_for_each(&mut *report_outcome)?;
    }
    let mut report = run.end().await?;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Applies `requests` to `lake` as one batch. Returns their outcomes in order. `action` is the name
/// in the audit log.
///
/// # Errors
/// As [`apply`]; then nothing was committed.
pub async fn apply_requests(
    lake: &mut Lake,
    requests: Vec<OperationRequest>,
    options: &ApplyOptions,
    action: &'static str,
) -> Result<Vec<OperationOutcome>> {
    let prepared: Vec<_> = requests
        .into_par_iter()
        .map(|request| Some(prepare(request, &*options.resolver)))
        .collect();
    let mut run = Apply::begin(lake, options, action).await?;
    let outcomes = run.batch(&prepared).await?;
    run.end().await?;
    Ok(outcomes)
}

/// Applies `requests` to `lake` in batches, and calls `report_outcome` for each in their order.
/// `details` are added to the entry of the audit log, whose action is `action`.
///
/// # Errors
/// As [`apply`].
pub(crate) async fn apply_batches(
    lake: &mut Lake,
    requests: impl Iterator<Item = OperationRequest>,
    options: &ApplyOptions,
    (action, details): (&'static str, serde_json::Value),
    report_outcome: &mut dyn FnMut(&OperationOutcome),
) -> Result<ApplyReport> {
    let started = Instant::now();
    let mut run = Apply::begin(lake, options, action).await?;
    run.details = details;
    let mut requests = requests.peekable();
    while requests.peek().is_some() {
        let prepared: Vec<_> = requests
            .by_ref()
            .take(BATCH_OPERATIONS)
            .map(|request| Some(prepare(request, &*options.resolver)))
            .collect();
        let outcomes = run.batch(&prepared).await?;
        outcomes.iter().for_each(&mut *report_outcome);
    }
    let mut report = run.end().await?;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// A line, or why it isn't read.
type OperationLine = Result<Vec<u8>, GrainError>;

/// Reads the lines of the next batch; `None` at the end. Empty lines count, so that line numbers
/// are right. A byte order mark before the first line is skipped.
fn read_batch(
    lines: &mut dyn std::io::BufRead,
    is_first: bool,
) -> Result<Option<Vec<OperationLine>>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < BATCH_OPERATIONS && bytes < BATCH_BYTES {
        let read = read_line(lines).file("can't read", "the operations")?;
        let Some(mut line) = read else {
            break;
        };
        if is_first
            && batch.is_empty()
            && let Ok(line) = &mut line
            && line.starts_with(BYTE_ORDER_MARK)
        {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        bytes += line.as_ref().map_or(0, Vec::len);
        batch.push(line);
    }
    Ok((!batch.is_empty()).then_some(batch))
}

/// Reads the next line; `None` at the end. One beyond the limit is skipped.
fn read_line(lines: &mut dyn std::io::BufRead) -> std::io::Result<Option<OperationLine>> {
    let mut line = Vec::new();
    let mut limited = std::io::Read::take(&mut *lines, LINE_BYTES as u64 + 1);
    if std::io::BufRead::read_until(&mut limited, b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() <= LINE_BYTES || line.ends_with(b"\n") {
        return Ok(Some(Ok(line)));
    }
    lines.skip_until(b'\n')?;
    let message = format!("the line has more than {LINE_BYTES} bytes");
    Ok(Some(Err(GrainError::new(ErrorCode::Schema, message))))
}

struct Apply<'a> {
    lake: &'a mut Lake,
    options: &'a ApplyOptions,
    /// The name of the action in commits and in the audit log.
    action: &'static str,
    /// Members of the entry in the audit log besides the counts.
    details: serde_json::Value,
    known: KnownAddresses,
    report: ApplyReport,
    line: u64,
}

impl<'a> Apply<'a> {
    async fn begin(
        lake: &'a mut Lake,
        options: &'a ApplyOptions,
        action: &'static str,
    ) -> Result<Apply<'a>> {
        lake.refresh().await?;
        let known = KnownAddresses::load(lake).await?;
        Ok(Apply {
            lake,
            options,
            action,
            details: serde_json::Value::Null,
            known,
            report: ApplyReport::default(),
            line: 0,
        })
    }

    /// Writes the entry of the audit log.
    async fn end(self) -> Result<ApplyReport> {
        let mut report = self.report;
        report.version = self.lake.grains.version();
        if !self.options.dry_run && report.operations > 0 {
            let mut details = serde_json::json!({
                "operations": report.operations,
                "done": report.done,
                "already": report.already,
                "denied": report.denied,
                "failed": report.failed,
                "needs_review": report.needs_review,
                "grains_written": report.grains_written,
                "events_written": report.events_written,
                "version": report.version,
            });
            let more = self.details.as_object().into_iter().flatten();
            let more = more.map(|(name, value)| (name.clone(), value.clone()));
            if let Some(details) = details.as_object_mut() {
                details.extend(more);
            }
            if report.grains_written > 0 {
                refresh_after(self.lake, self.action).await;
            }
            self.lake.record(self.action, details).await?;
        }
        Ok(report)
    }

    /// Judges and commits a batch. Returns the outcomes of its operations.
    async fn batch(&mut self, prepared: &[PreparedLine]) -> Result<Vec<OperationOutcome>> {
        for _ in 0..ATTEMPTS {
            let outcome = self.judge(prepared).await?;
            match self.commit(&outcome).await {
                Err(EngineError::Conflict(_)) => {
                    self.lake.refresh().await?;
                    self.known.extend(self.lake).await?;
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    self.line += prepared.len() as u64;
                    self.count(&outcome);
                    return Ok(outcome.outcomes);
                }
            }
        }
        Err(EngineError::Conflict(format!(
            "other writers were faster {ATTEMPTS} times"
        )))
    }

    /// Judges the operations of a batch, each after the ones before it.
    async fn judge(&self, prepared: &[PreparedLine]) -> Result<BatchOutcome> {
        let mut facts = self.look_up_facts(prepared).await?;
        let now = Utc::now().timestamp_micros();
        let mut outcome = BatchOutcome::default();
        for (number, prepared) in prepared.iter().enumerate() {
            let Some(prepared) = prepared else { continue };
            let (op, judged) = match prepared {
                Err(error) => (None, Err(Refusal::from(error))),
                Ok(operation) => {
                    let mut judge = OperationJudge {
                        known: &self.known,
                        resolver: &*self.options.resolver,
                        facts: &mut facts,
                        outcome: &mut outcome,
                        now,
                    };
                    let name = operation.request.operation.name();
                    (Some(name), judge.judge(operation))
                }
            };
            let line = self.line + number as u64 + 1;
            outcome.outcomes.push(match judged {
                Ok(done) => OperationOutcome {
                    line,
                    op,
                    ok: true,
                    ..done
                },
                Err(Refusal { code, message }) => OperationOutcome {
                    line,
                    op,
                    error: Some(code),
                    message: Some(message),
                    ..OperationOutcome::default()
                },
            });
        }
        Ok(outcome)
    }

    /// Looks up what the gate needs to judge the operations of a batch.
    async fn look_up_facts(&self, prepared: &[PreparedLine]) -> Result<FactCache> {
        let operations = || prepared.iter().flatten().flatten();
        let targets: HashSet<ContentAddress> = operations()
            .filter_map(|operation| operation.request.operation.target().copied())
            .collect();
        let mut wanted = targets.clone();
        for new in operations().filter_map(|operation| operation.grain.as_ref()) {
            wanted.extend(&new.facts.parents);
            let evidence = new
                .proposal
                .iter()
                .flat_map(|proposal| &proposal.successor.evidence);
            wanted.extend(evidence);
            wanted.insert(new.grain.address);
        }
        let mut facts = FactCache::default();
        facts
            .look_up(self.lake, &self.known, wanted, &targets)
            .await?;
        facts.look_up_delegations(self.lake).await?;
        let new_goals = operations().filter_map(|operation| operation.grain.as_ref());
        let new_goals = new_goals.filter(|new| new.facts.is_active_goal());
        let dependencies = new_goals.flat_map(|new| new.facts.dependencies()).copied();
        facts
            .look_up_later_versions(self.lake, &self.known, dependencies.collect())
            .await?;
        Ok(facts)
    }

    async fn commit(&mut self, outcome: &BatchOutcome) -> Result<()> {
        if self.options.dry_run {
            return Ok(());
        }
        if !outcome.events.is_empty() {
            self.check_holds(outcome).await?;
            let file = self.lake.write_events(&outcome.events).await?;
            let change = Change::of_new_rows(file);
            // Not tried again as it is: what the events were judged by may have changed.
            self.lake.state.commit(change, self.action, 0).await?;
        }
        if !outcome.grains.is_empty() {
            let (location, grains) = (self.lake.location().clone(), outcome.grains.clone());
            let now = Utc::now().timestamp_micros();
            let keys = self.lake.keys_to_write()?;
            let written =
                tokio::task::spawn_blocking(move || write(&location, grains, now, keys.as_deref()));
            let segment = written.await.task("a segment")??;
            let mut change = Change {
                changes_rows: true,
                ingested_at: Some(now),
                ..Change::default()
            };
            self.lake.publish_segment(&mut change, segment).await?;
            self.lake.grains.commit(change, self.action, 0).await?;
            self.known.extend(self.lake).await?;
        }
        Ok(())
    }

    /// Checks that nothing was erased since holds of `outcome` were judged. An erasure that has
    /// refused its grains and not removed them yet would remove them with their holds.
    ///
    /// # Errors
    /// [`EngineError::Conflict`], after which the batch is judged again.
    async fn check_holds(&mut self, outcome: &BatchOutcome) -> Result<()> {
        let mut events = outcome.events.iter();
        if !events.any(|row| row.event == LifecycleEvent::Held) {
            return Ok(());
        }
        let judged = self.lake.erased.version();
        self.lake.erased.refresh().await?;
        match self.lake.erased.version() == judged {
            true => Ok(()),
            false => Err(EngineError::Conflict(
                "grains were erased meanwhile".to_owned(),
            )),
        }
    }

    fn count(&mut self, outcome: &BatchOutcome) {
        let report = &mut self.report;
        report.grains_written += outcome.grains.len() as u64;
        report.events_written += outcome.events.len() as u64;
        for outcome in &outcome.outcomes {
            report.operations += 1;
            report.done += u64::from(outcome.ok);
            report.already += u64::from(outcome.already);
            report.needs_review += u64::from(outcome.needs_review);
            if let Some(code) = &outcome.error {
                match outcome.is_denied() {
                    true => report.denied += 1,
                    false => report.failed += 1,
                }
                *report.errors_by_code.entry(code.clone()).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a lake at `place` with one belief, and the address of that.
    async fn lake_with_belief(place: &str) -> (Lake, String) {
        let mut lake = Lake::open_or_create(place).await.unwrap();
        let put = br#"{"op": "put", "grain": {"type": "belief", "subject": "s", "relation": "r",
            "object": "o", "confidence": 1.0, "created_at": 1767225600000}}"#;
        let put = OperationRequest::parse(put).unwrap();
        let options = ApplyOptions::default();
        let put = apply_requests(&mut lake, vec![put], &options, "test").await;
        let address = put.unwrap()[0].content_address.clone().unwrap();
        (lake, address)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn operations_are_judged_again_after_events_of_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let options = ApplyOptions::default();
        let (mut lake, address) = lake_with_belief(&place).await;
        let line = format!(r#"{{"op": "contradict", "address": "{address}"}}"#);
        let prepared = || [prepare_line(line.as_bytes(), &*options.resolver)];
        let mut other = Lake::open_or_create(&place).await.unwrap();
        let mut late = Apply::begin(&mut other, &options, "test").await.unwrap();
        let mut first = Apply::begin(&mut lake, &options, "test").await.unwrap();
        assert!(!first.batch(&prepared()).await.unwrap()[0].already);
        // This one hasn't read the event of the first yet.
        assert!(late.batch(&prepared()).await.unwrap()[0].already);
        let files = late.lake.state.files().unwrap();
        assert_eq!(files.iter().map(|file| file.rows).sum::<u64>(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_line_beyond_the_limit_is_refused_alone_and_a_byte_order_mark_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let (mut lake, address) = lake_with_belief(&place).await;
        let line = format!(r#"{{"op": "retract", "address": "{address}"}}"#);
        let long = " ".repeat(2 * LINE_BYTES);
        let text = format!("\u{feff}{line}\r\n{long}\n{line}");
        let mut answers = Vec::new();
        let mut keep = |answer: &OperationOutcome| {
            answers.push((answer.line, answer.ok, answer.already));
            Ok(())
        };
        let options = ApplyOptions::default();
        let applied = apply(&mut lake, &mut text.as_bytes(), &options, &mut keep).await;
        assert_eq!(applied.unwrap().failed, 1);
        let expected = [(1_u64, true, false), (2, false, false), (3, true, true)];
        assert_eq!(answers, expected);
    }

    #[test]
    fn a_line_may_have_all_bytes_of_the_limit() {
        let longest = " ".repeat(LINE_BYTES);
        let text = format!("{longest}\n{longest} \n{longest}");
        let mut lines = text.as_bytes();
        let mut length = || {
            let line = read_line(&mut lines).unwrap()?;
            Some(line.map(|line| line.len()).ok())
        };
        assert_eq!(length(), Some(Some(LINE_BYTES + 1)));
        assert_eq!(length(), Some(None));
        assert_eq!(length(), Some(Some(LINE_BYTES)));
        assert_eq!(length(), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn events_are_refused_on_a_grain_that_was_erased_since_the_run_began() {
        for operation in [
            r#""op": "hold", "hold": "case-1", "actor": "court", "reason": "order""#,
            r#""op": "verify", "actor": "a person", "reason": "looked at it""#,
        ] {
            let folder = tempfile::tempdir().unwrap();
            let place = folder.path().display().to_string();
            let options = ApplyOptions::default();
            let (mut lake, address) = lake_with_belief(&place).await;
            let line = format!(r#"{{{operation}, "address": "{address}"}}"#);
            let prepared = [prepare_line(line.as_bytes(), &*options.resolver)];
            let mut other = Lake::open_or_create(&place).await.unwrap();
            let mut late = Apply::begin(&mut other, &options, "test").await.unwrap();
            // As an erasure does before it removes rows.
            let erased: ContentAddress = address.parse().unwrap();
            let added = lake.add_tombstones(&[erased], "erasure", 0).await;
            assert_eq!(added.unwrap(), 1);
            let outcomes = late.batch(&prepared).await.unwrap();
            assert!(!outcomes[0].ok, "{outcomes:?}");
            assert_eq!(late.lake.state.files().unwrap().len(), 0);
        }
    }
}

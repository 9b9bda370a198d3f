//! Repair: derived data is rebuilt, and other damage is listed.
//!
//! | module | question |
//! |---|---|
//! | `rows` | which cells differ from their blobs, and how is the segment rewritten? |
//! | `rewrite` | what are the rows of a segment with recomputed cells? |
//! | `cells` | which cells don't follow from blobs, and which address does a blob have? |
//! | `surplus_rows` | which rows have the addresses of others, and which of them stays? |
//! | `row_quality` | which of several rows with the same address may stay? |
//! | `sidecars` | which sidecars are missing, damaged or of another segment? |
//! | `tombstones` | which tombstones were lost, but are in a copy? |
//! | `other_tables` | which files of the other tables are damaged? |
//! | `report` | what was repaired, and what can't be? |
//!
//! Nothing is inferred, and a row is dropped only if another one with the same address stays. A
//! segment is replaced by one commit, so a run that was killed is simply run again: what it had
//! repaired is sound by then.

mod cells;
mod other_tables;
mod report;
mod rewrite;
mod row_quality;
mod rows;
mod sidecars;
mod surplus_rows;
mod tombstones;

use std::sync::Arc;
use std::time::Instant;

use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode};
use gristmill_schemas::sign::{DidKeyResolver, KeyResolver};

pub use report::{RepairReport, Repaired, Unrepaired};

use crate::error::{EngineError, Result};
use crate::ingest::prove::ProofOptions;
use crate::lake::Lake;
use crate::progress::WorkProgress;

/// The options of a repair.
#[derive(Clone)]
pub struct RepairOptions {
    /// Reports what would be repaired, and writes nothing.
    pub dry_run: bool,
    /// Accepts the logs as they are, although entries that `heads.json` lists are lost.
    pub accept_logs: bool,
    /// Maximum number of entries of each list of the report. All are counted.
    pub listed: usize,
    /// Resolves the keys of signers.
    pub resolver: Arc<dyn KeyResolver>,
}

impl Default for RepairOptions {
    fn default() -> Self {
        RepairOptions {
            dry_run: false,
            accept_logs: false,
            listed: 1_000,
            resolver: Arc::new(DidKeyResolver),
        }
    }
}

impl RepairOptions {
    /// Returns the options by which rows are read, which are those of verification.
    fn proof_options(&self) -> ProofOptions<'_> {
        ProofOptions {
            mode: DecodeMode::StrictAliased,
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            resolver: &*self.resolver,
            now: 0,
            keys: None,
            profile: None,
        }
    }
}

/// Repairs `lake`: tombstones from their copies, columns from blobs, addresses that several rows
/// have, then sidecars. The report lists what can't be repaired, with reasons.
///
/// # Errors
/// [`EngineError::Damaged`] if a log has lost entries and that isn't accepted;
/// [`EngineError::Conflict`] if another writer replaced a segment meanwhile;
/// [`EngineError::Interrupted`]; errors of the environment. What was repaired until then stays
/// repaired.
pub async fn repair(
    lake: &mut Lake,
    options: &RepairOptions,
    progress: Arc<WorkProgress>,
) -> Result<RepairReport> {
    let started = Instant::now();
    lake.refresh().await?;
    match options.accept_logs && !options.dry_run {
        true => lake.accept_logs().await?,
        false => lake.check_heads().await?,
    }
    let mut report = RepairReport::new(options.dry_run, options.listed);
    tombstones::repair(lake, options.dry_run, &mut report).await?;
    let rows = rows::repair(lake, options, &progress, &mut report).await?;
    if progress.is_stopped() {
        return Err(EngineError::Interrupted);
    }
    surplus_rows::repair(lake, options, &rows, &progress, &mut report).await?;
    sidecars::repair(lake, options, &mut report).await?;
    other_tables::list_damage(lake, &mut report).await?;
    report.version = lake.grains.version();
    if report.repaired > 0 && !options.dry_run {
        let details = serde_json::json!({
            "rows": report.rows,
            "surplus_rows": report.surplus_rows,
            "segments": report.segments_rewritten,
            "sidecars": report.sidecars,
            "unrepaired": report.unrepaired,
            "version": report.version,
        });
        lake.record("repair", details).await?;
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

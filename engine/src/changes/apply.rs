//! Applying a bundle to a lake, in steps each of which changes nothing if it is repeated:
//!
//! ```text
//! check the position ─▶ erase ─▶ events ─▶ grains ─▶ events that close older grains ─▶ record the position
//! ```
//!
//! The position that the lake has reached in the other one is an entry of the audit log, written
//! last. A process that is killed before it leaves a lake to which the same bundle is applied
//! again.

use std::sync::Arc;
use std::time::Instant;

use gristmill_connectors::source::{Source, SourceKind, SourceLocation, fetch};
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_schemas::grain::DecodeMode;
use serde::Serialize;
use serde_json::json;

use super::bundle::{Bundle, BundleHeader};
use super::events::{EventPhase, add_events};
use super::position::LakePosition;
use super::tombstones::erase_of;
use crate::erase::ErasureOptions;
use crate::error::{EngineError, Result};
use crate::index::refresh_after;
use crate::ingest::{IngestOptions, IngestReport, OnError, ingest};
use crate::lake::Lake;
use crate::progress::WorkProgress;

/// The action in the audit log under which the end of an application is recorded.
pub(crate) const APPLIED: &str = "changes";

/// How bundles are applied.
pub struct ChangeOptions {
    /// How grains are ingested. Their kind, mode and handling of refused input are overridden: the
    /// other lake accepted them.
    pub ingest: IngestOptions,
    /// How grains are erased that the other lake erased. Without, a bundle that erases grains of
    /// the lake is refused.
    pub erasure: Option<ErasureOptions>,
}

/// What the application of a bundle did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AppliedChanges {
    /// The bundle.
    pub source: String,
    /// The id of the lake that it comes from.
    pub lake: String,
    /// The position whose successors it has.
    pub from: String,
    /// The position up to which it has them.
    pub to: String,
    /// True if the lake had all of it.
    pub already: bool,
    /// Grains that were new to the lake.
    pub grains_written: u64,
    /// Grains that the lake had.
    pub duplicates: u64,
    /// Grains that were left out because they were erased from this lake.
    pub left_out: u64,
    /// Lifecycle events that were new to the lake.
    pub events_written: u64,
    /// Tombstones that were new to the lake.
    pub tombstones_written: u64,
    /// Grains that were erased.
    pub grains_erased: u64,
    /// The certificates of the erasures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<String>,
    /// Wall-clock time in seconds.
    pub seconds: f64,
}

/// Applies the bundle `source` to `lake`. A bundle that the lake has is passed over.
///
/// # Errors
/// [`EngineError::Request`] if `source` isn't a bundle, can be read only once, or begins after what
/// the lake has of the other one; [`EngineError::Damaged`] if the bundle isn't complete;
/// [`EngineError::Policy`] if grains that it erases must stay; [`EngineError::Refused`] if a grain
/// isn't one; errors of the lake. The bundle is then applied in part, and again from the start by
/// the next run.
pub async fn apply_changes(
    lake: &mut Lake,
    source: Source,
    options: &ChangeOptions,
    progress: Arc<WorkProgress>,
) -> Result<AppliedChanges> {
    let started = Instant::now();
    if matches!(
        source.location,
        SourceLocation::Stdin | SourceLocation::Stream(_)
    ) {
        return Err(EngineError::Request(format!(
            "`{}` can be read only once, and a bundle of changes is read several times: store it \
             in a file",
            source.uri
        )));
    }
    let bundle = Bundle::open(&source.uri, fetch(&source).await?)?;
    let mut report = AppliedChanges::of(&source, &bundle.header);
    let reached = reached_position(lake, &bundle.header.lake).await?;
    if reached.is_some_and(|reached| reached.includes(&bundle.header.to)) {
        report.already = true;
        return Ok(report);
    }
    check_no_gap(&source.uri, &bundle.header, reached)?;
    let erasures = erase_of(lake, &bundle, options.erasure.as_ref()).await?;
    report.tombstones_written = erasures.tombstones;
    report.grains_erased = erasures.grains;
    report.certificates = erasures.certificates;
    report.events_written = add_events(lake, &bundle, EventPhase::BeforeGrains).await?;
    if bundle.end.added > 0 {
        let ingested = ingest_grains(lake, source, &options.ingest, progress).await?;
        report.grains_written = ingested.grains_written;
        report.duplicates = ingested.duplicates;
        report.left_out = ingested.erased;
    }
    report.events_written += add_events(lake, &bundle, EventPhase::AfterGrains).await?;
    refresh_after(lake, APPLIED).await;
    let position = reached.unwrap_or_default().max(bundle.header.to);
    record(lake, &bundle.header, position, &report).await?;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

impl AppliedChanges {
    fn of(source: &Source, header: &BundleHeader) -> AppliedChanges {
        AppliedChanges {
            source: source.uri.clone(),
            lake: header.lake.clone(),
            from: header.from.to_string(),
            to: header.to.to_string(),
            ..AppliedChanges::default()
        }
    }
}

/// Returns the position that `lake` has reached in the lake `other`; `None` if it has no bundle of
/// it.
async fn reached_position(lake: &mut Lake, other: &str) -> Result<Option<LakePosition>> {
    let recorded = lake.recorded(APPLIED).await?;
    let positions = recorded
        .into_iter()
        .filter(|details| details.get("lake").and_then(|id| id.as_str()) == Some(other))
        .filter_map(|details| serde_json::from_value(details.get("reached")?.clone()).ok());
    Ok(positions.reduce(LakePosition::max))
}

/// Refuses a bundle without the changes between what the lake has and its own first.
fn check_no_gap(uri: &str, header: &BundleHeader, reached: Option<LakePosition>) -> Result<()> {
    if reached.unwrap_or_default().includes(&header.from) {
        return Ok(());
    }
    let (from, lake) = (header.from, &header.lake);
    let (has, since) = match reached {
        Some(reached) => (format!("has those up to {reached}"), reached),
        None => ("has none of them".to_owned(), LakePosition::default()),
    };
    Err(EngineError::Request(format!(
        "`{uri}` has the changes of the lake {lake} after {from}, and this lake {has}: the changes \
         in between are missing. Export them with `--since {since}`; nothing was changed"
    )))
}

/// Ingests the grains of a bundle; the lake that they come from has accepted them.
async fn ingest_grains(
    lake: &mut Lake,
    source: Source,
    options: &IngestOptions,
    progress: Arc<WorkProgress>,
) -> Result<IngestReport> {
    let options = IngestOptions {
        kind: Some(SourceKind::Transcript(TranscriptKind::GrainLines)),
        on_error: OnError::Fail,
        mode: DecodeMode::Lenient,
        are_bundles: true,
        dry_run: false,
        ..options.clone()
    };
    ingest(lake, vec![source], &options, progress).await
}

async fn record(
    lake: &mut Lake,
    header: &BundleHeader,
    reached: LakePosition,
    report: &AppliedChanges,
) -> Result<()> {
    let details = json!({
        "lake": header.lake,
        "from": header.from,
        "to": header.to,
        "reached": reached,
        "grains_written": report.grains_written,
        "events_written": report.events_written,
        "tombstones_written": report.tombstones_written,
        "grains_erased": report.grains_erased,
        "version": lake.grains.version(),
    });
    lake.record(APPLIED, details).await
}

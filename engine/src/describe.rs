//! What a lake is made of, in numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Result;
use crate::index::{SidecarCondition, sidecar_states};
use crate::lake::{Lake, Ledger, Progress, Table};

/// The description of a lake.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    /// Where it is.
    pub lake: String,
    /// The version of its layout.
    pub format_version: u32,
    /// Its tables by name.
    pub tables: BTreeMap<&'static str, TableDescription>,
    /// Its segments.
    pub segments: SegmentsDescription,
    /// Sources that were ingested.
    pub sources: SourcesDescription,
    /// The sidecars of its segments, by name: `addresses`, `hexastore`, `fulltext`, `words`, and
    /// `vectors:` with each model.
    pub sidecars: BTreeMap<String, SidecarDescription>,
}

/// A table.
#[derive(Debug, Clone, Serialize)]
pub struct TableDescription {
    /// Its newest version.
    pub version: u64,
    /// Its live data files.
    pub files: u64,
    /// Its rows.
    pub rows: u64,
    /// Bytes of its live data files.
    pub bytes: u64,
}

/// The segments.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SegmentsDescription {
    /// Number of them.
    pub count: u64,
    /// Rows of the smallest one.
    pub smallest_rows: u64,
    /// Rows of the largest one.
    pub largest_rows: u64,
}

/// The sources.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SourcesDescription {
    /// Taken in to their ends.
    pub complete: u64,
    /// Taken in to some place, by a run that didn't reach the end.
    pub partial: u64,
}

/// One kind of sidecar.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SidecarDescription {
    /// Segments whose sidecar is whole and fits them.
    pub fresh: u64,
    /// Segments without one.
    pub missing: u64,
    /// Segments whose sidecar is damaged.
    pub damaged: u64,
    /// Segments whose sidecar is of another segment or was made by other rules.
    pub stale: u64,
    /// Bytes of those that are there.
    pub bytes: u64,
}

/// Describes `lake` at the version that the handle sees. Reads every sidecar, and no segment.
///
/// # Errors
/// [`EngineError::Delta`](crate::error::EngineError::Delta),
/// [`EngineError::File`](crate::error::EngineError::File).
pub async fn describe(lake: &Lake) -> Result<Description> {
    let mut tables = BTreeMap::new();
    let described = [&lake.grains, &lake.state, &lake.rejects]
        .into_iter()
        .chain(&lake.sources);
    for table in described.chain([&lake.audit]) {
        tables.insert(table.name(), describe_table(table)?);
    }
    let segments = lake.segments()?;
    let rows = || segments.iter().map(|segment| segment.file.rows);
    let mut sources = SourcesDescription::default();
    for (_, progress) in Ledger::load(&lake.grains).await?.iter() {
        match progress {
            Progress::Complete => sources.complete += 1,
            Progress::Next(_) => sources.partial += 1,
        }
    }
    Ok(Description {
        lake: lake.location().name(),
        format_version: lake.grains.format_version(),
        tables,
        segments: SegmentsDescription {
            count: segments.len() as u64,
            smallest_rows: rows().min().unwrap_or(0),
            largest_rows: rows().max().unwrap_or(0),
        },
        sources,
        sidecars: sidecars(lake).await?,
    })
}

fn describe_table(table: &Table) -> Result<TableDescription> {
    let files = table.files()?;
    Ok(TableDescription {
        version: table.version(),
        files: files.len() as u64,
        rows: files.iter().map(|file| file.rows).sum(),
        bytes: files.iter().map(|file| file.size).sum(),
    })
}

/// Returns the sidecars of all segments, counted by kind and condition.
async fn sidecars(lake: &Lake) -> Result<BTreeMap<String, SidecarDescription>> {
    let mut sidecars: BTreeMap<String, SidecarDescription> = BTreeMap::new();
    for state in sidecar_states(lake).await? {
        let kind = sidecars.entry(state.index).or_default();
        kind.bytes += state.bytes.unwrap_or_default();
        *match state.condition {
            SidecarCondition::Fresh => &mut kind.fresh,
            SidecarCondition::Missing => &mut kind.missing,
            SidecarCondition::Damaged => &mut kind.damaged,
            SidecarCondition::Stale => &mut kind.stale,
        } += 1;
    }
    Ok(sidecars)
}

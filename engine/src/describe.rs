//! Describes a lake in numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Result;
use crate::index::{SidecarCondition, sidecar_states};
use crate::lake::{Lake, Ledger, ReadPosition, Table};

/// The description of a lake.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    /// Location of the lake.
    pub lake: String,
    /// Version of its layout.
    pub format_version: u32,
    /// Its tables by name.
    pub tables: BTreeMap<&'static str, TableDescription>,
    /// Its segments.
    pub segments: SegmentsDescription,
    /// Ingested sources.
    pub sources: SourcesDescription,
    /// The sidecars of its segments, by name: `addresses`, `lifecycle`, `hexastore`, `fulltext`,
    /// `words`, `fields`, and `vectors:` with each model.
    pub sidecars: BTreeMap<String, SidecarDescription>,
}

/// A table.
#[derive(Debug, Clone, Serialize)]
pub struct TableDescription {
    /// Its latest version.
    pub version: u64,
    /// Number of its live data files.
    pub files: u64,
    /// Number of its rows.
    pub rows: u64,
    /// Bytes of its live data files.
    pub bytes: u64,
}

/// The segments.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SegmentsDescription {
    /// Number of segments.
    pub count: u64,
    /// Rows of the smallest one.
    pub smallest_rows: u64,
    /// Rows of the largest one.
    pub largest_rows: u64,
}

/// The sources.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SourcesDescription {
    /// Number of sources that were ingested completely.
    pub complete: u64,
    /// Number of sources that were ingested partially, by a run that was interrupted.
    pub partial: u64,
}

/// One kind of sidecar.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SidecarDescription {
    /// Number of segments whose sidecar is intact and belongs to them.
    pub fresh: u64,
    /// Number of segments without one.
    pub missing: u64,
    /// Number of segments whose sidecar is damaged.
    pub damaged: u64,
    /// Number of segments whose sidecar belongs to another segment or was built by other rules.
    pub stale: u64,
    /// Size of the existing ones in bytes.
    pub bytes: u64,
}

/// Describes `lake` at the version of the handle. Reads every sidecar, but no segment.
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
            ReadPosition::Complete => sources.complete += 1,
            ReadPosition::Next(_) => sources.partial += 1,
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

/// Counts the sidecars of all segments by kind and condition.
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

//! Repair of sidecars that are missing, damaged, outdated or of another segment.

use gristmill_schemas::columns::GRAINS;

use super::RepairOptions;
use super::report::{RepairReport, Repaired, Unrepaired};
use super::rows::open_file;
use crate::error::Result;
use crate::index::domain_fields::FIELDS_FILE;
use crate::index::fulltext::FULLTEXT_FILE;
use crate::index::hexastore::HEXASTORE_FILE;
use crate::index::vectors::{VectorIndex, file_name, is_vector_file, vectors_of};
use crate::index::word_filter::WORDS_FILE;
use crate::index::{
    CheckedSidecar, IndexKinds, LIFECYCLE_FILE, SidecarCondition, rebuild, refresh_masks,
    states_of, vector_files,
};
use crate::lake::{Lake, Segment};
use crate::segment::SidecarFile;

/// The remedy for vectors: the lake doesn't contain what they were made from.
const VECTORS: &str = "`gristmill reindex --embed` computes vectors, and `gristmill reindex \
                       --vectors FILE` imports them";

/// The remedy for a segment that can't be read.
const SEGMENT: &str =
    "restore the segment's data file from a backup, then run `gristmill repair` again";

/// Returns the vectors of `segment`, for a segment with the same rows in the same order. Unusable
/// ones are left out.
pub(super) async fn copied_vectors(lake: &Lake, segment: &Segment) -> Result<Vec<SidecarFile>> {
    let indexes = vectors_of(lake, segment).await?;
    let copy = |index: &VectorIndex| {
        SidecarFile::whole(&file_name(index.model()), index.content().to_vec())
    };
    Ok(indexes.iter().map(copy).collect())
}

/// Rebuilds unusable sidecars from the rows of their segments. Those of a segment that can't be
/// opened are left out: they may be sound, and the segment is listed.
pub(super) async fn repair(
    lake: &Lake,
    options: &RepairOptions,
    report: &mut RepairReport,
) -> Result<()> {
    let vectors = vector_files(lake).await?;
    for segment in lake.segments()? {
        if report.unreadable.contains(&segment.file.name) {
            continue;
        }
        let found = states_of(lake, &segment, &vectors).await?;
        let (unusable, mut kinds) = (list_unusable(&segment, found, report), IndexKinds::NONE);
        for name in &unusable {
            kinds.hexastore |= name == HEXASTORE_FILE;
            kinds.full_text |= name == FULLTEXT_FILE;
            kinds.words |= name == WORDS_FILE;
            kinds.fields |= name == FIELDS_FILE;
        }
        if unusable.is_empty() {
            continue;
        }
        let made = match options.dry_run {
            true => open_file(lake, &segment).await?.map(drop),
            false => {
                let rebuilt = rebuild(lake, &segment, kinds).await;
                rebuilt.map(drop).map_err(|error| error.to_string())
            }
        };
        for name in unusable {
            let file = segment.id.sidecar(&name).to_string();
            match &made {
                Ok(()) => {
                    report.sidecars += 1;
                    let what = "the sidecar was rebuilt from the rows of its segment";
                    let (row, rows, columns) = (None, None, Vec::new());
                    report.repaired(Repaired {
                        table: GRAINS,
                        file,
                        row,
                        rows,
                        columns,
                        what,
                    });
                }
                Err(reason) => report.unrepaired(unrepaired(file, reason.clone(), SEGMENT)),
            }
        }
    }
    match options.dry_run {
        true => Ok(()),
        false => refresh_masks(lake, false).await.map(drop),
    }
}

/// Lists the files of `segment` to rebuild. Vectors can't be rebuilt, and are listed as problems.
fn list_unusable(
    segment: &Segment,
    found: Vec<CheckedSidecar>,
    report: &mut RepairReport,
) -> Vec<String> {
    let mut files = Vec::new();
    for found in found
        .into_iter()
        .filter(|found| found.state.condition != SidecarCondition::Fresh)
        .filter(|found| !is_outdated_mask(found))
    {
        if !is_vector_file(&found.file) {
            files.push(found.file);
        } else if found.state.condition != SidecarCondition::Missing {
            // A segment that is younger than the vectors of others has none, which isn't damage.
            let reason = format!("the vectors are {}", found.state.condition.name());
            report.unrepaired(unrepaired(
                segment.id.sidecar(&found.file).to_string(),
                reason,
                VECTORS,
            ));
        }
    }
    files
}

/// Returns true for a lifecycle mask that was built before files of the lake were replaced. That is
/// no damage: it is built again without being listed.
fn is_outdated_mask(found: &CheckedSidecar) -> bool {
    found.file == LIFECYCLE_FILE && found.state.condition == SidecarCondition::Stale
}

fn unrepaired(file: String, reason: String, remedy: &'static str) -> Unrepaired {
    Unrepaired::file(GRAINS, file, reason, remedy)
}

//! What a lake states about the rows of a segment outside of its data file: which grains were
//! erased, and at which seconds its grains were created.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use gristmill_schemas::columns::{AuditRow, SystemColumn};
use gristmill_schemas::error::{ErrorCode, GrainError};

use super::report::{Findings, Problem};
use crate::changes::APPLIED;
use crate::error::Result;
use crate::keys::TombstoneSet;
use crate::lake::{ADOPTED, ERASURES, Lake, REMEDY_OF_FILES, Segment, address_at, texts};
use crate::segment::{CreationSeconds, StatedBounds, creation_seconds_of};

/// The count of rows that an unfinished erasure removes.
const ERASED_ROWS: &str = "erased_rows";

/// The remedy for grains that came back after their erasure.
const ERASE_AGAIN: &str = "gristmill erase for the same people once more, or gristmill ingest \
                           --changes if the erasure came from another lake";

/// What a lake states about the rows of its segments.
#[derive(Debug, Clone, Default)]
pub(super) struct StatedRows {
    /// Erased grains, of which the lake must have none.
    erased: TombstoneSet,
    /// Grains of erasures without a certificate, while there is an unfinished one, and of erasures
    /// of other lakes that are being applied.
    leaving: TombstoneSet,
    /// The names of the data files in the newest version of the log, if anything was erased.
    live: Arc<HashSet<String>>,
    /// What the log states about the values of columns, by the names of the data files.
    bounds: Arc<HashMap<String, Arc<[StatedBounds]>>>,
}

impl StatedRows {
    /// Reads what was erased from `lake`. Damage of the tombstones is found with their table.
    ///
    /// # Errors
    /// Errors of reading a file that aren't damage.
    pub(super) async fn load(lake: &Lake) -> Result<StatedRows> {
        let erasures = match lake.tombstones_by_erasure().await {
            Err(error) if error.is_environment() => return Err(error),
            found => found.unwrap_or_default(),
        };
        let bounds = Arc::new(lake.grains.stated_bounds()?);
        if erasures.is_empty() {
            return Ok(StatedRows {
                bounds,
                ..StatedRows::default()
            });
        }
        let files = lake.location().list(ERASURES).await?;
        let names: HashSet<&str> = files
            .iter()
            .filter_map(|file| file.location.filename())
            .collect();
        let is_unfinished = names.iter().any(|name| name.ends_with(".journal"));
        let is_certified = |id: &String| names.contains(format!("{id}.cose").as_str());
        // The audit log may be long, and is read for each segment that another process checks.
        let pending = match erasures.keys().all(is_certified) {
            true => HashSet::new(),
            false => pending_adoptions(lake).await?,
        };
        let (erased, leaving): (Vec<_>, Vec<_>) = erasures.into_iter().partition(|(id, _)| {
            let is_carried_out = !is_unfinished && !pending.contains(id);
            is_carried_out || is_certified(id)
        });
        Ok(StatedRows {
            erased: erased.into_iter().flat_map(|(_, rows)| rows).collect(),
            leaving: leaving.into_iter().flat_map(|(_, rows)| rows).collect(),
            // Read after the journals: what a finished erasure replaced isn't in it.
            live: Arc::new(live_files(lake).await?),
            bounds,
        })
    }

    /// Returns what is stated about `segment`. An encrypted segment has rows of erased grains until
    /// it is merged, and states no seconds. One that was replaced since the lake was opened has
    /// those of an erasure that has finished meanwhile.
    pub(super) fn of(&self, segment: &Segment) -> SegmentStatement {
        let bounds = self.bounds.get(&segment.file.name).cloned();
        let bounds = bounds.unwrap_or_default();
        if segment.id.is_sealed() {
            return SegmentStatement {
                bounds,
                ..SegmentStatement::default()
            };
        }
        SegmentStatement {
            bounds,
            lake: match self.live.contains(&segment.file.name) {
                true => self.clone(),
                false => StatedRows::default(),
            },
            seconds: segment.file.seconds.clone(),
        }
    }
}

/// Returns the erasures of other lakes whose tombstones were added, and which are being carried out
/// on the grains of `lake`, or were until `ingest --changes` was killed. Damage of the audit log is
/// found with its table.
async fn pending_adoptions(lake: &Lake) -> Result<HashSet<String>> {
    let mut lake = lake.clone();
    // The entry is written before the tombstones, which the handle has.
    let entries = match lake.audit.refresh().await {
        Err(error) => Err(error),
        Ok(()) => lake.audit_entries().await,
    };
    match entries {
        Err(error) if error.is_environment() => Err(error),
        entries => Ok(pending_in(&entries.unwrap_or_default())),
    }
}

/// Returns the erasures that were adopted from lakes of which no later entry says that their
/// changes were applied.
fn pending_in(entries: &[AuditRow]) -> HashSet<String> {
    let mut pending: HashMap<String, HashSet<String>> = HashMap::new();
    for entry in entries {
        let Ok(details) = serde_json::from_str::<serde_json::Value>(&entry.details) else {
            continue;
        };
        let Some(other) = details.get("lake").and_then(serde_json::Value::as_str) else {
            continue;
        };
        if entry.action == APPLIED {
            pending.remove(other);
        } else if entry.action == ADOPTED {
            let erasures = details
                .get("erasures")
                .and_then(serde_json::Value::as_array);
            let names = erasures.into_iter().flatten();
            let names = names.filter_map(|name| name.as_str().map(str::to_owned));
            pending.entry(other.to_owned()).or_default().extend(names);
        }
    }
    pending.into_values().flatten().collect()
}

/// Returns the names of the data files of `grains` in the newest version of its log, or in that of
/// `lake` if its log is damaged.
async fn live_files(lake: &Lake) -> Result<HashSet<String>> {
    let mut grains = lake.grains.clone();
    match grains.refresh().await {
        Err(error) if error.is_environment() => return Err(error),
        _ => {}
    }
    Ok(grains.files()?.into_iter().map(|file| file.name).collect())
}

/// What a lake states about the rows of one segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct SegmentStatement {
    lake: StatedRows,
    /// The seconds in the log, by which grains are looked up in few segments.
    seconds: Option<CreationSeconds>,
    /// What the log states about the values of columns.
    bounds: Arc<[StatedBounds]>,
}

impl SegmentStatement {
    /// Returns what the log states about the values of columns.
    pub(super) fn bounds(&self) -> &[StatedBounds] {
        &self.bounds
    }

    /// Adds those rows of `batch` to `found` that contradict the statement. The batch begins at row
    /// `first` of the file.
    pub(super) fn check(&self, first: u64, batch: &RecordBatch, found: &mut Contradictions) {
        let StatedRows {
            erased, leaving, ..
        } = &self.lake;
        if !erased.is_empty() || !leaving.is_empty() {
            let addresses = texts(batch, SystemColumn::ContentAddress.name());
            for row in 0..batch.num_rows() {
                let Some(address) = address_at(addresses, row) else {
                    continue;
                };
                if erased.contains(&address) {
                    found.erased.add(first + row as u64);
                } else if leaving.contains(&address) {
                    found.leaving.add(first + row as u64);
                }
            }
        }
        if let Some(stated) = &self.seconds {
            // Blobs that aren't grains are reported with their rows.
            let seconds = creation_seconds_of(batch).unwrap_or_default();
            for (row, second) in seconds.into_iter().enumerate() {
                if !stated.contains(second) {
                    found.unstated.add(first + row as u64);
                }
            }
        }
    }

    /// Adds what was `found` in the rows of the data file `name` to `findings`.
    pub(super) fn report(
        &self,
        found: &Contradictions,
        name: &str,
        findings: &mut Findings,
        limit: usize,
    ) {
        let Contradictions {
            erased,
            leaving,
            unstated,
        } = found;
        if leaving.rows > 0 {
            findings.mark(ERASED_ROWS, leaving.rows);
        }
        if let Some(first) = erased.first {
            let cause = format!("{} of its rows have grains that were erased", erased.rows);
            findings.bad(problem(name, first, erased.rows, cause, ERASE_AGAIN), limit);
        }
        if let Some(first) = unstated.first {
            let cause = format!(
                "{} of its rows were created at seconds that its log doesn't state, so look-ups \
                 don't find them",
                unstated.rows
            );
            let found = problem(name, first, unstated.rows, cause, REMEDY_OF_FILES);
            findings.bad(found, limit);
        }
    }
}

/// The rows of a row group that contradict what is stated about them.
#[derive(Debug, Default)]
pub(super) struct Contradictions {
    /// The grains were erased.
    erased: ContradictingRows,
    /// The grains are removed by an unfinished erasure.
    leaving: ContradictingRows,
    /// The grains were created at seconds that the log doesn't state.
    unstated: ContradictingRows,
}

#[derive(Debug, Default)]
struct ContradictingRows {
    first: Option<u64>,
    rows: u64,
}

impl ContradictingRows {
    fn add(&mut self, row: u64) {
        self.first.get_or_insert(row);
        self.rows += 1;
    }
}

/// Returns the problem of `rows` of the data file `name`, of which `first` is the first.
fn problem(name: &str, first: u64, rows: u64, cause: String, remedy: &'static str) -> Problem {
    let error = GrainError::new(ErrorCode::Integrity, cause);
    let problem = Problem::new(name, first as i64, &error).of_grains();
    Problem {
        repair: Some(remedy.into()),
        ..problem.spanning(rows)
    }
}

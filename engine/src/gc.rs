//! Removing what isn't part of the lake: data files that no commit names or that only expired
//! versions need, sidecars of segments that are gone, and what killed processes left behind.
//!
//! Two grace periods keep others safe. Files that were changed a short while ago may belong to a
//! writer that hasn't committed yet. Files that ceased to be part of a table are needed by readers
//! of earlier versions, for as long as those are kept.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use chrono::Utc;
use gristmill_schemas::columns::GRAINS;
use object_store::ObjectMeta;
use serde::Serialize;

use crate::error::Result;
use crate::lake::{GRACE, Lake, SCRATCH, Table};
use crate::segment::{SIDECARS, SegmentId};

/// What a user can choose.
#[derive(Debug, Clone)]
pub struct GcOptions {
    /// Files that were changed within so long are kept.
    pub older_than: Duration,
    /// Files that earlier versions need are kept for so long after they ceased to be part of the
    /// newest one.
    pub retention: Duration,
    /// Tells what would be removed, and removes nothing.
    pub dry_run: bool,
}

impl Default for GcOptions {
    /// An hour for writers, Delta's own seven days for readers.
    fn default() -> Self {
        GcOptions {
            older_than: GRACE,
            retention: Duration::from_secs(7 * 86_400),
            dry_run: false,
        }
    }
}

/// The result of a garbage collection.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GcReport {
    /// Files that were removed (or would be, in a dry run).
    pub removed_files: u64,
    /// Their bytes.
    pub removed_bytes: u64,
    /// How many of them are data files.
    pub data_files: u64,
    /// How many of them are sidecars.
    pub sidecar_files: u64,
    /// How many of them are temporary files.
    pub scratch_files: u64,
    /// Data files that earlier versions still need.
    pub kept_for_versions: u64,
    /// Files that nobody needs, and that are too young to tell.
    pub kept_young: u64,
    /// True if nothing was removed because that was asked for.
    pub dry_run: bool,
    /// Wall-clock time.
    pub seconds: f64,
    /// What a dry run would remove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Removes what isn't part of `lake`.
///
/// # Errors
/// [`EngineError::Delta`](crate::error::EngineError::Delta),
/// [`EngineError::File`](crate::error::EngineError::File). What was removed before stays removed;
/// nothing of it was part of the lake.
pub async fn collect_garbage(lake: &mut Lake, options: &GcOptions) -> Result<GcReport> {
    let started = Instant::now();
    let mut sweep = Sweep::new(options);
    // Files are listed before the log is read: what is committed in between isn't taken for
    // garbage.
    let mut listed = Vec::new();
    for table in lake.tables() {
        listed.push(lake.location().list(table.name()).await?);
    }
    let sidecars = lake.location().list(SIDECARS).await?;
    let scratch = lake.location().list(SCRATCH).await?;
    lake.refresh().await?;
    let mut kept_segments = HashSet::new();
    for (table, files) in lake.tables().into_iter().zip(listed) {
        let kept = sweep.data(table, files).await?;
        if table.name() == GRAINS {
            kept_segments = kept;
        }
    }
    sweep.sidecars(sidecars, &kept_segments);
    sweep.scratch(scratch);
    let mut report = sweep.report;
    report.dry_run = options.dry_run;
    match options.dry_run {
        true => {
            report.files = sweep
                .garbage
                .iter()
                .map(|file| file.location.to_string())
                .collect()
        }
        false => remove(lake, &sweep.garbage).await?,
    }
    if report.removed_files > 0 && !options.dry_run {
        let details =
            serde_json::json!({ "files": report.removed_files, "bytes": report.removed_bytes });
        lake.record("gc", details).await?;
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

async fn remove(lake: &Lake, garbage: &[ObjectMeta]) -> Result<()> {
    let mut folders = HashSet::new();
    for file in garbage {
        lake.location().delete(&file.location).await?;
        let parent = lake
            .location()
            .local_path(&file.location)
            .and_then(|path| path.parent().map(Into::into));
        folders.extend(parent.filter(|_| file.location.as_ref().starts_with(SIDECARS)));
    }
    for folder in folders {
        let folder: std::path::PathBuf = folder;
        // One that isn't empty stays.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(())
}

/// Sorting files into those that stay and those that go.
struct Sweep<'o> {
    options: &'o GcOptions,
    /// Milliseconds since 1970.
    now: i64,
    report: GcReport,
    garbage: Vec<ObjectMeta>,
}

impl<'o> Sweep<'o> {
    fn new(options: &'o GcOptions) -> Sweep<'o> {
        Sweep {
            options,
            now: Utc::now().timestamp_millis(),
            report: GcReport::default(),
            garbage: Vec::new(),
        }
    }

    fn is_within(&self, instant: i64, period: Duration) -> bool {
        self.now.saturating_sub(instant) < i64::try_from(period.as_millis()).unwrap_or(i64::MAX)
    }

    /// Looks at a table's data files; answers the names of those that stay.
    async fn data(&mut self, table: &Table, files: Vec<ObjectMeta>) -> Result<HashSet<String>> {
        let live: HashSet<String> = table.files()?.into_iter().map(|file| file.name).collect();
        let removed: HashMap<String, i64> = table.tombstones().await?.into_iter().collect();
        let mut kept = HashSet::new();
        for file in files {
            let Some(name) = data_file_name(&file, table) else {
                continue;
            };
            let needed = removed
                .get(&name)
                .is_some_and(|instant| self.is_within(*instant, self.options.retention));
            if !live.contains(&name) && needed {
                self.report.kept_for_versions += 1;
            } else if !live.contains(&name) && self.discard(file) {
                self.report.data_files += 1;
                continue;
            }
            kept.insert(name);
        }
        Ok(kept)
    }

    /// Looks at sidecars: each stays as long as its segment.
    fn sidecars(&mut self, files: Vec<ObjectMeta>, segments: &HashSet<String>) {
        for file in files {
            let parts: Vec<_> = file.location.parts().collect();
            // What lies beside the segments' folders is of the whole lake.
            let [_, segment, _, ..] = parts.as_slice() else {
                continue;
            };
            let data = SegmentId::of_folder(segment.as_ref()).file_name();
            if !segments.contains(&data) && self.discard(file) {
                self.report.sidecar_files += 1;
            }
        }
    }

    fn scratch(&mut self, files: Vec<ObjectMeta>) {
        for file in files {
            if self.discard(file) {
                self.report.scratch_files += 1;
            }
        }
    }

    /// Throws `file` away unless it is too young.
    fn discard(&mut self, file: ObjectMeta) -> bool {
        if self.is_within(
            file.last_modified.timestamp_millis(),
            self.options.older_than,
        ) {
            self.report.kept_young += 1;
            return false;
        }
        self.report.removed_files += 1;
        self.report.removed_bytes += file.size;
        self.garbage.push(file);
        true
    }
}

/// The name of a data file of `table`; `None` for the log and whatever else isn't ours.
fn data_file_name(file: &ObjectMeta, table: &Table) -> Option<String> {
    let parts: Vec<_> = file.location.parts().collect();
    let [folder, name] = parts.as_slice() else {
        return None;
    };
    let name = name.as_ref();
    (folder.as_ref() == table.name() && name.ends_with(".parquet")).then(|| name.to_owned())
}

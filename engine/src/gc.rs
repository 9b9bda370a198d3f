//! Garbage collection: removes data files that no commit references or that only expired versions
//! need, sidecars of removed segments, and files that killed processes left.
//!
//! Two grace periods protect others. Recently changed files may belong to a writer that hasn't
//! committed yet. Files that were removed from a table are needed by readers of earlier versions,
//! for as long as these are retained.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use chrono::Utc;
use gristmill_schemas::columns::GRAINS;
use object_store::ObjectMeta;
use object_store::path::Path;
use serde::Serialize;

use crate::error::Result;
use crate::lake::{GRACE, Lake, SCRATCH, Table, is_staged};
use crate::segment::{SIDECARS, SegmentId};

/// The options of a garbage collection.
#[derive(Debug, Clone)]
pub struct GcOptions {
    /// Files that were changed within this time are kept.
    pub older_than: Duration,
    /// Removed files are kept for earlier versions for this time.
    pub retention: Duration,
    /// Only reports what would be removed.
    pub dry_run: bool,
}

impl Default for GcOptions {
    /// One hour for writers, and Delta's own seven days for readers.
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
    /// Their size in bytes.
    pub removed_bytes: u64,
    /// The number of data files among them.
    pub data_files: u64,
    /// The number of sidecars among them.
    pub sidecar_files: u64,
    /// The number of temporary files among them.
    pub scratch_files: u64,
    /// Data files that earlier versions still need.
    pub kept_for_versions: u64,
    /// Unreferenced files that are younger than the grace period.
    pub kept_young: u64,
    /// True for a dry run.
    pub dry_run: bool,
    /// Wall-clock time.
    pub seconds: f64,
    /// The files that a dry run would remove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Removes what isn't part of `lake`.
///
/// # Errors
/// [`EngineError::Delta`](crate::error::EngineError::Delta),
/// [`EngineError::File`](crate::error::EngineError::File). Files that were removed before stay
/// removed; none of them was part of the lake.
pub async fn collect_garbage(lake: &mut Lake, options: &GcOptions) -> Result<GcReport> {
    let started = Instant::now();
    // A dry run writes nothing, and its report may be imprecise.
    let now = match options.dry_run {
        true => Utc::now(),
        false => lake.location().file_time().await?,
    };
    let mut sweep = Sweep::new(options, now.timestamp_millis());
    // Files are listed before the log is read, so that files of commits in between aren't removed.
    let mut listed = Vec::new();
    for table in lake.tables() {
        listed.push(lake.location().list(table.name()).await?);
    }
    let mut sidecars = lake.location().list(SIDECARS).await?;
    let mut scratch = lake.location().list(SCRATCH).await?;
    scratch.extend(lake.location().staged_files().await?);
    for files in [&mut sidecars, &mut scratch] {
        files.retain(|file| lake.location().is_own(file));
    }
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
    let Sweep {
        mut report,
        garbage,
        ..
    } = sweep;
    report.dry_run = options.dry_run;
    if options.dry_run {
        let names = garbage.iter().map(|file| file.location.to_string());
        report.files = names.collect();
    } else {
        remove(lake, &garbage, &mut report).await?;
        lake.location().retain_cached(&lake.segments()?)?;
        record(lake, &report).await?;
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Records in the audit log that files were removed, if any were.
async fn record(lake: &mut Lake, report: &GcReport) -> Result<()> {
    if report.removed_files == 0 {
        return Ok(());
    }
    let details =
        serde_json::json!({ "files": report.removed_files, "bytes": report.removed_bytes });
    lake.record("gc", details).await?;
    Ok(())
}

/// Files that are removed between two reads of the tables.
const REMOVED_AT_ONCE: usize = 64;

/// Removes `garbage`, except files that a slow writer has committed since it was found, which
/// `report` doesn't count then.
async fn remove(lake: &mut Lake, garbage: &[ObjectMeta], report: &mut GcReport) -> Result<()> {
    let mut folders: HashSet<PathBuf> = HashSet::new();
    for files in garbage.chunks(REMOVED_AT_ONCE) {
        lake.refresh().await?;
        let live = live_files(lake)?;
        for file in files {
            if live.contains(&data_file_of(file, lake)) {
                report.keep(file);
                continue;
            }
            lake.location().delete(&file.location).await?;
            let parent = lake
                .location()
                .local_path(&file.location)
                .and_then(|path| path.parent().map(Into::into));
            folders.extend(parent.filter(|_| is_sidecar(file)));
        }
    }
    for folder in folders {
        // A folder that isn't empty stays.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(())
}

/// Returns the paths of the live files of all tables.
fn live_files(lake: &Lake) -> Result<HashSet<Path>> {
    let mut live = HashSet::new();
    for table in lake.tables() {
        let files = table.files()?.into_iter();
        live.extend(files.map(|file| table.path_of(&file.name)));
    }
    Ok(live)
}

/// Returns the path of the data file to which a sidecar belongs, or that of `file` itself.
fn data_file_of(file: &ObjectMeta, lake: &Lake) -> Path {
    match segment_of(file) {
        Some(segment) => lake.grains.path_of(&segment.file_name()),
        None => file.location.clone(),
    }
}

/// Returns the segment of a sidecar. `None` for sidecars of the whole lake, which are outside of
/// the segments' folders, and for other files.
fn segment_of(file: &ObjectMeta) -> Option<SegmentId> {
    let parts: Vec<_> = file.location.parts().collect();
    let [_, segment, _, ..] = parts.as_slice() else {
        return None;
    };
    // An incomplete file belongs to no segment.
    let is_whole = !file.location.filename().is_some_and(is_staged);
    (is_whole && is_sidecar(file)).then(|| SegmentId::of_folder(segment.as_ref()))
}

fn is_sidecar(file: &ObjectMeta) -> bool {
    let folder = file.location.parts().next();
    folder.is_some_and(|folder| folder.as_ref() == SIDECARS)
}

impl GcReport {
    /// Subtracts `file`, a data file or a sidecar that isn't removed after all.
    fn keep(&mut self, file: &ObjectMeta) {
        self.removed_files -= 1;
        self.removed_bytes -= file.size;
        match is_sidecar(file) {
            true => self.sidecar_files -= 1,
            false => self.data_files -= 1,
        }
    }
}

/// The decision which files are removed.
struct Sweep<'o> {
    options: &'o GcOptions,
    /// Milliseconds since 1970.
    now: i64,
    report: GcReport,
    garbage: Vec<ObjectMeta>,
}

impl<'o> Sweep<'o> {
    fn new(options: &'o GcOptions, now: i64) -> Sweep<'o> {
        Sweep {
            options,
            now,
            report: GcReport::default(),
            garbage: Vec::new(),
        }
    }

    fn is_within(&self, instant: i64, period: Duration) -> bool {
        self.now.saturating_sub(instant) < i64::try_from(period.as_millis()).unwrap_or(i64::MAX)
    }

    /// Checks the data files of a table. Returns the names of those that are kept.
    async fn data(&mut self, table: &Table, files: Vec<ObjectMeta>) -> Result<HashSet<String>> {
        let live: HashSet<String> = table.files()?.into_iter().map(|file| file.name).collect();
        let removed: HashMap<String, i64> = table.tombstones().await?.into_iter().collect();
        let mut kept = HashSet::new();
        for file in files {
            let Some(name) = data_file_name(&file, table) else {
                continue;
            };
            if live.contains(&name) || self.keeps(file, removed.get(&name).copied()) {
                kept.insert(name);
            }
        }
        Ok(kept)
    }

    /// Returns whether a data file that isn't live is kept, and counts it. `removed` is when it was
    /// removed from the table.
    fn keeps(&mut self, file: ObjectMeta, removed: Option<i64>) -> bool {
        if removed.is_some_and(|instant| self.is_within(instant, self.options.retention)) {
            self.report.kept_for_versions += 1;
            return true;
        }
        let is_discarded = self.discard(file);
        if is_discarded {
            self.report.data_files += 1;
        }
        !is_discarded
    }

    /// Checks sidecars. Each is kept as long as its segment.
    fn sidecars(&mut self, files: Vec<ObjectMeta>, segments: &HashSet<String>) {
        for file in files {
            let Some(segment) = segment_of(&file) else {
                continue;
            };
            if !segments.contains(&segment.file_name()) && self.discard(file) {
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

    /// Removes `file` unless it is too young.
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

/// Returns the name of a data file of `table`, or `None` for files of the log and of others.
pub(crate) fn data_file_name(file: &ObjectMeta, table: &Table) -> Option<String> {
    let parts: Vec<_> = file.location.parts().collect();
    let [folder, name] = parts.as_slice() else {
        return None;
    };
    let name = name.as_ref();
    (folder.as_ref() == table.name() && name.ends_with(".parquet")).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::columns::{LifecycleEvent, STATE, StateRow};

    use super::*;
    use crate::lake::Change;

    async fn data_files(lake: &Lake) -> Vec<ObjectMeta> {
        let mut files = lake.location().list(STATE).await.unwrap();
        files.retain(|file| data_file_name(file, &lake.state).is_some());
        files
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_that_a_slow_writer_commits_after_it_was_found_stays() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let mut lake = Lake::open_or_create(&place).await.unwrap();
        let mut writer = Lake::open_or_create(&place).await.unwrap();
        let events = [StateRow {
            content_address: "0".repeat(64),
            event: LifecycleEvent::Expired,
            value: None,
            at: 0,
            actor: None,
            reason: None,
            source_id: None,
        }];
        let slow = writer.write_events(&events).await.unwrap();
        writer.write_events(&events).await.unwrap();
        let garbage = data_files(&lake).await;
        let mut report = GcReport {
            removed_files: 2,
            removed_bytes: garbage.iter().map(|file| file.size).sum(),
            data_files: 2,
            ..GcReport::default()
        };
        let change = Change::of_new_rows(slow.clone());
        writer.state.commit(change, "test", 0).await.unwrap();
        remove(&mut lake, &garbage, &mut report).await.unwrap();
        let left = data_files(&lake).await;
        let names: Vec<_> = left.iter().map(|file| file.location.clone()).collect();
        assert_eq!(names, [lake.state.path_of(&slow.name)]);
        assert_eq!((report.removed_files, report.data_files), (1, 1));
    }
}

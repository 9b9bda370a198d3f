//! Seals the content of a lake, and reseals it with new keys.
//!
//! A segment is read some row groups at a time, opened if it was sealed, sealed, sorted in the
//! order of sealed segments, and written; one commit replaces the old segment by the new ones.
//! Addresses don't change. At the end, the old files and older entries of the log are purged, and
//! the secrets of replaced keys are destroyed. A run that was killed is simply run again: segments
//! that are sealed with current keys are skipped.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use gristmill_schemas::columns::{SystemColumn, grains_schema};
use serde::Serialize;

use crate::error::{Context, EngineError, Result};
use crate::index::{IndexBuilder, IndexKinds, SegmentBuilder, refresh_subjects};
use crate::keys::{ErasedRows, KeyDisposition, KeyId, LakeKeys, key_of};
use crate::lake::{
    Change, DataFile, Lake, LakeFile, LakeLocation, Purged, Segment, Table, disclosed_rows_in,
    is_sealed_file,
};
use crate::segment::{ROW_GROUP_ROWS, SegmentId, WrittenSegment};

/// Result of sealing.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SealReport {
    /// Number of segments of the lake before.
    pub segments: u64,
    /// Number of segments that were rewritten.
    pub rewritten: u64,
    /// Number of their rows.
    pub rows: u64,
    /// Number of rows that were left out because their keys were destroyed.
    pub erased_rows: u64,
    /// Number of bytes written.
    pub bytes_written: u64,
    /// Number of files of the small tables that were rewritten.
    pub table_files: u64,
    /// Number of keys that were renewed.
    pub keys_renewed: u64,
    /// Files that were purged.
    pub removed: Purged,
    /// Wall-clock time in seconds.
    pub seconds: f64,
    /// Version of `grains` afterwards.
    pub version: u64,
}

/// How often a commit is retried after commits of other writers.
const COMMIT_ATTEMPTS: usize = 10;

/// Maximal number of bytes of row groups in memory.
const CHUNK_BYTES: u64 = 256 << 20;

/// Seals all open data of `lake`, which must be encrypted ([`Lake::enable_encryption`]) and
/// unlocked. With `exclusive`, no other process writes to it, and unreferenced files are removed
/// whatever their age.
///
/// # Errors
/// [`EngineError::Key`]; [`EngineError::Conflict`] if another writer removed a segment that was
/// being sealed; [`EngineError::Damaged`] if a table contradicts the others, which the purge would
/// hide; errors of the lake.
pub async fn encrypt(lake: &mut Lake, exclusive: bool) -> Result<SealReport> {
    let (started, keys) = (Instant::now(), keys_of(lake)?);
    lake.refresh().await?;
    lake.check_stated_versions().await?;
    let report = seal_open(lake, &keys, exclusive).await?;
    finish(lake, "encrypt", exclusive, started, report).await
}

/// Seals the open segments and files that `lake` has, and those of commits that the handle doesn't
/// see yet in tables without files. In other tables such a commit is a conflict.
async fn seal_open(lake: &mut Lake, keys: &Arc<LakeKeys>, exclusive: bool) -> Result<SealReport> {
    if !exclusive {
        overtake_writers(lake).await?;
    }
    let segments = lake.segments()?;
    let mut report = SealReport {
        segments: segments.len() as u64,
        ..SealReport::default()
    };
    for segment in segments.iter().filter(|segment| !segment.id.is_sealed()) {
        rewrite(lake, segment, keys, &mut report).await?;
    }
    report.table_files = reseal_tables(lake, keys, |name| !is_sealed_file(name)).await?;
    Ok(report)
}

/// Commits an empty change to each table without files, so that writers which opened the lake
/// before it was encrypted conflict with it and then read that the lake is encrypted; in other
/// tables they conflict with the commits of sealed files. The files of a writer that committed
/// first are in the handle afterwards, so this precedes the search for open files.
async fn overtake_writers(lake: &mut Lake) -> Result<()> {
    let tables = [&mut lake.grains, &mut lake.rejects, &mut lake.state];
    for table in tables.into_iter().chain(lake.sources.as_mut()) {
        if table.files()?.is_empty() {
            table
                .commit(Change::default(), "seal", COMMIT_ATTEMPTS)
                .await?;
        }
    }
    Ok(())
}

/// Renews the keys of `users` (of all users of the lake and of grains without a user, if none are
/// named), and reseals their data. Addresses and tokens don't change. With `exclusive`, which
/// states that no other process writes, the old keys are retired; without it, they remain usable
/// for other writers until a rotation with it, which then needs no new ones. Keys of other lakes in
/// the same store stay as they are.
///
/// # Errors
/// As [`encrypt`]; [`EngineError::Request`] if a user has no key.
pub async fn rotate(lake: &mut Lake, users: &[String], exclusive: bool) -> Result<SealReport> {
    let (started, keys) = (Instant::now(), keys_of(lake)?);
    lake.refresh().await?;
    lake.check_stated_versions().await?;
    let used = keys_in_use(lake).await?;
    let wanted = people(&keys, users, &used)?;
    let mut report = SealReport {
        segments: lake.segments()?.len() as u64,
        ..SealReport::default()
    };
    let fresh: Vec<KeyId> = wanted
        .iter()
        .filter(|(id, generations)| needs_new_key(id, generations, &used, exclusive))
        .map(|(id, _)| *id)
        .collect();
    keys.renew(&fresh)?;
    report.keys_renewed = wanted.len() as u64;
    for segment in lake
        .segments()?
        .into_iter()
        .filter(|segment| segment.id.is_sealed())
    {
        if holds_outdated(lake, &segment, &keys).await? {
            rewrite(lake, &segment, &keys, &mut report).await?;
        }
    }
    if wanted.contains_key(&keys.id_of(None)) {
        report.table_files = reseal_tables(lake, &keys, is_sealed_file).await?;
    }
    let report = finish(lake, "rotate-keys", exclusive, started, report).await?;
    // Another writer may have cached the old key and still seal with it.
    if exclusive {
        keys.end(&replaced(&keys, &wanted), KeyDisposition::Retired)?;
    }
    Ok(report)
}

/// Returns the keys of the people `wanted` that have a newer generation.
fn replaced(keys: &LakeKeys, wanted: &BTreeMap<KeyId, Vec<u32>>) -> Vec<KeyVersion> {
    let usable = keys.usable();
    // Keys are ascending, so that the last generation of each person remains.
    let newest: BTreeMap<KeyId, u32> = usable.iter().copied().collect();
    let is_replaced = |(id, generation): &KeyVersion| {
        newest.get(id).is_some_and(|newest| newest > generation) && wanted.contains_key(id)
    };
    usable.into_iter().filter(is_replaced).collect()
}

fn keys_of(lake: &Lake) -> Result<Arc<LakeKeys>> {
    lake.keys_to_write()?.ok_or_else(|| {
        EngineError::Request(
            "the lake isn't encrypted; `gristmill keys encrypt` makes it so".to_owned(),
        )
    })
}

/// A key and its generation.
type KeyVersion = (KeyId, u32);

/// Returns the keys with which rows of `lake` are sealed, as their envelopes state.
async fn keys_in_use(lake: &Lake) -> Result<BTreeSet<KeyVersion>> {
    let mut used = BTreeSet::new();
    for segment in lake.segments()?.iter().filter(|it| it.id.is_sealed()) {
        let path = lake.grains.path_of(&segment.file.name);
        let file = LakeFile::open(lake, &path).await?;
        let read = tokio::task::spawn_blocking(move || keys_of_rows(&file)).await;
        used.extend(read.file("can't read", &path)??);
    }
    Ok(used)
}

/// Returns the keys with which the rows of `file` are sealed.
fn keys_of_rows(file: &LakeFile) -> Result<BTreeSet<KeyVersion>> {
    let mut used = BTreeSet::new();
    each_envelope(file, |envelope| {
        used.extend(key_of(envelope));
        true
    })?;
    Ok(used)
}

/// Returns whether a person whose usable keys have these `generations`, ascending, gets a new key.
/// If there are several, the newest is of a rotation that was killed, when rows are still sealed
/// with an older one, or of one without `exclusive`, which one with it completes.
fn needs_new_key(
    id: &KeyId,
    generations: &[u32],
    used: &BTreeSet<KeyVersion>,
    exclusive: bool,
) -> bool {
    let [older @ .., _] = generations else {
        return false;
    };
    let is_killed = older
        .iter()
        .any(|generation| used.contains(&(*id, *generation)));
    older.is_empty() || !exclusive && !is_killed
}

/// Returns the generations of the usable keys of `users`; if none are named, of everybody with a
/// key among `used`, and of what belongs to nobody. The store may have keys of other lakes, whose
/// rows this one doesn't have.
fn people(
    keys: &LakeKeys,
    users: &[String],
    used: &BTreeSet<KeyVersion>,
) -> Result<BTreeMap<KeyId, Vec<u32>>> {
    let mut people: BTreeMap<KeyId, Vec<u32>> = BTreeMap::new();
    keys.usable()
        .into_iter()
        .for_each(|(id, generation)| people.entry(id).or_default().push(generation));
    if users.is_empty() {
        let own = used.iter().map(|(id, _)| *id);
        let own: HashSet<KeyId> = own.chain([keys.id_of(None)]).collect();
        people.retain(|id, _| own.contains(id));
        return Ok(people);
    }
    let mut wanted = HashSet::new();
    for user in users {
        let id = keys.id_of(Some(user));
        if !people.contains_key(&id) {
            return Err(EngineError::Request(format!(
                "there is no key of the user `{user}`"
            )));
        }
        wanted.insert(id);
    }
    people.retain(|id, _| wanted.contains(id));
    Ok(people)
}

async fn holds_outdated(lake: &Lake, segment: &Segment, keys: &Arc<LakeKeys>) -> Result<bool> {
    let path = lake.grains.path_of(&segment.file.name);
    let (file, keys) = (LakeFile::open(lake, &path).await?, Arc::clone(keys));
    tokio::task::spawn_blocking(move || has_outdated_row(&file, &keys))
        .await
        .file("can't read", &path)?
}

/// Returns whether a row of `file` is sealed with an outdated key.
fn has_outdated_row(file: &LakeFile, keys: &LakeKeys) -> Result<bool> {
    let mut found = false;
    each_envelope(file, |envelope| {
        found = keys.is_outdated(envelope);
        !found
    })?;
    Ok(found)
}

/// Calls `visit` with the envelopes of the rows of `file`, as long as it returns true.
fn each_envelope(file: &LakeFile, mut visit: impl FnMut(&[u8]) -> bool) -> Result<()> {
    for batch in file.stored_rows(Some(&[SystemColumn::Blob.name()]))? {
        let batch = batch.file("can't read", "a segment")?;
        let blobs = batch
            .column(0)
            .as_binary_opt::<i32>()
            .ok_or("no blobs")
            .file("can't read", "a segment")?;
        if !blobs.iter().flatten().all(&mut visit) {
            break;
        }
    }
    Ok(())
}

/// Replaces `segment` by sealed segments.
async fn rewrite(
    lake: &mut Lake,
    segment: &Segment,
    keys: &Arc<LakeKeys>,
    report: &mut SealReport,
) -> Result<()> {
    let file = LakeFile::open(lake, &lake.grains.path_of(&segment.file.name)).await?;
    let mut change = Change {
        removed: vec![segment.file.clone()],
        ..Change::default()
    };
    for groups in chunks(&file.uncompressed_bytes()) {
        let (location, file, keys) = (lake.location().clone(), file.clone(), Arc::clone(keys));
        let job = tokio::task::spawn_blocking(move || seal(&location, &file, groups, &keys));
        let written = job.await.task("a segment")??;
        if written.file.rows > 0 {
            report.bytes_written += written.file.size;
            lake.publish_segment(&mut change, written).await?;
        }
    }
    let rows: u64 = change.added.iter().map(|file| file.rows).sum();
    report.rewritten += 1;
    report.rows += rows;
    report.erased_rows += segment.file.rows.saturating_sub(rows);
    change.changes_rows = rows != segment.file.rows;
    lake.grains.commit(change, "seal", 0).await?;
    Ok(())
}

/// Splits row groups, of which `bytes` are the sizes, into ranges that fit into memory.
fn chunks(bytes: &[u64]) -> Vec<Range<usize>> {
    let mut chunks: Vec<Range<usize>> = Vec::new();
    let mut held = 0;
    for (number, bytes) in bytes.iter().enumerate() {
        match chunks.last_mut().filter(|_| held + bytes <= CHUNK_BYTES) {
            Some(chunk) => chunk.end = number + 1,
            None => {
                held = 0;
                chunks.push(number..number + 1);
            }
        }
        held += bytes;
    }
    chunks
}

/// Seals the rows of some row groups into one segment.
fn seal(
    location: &LakeLocation,
    file: &LakeFile,
    groups: Range<usize>,
    keys: &LakeKeys,
) -> Result<WrittenSegment> {
    let (sealed, copies) = sealed_rows(file, groups, keys)?;
    let id = SegmentId::new_sealed(true);
    let index = IndexBuilder::new(IndexKinds::NONE);
    let segment = SegmentBuilder::create(location, id, grains_schema(), index)?;
    for (number, first) in (0..sealed.num_rows()).step_by(ROW_GROUP_ROWS).enumerate() {
        let rows = ROW_GROUP_ROWS.min(sealed.num_rows() - first);
        // Sealing sorts the rows, so the copies are counted once for all row groups.
        let copies = copies.map(|copies| if number == 0 { copies } else { 0 });
        segment.write_row_group(number, sealed.slice(first, rows), copies)?;
    }
    segment.finish()
}

/// Reads the rows of some row groups, opens them if they are sealed, and seals them with current
/// keys, in the order of a sealed segment. Returns also how many are disclosed copies.
fn sealed_rows(
    file: &LakeFile,
    groups: Range<usize>,
    keys: &LakeKeys,
) -> Result<(RecordBatch, Option<u64>)> {
    let stored = file.is_sealed().then(|| LakeKeys::sealed_columns(None));
    let mut rows = Vec::new();
    for group in groups {
        for batch in file.stored_row_group(group, stored.as_deref())? {
            let batch = batch.file("can't read", "a segment")?;
            rows.push(if file.is_sealed() {
                keys.open_rows(&batch, None, ErasedRows::Dropped)?
            } else {
                batch
            });
        }
    }
    let rows = concat_batches(&grains_schema(), &rows).file("can't join", "a segment")?;
    Ok((keys.seal_rows(&rows)?, disclosed_rows_in(&rows)))
}

/// Seals the files of `rejects`, `state` and `sources` for whose names `which` holds. Returns their
/// number.
async fn reseal_tables(
    lake: &mut Lake,
    keys: &LakeKeys,
    which: impl Fn(&str) -> bool,
) -> Result<u64> {
    let mut count = 0;
    let tables: Vec<Table> = [&lake.rejects, &lake.state]
        .into_iter()
        .chain(&lake.sources)
        .cloned()
        .collect();
    for mut own in tables {
        let mut change = Change::default();
        for file in own.files()?.into_iter().filter(|file| which(&file.name)) {
            reseal_file(lake, &own, keys, &file, &mut change).await?;
            change.removed.push(file);
            count += 1;
        }
        if !change.removed.is_empty() {
            own.commit(change, "seal", 0).await?;
        }
    }
    lake.refresh().await?;
    Ok(count)
}

/// Bytes in memory of the rows of one file that is sealed again.
const RESEALED_BYTES: usize = 32 << 20;

/// Seals the rows of `file`, a file of the small table `own`, with current keys, and adds the new
/// files to `change`: one, unless its rows are large.
async fn reseal_file(
    lake: &Lake,
    own: &Table,
    keys: &LakeKeys,
    file: &DataFile,
    change: &mut Change,
) -> Result<()> {
    let open = LakeFile::open(lake, &own.path_of(&file.name)).await?;
    let mut batches = open.stored_rows(None)?.peekable();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(batch) = batches.next() {
        let batch = batch.file("can't read", &file.name)?;
        let batch = match open.is_sealed() {
            true => keys.open_cells(&batch)?,
            false => batch,
        };
        let schema = batch.schema();
        bytes += batch.get_array_memory_size();
        rows.push(batch);
        if bytes >= RESEALED_BYTES || batches.peek().is_none() {
            let joined = concat_batches(&schema, &rows).file("can't join", &file.name)?;
            change.added.push(lake.write_sealed(own, &joined).await?);
            (rows, bytes) = (Vec::new(), 0);
        }
    }
    Ok(())
}

/// Purges unreferenced files, and records the action in the audit log.
async fn finish(
    lake: &mut Lake,
    action: &str,
    exclusive: bool,
    started: Instant,
    mut report: SealReport,
) -> Result<SealReport> {
    refresh_subjects(lake, false).await?;
    report.removed = lake.purge(exclusive).await?;
    report.version = lake.grains.version();
    let details = serde_json::json!({
        "segments": report.rewritten,
        "rows": report.rows,
        "erased_rows": report.erased_rows,
        "keys": report.keys_renewed,
        "version": report.version,
    });
    lake.record(action, details).await?;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

#[cfg(test)]
mod tests;

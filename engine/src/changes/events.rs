//! Lifecycle events: reading those that were added since a version, and adding those of a bundle
//! that the lake doesn't have.
//!
//! Events of grains that are new in a bundle are committed before the grains, and those that close
//! a grain of the lake by a grain of the bundle after them, as at ingest: no grain is visible
//! before what is known against it, and none is closed by a grain that isn't there.

use std::collections::HashSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use gristmill_schemas::columns::{LifecycleEvent, StateRow};

use super::bundle::{Bundle, EventLine};
use crate::error::{Context, EngineError, Result};
use crate::lake::{AddressCatalog, Change, DataFile, Lake, LakeFile, text_of};

/// Events of a bundle that are compared with those of the lake at a time. Each costs 16 bytes, and
/// some 300 if it is new.
const CHUNK_EVENTS: usize = 1 << 18;

/// How often a commit is retried after commits of other writers.
const ATTEMPTS: usize = 10;

/// Calls `visit` with every event in the data file `file` of `state`.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File),
/// [`EngineError::Key`](crate::error::EngineError::Key); errors of `visit`.
pub(super) async fn each_event(
    lake: &Lake,
    file: &DataFile,
    mut visit: impl FnMut(EventLine) -> Result<()>,
) -> Result<()> {
    let file = LakeFile::open(lake, &lake.state.path_of(&file.name)).await?;
    for number in 0..file.row_groups().len() {
        for batch in file.row_group(number, &[])? {
            let batch = batch?;
            (0..batch.num_rows()).try_for_each(|row| visit(event_at(&batch, row)))?;
        }
    }
    Ok(())
}

fn event_at(batch: &RecordBatch, row: usize) -> EventLine {
    let text = |name| text_of(batch, name, row).map(str::to_owned);
    let at = batch
        .column_by_name("at")
        .and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>())
        .map_or(0, |column| column.value(row));
    EventLine {
        content_address: text("content_address").unwrap_or_default(),
        event: text("event").unwrap_or_default(),
        value: text("value"),
        at,
        actor: text("actor"),
        reason: text("reason"),
        source_id: text("source_id"),
    }
}

/// The first half of a hash over all cells of an event.
type EventKey = [u8; 16];

fn key_of(event: &EventLine) -> EventKey {
    let mut hasher = blake3::Hasher::new();
    let cells = [
        Some(&event.content_address),
        Some(&event.event),
        event.value.as_ref(),
        event.actor.as_ref(),
        event.reason.as_ref(),
        event.source_id.as_ref(),
    ];
    for cell in cells {
        let length = cell.map_or(u64::MAX, |cell| cell.len() as u64);
        hasher.update(&length.to_le_bytes());
        hasher.update(cell.map(String::as_bytes).unwrap_or_default());
    }
    hasher.update(&event.at.to_le_bytes());
    let mut key = EventKey::default();
    key.copy_from_slice(hasher.finalize().as_bytes().get(..16).unwrap_or(&[0; 16]));
    key
}

/// Which events of a bundle are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventPhase {
    /// Those that must be there before the bundle's grains: all except the others.
    BeforeGrains,
    /// All that are left. Before, those were left out that close a grain of the lake by a grain
    /// that it doesn't have.
    AfterGrains,
}

/// Adds the events of `bundle` that the lake doesn't have, without the names of erased grains.
/// Returns their number.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if an event isn't of a known kind;
/// [`EngineError::Conflict`](crate::error::EngineError::Conflict); errors of the lake.
pub(super) async fn add_events(lake: &mut Lake, bundle: &Bundle, phase: EventPhase) -> Result<u64> {
    lake.refresh().await?;
    let mut catalog = AddressCatalog::load(lake).await?;
    let known = catalog.all().await?;
    let is_late = |row: &StateRow| {
        let in_lake = |text: &str| {
            text.parse()
                .is_ok_and(|address| known.find(&address).is_some())
        };
        let successor = row.value.as_deref();
        row.event == LifecycleEvent::Superseded
            && successor.is_some_and(|successor| !in_lake(successor))
            && in_lake(&row.content_address)
    };
    let mut added = 0;
    let mut chunk = Vec::new();
    for event in bundle.events() {
        let row = state_row(event?)?;
        if phase == EventPhase::AfterGrains || !is_late(&row) {
            chunk.push(row);
        }
        if chunk.len() >= CHUNK_EVENTS {
            added += add_missing(lake, &mut catalog, std::mem::take(&mut chunk)).await?;
        }
    }
    Ok(added + add_missing(lake, &mut catalog, chunk).await?)
}

fn state_row(event: EventLine) -> Result<StateRow> {
    let kind = LifecycleEvent::from_name(&event.event)
        .ok_or("this program doesn't know it; a later release wrote the bundle");
    Ok(StateRow {
        event: kind.file("can't apply the event", &event.event)?,
        content_address: event.content_address,
        value: event.value,
        at: event.at,
        actor: event.actor,
        reason: event.reason,
        source_id: event.source_id,
    })
}

fn line_of(row: &StateRow) -> EventLine {
    EventLine {
        content_address: row.content_address.clone(),
        event: row.event.name().to_owned(),
        value: row.value.clone(),
        at: row.at,
        actor: row.actor.clone(),
        reason: row.reason.clone(),
        source_id: row.source_id.clone(),
    }
}

/// Commits those of `rows` that `state` doesn't have, without the names of erased grains, and
/// returns their number. Reads both tables once for each attempt: another process may apply the
/// same bundle, or erase grains, which makes an attempt that is under way a conflict.
async fn add_missing(
    lake: &mut Lake,
    catalog: &mut AddressCatalog,
    mut rows: Vec<StateRow>,
) -> Result<u64> {
    for _ in 0..ATTEMPTS {
        lake.erased.refresh().await?;
        catalog.refresh_erased(lake).await?;
        let permitted = rows.into_iter().flat_map(|row| catalog.permitted(row));
        rows = permitted.collect();
        retain_missing(lake, &mut rows).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let change = Change::of_new_rows(lake.write_events(&rows).await?);
        match lake.state.commit(change, "changes", 0).await {
            Err(EngineError::Conflict(_)) => lake.state.refresh().await?,
            committed => return committed.map(|_| rows.len() as u64),
        }
    }
    Err(EngineError::Conflict(format!(
        "other writers were faster {ATTEMPTS} times"
    )))
}

/// Removes from `rows` those that `state` has, and all but the first of equal ones.
async fn retain_missing(lake: &Lake, rows: &mut Vec<StateRow>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut missing: HashSet<EventKey> = rows.iter().map(|row| key_of(&line_of(row))).collect();
    for file in lake.state.files()? {
        let note = |event| {
            missing.remove(&key_of(&event));
            Ok(())
        };
        each_event(lake, &file, note).await?;
    }
    rows.retain(|row| missing.remove(&key_of(&line_of(row))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::address::ContentAddress;

    use super::*;

    fn expired(address: &str) -> StateRow {
        StateRow {
            content_address: address.to_owned(),
            event: LifecycleEvent::Expired,
            value: None,
            at: 0,
            actor: None,
            reason: None,
            source_id: None,
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn events_that_another_process_adds_meanwhile_are_added_once() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let mut lake = Lake::open_or_create(&place).await.unwrap();
        let mut late = Lake::open_or_create(&place).await.unwrap();
        let mut catalog = AddressCatalog::load(&lake).await.unwrap();
        let added = add_missing(&mut lake, &mut catalog, vec![expired("a")]).await;
        assert_eq!(added.unwrap(), 1);
        // This handle hasn't read that commit yet.
        let rows = vec![expired("a"), expired("b")];
        let added = add_missing(&mut late, &mut catalog, rows).await;
        assert_eq!(added.unwrap(), 1);
        let files = late.state.files().unwrap();
        assert_eq!(files.iter().map(|file| file.rows).sum::<u64>(), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn events_of_grains_that_another_process_erases_meanwhile_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let mut lake = Lake::open_or_create(&place).await.unwrap();
        let mut other = Lake::open_or_create(&place).await.unwrap();
        let mut catalog = AddressCatalog::load(&lake).await.unwrap();
        let [erased, kept] = [1, 2].map(|byte| ContentAddress::from_digest([byte; 32]));
        let erasure = other.add_tombstones(&[erased], "an erasure", 0).await;
        assert_eq!(erasure.unwrap(), 1);
        let rows = [erased, kept].map(|address| expired(&address.to_string()));
        // The handle of `state` and the catalog are those of before.
        let added = add_missing(&mut lake, &mut catalog, rows.to_vec()).await;
        assert_eq!(added.unwrap(), 1);
    }
}

//! Lifecycle events of erased grains.
//!
//! Events of an erased grain are removed. An event that names an erased grain as the successor of
//! another is kept without the name. A grain that an erased grain superseded by its own row, or as
//! the original of a disclosed copy, gets a `superseded` event, because forgetting the newest
//! version must not revive the one before. Names of people in `actor` and `reason` are blanked.

use std::collections::{BTreeMap, HashSet};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, nullif};
use arrow::datatypes::TimestampMicrosecondType;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, STATE, StateRow, SystemColumn};
use gristmill_schemas::grain::Field;

use super::disclose::DisclosedEvent;
use super::journal::EventNotes;
use super::matcher::{Hits, IdentifierMatcher};
use super::survey::Survey;
use crate::error::{Context, EngineError, Result};
use crate::lake::{
    Change, DataFile, DisclosedCopy, Lake, LakeFile, address_at, edit_file, text_at, texts,
};

/// The edits of the rows of one file.
pub(super) struct FileEdits {
    pub(super) file: DataFile,
    pub(super) removed: HashSet<u32>,
    pub(super) blanked: BTreeMap<&'static str, HashSet<u32>>,
}

/// Maximal number of attempts to commit in case of conflicts.
pub(super) const ATTEMPTS: usize = 10;

/// Removes the events of the grains that `survey` selects, and blanks the people of `matcher`. The
/// number of events that are removed or blanked is in `notes` before they are.
pub(super) async fn erase(
    lake: &mut Lake,
    survey: &Survey,
    erased: &HashSet<ContentAddress>,
    matcher: &IdentifierMatcher,
    notes: &mut EventNotes<'_>,
) -> Result<()> {
    let orphans = orphans(lake, survey, erased).await?;
    for _ in 0..ATTEMPTS {
        lake.state.refresh().await?;
        let edits = plan(lake, erased, matcher).await?;
        let fresh = missing_supersessions(lake, &orphans).await?;
        if edits.is_empty() && fresh.is_empty() {
            return Ok(());
        }
        let mut change = Change {
            changes_rows: true,
            ..Change::default()
        };
        let mut count = 0;
        for edit in &edits {
            count += edit.removed.len()
                + edit
                    .blanked
                    .values()
                    .flatten()
                    .collect::<HashSet<_>>()
                    .len();
            edit_file(
                lake,
                &lake.state,
                &edit.file,
                &mut change,
                |first, batch| edit.apply(first, batch),
            )
            .await?;
        }
        if !fresh.is_empty() {
            change.added.push(lake.write_events(&fresh).await?);
        }
        notes.note(lake, STATE, count as u64).await?;
        match lake.state.commit(change, "erase", 0).await {
            Err(EngineError::Conflict(_)) => {}
            committed => return committed.map(drop),
        }
    }
    Err(EngineError::Conflict(
        "other writers were faster".to_owned(),
    ))
}

impl FileEdits {
    /// Adds the edits of the rows of `batch`, which begins at row `first`: events of erased grains
    /// are removed; names of erased successors and of people are blanked.
    fn add(
        &mut self,
        first: u32,
        batch: &RecordBatch,
        erased: &HashSet<ContentAddress>,
        matcher: &IdentifierMatcher,
        hits: &mut Hits,
    ) {
        for row in 0..batch.num_rows() {
            let number = first + row as u32;
            let is_erased = |column| {
                address_at(texts(batch, column), row).is_some_and(|found| erased.contains(&found))
            };
            if is_erased("content_address") {
                self.removed.insert(number);
                continue;
            }
            if is_erased("value") {
                self.blanked.entry("value").or_default().insert(number);
            }
            for column in ["actor", "reason"] {
                let text = text_at(texts(batch, column), row);
                if text.is_some_and(|text| matcher.names_person(text, hits)) {
                    self.blanked.entry(column).or_default().insert(number);
                }
            }
        }
    }

    /// Applies the edits to `batch`, which begins at row `first` of the file.
    pub(super) fn apply(&self, first: u32, batch: RecordBatch) -> Result<RecordBatch> {
        let rows = first..first + batch.num_rows() as u32;
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        for (name, blanked) in &self.blanked {
            let Ok(at) = batch.schema().index_of(name) else {
                continue;
            };
            let mask: BooleanArray = rows
                .clone()
                .map(|row| Some(blanked.contains(&row)))
                .collect();
            if let Some(column) = columns.get_mut(at) {
                *column = nullif(column, &mask).file("can't blank", "state")?;
            }
        }
        let batch = RecordBatch::try_new(batch.schema(), columns).file("can't blank", "state")?;
        let keep: BooleanArray = rows.map(|row| Some(!self.removed.contains(&row))).collect();
        filter_record_batch(&batch, &keep).file("can't filter", "state")
    }
}

/// Returns the edits of `file`.
async fn edits_of(
    lake: &Lake,
    file: DataFile,
    erased: &HashSet<ContentAddress>,
    matcher: &IdentifierMatcher,
    hits: &mut Hits,
) -> Result<FileEdits> {
    let open = LakeFile::open(lake, &lake.state.path_of(&file.name)).await?;
    let mut edits = FileEdits {
        file,
        removed: HashSet::new(),
        blanked: BTreeMap::new(),
    };
    let mut at = 0;
    for batch in open.stored_rows(None)? {
        let batch = open.decrypt(&batch.file("can't read", "state")?, None)?;
        edits.add(at, &batch, erased, matcher, hits);
        at += batch.num_rows() as u32;
    }
    Ok(edits)
}

/// Returns the edits of the files that need any.
async fn plan(
    lake: &Lake,
    erased: &HashSet<ContentAddress>,
    matcher: &IdentifierMatcher,
) -> Result<Vec<FileEdits>> {
    let mut out = Vec::new();
    let mut hits = Hits::default();
    for file in lake.state.files()? {
        let edits = edits_of(lake, file, erased, matcher, &mut hits).await?;
        if !edits.removed.is_empty() || !edits.blanked.is_empty() {
            out.push(edits);
        }
    }
    Ok(out)
}

/// Returns the events whose actor or reason names a person of `matcher`, each with the address of
/// its grain.
pub(super) async fn events_naming(
    lake: &Lake,
    matcher: &IdentifierMatcher,
) -> Result<Vec<(String, DisclosedEvent)>> {
    let mut out = Vec::new();
    let mut hits = Hits::default();
    for batch in lake
        .state
        .read_columns(&["content_address", "event", "actor", "reason"])
        .await?
    {
        for row in 0..batch.num_rows() {
            let text = |column| text_at(texts(&batch, column), row);
            if ["actor", "reason"]
                .into_iter()
                .filter_map(text)
                .any(|text| matcher.names_person(text, &mut hits))
            {
                out.push(event_at(&batch, row));
            }
        }
    }
    Ok(out)
}

/// Returns the event in a row of `batch`, after the address of its grain.
fn event_at(batch: &RecordBatch, row: usize) -> (String, DisclosedEvent) {
    let owned = |column| text_at(texts(batch, column), row).map(str::to_owned);
    let event = DisclosedEvent {
        event: owned("event").unwrap_or_default(),
        actor: owned("actor"),
        reason: owned("reason"),
    };
    (owned("content_address").unwrap_or_default(), event)
}

/// Returns grains that stay and that an erased grain superseded by its own row or as the original
/// of a disclosed copy, with the time.
async fn orphans(
    lake: &Lake,
    survey: &Survey,
    erased: &HashSet<ContentAddress>,
) -> Result<Vec<(ContentAddress, i64)>> {
    let mut out = Vec::new();
    for (number, rows) in survey.rows_by_segment() {
        let Some(segment) = survey.segments.get(number as usize) else {
            continue;
        };
        let file = LakeFile::open(lake, &lake.grains.path_of(&segment.file.name)).await?;
        for batch in file.read_rows(&SUPERSESSION_COLUMNS, &rows)? {
            let superseded = superseded_by(&batch);
            out.extend(
                superseded
                    .into_iter()
                    .filter(|(old, _)| !erased.contains(old)),
            );
        }
    }
    let stays = |it: &DisclosedCopy| erased.contains(&it.original) && !erased.contains(&it.address);
    let copies = lake.copies_with_originals(stays).await?.into_iter();
    out.extend(copies.map(|copy| (copy.address, copy.at)));
    Ok(out)
}

/// The columns that [`superseded_by`] reads.
const SUPERSESSION_COLUMNS: [&str; 3] = [
    SystemColumn::Supersedes.name(),
    Field::CreatedAt.name(),
    SystemColumn::IngestedAt.name(),
];

/// Returns the grains that the rows of `batch` supersede, with the time in microseconds since 1970.
fn superseded_by(batch: &RecordBatch) -> Vec<(ContentAddress, i64)> {
    let instants = |name| {
        let column = batch.column_by_name(name);
        column.and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>())
    };
    let [_, created, ingested] = SUPERSESSION_COLUMNS.map(instants);
    let mut out = Vec::new();
    crate::lake::links(batch, |row, _, old| {
        let at = [created, ingested]
            .into_iter()
            .flatten()
            .find(|column| column.is_valid(row));
        out.push((old, at.map_or(0, |column| column.value(row))));
    });
    out
}

/// Returns `superseded` events for those of `orphans` that have none.
async fn missing_supersessions(
    lake: &Lake,
    orphans: &[(ContentAddress, i64)],
) -> Result<Vec<StateRow>> {
    if orphans.is_empty() {
        return Ok(Vec::new());
    }
    let mut superseded = HashSet::new();
    for batch in lake
        .state
        .read_columns(&["content_address", "event"])
        .await?
    {
        for row in 0..batch.num_rows() {
            if text_at(texts(&batch, "event"), row) == Some(LifecycleEvent::Superseded.name()) {
                superseded.extend(address_at(texts(&batch, "content_address"), row));
            }
        }
    }
    let event = |(address, at): &(ContentAddress, i64)| StateRow {
        content_address: address.to_string(),
        event: LifecycleEvent::Superseded,
        value: None,
        at: *at,
        actor: None,
        reason: Some("its successor was erased".to_owned()),
        source_id: None,
    };
    let mut fresh: Vec<_> = orphans
        .iter()
        .filter(|(address, _)| superseded.insert(*address))
        .map(event)
        .collect();
    fresh.sort_by(|left, right| left.content_address.cmp(&right.content_address));
    Ok(fresh)
}

//! Blanks paths and reasons in `sources` that name a person; the counts stay.

use std::collections::{BTreeMap, HashSet};

use arrow::array::RecordBatch;
use gristmill_schemas::columns::SOURCES;

use super::journal::EventNotes;
use super::matcher::{Hits, IdentifierMatcher};
use super::reason::Reason;
use super::state::{ATTEMPTS, FileEdits};
use crate::error::{Context, EngineError, Result};
use crate::lake::{Change, LISTED, Lake, LakeFile, edit_file, text_at, texts};

/// A row of `sources` that names a person.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ListedSource {
    /// The ingest run.
    pub run_id: String,
    /// Where the source was read from.
    pub source: Option<String>,
    /// Why it wasn't ingested.
    pub reason: Option<String>,
}

/// Blanks the paths and reasons in `sources` that name people of `matcher`. The number of rows is
/// in `notes` before they are blanked.
///
/// # Errors
/// [`EngineError::File`], [`EngineError::Delta`], [`EngineError::Key`], [`EngineError::Conflict`].
pub(super) async fn blank(
    lake: &mut Lake,
    matcher: &IdentifierMatcher,
    notes: &mut EventNotes<'_>,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let Some(sources) = &mut lake.sources else {
            return Ok(());
        };
        sources.refresh().await?;
        let mut sources = sources.clone();
        let edits = plan(lake, matcher).await?;
        if edits.is_empty() {
            return Ok(());
        }
        let mut change = Change::default();
        let mut count = 0;
        for edit in &edits {
            count += edit
                .blanked
                .values()
                .flatten()
                .collect::<HashSet<_>>()
                .len();
            edit_file(lake, &sources, &edit.file, &mut change, |first, batch| {
                edit.apply(first, batch)
            })
            .await?;
        }
        notes.note(lake, SOURCES, count as u64).await?;
        let committed = sources.commit(change, "erase", 0).await;
        lake.sources = Some(sources);
        match committed {
            Err(EngineError::Conflict(_)) => {}
            committed => return committed.map(drop),
        }
    }
    Err(EngineError::Conflict(
        "other writers were faster".to_owned(),
    ))
}

/// Returns the rows that name people of `matcher`, with the BLAKE3 of their sources, without those
/// that the lake skips.
///
/// # Errors
/// [`EngineError::File`], [`EngineError::Delta`], [`EngineError::Key`].
pub(super) async fn rows_naming(
    lake: &Lake,
    matcher: &IdentifierMatcher,
) -> Result<Vec<(String, ListedSource)>> {
    let mut out = Vec::new();
    let mut hits = Hits::default();
    let Some(sources) = &lake.sources else {
        return Ok(out);
    };
    let mut files = sources.files()?;
    files.retain(|file| !lake.skips(&file.name));
    for file in files {
        let open = LakeFile::open(lake, &sources.path_of(&file.name)).await?;
        for batch in open.stored_rows(None)? {
            let batch = open.decrypt(&batch.file("can't read", "sources")?, None)?;
            for row in 0..batch.num_rows() {
                if columns_naming(&batch, row, matcher, &mut hits)
                    .next()
                    .is_some()
                {
                    let text = |column| text_at(texts(&batch, column), row).map(str::to_owned);
                    let (run_id, source, reason) = (
                        text("run_id").unwrap_or_default(),
                        text("source"),
                        text("reason"),
                    );
                    out.push((
                        text("source_id").unwrap_or_default(),
                        ListedSource {
                            run_id,
                            source,
                            reason,
                        },
                    ));
                }
            }
        }
    }
    Ok(out)
}

/// Returns the columns of `row` that name a person.
fn columns_naming<'a>(
    batch: &'a RecordBatch,
    row: usize,
    matcher: &'a IdentifierMatcher,
    hits: &'a mut Hits,
) -> impl Iterator<Item = &'static str> + 'a {
    LISTED.into_iter().filter(move |column| {
        hits.clear();
        // A path may contain a name next to any other text.
        let text = text_at(texts(batch, column), row).unwrap_or_default();
        matcher.match_bytes(text.as_bytes(), Reason::Mention, hits);
        matcher.is_named(hits)
    })
}

/// Returns the edits of the files that need any.
async fn plan(lake: &Lake, matcher: &IdentifierMatcher) -> Result<Vec<FileEdits>> {
    let mut out = Vec::new();
    let mut hits = Hits::default();
    let Some(sources) = &lake.sources else {
        return Ok(out);
    };
    for file in sources.files()? {
        let open = LakeFile::open(lake, &sources.path_of(&file.name)).await?;
        let mut edits = FileEdits {
            file,
            removed: HashSet::new(),
            blanked: BTreeMap::new(),
        };
        let mut at = 0;
        for batch in open.stored_rows(None)? {
            let batch = open.decrypt(&batch.file("can't read", "sources")?, None)?;
            for row in 0..batch.num_rows() {
                for column in columns_naming(&batch, row, matcher, &mut hits) {
                    edits
                        .blanked
                        .entry(column)
                        .or_default()
                        .insert(at + row as u32);
                }
            }
            at += batch.num_rows() as u32;
        }
        if !edits.blanked.is_empty() {
            out.push(edits);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    use super::*;
    use crate::erase::SubjectRequest;

    #[test]
    fn a_path_with_initials_names_a_person_only_if_the_request_selects_initials() {
        let column = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
        for (path, initials, expected) in [
            ("inbox/a.okafor.jsonl", false, &[][..]),
            ("inbox/a.okafor.jsonl", true, &["source"]),
            ("inbox/ada.okafor.jsonl", false, &["source"]),
        ] {
            let columns = [("source", column(path)), ("reason", column("empty"))];
            let batch = RecordBatch::try_from_iter(columns).unwrap();
            let mut request = SubjectRequest::of_person(["Ada Okafor"]);
            request.extent.initials = initials;
            let matcher = IdentifierMatcher::new(&request);
            let mut hits = Hits::default();
            let named: Vec<&str> = columns_naming(&batch, 0, &matcher, &mut hits).collect();
            assert_eq!(named, expected, "{path}");
        }
    }
}

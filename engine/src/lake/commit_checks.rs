//! What is checked before a commit: that the files which it removes are still in the table, that
//! those which it adds still exist, and that it brings no plain text into an encrypted lake.

use std::collections::HashSet;

use chrono::{TimeDelta, Utc};
use object_store::path::Path;

use super::audit::AUDIT;
use super::encryption::{ENCRYPTION, is_sealed_file};
use super::table::{Change, DataFile, Table};
use super::tombstones::ERASED;
use crate::error::{EngineError, Result};
use crate::segment::SegmentId;

/// Files that were begun within this time before their commit exist: nothing removes new files.
const NEW_FILE: TimeDelta = TimeDelta::minutes(1);

impl Table {
    /// Checks the files that `change` removes and adds.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if another process has removed one of them;
    /// [`EngineError::Delta`], [`EngineError::File`].
    pub(super) async fn check_files(&self, change: &Change) -> Result<()> {
        self.check_removed(change)?;
        self.check_added(change).await
    }

    /// Checks that the version on which the commit is based has the files that `change` removes.
    fn check_removed(&self, change: &Change) -> Result<()> {
        if change.removed.is_empty() {
            return Ok(());
        }
        let files = self.files()?;
        let names: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
        let mut removed = change.removed.iter();
        match removed.find(|file| !names.contains(file.name.as_str())) {
            None => Ok(()),
            Some(file) => Err(EngineError::Conflict(format!(
                "another writer has replaced `{}`",
                file.name
            ))),
        }
    }

    /// Checks that the files that `change` adds exist. `gc` and erasures remove files that no
    /// commit names and that are an hour old, and a writer may need longer, or was suspended. A
    /// commit of a removed file would lose its rows.
    async fn check_added(&self, change: &Change) -> Result<()> {
        if change.adds_again() {
            return Ok(());
        }
        for file in &change.added {
            // In an object store this is a request, which is made only for files that aren't new,
            // and for those that replace others: nothing else has their rows.
            let is_new = change.removed.is_empty() && !is_aged(file);
            if self.location().is_remote() && is_new {
                continue;
            }
            let path = self.path_of(&file.name);
            if !self.location().has(&path).await? {
                return Err(EngineError::Conflict(format!(
                    "`{path}` was removed before it was committed, by `gc` or an erasure"
                )));
            }
        }
        Ok(())
    }

    /// Checks that `change` adds no rows in plain text to an encrypted lake: it may have been
    /// encrypted since this process opened it. Rows that are moved between files stay as they are.
    ///
    /// # Errors
    /// [`EngineError::Key`] if it does; [`EngineError::File`].
    pub(super) async fn check_plain_text(&self, change: &Change) -> Result<()> {
        let is_plain = |file: &DataFile| !is_sealed_file(&file.name);
        if [AUDIT, ERASED].contains(&self.name())
            || !change.changes_rows
            || !change.removed.is_empty()
            || !change.added.iter().any(is_plain)
        {
            return Ok(());
        }
        let marker = Path::from(ENCRYPTION);
        match self.location().read_small(&marker).await? {
            None => Ok(()),
            Some(_) => Err(EngineError::Key(format!(
                "the lake `{}` was encrypted while this command wrote to it, and nothing is \
                 written to it in plain text any more: run the command again",
                self.location().name()
            ))),
        }
    }
}

/// Returns true if `file` was begun longer than [`NEW_FILE`] ago, as its name states.
fn is_aged(file: &DataFile) -> bool {
    let begun = SegmentId::of_file(&file.name).and_then(|segment| segment.created_at());
    let now = Utc::now().timestamp_millis();
    begun
        .and_then(|begun| i64::try_from(begun).ok())
        .is_some_and(|begun| now.saturating_sub(begun) > NEW_FILE.num_milliseconds())
}

//! Data files that no version in the logs of the tables names: what a killed writer left, or what a
//! running one hasn't committed yet. They may have rows of a person who was erased since.

use std::borrow::Cow;
use std::collections::HashSet;

use chrono::Utc;
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::gc::data_file_name;
use crate::lake::{GRACE, Table};

/// Maximum number of files that are named.
const NAMED: usize = 10;

/// The command that removes the files.
const GC: &str = "gristmill gc";

/// Data files in the folders of the tables that no version in their logs names. They aren't damage:
/// nothing reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreferencedFiles {
    /// Their number.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// How many of them are younger than an hour: a running writer may still commit these.
    pub young: u64,
    /// The first of them, from the lake's root.
    pub first: Vec<String>,
    /// The command that removes the others.
    pub remedy: Cow<'static, str>,
}

impl UnreferencedFiles {
    /// Adds those of the files `listed`, which were in the folder of `table` before its log was
    /// read, that the log doesn't name. Files that only earlier versions have are named in it.
    ///
    /// # Errors
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub(super) async fn add(&mut self, table: &Table, listed: &[ObjectMeta]) -> Result<()> {
        let live: HashSet<String> = table.files()?.into_iter().map(|file| file.name).collect();
        let named = listed
            .iter()
            .filter_map(|file| Some((data_file_name(file, table)?, file)));
        let mut found: Vec<_> = named.filter(|(name, _)| !live.contains(name)).collect();
        if found.is_empty() {
            return Ok(());
        }
        let removed = table.tombstones().await?.into_iter();
        let removed: HashSet<String> = removed.map(|(name, _)| name).collect();
        found.retain(|(name, _)| !removed.contains(name));
        found.into_iter().for_each(|(_, file)| self.count(file));
        Ok(())
    }

    /// Counts `file`, and names it if it is among the first.
    fn count(&mut self, file: &ObjectMeta) {
        let age = Utc::now().signed_duration_since(file.last_modified);
        let is_old = age.to_std().is_ok_and(|age| age > GRACE);
        self.files += 1;
        self.bytes += file.size;
        self.young += u64::from(!is_old);
        self.remedy = GC.into();
        if self.first.len() < NAMED {
            self.first.push(file.location.to_string());
        }
    }

    /// Returns the files, or `None` if there are none.
    pub(super) fn found(self) -> Option<UnreferencedFiles> {
        (self.files > 0).then_some(self)
    }
}

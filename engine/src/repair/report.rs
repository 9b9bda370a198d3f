//! The report of a repair.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// The result of a repair.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RepairReport {
    /// True if nothing was written.
    pub dry_run: bool,
    /// Places that were repaired, or would be.
    pub repaired: u64,
    /// Places that can't be repaired.
    pub unrepaired: u64,
    /// Rows that were recomputed because cells differed from their blobs or couldn't be read.
    pub rows: u64,
    /// The number of them by column.
    pub columns: BTreeMap<String, u64>,
    /// Rows that were removed because other rows have the same addresses.
    pub surplus_rows: u64,
    /// Segments that were rewritten, or removed because all of their rows were surplus.
    pub segments_rewritten: u64,
    /// Sidecars that were rebuilt.
    pub sidecars: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// The version of `grains` after.
    pub version: u64,
    /// What was repaired, or would be, up to the limit of the options.
    pub repairs: Vec<Repaired>,
    /// What can't be repaired and why, up to the same limit.
    pub problems: Vec<Unrepaired>,
    #[serde(skip)]
    listed: usize,
    /// Names of the data files that can't be opened. Sidecars can't be compared with them.
    #[serde(skip)]
    pub(super) unreadable: BTreeSet<String>,
}

/// Something that was repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// The table of the lake.
    pub table: &'static str,
    /// The file, from the lake's root.
    pub file: String,
    /// The first affected row, counted from 0; absent for a file as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// The number of affected rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// The columns that were recomputed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// What was done.
    pub what: &'static str,
}

/// Something that can't be repaired, because it isn't derived from other data of the lake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unrepaired {
    /// The table of the lake.
    pub table: &'static str,
    /// The file, from the lake's root.
    pub file: String,
    /// The first affected row, counted from 0; absent for a file as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// The number of affected rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// The row's address, as it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_address: Option<String>,
    /// The BLAKE3 of the row's source, as it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_id: Option<String>,
    /// Why it can't be repaired.
    pub reason: String,
    /// What a person can do.
    pub remedy: &'static str,
}

impl Unrepaired {
    /// Returns the entry of a whole file.
    pub(super) fn file(
        table: &'static str,
        file: String,
        reason: String,
        remedy: &'static str,
    ) -> Unrepaired {
        Unrepaired {
            table,
            file,
            row: None,
            rows: None,
            content_address: None,
            source_id: None,
            reason,
            remedy,
        }
    }
}

impl RepairReport {
    /// Returns an empty report whose lists will have at most `listed` entries.
    pub(super) fn new(dry_run: bool, listed: usize) -> RepairReport {
        RepairReport {
            dry_run,
            listed,
            ..RepairReport::default()
        }
    }

    /// Counts and lists something that was repaired.
    pub(super) fn repaired(&mut self, done: Repaired) {
        self.repaired += 1;
        if self.repairs.len() < self.listed {
            self.repairs.push(done);
        }
    }

    /// Counts and lists something that can't be repaired.
    pub(super) fn unrepaired(&mut self, problem: Unrepaired) {
        self.unrepaired += 1;
        if self.problems.len() < self.listed {
            self.problems.push(problem);
        }
    }
}

//! Which of several rows with the same address may stay: what the check of a segment's rows has
//! shown of each.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::rows::SegmentDiagnosis;

/// What is known of a row, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowQuality {
    /// It is that of its blob, and this is the grain of its address.
    Sound,
    /// Its key was destroyed.
    Erased,
    /// It can't be read, or differs from its blob or its address.
    Damaged,
}

/// The qualities of the rows of a segment, up to the last one that isn't sound.
pub(super) type SegmentQualities = Arc<[RowQuality]>;

/// The qualities of the rows of segments, by the names of their data files. Files that can't be
/// read, or aren't what was written, are left out: a backup may have other rows.
#[derive(Debug, Default)]
pub(super) struct RowQualities(HashMap<String, SegmentQualities>);

impl RowQualities {
    /// Adds the rows of the data file `name`.
    pub(super) fn add(&mut self, name: String, qualities: SegmentQualities) {
        self.0.insert(name, qualities);
    }

    /// Returns the qualities of the rows of the data file `name`, or `None` if it was left out.
    pub(super) fn of(&self, name: &str) -> Option<&SegmentQualities> {
        self.0.get(name)
    }
}

/// Returns what `diagnosis` shows of the rows of a segment once it is repaired.
pub(super) fn qualities_of(diagnosis: &SegmentDiagnosis) -> SegmentQualities {
    let mut qualities: Vec<RowQuality> = Vec::new();
    let mut set = |rows: Range<u64>, quality: RowQuality| {
        let (start, end) = (rows.start as usize, rows.end as usize);
        if qualities.len() < end {
            qualities.resize(end, RowQuality::Sound);
        }
        let rows = qualities.get_mut(start..end).unwrap_or_default();
        rows.fill(quality);
    };
    let stays_damaged = !diagnosis.is_repairable();
    for group in &diagnosis.groups {
        for row in &group.erased {
            set(*row..row + 1, RowQuality::Erased);
        }
        for failed in &group.failed {
            set(failed.row..failed.row + 1, RowQuality::Damaged);
        }
        if stays_damaged {
            for (rows, _) in &group.differing {
                set(rows.clone(), RowQuality::Damaged);
            }
            if group.undecodable.is_some() {
                set(group.rows.clone(), RowQuality::Damaged);
            }
        }
    }
    qualities.into()
}

//! Which of several rows with the same address may stay: what the check of a segment's rows has
//! shown of each, and which grains it supersedes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;

use super::rows::SegmentDiagnosis;
use crate::error::{Context, Result};
use crate::lake::{Lake, LakeFile, Segment, links, rows_with};
use crate::segment::RowPlace;

/// Evidence for a row, the best first.
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

/// The grains that rows of a segment supersede, by the numbers of the rows.
pub(super) type SupersededByRow = HashMap<u32, BTreeSet<ContentAddress>>;

/// What decides which of several rows stays, by the numbers of their segments.
#[derive(Debug, Default)]
pub(super) struct RowFacts {
    pub(super) qualities: Vec<SegmentQualities>,
    /// `None` for a segment of which it can't be read.
    pub(super) superseded: Vec<Option<SupersededByRow>>,
}

impl RowFacts {
    /// Returns what is known of a row.
    pub(super) fn quality(&self, place: &RowPlace) -> RowQuality {
        let known = self.qualities.get(place.segment);
        let known = known.and_then(|known| known.get(place.row as usize));
        known.copied().unwrap_or(RowQuality::Sound)
    }

    /// Returns the grains that a row supersedes; `None` if there are none.
    fn superseded(&self, place: &RowPlace) -> Option<&BTreeSet<ContentAddress>> {
        let known = self.superseded.get(place.segment)?.as_ref()?;
        known.get(&place.row)
    }

    /// Returns the key by which the row that stays is the least.
    pub(super) fn order(&self, place: &RowPlace) -> (RowQuality, Reverse<usize>, RowPlace) {
        let superseded = self.superseded(place).map_or(0, BTreeSet::len);
        (self.quality(place), Reverse(superseded), *place)
    }

    /// Returns true if a row supersedes nothing that `kept` doesn't supersede, too, as far as that
    /// can be read.
    pub(super) fn supersedes_no_more(&self, place: &RowPlace, kept: &RowPlace) -> bool {
        if matches!(self.superseded.get(place.segment), Some(None)) {
            return false;
        }
        let none = BTreeSet::new();
        let kept = self.superseded(kept).unwrap_or(&none);
        self.superseded(place).is_none_or(|own| own.is_subset(kept))
    }
}

/// Returns the grains that each row of `segment` supersedes, of rows that supersede any; `None` if
/// they can't be read.
///
/// # Errors
/// Errors of the environment.
pub(super) async fn superseded_in(
    lake: &Lake,
    segment: &Segment,
) -> Result<Option<SupersededByRow>> {
    match read_superseded(lake, segment).await {
        Err(error) if error.is_environment() => Err(error),
        read => Ok(read.ok()),
    }
}

async fn read_superseded(lake: &Lake, segment: &Segment) -> Result<SupersededByRow> {
    const SUPERSEDES: &str = SystemColumn::Supersedes.name();
    let mut superseded = SupersededByRow::new();
    if segment.file.superseding == Some(0) {
        return Ok(superseded);
    }
    let file = LakeFile::open(lake, &segment.path()).await?;
    let read = move || -> Result<SupersededByRow> {
        let rows = rows_with(&file, SUPERSEDES)?;
        if rows.is_empty() {
            return Ok(superseded);
        }
        let mut numbers = rows.iter().copied();
        for batch in file.read_rows(&[SUPERSEDES], &rows)? {
            let numbers: Vec<u32> = numbers.by_ref().take(batch.num_rows()).collect();
            links(&batch, |row, _, old| {
                if let Some(number) = numbers.get(row) {
                    superseded.entry(*number).or_default().insert(old);
                }
            });
        }
        Ok(superseded)
    };
    tokio::task::spawn_blocking(read)
        .await
        .task(&segment.file.name)?
}

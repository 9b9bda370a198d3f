//! Removal of surplus rows: of several rows with the same address, one stays.
//!
//! It is the first sound one in the order of the segments, so that all surplus rows of a segment
//! that was doubled are in the same of the two, which is then removed as a whole. Without a sound
//! one, the first erased one stays, and no damaged one is removed: a backup may restore it.
//!
//! The column `supersedes` doesn't follow from the grain. Of equally good rows that one stays which
//! supersedes most, and none is removed that supersedes other grains than it: these would be
//! current again.
//!
//! Rows are found by a merge of the address indexes. Before any is removed, the indexes of their
//! segments are compared with the addresses of the rows. Memory holds 4 bytes for each surplus row.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use gristmill_schemas::columns::GRAINS;
use rayon::prelude::*;

use super::RepairOptions;
use super::report::{RepairReport, Repaired, Unrepaired};
use super::row_quality::{RowFacts, RowQualities, RowQuality, superseded_in};
use crate::erase::written_without;
use crate::error::{Context, EngineError, Result};
use crate::index::SidecarCache;
use crate::index::vectors::{files_of, vectors_without};
use crate::lake::{AddressIndexes, Change, Lake, LakeFile, Segment};
use crate::progress::WorkProgress;
use crate::segment::{AddressIndex, RowPlace, WrittenSegment, repeated_addresses};

/// The reason why rows of which none is intact, or that supersede different grains, stay.
const UNDECIDED: &str = "other rows have the same addresses, and none of them is intact, or they \
                         supersede different grains";

/// The remedy for such rows.
const RESTORE_ONE: &str =
    "restore one of the files from a backup, then run `gristmill repair` again";

/// The remedy for surplus rows of a segment that can't be rewritten.
const RESTORE_FILE: &str = "restore the file from a backup, then run `gristmill repair` again; one \
                            row of each grain is intact in another file";

/// Removes the surplus rows of the segments whose rows are in `qualities`. Each segment that has
/// some is replaced by one commit.
///
/// # Errors
/// [`EngineError::Conflict`] if another writer has changed the lake; [`EngineError::Interrupted`];
/// errors of the environment.
pub(super) async fn repair(
    lake: &mut Lake,
    options: &RepairOptions,
    qualities: &RowQualities,
    progress: &WorkProgress,
    report: &mut RepairReport,
) -> Result<()> {
    let (segments, plan) = plan(lake, qualities).await?;
    for (number, undecided) in plan.undecided {
        if let Some(segment) = segments.get(number) {
            report.unrepaired(undecided_rows(segment, undecided));
        }
    }
    for (number, rows) in plan.surplus {
        let Some(segment) = segments.get(number) else {
            continue;
        };
        if progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
        let (first, count) = (rows.first().copied().map(u64::from), rows.len() as u64);
        let removed = match options.dry_run {
            true => Ok(()),
            false => remove(lake, segment, rows).await,
        };
        match removed {
            Ok(()) => {
                report.surplus_rows += count;
                report.segments_rewritten += 1;
                report.repaired(Repaired {
                    table: GRAINS,
                    file: segment.path().to_string(),
                    row: first,
                    rows: Some(count),
                    columns: Vec::new(),
                    what: "rows were removed whose grains are in other rows, too",
                });
            }
            Err(error) if error.is_damage() => report.unrepaired(Unrepaired {
                row: first,
                rows: Some(count),
                ..unrepaired(segment, error.to_string(), RESTORE_FILE)
            }),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn unrepaired(segment: &Segment, reason: String, remedy: &'static str) -> Unrepaired {
    Unrepaired::file(GRAINS, segment.path().to_string(), reason, remedy)
}

/// Returns the entry of rows of `segment` that have the addresses of others, of which none is
/// intact.
fn undecided_rows(segment: &Segment, (first, rows): (u32, u64)) -> Unrepaired {
    Unrepaired {
        row: Some(u64::from(first)),
        rows: Some(rows),
        ..unrepaired(segment, UNDECIDED.to_owned(), RESTORE_ONE)
    }
}

/// Returns the segments of `lake` that are in `qualities`, and which of their rows are surplus.
async fn plan(lake: &Lake, qualities: &RowQualities) -> Result<(Vec<Segment>, SurplusPlan)> {
    let location = lake.location();
    let mut segments = lake.segments()?;
    segments.retain(|segment| qualities.of(&segment.file.name).is_some());
    let opened = AddressIndexes::open(location, segments.clone(), &HashSet::new()).await?;
    let found = merge(&opened, RowFacts::default()).await?;
    if found.involved.is_empty() {
        return Ok((opened.segments, found));
    }
    let differing = opened.differing(location, &found.involved).await?;
    let opened = match differing.is_empty() {
        true => opened,
        false => AddressIndexes::open(location, segments, &differing).await?,
    };
    let mut facts = RowFacts::default();
    for segment in &opened.segments {
        let known = qualities.of(&segment.file.name).cloned();
        facts.qualities.push(known.unwrap_or_default());
        facts.superseded.push(superseded_in(lake, segment).await?);
    }
    let found = merge(&opened, facts).await?;
    Ok((opened.segments, found))
}

/// Merges the indexes `opened`, of whose rows there are these `facts`.
async fn merge(opened: &AddressIndexes, facts: RowFacts) -> Result<SurplusPlan> {
    let indexes = opened.indexes.clone();
    tokio::task::spawn_blocking(move || SurplusPlan::of(&indexes, &facts))
        .await
        .task("the address indexes")
}

/// The rows to remove.
#[derive(Debug, Default)]
struct SurplusPlan {
    /// The rows to remove of each segment, ascending, by its number.
    surplus: BTreeMap<usize, Vec<u32>>,
    /// The first and the number of rows of each segment that have the addresses of others, of which
    /// none is intact, or which supersede different grains.
    undecided: BTreeMap<usize, (u32, u64)>,
    /// The numbers of the segments with addresses that several rows have.
    involved: BTreeSet<usize>,
}

impl SurplusPlan {
    /// Returns the surplus rows of segments with `indexes`, of whose rows there are these `facts`.
    fn of(indexes: &[Arc<AddressIndex>], facts: &RowFacts) -> SurplusPlan {
        let plans = (0..=u8::MAX).into_par_iter().map(|part| {
            let mut plan = SurplusPlan::default();
            repeated_addresses(indexes, part, |_, rows| plan.add(rows, facts));
            plan
        });
        let plans: Vec<SurplusPlan> = plans.collect();
        indexes.iter().for_each(|index| index.release());
        let mut all = SurplusPlan::default();
        plans.into_iter().for_each(|plan| all.extend(plan));
        all.surplus
            .values_mut()
            .for_each(|rows| rows.sort_unstable());
        all
    }

    /// Adds `rows`, which have the same address.
    fn add(&mut self, rows: &[RowPlace], facts: &RowFacts) {
        self.involved.extend(rows.iter().map(|place| place.segment));
        let Some(kept) = rows.iter().min_by_key(|place| facts.order(place)) else {
            return;
        };
        let best = facts.quality(kept);
        let is_worse = |place: &RowPlace| {
            place != kept && (best == RowQuality::Sound || facts.quality(place) == best)
        };
        for place in rows {
            if best == RowQuality::Damaged {
                self.add_undecided(place.segment, (place.row, 1));
            } else if is_worse(place) {
                match facts.supersedes_no_more(place, kept) {
                    true => self.add_surplus(place),
                    false => self.add_undecided(place.segment, (place.row, 1)),
                }
            }
        }
    }

    fn add_surplus(&mut self, place: &RowPlace) {
        let rows = self.surplus.entry(place.segment).or_default();
        rows.push(place.row);
    }

    fn add_undecided(&mut self, segment: usize, (first, count): (u32, u64)) {
        let known = self.undecided.entry(segment).or_insert((first, 0));
        known.0 = known.0.min(first);
        known.1 += count;
    }

    fn extend(&mut self, other: SurplusPlan) {
        for (segment, rows) in other.surplus {
            self.surplus.entry(segment).or_default().extend(rows);
        }
        for (segment, rows) in other.undecided {
            self.add_undecided(segment, rows);
        }
        self.involved.extend(other.involved);
    }
}

/// Replaces `segment` by one without `rows` (ascending), or by none if it has no others.
async fn remove(lake: &mut Lake, segment: &Segment, rows: Vec<u32>) -> Result<()> {
    let mut change = Change {
        changes_rows: true,
        removed: vec![segment.file.clone()],
        ..Change::default()
    };
    if (rows.len() as u64) < segment.file.rows
        && let Some(written) = write(lake, segment, rows).await?
    {
        lake.publish_segment(&mut change, written).await?;
    }
    // Not after other writers' commits: a row that stays may be gone then.
    lake.grains.commit(change, "repair", 0).await?;
    Ok(())
}

/// Writes `segment` without `rows`, to files that aren't part of the lake yet.
async fn write(lake: &Lake, segment: &Segment, rows: Vec<u32>) -> Result<Option<WrittenSegment>> {
    let file = LakeFile::open(lake, &segment.path()).await?;
    let location = lake.location().clone();
    let sidecars = SidecarCache::of(lake);
    sidecars.confirm(&location, segment).await?;
    let text = sidecars.text(&location, segment).await;
    let vectors = vectors_without(lake, segment, &files_of(lake).await?, &rows).await?;
    let rewrite = move || -> Result<Option<WrittenSegment>> {
        let written = written_without(&location, &file, text.as_ref(), &rows)?;
        Ok(written.map(|mut written| {
            if let Some((vectors, moved)) = vectors {
                let files = vectors.files(&[moved], written.file.rows);
                written.sidecars.extend(files);
            }
            written
        }))
    };
    tokio::task::spawn_blocking(rewrite)
        .await
        .task(&segment.file.name)?
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use gristmill_schemas::address::ContentAddress;
    use proptest::prelude::*;

    use super::super::row_quality::{SegmentQualities, SupersededByRow};
    use super::*;

    const QUALITIES: [RowQuality; 3] = [RowQuality::Sound, RowQuality::Erased, RowQuality::Damaged];

    fn address(number: u8) -> ContentAddress {
        ContentAddress::of(&[number])
    }

    #[test]
    fn the_row_that_supersedes_most_stays_and_different_ones_are_listed() {
        let place = |segment| RowPlace { segment, row: 0 };
        let plan = |superseded: &[&[u8]]| {
            let of_row = |numbers: &&[u8]| {
                let old = numbers.iter().map(|number| address(*number));
                Some(SupersededByRow::from([(0, old.collect())]))
            };
            let facts = RowFacts {
                superseded: superseded.iter().map(of_row).collect(),
                ..RowFacts::default()
            };
            let rows: Vec<RowPlace> = (0..superseded.len()).map(place).collect();
            let mut plan = SurplusPlan::default();
            plan.add(&rows, &facts);
            let surplus: Vec<usize> = plan.surplus.into_keys().collect();
            let undecided: Vec<usize> = plan.undecided.into_keys().collect();
            (surplus, undecided)
        };
        assert_eq!(plan(&[&[], &[]]), (vec![1], vec![]));
        assert_eq!(plan(&[&[], &[1], &[]]), (vec![0, 2], vec![]));
        assert_eq!(plan(&[&[1], &[2, 1], &[2]]), (vec![0, 2], vec![]));
        assert_eq!(plan(&[&[1], &[2], &[]]), (vec![2], vec![1]));
    }

    proptest! {
        #[test]
        fn one_row_of_each_address_stays_and_it_is_one_of_the_best(
            segments in prop::collection::vec(
                prop::collection::vec((0..30_u8, 0..3_usize), 0..30),
                0..5,
            ),
        ) {
            let index = |rows: &Vec<(u8, usize)>| {
                let rows: Vec<_> = rows.iter().map(|(number, _)| address(*number)).collect();
                Arc::new(AddressIndex::open(AddressIndex::build(&[rows]).into()).unwrap())
            };
            let indexes: Vec<_> = segments.iter().map(index).collect();
            let quality = |rows: &Vec<(u8, usize)>| -> SegmentQualities {
                rows.iter().map(|(_, quality)| QUALITIES[*quality]).collect()
            };
            let qualities: Vec<_> = segments.iter().map(quality).collect();
            let facts = RowFacts { qualities, ..RowFacts::default() };
            let plan = SurplusPlan::of(&indexes, &facts);
            let mut before: HashMap<u8, Vec<RowQuality>> = HashMap::new();
            let mut after: HashMap<u8, Vec<RowQuality>> = HashMap::new();
            for (segment, rows) in segments.iter().enumerate() {
                let gone = plan.surplus.get(&segment).cloned().unwrap_or_default();
                prop_assert!(gone.is_sorted_by(|left, right| left < right));
                for (row, (number, quality)) in (0_u32..).zip(rows) {
                    let quality = QUALITIES[*quality];
                    before.entry(*number).or_default().push(quality);
                    if !gone.contains(&row) {
                        after.entry(*number).or_default().push(quality);
                    }
                }
            }
            let mut undecided = 0;
            for (number, mut all) in before {
                all.sort_unstable();
                let damaged = all.iter().filter(|it| **it == RowQuality::Damaged).count();
                let mut expected = all.clone();
                match all[0] {
                    RowQuality::Sound => expected.truncate(1),
                    RowQuality::Erased => expected.drain(1..all.len() - damaged).for_each(drop),
                    RowQuality::Damaged if all.len() > 1 => undecided += all.len() as u64,
                    RowQuality::Damaged => {}
                }
                let mut stays = after.remove(&number).unwrap_or_default();
                stays.sort_unstable();
                prop_assert_eq!(stays, expected);
            }
            let listed: u64 = plan.undecided.values().map(|(_, rows)| rows).sum();
            prop_assert_eq!(listed, undecided);
        }
    }
}

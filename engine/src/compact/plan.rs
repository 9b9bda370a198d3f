//! The merge policy: which segments a compaction merges.
//!
//! As the levels of a log-structured merge tree, sizes are kept apart by a factor: a segment is
//! merged when the smaller ones together have as many rows. So its rows are at least in twice as
//! large a segment after each merge, and the segments that stay grow at least twofold from one to
//! the next.

use crate::lake::Segment;
use crate::segment::ROW_GROUP_ROWS;

/// Segments that are merged at a time. Each has some MiB of pages open.
const FAN_IN: usize = 32;

/// The part of the target below which segments are always merged: opening so many costs more than
/// copying their rows once more.
const TINY_PART: u64 = 512;

/// Returns the segments to merge, in groups. A segment with half of `target_rows` stays as it is.
/// With nights of n rows, a row is copied at most log2(`target_rows` / n) times, and so many small
/// segments stay.
pub(super) fn groups(segments: &[Segment], target_rows: u64) -> Vec<Vec<Segment>> {
    // Encrypted segments are merged with encrypted segments only.
    let (sealed, open): (Vec<_>, Vec<_>) = segments
        .iter()
        .cloned()
        .partition(|segment| segment.id.is_sealed());
    [open, sealed]
        .into_iter()
        .flat_map(|segments| {
            let rows: Vec<u64> = segments.iter().map(|segment| segment.file.rows).collect();
            let chosen = mergeable(&rows, target_rows);
            // Neighbours in the order of the names are neighbours in time.
            let chosen: Vec<_> = chosen
                .into_iter()
                .filter_map(|at| segments.get(at))
                .collect();
            chunks(&chosen)
        })
        .collect()
}

/// Returns which of the segments with so many `rows` are merged, ascending. O(n log n).
fn mergeable(rows: &[u64], target_rows: u64) -> Vec<usize> {
    let mut small: Vec<(u64, usize)> = rows.iter().copied().zip(0..).collect();
    small.retain(|(rows, _)| *rows < target_rows / 2);
    small.sort_unstable();
    let (mut smaller, mut merged) = (0, 0);
    for (number, (rows, _)) in small.iter().enumerate() {
        // The largest segment that the smaller ones equal takes all of them with it.
        if *rows < target_rows / TINY_PART || *rows <= smaller {
            merged = number + 1;
        }
        smaller += rows;
    }
    small.truncate(merged);
    let mut chosen: Vec<usize> = small.into_iter().map(|(_, at)| at).collect();
    chosen.sort_unstable();
    chosen
}

fn chunks(small: &[&Segment]) -> Vec<Vec<Segment>> {
    let groups = small.len().div_ceil(FAN_IN).max(1);
    let chunks = small.chunks(small.len().div_ceil(groups).max(1));
    chunks
        .filter(|group| group.len() > 1)
        .map(|group| group.iter().copied().cloned().collect())
        .collect()
}

/// Returns the rows of each segment to which `rows` rows are written: about equal, and whole row
/// groups except for the last segment.
pub(super) fn sizes(rows: u64, target_rows: u64) -> Vec<u64> {
    let segments = rows.div_ceil(target_rows.max(1)).max(1);
    let group = ROW_GROUP_ROWS as u64;
    let size = rows.div_ceil(segments).next_multiple_of(group).max(group);
    let mut left = rows;
    let mut sizes = Vec::new();
    while left > 0 {
        sizes.push(size.min(left));
        left -= size.min(left);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::DataFile;
    use crate::segment::SegmentId;

    fn segments(rows: &[u64]) -> Vec<Segment> {
        let segment = |(number, rows): (usize, &u64)| {
            let file = DataFile::untagged(format!("part-{number:04}.parquet"), *rows, *rows);
            Segment {
                id: SegmentId::of_file(&file.name).unwrap(),
                file,
            }
        };
        rows.iter().enumerate().map(segment).collect()
    }

    #[test]
    fn segments_are_merged_when_the_smaller_ones_equal_them() {
        let grouped = |rows: &[u64]| -> Vec<Vec<u64>> {
            let groups = groups(&segments(rows), 100);
            groups
                .iter()
                .map(|group| group.iter().map(|segment| segment.file.rows).collect())
                .collect()
        };
        assert_eq!(grouped(&[10, 60, 10, 50, 20, 49]), [[10, 10, 20]]);
        assert_eq!(grouped(&[40, 3, 4, 33]), [[40, 3, 4, 33]]);
        assert_eq!(grouped(&[5, 40, 5]), [[5, 5]]);
        assert!(grouped(&[10, 21, 49]).is_empty());
        assert!(grouped(&[10, 60]).is_empty());
        assert!(grouped(&[]).is_empty());
        let many = grouped(&[1; 100]);
        assert_eq!(many.iter().map(Vec::len).sum::<usize>(), 100);
        assert!(many.iter().all(|group| group.len() <= FAN_IN));
    }

    /// A segment of the simulation: its rows, and how often the one that was copied most was
    /// copied.
    type Simulated = (u64, u32);

    /// Compacts after each of the `nights`. Returns the most copies of a row, the most segments
    /// below half of `target`, and the rows that were copied in all.
    fn simulate(nights: impl Iterator<Item = u64>, target: u64) -> (u32, usize, u64) {
        let mut lake: Vec<Simulated> = Vec::new();
        let (mut most_copies, mut most_small, mut copied) = (0, 0, 0);
        for rows in nights {
            lake.push((rows, 0));
            let sizes_now: Vec<u64> = lake.iter().map(|(rows, _)| *rows).collect();
            let chosen = mergeable(&sizes_now, target);
            if chosen.len() > 1 {
                let merged: Vec<Simulated> = chosen.iter().map(|at| lake[*at]).collect();
                let sum = merged.iter().map(|(rows, _)| rows).sum();
                let copies = merged.iter().map(|(_, copies)| copies + 1).max().unwrap();
                chosen.iter().rev().for_each(|at| _ = lake.remove(*at));
                lake.extend(sizes(sum, target).into_iter().map(|rows| (rows, copies)));
                (most_copies, copied) = (most_copies.max(copies), copied + sum);
            }
            let small = lake.iter().filter(|(rows, _)| *rows < target / 2).count();
            most_small = most_small.max(small);
        }
        (most_copies, most_small, copied)
    }

    #[test]
    fn a_thousand_nights_copy_each_row_few_times_and_leave_few_small_segments() {
        let target = 32 * ROW_GROUP_ROWS as u64;
        let varied = |night: u64| 5_000 + night * 7_919 % 15_000;
        for (nights, least) in [
            (vec![10_000_u64; 1_000], 10_000),
            ((0..1_000).map(varied).collect(), 5_000),
            (vec![300_000; 1_000], 300_000),
        ] {
            let rows: u64 = nights.iter().sum();
            let doublings = (target / least).ilog2() + 1;
            let (copies, small, copied) = simulate(nights.into_iter(), target);
            assert!(
                copies <= doublings,
                "{copies} copies of a row, {doublings} allowed"
            );
            assert!(small <= doublings as usize + 1, "{small} small segments");
            assert!(
                copied <= u64::from(doublings) * rows,
                "{copied} copied of {rows}"
            );
        }
    }

    #[test]
    fn nights_of_few_rows_stay_in_one_tiny_segment() {
        let target = 32 * ROW_GROUP_ROWS as u64;
        let (_, small, copied) = simulate(std::iter::repeat_n(100, 1_000), target);
        assert!(small <= 7, "{small} small segments");
        assert!(copied <= 1_000 * target / TINY_PART, "{copied} rows copied");
    }

    #[test]
    fn rows_are_spread_evenly_over_the_fewest_segments() {
        let group = ROW_GROUP_ROWS as u64;
        assert_eq!(sizes(10, 2 * group), [10]);
        assert_eq!(sizes(3 * group, 2 * group), [2 * group, group]);
        assert_eq!(sizes(4 * group + 1, 4 * group), [3 * group, group + 1]);
        assert!(sizes(0, group).is_empty());
    }
}

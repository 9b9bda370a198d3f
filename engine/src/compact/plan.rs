//! The choice of segments to merge.

use crate::lake::Segment;
use crate::segment::ROW_GROUP_ROWS;

/// Segments that are merged at a time. Each has some MiB of pages open.
const FAN_IN: usize = 48;

/// Returns the small segments in groups to merge. A segment is small below half of `target_rows`,
/// so a row is rewritten a logarithmic number of times.
pub(super) fn groups(segments: &[Segment], target_rows: u64) -> Vec<Vec<Segment>> {
    let is_small = |segment: &&Segment| segment.file.rows < target_rows / 2;
    let (sealed, open): (Vec<_>, Vec<_>) = segments
        .iter()
        .filter(is_small)
        .cloned()
        .partition(|segment| segment.id.is_sealed());
    // Encrypted segments are merged with encrypted segments only.
    [open, sealed]
        .iter()
        .flat_map(|small| chunks(small))
        .collect()
}

fn chunks(small: &[Segment]) -> Vec<Vec<Segment>> {
    let groups = small.len().div_ceil(FAN_IN).max(1);
    let chunks = small.chunks(small.len().div_ceil(groups).max(1));
    chunks
        .filter(|group| group.len() > 1)
        .map(<[Segment]>::to_vec)
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
            let file = DataFile {
                name: format!("part-{number:04}.parquet"),
                size: *rows,
                rows: *rows,
                digest: None,
            };
            Segment {
                id: SegmentId::of_file(&file.name).unwrap(),
                file,
            }
        };
        rows.iter().enumerate().map(segment).collect()
    }

    #[test]
    fn only_small_segments_are_grouped() {
        let grouped = |rows: &[u64]| -> Vec<Vec<u64>> {
            let groups = groups(&segments(rows), 100);
            groups
                .iter()
                .map(|group| group.iter().map(|segment| segment.file.rows).collect())
                .collect()
        };
        assert_eq!(grouped(&[10, 60, 20, 50, 49]), [[10, 20, 49]]);
        assert!(grouped(&[10, 60]).is_empty());
        assert!(grouped(&[]).is_empty());
        let many = grouped(&[1; 100]);
        assert_eq!(many.iter().map(Vec::len).sum::<usize>(), 100);
        assert!(many.iter().all(|group| group.len() <= FAN_IN));
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

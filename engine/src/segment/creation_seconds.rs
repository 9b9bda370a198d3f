//! The creation seconds in the headers of a segment's grains, as a few ranges.
//!
//! A header is part of the bytes of which the address is the hash, so a segment without the
//! creation second of a grain can't contain that grain. Ranges may include seconds that no grain
//! has, but never exclude one that a grain has.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use arrow::array::{AsArray, RecordBatch};
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::GrainHeader;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of ranges. Between more of them, the shortest gaps are closed.
const MAX_RANGES: usize = 64;

/// A superset of the creation seconds of a segment's grains. Its text form is `first-last`, comma,
/// `first-last` …, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreationSeconds {
    /// Ascending, with at least one second between two of them.
    ranges: Vec<RangeInclusive<u32>>,
}

/// A text that isn't in the form of [`CreationSeconds`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a list of ascending ranges of seconds")]
pub struct InvalidSeconds;

impl CreationSeconds {
    /// Returns the ranges of `seconds`, which may be in any order. O(n log n).
    pub fn of(mut seconds: Vec<u32>) -> CreationSeconds {
        seconds.sort_unstable();
        seconds.dedup();
        CreationSeconds::joined(seconds.into_iter().map(|second| second..=second))
    }

    /// Returns the ranges that cover all of `parts`.
    pub fn union(parts: impl IntoIterator<Item = CreationSeconds>) -> CreationSeconds {
        let mut ranges: Vec<_> = parts.into_iter().flat_map(|part| part.ranges).collect();
        ranges.sort_unstable_by_key(|range| *range.start());
        CreationSeconds::joined(ranges.into_iter())
    }

    /// Joins ranges in the order of their starts, and closes gaps between too many of them.
    fn joined(sorted: impl Iterator<Item = RangeInclusive<u32>>) -> CreationSeconds {
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        for range in sorted {
            match ranges.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*range.end().max(last.end());
                }
                _ => ranges.push(range),
            }
        }
        CreationSeconds {
            ranges: with_longest_gaps(ranges),
        }
    }

    /// Returns false if no grain was created at `second`. O(log r) for r ranges.
    pub fn contains(&self, second: u32) -> bool {
        let at = self.ranges.partition_point(|range| *range.end() < second);
        self.ranges
            .get(at)
            .is_some_and(|range| range.contains(&second))
    }

    /// Returns false if no grain was created in `span`. O(r) for r ranges.
    pub(crate) fn overlaps(&self, span: &RangeInclusive<u32>) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|range| range.start() <= span.end() && span.start() <= range.end())
    }

    /// Returns false if no second is in both. O(r²) for r ranges.
    pub(crate) fn overlaps_any(&self, other: &CreationSeconds) -> bool {
        other.ranges.iter().any(|span| self.overlaps(span))
    }

    /// Returns false if no grain was created at any of `seconds`, which ascend.
    /// O(r log n) for r ranges and n seconds.
    pub(crate) fn intersects(&self, seconds: &[u32]) -> bool {
        self.ranges.iter().any(|range| {
            let at = seconds.partition_point(|second| second < range.start());
            seconds.get(at).is_some_and(|second| range.contains(second))
        })
    }
}

/// Closes the shortest gaps between `ranges` until at most [`MAX_RANGES`] are left.
fn with_longest_gaps(ranges: Vec<RangeInclusive<u32>>) -> Vec<RangeInclusive<u32>> {
    if ranges.len() <= MAX_RANGES {
        return ranges;
    }
    let pairs = ranges.iter().zip(ranges.iter().skip(1)).enumerate();
    let mut gaps: Vec<(u32, usize)> = pairs
        .map(|(at, (left, right))| (right.start() - left.end(), at + 1))
        .collect();
    gaps.sort_unstable_by(|left, right| right.cmp(left));
    gaps.truncate(MAX_RANGES - 1);
    let mut cuts: Vec<usize> = gaps.into_iter().map(|(_, at)| at).collect();
    cuts.sort_unstable();
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([ranges.len()]);
    let joined = starts.zip(ends).filter_map(|(start, end)| {
        let (first, last) = (ranges.get(start)?, ranges.get(end - 1)?);
        Some(*first.start()..=*last.end())
    });
    joined.collect()
}

impl fmt::Display for CreationSeconds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, range) in self.ranges.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(out, "{comma}{}-{}", range.start(), range.end())?;
        }
        Ok(())
    }
}

impl FromStr for CreationSeconds {
    type Err = InvalidSeconds;

    fn from_str(text: &str) -> Result<Self, InvalidSeconds> {
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').ok_or(InvalidSeconds)?;
            let second = |text: &str| text.parse().map_err(|_| InvalidSeconds);
            let (first, last): (u32, u32) = (second(first)?, second(last)?);
            let ascends = ranges.last().is_none_or(|before| *before.end() < first);
            if first > last || !ascends || ranges.len() == MAX_RANGES {
                return Err(InvalidSeconds);
            }
            ranges.push(first..=last);
        }
        Ok(CreationSeconds { ranges })
    }
}

impl Serialize for CreationSeconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CreationSeconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Returns the creation seconds of the grains in the rows of `batch`, or `None` if they aren't all
/// readable: the batch has no blobs, or encrypted ones.
pub(crate) fn creation_seconds_of(batch: &RecordBatch) -> Option<Vec<u32>> {
    let blobs = batch
        .column_by_name(SystemColumn::Blob.name())?
        .as_binary_opt::<i32>()?;
    let second = |blob: Option<&[u8]>| Some(GrainHeader::read(blob?).ok()?.created_at_seconds);
    blobs.iter().map(second).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds() -> impl Strategy<Value = Vec<u32>> {
        let near = (0..50_u32).prop_map(|step| 1_700_000_000 + 7 * step);
        let second = prop_oneof![any::<u32>(), near, Just(0), Just(u32::MAX)];
        prop::collection::vec(second, 0..200)
    }

    proptest! {
        #[test]
        fn no_second_of_a_grain_is_excluded(left in seconds(), right in seconds()) {
            let [one, other] = [&left, &right].map(|some| CreationSeconds::of(some.clone()));
            let both = CreationSeconds::union([one.clone(), other]);
            for second in left.iter().chain(&right) {
                prop_assert!(both.contains(*second));
                prop_assert!(both.intersects(&[*second]));
            }
            prop_assert!(left.iter().all(|second| one.contains(*second)));
            prop_assert!(one.ranges.len() <= MAX_RANGES && both.ranges.len() <= MAX_RANGES);
            prop_assert_eq!(both.to_string().parse(), Ok(both));
        }

        #[test]
        fn few_seconds_are_exact(some in prop::collection::vec(0..500_u32, 0..MAX_RANGES)) {
            let ranges = CreationSeconds::of(some.clone());
            for second in 0..500 {
                prop_assert_eq!(ranges.contains(second), some.contains(&second));
                prop_assert_eq!(ranges.intersects(&[second]), some.contains(&second));
            }
        }
    }

    #[test]
    fn the_longest_gaps_stay_open() {
        let days: Vec<u32> = (0..1_000)
            .map(|number| number * 10)
            .chain([u32::MAX])
            .collect();
        let ranges = CreationSeconds::of(days);
        assert!(!ranges.contains(1_000_000) && ranges.contains(u32::MAX));
        assert!(!ranges.intersects(&[20_000, u32::MAX - 1]));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "1",
            "2-1",
            "1-2,2-3",
            "1-2,",
            "a-b",
            "-1-2",
            "1-4294967296",
            "5-6,1-2",
        ] {
            assert_eq!(
                text.parse::<CreationSeconds>(),
                Err(InvalidSeconds),
                "{text}"
            );
        }
        assert_eq!("".parse(), Ok(CreationSeconds::default()));
    }
}

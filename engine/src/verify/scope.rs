//! Which part of the lake is checked.
//!
//! Parts consist of row groups. A share or an amount begins where the last check ended, and wraps
//! around: repeated checks cover the lake, whatever is added meanwhile. The position is stored in
//! `index/verify-cursor.json`; if that is lost, checks begin at the first segment again. Addresses
//! that several rows have are searched for in the same share of the parts of all addresses.

use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Result};
use crate::lake::{Lake, Segment};
use crate::segment::{ADDRESS_PARTS, SIDECARS, SegmentId};

/// A part of the lake.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Subset {
    /// A share, from 0 to 1, from where the last check ended.
    Share(f64),
    /// Row groups of so many bytes in total, from where the last check ended.
    Bytes(u64),
    /// One of several parts of about the same size that together are the lake, counted from 1. A
    /// row group stays in its part as the lake grows.
    Group {
        /// The number of the part.
        number: u32,
        /// The number of parts.
        of: u32,
    },
}

/// What is checked, and for how long.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct VerifyScope {
    /// The part, or `None` for the whole lake.
    pub subset: Option<Subset>,
    /// The time after which nothing new is started.
    pub max_duration: Option<Duration>,
}

impl VerifyScope {
    /// Returns true if this check continues where the last one ended, and the next one where this
    /// one ends.
    pub fn rolls(&self) -> bool {
        let takes_turns = matches!(self.subset, Some(Subset::Share(_) | Subset::Bytes(_)));
        takes_turns || (self.max_duration.is_some() && self.subset.is_none())
    }

    /// Returns how many bytes of row groups are checked of `total`.
    pub(super) fn budget(&self, total: u64) -> u64 {
        match self.subset {
            Some(Subset::Share(share)) => (total as f64 * share.clamp(0.0, 1.0)).ceil() as u64,
            Some(Subset::Bytes(bytes)) => bytes,
            Some(Subset::Group { .. }) | None => u64::MAX,
        }
    }

    /// Returns the parts of all addresses that belong to this check of a lake with `total` bytes of
    /// row groups. If checks continue each other, they begin with the part `first`.
    pub(super) fn address_parts(&self, first: u8, total: u64) -> Vec<u8> {
        let share = u128::from(self.budget(total)) * u128::from(ADDRESS_PARTS);
        let count = share.div_ceil(u128::from(total.max(1)));
        let is_own = |part: &u8| match self.subset {
            Some(Subset::Group { number, of }) => {
                u32::from(*part) % of.max(1) == number.saturating_sub(1)
            }
            _ => true,
        };
        (0..=u8::MAX)
            .take(usize::try_from(count).unwrap_or(usize::MAX))
            .map(|at| first.wrapping_add(at))
            .filter(is_own)
            .collect()
    }

    /// Returns true if a row group belongs to the part.
    pub(super) fn has(&self, segment: &SegmentId, row_group: usize) -> bool {
        let Some(Subset::Group { number, of }) = self.subset else {
            return true;
        };
        let name = format!("{}/{row_group}", segment.as_str());
        let draw = blake3::hash(name.as_bytes())
            .as_bytes()
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        draw % u64::from(of.max(1)) == u64::from(number.saturating_sub(1))
    }
}

/// The row group, and the part of all addresses, that are checked next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VerifyCursor {
    pub(super) segment: String,
    pub(super) row_group: usize,
    #[serde(default)]
    pub(super) address_part: u8,
}

/// A segment, and the range of its row groups to check.
#[derive(Debug, Clone)]
pub(super) struct SegmentRange {
    pub(super) segment: Segment,
    pub(super) from: usize,
    pub(super) until: usize,
}

impl SegmentRange {
    /// Returns the position of a row group of the segment.
    pub(super) fn cursor(&self, row_group: usize) -> VerifyCursor {
        VerifyCursor {
            segment: self.segment.id.as_str().to_owned(),
            row_group,
            address_part: 0,
        }
    }
}

impl VerifyCursor {
    fn path() -> Path {
        Path::from(format!("{SIDECARS}/verify-cursor.json"))
    }

    /// Reads the cursor of `lake`, if it has a readable one.
    pub(super) async fn load(lake: &Lake) -> Option<VerifyCursor> {
        let found = lake
            .location()
            .store()
            .get(&Self::path())
            .await
            .ok()?
            .bytes()
            .await
            .ok()?;
        serde_json::from_slice(&found).ok()
    }

    /// Returns the cursor with another part of all addresses.
    pub(super) fn with_address_part(self, address_part: u8) -> VerifyCursor {
        VerifyCursor {
            address_part,
            ..self
        }
    }

    /// Stores the cursor.
    pub(super) async fn save(&self, lake: &Lake) -> Result<()> {
        let bytes = serde_json::to_vec(self).file("can't write", Self::path())?;
        lake.location()
            .store()
            .put(&Self::path(), PutPayload::from(bytes))
            .await
            .file("can't write", Self::path())?;
        Ok(())
    }
}

/// Returns one round over `segments`, which are in the order of their names, from `cursor` on.
pub(super) fn round(segments: Vec<Segment>, cursor: Option<&VerifyCursor>) -> Vec<SegmentRange> {
    let whole = |segment: &Segment| SegmentRange {
        segment: segment.clone(),
        from: 0,
        until: usize::MAX,
    };
    let Some(cursor) = cursor else {
        return segments.iter().map(whole).collect();
    };
    let start = segments.partition_point(|segment| segment.id.as_str() < cursor.segment.as_str());
    let (before, after) = segments.split_at(start);
    let mut ranges: Vec<SegmentRange> = after.iter().chain(before).map(whole).collect();
    let split = cursor.row_group;
    match ranges
        .first_mut()
        .filter(|first| first.segment.id.as_str() == cursor.segment && split > 0)
    {
        Some(first) => {
            first.from = split;
            let rest = SegmentRange {
                segment: first.segment.clone(),
                from: 0,
                until: split,
            };
            ranges.push(rest);
            ranges
        }
        None => ranges,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::DataFile;

    fn segments(names: &[&str]) -> Vec<Segment> {
        let segment = |name: &&str| {
            let file = DataFile::untagged(format!("part-{name}.parquet"), 1, 1);
            Segment {
                id: SegmentId::of_file(&file.name).unwrap(),
                file,
            }
        };
        names.iter().map(segment).collect()
    }

    fn bounds(ranges: &[SegmentRange]) -> Vec<(String, usize, usize)> {
        let place = |range: &SegmentRange| {
            (
                range.segment.id.as_str().to_owned(),
                range.from,
                range.until,
            )
        };
        ranges.iter().map(place).collect()
    }

    #[test]
    fn a_round_begins_at_the_cursor_and_ends_before_it() {
        let all = || segments(&["a", "b", "c"]);
        let at = |segment: &str, row_group| VerifyCursor {
            segment: segment.to_owned(),
            row_group,
            address_part: 0,
        };
        let end = usize::MAX;
        let expected = |places: &[(&str, usize, usize)]| -> Vec<_> {
            places
                .iter()
                .map(|(name, from, until)| ((*name).to_owned(), *from, *until))
                .collect()
        };
        assert_eq!(
            bounds(&round(all(), None)),
            expected(&[("a", 0, end), ("b", 0, end), ("c", 0, end)])
        );
        assert_eq!(
            bounds(&round(all(), Some(&at("b", 3)))),
            expected(&[("b", 3, end), ("c", 0, end), ("a", 0, end), ("b", 0, 3)])
        );
        let gone = bounds(&round(all(), Some(&at("aa", 3))));
        assert_eq!(
            gone,
            expected(&[("b", 0, end), ("c", 0, end), ("a", 0, end)])
        );
        let beyond = bounds(&round(all(), Some(&at("d", 3))));
        assert_eq!(
            beyond,
            expected(&[("a", 0, end), ("b", 0, end), ("c", 0, end)])
        );
    }

    #[test]
    fn parts_of_a_lake_have_the_same_share_of_the_addresses() {
        let scope = |subset| VerifyScope {
            subset: Some(subset),
            max_duration: None,
        };
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(VerifyScope::default().address_parts(0, 1_000), all);
        assert_eq!(VerifyScope::default().address_parts(0, 0), all);
        assert_eq!(scope(Subset::Bytes(5_000)).address_parts(0, 1_000), all);
        let rolling = scope(Subset::Share(0.01));
        assert_eq!(rolling.address_parts(254, 1_000), [254, 255, 0]);
        assert!(scope(Subset::Bytes(0)).address_parts(7, 1_000).is_empty());
        let groups = (1..=7).flat_map(|number| {
            let group = scope(Subset::Group { number, of: 7 });
            group.address_parts(0, 1_000)
        });
        let mut groups: Vec<u8> = groups.collect();
        groups.sort_unstable();
        assert_eq!(groups, all);
    }

    #[test]
    fn each_row_group_is_in_one_part_of_a_lake() {
        let all = segments(&["a", "b", "c", "d"]);
        for segment in &all {
            for row_group in 0..50 {
                let part = |number| VerifyScope {
                    subset: Some(Subset::Group { number, of: 7 }),
                    max_duration: None,
                };
                let groups = (1..=7)
                    .filter(|number| part(*number).has(&segment.id, row_group))
                    .count();
                assert_eq!(groups, 1);
            }
        }
    }
}

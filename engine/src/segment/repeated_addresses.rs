//! The addresses that more than one row of some segments has, by a merge of their address indexes.
//!
//! The merge is divided into parts by the first byte of an address, so that it can be done on
//! several threads, and continued later. Addresses are hashes, so parts have about the same size.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;

use super::address_index::AddressIndex;

/// The number of parts into which addresses are divided by their first byte.
pub(crate) const ADDRESS_PARTS: u64 = 256;

/// A row of one of several segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowPlace {
    /// The number of the segment.
    pub(crate) segment: usize,
    /// The row in the segment.
    pub(crate) row: u32,
}

/// The next entry of an index: its address, the number of the index, and the place in the index.
type MergeEntry = (ContentAddress, usize, u32);

/// Calls `found` with each address of `part` that more than one row of the segments with `indexes`
/// has, ascending, and with these rows in order. Indexes whose entries are damaged give too few or
/// wrong addresses.
///
/// O(n log k) for n addresses in k indexes. Memory holds the rows of one address.
pub(crate) fn repeated_addresses(
    indexes: &[Arc<AddressIndex>],
    part: u8,
    mut found: impl FnMut(ContentAddress, &[RowPlace]),
) {
    let entry = |segment: usize, place: u32| -> Option<Reverse<MergeEntry>> {
        let address = indexes.get(segment)?.address_at(place)?;
        let is_in_part = address.as_bytes()[0] == part;
        is_in_part.then_some(Reverse((address, segment, place)))
    };
    let first = |(segment, index): (usize, &Arc<AddressIndex>)| {
        entry(segment, index.first_place(u64::from(part) << 56))
    };
    let mut report = |entries: &[MergeEntry]| {
        let [(address, ..), _, ..] = entries else {
            return;
        };
        let row = |(_, segment, place): &MergeEntry| {
            let row = indexes.get(*segment)?.row_at(*place)?;
            Some(RowPlace {
                segment: *segment,
                row,
            })
        };
        let mut rows: Vec<RowPlace> = entries.iter().filter_map(row).collect();
        rows.sort_unstable();
        found(*address, &rows);
    };
    let mut heads: BinaryHeap<_> = indexes.iter().enumerate().filter_map(first).collect();
    let mut equal: Vec<MergeEntry> = Vec::new();
    while let Some(next) = take_least(&mut heads, entry) {
        let is_other = |(address, ..): &MergeEntry| *address != next.0;
        if equal.first().is_some_and(is_other) {
            report(&equal);
            equal.clear();
        }
        equal.push(next);
    }
    report(&equal);
}

/// Removes the least entry from `heads`, and adds the one after it in the same index.
fn take_least(
    heads: &mut BinaryHeap<Reverse<MergeEntry>>,
    entry: impl Fn(usize, u32) -> Option<Reverse<MergeEntry>>,
) -> Option<MergeEntry> {
    let mut head = heads.peek_mut()?;
    let Reverse(least) = *head;
    let (_, segment, place) = least;
    match entry(segment, place + 1) {
        Some(next) => *head = next,
        None => _ = PeekMut::pop(head),
    }
    Some(least)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    /// Returns one of few addresses: hashes, and such that differ in their last byte only.
    fn address(number: u8) -> ContentAddress {
        match number % 3 {
            0 => {
                let mut digest = [0xff; 32];
                digest[31] = number;
                ContentAddress::from_digest(digest)
            }
            _ => ContentAddress::of(&[number]),
        }
    }

    fn index(rows: &[ContentAddress]) -> Arc<AddressIndex> {
        Arc::new(AddressIndex::open(AddressIndex::build(&[rows]).into()).unwrap())
    }

    /// Returns what the merge of all parts finds, in the order in which it finds it.
    fn found(segments: &[Vec<ContentAddress>]) -> Vec<(ContentAddress, Vec<RowPlace>)> {
        let indexes: Vec<_> = segments.iter().map(|rows| index(rows)).collect();
        let mut found = Vec::new();
        for part in 0..=u8::MAX {
            repeated_addresses(&indexes, part, |address, rows| {
                found.push((address, rows.to_vec()));
            });
        }
        found
    }

    proptest! {
        #[test]
        fn the_merge_finds_what_a_set_of_all_addresses_finds(
            segments in prop::collection::vec(prop::collection::vec(0..60_u8, 0..40), 0..6),
        ) {
            let segments: Vec<Vec<ContentAddress>> = segments
                .iter()
                .map(|rows| rows.iter().copied().map(address).collect())
                .collect();
            let mut seen = HashSet::new();
            let mut all: BTreeMap<ContentAddress, Vec<RowPlace>> = BTreeMap::new();
            let mut surplus = 0;
            for (segment, rows) in segments.iter().enumerate() {
                for (address, row) in rows.iter().zip(0..) {
                    surplus += usize::from(!seen.insert(address.to_string()));
                    all.entry(*address).or_default().push(RowPlace { segment, row });
                }
            }
            all.retain(|_, rows| rows.len() > 1);
            let found = found(&segments);
            let rows: usize = found.iter().map(|(_, rows)| rows.len() - 1).sum();
            prop_assert_eq!(rows, surplus);
            prop_assert_eq!(found, all.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn addresses_of_other_parts_are_not_found() {
        let indexes = [index(&[address(0)]), index(&[address(0)])];
        for part in 0..=u8::MAX {
            let mut count = 0;
            repeated_addresses(&indexes, part, |_, _| count += 1);
            assert_eq!(count, u32::from(part == 0xff));
        }
    }
}

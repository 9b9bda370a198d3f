//! The address index of a segment: from a content address to its row.
//!
//! Ingest uses it to detect grains that the lake contains already, and every look-up by address
//! uses it to find the row. Addresses are hashes, so their first bits are evenly distributed: a
//! directory over these bits leads to a bucket of a few entries.
//!
//! ```text
//! "GMADDR01"  magic                          8
//! n           rows                           u64
//! b           bits of the directory          u32
//! 0           reserved                       u32
//! directory   first place of each bucket     u32 × (2^b + 1)
//! prefixes    first 8 bytes, big-endian      u64 × n, ascending
//! tails       the other 24 bytes             24 × n, in the same order
//! rows        row in the segment             u32 × n, in the same order
//! checksum    BLAKE3 of all before           32
//! ```
//!
//! Integers are little-endian, except the prefixes. The index is derived from the segment and can
//! be rebuilt.

use std::ops::Range;

use arrow::array::{AsArray, RecordBatch};
use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;

/// The name of the file in the segment's sidecar folder.
pub const ADDRESSES_FILE: &str = "addresses.bin";

const MAGIC: &[u8; 8] = b"GMADDR01";
const HEADER: usize = 24;
const TAIL: usize = 24;
const CHECKSUM: usize = 32;

/// Average number of addresses in a bucket of the directory.
const BUCKET: usize = 8;

/// Why an address index can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address index is damaged: {0}")]
pub struct DamagedIndex(&'static str);

/// The address index of one segment. It borrows the bytes of its file.
#[derive(Debug)]
pub struct AddressIndex {
    bytes: SourceBytes,
    count: usize,
    directory_bits: u32,
}

impl AddressIndex {
    /// Returns the bytes of the index for a segment whose rows have the addresses of `parts`, one
    /// part after another. O(n) for addresses that are hashes: each is placed into its bucket
    /// directly, and only buckets are sorted. Needs no memory besides the result and the directory.
    pub fn build<P: AsRef<[ContentAddress]>>(parts: &[P]) -> Vec<u8> {
        let addresses = || {
            parts
                .iter()
                .flat_map(|part| part.as_ref())
                .map(ContentAddress::as_bytes)
        };
        let count = parts.iter().map(|part| part.as_ref().len()).sum();
        let bits = directory_bits(count);
        let directory = directory_of(addresses(), bits);
        let mut out = vec![0; length(count, bits)];
        let (content, checksum) = out.split_at_mut(length(count, bits) - CHECKSUM);
        let (head, rest) = content.split_at_mut(HEADER + 4 * directory.len());
        write_head(head, count, bits, &directory);
        let (prefixes, rest) = rest.split_at_mut(8 * count);
        let (tails, rows) = rest.split_at_mut(TAIL * count);
        let mut entries = EntryArrays {
            prefixes: prefixes.as_chunks_mut().0,
            tails: tails.as_chunks_mut().0,
            rows: rows.as_chunks_mut().0,
        };
        entries.fill(addresses(), &directory, bits);
        checksum.copy_from_slice(blake3::hash(content).as_bytes());
        out
    }

    /// Opens the index in `bytes` and checks all of it. Reads every byte once; pages of a mapped
    /// file don't stay in the memory of the process, because a look-up needs few.
    ///
    /// # Errors
    /// `DamagedIndex` if a check fails.
    pub fn open(bytes: SourceBytes) -> Result<AddressIndex, DamagedIndex> {
        let index = AddressIndex::open_unchecked(bytes)?;
        let (content, checksum) = index.bytes.split_at(index.bytes.len() - CHECKSUM);
        let is_intact = blake3::hash(content).as_bytes() == checksum;
        index.release();
        is_intact
            .then_some(index)
            .ok_or(DamagedIndex("checksum differs"))
    }

    /// Opens the index in `bytes` without its checksum. Reads its header; entries may be damaged.
    ///
    /// # Errors
    /// `DamagedIndex` if it can't be an index.
    pub(crate) fn open_unchecked(bytes: SourceBytes) -> Result<AddressIndex, DamagedIndex> {
        let head = bytes
            .first_chunk::<HEADER>()
            .ok_or(DamagedIndex("shorter than its header"))?;
        if !head.starts_with(MAGIC) {
            return Err(DamagedIndex("other magic"));
        }
        let count = read_u64(head, 8)
            .and_then(|count| usize::try_from(count).ok())
            .filter(|count| *count <= u32::MAX as usize);
        let count = count.ok_or(DamagedIndex("impossible row count"))?;
        let directory_bits = read_u32(head, 16).filter(|bits| *bits == self::directory_bits(count));
        let directory_bits = directory_bits.ok_or(DamagedIndex("impossible directory"))?;
        if bytes.len() != length(count, directory_bits) {
            return Err(DamagedIndex("cut or grown"));
        }
        Ok(AddressIndex {
            bytes,
            count,
            directory_bits,
        })
    }

    /// Releases the pages that look-ups have touched. Later look-ups read them from the file again.
    pub(crate) fn release(&self) {
        self.bytes.release(0..self.bytes.len());
    }

    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the place of each row in the order of the addresses. O(n).
    pub(crate) fn places(&self) -> Vec<u32> {
        let mut places = vec![u32::MAX; self.count];
        let rows = self
            .bytes
            .get(self.rows()..)
            .unwrap_or_default()
            .chunks_exact(4)
            .take(self.count);
        for (place, row) in rows.enumerate() {
            let row = row.try_into().map(u32::from_le_bytes).unwrap_or(u32::MAX);
            if let Some(own) = places.get_mut(row as usize) {
                *own = place as u32;
            }
        }
        places
    }

    /// Returns the first place whose address isn't less than one that begins with `prefix` and
    /// continues with zeros. O(log n).
    pub(crate) fn first_place(&self, prefix: u64) -> u32 {
        let prefixes = self.prefixes();
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match read_u64(&self.bytes, prefixes + 8 * middle) {
                Some(found) if found < prefix => low = middle + 1,
                _ => high = middle,
            }
        }
        low as u32
    }

    /// Returns the rows, ascending, of the addresses that are less than one that begins with
    /// `prefix` and continues with zeros. O(n) for n such rows, and the search for the first other.
    pub fn rows_below(&self, prefix: u64) -> Vec<u32> {
        let places = 0..self.first_place(prefix);
        let mut rows: Vec<u32> = places.filter_map(|place| self.row_at(place)).collect();
        rows.sort_unstable();
        rows
    }

    /// Returns the row of the address at `place`.
    pub(crate) fn row_at(&self, place: u32) -> Option<u32> {
        let place = usize::try_from(place)
            .ok()
            .filter(|place| *place < self.count)?;
        read_u32(&self.bytes, self.rows() + 4 * place)
    }

    /// Returns true if the index consists of the bytes `built`. Reads every byte.
    pub(crate) fn has_bytes(&self, built: &[u8]) -> bool {
        *self.bytes == *built
    }

    /// Returns the address at `place` in the order of the addresses.
    pub(crate) fn address_at(&self, place: u32) -> Option<ContentAddress> {
        let place = usize::try_from(place)
            .ok()
            .filter(|place| *place < self.count)?;
        let mut digest = [0; 32];
        let (prefix, tail) = digest.split_at_mut(8);
        prefix.copy_from_slice(&read_u64(&self.bytes, self.prefixes() + 8 * place)?.to_be_bytes());
        tail.copy_from_slice(self.bytes.get(self.tails() + TAIL * place..)?.get(..TAIL)?);
        Some(ContentAddress::from_digest(digest))
    }

    /// Returns all addresses, ascending.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = ContentAddress> {
        (0..self.count as u32).filter_map(|place| self.address_at(place))
    }

    fn prefixes(&self) -> usize {
        HEADER + 4 * ((1 << self.directory_bits) + 1)
    }

    fn tails(&self) -> usize {
        self.prefixes() + 8 * self.count
    }

    fn rows(&self) -> usize {
        self.tails() + TAIL * self.count
    }

    /// Returns the places of the entries that may have `prefix`.
    fn bucket(&self, prefix: u64) -> Option<Range<usize>> {
        let directory = HEADER + 4 * bucket_of(prefix, self.directory_bits);
        let first = read_u32(&self.bytes, directory)? as usize;
        let end = read_u32(&self.bytes, directory + 4)? as usize;
        Some(first..end.min(self.count))
    }

    /// Returns the row of `address`. Takes a few memory accesses, independent of the size of the
    /// segment.
    pub fn row_of(&self, address: &ContentAddress) -> Option<u32> {
        let prefix = prefix_of(address.as_bytes());
        let (prefixes, tails, rows) = (self.prefixes(), self.tails(), self.rows());
        self.bucket(prefix)?
            .filter(|place| read_u64(&self.bytes, prefixes + 8 * place) == Some(prefix))
            .find(|place| {
                self.bytes
                    .get(tails + TAIL * place..)
                    .is_some_and(|tail| tail.starts_with(&address.as_bytes()[8..]))
            })
            .and_then(|place| read_u32(&self.bytes, rows + 4 * place))
    }
}

/// Writes the header and the directory of an index to `head`.
fn write_head(head: &mut [u8], count: usize, bits: u32, directory: &[u32]) {
    let (header, cells) = head.split_at_mut(HEADER);
    header[..8].copy_from_slice(MAGIC);
    header[8..16].copy_from_slice(&(count as u64).to_le_bytes());
    header[16..20].copy_from_slice(&bits.to_le_bytes());
    for (cell, first) in cells.as_chunks_mut::<4>().0.iter_mut().zip(directory) {
        *cell = first.to_le_bytes();
    }
}

/// Returns the first place of each bucket of `addresses`, and the end of the last one.
fn directory_of<'a>(addresses: impl Iterator<Item = &'a [u8; 32]>, bits: u32) -> Vec<u32> {
    let mut directory = vec![0; (1 << bits) + 1];
    for address in addresses {
        directory[bucket_of(prefix_of(address), bits) + 1] += 1;
    }
    let mut sum = 0;
    for first in &mut directory {
        sum += *first;
        *first = sum;
    }
    directory
}

/// The arrays of an index that is being built, in the order of its file.
struct EntryArrays<'b> {
    prefixes: &'b mut [[u8; 8]],
    tails: &'b mut [[u8; TAIL]],
    rows: &'b mut [[u8; 4]],
}

/// An entry that is being sorted: its prefix, its tail and its row.
type IndexEntry = (u64, [u8; TAIL], [u8; 4]);

impl EntryArrays<'_> {
    /// Sorts in `addresses`, which belong to the rows in their order. `directory` has the
    /// position at which the entries of each bucket begin.
    fn fill<'a>(
        &mut self,
        addresses: impl Iterator<Item = &'a [u8; 32]>,
        directory: &[u32],
        bits: u32,
    ) {
        let mut next = directory.to_vec();
        for (address, row) in addresses.zip(0_u32..) {
            let place = &mut next[bucket_of(prefix_of(address), bits)];
            self.set(*place as usize, address, row);
            *place += 1;
        }
        let mut sorted = Vec::new();
        directory
            .windows(2)
            .for_each(|bucket| self.sort(bucket[0] as usize..bucket[1] as usize, &mut sorted));
    }

    fn set(&mut self, place: usize, address: &[u8; 32], row: u32) {
        self.prefixes[place] = prefix_of(address).to_le_bytes();
        self.tails[place].copy_from_slice(&address[32 - TAIL..]);
        self.rows[place] = row.to_le_bytes();
    }

    /// Sorts the entries at `places`, with `sorted` as scratch memory.
    fn sort(&mut self, places: Range<usize>, sorted: &mut Vec<IndexEntry>) {
        sorted.clear();
        sorted.extend(places.clone().map(|place| {
            let prefix = u64::from_le_bytes(self.prefixes[place]);
            (prefix, self.tails[place], self.rows[place])
        }));
        sorted.sort_unstable();
        for (place, (prefix, tail, row)) in places.zip(&*sorted) {
            self.prefixes[place] = prefix.to_le_bytes();
            self.tails[place] = *tail;
            self.rows[place] = *row;
        }
    }
}

fn length(count: usize, bits: u32) -> usize {
    HEADER + 4 * ((1 << bits) + 1) + (8 + TAIL + 4) * count + CHECKSUM
}

fn directory_bits(count: usize) -> u32 {
    (count / BUCKET).max(1).next_power_of_two().trailing_zeros()
}

fn bucket_of(prefix: u64, bits: u32) -> usize {
    prefix.checked_shr(64 - bits).unwrap_or(0) as usize
}

fn prefix_of(address: &[u8; 32]) -> u64 {
    address
        .first_chunk()
        .map_or(0, |prefix| u64::from_be_bytes(*prefix))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|chunk| u64::from_le_bytes(*chunk))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|chunk| u32::from_le_bytes(*chunk))
}

/// Returns the addresses of the rows of `batch`.
///
/// # Errors
/// If the batch has no column of addresses, or one of them can't be parsed.
pub(crate) fn addresses_of(
    batch: &RecordBatch,
) -> Result<Vec<ContentAddress>, Box<dyn std::error::Error + Send + Sync>> {
    let column = batch
        .column_by_name(SystemColumn::ContentAddress.name())
        .ok_or("no column of addresses")?;
    column
        .as_string::<i32>()
        .iter()
        .map(|text| Ok(text.unwrap_or_default().parse()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(count: u32) -> Vec<ContentAddress> {
        (0..count)
            .map(|number| ContentAddress::of(&number.to_be_bytes()))
            .collect()
    }

    #[test]
    fn every_address_is_found_at_its_row_and_no_other_is() {
        for count in [0, 1, 7, 8, 9, 1_000, 20_000] {
            let all = addresses(count);
            // Several parts, one of which may be empty.
            let (some, others) = all.split_at(all.len() / 3);
            let index =
                AddressIndex::open(AddressIndex::build(&[some, &[], others]).into()).unwrap();
            assert_eq!(index.len(), all.len());
            for (row, address) in all.iter().enumerate() {
                assert_eq!(index.row_of(address), Some(row as u32));
            }
            let by_row: Vec<_> = index
                .places()
                .into_iter()
                .map(|place| index.address_at(place).unwrap())
                .collect();
            assert_eq!((by_row, index.address_at(count)), (all.clone(), None));
            let places = index.places();
            for (row, address) in all.iter().enumerate() {
                assert_eq!(index.row_at(places[row]), Some(row as u32));
                assert_eq!(
                    index.first_place(prefix_of(address.as_bytes())),
                    places[row]
                );
            }
            assert_eq!((index.row_at(count), index.first_place(0)), (None, 0));
            for stranger in
                (count..count + 1_000).map(|number| ContentAddress::of(&number.to_le_bytes()))
            {
                let known = all.contains(&stranger);
                assert_eq!(index.row_of(&stranger).is_some(), known);
            }
        }
    }

    #[test]
    fn an_unchecked_index_may_have_damaged_entries_but_no_damaged_header() {
        let all = addresses(1_000);
        let intact = AddressIndex::build(&[&all]);
        let unchecked = |bytes: &[u8]| AddressIndex::open_unchecked(bytes.to_vec().into());
        assert_eq!(unchecked(&intact).unwrap().row_of(&all[7]), Some(7));
        let mut damaged = intact.clone();
        damaged[HEADER..].fill(0xff);
        assert!(AddressIndex::open(damaged.clone().into()).is_err());
        assert_eq!(unchecked(&damaged).unwrap().row_of(&all[7]), None);
        assert!(unchecked(&intact[1..]).is_err());
        assert!(unchecked(&intact[..intact.len() - 1]).is_err());
    }

    #[test]
    fn addresses_with_equal_first_bytes_are_distinguished() {
        let all: Vec<_> = (0..50)
            .map(|number| {
                let mut digest = [0xff; 32];
                digest[31] = number;
                ContentAddress::from_digest(digest)
            })
            .collect();
        let index = AddressIndex::open(AddressIndex::build(&[&all]).into()).unwrap();
        all.iter()
            .enumerate()
            .for_each(|(row, address)| assert_eq!(index.row_of(address), Some(row as u32)));
    }

    #[test]
    fn the_rows_below_a_prefix_are_those_of_the_lesser_addresses() {
        let all = addresses(1_000);
        let index = AddressIndex::open(AddressIndex::build(&[&all]).into()).unwrap();
        let prefix = |row: usize| prefix_of(all[row].as_bytes());
        for bound in [0, 1, u64::MAX / 3, prefix(0), prefix(500) + 1, u64::MAX] {
            let below: Vec<u32> = (0..1_000)
                .filter(|row| prefix(*row as usize) < bound)
                .collect();
            assert_eq!(index.rows_below(bound), below, "{bound}");
        }
    }

    #[test]
    fn a_damaged_index_is_refused() {
        let bytes = AddressIndex::build(&[addresses(100)]);
        for at in (0..bytes.len()).step_by(17) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(AddressIndex::open(damaged.into()).is_err(), "byte {at}");
        }
        assert!(AddressIndex::open(bytes[..bytes.len() - 1].to_vec().into()).is_err());
        assert!(AddressIndex::open(Vec::new().into()).is_err());
    }
}

//! The file of a lifecycle mask, in two parts with a checksum each.
//!
//! Queries over the current rows need the bitmaps only. So these come first, and the entries, of
//! which there are many more bytes, are read and checked when something asks for them.
//!
//! ```text
//! "GMLIFE02"    magic                                                    8
//! n             rows of the segment                                      u64
//! f             files whose events are in the mask                       u64
//! r             rows with an effect                                      u64
//! b             bytes of the effects                                     u64
//! e, c          bytes of the two bitmaps                                 u64 × 2
//! files         first 16 bytes of BLAKE3 of "TABLE/FILE", ascending      16 × f
//! ended         rows that were superseded or expired                     e
//! not current   these, and contradicted and retracted rows               c
//! checksum      BLAKE3 of all before                                     32
//! entries       address (32), row (u32), end of its effects (u64),
//!               ascending by address                                     44 × r
//! effects       tag (u8), microseconds since 1970 (i64), operand         b
//! checksum      BLAKE3 of the first checksum, the entries and effects    32
//! ```
//!
//! Integers are little-endian, bitmaps are in Roaring's portable format. The tags are 1 superseded
//! (operand: address of the successor), 2 ended, 3 contradicted, 4 contradiction withdrawn, 5
//! verification (status, u8), 6 accessed, 7 accessed (count, i64).

use std::error::Error;
use std::sync::OnceLock;

use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::address::ContentAddress;
use roaring::RoaringBitmap;

use super::effect_codec::{decode, encode};
use super::event_source::{EventSource, SourceDigest};
use super::{HiddenRows, MaskEntry, hidden_bitmap};
use crate::segment::Sidecar;

/// Name of the sidecar file.
pub const LIFECYCLE_FILE: &str = "lifecycle.bin";

const MAGIC: &[u8; 8] = b"GMLIFE02";
const NUMBERS: usize = 6;
const FIXED: usize = MAGIC.len() + 8 * NUMBERS;
const DIGEST: usize = size_of::<SourceDigest>();
const ENTRY: usize = 32 + 4 + 8;
const CHECKSUM: usize = 32;

/// Returns the bytes of the mask of a segment with `rows` rows, whose `entries` were found in the
/// files `sources` (ascending).
pub(super) fn build(rows: u64, sources: &[SourceDigest], mut entries: Vec<MaskEntry>) -> Vec<u8> {
    entries.sort_unstable_by_key(|entry| entry.address);
    let (mut table, mut effects) = (Vec::with_capacity(entries.len() * ENTRY), Vec::new());
    for entry in &entries {
        entry
            .effects
            .iter()
            .for_each(|effect| encode(*effect, &mut effects));
        table.extend(entry.address.as_bytes());
        table.extend(entry.row.to_le_bytes());
        table.extend((effects.len() as u64).to_le_bytes());
    }
    let [ended, closed] = [HiddenRows::Ended, HiddenRows::NotCurrent].map(|hidden| {
        let mut bytes = Vec::new();
        // Writing to memory can't fail.
        let _ = hidden_bitmap(&entries, hidden).serialize_into(&mut bytes);
        bytes
    });
    let numbers = [
        rows,
        sources.len() as u64,
        entries.len() as u64,
        effects.len() as u64,
        ended.len() as u64,
        closed.len() as u64,
    ];
    let mut out = MAGIC.to_vec();
    numbers
        .iter()
        .for_each(|number| out.extend(number.to_le_bytes()));
    out.extend(sources.as_flattened());
    out.extend(ended);
    out.extend(closed);
    let first = out.len();
    out.extend(blake3::hash(&out).as_bytes());
    out.extend(table);
    out.extend(effects);
    let second = blake3::hash(out.get(first..).unwrap_or_default());
    out.extend(second.as_bytes());
    out
}

/// Why a lifecycle mask can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lifecycle mask is damaged: {0}")]
pub struct DamagedMask(&'static str);

impl DamagedMask {
    /// It is intact, or may be, but in the format of another version.
    pub(in crate::index) const OTHER_VERSION: DamagedMask = DamagedMask("it has another format");
}

/// The lifecycle mask of one segment, borrowing its file's bytes.
#[derive(Debug)]
pub struct LifecycleMask {
    bytes: SourceBytes,
    rows: u64,
    sources: usize,
    entries: usize,
    effects: usize,
    /// Where the first checksum begins.
    first_checksum: usize,
    ended: RoaringBitmap,
    not_current: RoaringBitmap,
    /// Whether the second checksum is that of the entries, once it was compared.
    entries_intact: OnceLock<bool>,
}

impl LifecycleMask {
    /// Opens the mask in `bytes` and checks the part with the bitmaps, which it reads once.
    ///
    /// # Errors
    /// [`DamagedMask`] if a check fails.
    pub fn open(bytes: SourceBytes) -> Result<LifecycleMask, DamagedMask> {
        let head = bytes
            .first_chunk::<FIXED>()
            .ok_or(DamagedMask("it is too short"))?;
        let (magic, cells) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(match magic.starts_with(b"GMLIFE0") {
                true => DamagedMask::OTHER_VERSION,
                false => DamagedMask("other magic"),
            });
        }
        let mut numbers = [0; NUMBERS];
        for (number, cell) in numbers.iter_mut().zip(cells.as_chunks::<8>().0) {
            *number = u64::from_le_bytes(*cell);
        }
        let [rows, sources, entries, effects, ended, closed] = numbers;
        let length = length_of(sources, entries, [effects, ended, closed]);
        if length != Some(bytes.len() as u64) {
            return Err(DamagedMask("cut or grown"));
        }
        // All numbers are below the length.
        let [sources, entries, effects] = [sources, entries, effects].map(|it| it as usize);
        let bitmaps = FIXED + DIGEST * sources;
        let closed_from = bitmaps + ended as usize;
        let first_checksum = closed_from + closed as usize;
        let (content, rest) = bytes.split_at(first_checksum);
        if !rest.starts_with(blake3::hash(content).as_bytes()) {
            return Err(DamagedMask("checksum differs"));
        }
        let bitmap = |bytes: Option<&[u8]>| {
            RoaringBitmap::deserialize_from(bytes.unwrap_or_default())
                .map_err(|_| DamagedMask("impossible bitmap"))
        };
        let ended = bitmap(content.get(bitmaps..closed_from))?;
        let not_current = bitmap(content.get(closed_from..))?;
        if not_current.max().is_some_and(|row| u64::from(row) >= rows) {
            return Err(DamagedMask("a row beyond the segment's end"));
        }
        Ok(LifecycleMask {
            rows,
            sources,
            entries,
            effects,
            first_checksum,
            ended,
            not_current,
            entries_intact: OnceLock::new(),
            bytes,
        })
    }

    /// Returns true if the entries are those that were written. Reads all of them the first time.
    pub(super) fn has_intact_entries(&self) -> bool {
        *self.entries_intact.get_or_init(|| {
            let part = self.bytes.get(self.first_checksum..).unwrap_or_default();
            let (content, checksum) = part.split_at(part.len().saturating_sub(CHECKSUM));
            blake3::hash(content).as_bytes() == checksum
        })
    }

    /// Returns true if [`LifecycleMask::has_intact_entries`] was asked.
    pub(super) fn entries_were_checked(&self) -> bool {
        self.entries_intact.get().is_some()
    }

    /// Returns the number of rows of the segment.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the digests of the files whose events are in the mask.
    pub(super) fn sources(&self) -> &[SourceDigest] {
        let bytes = self.bytes.get(FIXED..FIXED + DIGEST * self.sources);
        bytes.unwrap_or_default().as_chunks::<DIGEST>().0
    }

    /// Returns true if all files whose events are in the mask are among `live` (ascending).
    pub(in crate::index) fn is_covered_by(&self, live: &[EventSource]) -> bool {
        let is_live = |digest| {
            live.binary_search_by_key(digest, |source| source.digest)
                .is_ok()
        };
        self.sources().iter().all(is_live)
    }

    /// Returns the entries; `None` if they are damaged. Reads all of them the first time.
    pub(super) fn entries(&self) -> Option<MaskEntries<'_>> {
        let bytes = self.bytes.get(self.first_checksum + CHECKSUM..)?;
        let (table, rest) = bytes.split_at_checked(ENTRY * self.entries)?;
        self.has_intact_entries().then_some(MaskEntries {
            table: table.as_chunks::<ENTRY>().0,
            effects: rest.get(..self.effects)?,
        })
    }

    /// Returns the rows that `hidden` leaves out, without those of the tail; `None` if that can't
    /// be told because the entries are damaged.
    pub(super) fn hidden(&self, hidden: HiddenRows) -> Option<RoaringBitmap> {
        Some(match hidden {
            HiddenRows::Ended => self.ended.clone(),
            HiddenRows::NotCurrent => self.not_current.clone(),
            HiddenRows::NotCurrentAt(_) => self
                .entries()?
                .iter()
                .filter(|entry| hidden.hides(&entry.effects))
                .map(|entry| entry.row)
                .collect(),
        })
    }
}

/// The rows with effects of a mask, ascending by address.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaskEntries<'m> {
    table: &'m [[u8; ENTRY]],
    effects: &'m [u8],
}

impl<'m> MaskEntries<'m> {
    /// Returns all entries.
    pub(super) fn iter(self) -> impl Iterator<Item = MaskEntry> + 'm {
        (0..self.table.len()).filter_map(move |at| self.get(at))
    }

    /// Returns the entry of `address`, if it has any effect. Takes a binary search.
    pub(super) fn find(self, address: &ContentAddress) -> Option<MaskEntry> {
        let wanted: &[u8] = address.as_bytes();
        let found = self
            .table
            .binary_search_by(|entry| entry.get(..32).cmp(&Some(wanted)));
        self.get(found.ok()?)
    }

    fn get(self, at: usize) -> Option<MaskEntry> {
        let entry = self.table.get(at)?;
        let first = match at.checked_sub(1) {
            Some(before) => self.effects_end(before)?,
            None => 0,
        };
        let row = *entry.get(32..)?.first_chunk()?;
        Some(MaskEntry {
            address: ContentAddress::from_digest(*entry.first_chunk()?),
            row: u32::from_le_bytes(row),
            effects: decode(self.effects.get(first..self.effects_end(at)?)?),
        })
    }

    /// Returns where the effects of entry `at` end.
    fn effects_end(self, at: usize) -> Option<usize> {
        let end = u64::from_le_bytes(*self.table.get(at)?.last_chunk()?);
        usize::try_from(end).ok()
    }
}

/// Returns the length of a mask with these numbers of parts; `None` beyond 64 bits.
fn length_of(sources: u64, entries: u64, bytes: [u64; 3]) -> Option<u64> {
    let fixed = (FIXED + 2 * CHECKSUM) as u64;
    let sources = sources.checked_mul(DIGEST as u64)?;
    let entries = entries.checked_mul(ENTRY as u64)?;
    [sources, entries]
        .iter()
        .chain(&bytes)
        .try_fold(fixed, |sum, part| sum.checked_add(*part))
}

impl Sidecar for LifecycleMask {
    const FILE: &'static str = LIFECYCLE_FILE;
    const NAME: &'static str = "lifecycle mask";

    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mask = LifecycleMask::open(bytes)?;
        match mask.has_intact_entries() {
            true => Ok(mask),
            false => Err(DamagedMask("checksum of the entries differs").into()),
        }
    }

    fn segment_rows(&self) -> u64 {
        self.rows
    }
}

#[cfg(test)]
mod tests;

//! Lifecycle masks: the folded lifecycle of a segment's rows, and which rows it takes out of the
//! current ones.
//!
//! A row changes its lifecycle by events in other files: rows of `state`, and rows of `grains` that
//! supersede it. A mask contains those effects of the events about its segment that determine the
//! state at every instant (`reduce`), and the names of the files in which it found them. It stays
//! usable as long as all of these files are in the lake; files that were added later are its tail,
//! which is read and added. An erasure or a compaction replaces files, so it makes masks stale and
//! builds them again.
//!
//! ```text
//! "GMLIFE01"    magic                                                    8
//! n             rows of the segment                                      u64
//! f             files whose events are in the mask                       u64
//! r             rows with an effect                                      u64
//! b             bytes of the effects                                     u64
//! e, c          bytes of the two bitmaps                                 u64 × 2
//! files         first 16 bytes of BLAKE3 of "TABLE/FILE", ascending      16 × f
//! entries       address (32), row (u32), end of its effects (u64),
//!               ascending by address                                     44 × r
//! effects       tag (u8), microseconds since 1970 (i64), operand         b
//! ended         rows that were superseded or expired                     e
//! not current   these, and contradicted and retracted rows               c
//! checksum      BLAKE3 of all before                                     32
//! ```
//!
//! Integers are little-endian, bitmaps are in Roaring's portable format. The tags are 1 superseded
//! (operand: address of the successor), 2 ended, 3 contradicted, 4 contradiction withdrawn, 5
//! verification (status, u8), 6 accessed, 7 accessed (count, i64).
//!
//! Encrypted lakes have no masks.
//!
//! | module | contents |
//! |---|---|
//! | this one | the file: built from entries, and opened |
//! | `effect_codec` | the bytes of effects |
//! | `event_source` | the files with events, and reading them |
//! | `fold` | the effects on a segment's rows from all files, in bounded memory |
//! | `snapshot` | the masks of one version of the lake, with their tail |
//! | `refresh` | building missing, stale and outdated masks, and comparing them with the fold |

mod effect_codec;
mod event_source;
mod fold;
mod refresh;
mod snapshot;

use std::error::Error;

use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::lifecycle::{LifecycleState, TimedEffect};
use roaring::RoaringBitmap;

use crate::segment::Sidecar;
use effect_codec::{decode, encode};
pub(super) use event_source::EventSource;
use event_source::SourceDigest;
pub use refresh::{MaskRefresh, refresh_masks};
pub(crate) use refresh::{differing_masks, refresh_after};
pub use snapshot::{HiddenSelection, LifecycleSnapshot};

/// Name of the sidecar file.
pub const LIFECYCLE_FILE: &str = "lifecycle.bin";

const MAGIC: &[u8; 8] = b"GMLIFE01";
const NUMBERS: usize = 6;
const HEADER: usize = MAGIC.len() + 8 * NUMBERS;
const DIGEST: usize = size_of::<SourceDigest>();
const ENTRY: usize = 32 + 4 + 8;
const CHECKSUM: usize = 32;

/// Which rows a query leaves out because of their lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HiddenRows {
    /// Superseded and expired rows.
    Ended,
    /// Also contradicted and retracted rows.
    NotCurrent,
    /// Rows that weren't current at this instant, in microseconds since 1970.
    NotCurrentAt(i64),
}

impl HiddenRows {
    /// Returns true if a row with these effects is left out.
    fn hides(self, effects: &[TimedEffect]) -> bool {
        let until = match self {
            HiddenRows::NotCurrentAt(instant) => instant,
            HiddenRows::Ended | HiddenRows::NotCurrent => i64::MAX,
        };
        let state = state_of(effects.iter().filter(|(at, _)| *at <= until));
        match self {
            HiddenRows::Ended => state.ended().is_some(),
            HiddenRows::NotCurrent | HiddenRows::NotCurrentAt(_) => !state.is_current(),
        }
    }
}

/// Returns the fold of `effects`.
fn state_of<'e>(effects: impl IntoIterator<Item = &'e TimedEffect>) -> LifecycleState {
    let mut state = LifecycleState::default();
    effects.into_iter().for_each(|effect| state.apply(*effect));
    state
}

/// A row with lifecycle effects.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MaskEntry {
    address: ContentAddress,
    row: u32,
    /// Reduced.
    effects: Vec<TimedEffect>,
}

/// Returns the rows of `entries` that `hidden` leaves out.
fn hidden_bitmap<'e>(
    entries: impl IntoIterator<Item = &'e MaskEntry>,
    hidden: HiddenRows,
) -> RoaringBitmap {
    entries
        .into_iter()
        .filter(|entry| hidden.hides(&entry.effects))
        .map(|entry| entry.row)
        .collect()
}

/// Returns the bytes of the mask of a segment with `rows` rows, whose `entries` were found in the
/// files `sources` (ascending).
fn build(rows: u64, sources: &[SourceDigest], mut entries: Vec<MaskEntry>) -> Vec<u8> {
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
    [table, effects, ended, closed]
        .iter()
        .for_each(|part| out.extend(part));
    out.extend(blake3::hash(&out).as_bytes());
    out
}

/// Why a lifecycle mask can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lifecycle mask is damaged: {0}")]
pub struct DamagedMask(&'static str);

/// The lifecycle mask of one segment, borrowing its file's bytes.
#[derive(Debug)]
pub struct LifecycleMask {
    bytes: SourceBytes,
    rows: u64,
    sources: usize,
    entries: usize,
    effects: usize,
    ended: RoaringBitmap,
    not_current: RoaringBitmap,
}

impl LifecycleMask {
    /// Opens the mask in `bytes` and checks all of it. Reads every byte once.
    ///
    /// # Errors
    /// [`DamagedMask`] if a check fails.
    pub fn open(bytes: SourceBytes) -> Result<LifecycleMask, DamagedMask> {
        let head = bytes
            .first_chunk::<HEADER>()
            .filter(|head| head.starts_with(MAGIC))
            .ok_or(DamagedMask("other magic"))?;
        let mut numbers = [0; NUMBERS];
        for (number, cell) in numbers.iter_mut().zip(head[8..].as_chunks::<8>().0) {
            *number = u64::from_le_bytes(*cell);
        }
        let [rows, sources, entries, effects, ended, closed] = numbers;
        let length = length_of(sources, entries, [effects, ended, closed]);
        if length != Some(bytes.len() as u64) {
            return Err(DamagedMask("cut or grown"));
        }
        let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
        if blake3::hash(content).as_bytes() != checksum {
            return Err(DamagedMask("checksum differs"));
        }
        let bitmap = |end: usize, length: u64| {
            let bytes = content.get(end - length as usize..end).unwrap_or_default();
            RoaringBitmap::deserialize_from(bytes).map_err(|_| DamagedMask("impossible bitmap"))
        };
        let not_current = bitmap(content.len(), closed)?;
        let ended = bitmap(content.len() - closed as usize, ended)?;
        if not_current.max().is_some_and(|row| u64::from(row) >= rows) {
            return Err(DamagedMask("a row beyond the segment's end"));
        }
        Ok(LifecycleMask {
            rows,
            sources: sources as usize,
            entries: entries as usize,
            effects: effects as usize,
            ended,
            not_current,
            bytes,
        })
    }

    /// Returns the digests of the files whose events are in the mask.
    fn sources(&self) -> &[SourceDigest] {
        let bytes = self.bytes.get(HEADER..HEADER + DIGEST * self.sources);
        bytes.unwrap_or_default().as_chunks::<DIGEST>().0
    }

    /// Returns true if all files whose events are in the mask are among `live` (ascending).
    pub(super) fn is_covered_by(&self, live: &[EventSource]) -> bool {
        let is_live = |digest| {
            live.binary_search_by_key(digest, |source| source.digest)
                .is_ok()
        };
        self.sources().iter().all(is_live)
    }

    /// Returns the address of entry `at`.
    fn address_at(&self, at: usize) -> Option<ContentAddress> {
        let bytes = self.entry(at)?.first_chunk::<32>()?;
        Some(ContentAddress::from_digest(*bytes))
    }

    fn entry(&self, at: usize) -> Option<&[u8]> {
        let first = HEADER + DIGEST * self.sources + ENTRY * at;
        self.bytes
            .get(first..first + ENTRY)
            .filter(|_| at < self.entries)
    }

    /// Returns where the effects of entry `at` end.
    fn effects_end(&self, at: usize) -> Option<usize> {
        let end = u64::from_le_bytes(*self.entry(at)?.last_chunk()?);
        usize::try_from(end).ok().filter(|end| *end <= self.effects)
    }

    /// Returns entry `at`.
    fn entry_at(&self, at: usize) -> Option<MaskEntry> {
        let row = *self.entry(at)?.get(32..)?.first_chunk()?;
        let first = match at.checked_sub(1) {
            Some(before) => self.effects_end(before)?,
            None => 0,
        };
        let effects = HEADER + DIGEST * self.sources + ENTRY * self.entries;
        let bytes = self
            .bytes
            .get(effects + first..effects + self.effects_end(at)?)?;
        Some(MaskEntry {
            address: self.address_at(at)?,
            row: u32::from_le_bytes(row),
            effects: decode(bytes),
        })
    }

    /// Returns all entries, ascending by address.
    fn entries(&self) -> impl Iterator<Item = MaskEntry> {
        (0..self.entries).filter_map(|at| self.entry_at(at))
    }

    /// Returns the entry of `address`, if it has any effect. Takes a binary search.
    fn find(&self, address: &ContentAddress) -> Option<MaskEntry> {
        let (mut first, mut end) = (0, self.entries);
        while first < end {
            let middle = first.midpoint(end);
            match self.address_at(middle)?.cmp(address) {
                std::cmp::Ordering::Less => first = middle + 1,
                std::cmp::Ordering::Greater => end = middle,
                std::cmp::Ordering::Equal => return self.entry_at(middle),
            }
        }
        None
    }

    /// Returns the rows that `hidden` leaves out, without those of the tail.
    fn hidden(&self, hidden: HiddenRows) -> RoaringBitmap {
        match hidden {
            HiddenRows::Ended => self.ended.clone(),
            HiddenRows::NotCurrent => self.not_current.clone(),
            HiddenRows::NotCurrentAt(_) => self
                .entries()
                .filter(|entry| hidden.hides(&entry.effects))
                .map(|entry| entry.row)
                .collect(),
        }
    }
}

/// Returns the length of a mask with these numbers of parts; `None` beyond 64 bits.
fn length_of(sources: u64, entries: u64, bytes: [u64; 3]) -> Option<u64> {
    let fixed = (HEADER + CHECKSUM) as u64;
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
        Ok(LifecycleMask::open(bytes)?)
    }

    fn segment_rows(&self) -> u64 {
        self.rows
    }
}

/// Returns the status with this number in the effects of a mask.
fn status_at(number: u8) -> Option<VerificationStatus> {
    VerificationStatus::ALL.get(usize::from(number)).copied()
}

#[cfg(test)]
mod tests;

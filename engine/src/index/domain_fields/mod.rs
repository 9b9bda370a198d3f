//! The domain field index of a segment: which rows have a field of a domain profile.
//!
//! Domain fields, such as `hc:icd10`, have no column (Appendix A): to find the grains that have one
//! means to read every blob. This index has the rows of each name of a field that isn't in the
//! specification, and of each key of `context`.
//!
//! ```text
//! "GMFLDS01"    magic                                            8
//! n             rows of the segment                              u64
//! k             names                                            u64
//! for each name, ascending:
//!   l, b        bytes of the name, and of its rows               u64 × 2
//!   name        in UTF-8                                         l
//!   rows        with the name                                    b
//! o             bytes of the last bitmap                         u64
//! others        rows that may have names that aren't listed      o
//! checksum      BLAKE3 of all before                             32
//! ```
//!
//! Integers are little-endian, rows are bitmaps in Roaring's portable format. At most 1,024 names
//! of at most 128 bytes are listed: those with a colon first, then by the hash of the name, so that
//! the choice depends on nothing but the names. Rows with other names, and rows that can't be
//! decoded, are in the last bitmap.
//!
//! Between two names are at least 24 bytes, so that they don't read as one text in a search of the
//! file. Sealed segments have no such index, because it would reveal names.
//!
//! | module | contents |
//! |---|---|
//! | this one | the file: built from the rows of names, and opened |
//! | `field_rows` | collecting the rows of names |

mod field_rows;

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;

use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::grain::integration_keys;
use roaring::RoaringBitmap;

pub use field_rows::FieldRows;

use crate::segment::Sidecar;

/// Name of the sidecar file.
pub(crate) const FIELDS_FILE: &str = "fields.bin";

const MAGIC: &[u8; 8] = b"GMFLDS01";
const CHECKSUM: usize = 32;

/// Largest number of names that are listed.
const MAX_NAMES: usize = 1_024;

/// Largest length of a name that is listed, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Returns the bytes of the index of a segment whose rows are those of `parts`, one after another.
pub(crate) fn build(parts: Vec<FieldRows>) -> Vec<u8> {
    let all = FieldRows::concat(parts);
    let mut out = MAGIC.to_vec();
    put_number(&mut out, u64::from(all.rows()));
    let names = all.names();
    put_number(&mut out, names.len() as u64);
    for (name, rows) in names {
        let rows = bytes_of(rows);
        put_number(&mut out, name.len() as u64);
        put_number(&mut out, rows.len() as u64);
        out.extend(name.as_bytes());
        out.extend(rows);
    }
    let others = bytes_of(all.others());
    put_number(&mut out, others.len() as u64);
    out.extend(others);
    out.extend(blake3::hash(&out).as_bytes());
    out
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

/// Returns the bytes of a bitmap, which are the same for the same rows.
fn bytes_of(rows: &RoaringBitmap) -> Vec<u8> {
    let mut rows = rows.clone();
    rows.remove_run_compression();
    rows.optimize();
    let mut bytes = Vec::with_capacity(rows.serialized_size());
    // Writing to memory can't fail.
    let _ = rows.serialize_into(&mut bytes);
    bytes
}

/// Why a domain field index can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the domain field index is damaged: {0}")]
pub struct DamagedFields(&'static str);

/// The domain field index of one segment, borrowing its file's bytes.
#[derive(Debug)]
pub struct DomainFieldIndex {
    bytes: SourceBytes,
    rows: u64,
    /// Where the bitmap of each name is.
    names: BTreeMap<String, Range<usize>>,
    others: RoaringBitmap,
}

impl DomainFieldIndex {
    /// Opens the index in `bytes` and verifies its checksum. Reads every byte.
    ///
    /// # Errors
    /// [`DamagedFields`] if a check fails.
    pub fn open(bytes: SourceBytes) -> Result<DomainFieldIndex, DamagedFields> {
        let body = bytes.len().checked_sub(CHECKSUM);
        let body = body.and_then(|length| bytes.split_at_checked(length));
        let (body, checksum) = body.ok_or(DamagedFields("it is too short"))?;
        if blake3::hash(body).as_bytes() != checksum {
            return Err(DamagedFields("its checksum is wrong"));
        }
        if !body.starts_with(MAGIC) {
            return Err(DamagedFields("it has another format"));
        }
        let mut at = MAGIC.len();
        let layout = DamagedFields("its parts have other lengths");
        let rows = number_at(body, &mut at).ok_or(layout)?;
        let count = number_at(body, &mut at).ok_or(layout)?;
        let mut names = BTreeMap::new();
        for _ in 0..count {
            let length = number_at(body, &mut at).ok_or(layout)?;
            let bitmap = number_at(body, &mut at).ok_or(layout)?;
            let name = range_at(body, &mut at, length).and_then(|name| body.get(name));
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let bitmap = range_at(body, &mut at, bitmap).ok_or(layout)?;
            names.insert(name.ok_or(layout)?.to_owned(), bitmap);
        }
        let others = number_at(body, &mut at).ok_or(layout)?;
        let others = range_at(body, &mut at, others).ok_or(layout)?;
        if at != body.len() || names.len() > MAX_NAMES {
            return Err(layout);
        }
        let others = bitmap(&bytes, others, rows).ok_or(DamagedFields("a bitmap is invalid"))?;
        Ok(DomainFieldIndex {
            rows,
            names,
            others,
            bytes,
        })
    }

    /// Returns the rows that may have one of the domain fields `names`, under any of its keys; all
    /// others have none of them. `None` if a bitmap can't be read.
    pub fn rows_with<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<RoaringBitmap> {
        let mut rows = self.others.clone();
        for key in names.into_iter().flat_map(integration_keys) {
            if let Some(range) = self.names.get(key) {
                rows |= bitmap(&self.bytes, range.clone(), self.rows)?;
            }
        }
        Some(rows)
    }
}

/// Reads the number at `at`, and moves `at` behind it.
fn number_at(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let range = range_at(bytes, at, 8)?;
    Some(u64::from_le_bytes(*bytes.get(range)?.first_chunk()?))
}

/// Returns the place of the `length` bytes at `at`, and moves `at` behind them; `None` if there are
/// fewer.
fn range_at(bytes: &[u8], at: &mut usize, length: u64) -> Option<Range<usize>> {
    let end = at.checked_add(usize::try_from(length).ok()?)?;
    let range = *at..end;
    bytes.get(range.clone())?;
    *at = end;
    Some(range)
}

/// Returns the bitmap at `place`; `None` if it isn't one of a segment of `rows` rows.
fn bitmap(bytes: &[u8], place: Range<usize>, rows: u64) -> Option<RoaringBitmap> {
    let found = RoaringBitmap::deserialize_from(bytes.get(place)?).ok()?;
    let is_within = found.max().is_none_or(|last| u64::from(last) < rows);
    is_within.then_some(found)
}

impl Sidecar for DomainFieldIndex {
    const FILE: &'static str = FIELDS_FILE;
    const NAME: &'static str = "domain field index";

    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(DomainFieldIndex::open(bytes)?)
    }

    fn segment_rows(&self) -> u64 {
        self.rows
    }
}

#[cfg(test)]
mod tests;

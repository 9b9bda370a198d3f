//! The format of the packed file: its pieces, and the ranges of their files.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use gristmill_connectors::source::SourceBytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FULLTEXT_FILE, TEXT_VERSION};
use crate::segment::Sidecar;

pub(super) const MAGIC: &[u8; 8] = b"GMTEXT01";

const CHECKSUM: usize = 32;

/// The header of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PackHeader {
    pub(super) rows: u64,
    pub(super) text_version: u32,
    /// tantivy's metadata, without its segments.
    pub(super) meta: Value,
    pub(super) pieces: Vec<PieceEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PieceEntry {
    /// The row of its first document.
    pub(super) first_row: u32,
    /// The segments of the piece in tantivy's metadata.
    pub(super) segments: Value,
    /// Number of its words, if rows were removed from it, because tantivy's own number is an
    /// estimate then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) words: Option<u64>,
    pub(super) files: Vec<FileEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileEntry {
    pub(super) name: String,
    /// Its start, relative to the end of the header.
    pub(super) start: u64,
    pub(super) length: u64,
}

/// Why a full-text index can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DamagedText {
    /// It is damaged.
    #[error("the full-text index is damaged: {0}")]
    Damaged(&'static str),
    /// It was built by other rules.
    #[error("the full-text index is stale: it was made by other rules")]
    Stale,
}

/// The full-text index of one segment, borrowing its file's bytes.
#[derive(Debug)]
pub struct SegmentTextIndex {
    bytes: Arc<SourceBytes>,
    head: PackHeader,
    /// Start of the files.
    files: usize,
}

impl SegmentTextIndex {
    /// Opens the index in `bytes` and verifies its checksum. Reads every byte.
    ///
    /// # Errors
    /// [`DamagedText`] if it isn't intact or was built by other rules.
    pub fn open(bytes: SourceBytes) -> Result<SegmentTextIndex, DamagedText> {
        use DamagedText::Damaged;
        let content = bytes
            .len()
            .checked_sub(CHECKSUM)
            .and_then(|end| bytes.split_at_checked(end));
        let (content, checksum) = content.ok_or(Damaged("shorter than its checksum"))?;
        let rest = content.strip_prefix(MAGIC).ok_or(Damaged("other magic"))?;
        if blake3::hash(content).as_bytes() != checksum {
            return Err(Damaged("checksum differs"));
        }
        // The check has read every page; a search needs few.
        bytes.release(0..bytes.len());
        let (length, rest) = rest.split_first_chunk().ok_or(Damaged("no header"))?;
        let head = rest
            .get(..u32::from_le_bytes(*length) as usize)
            .ok_or(Damaged("its header is truncated"))?;
        let files = MAGIC.len() + length.len() + head.len();
        let head: PackHeader =
            serde_json::from_slice(head).map_err(|_| Damaged("its header is invalid JSON"))?;
        let room = (content.len() - files) as u64;
        let fits = |file: &FileEntry| {
            file.start
                .checked_add(file.length)
                .is_some_and(|end| end <= room)
        };
        if !head.pieces.iter().flat_map(|piece| &piece.files).all(fits) {
            return Err(Damaged("files reach beyond its end"));
        }
        if !(head.meta.is_object() || head.meta.is_null()) {
            return Err(Damaged("the metadata in its header is no object"));
        }
        if head.text_version != TEXT_VERSION {
            return Err(DamagedText::Stale);
        }
        Ok(SegmentTextIndex {
            bytes: Arc::new(bytes),
            head,
            files,
        })
    }

    /// Returns the number of rows of the segment that it was built from.
    pub fn rows(&self) -> u64 {
        self.head.rows
    }

    pub(super) fn bytes(&self) -> &Arc<SourceBytes> {
        &self.bytes
    }

    pub(super) fn meta(&self) -> &Value {
        &self.head.meta
    }

    /// Returns the pieces, with tantivy's metadata of the segments of each.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (&PieceEntry, &Vec<Value>)> {
        self.head
            .pieces
            .iter()
            .filter_map(|piece| Some((piece, piece.segments.as_array()?)))
    }

    /// Returns the piece whose first row is `first`, and the row behind its last.
    pub(super) fn piece_at(&self, first: u32) -> Option<(&PieceEntry, u64)> {
        let at = self
            .head
            .pieces
            .iter()
            .position(|piece| piece.first_row == first)?;
        let end = self
            .head
            .pieces
            .get(at + 1)
            .map_or(self.head.rows, |next| next.first_row.into());
        Some((self.head.pieces.get(at)?, end))
    }

    /// Returns where `file` is among the bytes.
    pub(super) fn range_of(&self, file: &FileEntry) -> Range<usize> {
        let start = self.files + file.start as usize;
        start..start + file.length as usize
    }

    /// Returns the files: name, and where each is among the bytes.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.head
            .pieces
            .iter()
            .flat_map(|piece| &piece.files)
            .map(|file| (&*file.name, self.range_of(file)))
    }
}

impl Sidecar for SegmentTextIndex {
    const FILE: &'static str = FULLTEXT_FILE;
    const NAME: &'static str = "full-text index";

    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(SegmentTextIndex::open(bytes)?)
    }

    fn segment_rows(&self) -> u64 {
        self.rows()
    }
}

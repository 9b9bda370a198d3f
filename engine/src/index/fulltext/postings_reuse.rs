//! Removes rows from a piece of an index without reading texts again.
//!
//! A word that only the removed rows contain leaves no trace: its entry isn't written.

use std::sync::Arc;

use serde_json::Value;
use tantivy::directory::{OwnedBytes, RamDirectory};
use tantivy::fastfield::{AliveBitSet, write_alive_bitset};
use tantivy::indexer::merge_filtered_segments;
use tantivy::{BitSet, Index, SegmentReader};

use super::directory::{PackedDirectory, SharedBytes};
use super::pack::{PieceEntry, SegmentTextIndex};
use super::piece::TextPiece;
use super::text_field;
use crate::error::BoxError;

impl SegmentTextIndex {
    /// Returns the piece of the `rows` rows from `first` on, without the rows at `gone` (relative
    /// to `first`, ascending), which contain `gone_words` words. Returns `None` if no piece covers
    /// exactly these rows, or no row would remain.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn piece_without(
        self: &Arc<Self>,
        first: u32,
        rows: u32,
        gone: &[u32],
        gone_words: u64,
    ) -> Result<Option<TextPiece>, BoxError> {
        let Some(entry) = self
            .piece_of(first, rows)
            .filter(|_| gone.len() < rows as usize)
        else {
            return Ok(None);
        };
        let mut meta = self.meta().clone();
        meta["segments"] = entry.segments.clone();
        match gone.is_empty() {
            true => Ok(Some(self.whole_piece(entry, rows, meta))),
            false => self.filtered_piece(entry, rows, &meta, gone, gone_words),
        }
    }

    /// Returns a piece with all its rows. Its files are shared, not copied.
    fn whole_piece(self: &Arc<Self>, entry: &PieceEntry, rows: u32, meta: Value) -> TextPiece {
        let shared = OwnedBytes::new(SharedBytes::of(self));
        let files = entry
            .files
            .iter()
            .map(|file| (file.name.clone(), shared.slice(self.range_of(file))));
        TextPiece {
            rows,
            words: entry.words,
            meta,
            files: files.collect(),
        }
    }

    /// Merges a piece into a new one without the rows at `gone`.
    fn filtered_piece(
        self: &Arc<Self>,
        entry: &PieceEntry,
        rows: u32,
        meta: &Value,
        gone: &[u32],
        gone_words: u64,
    ) -> Result<Option<TextPiece>, BoxError> {
        let meta = serde_json::to_vec(meta)?;
        let index = Index::open(PackedDirectory::new([self].into_iter(), meta))?;
        let [segment] = &index.searchable_segments()?[..] else {
            return Ok(None);
        };
        let words = match entry.words {
            Some(words) => words,
            None => SegmentReader::open(segment)?
                .inverted_index(text_field())?
                .total_num_tokens(),
        };
        let directory = RamDirectory::create();
        let settings = index.settings().clone();
        let kept = vec![Some(alive(rows, gone)?)];
        let segments = std::slice::from_ref(segment);
        let merged = merge_filtered_segments(segments, settings, kept, directory.clone())?;
        let words = Some(words.saturating_sub(gone_words));
        TextPiece::of(&merged, &directory, rows - gone.len() as u32, words).map(Some)
    }

    /// Returns whether it has a piece of exactly the `rows` rows from `first` on.
    pub fn has_piece(&self, first: u32, rows: u32) -> bool {
        self.piece_of(first, rows).is_some()
    }

    fn piece_of(&self, first: u32, rows: u32) -> Option<&PieceEntry> {
        let (entry, end) = self.piece_at(first)?;
        (end == u64::from(first) + u64::from(rows)).then_some(entry)
    }
}

/// Returns the rows of `rows` that aren't `gone` as a bit set of tantivy.
fn alive(rows: u32, gone: &[u32]) -> std::io::Result<AliveBitSet> {
    let mut alive = BitSet::with_max_value_and_full(rows);
    gone.iter()
        .filter(|row| **row < rows)
        .for_each(|row| alive.remove(*row));
    let mut bytes = Vec::new();
    write_alive_bitset(&alive, &mut bytes)?;
    Ok(AliveBitSet::open(OwnedBytes::new(bytes)))
}

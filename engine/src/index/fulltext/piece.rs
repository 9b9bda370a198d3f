//! Builds a piece of the index from rows, and the file from pieces.

use arrow::array::{AsArray, RecordBatch};
use bytes::Bytes;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Grain;
use serde_json::Value;
use tantivy::directory::{Directory, OwnedBytes, RamDirectory};
use tantivy::index::{IndexBuilder, IndexSettings};
use tantivy::store::Compressor;
use tantivy::{Index, SingleSegmentIndexWriter, TantivyDocument};

use super::pack::{FileEntry, MAGIC, PackHeader, PieceEntry};
use super::tokenizer::tokenizers;
use super::{TEXT_VERSION, schema, text_field};
use crate::error::BoxError;
use crate::text::{text_fields, visit_texts, with_grain, with_grain_if_any};

/// The index of some consecutive rows.
#[derive(Debug)]
pub struct TextPiece {
    pub(super) rows: u32,
    /// Number of its words, if tantivy's own number is an estimate.
    pub(super) words: Option<u64>,
    /// tantivy's metadata of the whole piece.
    pub(super) meta: Value,
    pub(super) files: Vec<(String, OwnedBytes)>,
}

/// Initial memory budget of tantivy's term table in bytes.
const TABLE: usize = 16 << 20;

/// A piece in progress, filled batch by batch.
pub struct TextPieceBuilder {
    directory: RamDirectory,
    writer: SingleSegmentIndexWriter,
    rows: u32,
}

impl std::fmt::Debug for TextPieceBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextPieceBuilder")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl TextPieceBuilder {
    /// Returns an empty piece.
    ///
    /// # Errors
    /// Errors of tantivy.
    pub fn new() -> Result<TextPieceBuilder, BoxError> {
        let directory = RamDirectory::create();
        let settings = IndexSettings {
            docstore_compression: Compressor::None,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let builder = IndexBuilder::new()
            .schema(schema())
            .settings(settings)
            .tokenizers(tokenizers());
        let writer = builder.single_segment_index_writer(directory.clone(), TABLE)?;
        Ok(TextPieceBuilder {
            directory,
            writer,
            rows: 0,
        })
    }

    /// Adds the words of the grains in the rows of `batch`. A grain that can't be decoded has none.
    /// Works on the calling thread.
    ///
    /// # Errors
    /// If the column is missing, or errors of tantivy.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), BoxError> {
        let blobs = batch
            .column_by_name(TextPiece::COLUMN)
            .and_then(|column| column.as_binary_opt::<i32>());
        for blob in blobs.ok_or("no column of blobs")? {
            with_grain_if_any(blob.unwrap_or_default(), |grain| self.add_grain(grain))?;
        }
        Ok(())
    }

    /// Adds the words of the grain of the next row; `None` if it can't be read.
    ///
    /// # Errors
    /// Errors of tantivy.
    pub(crate) fn add_grain(&mut self, grain: Option<&Grain<'_>>) -> Result<(), BoxError> {
        self.writer
            .add_document(grain.map(document).unwrap_or_default())?;
        self.rows += 1;
        Ok(())
    }

    /// Finishes the piece.
    ///
    /// # Errors
    /// Errors of tantivy.
    pub fn finish(self) -> Result<TextPiece, BoxError> {
        let TextPieceBuilder {
            directory,
            writer,
            rows,
        } = self;
        TextPiece::of(&writer.finalize()?, &directory, rows, None)
    }
}

impl TextPiece {
    /// Name of the column that it is built from.
    pub const COLUMN: &str = SystemColumn::Blob.name();

    /// Returns the index of `rows` rows that `directory` holds.
    pub(super) fn of(
        index: &Index,
        directory: &RamDirectory,
        rows: u32,
        words: Option<u64>,
    ) -> Result<TextPiece, BoxError> {
        let mut files = Vec::new();
        for path in index.load_metas()?.list_segment_files() {
            // Not every segment has every kind of file.
            if directory.exists(&path)? {
                let name = path.to_str().ok_or("a file's name isn't text")?.to_owned();
                files.push((name, directory.open_read(&path)?.read_bytes()?));
            }
        }
        files.sort_by(|(left, _), (right, _)| left.cmp(right));
        let meta =
            serde_json::from_slice(&directory.atomic_read(std::path::Path::new("meta.json"))?)?;
        Ok(TextPiece {
            rows,
            words,
            meta,
            files,
        })
    }
}

/// Returns the number of words of the grain `blob` in the index.
pub fn words_in(blob: &[u8]) -> u64 {
    let count = |grain: &Grain<'_>| {
        let mut words = 0;
        each_text(grain, &mut |text| {
            words += crate::text::words::split(text).count() as u64
        });
        Some(words)
    };
    with_grain(blob, count).unwrap_or_default()
}

fn document(grain: &Grain<'_>) -> TantivyDocument {
    let mut document = TantivyDocument::default();
    let field = text_field();
    each_text(grain, &mut |text| document.add_text(field, text));
    document
}

fn each_text<'g>(grain: &Grain<'g>, visit: &mut impl FnMut(&'g str)) {
    for name in grain.grain_type().map_or(&[][..], text_fields) {
        visit_texts(grain, *name, visit);
    }
}

/// Returns the bytes, in parts, of the full-text index of a segment whose rows are those of
/// `pieces`, concatenated.
pub fn pack(pieces: &[TextPiece]) -> Vec<Bytes> {
    // Plain numbers and texts can always be serialised.
    let header = serde_json::to_vec(&header_of(pieces)).unwrap_or_default();
    let header = [MAGIC, &(header.len() as u32).to_le_bytes()[..], &header].concat();
    let mut parts = vec![Bytes::from(header)];
    let files = pieces.iter().flat_map(|piece| &piece.files);
    parts.extend(files.map(|(_, bytes)| Bytes::from_owner(bytes.clone())));
    let mut hasher = blake3::Hasher::new();
    for part in &parts {
        hasher.update(part);
    }
    parts.push(hasher.finalize().as_bytes().to_vec().into());
    parts
}

/// Returns the entries of `files`, which begin at `start`, and moves `start` to their end.
fn entries_of(files: &[(String, OwnedBytes)], start: &mut u64) -> Vec<FileEntry> {
    let mut entries = Vec::with_capacity(files.len());
    for (name, bytes) in files {
        entries.push(FileEntry {
            name: name.clone(),
            start: *start,
            length: bytes.len() as u64,
        });
        *start += bytes.len() as u64;
    }
    entries
}

fn header_of(pieces: &[TextPiece]) -> PackHeader {
    let mut header = PackHeader {
        rows: 0,
        text_version: TEXT_VERSION,
        meta: Value::Null,
        pieces: Vec::new(),
    };
    let mut length = 0;
    for piece in pieces {
        let mut meta = piece.meta.clone();
        let segments = meta.get_mut("segments").map(Value::take);
        let entry = PieceEntry {
            first_row: header.rows as u32,
            segments: segments.unwrap_or_default(),
            words: piece.words,
            files: entries_of(&piece.files, &mut length),
        };
        header.rows += u64::from(piece.rows);
        header.meta = meta;
        header.pieces.push(entry);
    }
    header
}

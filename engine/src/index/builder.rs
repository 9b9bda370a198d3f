//! Builds the sidecars of a segment from its rows, while it is written or later.
//!
//! The steps to add a sidecar begin here; `docs/architecture.md` lists them under "Where to add".

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{AsArray, RecordBatch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::{Field, Grain};
use serde::{Deserialize, Serialize};

use super::domain_fields::{self, FIELDS_FILE, FieldRows};
use super::fulltext::{self, FULLTEXT_FILE, SegmentTextIndex, TextPiece, TextPieceBuilder};
use super::hexastore::{self, HEXASTORE_FILE, StatementColumns};
use super::watchlist::Watchlist;
use super::word_filter::{self, WORDS_FILE, WordSet};
use crate::error::{Context, Result, required};
use crate::lake::{disclosed_rows_in, superseding_rows_in};
use crate::segment::{
    ADDRESSES_FILE, AddressIndex, CreationSeconds, SegmentId, SidecarFile, addresses_of,
    creation_seconds_of,
};
use crate::text::with_grain_if_any;

/// The optional indexes to build from rows. The address index is always built; vectors are built by
/// `--vectors` and `reindex --embed` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexKinds {
    /// The hexastore: statements by subject, relation and object.
    pub hexastore: bool,
    /// The full-text index.
    pub full_text: bool,
    /// The word filter.
    pub words: bool,
    /// The domain field index.
    pub fields: bool,
}

impl IndexKinds {
    /// All indexes.
    pub const ALL: IndexKinds = IndexKinds {
        hexastore: true,
        full_text: true,
        words: true,
        fields: true,
    };
    /// No index.
    pub const NONE: IndexKinds = IndexKinds {
        hexastore: false,
        full_text: false,
        words: false,
        fields: false,
    };

    /// Returns the indexes that the segment `id` may have. A sealed segment has none that reveals
    /// words of its grains.
    pub(crate) fn of_segment(self, id: &SegmentId) -> IndexKinds {
        if id.is_sealed() {
            IndexKinds::NONE
        } else {
            self
        }
    }

    /// Returns the columns of `grains` that the indexes are built from, including the addresses.
    pub fn columns(self) -> Vec<&'static str> {
        let mut columns = vec![SystemColumn::ContentAddress.name()];
        if self.hexastore {
            columns.extend(StatementColumns::NAMES);
        }
        if self.full_text {
            columns.push(TextPiece::COLUMN);
        }
        if self.words {
            columns.extend(WordSet::COLUMNS);
            columns.push(Field::DisclosureOf.name());
        }
        if self.fields {
            columns.push(FieldRows::COLUMN);
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

impl Default for IndexKinds {
    fn default() -> Self {
        IndexKinds::ALL
    }
}

/// Collects the input of the sidecars of one segment, part by part, from any thread.
#[derive(Debug)]
pub struct IndexBuilder {
    kinds: IndexKinds,
    /// Whether to build the address index; false if the writer of the segment builds it.
    with_addresses: bool,
    parts: Mutex<BTreeMap<usize, FinishedPart>>,
}

/// The collected input of a part's rows.
#[derive(Debug)]
struct FinishedPart {
    addresses: Option<Vec<ContentAddress>>,
    /// `None` if they aren't readable.
    seconds: Option<CreationSeconds>,
    /// `None` if the rows lack the column.
    superseding: Option<u64>,
    /// `None` if the rows aren't readable or lack the column.
    disclosed: Option<u64>,
    statements: Option<StatementColumns>,
    text: Option<TextPiece>,
    words: Option<WordSet>,
    fields: Option<FieldRows>,
}

/// A part in progress, filled batch by batch.
#[derive(Debug)]
pub struct IndexPart {
    addresses: Option<Vec<ContentAddress>>,
    /// The creation seconds of the rows, while they are readable.
    seconds: Option<Vec<u32>>,
    /// The number of rows that supersede others, while all rows have the column.
    superseding: Option<u64>,
    /// The number of rows that are disclosed copies, while all rows have the column.
    disclosed: Option<u64>,
    /// The number of sealed rows that are disclosed copies, if their writer has counted them.
    sealed_copies: Option<u64>,
    statements: Option<Vec<StatementColumns>>,
    text: PartText,
    words: Option<WordSet>,
    fields: Option<FieldRows>,
}

/// Source of the full text of a part.
#[derive(Debug)]
enum PartText {
    /// No full text.
    None,
    /// Tokenised from the rows.
    Rows(Box<TextPieceBuilder>),
    /// Taken from the index that the rows were in before.
    Reused(ReusedPostings),
}

/// A piece of an existing index from which some rows are removed.
#[derive(Debug)]
struct ReusedPostings {
    text: Arc<SegmentTextIndex>,
    first: u32,
    rows: u32,
    /// Relative to `first`, ascending.
    gone: Vec<u32>,
    gone_words: u64,
}

/// Observes the rows of a part while they are added.
pub(crate) struct RowObserver<'w> {
    /// The words that mark a row.
    pub(crate) watchlist: &'w Arc<Watchlist>,
    /// Called with the row in its batch, its grain if it can be decoded, and whether it has one of
    /// the words.
    pub(crate) on_row: &'w mut dyn FnMut(usize, Option<&Grain<'_>>, bool),
}

impl IndexPart {
    /// Adds the rows of `batch`, which has at least the columns of [`IndexKinds::columns`].
    /// Tokenises on the calling thread.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a column is missing or holds what
    /// isn't an address.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.add_observed(batch, None)
    }

    /// As [`IndexPart::add`], with an observer.
    pub(crate) fn add_observed(
        &mut self,
        batch: &RecordBatch,
        observer: Option<RowObserver<'_>>,
    ) -> Result<()> {
        if let Some(addresses) = &mut self.addresses {
            addresses.extend(addresses_of(batch).file("can't index", "addresses")?);
        }
        if let Some(mut seconds) = self.seconds.take() {
            self.seconds = creation_seconds_of(batch).map(|own| {
                seconds.extend(own);
                seconds
            });
        }
        let superseding = superseding_rows_in(batch);
        self.superseding = self
            .superseding
            .zip(superseding)
            .map(|(all, own)| all + own);
        let disclosed = self.disclosed.zip(disclosed_rows_in(batch));
        self.disclosed = disclosed.map(|(all, own)| all + own);
        if let Some(statements) = &mut self.statements {
            let columns = StatementColumns::of(batch);
            statements.push(
                columns
                    .ok_or("columns are missing")
                    .file("can't index", "statements")?,
            );
        }
        if let Some(words) = &mut self.words {
            words
                .add_other_columns(batch)
                .ok_or("columns are missing")
                .file("can't index", "words")?;
            words.watch(observer.as_ref().map(|observer| observer.watchlist));
        }
        self.add_grains(batch, observer)?;
        if let Some(words) = &mut self.words {
            words.compact();
        }
        Ok(())
    }

    /// Decodes the grains of `batch` once, for the word filter, the domain fields, the observer and
    /// the full text.
    fn add_grains(
        &mut self,
        batch: &RecordBatch,
        mut observer: Option<RowObserver<'_>>,
    ) -> Result<()> {
        let mut words = self.words.as_mut();
        let mut fields = self.fields.as_mut();
        let mut text = match &mut self.text {
            PartText::Rows(text) => Some(text),
            _ => None,
        };
        if words.is_none() && fields.is_none() && text.is_none() && observer.is_none() {
            return Ok(());
        }
        let blobs = batch
            .column_by_name(TextPiece::COLUMN)
            .and_then(|column| column.as_binary_opt::<i32>());
        let blobs = required(blobs, TextPiece::COLUMN, "a segment")?;
        for (at, blob) in blobs.iter().enumerate() {
            let blob = blob.unwrap_or_default();
            with_grain_if_any(blob, |grain| {
                let has_word = words.as_mut().is_none_or(|words| words.add(blob, grain));
                if let Some(fields) = &mut fields {
                    fields.add(grain);
                }
                if let Some(observer) = &mut observer {
                    (observer.on_row)(at, grain, has_word);
                }
                text.as_mut().map_or(Ok(()), |text| text.add_grain(grain))
            })
            .file("can't index", "texts")?;
        }
        Ok(())
    }

    /// Records how many of the part's rows are disclosed copies, which isn't seen in sealed rows.
    pub(crate) fn set_sealed_copies(&mut self, rows: u64) {
        self.sealed_copies = Some(rows);
    }

    /// Records that the row `row` of the segment, whose blob is `blob`, isn't in the part. Rows are
    /// recorded in ascending order.
    pub(crate) fn skip_row(&mut self, row: u32, blob: &[u8]) {
        if let PartText::Reused(kept) = &mut self.text {
            kept.gone.push(row - kept.first);
            kept.gone_words += fulltext::words_in(blob);
        }
    }

    fn finish(self) -> Result<FinishedPart> {
        let statements = self.statements.filter(|pieces| !pieces.is_empty());
        let statements = statements
            .map(|pieces| StatementColumns::concat(&pieces))
            .transpose();
        let text = match self.text {
            PartText::None => None,
            PartText::Rows(text) => Some(text.finish().file("can't index", "texts")?),
            PartText::Reused(kept) => {
                let piece =
                    kept.text
                        .piece_without(kept.first, kept.rows, &kept.gone, kept.gone_words);
                Some(
                    piece
                        .and_then(|piece| Ok(piece.ok_or("no row is left")?))
                        .file("can't index", "texts")?,
                )
            }
        };
        let readable = self.disclosed.filter(|_| self.seconds.is_some());
        Ok(FinishedPart {
            addresses: self.addresses,
            seconds: self.seconds.map(CreationSeconds::of),
            superseding: self.superseding,
            disclosed: self.sealed_copies.or(readable),
            statements: statements.file("can't index", "statements")?,
            text,
            words: self.words.map(WordSet::closed),
            fields: self.fields,
        })
    }
}

impl IndexBuilder {
    /// Returns a builder of the address index and of `kinds`.
    pub fn new(kinds: IndexKinds) -> IndexBuilder {
        IndexBuilder {
            kinds,
            with_addresses: true,
            parts: Mutex::default(),
        }
    }

    /// Returns a builder of `kinds` without the address index, for a segment whose addresses are
    /// known before its rows are written.
    pub(crate) fn without_addresses(kinds: IndexKinds) -> IndexBuilder {
        IndexBuilder {
            with_addresses: false,
            ..IndexBuilder::new(kinds)
        }
    }

    /// Begins an empty part.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) with the error of tantivy.
    pub fn part(&self) -> Result<IndexPart> {
        let text = match self.kinds.full_text {
            true => PartText::Rows(Box::new(
                TextPieceBuilder::new().file("can't index", "texts")?,
            )),
            false => PartText::None,
        };
        Ok(self.part_with(text))
    }

    /// Begins a part of the `rows` rows from `first` on of a segment with the full-text index
    /// `text`. Rows that aren't added must be [skipped](IndexPart::skip_row). If `text` has a piece
    /// of exactly these rows, its postings are reused and no text is tokenised.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) with the error of tantivy.
    pub(crate) fn part_reusing(
        &self,
        text: Option<&Arc<SegmentTextIndex>>,
        first: u32,
        rows: u32,
    ) -> Result<IndexPart> {
        match text.filter(|text| self.kinds.full_text && text.has_piece(first, rows)) {
            Some(text) => {
                let kept = ReusedPostings {
                    text: Arc::clone(text),
                    first,
                    rows,
                    gone: Vec::new(),
                    gone_words: 0,
                };
                Ok(self.part_with(PartText::Reused(kept)))
            }
            None => self.part(),
        }
    }

    fn part_with(&self, text: PartText) -> IndexPart {
        let statements = self.kinds.hexastore.then(Vec::new);
        let addresses = self.with_addresses.then(Vec::new);
        IndexPart {
            addresses,
            seconds: Some(Vec::new()),
            superseding: Some(0),
            disclosed: Some(0),
            sealed_copies: None,
            statements,
            text,
            words: self.kinds.words.then(WordSet::default),
            fields: self.kinds.fields.then(FieldRows::default),
        }
    }

    /// Adds `part`. The rows of parts are in the segment in ascending order of the parts' numbers.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) with the error of tantivy.
    pub fn put(&self, number: usize, part: IndexPart) -> Result<()> {
        let part = part.finish()?;
        self.parts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number, part);
        Ok(())
    }

    /// Adds the rows of `batch` as a part of their own.
    ///
    /// # Errors
    /// As [`IndexPart::add`] and [`IndexBuilder::put`].
    pub fn add(&self, number: usize, batch: &RecordBatch) -> Result<()> {
        let mut part = self.part()?;
        part.add(batch)?;
        self.put(number, part)
    }

    /// Returns the creation seconds of the grains in all parts so far, or `None` if some can't be
    /// read: encrypted rows, and parts of rows without their blobs.
    pub(crate) fn creation_seconds(&self) -> Option<CreationSeconds> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds: Option<Vec<_>> = parts.values().map(|part| part.seconds.clone()).collect();
        seconds.map(CreationSeconds::union)
    }

    /// Returns the number of rows in all parts so far that supersede others, or `None` if that
    /// isn't known, as of encrypted rows.
    pub(crate) fn superseding_rows(&self) -> Option<u64> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let readable = parts.values().all(|part| part.seconds.is_some());
        let counts = parts.values().map(|part| part.superseding);
        counts.sum::<Option<u64>>().filter(|_| readable)
    }

    /// Returns the number of rows in all parts so far that are disclosed copies, or `None` if that
    /// isn't known.
    pub(crate) fn disclosed_rows(&self) -> Option<u64> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.values().map(|part| part.disclosed).sum()
    }

    /// Builds the sidecars, on all threads of the current pool.
    pub fn finish(self) -> Vec<SidecarFile> {
        let parts = self
            .parts
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let mut addresses = Vec::new();
        let mut statements = Vec::new();
        let mut texts = Vec::new();
        let mut words = Vec::new();
        let mut fields = Vec::new();
        for part in parts.into_values() {
            addresses.extend(part.addresses);
            statements.extend(part.statements);
            texts.extend(part.text);
            words.extend(part.words);
            fields.extend(part.fields);
        }
        let ((addresses, texts), (statements, words)) = rayon::join(
            || {
                let addresses = self.with_addresses.then(|| AddressIndex::build(&addresses));
                (
                    addresses,
                    self.kinds.full_text.then(|| fulltext::pack(&texts)),
                )
            },
            || {
                let words = self.kinds.words.then(|| word_filter::build(&words));
                (
                    self.kinds.hexastore.then(|| hexastore::build(&statements)),
                    words,
                )
            },
        );
        let mut files = Vec::new();
        files.extend(addresses.map(|bytes| SidecarFile::whole(ADDRESSES_FILE, bytes)));
        files.extend(statements.map(|bytes| SidecarFile::whole(HEXASTORE_FILE, bytes)));
        files.extend(texts.map(|parts| SidecarFile {
            name: FULLTEXT_FILE.to_owned(),
            parts,
        }));
        files.extend(words.map(|bytes| SidecarFile::whole(WORDS_FILE, bytes)));
        let fields = self.kinds.fields.then(|| domain_fields::build(fields));
        files.extend(fields.map(|bytes| SidecarFile::whole(FIELDS_FILE, bytes)));
        files
    }
}

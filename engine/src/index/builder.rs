//! The rows of a segment to its sidecars: collected while the segment is written, or read again
//! later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{AsArray, RecordBatch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::grain::Grain;

use super::fulltext::{self, FULLTEXT_FILE, SegmentTextIndex, TextPiece, TextPieceBuilder};
use super::hexastore::{self, HEXASTORE_FILE, StatementColumns};
use super::watchlist::Watchlist;
use super::word_filter::{self, WORDS_FILE, WordSet};
use crate::error::{Context, Result, required};
use crate::segment::{ADDRESSES_FILE, AddressIndex, SegmentId, SidecarFile, addresses_of};
use crate::text::with_grain_if_any;

/// Which of the indexes that nothing else depends on are built. The index of addresses always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexKinds {
    /// Statements by subject, relation and object.
    pub hexastore: bool,
    /// Words of texts, and where they stand.
    pub full_text: bool,
    /// All words, to tell which segments can't be about somebody.
    pub words: bool,
}

impl IndexKinds {
    /// All of them.
    pub const ALL: IndexKinds = IndexKinds {
        hexastore: true,
        full_text: true,
        words: true,
    };
    /// None of them.
    pub const NONE: IndexKinds = IndexKinds {
        hexastore: false,
        full_text: false,
        words: false,
    };

    /// Those that the segment `id` may have in the lake: of a sealed one, none that holds a word of
    /// a grain.
    pub fn of_segment(self, id: &SegmentId) -> IndexKinds {
        if id.is_sealed() {
            IndexKinds::NONE
        } else {
            self
        }
    }

    /// The columns of `grains` that the indexes are made of, that of addresses too.
    pub fn columns(self) -> Vec<&'static str> {
        let mut columns = vec![IdentityColumn::ContentAddress.name()];
        if self.hexastore {
            columns.extend(StatementColumns::NAMES);
        }
        if self.full_text {
            columns.push(TextPiece::COLUMN);
        }
        if self.words {
            columns.extend(WordSet::COLUMNS);
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

/// Collects what the sidecars of one segment need, part by part, from any thread.
#[derive(Debug)]
pub struct IndexBuilder {
    kinds: IndexKinds,
    /// False if whoever writes the segment makes its address index beside the rows.
    with_addresses: bool,
    parts: Mutex<BTreeMap<usize, FinishedPart>>,
}

/// What is kept of a part's rows.
#[derive(Debug)]
struct FinishedPart {
    addresses: Option<Vec<ContentAddress>>,
    statements: Option<StatementColumns>,
    text: Option<TextPiece>,
    words: Option<WordSet>,
}

/// A part that is being made, batch by batch.
#[derive(Debug)]
pub struct IndexPart {
    addresses: Option<Vec<ContentAddress>>,
    statements: Option<Vec<StatementColumns>>,
    text: PartText,
    words: Option<WordSet>,
}

/// Where the full text of a part comes from.
#[derive(Debug)]
enum PartText {
    /// It has none.
    None,
    /// From its rows.
    Rows(Box<TextPieceBuilder>),
    /// From the index that the rows were in before.
    Reused(ReusedPostings),
}

/// A piece of an index from which some rows go.
#[derive(Debug)]
struct ReusedPostings {
    text: Arc<SegmentTextIndex>,
    first: u32,
    rows: u32,
    /// Counted from `first`, ascending.
    gone: Vec<u32>,
    gone_words: u64,
}

/// Who sees the rows of a part while they are added.
pub(crate) struct RowObserver<'w> {
    /// Words to watch for.
    pub(crate) watchlist: &'w Arc<Watchlist>,
    /// Called with the place of a row in its batch, its grain if that can be read, and false if it
    /// has none of these words.
    pub(crate) on_row: &'w mut dyn FnMut(usize, Option<&Grain<'_>>, bool),
}

impl IndexPart {
    /// Adds the rows of `batch`, which has at least the columns of [`IndexKinds::columns`]. Words
    /// are indexed here, on the calling thread.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a column is missing or holds what
    /// isn't an address.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.add_observed(batch, None)
    }

    /// [`IndexPart::add`], watched by `watch`.
    pub(crate) fn add_observed(
        &mut self,
        batch: &RecordBatch,
        mut watch: Option<RowObserver<'_>>,
    ) -> Result<()> {
        if let Some(addresses) = &mut self.addresses {
            addresses.extend(addresses_of(batch).file("can't index", "addresses")?);
        }
        if let Some(statements) = &mut self.statements {
            let columns = StatementColumns::of(batch);
            statements.push(
                columns
                    .ok_or("columns are missing")
                    .file("can't index", "statements")?,
            );
        }
        let mut words = self.words.as_mut();
        if let Some(words) = &mut words {
            words
                .add_beside_blobs(batch)
                .ok_or("columns are missing")
                .file("can't index", "words")?;
            words.watch(watch.as_ref().map(|watch| watch.watchlist));
        }
        let mut text = if let PartText::Rows(text) = &mut self.text {
            Some(text)
        } else {
            None
        };
        if words.is_some() || text.is_some() || watch.is_some() {
            let blobs = batch
                .column_by_name(TextPiece::COLUMN)
                .and_then(|column| column.as_binary_opt::<i32>());
            let blobs = required(blobs, TextPiece::COLUMN, "a segment")?;
            for (at, blob) in blobs.iter().enumerate() {
                let blob = blob.unwrap_or_default();
                with_grain_if_any(blob, |grain| {
                    let has_word = words.as_mut().is_none_or(|words| words.add(blob, grain));
                    if let Some(watch) = &mut watch {
                        (watch.on_row)(at, grain, has_word);
                    }
                    text.as_mut().map_or(Ok(()), |text| text.add_grain(grain))
                })
                .file("can't index", "texts")?;
            }
        }
        if let Some(words) = words {
            words.compact();
        }
        Ok(())
    }

    /// Notes that the row `row` of the segment, whose blob is `blob`, isn't among the rows of the
    /// part. Rows come in order.
    pub fn skip_row(&mut self, row: u32, blob: &[u8]) {
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
        Ok(FinishedPart {
            addresses: self.addresses,
            statements: statements.file("can't index", "statements")?,
            text,
            words: self.words.map(WordSet::closed),
        })
    }
}

impl IndexBuilder {
    /// A builder of the address index and of `kinds`.
    pub fn new(kinds: IndexKinds) -> IndexBuilder {
        IndexBuilder {
            kinds,
            with_addresses: true,
            parts: Mutex::default(),
        }
    }

    /// A builder of `kinds` alone, for a segment whose addresses are known before its rows are
    /// written.
    pub(crate) fn without_addresses(kinds: IndexKinds) -> IndexBuilder {
        IndexBuilder {
            with_addresses: false,
            ..IndexBuilder::new(kinds)
        }
    }

    /// Begins a part without rows.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) with what tantivy says.
    pub fn part(&self) -> Result<IndexPart> {
        let text = match self.kinds.full_text {
            true => PartText::Rows(Box::new(
                TextPieceBuilder::new().file("can't index", "texts")?,
            )),
            false => PartText::None,
        };
        Ok(self.part_with(text))
    }

    /// Begins a part of the `rows` rows from `first` on of a segment with the full text `text`.
    /// Those that aren't added are to be [left out](IndexPart::skip_row). If `text` has a piece of
    /// just these rows, no text is indexed again.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) with what tantivy says.
    pub fn part_reusing(
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
            statements,
            text,
            words: self.kinds.words.then(WordSet::default),
        }
    }

    /// Takes `part`, whose rows stand in the segment between those of the parts with lower and with
    /// higher numbers.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) with what tantivy says.
    pub fn put(&self, number: usize, part: IndexPart) -> Result<()> {
        let part = part.finish()?;
        self.parts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number, part);
        Ok(())
    }

    /// Takes the rows of `batch` as a part of their own.
    ///
    /// # Errors
    /// As [`IndexPart::add`] and [`IndexBuilder::put`].
    pub fn add(&self, number: usize, batch: &RecordBatch) -> Result<()> {
        let mut part = self.part()?;
        part.add(batch)?;
        self.put(number, part)
    }

    /// The sidecars' bytes, made on all cores of the pool that it is called in.
    pub fn finish(self) -> Vec<SidecarFile> {
        let parts = self
            .parts
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let mut addresses = Vec::new();
        let mut statements = Vec::new();
        let mut texts = Vec::new();
        let mut words = Vec::new();
        for part in parts.into_values() {
            addresses.extend(part.addresses);
            statements.extend(part.statements);
            texts.extend(part.text);
            words.extend(part.words);
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
        files
    }
}

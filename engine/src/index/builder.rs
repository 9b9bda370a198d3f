//! The rows of a segment to its sidecars: collected while the segment is written, or read again later.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use arrow::array::{AsArray, RecordBatch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::IdentityColumn;

use super::fulltext::{self, FULLTEXT_FILE, TextPiece};
use super::hexastore::{self, HEXASTORE_FILE, StatementColumns};
use super::words::{self, WORDS_FILE, WordSet};
use crate::error::{Context, Result};
use crate::lake::LakeLocation;
use crate::segment::{ADDRESSES_FILE, AddressIndex, SegmentId};

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
    pub const ALL: IndexKinds = IndexKinds { hexastore: true, full_text: true, words: true };
    /// None of them.
    pub const NONE: IndexKinds = IndexKinds { hexastore: false, full_text: false, words: false };

    /// Those that the segment `id` may have in the lake: of a sealed one, none that holds a word of a grain.
    pub fn of_segment(self, id: &SegmentId) -> IndexKinds {
        if id.is_sealed() { IndexKinds::NONE } else { self }
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

/// A sidecar that isn't part of the lake yet.
#[derive(Debug)]
pub struct SidecarFile {
    /// Its name in the segment's folder.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Collects what the sidecars of one segment need, part by part, from any thread.
#[derive(Debug)]
pub struct IndexBuilder {
    kinds: IndexKinds,
    parts: Mutex<BTreeMap<usize, Part>>,
}

/// What is kept of some rows.
#[derive(Debug)]
struct Part {
    addresses: Vec<ContentAddress>,
    statements: Option<StatementColumns>,
    text: Option<TextPiece>,
    words: Option<WordSet>,
}

impl IndexBuilder {
    /// A builder of the address index and of `kinds`.
    pub fn new(kinds: IndexKinds) -> IndexBuilder {
        IndexBuilder { kinds, parts: Mutex::default() }
    }

    /// Takes the rows of `batch`, which stand in the segment between those of the parts with lower and with higher numbers. It
    /// has at least the columns of [`IndexKinds::columns`]. Words are indexed here, on the calling thread.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a column is missing or holds what isn't an address.
    pub fn add(&self, number: usize, batch: &RecordBatch) -> Result<()> {
        let statements = match self.kinds.hexastore {
            true => Some(StatementColumns::of(batch).ok_or("columns are missing").file("can't index", "statements")?),
            false => None,
        };
        let text = match self.kinds.full_text {
            true => Some(TextPiece::of(batch).file("can't index", "texts")?),
            false => None,
        };
        let words = match self.kinds.words {
            true => Some(WordSet::of(batch).ok_or("columns are missing").file("can't index", "words")?),
            false => None,
        };
        let part = Part { addresses: addresses_of(batch).file("can't index", "addresses")?, statements, text, words };
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).insert(number, part);
        Ok(())
    }

    /// The sidecars' bytes, made on all cores of the pool that it is called in.
    pub fn finish(self) -> Vec<SidecarFile> {
        let parts = self.parts.into_inner().unwrap_or_else(PoisonError::into_inner);
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
        let file = |name: &str, bytes| SidecarFile { name: name.to_owned(), bytes };
        let ((addresses, texts), (statements, words)) = rayon::join(
            || (AddressIndex::build(&addresses), self.kinds.full_text.then(|| fulltext::pack(&texts))),
            || {
                let words = self.kinds.words.then(|| words::build(&words));
                (self.kinds.hexastore.then(|| hexastore::build(&statements)), words)
            },
        );
        let mut files = vec![file(ADDRESSES_FILE, addresses)];
        files.extend(statements.map(|bytes| file(HEXASTORE_FILE, bytes)));
        files.extend(texts.map(|bytes| file(FULLTEXT_FILE, bytes)));
        files.extend(words.map(|bytes| file(WORDS_FILE, bytes)));
        files
    }
}

/// The addresses of the rows of `batch`.
pub(crate) fn addresses_of(
    batch: &RecordBatch,
) -> Result<Vec<ContentAddress>, Box<dyn std::error::Error + Send + Sync>> {
    let column = batch.column_by_name(IdentityColumn::ContentAddress.name()).ok_or("no column of addresses")?;
    column.as_string::<i32>().iter().map(|text| Ok(text.unwrap_or_default().parse()?)).collect()
}

/// Makes `files` the sidecars of `segment`, each all at once.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(crate) async fn publish(location: &LakeLocation, segment: &SegmentId, files: &[SidecarFile]) -> Result<()> {
    for file in files {
        let path = segment.sidecar(&file.name);
        let scratch = location.scratch_file()?;
        std::io::Write::write_all(&mut scratch.as_file(), &file.bytes).file("can't write", &path)?;
        location.publish(scratch, &path).await?;
    }
    Ok(())
}

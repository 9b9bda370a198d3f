//! The byte search: searches every byte of every file of the lake, to prove that nothing is left.
//!
//! Parquet files are searched page by page, decompressed, including dictionaries; and as raw bytes
//! wherever there is no page: headers, footers, bloom filters, page indexes and the bytes between.
//! Other files are searched as raw bytes. One that is of none of the lake's formats must be text,
//! which is also searched decompressed if gzip or zstd has compressed it; else it is a remnant.
//! The terms of a hexastore are concatenated without separators, so those of an intact one are
//! searched one by one instead.
//! Sealed cells are also searched opened, and compressed grains of segments also decompressed. Each
//! match must be attributed to a row that stays: in a data file, to one in the same row group; in a
//! sidecar, to one in its segment; or to the text of a legal act. Any other match is a remnant.

mod file_names;
mod foreign_files;
mod pages;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::DataType;
use futures::{StreamExt, TryStreamExt};
use gristmill_schemas::columns::{GRAINS, SystemColumn};
use object_store::path::Path;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::compressed_grains::decompressed;
use super::legal_acts::{RetainedTexts, accounting_for};
use super::pattern_search::PatternSearch;
use super::search_files::SearchWorkers;
use crate::error::{Context, Result};
use crate::index::hexastore::{HEXASTORE_FILE, HexastoreTerms};
use crate::lake::{Lake, LakeFile, is_sealed_file, sealed_cells};
use crate::segment::{ADDRESSES_FILE, MappedFile, content_of};
pub(super) use foreign_files::check_searchable;
use foreign_files::{is_binary_of_lake, is_foreign};

/// Result of the byte search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteSearchResult {
    /// Number of files that were searched.
    pub files: u64,
    /// Number of bytes that were searched, after decompression.
    pub bytes: u64,
    /// Number of pages that were decompressed.
    pub pages: u64,
    /// Number of addresses that were searched for.
    pub addresses: u64,
    /// Number of identifiers that were searched for.
    pub identifiers: u64,
    /// Number of matches that are attributed to rows that stay.
    pub explained: u64,
    /// Number of matches that aren't.
    pub remnants: u64,
    /// The files that contain remnants.
    pub remnant_files: Vec<String>,
    /// Texts of legal acts that contain identifiers and stay. Their matches are among those that
    /// are `explained`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retained_texts: Vec<RetainedTexts>,
}

/// Rows that stay and may contain what is searched for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct RetainedRows {
    /// Row groups by file, relative to the lake's root.
    pub(super) groups: HashMap<String, HashSet<usize>>,
    /// The sidecar folders of their segments, and whether a row of the segment mentions an erased
    /// address.
    pub(super) sidecars: HashMap<String, bool>,
}

impl RetainedRows {
    /// Returns those that account for matches in the file at `path`.
    pub(super) fn of_file(&self, path: &str) -> RetainedRows {
        let (folder, _) = path.rsplit_once('/').unwrap_or_default();
        let groups = self.groups.get(path);
        let groups = groups.map(|groups| (path.to_owned(), groups.clone()));
        let sidecars = self.sidecars.get(folder);
        let sidecars = sidecars.map(|mentions| (folder.to_owned(), *mentions));
        RetainedRows {
            groups: groups.into_iter().collect(),
            sidecars: sidecars.into_iter().collect(),
        }
    }

    /// Returns what rows that stay account for in the file at `path`.
    fn attribute(&self, path: &str) -> Attribution {
        if self.groups.contains_key(path) {
            return Attribution::All;
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or_default();
        match self.sidecars.get(folder) {
            None => Attribution::Nothing,
            // The addresses of remaining rows are never erased ones.
            Some(true) if name != ADDRESSES_FILE => Attribution::All,
            Some(_) => Attribution::Identifiers,
        }
    }
}

/// Which hits in a file the remaining rows explain.
#[derive(Debug, Clone, Copy)]
enum Attribution {
    Nothing,
    /// Identifiers, because a sidecar repeats content of its segment's rows; no remaining row
    /// mentions an erased address.
    Identifiers,
    All,
}

impl From<bool> for Attribution {
    fn from(explained: bool) -> Attribution {
        if explained {
            Attribution::All
        } else {
            Attribution::Nothing
        }
    }
}

/// Returns the result before any file was searched.
fn empty_result(patterns: &PatternSearch) -> ByteSearchResult {
    let (addresses, identifiers) = patterns.counts();
    ByteSearchResult {
        addresses: addresses as u64,
        identifiers: identifiers as u64,
        ..ByteSearchResult::default()
    }
}

/// Searches every file of `lake`. Files that aren't sealed are searched by `workers`, if there are
/// any.
///
/// # Errors
/// [`crate::error::EngineError::File`] if a file can't be read; then nothing is proven.
pub(super) async fn prove(
    lake: &Lake,
    patterns: PatternSearch,
    retained: RetainedRows,
    pool: Arc<rayon::ThreadPool>,
    workers: Option<SearchWorkers<'_>>,
) -> Result<ByteSearchResult> {
    let mut whole = empty_result(&patterns);
    let search = LakeSearch {
        lake,
        patterns: Arc::new(patterns),
        retained: Arc::new(retained),
        pool,
    };
    let mut files = lake.location().list("").await?;
    files.extend(lake.location().hidden_files().await?);
    for file in &files {
        whole.add(search.name(file.location.as_ref()));
    }
    files.retain(|file| file.size > 0);
    let mut by_workers = match &workers {
        Some(workers) => workers.search(&files, &search.retained).await?,
        None => HashMap::new(),
    };
    let found = files.iter().map(|file| {
        let path: &str = file.location.as_ref();
        search.attributed(&file.location, by_workers.remove(path))
    });
    let mut found = futures::stream::iter(found).buffered(FILES);
    while let Some(part) = found.try_next().await? {
        whole.add(part);
    }
    Ok(whole)
}

/// Maximal number of files that are searched at the same time, because one thread alone works on
/// the end of a file.
const FILES: usize = 2;

/// What is searched for in the files of a lake.
pub(super) struct LakeSearch<'l> {
    pub(super) lake: &'l Lake,
    pub(super) patterns: Arc<PatternSearch>,
    pub(super) retained: Arc<RetainedRows>,
    pub(super) pool: Arc<rayon::ThreadPool>,
}

impl LakeSearch<'_> {
    /// Searches a file, unless a worker has found `by_worker` in it, and attributes its remnants to
    /// texts of legal acts if these are all of them.
    async fn attributed(
        &self,
        path: &Path,
        by_worker: Option<ByteSearchResult>,
    ) -> Result<ByteSearchResult> {
        let mut found = match by_worker {
            Some(found) => found,
            None => self.file(path).await?,
        };
        for shown in &mut found.remnant_files {
            *shown = self.shown(shown);
        }
        if found.remnants > 0
            && let Some(texts) = accounting_for(self.lake, path, &self.patterns).await?
        {
            found.explained += std::mem::take(&mut found.remnants);
            found.remnant_files.clear();
            found.retained_texts.push(texts);
        }
        Ok(found)
    }

    /// Searches a file as it is stored, and what is inside the envelopes of a sealed one. One that
    /// was removed since it was listed, as another process does whose commit was refused, contains
    /// nothing.
    pub(super) async fn file(&self, path: &Path) -> Result<ByteSearchResult> {
        let bytes = match self.lake.location().read(path).await {
            Err(error) if error.is_not_found() => return Ok(ByteSearchResult::default()),
            bytes => MappedFile(Arc::new(bytes?)),
        };
        let name = path.to_string();
        let search = move |patterns: &PatternSearch, retained: &RetainedRows| {
            FileSearch { patterns, retained }.file(&name, bytes)
        };
        let mut found = self.in_pool(path, search).await?;
        if is_sealed_file(path.as_ref()) && !is_foreign(path.as_ref()) {
            let open = LakeFile::open(self.lake, path).await?;
            let name = path.to_string();
            let search = move |patterns: &PatternSearch, retained: &RetainedRows| {
                search_opened(&open, patterns, retained.groups.get(&name))
            };
            found.add(self.in_pool(path, search).await?);
        }
        Ok(found)
    }

    /// Runs `search`, of the file at `path`, on the threads of the pool.
    async fn in_pool<S>(&self, path: &Path, search: S) -> Result<ByteSearchResult>
    where
        S: FnOnce(&PatternSearch, &RetainedRows) -> Result<ByteSearchResult> + Send + 'static,
    {
        let (patterns, retained) = (Arc::clone(&self.patterns), Arc::clone(&self.retained));
        let pool = Arc::clone(&self.pool);
        let search = move || pool.install(move || search(&patterns, &retained));
        let found = tokio::task::spawn_blocking(search).await;
        found.file("can't search", path)?
    }
}

impl ByteSearchResult {
    /// Returns whether there is no remnant.
    pub(crate) fn is_proven(&self) -> bool {
        self.remnants == 0
    }

    fn add(&mut self, part: ByteSearchResult) {
        self.files += part.files;
        self.bytes += part.bytes;
        self.pages += part.pages;
        self.explained += part.explained;
        self.remnants += part.remnants;
        self.remnant_files.extend(part.remnant_files);
        self.retained_texts.extend(part.retained_texts);
    }

    fn note(&mut self, (addresses, identifiers): (u64, u64), explained: Attribution) {
        let (explained, left) = match explained {
            Attribution::All => (addresses + identifiers, 0),
            Attribution::Identifiers => (identifiers, addresses),
            Attribution::Nothing => (0, addresses + identifiers),
        };
        self.explained += explained;
        self.remnants += left;
    }
}

/// Searches what is inside the envelopes of a sealed file. Envelopes whose keys were destroyed
/// can't be opened and contain nothing.
fn search_opened(
    file: &LakeFile,
    patterns: &PatternSearch,
    groups: Option<&HashSet<usize>>,
) -> Result<ByteSearchResult> {
    let mut found = ByteSearchResult::default();
    let mut scratch = Vec::new();
    let sealed = sealed_columns(file.name());
    for number in 0..file.row_groups().len() {
        let attribution = groups.is_some_and(|groups| groups.contains(&number)).into();
        for batch in file.row_group(number, &OPENED_COLUMNS)? {
            let batch = batch?;
            let schema = batch.schema();
            for (field, column) in schema.fields().iter().zip(batch.columns()) {
                if sealed.contains(&field.name().as_str()) {
                    each_cell(column, |cell| {
                        let mut search = |bytes: &[u8]| {
                            found.bytes += bytes.len() as u64;
                            found.note(patterns.count_in_value(bytes, &mut scratch), attribution);
                        };
                        search(cell);
                        if let Some(grain) = decompressed(cell) {
                            search(&grain);
                        }
                    });
                }
            }
        }
    }
    if found.remnants > 0 {
        found.remnant_files.push(file.name().to_owned());
    }
    Ok(found)
}

/// The columns of `grains` that are sealed in an envelope.
const OPENED_COLUMNS: [&str; 3] = [SystemColumn::Blob.name(), "envelope", "signer_did"];

/// Returns the columns with sealed cells of the data file `name`.
fn sealed_columns(name: &str) -> &'static [&'static str] {
    match name.split('/').next() {
        Some(GRAINS) => &OPENED_COLUMNS,
        table => sealed_cells(table.unwrap_or_default()),
    }
}

/// Calls `found` with the bytes of every cell of a column of texts or bytes.
fn each_cell(column: &ArrayRef, mut found: impl FnMut(&[u8])) {
    match column.data_type() {
        DataType::Utf8 => {
            let cells = column.as_string::<i32>().iter();
            cells.flatten().for_each(|cell| found(cell.as_bytes()));
        }
        DataType::Binary => column.as_binary::<i32>().iter().flatten().for_each(found),
        _ => {}
    }
}

struct FileSearch<'a> {
    patterns: &'a PatternSearch,
    retained: &'a RetainedRows,
}

/// The beginning of a Parquet file.
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// Raw bytes are searched in pieces, which overlap by more than the longest pattern.
const PIECE: usize = 4 << 20;
const OVERLAP: usize = 4 << 10;

/// Splits `bytes` into overlapping pieces.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = (0..bytes.len()).step_by(PIECE);
    starts.filter_map(|start| bytes.get(start..(start + PIECE + OVERLAP).min(bytes.len())))
}

/// Iterates over the bytes outside of `parts`, which are in ascending order.
fn outside<'b>(bytes: &'b [u8], parts: &'b [Range<usize>]) -> impl Iterator<Item = &'b [u8]> {
    let starts = [0].into_iter().chain(parts.iter().map(|part| part.end));
    let ends = parts.iter().map(|part| part.start).chain([bytes.len()]);
    starts
        .zip(ends)
        .filter_map(|(start, end)| bytes.get(start..end).filter(|bytes| !bytes.is_empty()))
}

impl FileSearch<'_> {
    /// Searches a file: raw bytes outside of pages, decompressed pages, terms of a hexastore, and
    /// text.
    fn file(&self, path: &str, bytes: MappedFile) -> Result<ByteSearchResult> {
        let attribution = self.retained.attribute(path);
        let is_parquet = bytes.as_ref().starts_with(PARQUET_MAGIC);
        let mut found = if is_parquet && !is_foreign(path) {
            self.parquet(path, bytes, attribution)?
        } else if is_parquet || !is_binary_of_lake(path) {
            self.foreign_file(path, &bytes)
        } else if path.ends_with(HEXASTORE_FILE) {
            self.hexastore(bytes.as_ref(), attribution)
        } else {
            self.raw_bytes(bytes.as_ref(), &[], attribution)
        };
        if found.remnants > 0 {
            found.remnant_files.push(path.to_owned());
        }
        Ok(found)
    }

    /// Searches a hexastore. If it is intact, its terms are searched one by one: the end of one and
    /// the beginning of the next are no text. Otherwise all of it is raw bytes.
    fn hexastore(&self, bytes: &[u8], attribution: Attribution) -> ByteSearchResult {
        let Some(terms) = HexastoreTerms::of(content_of(bytes)) else {
            return self.raw_bytes(bytes, &[], attribution);
        };
        let mut found = self.raw_bytes(bytes, &[terms.range()], attribution);
        found.bytes += terms.range().len() as u64;
        let count = |scratch: &mut Vec<u8>, number| self.patterns.count(terms.get(number), scratch);
        let counts = (0..terms.count()).into_par_iter().map_init(Vec::new, count);
        let sum = |one: (u64, u64), other: (u64, u64)| (one.0 + other.0, one.1 + other.1);
        found.note(counts.reduce(|| (0, 0), sum), attribution);
        found
    }

    /// Searches the bytes outside of `bodies`, on all threads of the current pool.
    fn raw_bytes(
        &self,
        bytes: &[u8],
        bodies: &[Range<usize>],
        attribution: Attribution,
    ) -> ByteSearchResult {
        let pieces: Vec<&[u8]> = outside(bytes, bodies).flat_map(pieces).collect();
        let searched: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut found = ByteSearchResult {
            files: 1,
            bytes: searched as u64,
            ..ByteSearchResult::default()
        };
        let count = |piece: &[u8]| {
            let mut scratch = Vec::with_capacity(piece.len());
            self.patterns.count(piece, &mut scratch)
        };
        let counts: Vec<(u64, u64)> = pieces.into_par_iter().map(count).collect();
        counts
            .into_iter()
            .for_each(|counts| found.note(counts, attribution));
        found
    }
}

#[cfg(test)]
mod tests;

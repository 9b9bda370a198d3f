//! An open vector file: search for the nearest vectors.

use std::collections::HashSet;
use std::ops::Range;

use gristmill_connectors::source::SourceBytes;
use roaring::RoaringBitmap;

use super::hnsw_search::{Candidate, GraphSearch, ProximityGraph};
use super::metric::{F16, Metric};
use super::{CHECKSUM, DIMENSION_LIMIT, MAGIC, VectorHeader};

/// Why an index of vectors can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the index of vectors is damaged: {0}")]
pub struct DamagedVectors(&'static str);

/// The vectors of one segment for one model, borrowing their file's bytes.
#[derive(Debug)]
pub struct VectorIndex {
    bytes: SourceBytes,
    head: VectorHeader,
    /// A copy of the vectors, if the mapped bytes aren't aligned.
    copied: Option<Vec<F16>>,
    vectors: Range<usize>,
    rows: usize,
    levels: usize,
    ends: usize,
    neighbours: usize,
}

/// A row with its distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// The row in the segment.
    pub row: u32,
    /// Distance of its nearest vector, in the index's metric.
    pub distance: f32,
}

impl VectorIndex {
    /// Opens the index in `bytes` and verifies its checksum. Reads every byte.
    ///
    /// # Errors
    /// [`DamagedVectors`] if it isn't intact.
    pub fn open(bytes: SourceBytes) -> Result<VectorIndex, DamagedVectors> {
        let content = bytes
            .len()
            .checked_sub(CHECKSUM)
            .and_then(|end| bytes.split_at_checked(end));
        let (content, checksum) = content.ok_or(DamagedVectors("shorter than its checksum"))?;
        let rest = content
            .strip_prefix(MAGIC)
            .ok_or(DamagedVectors("other magic"))?;
        if blake3::hash(content).as_bytes() != checksum {
            return Err(DamagedVectors("checksum differs"));
        }
        let (length, rest) = rest
            .split_first_chunk()
            .ok_or(DamagedVectors("no header"))?;
        let json = rest
            .get(..u32::from_le_bytes(*length) as usize)
            .ok_or(DamagedVectors("its header is truncated"))?;
        let head: VectorHeader = serde_json::from_slice(json)
            .map_err(|_| DamagedVectors("its header is invalid JSON"))?;
        let layout = VectorLayout::of(&head, MAGIC.len() + 4 + json.len())
            .ok_or(DamagedVectors("impossible counts"))?;
        if layout.end != content.len() {
            return Err(DamagedVectors("cut or grown"));
        }
        let halves = content.get(layout.vectors.clone()).unwrap_or_default();
        let copied = halves_in(halves).is_none().then(|| copied(halves));
        let VectorLayout {
            vectors,
            rows,
            levels,
            ends,
            neighbours,
            ..
        } = layout;
        Ok(VectorIndex {
            bytes,
            head,
            copied,
            vectors,
            rows,
            levels,
            ends,
            neighbours,
        })
    }

    /// Returns the number of rows of the segment that it was built from.
    pub(crate) fn segment_rows(&self) -> u64 {
        self.head.rows
    }

    /// Returns the model that made the vectors.
    pub fn model(&self) -> &str {
        &self.head.model
    }

    /// Returns the number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.head.dimensions
    }

    /// Returns the metric of distances.
    pub fn metric(&self) -> Metric {
        self.head.metric
    }

    /// Returns the number of vectors there are.
    pub fn len(&self) -> usize {
        self.head.count
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.head.count == 0
    }

    /// Returns the `limit` rows nearest to `vector`, nearest first, by a search in the graph with
    /// `effort` candidates (at least `limit`); more candidates improve the recall. Returns none for
    /// a vector of another number of dimensions or without direction.
    pub fn search(&self, vector: &[f32], limit: usize, effort: usize) -> Vec<Neighbour> {
        match self.stored(vector) {
            Some(query) => self.nearest_rows(self.search_graph(&query, effort.max(limit)), limit),
            None => Vec::new(),
        }
    }

    /// As [`VectorIndex::search`], but exact: compares every vector.
    pub fn scan(&self, vector: &[f32], limit: usize) -> Vec<Neighbour> {
        self.scan_where(vector, limit, |_| true)
    }

    /// As [`VectorIndex::scan`], among the vectors of `rows`.
    pub(crate) fn scan_rows(
        &self,
        vector: &[f32],
        limit: usize,
        rows: &RoaringBitmap,
    ) -> Vec<Neighbour> {
        self.scan_where(vector, limit, |number| {
            rows.contains(self.number(self.rows, number as usize))
        })
    }

    /// Compares the vectors whose numbers are `wanted`.
    fn scan_where(
        &self,
        vector: &[f32],
        limit: usize,
        wanted: impl Fn(u32) -> bool,
    ) -> Vec<Neighbour> {
        let Some(query) = self.stored(vector) else {
            return Vec::new();
        };
        let view = self.query_view(&query);
        let mut all: Vec<Candidate> = (0..self.head.count as u32)
            .filter(|number| wanted(*number))
            .map(|number| view.candidate(number))
            .collect();
        all.sort_unstable();
        self.nearest_rows(all, limit)
    }

    /// Passes each vector with its row to `visit`, in the order in which they were added.
    pub(super) fn each(&self, mut visit: impl FnMut(u32, &[F16])) {
        let vectors = self.halves().chunks_exact(self.head.dimensions);
        for (number, vector) in vectors.enumerate() {
            visit(self.number(self.rows, number), vector);
        }
    }

    /// Returns the bytes of the file.
    pub(crate) fn content(&self) -> &[u8] {
        &self.bytes
    }

    fn stored(&self, vector: &[f32]) -> Option<Vec<F16>> {
        (vector.len() == self.head.dimensions)
            .then(|| self.head.metric.stored(vector))
            .flatten()
    }

    /// Returns the distinct rows of candidates, nearest first.
    fn nearest_rows(&self, candidates: Vec<Candidate>, limit: usize) -> Vec<Neighbour> {
        let mut visited = HashSet::new();
        let mut nearest = Vec::new();
        for candidate in candidates {
            let row = self.number(self.rows, candidate.number as usize);
            if nearest.len() < limit && visited.insert(row) {
                nearest.push(Neighbour {
                    row,
                    distance: candidate.distance,
                });
            }
        }
        nearest
    }

    /// Descends the levels greedily, then searches the lowest level.
    fn search_graph(&self, query: &[F16], effort: usize) -> Vec<Candidate> {
        if self.is_empty() {
            return Vec::new();
        }
        let view = self.query_view(query);
        let mut search = GraphSearch::new(self.head.count);
        let mut nearest = view.candidate(self.head.entry.min(self.head.count as u32 - 1));
        for level in (1..=self.level(nearest.number)).rev() {
            nearest = search.descend(&view, nearest, level);
        }
        search.search_level(&view, nearest, 0, effort)
    }

    fn query_view<'i>(&'i self, query: &'i [F16]) -> QueryView<'i> {
        QueryView {
            index: self,
            vectors: self.halves(),
            query,
        }
    }

    /// Returns all vectors, concatenated.
    fn halves(&self) -> &[F16] {
        match &self.copied {
            Some(copied) => copied,
            None => self
                .bytes
                .get(self.vectors.clone())
                .and_then(halves_in)
                .unwrap_or_default(),
        }
    }

    fn level(&self, number: u32) -> u8 {
        self.bytes
            .get(self.levels + number as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Returns the place of the first list of a vector: the end of those of the one before.
    fn start_of(&self, number: usize) -> usize {
        number
            .checked_sub(1)
            .map_or(0, |before| self.number(self.ends, before) as usize)
    }

    /// Returns the neighbours of a vector on one level as bytes of the file. Never reads beyond the
    /// end, even in a forged file.
    fn list(&self, number: u32, level: u8) -> &[u8] {
        let number = number as usize;
        let mut start = self.start_of(number);
        let end = (self.number(self.ends, number) as usize).min(self.head.neighbours);
        for _ in 0..level {
            start += 1 + self.number(self.neighbours, start) as usize;
            start = start.min(end);
        }
        let length = if start < end {
            self.number(self.neighbours, start) as usize
        } else {
            0
        };
        let list = start + 1..(start + 1).saturating_add(length).min(end).max(start + 1);
        self.bytes
            .get(self.neighbours + 4 * list.start..self.neighbours + 4 * list.end)
            .unwrap_or_default()
    }

    /// Returns the integer at `place` of the list that begins at `start`; 0 beyond the end.
    fn number(&self, start: usize, place: usize) -> u32 {
        let bytes = self
            .bytes
            .get(start + 4 * place..)
            .and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |chunk| u32::from_le_bytes(*chunk))
    }
}

/// The file with a query vector.
struct QueryView<'i> {
    index: &'i VectorIndex,
    vectors: &'i [F16],
    query: &'i [F16],
}

impl ProximityGraph for QueryView<'_> {
    fn distance(&self, number: u32) -> f32 {
        let start = number as usize * self.query.len();
        let other = self
            .vectors
            .get(start..start + self.query.len())
            .unwrap_or_default();
        self.index.head.metric.distance(self.query, other)
    }

    fn neighbours(&self, number: u32, level: u8, near: &mut Vec<u32>) {
        let (list, _) = self.index.list(number, level).as_chunks();
        // A forged file may contain numbers of vectors that don't exist.
        let count = self.index.head.count;
        near.extend(
            list.iter()
                .map(|chunk| u32::from_le_bytes(*chunk))
                .filter(|number| (*number as usize) < count),
        );
    }
}

/// Offsets of the parts of the file, computed from its header.
struct VectorLayout {
    vectors: Range<usize>,
    rows: usize,
    levels: usize,
    ends: usize,
    neighbours: usize,
    end: usize,
}

impl VectorLayout {
    /// Returns `None` if the counts in the header are impossible.
    fn of(head: &VectorHeader, start: usize) -> Option<VectorLayout> {
        let fits =
            (1..=DIMENSION_LIMIT).contains(&head.dimensions) && head.count <= u32::MAX as usize;
        let count = Some(head.count).filter(|_| fits)?;
        let rows = start.checked_add(count.checked_mul(2 * head.dimensions)?)?;
        let levels = rows.checked_add(count.checked_mul(4)?)?;
        let ends = levels.checked_add(count.next_multiple_of(4))?;
        let neighbours = ends.checked_add(count.checked_mul(4)?)?;
        let end = neighbours.checked_add(head.neighbours.checked_mul(4)?)?;
        Some(VectorLayout {
            vectors: start..rows,
            rows,
            levels,
            ends,
            neighbours,
            end,
        })
    }
}

/// Reinterprets `bytes` as halves. Returns `None` if they aren't aligned, or on a big-endian
/// machine.
fn halves_in(bytes: &[u8]) -> Option<&[F16]> {
    if cfg!(target_endian = "big")
        || !bytes.len().is_multiple_of(2)
        || !bytes.as_ptr().cast::<F16>().is_aligned()
    {
        return None;
    }
    // SAFETY: a `F16` is two bytes of any value (`repr(transparent)` over `u16`). The pointer was
    // checked to be aligned, the length is that of the bytes, and the lifetime is theirs.
    Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<F16>(), bytes.len() / 2) })
}

fn copied(bytes: &[u8]) -> Vec<F16> {
    bytes
        .chunks_exact(2)
        .map(|pair| simsimd::f16(u16::from_le_bytes([pair[0], pair[1]])))
        .collect()
}

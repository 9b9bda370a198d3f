//! Builds the file: the vectors and the graph as flat arrays.

use super::hnsw_build::{HnswBuilder, Vectors};
use super::metric::{F16, Metric};
use super::{ALIGNMENT, DIMENSION_LIMIT, MAGIC, VectorHeader};

/// Collects the vectors of one segment for one model.
#[derive(Debug)]
pub struct VectorBuilder {
    model: String,
    dimensions: usize,
    metric: Metric,
    /// The vectors, concatenated.
    vectors: Vec<F16>,
    rows: Vec<u32>,
}

impl VectorBuilder {
    /// Returns an empty builder, or `None` if `dimensions` is out of range.
    pub fn new(model: &str, dimensions: usize, metric: Metric) -> Option<VectorBuilder> {
        (1..=DIMENSION_LIMIT)
            .contains(&dimensions)
            .then(|| VectorBuilder {
                model: model.to_owned(),
                dimensions,
                metric,
                vectors: Vec::new(),
                rows: Vec::new(),
            })
    }

    /// Adds a vector of `row`. Returns false and adds nothing if it has another number of
    /// dimensions, is zero, or isn't finite.
    pub fn add(&mut self, row: u32, vector: &[f32]) -> bool {
        let stored = (vector.len() == self.dimensions)
            .then(|| self.metric.stored(vector))
            .flatten();
        let added = stored.map(|stored| {
            self.vectors.extend(stored);
            self.rows.push(row);
        });
        added.is_some()
    }

    /// Adds a copy of a stored vector with the builder's metric and number of dimensions, as a
    /// vector of `row`.
    pub(super) fn copy(&mut self, row: u32, stored: &[F16]) {
        if stored.len() == self.dimensions {
            self.vectors.extend(stored);
            self.rows.push(row);
        }
    }

    /// Returns the metric of its vectors.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Returns the number of vectors that were added.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Builds the file for a segment of `segment_rows` rows, on all threads of the current pool.
    pub fn build(self, segment_rows: u64) -> Vec<u8> {
        let vectors = Vectors {
            halves: &self.vectors,
            dimensions: self.dimensions,
            metric: self.metric,
        };
        let graph = FlatGraph::of(HnswBuilder::over(vectors));
        let mut head = VectorHeader {
            rows: segment_rows,
            model: self.model,
            dimensions: self.dimensions,
            metric: self.metric,
            count: self.rows.len(),
            neighbours: graph.neighbours.len(),
            entry: graph.entry,
        };
        let numbers = self.rows.len() * 2 + graph.neighbours.len();
        let mut out =
            Vec::with_capacity(1_024 + 2 * self.vectors.len() + self.rows.len() + 4 * numbers);
        write_head(&mut head, &mut out);
        self.vectors
            .iter()
            .for_each(|half| out.extend(half.0.to_le_bytes()));
        // With an odd number of halves, the integers are unaligned, which costs little.
        write_numbers(&self.rows, &mut out);
        graph.write(&mut out);
        let checksum = blake3::hash(&out);
        out.extend(checksum.as_bytes());
        out
    }
}

fn write_head(head: &mut VectorHeader, out: &mut Vec<u8>) {
    // Plain numbers and texts can always be serialised.
    let mut json = serde_json::to_vec(head).unwrap_or_default();
    let start = MAGIC.len() + 4;
    json.resize(
        (start + json.len()).next_multiple_of(ALIGNMENT) - start,
        b' ',
    );
    out.extend(MAGIC);
    out.extend((json.len() as u32).to_le_bytes());
    out.extend(json);
}

fn write_numbers(numbers: &[u32], out: &mut Vec<u8>) {
    numbers
        .iter()
        .for_each(|number| out.extend(number.to_le_bytes()));
}

/// The graph as flat arrays.
#[derive(Debug, Default)]
struct FlatGraph {
    levels: Vec<u8>,
    ends: Vec<u32>,
    neighbours: Vec<u32>,
    entry: u32,
}

impl FlatGraph {
    fn of(graph: HnswBuilder<'_>) -> FlatGraph {
        let mut flat = FlatGraph {
            entry: graph.entry(),
            ..FlatGraph::default()
        };
        for lists in graph.lists() {
            flat.levels.push(lists.len().saturating_sub(1) as u8);
            for list in lists {
                flat.neighbours.push(list.len() as u32);
                flat.neighbours.extend(list.iter().map(|near| near.number));
            }
            flat.ends.push(flat.neighbours.len() as u32);
        }
        flat
    }

    /// Appends the levels (padded to 4 bytes), the ends and the neighbours.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(&self.levels);
        out.resize(out.len() + (4 - self.levels.len() % 4) % 4, 0);
        write_numbers(&self.ends, out);
        write_numbers(&self.neighbours, out);
    }
}

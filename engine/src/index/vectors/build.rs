//! Vectors to the file: the graph, grown on all cores, laid out flat.

use super::hnsw_build::{HnswBuilder, Vectors};
use super::metric::{F16, Metric};
use super::{ALIGNMENT, DIMENSION_LIMIT, MAGIC, VectorHeader};

/// Collects the vectors of one segment for one model.
#[derive(Debug)]
pub struct VectorBuilder {
    model: String,
    dimensions: usize,
    metric: Metric,
    /// One after another.
    vectors: Vec<F16>,
    rows: Vec<u32>,
}

impl VectorBuilder {
    /// No vectors yet. `None` if there can be none of so many dimensions.
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

    /// Adds a vector of `row`. False, and nothing is added, if it has other dimensions, no
    /// direction, or isn't finite.
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

    /// How its vectors are compared.
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

    /// Returns the bytes of the file for a segment of `segment_rows` rows, built on all threads of
    /// the current pool.
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
        // An odd number of halves leaves the integers unaligned, which only costs a little time.
        self.rows
            .iter()
            .for_each(|row| out.extend(row.to_le_bytes()));
        out.extend(&graph.levels);
        out.resize(out.len() + (4 - graph.levels.len() % 4) % 4, 0);
        graph
            .ends
            .iter()
            .chain(&graph.neighbours)
            .for_each(|number| out.extend(number.to_le_bytes()));
        let checksum = blake3::hash(&out);
        out.extend(checksum.as_bytes());
        out
    }
}

fn write_head(head: &mut VectorHeader, out: &mut Vec<u8>) {
    // A structure of plain numbers and texts always has a JSON form.
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

/// The graph, laid out flat.
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
}

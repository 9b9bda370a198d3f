//! Vectors to the file: the graph by `hnsw_rs`, on all cores, then laid out flat.

use hnsw_rs::prelude::Hnsw;

use super::metric::{Half, Metric};
use super::{ALIGNMENT, DIMENSION_LIMIT, Head, MAGIC};

/// Neighbours of a vector on the levels above the lowest; twice as many there.
const NEIGHBOURS: usize = 16;

/// Candidates that are looked at for each vector that is inserted.
const CANDIDATES: usize = 200;

/// Levels at most.
const LEVELS: usize = 16;

/// Collects the vectors of one segment for one model.
#[derive(Debug)]
pub struct VectorBuilder {
    model: String,
    dimensions: usize,
    metric: Metric,
    vectors: Vec<Vec<Half>>,
    rows: Vec<u32>,
}

impl VectorBuilder {
    /// No vectors yet. `None` if there can be none of so many dimensions.
    pub fn new(model: &str, dimensions: usize, metric: Metric) -> Option<VectorBuilder> {
        (1..=DIMENSION_LIMIT).contains(&dimensions).then(|| VectorBuilder {
            model: model.to_owned(),
            dimensions,
            metric,
            vectors: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// Adds a vector of `row`. False, and nothing is added, if it has other dimensions, no direction, or isn't finite.
    pub fn add(&mut self, row: u32, vector: &[f32]) -> bool {
        let stored = (vector.len() == self.dimensions).then(|| self.metric.stored(vector)).flatten();
        let added = stored.map(|stored| {
            self.vectors.push(stored);
            self.rows.push(row);
        });
        added.is_some()
    }

    /// How its vectors are compared.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// How many vectors were added.
    pub fn len(&self) -> usize {
        self.vectors.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.vectors.is_empty()
    }

    /// The bytes of the file for a segment of `segment_rows` rows, made on all cores of the pool that it is called in.
    pub fn build(self, segment_rows: u64) -> Vec<u8> {
        let graph = Graph::of(&self.vectors, self.metric);
        let mut head = Head {
            rows: segment_rows,
            model: self.model,
            dimensions: self.dimensions,
            metric: self.metric,
            count: self.vectors.len(),
            neighbours: graph.neighbours.len(),
            entry: graph.entry,
        };
        let mut out = Vec::new();
        write_head(&mut head, &mut out);
        self.vectors.iter().flatten().for_each(|half| out.extend(half.0.to_le_bytes()));
        // An odd number of halves leaves the integers unaligned, which only costs a little time.
        self.rows.iter().for_each(|row| out.extend(row.to_le_bytes()));
        out.extend(&graph.levels);
        out.resize(out.len() + (4 - graph.levels.len() % 4) % 4, 0);
        graph.ends.iter().chain(&graph.neighbours).for_each(|number| out.extend(number.to_le_bytes()));
        let checksum = blake3::hash(&out);
        out.extend(checksum.as_bytes());
        out
    }
}

fn write_head(head: &mut Head, out: &mut Vec<u8>) {
    // A structure of plain numbers and texts always has a JSON form.
    let mut json = serde_json::to_vec(head).unwrap_or_default();
    let start = MAGIC.len() + 4;
    json.resize((start + json.len()).next_multiple_of(ALIGNMENT) - start, b' ');
    out.extend(MAGIC);
    out.extend((json.len() as u32).to_le_bytes());
    out.extend(json);
}

/// The graph, laid out flat.
#[derive(Debug, Default)]
struct Graph {
    levels: Vec<u8>,
    ends: Vec<u32>,
    neighbours: Vec<u32>,
    entry: u32,
}

impl Graph {
    fn of(vectors: &[Vec<Half>], metric: Metric) -> Graph {
        if vectors.is_empty() {
            return Graph::default();
        }
        let graph = Hnsw::<Half, Metric>::new(NEIGHBOURS, vectors.len(), LEVELS, CANDIDATES, metric);
        let numbered: Vec<(&Vec<Half>, usize)> = vectors.iter().zip(0..).collect();
        graph.parallel_insert(&numbered);
        let mut lists: Vec<Vec<Vec<u32>>> = vec![Vec::new(); vectors.len()];
        for point in graph.get_point_indexation() {
            let level = usize::from(point.get_point_id().0);
            let own = point.get_neighborhood_id().into_iter().take(level + 1);
            let numbers = own.map(|level| level.iter().map(|near| near.d_id as u32).collect());
            if let Some(list) = lists.get_mut(point.get_origin_id()) {
                *list = numbers.collect();
            }
        }
        Graph::flat(&lists)
    }

    fn flat(lists: &[Vec<Vec<u32>>]) -> Graph {
        let mut flat = Graph::default();
        let mut highest = 0;
        for (number, list) in lists.iter().enumerate() {
            if list.len() > highest {
                highest = list.len();
                flat.entry = number as u32;
            }
            flat.levels.push(list.len().saturating_sub(1) as u8);
            for level in list {
                flat.neighbours.push(level.len() as u32);
                flat.neighbours.extend(level);
            }
            flat.ends.push(flat.neighbours.len() as u32);
        }
        flat
    }
}

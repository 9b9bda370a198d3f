//! Builds the proximity graph over the vectors of one file: HNSW (arXiv:1603.09320), in parallel.
//!
//! All levels are assigned in advance: the vectors of the upper levels are inserted first, and the
//! first of them is the entry point. A vector is connected from its lowest level to its highest, so
//! that a search that meets it on one level finds its neighbours on those below.
//!
//! Of equal vectors, which repeated texts have, only the first is inserted; the others are linked
//! to it in a chain. In the graph they would be each other's nearest neighbours, without links to
//! other vectors.

use std::cmp::Reverse;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::{DefaultHashBuilder, HashTable};
use rayon::prelude::*;

use super::hnsw_search::{Candidate, GraphSearch, ProximityGraph};
use super::metric::{F16, Metric};

/// Number of neighbours that a new vector selects on each level, and maximum above the lowest level
/// (M of the paper).
const NEIGHBOURS: usize = 16;

/// Maximal number of neighbours on the lowest level (M_max0).
const MAX_GROUND_NEIGHBOURS: usize = 2 * NEIGHBOURS;

/// Number of excess neighbours before a list is pruned: pruning compares all of them, so it is done
/// rarely.
const SLACK: usize = 16;

/// Number of candidates for each inserted vector (efConstruction).
const CANDIDATES: usize = 200;

/// Maximal number of levels.
const LEVELS: u8 = 16;

/// Number of vectors that are inserted sequentially, so that the threads find a graph to connect
/// to.
const SEQUENTIAL: usize = 1_024;

/// Minimal number of vectors that a thread inserts with one search buffer.
const RUN: usize = 128;

/// Vectors, concatenated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vectors<'v> {
    pub(super) halves: &'v [F16],
    pub(super) dimensions: usize,
    pub(super) metric: Metric,
}

impl<'v> Vectors<'v> {
    /// Returns their number.
    pub(super) fn len(self) -> usize {
        self.halves.len() / self.dimensions.max(1)
    }

    fn get(self, number: u32) -> &'v [F16] {
        let start = number as usize * self.dimensions;
        self.halves
            .get(start..start + self.dimensions)
            .unwrap_or_default()
    }

    fn between(self, left: u32, right: u32) -> f32 {
        self.metric.distance(self.get(left), self.get(right))
    }
}

/// The neighbours of a vector on one level, unordered.
type Links = Mutex<Vec<Candidate>>;

/// A graph under construction.
pub(super) struct HnswBuilder<'v> {
    vectors: Vectors<'v>,
    /// By vector, then by level.
    links: Vec<Box<[Links]>>,
    /// The entry point.
    entry: u32,
}

impl<'v> HnswBuilder<'v> {
    /// Builds the graph over `vectors`, on all threads of the current pool.
    pub(super) fn over(vectors: Vectors<'v>) -> HnswBuilder<'v> {
        let first_equals = first_equals(vectors);
        let is_first = |number: &u32| first_equals.get(*number as usize) == Some(number);
        let level = |number| {
            if is_first(&number) {
                level_of(number)
            } else {
                0
            }
        };
        let levels: Vec<u8> = (0..vectors.len() as u32).map(level).collect();
        let mut order: Vec<u32> = (0..vectors.len() as u32).filter(is_first).collect();
        order.sort_by_key(|number| Reverse(levels[*number as usize]));
        let links = levels
            .iter()
            .map(|level| (0..=*level).map(|_| Links::default()).collect());
        let entry = order.first().copied().unwrap_or_default();
        let graph = HnswBuilder {
            vectors,
            links: links.collect(),
            entry,
        };
        let (alone, rest) = order.split_at(order.len().min(SEQUENTIAL));
        let mut search = GraphSearch::new(vectors.len());
        alone
            .iter()
            .skip(1)
            .for_each(|number| graph.insert(*number, &mut search));
        rest.par_chunks(RUN).for_each_init(
            || GraphSearch::new(vectors.len()),
            |search, run| run.iter().for_each(|number| graph.insert(*number, search)),
        );
        graph
            .links
            .par_iter()
            .for_each(|levels| graph.finish(levels));
        graph.chain_duplicates(first_equals);
        graph
    }

    /// Links each vector that isn't the first of its kind to the one before it. `ends` has the
    /// first of each.
    fn chain_duplicates(&self, mut ends: Vec<u32>) {
        for number in 0..ends.len() as u32 {
            let first = ends
                .get(number as usize)
                .copied()
                .filter(|first| *first != number);
            let Some(end) = first.and_then(|first| ends.get_mut(first as usize)) else {
                continue;
            };
            let before = std::mem::replace(end, number);
            if let Some(mut list) = self.list(before, 0) {
                list.push(Candidate {
                    distance: 0.0,
                    number,
                });
            }
        }
    }

    /// Returns the entry point.
    pub(super) fn entry(&self) -> u32 {
        self.entry
    }

    /// Returns the neighbours of each vector on each of its levels from the lowest, nearest first.
    pub(super) fn lists(self) -> impl Iterator<Item = Vec<Vec<Candidate>>> + use<> {
        let inner = |links: Links| links.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.links
            .into_iter()
            .map(move |levels| levels.into_iter().map(inner).collect())
    }

    fn insert(&self, number: u32, search: &mut GraphSearch) {
        let view = QueryView {
            graph: self,
            query: self.vectors.get(number),
        };
        let own = self.top_level(number);
        let mut nearest = view.candidate(self.entry);
        for level in (own + 1..=self.top_level(self.entry)).rev() {
            nearest = search.descend(&view, nearest, level);
        }
        let mut chosen = Vec::with_capacity(usize::from(own) + 1);
        for level in (0..=own).rev() {
            let found = search.search_level(&view, nearest, level, CANDIDATES);
            nearest = found.first().copied().unwrap_or(nearest);
            chosen.push(self.diverse(found, NEIGHBOURS));
        }
        for (level, chosen) in chosen.into_iter().rev().enumerate() {
            chosen
                .iter()
                .for_each(|near| self.connect(number, level, *near));
            chosen
                .iter()
                .for_each(|near| self.connect(near.number, level, Candidate { number, ..*near }));
        }
    }

    /// Adds `near` to the neighbours of `number`, and prunes the list if it is too long.
    fn connect(&self, number: u32, level: usize, near: Candidate) {
        let Some(mut list) = self.list(number, level) else {
            return;
        };
        // Two vectors that are inserted concurrently may select each other.
        if list.iter().any(|other| other.number == near.number) {
            return;
        }
        list.push(near);
        let room = max_neighbours(level);
        if list.len() > room + SLACK {
            *list = self.diverse(sorted(std::mem::take(&mut *list)), room);
        }
    }

    fn finish(&self, levels: &[Links]) {
        for (level, links) in levels.iter().enumerate() {
            let mut list = lock(links);
            let all = sorted(std::mem::take(&mut *list));
            *list = if all.len() > max_neighbours(level) {
                self.diverse(all, max_neighbours(level))
            } else {
                all
            };
        }
    }

    /// Selects neighbours by the heuristic of the paper: of `candidates`, nearest first, those that
    /// aren't nearer to a selected one than to the origin. This keeps neighbours in every
    /// direction.
    fn diverse(&self, candidates: Vec<Candidate>, limit: usize) -> Vec<Candidate> {
        let mut chosen: Vec<Candidate> = Vec::with_capacity(limit);
        for candidate in candidates {
            if chosen.len() == limit {
                break;
            }
            let apart = |other: &Candidate| {
                self.vectors.between(candidate.number, other.number) > candidate.distance
            };
            if chosen.iter().all(apart) {
                chosen.push(candidate);
            }
        }
        chosen
    }

    /// Returns the highest level of a vector.
    fn top_level(&self, number: u32) -> u8 {
        self.links
            .get(number as usize)
            .map_or(0, |levels| levels.len().saturating_sub(1) as u8)
    }

    fn list(&self, number: u32, level: usize) -> Option<MutexGuard<'_, Vec<Candidate>>> {
        self.links.get(number as usize)?.get(level).map(lock)
    }
}

fn lock(links: &Links) -> MutexGuard<'_, Vec<Candidate>> {
    links.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sorted(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_unstable();
    candidates
}

/// Returns the maximal number of neighbours on a level.
fn max_neighbours(level: usize) -> usize {
    if level == 0 {
        MAX_GROUND_NEIGHBOURS
    } else {
        NEIGHBOURS
    }
}

/// Returns the highest level of a vector. Each level has one in [`NEIGHBOURS`] of the vectors of
/// the level below. The level depends on the number alone, so that builds are comparable.
fn level_of(number: u32) -> u8 {
    let mut mixed = u64::from(number)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed.leading_zeros() as u8 / NEIGHBOURS.ilog2() as u8).min(LEVELS - 1)
}

/// Returns for each vector the first one that is equal.
fn first_equals(vectors: Vectors<'_>) -> Vec<u32> {
    let hasher = DefaultHashBuilder::default();
    let hash = |number: u32| {
        let mut state = hasher.build_hasher();
        vectors
            .get(number)
            .iter()
            .for_each(|half| state.write_u16(half.0));
        state.finish()
    };
    let same = |left: u32, right: u32| {
        vectors
            .get(left)
            .iter()
            .map(|half| half.0)
            .eq(vectors.get(right).iter().map(|half| half.0))
    };
    let mut known: HashTable<u32> = HashTable::with_capacity(vectors.len());
    let first = |number: u32| {
        let own = hash(number);
        if let Some(first) = known.find(own, |first| same(*first, number)) {
            return *first;
        }
        known.insert_unique(own, number, |other| hash(*other));
        number
    };
    (0..vectors.len() as u32).map(first).collect()
}

/// The graph with a query vector.
struct QueryView<'g, 'v> {
    graph: &'g HnswBuilder<'v>,
    query: &'v [F16],
}

impl ProximityGraph for QueryView<'_, '_> {
    fn distance(&self, number: u32) -> f32 {
        self.graph
            .vectors
            .metric
            .distance(self.query, self.graph.vectors.get(number))
    }

    fn neighbours(&self, number: u32, level: u8, near: &mut Vec<u32>) {
        if let Some(list) = self.graph.list(number, usize::from(level)) {
            near.extend(list.iter().map(|candidate| candidate.number));
        }
    }
}

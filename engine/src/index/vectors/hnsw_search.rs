//! Walking a graph of neighbours towards a vector: one search, over the graph that grows and over
//! the file.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A graph of vectors, seen from the vector that is searched for.
pub(super) trait ProximityGraph {
    /// How far the vector `number` is from the one that is searched for.
    fn distance(&self, number: u32) -> f32;

    /// Appends the neighbours of `number` on `level`, which all exist.
    fn neighbours(&self, number: u32, level: u8, near: &mut Vec<u32>);

    /// Returns the vector `number`, and how far it is.
    fn candidate(&self, number: u32) -> Candidate {
        Candidate {
            distance: self.distance(number),
            number,
        }
    }
}

/// A vector that may be near; ordered by distance, then by number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) distance: f32,
    pub(super) number: u32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a walk remembers; its memory serves the next one.
#[derive(Debug)]
pub(super) struct GraphSearch {
    /// A bit for each vector.
    seen: Vec<u64>,
    /// The vectors whose bits are set.
    marked: Vec<u32>,
    near: Vec<u32>,
    open: BinaryHeap<Reverse<Candidate>>,
}

impl GraphSearch {
    /// For a graph of `count` vectors.
    pub(super) fn new(count: usize) -> GraphSearch {
        GraphSearch {
            seen: vec![0; count.div_ceil(64)],
            marked: Vec::new(),
            near: Vec::new(),
            open: BinaryHeap::new(),
        }
    }

    /// From `nearest` to ever nearer neighbours on `level`, as long as there are any.
    pub(super) fn descend(
        &mut self,
        graph: &impl ProximityGraph,
        mut nearest: Candidate,
        level: u8,
    ) -> Candidate {
        loop {
            self.near.clear();
            graph.neighbours(nearest.number, level, &mut self.near);
            match self
                .near
                .iter()
                .map(|number| graph.candidate(*number))
                .min()
            {
                Some(nearer) if nearer < nearest => nearest = nearer,
                _ => return nearest,
            }
        }
    }

    /// Returns the nearest vectors that are met on `level` from `start` on, nearest first, at most
    /// `effort`: it goes on from each that is nearer than the farthest of these.
    pub(super) fn around(
        &mut self,
        graph: &impl ProximityGraph,
        start: Candidate,
        level: u8,
        effort: usize,
    ) -> Vec<Candidate> {
        self.mark(start.number);
        self.open.push(Reverse(start));
        let mut found = BinaryHeap::with_capacity(effort.min(self.seen.len() * 64) + 1);
        found.push(start);
        while let Some(Reverse(next)) = self.open.pop() {
            if found.len() >= effort && found.peek().is_some_and(|farthest| *farthest < next) {
                break;
            }
            self.look(graph, next, level);
            for number in &self.near {
                let candidate = graph.candidate(*number);
                if found.len() < effort {
                    found.push(candidate);
                } else if let Some(mut farthest) = found.peek_mut()
                    && candidate < *farthest
                {
                    *farthest = candidate;
                } else {
                    continue;
                }
                self.open.push(Reverse(candidate));
            }
        }
        self.open.clear();
        self.forget();
        found.into_sorted_vec()
    }

    /// Collects the neighbours of `next` that weren't seen yet: their distances, concatenated,
    /// don't wait for each other.
    fn look(&mut self, graph: &impl ProximityGraph, next: Candidate, level: u8) {
        let mut near = std::mem::take(&mut self.near);
        near.clear();
        graph.neighbours(next.number, level, &mut near);
        near.retain(|number| self.mark(*number));
        self.near = near;
    }

    /// Marks a vector; false if it was marked before, or there is no such vector.
    fn mark(&mut self, number: u32) -> bool {
        let Some(word) = self.seen.get_mut(number as usize / 64) else {
            return false;
        };
        let bit = 1 << (number % 64);
        let fresh = *word & bit == 0;
        if fresh {
            *word |= bit;
            self.marked.push(number);
        }
        fresh
    }

    fn forget(&mut self) {
        for number in self.marked.drain(..) {
            if let Some(word) = self.seen.get_mut(number as usize / 64) {
                *word = 0;
            }
        }
    }
}

//! Search in a proximity graph, for the graph under construction and for the file.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A proximity graph with a query vector.
pub(super) trait ProximityGraph {
    /// Returns the distance of the vector `number` from the query.
    fn distance(&self, number: u32) -> f32;

    /// Appends the neighbours of `number` on `level`, which all exist.
    fn neighbours(&self, number: u32, level: u8, near: &mut Vec<u32>);

    /// Returns the vector `number` with its distance.
    fn candidate(&self, number: u32) -> Candidate {
        Candidate {
            distance: self.distance(number),
            number,
        }
    }
}

/// A candidate neighbour; ordered by distance, then by number.
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

/// The state of a search, whose memory is reused by the next.
#[derive(Debug)]
pub(super) struct GraphSearch {
    /// Bit set of the visited vectors.
    visited: Vec<u64>,
    /// The visited vectors.
    marked: Vec<u32>,
    near: Vec<u32>,
    open: BinaryHeap<Reverse<Candidate>>,
}

impl GraphSearch {
    /// Returns a state for a graph of `count` vectors.
    pub(super) fn new(count: usize) -> GraphSearch {
        GraphSearch {
            visited: vec![0; count.div_ceil(64)],
            marked: Vec::new(),
            near: Vec::new(),
            open: BinaryHeap::new(),
        }
    }

    /// Moves greedily from `nearest` to nearer neighbours on `level`, until there is none.
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

    /// Returns the nearest vectors that are reachable on `level` from `start`, nearest first. Keeps
    /// the `effort` best (ef of the paper), and expands every candidate that is nearer than the
    /// farthest of them.
    pub(super) fn search_level(
        &mut self,
        graph: &impl ProximityGraph,
        start: Candidate,
        level: u8,
        effort: usize,
    ) -> Vec<Candidate> {
        self.mark(start.number);
        self.open.push(Reverse(start));
        let mut found = BinaryHeap::with_capacity(effort.min(self.visited.len() * 64) + 1);
        found.push(start);
        while let Some(Reverse(next)) = self.open.pop() {
            if found.len() >= effort && found.peek().is_some_and(|farthest| *farthest < next) {
                break;
            }
            self.collect_unvisited(graph, next, level);
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
        self.reset();
        found.into_sorted_vec()
    }

    /// Collects the unvisited neighbours of `next`, so that their distances are computed without
    /// dependencies.
    fn collect_unvisited(&mut self, graph: &impl ProximityGraph, next: Candidate, level: u8) {
        let mut near = std::mem::take(&mut self.near);
        near.clear();
        graph.neighbours(next.number, level, &mut near);
        near.retain(|number| self.mark(*number));
        self.near = near;
    }

    /// Marks a vector as visited. Returns false if it was visited before, or doesn't exist.
    fn mark(&mut self, number: u32) -> bool {
        let Some(word) = self.visited.get_mut(number as usize / 64) else {
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

    fn reset(&mut self) {
        for number in self.marked.drain(..) {
            if let Some(word) = self.visited.get_mut(number as usize / 64) {
                *word = 0;
            }
        }
    }
}

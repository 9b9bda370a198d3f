//! `vectors [COUNT]`: compares nearest-neighbour search with usearch. COUNT is the number of
//! vectors (default 100,000) of 384 dimensions.
//!
//! Both use half precision and HNSW graphs with the same parameters (16 neighbours, 200
//! candidates), built on all cores and searched on one. Recall is measured against the exact
//! neighbours in full precision. Speeds are compared at the first effort with a recall of 0.95.

use std::hint::black_box;

use gristmill_engine::index::vectors::{Metric, VectorBuilder, VectorIndex};
use gristmill_rivals::{alternating, count_or, measured, seeded_rng};
use rand::RngExt;
use rand::rngs::StdRng;
use rayon::prelude::*;
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

// The allocator of gristmill's command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DIMENSIONS: usize = 384;
const CENTRES: usize = 2_000;
const QUERIES: usize = 1_000;
const BEST: usize = 10;
const EFFORTS: [usize; 8] = [16, 32, 48, 64, 96, 128, 192, 256];
/// The recall at which speeds are compared.
const RECALL: f64 = 0.95;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut random = seeded_rng(5);
    let centres: Vec<Vec<f32>> = (0..CENTRES)
        .map(|_| around(&[0.0; DIMENSIONS], 1.0, &mut random))
        .collect();
    let mut near = |count: usize| -> Vec<Vec<f32>> {
        (0..count)
            .map(|_| around(&centres[random.random_range(0..CENTRES)], 0.7, &mut random))
            .collect()
    };
    let (vectors, queries) = (near(count_or(100_000)), near(QUERIES));
    println!(
        "{} vectors of {DIMENSIONS} dimensions, {} threads",
        vectors.len(),
        rayon::current_num_threads()
    );

    let mut builder =
        VectorBuilder::new("bench", DIMENSIONS, Metric::Cosine).ok_or("no builder")?;
    for (row, vector) in vectors.iter().enumerate() {
        builder.add(row as u32, vector);
    }
    let (own, bytes) = measured(|| builder.build(vectors.len() as u64));
    println!(
        "ours: built in {own}, {:.0} a second, {:.0} MB",
        vectors.len() as f64 / own.wall,
        bytes.len() as f64 / 1e6
    );
    let index = VectorIndex::open(bytes.into())?;

    let options = IndexOptions {
        dimensions: DIMENSIONS,
        metric: MetricKind::Cos,
        quantization: ScalarKind::F16,
        connectivity: 16,
        expansion_add: 200,
        ..IndexOptions::default()
    };
    let rival = Index::new(&options)?;
    rival.reserve_capacity_and_threads(vectors.len(), rayon::current_num_threads())?;
    let (theirs, added) = measured(|| {
        vectors
            .par_iter()
            .enumerate()
            .try_for_each(|(row, vector)| rival.add(row as u64, vector).map(drop))
    });
    added.map_err(|error| error.to_string())?;
    println!(
        "usearch f16: built in {theirs}; ours takes {}",
        own.ratio_to(theirs)
    );

    let truth: Vec<Vec<u64>> = queries
        .par_iter()
        .map(|query| nearest(query, &vectors))
        .collect();
    // Warm-up: the exact search evicted the graphs from the caches.
    for query in &queries {
        black_box(index.search(query, BEST, EFFORTS[0]));
        black_box(rival.search(query, BEST)?);
    }
    println!("effort   ours/s   recall   usearch/s   recall   ratio (one thread)");
    let mut enough = [None; 2];
    for effort in EFFORTS {
        rival.change_expansion_search(effort);
        let sides = alternating(
            &queries,
            |query| Ok(rows(index.search(query, BEST, effort))),
            |query| {
                rival
                    .search(query, BEST)
                    .map(|found| found.keys)
                    .map_err(|error| error.to_string())
            },
        )?;
        let [(ours, found), (theirs, answers)] = sides;
        let recalls = [recall(&truth, &found), recall(&truth, &answers)];
        println!(
            "{effort:>6}   {ours:>6.0}   {:.4}   {theirs:>9.0}   {:.4}   {:.2}",
            recalls[0],
            recalls[1],
            ours / theirs
        );
        for ((enough, recall), rate) in enough.iter_mut().zip(recalls).zip([ours, theirs]) {
            if recall >= RECALL && enough.is_none() {
                *enough = Some((rate, effort));
            }
        }
    }
    if let [Some((ours, effort)), Some((theirs, other))] = enough {
        println!(
            "recall of {RECALL}: ours {ours:.0}/s with effort {effort}, usearch {theirs:.0}/s with \
             {other}; ratio {:.2}",
            ours / theirs
        );
    }
    Ok(())
}

/// Returns the rows of the exact neighbours, by a scan of all vectors in full precision.
fn nearest(query: &[f32], vectors: &[Vec<f32>]) -> Vec<u64> {
    let mut all: Vec<(f32, u64)> = vectors
        .iter()
        .zip(0..)
        .map(|(vector, row)| (-dot(query, vector) / dot(vector, vector).sqrt(), row))
        .collect();
    let last = BEST.min(all.len() - 1);
    all.select_nth_unstable_by(last, |left, right| left.0.total_cmp(&right.0));
    all.into_iter().take(BEST).map(|(_, row)| row).collect()
}

/// Sums of several lanes, so that the compiler can use the machine's.
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 16];
    for (left, right) in left
        .as_chunks::<16>()
        .0
        .iter()
        .zip(right.as_chunks::<16>().0)
    {
        lanes
            .iter_mut()
            .zip(left)
            .zip(right)
            .for_each(|((lane, left), right)| *lane += left * right);
    }
    lanes.iter().sum()
}

/// Returns a random vector around `centre`.
fn around(centre: &[f32], spread: f32, random: &mut StdRng) -> Vec<f32> {
    // The sum of a few uniform numbers is approximately normal.
    let mut normal = || {
        (0..4)
            .map(|_| random.random_range(-1.0..1.0_f32))
            .sum::<f32>()
    };
    centre.iter().map(|at| at + spread * normal()).collect()
}

fn rows(found: Vec<gristmill_engine::index::vectors::Neighbour>) -> Vec<u64> {
    found.into_iter().map(|near| u64::from(near.row)).collect()
}

/// Returns the fraction of the exact neighbours that was found.
fn recall(truth: &[Vec<u64>], found: &[Vec<u64>]) -> f64 {
    let hits = |(truth, found): (&Vec<u64>, &Vec<u64>)| {
        truth.iter().filter(|row| found.contains(row)).count()
    };
    truth.iter().zip(found).map(hits).sum::<usize>() as f64
        / truth.iter().map(Vec::len).sum::<usize>() as f64
}

//! SHA-256 of many blobs: `sha2` with one blob at a time against the multi-buffer kernel of the
//! engine.
//!
//! The data set is larger than any cache, and each iteration hashes the next window of it, so both
//! sides read from memory as ingest does. Compare the two sides of a group by their ratio: they run
//! one after the other.

use std::{hint::black_box, ops::Range};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use gristmill_engine::hash::{Digest, sha256_many};
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use sha2::{Digest as _, Sha256};

const DATA_BYTES: usize = 256 << 20;
/// The number of bytes that one iteration hashes.
const WINDOW_BYTES: usize = 4 << 20;

/// A function that hashes a list of messages.
type HashMany = fn(&[&[u8]], &mut [Digest]);

fn one_by_one(messages: &[&[u8]], digests: &mut [Digest]) {
    for (digest, message) in digests.iter_mut().zip(messages) {
        *digest = Sha256::digest(message).into();
    }
}

fn hashing(criterion: &mut Criterion) {
    let mut rng = StdRng::seed_from_u64(1);
    let mut data = vec![0; DATA_BYTES];
    rng.fill_bytes(&mut data);
    for size in [64, 160, 400, 1024, 4096, 16384] {
        compare(
            criterion,
            &format!("{size} B"),
            &data,
            &mut rng,
            size..size + 1,
        );
    }
    compare(criterion, "100 B to 10 KB", &data, &mut rng, 100..10_001);
}

fn compare(
    criterion: &mut Criterion,
    name: &str,
    data: &[u8],
    rng: &mut StdRng,
    sizes: Range<usize>,
) {
    let windows: Vec<Vec<&[u8]>> = data
        .chunks(WINDOW_BYTES)
        .map(|window| cut(window, rng, &sizes))
        .collect();
    let bytes: usize = windows.iter().flatten().map(|blob| blob.len()).sum();
    let mut group = criterion.benchmark_group(format!("hashing/{name}"));
    group
        .sampling_mode(SamplingMode::Flat)
        .throughput(Throughput::Bytes((bytes / windows.len()) as u64));
    for (side, hash) in [
        ("sha2 one by one", one_by_one as HashMany),
        ("sha256_many", sha256_many),
    ] {
        let mut digests = vec![[0; 32]; windows.iter().map(Vec::len).max().unwrap_or(0)];
        let mut next = windows.iter().cycle();
        group.bench_function(side, |bencher| {
            bencher.iter(|| {
                let window = next.next().expect("the iterator is infinite");
                hash(black_box(window), &mut digests[..window.len()]);
                black_box(&mut digests);
            });
        });
    }
    group.finish();
}

/// Splits a window into consecutive blobs.
fn cut<'d>(mut window: &'d [u8], rng: &mut StdRng, sizes: &Range<usize>) -> Vec<&'d [u8]> {
    let mut blobs = Vec::new();
    while let Some((blob, rest)) = window.split_at_checked(rng.random_range(sizes.clone())) {
        blobs.push(blob);
        window = rest;
    }
    blobs
}

criterion_group!(benches, hashing);
criterion_main!(benches);

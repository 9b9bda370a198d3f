//! `grains CORPUS [COUNT]`: compares reading the grains of all containers in the folder CORPUS with
//! the crates `areev-core` and `areev-store`, the other public implementation of the format.
//!
//! Each comparison runs [`ROUNDS`] times:
//!
//! - From memory, alternating over the same grains: each blob is hashed and decoded. Ours also
//!   checks every field against the specification, in strict mode. `areev-core` decodes each to a
//!   map of JSON values and checks its framing, not its fields.
//! - Whole files, as `gristmill verify` reads them: container structure, footers and grains, from
//!   the page cache. The reference is `areev-core` from memory, because it doesn't support
//!   containers.
//! - Stores, if the crate is built with the feature `store`: see `stores`.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use areev_core::format::deserialize_blob;
use gristmill_connectors::source::{SourceBytes, discover};
use gristmill_engine::hash::{Digest, sha256_each};
use gristmill_engine::verify::{VerifyOptions, VerifyReport, verify_sources};
use gristmill_rivals::{measured, timed};
use gristmill_schemas::container::{Container, ContainerLimits};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use rayon::prelude::*;
use tokio::runtime::Runtime;

// The allocator of gristmill's command line; a dependency of `areev-store` sets the same one.
#[cfg(not(feature = "store"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 3;
/// The number of grains of a run: `verify` reads that many at a time.
const RUN: usize = 512;
/// The number of grains that one side reads before the other.
const TURN: usize = 65_536;

#[cfg(feature = "store")]
mod stores;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let corpus = PathBuf::from(arguments.next().ok_or("usage: grains CORPUS [COUNT]")?);
    let containers = containers(&corpus)?;
    let each = |container| {
        let container: &Container<SourceBytes> = container;
        (0..container.len()).filter_map(|at| container.grain(at))
    };
    let grains: Vec<&[u8]> = containers.iter().flat_map(each).collect();
    let bytes: usize = grains.iter().map(|grain| grain.len()).sum();
    let threads = rayon::current_num_threads();
    println!(
        "{} grains, {:.0} MB, {threads} threads",
        grains.len(),
        bytes as f64 / 1e6
    );
    let runtime = Runtime::new()?;
    for round in 1..=ROUNDS {
        println!("round {round}");
        let [one, all] = from_memory(&grains, threads)?;
        whole_files(&corpus, [(1, one), (threads, all)], grains.len(), &runtime)?;
    }
    #[cfg(feature = "store")]
    stores::compare(&grains, arguments.next().as_deref(), threads, &runtime)?;
    Ok(())
}

fn containers(corpus: &Path) -> Result<Vec<Container<SourceBytes>>, AnyError> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(corpus)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "mg") {
            paths.push(path);
        }
    }
    paths.sort();
    let open = |path: &PathBuf| {
        Ok(Container::open(
            SourceBytes::map(path)?,
            ContainerLimits::default(),
        )?)
    };
    paths.iter().map(open).collect()
}

/// The result of reading grains: the number of valid grains, and the XOR of their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ReadResult {
    good: usize,
    addresses: u64,
}

impl ReadResult {
    fn add(&mut self, address: &[u8; 32]) {
        self.good += 1;
        self.addresses ^= address
            .first_chunk()
            .map_or(0, |start| u64::from_le_bytes(*start));
    }

    fn and(self, other: ReadResult) -> ReadResult {
        ReadResult {
            good: self.good + other.good,
            addresses: self.addresses ^ other.addresses,
        }
    }
}

/// Reads a run with gristmill: hashes with the multi-buffer kernel, decodes and checks with a
/// reused buffer.
fn our_run(grains: &[&[u8]]) -> ReadResult {
    let mut digests = vec![Digest::default(); grains.len()];
    sha256_each(&mut digests, |at| {
        grains.get(at).copied().unwrap_or_default()
    });
    let payloads: Vec<_> = grains
        .iter()
        .map(|blob| Payload::open(blob, DEFAULT_PAYLOAD_LIMIT))
        .collect();
    let mut kept: Option<Grain<'_>> = None;
    let mut read = ReadResult::default();
    for (payload, digest) in payloads.iter().zip(&digests) {
        let Ok(payload) = payload else { continue };
        let checked = match &mut kept {
            Some(grain) => grain.redecode(payload, DecodeMode::Strict),
            empty => Grain::decode(payload, DecodeMode::Strict).map(|grain| *empty = Some(grain)),
        };
        if checked.is_ok() {
            black_box(&kept);
            read.add(digest);
        }
    }
    read
}

fn their_run(grains: &[&[u8]]) -> ReadResult {
    let mut read = ReadResult::default();
    for grain in grains.iter().filter_map(|blob| deserialize_blob(blob).ok()) {
        read.add(black_box(&grain).hash.as_bytes());
    }
    read
}

/// Reads a run of grains.
type RunReader = fn(&[&[u8]]) -> ReadResult;

/// Reads all runs with a reader, on one thread or on all.
type Schedule = fn(&[&[u8]], RunReader) -> ReadResult;

fn one_by_one(grains: &[&[u8]], reader: RunReader) -> ReadResult {
    grains
        .chunks(RUN)
        .map(reader)
        .fold(ReadResult::default(), ReadResult::and)
}

fn on_all(grains: &[&[u8]], reader: RunReader) -> ReadResult {
    grains
        .par_chunks(RUN)
        .map(reader)
        .reduce(ReadResult::default, ReadResult::and)
}

/// Reads all grains with both implementations, alternating after [`TURN`] grains; returns the
/// grains per second of `areev-core` on one thread and on all.
fn from_memory(grains: &[&[u8]], threads: usize) -> Result<[f64; 2], AnyError> {
    let schedules: [(usize, Schedule); 2] = [(1, one_by_one), (threads, on_all)];
    let mut rates = [0.0; 2];
    for ((threads, schedule), rate) in schedules.into_iter().zip(&mut rates) {
        let mut sides = [
            (our_run as RunReader, 0.0, ReadResult::default()),
            (their_run as RunReader, 0.0, ReadResult::default()),
        ];
        for turn in grains.chunks(TURN) {
            for (reader, seconds, all) in &mut sides {
                let (took, read) = timed(|| schedule(turn, *reader));
                *seconds += took;
                *all = all.and(read);
            }
        }
        let [(_, own, ours), (_, other, theirs)] = sides;
        if ours.good == theirs.good && ours != theirs {
            return Err("addresses differ".into());
        }
        let [own, other] = [ours.good as f64 / own, theirs.good as f64 / other];
        println!(
            "from memory, {threads} threads: ours {own:.0} grains/s, {} good; areev-core \
             {other:.0} grains/s, {} good; ratio {:.1}",
            ours.good,
            theirs.good,
            own / other
        );
        *rate = other;
    }
    Ok(rates)
}

fn whole_files(
    corpus: &Path,
    theirs: [(usize, f64); 2],
    grains: usize,
    runtime: &Runtime,
) -> Result<(), AnyError> {
    let named = [corpus
        .to_str()
        .ok_or("the name of the corpus isn't UTF-8")?
        .to_owned()];
    for (threads, theirs) in theirs {
        let options = VerifyOptions {
            threads,
            ..VerifyOptions::default()
        };
        let (spent, report) = measured(|| {
            runtime.block_on(async {
                verify_sources(discover(&named).await?, &options, Arc::default()).await
            })
        });
        let report = report.map_err(|error| error.to_string())?;
        proven(&report, grains)?;
        let own = grains as f64 / spent.wall;
        println!(
            "verify of files, {threads} threads: {spent}, {own:.0} grains/s; ratio to areev-core \
             {:.1}",
            own / theirs
        );
    }
    Ok(())
}

fn proven(report: &VerifyReport, grains: usize) -> Result<(), AnyError> {
    let all = report.bad == 0 && report.ok == grains as u64;
    all.then_some(())
        .ok_or_else(|| format!("{} of {grains} grains are good", report.ok).into())
}

//! `exchanges FILE [TIMES]`: measures ingest of exchange lines, and parsing of the same bytes by
//! `serde_json` into trees on as many threads. Both alternate TIMES times (3); prints the best of
//! each, in megabytes of JSON per second, and their ratio.

use std::error::Error;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use gristmill_connectors::source::discover;
use gristmill_engine::index::IndexKinds;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::lake::Lake;

// The allocator of the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: exchanges FILE [TIMES]")?;
    let times: usize = arguments.next().map_or(Ok(3), |times| times.parse())?;
    let megabytes = std::fs::metadata(&file)?.len() as f64 / 1e6;
    let (mut committed, mut parsed) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..times {
        committed = committed.min(time_to_ingest(&file).await?);
        parsed = parsed.min(parse(Path::new(&file))?);
    }
    println!(
        "to committed grains: {committed:.2} s, {:.0} MB/s",
        megabytes / committed
    );
    println!(
        "serde_json alone:    {parsed:.2} s, {:.0} MB/s",
        megabytes / parsed
    );
    println!("ratio: {:.1}", committed / parsed);
    Ok(())
}

/// Returns the seconds until the grains of `file` are committed to a new lake, which is then
/// removed.
async fn time_to_ingest(file: &str) -> Result<f64, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut lake = Lake::open_or_create(&folder.path().join("lake").display().to_string()).await?;
    let options = IngestOptions {
        indexes: IndexKinds::NONE,
        ..IngestOptions::default()
    };
    let started = Instant::now();
    let sources = discover(&[file.to_owned()]).await?;
    let report = ingest(
        &mut lake,
        sources,
        &options,
        Arc::new(IngestProgress::default()),
    )
    .await?;
    println!(
        "{} grains, {} lines refused",
        report.grains_written, report.rejected
    );
    Ok(started.elapsed().as_secs_f64())
}

/// Returns the seconds to parse each line into a tree, on all cores.
fn parse(file: &Path) -> Result<f64, Box<dyn Error>> {
    let started = Instant::now();
    let bytes = std::fs::read(file)?;
    let lines: Vec<&[u8]> = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
        .collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let read = |first: usize| {
        let values = lines
            .iter()
            .skip(first)
            .step_by(threads)
            .map(|line| serde_json::from_slice(line));
        values
            .filter(|value: &Result<serde_json::Value, _>| value.is_ok())
            .count()
    };
    let read = &read;
    let parsed: usize = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || read(first)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default())
            .sum()
    });
    println!("{parsed} of {} lines parsed", lines.len());
    Ok(started.elapsed().as_secs_f64())
}

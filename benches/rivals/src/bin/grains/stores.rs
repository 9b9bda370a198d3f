//! Compares storing the first COUNT grains (default 50,000) in a lake and in `areev-store`, both in
//! a temporary folder (`TMPDIR`; use a file system in memory to exclude the disk).
//!
//! `areev-store` gets batches of [`BATCH`] grains, one transaction each, and builds its text index
//! at the end, as it recommends for bulk loads; the lake is an ingest with all sidecars. Then each
//! verifies its grains: `areev-store` checks the database, and hashes and decodes every grain on
//! one thread; the lake also checks every field, on one thread and on all.

use std::path::Path;
use std::sync::Arc;

use areev_core::error::Hash;
use areev_core::format::content_address;
use areev_store::{AddableDyn, Areev};
use gristmill_connectors::source::discover;
use gristmill_engine::ingest::{IngestOptions, ingest};
use gristmill_engine::lake::Lake;
use gristmill_engine::verify::{VerifyOptions, VerifyScope, verify_lake};
use gristmill_rivals::timed;
use gristmill_schemas::container::{ContainerOptions, ContainerWriter};
use tokio::runtime::Runtime;

use super::{AnyError, ROUNDS, proven};

/// The number of grains of a transaction.
const BATCH: usize = 1_000;

/// Compares the stores, [`ROUNDS`] times.
pub fn compare(
    grains: &[&[u8]],
    count: Option<&str>,
    threads: usize,
    runtime: &Runtime,
) -> Result<(), AnyError> {
    let count = count.map_or(Ok(50_000), str::parse)?;
    let grains = grains.get(..count).unwrap_or(grains);
    for round in 1..=ROUNDS {
        println!("store of {} grains, round {round}", grains.len());
        stores(grains, threads, runtime)?;
    }
    Ok(())
}

/// A grain for `areev-store` that keeps its bytes and address without being encoded again.
struct Stored<'g>(&'g [u8]);

impl AddableDyn for Stored<'_> {
    fn serialize_dyn(&self) -> areev_core::Result<(Vec<u8>, Hash)> {
        Ok((self.0.to_vec(), content_address(self.0)))
    }
}

fn stores(grains: &[&[u8]], threads: usize, runtime: &Runtime) -> Result<(), AnyError> {
    let folder = tempfile::tempdir()?;
    let rate = |seconds: f64| grains.len() as f64 / seconds;
    let (own, verified) = ours_stored(grains, folder.path(), threads, runtime)?;
    println!(
        "put into a lake with all sidecars, {threads} threads: {:.0} grains/s",
        rate(own)
    );
    let (put, checked) = theirs_stored(grains, &folder.path().join("areev.db"))?;
    println!(
        "put into areev-store with its indexes: {:.0} grains/s; ours puts {:.0} × as fast",
        rate(put),
        put / own
    );
    for (threads, seconds) in verified {
        println!(
            "verify of the lake, {threads} threads: {:.0} grains/s",
            rate(seconds)
        );
    }
    let [(_, one), ..] = verified;
    println!(
        "verify of areev-store: {:.0} grains/s; ours on one thread reads {:.1} × as fast",
        rate(checked),
        checked / one
    );
    Ok(())
}

/// Returns the seconds of an ingest into a new lake, and of its verification on one thread and on
/// all.
fn ours_stored(
    grains: &[&[u8]],
    folder: &Path,
    threads: usize,
    runtime: &Runtime,
) -> Result<(f64, [(usize, f64); 2]), AnyError> {
    let path = folder.join("grains.mg");
    let lengths: Result<Vec<u32>, _> = grains
        .iter()
        .map(|grain| u32::try_from(grain.len()))
        .collect();
    let mut writer = ContainerWriter::new(
        std::fs::File::create(&path)?,
        ContainerOptions::default(),
        lengths?,
    )?;
    grains.iter().try_for_each(|grain| writer.push(grain))?;
    writer.finish(None)?;
    let named = [path
        .to_str()
        .ok_or("the name of a folder isn't UTF-8")?
        .to_owned()];
    let lake = folder.join("lake");
    let uri = lake.to_str().ok_or("the name of a folder isn't UTF-8")?;
    runtime.block_on(async {
        let started = std::time::Instant::now();
        let mut lake = Lake::open_or_create(uri).await?;
        let sources = discover(&named).await?;
        ingest(
            &mut lake,
            sources,
            &IngestOptions::default(),
            Arc::default(),
        )
        .await?;
        let own = started.elapsed().as_secs_f64();
        let mut verified = [(1, 0.0), (threads, 0.0)];
        for (threads, seconds) in &mut verified {
            let options = VerifyOptions {
                threads: *threads,
                ..VerifyOptions::default()
            };
            let part = VerifyScope {
                subset: None,
                max_duration: None,
            };
            let report = verify_lake(&lake, part, &options, Arc::default()).await?;
            proven(&report, grains.len())?;
            *seconds = report.seconds;
        }
        Ok((own, verified))
    })
}

/// Returns the seconds of storing, and of the store's verification of all blobs.
fn theirs_stored(grains: &[&[u8]], path: &Path) -> Result<(f64, f64), AnyError> {
    let mut store = Areev::open(path.to_str().ok_or("the name of a folder isn't UTF-8")?)?;
    let (put, done) = timed(|| {
        store.defer_text_index()?;
        for batch in grains.chunks(BATCH) {
            let batch: Vec<Stored<'_>> = batch.iter().map(|blob| Stored(blob)).collect();
            let batch: Vec<&dyn AddableDyn> =
                batch.iter().map(|blob| blob as &dyn AddableDyn).collect();
            store.add_batch(&batch)?;
        }
        store.rebuild_text_index()
    });
    done?;
    let (checked, report) = timed(|| store.verify());
    let report = report?;
    if report.grains != grains.len() || report.hash_mismatches + report.undecodable > 0 {
        return Err(format!(
            "areev-store has {} of {} grains",
            report.grains,
            grains.len()
        )
        .into());
    }
    Ok((put, checked))
}

//! Sources that other processes read become the rows that one process makes of them, also if a job
//! is done twice, the client ends early, or another writer is faster.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use gristmill_connectors::generate::Corpus;
use gristmill_connectors::source::{Source, discover};
use gristmill_engine::error::EngineError;
use gristmill_engine::gc::{GcOptions, collect_garbage};
use gristmill_engine::ingest::{
    IngestOptions, IngestReport, OnError, ReadSources, SourceJob, ingest, ingest_by, read_sources,
};
use gristmill_engine::keys::FileKeys;
use gristmill_engine::lake::{Outcomes, SegmentWorkers};
use gristmill_engine::progress::WorkProgress;
use gristmill_schemas::container::{
    Codec, ContainerOptions, ContainerWriter, Manifest, write_frame,
};
use gristmill_schemas::grain::Encoding;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::lab::Lab;
use crate::workers::{TwiceWorkers, WorkersElsewhere, reversed, sent};

#[async_trait]
impl SegmentWorkers<SourceJob> for TwiceWorkers {
    async fn run(&self, jobs: Vec<SourceJob>) -> Result<Outcomes<SourceJob>, EngineError> {
        let mut outcomes: Vec<ReadSources> = Vec::new();
        for job in &jobs {
            read_sources(&self.lake().await, &sent(job), u64::MAX).await?;
            let read = read_sources(&self.lake().await, &sent(job), u64::MAX).await?;
            outcomes.push(sent(&read));
        }
        Ok(reversed::<SourceJob>(outcomes))
    }
}

/// Workers of which the client gets the outcomes of the first two jobs, and then none.
struct LostWorkers(TwiceWorkers);

#[async_trait]
impl SegmentWorkers<SourceJob> for LostWorkers {
    async fn run(&self, jobs: Vec<SourceJob>) -> Result<Outcomes<SourceJob>, EngineError> {
        let outcomes: Vec<_> = self.0.run(jobs).await?.try_collect().await?;
        let first = outcomes.into_iter().filter(|(number, _)| *number < 2);
        let lost = Err(EngineError::Task {
            what: "the work".to_owned(),
            cause: "the workers are lost".into(),
        });
        let outcomes: Vec<_> = first.map(Ok).chain([lost]).collect();
        Ok(stream::iter(outcomes).boxed())
    }
}

/// Workers during whose work another process ingests a source.
struct WorkersBesideWriter(TwiceWorkers, Source);

#[async_trait]
impl SegmentWorkers<SourceJob> for WorkersBesideWriter {
    async fn run(&self, jobs: Vec<SourceJob>) -> Result<Outcomes<SourceJob>, EngineError> {
        let read = self.0.run(jobs).await?;
        let (mut lake, sources) = (self.0.lake().await, vec![self.1.clone()]);
        let runtime = Handle::current();
        let ingested = tokio::task::spawn_blocking(move || {
            runtime.block_on(ingest(&mut lake, sources, &options(), Arc::default()))
        });
        ingested.await.unwrap()?;
        Ok(read)
    }
}

/// Workers of which a source is gone when they are called for the second time.
struct WorkersWithout(TwiceWorkers, PathBuf, AtomicUsize);

#[async_trait]
impl SegmentWorkers<SourceJob> for WorkersWithout {
    async fn run(&self, jobs: Vec<SourceJob>) -> Result<Outcomes<SourceJob>, EngineError> {
        if self.2.fetch_add(1, Ordering::Relaxed) == 1 {
            std::fs::remove_file(&self.1).unwrap();
        }
        self.0.run(jobs).await
    }
}

/// Workers during whose work another process encrypts the lake. They do each job once.
struct WorkersBesideEncryption(TwiceWorkers, Mutex<Option<FileKeys>>);

#[async_trait]
impl SegmentWorkers<SourceJob> for WorkersBesideEncryption {
    async fn run(&self, jobs: Vec<SourceJob>) -> Result<Outcomes<SourceJob>, EngineError> {
        let mut outcomes: Vec<ReadSources> = Vec::new();
        for job in &jobs {
            outcomes.push(read_sources(&self.0.lake().await, job, u64::MAX).await?);
        }
        let keys = self.1.lock().unwrap().take();
        if let Some(keys) = keys {
            let (mut lake, runtime) = (self.0.lake().await, Handle::current());
            let encrypt = move || runtime.block_on(lake.enable_encryption(Box::new(keys)));
            tokio::task::spawn_blocking(encrypt).await.unwrap()?;
        }
        Ok(reversed::<SourceJob>(outcomes))
    }
}

fn options() -> IngestOptions {
    IngestOptions {
        threads: 2,
        ..IngestOptions::default()
    }
}

/// Writes 80 grains and their lifecycle state as the container `path`.
fn make_container(path: &Path) {
    let (seed, people) = (11, 9);
    let mut block = Corpus::new(seed, people).block(4).unwrap();
    block.split_off(80);
    assert!(!block.states.is_empty());
    let options = ContainerOptions {
        sorted: false,
        deduplicated: true,
        codec: Codec::None,
        with_manifest: true,
        manifest_encoding: Encoding::MessagePack,
    };
    let lengths = block.grains.iter().map(|grain| grain.blob.len() as u32);
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ContainerWriter::new(file, options, lengths.collect()).unwrap();
    for grain in &block.grains {
        writer.push(&grain.blob).unwrap();
    }
    let entries = block.states.into_iter().collect();
    writer.finish(Some(&Manifest { entries })).unwrap();
}

/// Makes files in `folder` that share grains, and some that are refused in part or as a whole.
fn make_sources(lab: &Lab, folder: &Path) {
    let block = |number| lab.blobs(number, 60);
    let garbage = vec![b"this is no grain".to_vec()];
    let files = [
        ("a.frames", vec![block(0)]),
        ("b.frames", vec![block(0)[..40].to_vec(), block(1)]),
        ("c.frames", vec![block(1), block(2), garbage]),
        ("d.frames", vec![block(3)]),
        ("e.frames", vec![block(2), block(3)]),
    ];
    for (name, blobs) in files {
        let mut frames = Vec::new();
        for blob in blobs.concat() {
            write_frame(&blob, &mut frames).unwrap();
        }
        std::fs::write(folder.join(name), frames).unwrap();
    }
    make_container(&folder.join("f.mg"));
    std::fs::write(folder.join("broken.mg"), b"no container").unwrap();
    std::fs::write(folder.join("notes.txt"), b"no grains").unwrap();
}

async fn found(path: &Path) -> Vec<Source> {
    discover(&[path.display().to_string()]).await.unwrap()
}

/// Ingests the files of `folder` in this process.
async fn local(lab: &Lab, folder: &Path) -> IngestReport {
    let (mut lake, sources) = (lab.lake().await, found(folder).await);
    let report = ingest(&mut lake, sources, &options(), Arc::default()).await;
    report.unwrap()
}

/// Has the files of `folder` read by `workers`.
async fn by(
    workers: &dyn SegmentWorkers<SourceJob>,
    lab: &Lab,
    folder: &Path,
    options: &IngestOptions,
) -> Result<IngestReport, EngineError> {
    let (mut lake, sources) = (lab.lake().await, found(folder).await);
    let progress = Arc::new(WorkProgress::default());
    ingest_by(workers, Vec::new(), &mut lake, sources, options, progress).await
}

/// Returns a report without times, names and versions.
fn figures(report: &IngestReport) -> Value {
    let mut report = serde_json::to_value(report).unwrap();
    for name in ["seconds", "grains_per_second", "version", "run_id"] {
        report.as_object_mut().unwrap().remove(name);
    }
    report
}

/// Returns the cells of these columns of each row, sorted.
fn cells(batches: &[RecordBatch], columns: &[&str]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cell = |name: &&str| {
                let column = batch.column_by_name(name).unwrap();
                array_value_to_string(column, row).unwrap()
            };
            rows.push(columns.iter().map(cell).collect::<Vec<String>>());
        }
    }
    rows.sort();
    rows
}

/// Returns the addresses of the lake, each with its source.
async fn grains(lab: &Lab) -> Vec<Vec<String>> {
    cells(&lab.rows().await, &["content_address", "source_id"])
}

async fn rejects(lab: &Lab) -> Vec<Vec<String>> {
    let columns = ["source", "source_id", "ordinal", "error_code", "bytes"];
    let rows = lab.lake().await.rejects.read_columns(&columns).await;
    cells(&rows.unwrap(), &columns)
}

async fn states(lab: &Lab) -> Vec<Vec<String>> {
    let columns = ["content_address", "event", "value", "source_id"];
    let rows = lab.lake().await.state.read_columns(&columns).await;
    cells(&rows.unwrap(), &columns)
}

/// Returns the rows of `sources` without those that name the run.
async fn sources(lab: &Lab) -> Vec<Vec<String>> {
    let columns = [
        "source",
        "source_id",
        "kind",
        "size",
        "outcome",
        "first_ordinal",
        "grains",
        "duplicates",
        "rejected",
        "reason",
    ];
    let sources = lab.lake().await.sources.unwrap();
    cells(&sources.read_columns(&columns).await.unwrap(), &columns)
}

/// A lake, another one into which the same files were ingested by one process, and the files.
struct Pair {
    lab: Lab,
    other: Lab,
    files: tempfile::TempDir,
    report: IngestReport,
}

impl Pair {
    async fn new() -> Pair {
        let (lab, other) = (Lab::new(0, 0, false).await, Lab::new(0, 0, false).await);
        let files = tempfile::tempdir().unwrap();
        make_sources(&lab, files.path());
        let report = local(&other, files.path()).await;
        assert_eq!((report.grains_written, report.duplicates), (320, 220));
        Pair {
            lab,
            other,
            files,
            report,
        }
    }

    /// Compares what was ingested, grain by grain.
    async fn assert_same_grains(&self) {
        let (own, other) = (grains(&self.lab).await, grains(&self.other).await);
        let addresses: BTreeSet<&String> = own.iter().map(|row| &row[0]).collect();
        assert_eq!(addresses.len(), own.len(), "each grain once");
        assert_eq!(own, other);
        assert_eq!(rejects(&self.lab).await, rejects(&self.other).await);
        assert_eq!(states(&self.lab).await, states(&self.other).await);
        let report = self.lab.verify_with(true).await;
        assert_eq!(report.bad, 0, "{:#?}", report.problems);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_read_what_one_process_reads_and_gc_removes_what_was_done_twice() {
    let pair = Pair::new().await;
    let (lab, folder) = (&pair.lab, pair.files.path());
    let workers = TwiceWorkers::of(lab);
    let report = by(&workers, lab, folder, &options()).await.unwrap();
    assert_eq!(figures(&report), figures(&pair.report));
    pair.assert_same_grains().await;
    assert_eq!(sources(lab).await, sources(&pair.other).await);

    let collect = GcOptions {
        older_than: Duration::ZERO,
        retention: Duration::ZERO,
        dry_run: false,
    };
    let removed = collect_garbage(&mut lab.lake().await, &collect).await;
    assert!(removed.unwrap().data_files > 0);
    pair.assert_same_grains().await;

    let again = by(&workers, lab, folder, &options()).await.unwrap();
    let local = local(&pair.other, folder).await;
    assert_eq!((again.grains_written, again.known), (0, 6));
    assert_eq!(figures(&again), figures(&local));
    assert_eq!(sources(lab).await, sources(&pair.other).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_loses_its_workers_is_continued_without_a_lost_or_doubled_row() {
    let pair = Pair::new().await;
    let (lab, folder) = (&pair.lab, pair.files.path());
    let workers = LostWorkers(TwiceWorkers::of(lab));
    let lost = by(&workers, lab, folder, &options()).await.unwrap_err();
    assert!(matches!(lost, EngineError::Task { .. }), "{lost}");
    assert_eq!(grains(lab).await.len(), 60, "the first job is committed");
    let report = local(lab, folder).await;
    assert_eq!((report.grains_written, report.known), (260, 1));
    pair.assert_same_grains().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grains_that_another_writer_brings_meanwhile_are_not_written_twice() {
    let pair = Pair::new().await;
    let (lab, folder) = (&pair.lab, pair.files.path());
    let source = found(&folder.join("d.frames")).await.remove(0);
    let workers = WorkersBesideWriter(TwiceWorkers::of(lab), source);
    let report = by(&workers, lab, folder, &options()).await.unwrap();
    assert_eq!(report.grains_written, 260);
    pair.assert_same_grains().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_repeated_lists_its_sources_once() {
    let pair = Pair::new().await;
    let (lab, folder) = (&pair.lab, pair.files.path());
    let source = found(&folder.join("d.frames")).await.remove(0);
    let workers = WorkersBesideWriter(TwiceWorkers::of(lab), source);
    by(&workers, lab, folder, &options()).await.unwrap();
    let sources = lab.lake().await.sources.unwrap();
    let columns = ["run_id", "source"];
    let rows = cells(&sources.read_columns(&columns).await.unwrap(), &columns);
    let distinct: BTreeSet<&Vec<String>> = rows.iter().collect();
    assert_eq!(distinct.len(), rows.len(), "{rows:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn grains_of_a_source_that_goes_meanwhile_come_from_another_one_that_has_them() {
    let pair = Pair::new().await;
    let (lab, folder) = (&pair.lab, pair.files.path());
    let gone = folder.join("b.frames");
    let workers = WorkersWithout(TwiceWorkers::of(lab), gone, AtomicUsize::new(0));
    let report = by(&workers, lab, folder, &options()).await.unwrap();
    assert_eq!((report.grains_written, report.unreadable_files), (320, 1));
    let addresses = |rows: Vec<Vec<String>>| -> BTreeSet<String> {
        rows.into_iter().map(|mut row| row.remove(0)).collect()
    };
    let (own, other) = (grains(lab).await, grains(&pair.other).await);
    assert_eq!(own.len(), other.len());
    assert_eq!(addresses(own), addresses(other));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_during_which_the_lake_is_encrypted_leaves_no_plain_text() {
    let pair = Pair::new().await;
    let (lab, folder) = (&pair.lab, pair.files.path());
    let keys = Mutex::new(Some(lab.keys()));
    let workers = WorkersBesideEncryption(TwiceWorkers::of(lab), keys);
    let refused = by(&workers, lab, folder, &options()).await.unwrap_err();
    assert!(matches!(refused, EngineError::Key(_)), "{refused}");
    for table in ["grains", "sources", "rejects", "state"] {
        let files = std::fs::read_dir(lab.path(table)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let data: Vec<String> = names.filter(|name| name.starts_with("part-")).collect();
        assert!(data.is_empty(), "{table}: {data:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_that_are_not_here_are_not_committed() {
    let pair = Pair::new().await;
    let (lab, folder) = (&pair.lab, pair.files.path());
    let workers = WorkersElsewhere(TwiceWorkers::of(lab));
    let refused = by(&workers, lab, folder, &options()).await.unwrap_err();
    let message = refused.to_string();
    assert!(message.contains("is it the same lake?"), "{message}");
    assert!(grains(lab).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_lakes_and_options_of_one_process_are_refused() {
    let files = tempfile::tempdir().unwrap();
    let sealed = Lab::new(0, 0, true).await;
    make_sources(&sealed, files.path());
    let workers = TwiceWorkers::of(&sealed);
    let refused = by(&workers, &sealed, files.path(), &options()).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, EngineError::Key(_)), "{refused}");
    for options in [
        IngestOptions {
            dry_run: true,
            ..options()
        },
        IngestOptions {
            on_error: OnError::Fail,
            ..options()
        },
    ] {
        let refused = by(&workers, &sealed, files.path(), &options).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, EngineError::Request(_)), "{refused}");
    }
}

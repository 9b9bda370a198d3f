//! Verifying files without ingesting them.
//!
//! The structure of a container is checked first. Its footer is one long hash, which is computed in
//! parallel with the proof of its grains.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures::{StreamExt, stream};
use gristmill_connectors::ConnectorError;
use gristmill_connectors::source::{Source, SourceBytes, SourceKind, fetch};
use gristmill_schemas::container::{Container, ContainerLimits};
use gristmill_schemas::error::GrainError;

use super::VerifyOptions;
use super::job_set::JobSet;
use super::report::{FindingTally, Findings, Problem, VerifyReport};
use crate::error::{Context, EngineError, Result};
use crate::ingest::admit::footer_differs;
use crate::ingest::digests::{container_footers, sources_per_thread};
use crate::ingest::morsel::{
    AdmittedSource, Morsel, MorselReader, NextMorsel, SourceContent, TranscriptExtras,
};
use crate::ingest::prove::prove;
use crate::ingest::sources::SourceInfo;
use crate::progress::WorkProgress;

/// Sources that are fetched and opened ahead of the one that is read.
const AHEAD: usize = 2;

/// Checks every grain of `sources`, and the structure around them.
///
/// # Errors
/// [`EngineError::Interrupted`]. Damage isn't an error but a finding, and a source that can't be
/// read is counted.
pub async fn verify_sources(
    sources: Vec<Source>,
    options: &VerifyOptions,
    progress: Arc<WorkProgress>,
) -> Result<VerifyReport> {
    let started = Instant::now();
    progress.total_bytes.store(
        sources.iter().filter_map(|source| source.length).sum(),
        Ordering::Relaxed,
    );
    let options = Arc::new(options.clone());
    let together = sources_per_thread(sources.len(), options.threads);
    let opened = stream::iter(sources)
        .map(|source| open(source, Arc::clone(&options)))
        .buffered(AHEAD);
    let mut opened = opened.chunks(together);
    let mut tally = FindingTally::new(options.problems);
    let mut jobs: JobSet<(u64, Findings)> = JobSet::new(options.threads);
    let mut number = 0;
    while let Some(sources) = opened.next().await {
        if progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
        for job in jobs_of(sources.into_iter().collect::<Result<_>>()?, &mut tally) {
            if progress.is_stopped() {
                return Err(EngineError::Interrupted);
            }
            number += 1;
            let (options, progress) = (Arc::clone(&options), Arc::clone(&progress));
            let ended = jobs
                .spawn(move || (number, job.run(&options, &progress)))
                .await?;
            ended
                .into_iter()
                .for_each(|(number, findings)| tally.add(number, findings));
        }
    }
    while let Some((number, findings)) = jobs.join_next().await? {
        tally.add(number, findings);
    }
    progress.end_input();
    Ok(tally.finish(started.elapsed()))
}

/// A source that was fetched.
enum FetchedSource {
    /// Its structure is sound.
    Sound(Arc<AdmittedSource>),
    /// Its structure is damaged.
    Damaged {
        uri: String,
        length: u64,
        error: GrainError,
    },
    /// Its kind isn't supported.
    Unsupported { uri: String },
    /// It can't be read.
    Unreadable(ConnectorError),
}

async fn open(source: Source, options: Arc<VerifyOptions>) -> Result<FetchedSource> {
    let bytes = match fetch(&source).await {
        Ok(bytes) => bytes,
        Err(cause) => return Ok(FetchedSource::Unreadable(cause)),
    };
    tokio::task::spawn_blocking(move || open_fetched(source.uri, bytes, &options))
        .await
        .file("can't read", "a source")
}

fn open_fetched(uri: String, bytes: SourceBytes, options: &VerifyOptions) -> FetchedSource {
    let as_grain = || options.named.contains(&uri).then_some(SourceKind::Blob);
    let kind = options
        .kind
        .or_else(|| SourceKind::detect(&bytes, &uri))
        .or_else(as_grain);
    let length = bytes.len() as u64;
    let limits = ContainerLimits {
        region: options.memory / 2,
        ..ContainerLimits::default()
    };
    let content = match kind {
        Some(SourceKind::Container) => match Container::open(bytes, limits) {
            Ok(container) => SourceContent::Container(container),
            Err(error) => return FetchedSource::Damaged { uri, length, error },
        },
        Some(SourceKind::Frames) => SourceContent::Frames(bytes),
        Some(SourceKind::Blob) => SourceContent::Blob(bytes),
        // Transcripts contain no grains yet, so there is nothing to prove.
        Some(SourceKind::Transcript(_)) | None => return FetchedSource::Unsupported { uri },
    };
    let info = SourceInfo::of_file(uri);
    let source = AdmittedSource::new(info, content, TranscriptExtras::default());
    FetchedSource::Sound(Arc::new(source))
}

/// Returns the jobs for `sources`, whose footers are hashed together.
fn jobs_of(
    sources: Vec<FetchedSource>,
    tally: &mut FindingTally,
) -> impl Iterator<Item = CheckJob> + use<> {
    let report = tally.report();
    let (mut problems, mut containers, mut sound) = (Vec::new(), Vec::new(), Vec::new());
    for source in sources {
        match source {
            FetchedSource::Unsupported { uri } => {
                tracing::warn!(
                    source = uri,
                    "skipped: it is neither a container, frames nor a grain"
                );
                report.skipped_files += 1;
            }
            FetchedSource::Unreadable(cause) => {
                tracing::warn!("{cause}");
                report.unreadable_files += 1;
            }
            FetchedSource::Damaged { uri, length, error } => {
                report.files += 1;
                report.bytes += length;
                problems.push(CheckJob::Report(Problem::new(&uri, -1, &error)));
            }
            FetchedSource::Sound(source) => {
                report.files += 1;
                report.bytes += source.length();
                containers.extend(source.container().is_some().then(|| Arc::clone(&source)));
                sound.push(source);
            }
        }
    }
    let footers = (!containers.is_empty()).then_some(CheckJob::Footers(containers));
    let morsels = sound
        .into_iter()
        .flat_map(|source| MorselIter(MorselReader::new(source, 0)));
    problems.into_iter().chain(footers).chain(morsels)
}

/// The grains of a source, part by part.
struct MorselIter(MorselReader);

impl Iterator for MorselIter {
    type Item = CheckJob;

    fn next(&mut self) -> Option<CheckJob> {
        match self.0.next(usize::MAX) {
            NextMorsel::Morsel(morsel) => Some(CheckJob::Grains(morsel)),
            NextMorsel::Damage {
                ordinal,
                offset,
                error,
            } => {
                let error = error.at(offset);
                Some(CheckJob::Report(Problem::new(
                    &self.0.source().uri,
                    ordinal as i64,
                    &error,
                )))
            }
            NextMorsel::End => None,
        }
    }
}

/// A unit of work for one core.
enum CheckJob {
    /// Check containers as a whole.
    Footers(Vec<Arc<AdmittedSource>>),
    /// Prove grains.
    Grains(Morsel),
    /// Report a known problem.
    Report(Problem),
}

impl CheckJob {
    fn run(self, options: &VerifyOptions, progress: &WorkProgress) -> Findings {
        let mut findings = Findings::default();
        match self {
            CheckJob::Report(problem) => findings.bad(problem, options.problems),
            CheckJob::Footers(sources) => {
                check_containers(&sources, options.problems, &mut findings)
            }
            CheckJob::Grains(morsel) => {
                WorkProgress::add(&progress.bytes, morsel.bytes as u64);
                WorkProgress::add(&progress.grains, morsel.len() as u64);
                check_grains(morsel, options, &mut findings);
            }
        }
        WorkProgress::add(&progress.rejected, findings.bad_count());
        findings
    }
}

/// Checks the footers of containers, and the claims of their headers.
fn check_containers(sources: &[Arc<AdmittedSource>], problems: usize, findings: &mut Findings) {
    let found: Vec<_> = sources
        .iter()
        .filter_map(|source| Some((source, source.container()?)))
        .collect();
    let files: Vec<_> = found
        .iter()
        .map(|(_, container)| container.file())
        .collect();
    for ((source, container), footer) in found.iter().zip(container_footers(&files)) {
        let anomalies = container
            .anomalies()
            .iter()
            .copied()
            .chain(container.violated_flags());
        anomalies.for_each(|oddity| findings.mark(oddity.name(), 1));
        if footer != *container.footer() {
            findings.bad(
                Problem::new(&source.uri, -1, &footer_differs(container.file().len())),
                problems,
            );
        }
    }
}

fn check_grains(morsel: Morsel, options: &VerifyOptions, findings: &mut Findings) {
    let proven = prove(morsel, options.proof_options());
    findings.ok += proven.rows.len() as u64;
    proven
        .marks
        .iter()
        .for_each(|(mark, count)| findings.mark(mark.name(), *count));
    proven
        .beyond_profile
        .named()
        .for_each(|(name, count)| findings.mark(name, count));
    for refusal in proven.rejects {
        let offset = refusal.row.offset.map(|offset| offset.max(0) as u64);
        let problem = Problem::new(&refusal.row.source, refusal.row.ordinal, &refusal.error);
        findings.bad(Problem { offset, ..problem }, options.problems);
    }
}

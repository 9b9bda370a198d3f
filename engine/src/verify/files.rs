//! Verifying files without taking them in.
//!
//! A container's structure is checked first; its footer is one long hash, which runs beside the proof of its grains.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures::{StreamExt, stream};
use gristmill_connectors::source::{Source, SourceKind, fetch};
use gristmill_schemas::container::{Container, ContainerLimits};
use gristmill_schemas::error::GrainError;

use super::VerifyOptions;
use super::report::{Findings, Problem, Tally, VerifyReport};
use crate::crew::Crew;
use crate::error::{Context, EngineError, Result};
use crate::ingest::admit::footer_differs;
use crate::ingest::digests::footer_of;
use crate::ingest::morsel::{Admitted, Beside, Content, Morsel, Morsels, Next};
use crate::ingest::prove::prove;
use crate::progress::WorkProgress;

/// Sources that are fetched and opened ahead of the one that is read.
const AHEAD: usize = 2;

/// Checks every grain of `sources`, and the structure around them.
///
/// # Errors
/// [`EngineError::Interrupted`], and whatever the system says of a source. Damage isn't an error but a finding.
pub async fn verify_sources(
    sources: Vec<Source>,
    options: &VerifyOptions,
    progress: Arc<WorkProgress>,
) -> Result<VerifyReport> {
    let started = Instant::now();
    progress.total_bytes.store(sources.iter().filter_map(|source| source.length).sum(), Ordering::Relaxed);
    let options = Arc::new(options.clone());
    let mut opened = stream::iter(sources).map(|source| open(source, Arc::clone(&options))).buffered(AHEAD);
    let mut tally = Tally::new(options.problems);
    let mut crew: Crew<(u64, Findings)> = Crew::new(options.threads);
    let mut number = 0;
    while let Some(source) = opened.next().await {
        let Some(jobs) = jobs_of(source?, &mut tally) else { continue };
        for job in jobs {
            if progress.is_stopped() {
                return Err(EngineError::Interrupted);
            }
            number += 1;
            let (options, progress) = (Arc::clone(&options), Arc::clone(&progress));
            let ended = crew.start(move || (number, job.run(&options, &progress))).await?;
            ended.into_iter().for_each(|(number, findings)| tally.add(number, findings));
        }
    }
    while let Some((number, findings)) = crew.next().await? {
        tally.add(number, findings);
    }
    Ok(tally.finish(started.elapsed()))
}

/// A source that was fetched.
enum Opened {
    /// Its structure is whole.
    Whole(Arc<Admitted>),
    /// It isn't.
    Damaged { uri: String, length: u64, error: GrainError },
    /// It is of no kind that we read.
    OfNoKind { uri: String },
}

async fn open(source: Source, options: Arc<VerifyOptions>) -> Result<Opened> {
    let bytes = fetch(&source).await?;
    let open = move || {
        let uri = source.uri;
        let as_grain = || options.named.contains(&uri).then_some(SourceKind::Blob);
        let Some(kind) = options.kind.or_else(|| SourceKind::detect(&bytes, &uri)).or_else(as_grain) else {
            return Opened::OfNoKind { uri };
        };
        let length = bytes.len() as u64;
        let limits = ContainerLimits { region: options.memory / 2, ..ContainerLimits::default() };
        let content = match kind {
            SourceKind::Container => match Container::open(bytes, limits) {
                Ok(container) => Content::Container(container),
                Err(error) => return Opened::Damaged { uri, length, error },
            },
            SourceKind::Frames => Content::Frames(bytes),
            SourceKind::Blob => Content::Blob(bytes),
            // Transcripts hold no grains yet, so there is nothing to prove.
            SourceKind::Transcript(_) => return Opened::OfNoKind { uri },
        };
        let admitted = Admitted { id: String::new(), uri, content, beside: Beside::default() };
        Opened::Whole(Arc::new(admitted))
    };
    tokio::task::spawn_blocking(open).await.file("can't read", "a source")
}

/// What is to be done about a source.
fn jobs_of(source: Opened, tally: &mut Tally) -> Option<Box<dyn Iterator<Item = Job> + Send>> {
    let report = tally.report();
    match source {
        Opened::OfNoKind { uri } => {
            tracing::warn!(source = uri, "passed over: it is neither a container, frames nor a grain");
            report.skipped_files += 1;
            None
        }
        Opened::Damaged { uri, length, error } => {
            report.files += 1;
            report.bytes += length;
            Some(Box::new(std::iter::once(Job::Tell(Problem::new(&uri, -1, &error)))))
        }
        Opened::Whole(source) => {
            report.files += 1;
            report.bytes += source.length();
            let footer = matches!(source.content, Content::Container(_)).then(|| Job::Footer(Arc::clone(&source)));
            Some(Box::new(footer.into_iter().chain(Parts(Morsels::new(source, 0)))))
        }
    }
}

/// The grains of a source, part by part.
struct Parts(Morsels);

impl Iterator for Parts {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        match self.0.next(usize::MAX) {
            Next::Morsel(morsel) => Some(Job::Grains(morsel)),
            Next::Damage { ordinal, offset, error } => {
                let error = error.at(offset);
                Some(Job::Tell(Problem::new(&self.0.source().uri, ordinal as i64, &error)))
            }
            Next::End => None,
        }
    }
}

/// A piece of work for one core.
enum Job {
    /// Hash a container up to its footer.
    Footer(Arc<Admitted>),
    /// Prove some grains.
    Grains(Morsel),
    /// Pass a problem on that is known already.
    Tell(Problem),
}

impl Job {
    fn run(self, options: &VerifyOptions, progress: &WorkProgress) -> Findings {
        let mut findings = Findings::default();
        match self {
            Job::Tell(problem) => findings.bad(problem, options.problems),
            Job::Footer(source) => check_footer(&source, &mut findings),
            Job::Grains(morsel) => {
                WorkProgress::add(&progress.bytes, morsel.bytes as u64);
                WorkProgress::add(&progress.grains, morsel.len() as u64);
                check_grains(morsel, options, &mut findings);
            }
        }
        WorkProgress::add(&progress.rejected, findings.bad_count());
        findings
    }
}

fn check_footer(source: &Admitted, findings: &mut Findings) {
    let Content::Container(container) = &source.content else { return };
    let oddities = container.oddities().iter().copied().chain(container.broken_promises());
    oddities.for_each(|oddity| findings.mark(oddity.name(), 1));
    let file = container.file();
    if footer_of(file) != *container.footer() {
        findings.bad(Problem::new(&source.uri, -1, &footer_differs(file.len())), 1);
    }
}

fn check_grains(morsel: Morsel, options: &VerifyOptions, findings: &mut Findings) {
    let proven = prove(morsel, options.judgement());
    findings.ok += proven.rows.len() as u64;
    proven.marks.iter().for_each(|(mark, count)| findings.mark(mark.name(), *count));
    for refusal in proven.rejects {
        let offset = refusal.row.offset.map(|offset| offset.max(0) as u64);
        let problem = Problem::new(&refusal.row.source, refusal.row.ordinal, &refusal.error);
        findings.bad(Problem { offset, ..problem }, options.problems);
    }
}

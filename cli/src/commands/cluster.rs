//! `cluster`: the processes of a cluster; and `--cluster` of the commands that run on one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_cluster::process::{ExecutorOptions, run_executor, run_scheduler};
use gristmill_cluster::query::{DEFAULT_PARTITIONS, run_on_cluster};
use gristmill_cluster::segments::ClusterSegments;
use gristmill_cluster::{ClusterError, ClusterKey, Scheduler, lake_url};
use gristmill_connectors::source::Source;
use gristmill_engine::compact::{CompactOptions, CompactReport, compact_by};
use gristmill_engine::erase::{
    ErasureOptions, ErasurePlan, ErasureReport, ErasureWorkers, SubjectRequest,
    erase as erase_here, erase_by, plan_by,
};
use gristmill_engine::error::EngineError;
use gristmill_engine::index::{IndexKinds, ReindexReport, reindex_by};
use gristmill_engine::ingest::{IngestOptions, IngestReport, ingest as ingest_here, ingest_by};
use gristmill_engine::lake::Lake;
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{VerifyOptions, VerifyReport, VerifyScope, verify_lake_by};
use gristmill_queries::sql::SessionContext;

use super::CommandContext;
use super::sql::failure;
use crate::args::cluster::ClusterCommand;
use crate::args::ingest::IngestArgs;
use crate::args::query::{ClusterArgs, ClusterKeyArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::log::note;
use crate::termination;

/// Runs a process of a cluster until it is stopped.
pub async fn run(
    context: &CommandContext,
    command: ClusterCommand,
) -> Result<CommandOutcome, Failure> {
    let ended = match command {
        ClusterCommand::Scheduler(arguments) => {
            if !context.common.quiet {
                note(format_args!("scheduler at {}", arguments.listen));
            }
            run_scheduler(arguments.listen, cluster_key(&arguments.key)?).await
        }
        ClusterCommand::Executor(arguments) => {
            if !context.common.quiet {
                note(format_args!("executor of {}", arguments.scheduler));
            }
            run_executor(ExecutorOptions {
                scheduler: arguments.scheduler,
                work_dir: arguments.work_dir,
                listen: arguments.listen,
                slots: arguments.slots.unwrap_or(0),
                memory: context.memory(),
                key: cluster_key(&arguments.key)?,
            })
            .await
        }
        ClusterCommand::Key(arguments) => {
            write_secret(&arguments.file, &ClusterKey::generate()?)?;
            if !context.common.quiet {
                note(format_args!(
                    "the key of a cluster is in {}: give the file to its scheduler, executors and \
                     clients, with --cluster-key, and to nobody else",
                    arguments.file.display()
                ));
            }
            Ok(())
        }
    };
    ended.map(|()| CommandOutcome::Done).map_err(Failure::from)
}

/// Reads the key of a cluster, if one is named.
fn cluster_key(arguments: &ClusterKeyArgs) -> Result<Option<ClusterKey>, Failure> {
    let read = |path: &PathBuf| {
        let pem = std::fs::read(path).map_err(|error| Failure::reading(path, &error))?;
        ClusterKey::from_pem(&pem)
            .map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))
    };
    arguments.cluster_key.as_ref().map(read).transpose()
}

/// Writes `text` to a new file that only this user can read.
fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| Failure::usage(format!("can't create `{}`: {error}", path.display())))
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Failure {
        Failure::usage(error.to_string())
    }
}

/// Makes the queries of `session` run on the cluster of `--cluster`, if it is given.
pub fn join(
    context: &CommandContext,
    session: &SessionContext,
    arguments: &ClusterArgs,
) -> Result<Option<Scheduler>, Failure> {
    let Some(address) = &arguments.cluster else {
        return Ok(None);
    };
    let scheduler = Scheduler::at(address, cluster_key(&arguments.key)?)?;
    let location = location(context)?;
    run_on_cluster(session, &scheduler, &location, partitions(context)).map_err(failure)?;
    Ok(Some(scheduler))
}

/// Verifies the part `scope` of the lake on the cluster of `--cluster`.
pub async fn verify(
    context: &CommandContext,
    arguments: &ClusterArgs,
    scope: VerifyScope,
    options: &VerifyOptions,
    progress: Arc<WorkProgress>,
) -> Result<VerifyReport, Failure> {
    let (scheduler, workers) = workers(context, arguments)?;
    refuse_did_web(context)?;
    let trusted = context.trusted_keys()?.keys().to_vec();
    let lake = context.open_lake().await?;
    let check = verify_lake_by(&workers, trusted, &lake, scope, options, progress);
    let check = async { check.await.map_err(Failure::from) };
    cancelled_by_interrupt(Some(&scheduler), check).await
}

/// Refuses keys on the web, which executors don't resolve.
fn refuse_did_web(context: &CommandContext) -> Result<(), Failure> {
    match context.common.keys.resolve_did_web {
        true => Err(Failure::usage(
            "--resolve-did-web isn't available with --cluster; trust the keys with `keys trust`",
        )),
        false => Ok(()),
    }
}

/// Refuses what `ingest` doesn't do on a cluster, if `--cluster` is given.
pub fn check_ingest(context: &CommandContext, arguments: &IngestArgs) -> Result<(), Failure> {
    let refused = |option: &str| {
        Err(Failure::usage(format!(
            "{option} isn't available with --cluster; leave one of them out"
        )))
    };
    match () {
        () if arguments.cluster.cluster.is_none() => Ok(()),
        () if arguments.encrypt => refused("--encrypt"),
        () if arguments.changes.changes => refused("--changes"),
        () => refuse_did_web(context),
    }
}

/// Ingests `sources` into the lake, on the cluster of `--cluster` if it is given. An interrupt
/// cancels the jobs; a commit that has begun isn't broken off.
pub async fn ingest(
    context: &CommandContext,
    arguments: &ClusterArgs,
    lake: &mut Lake,
    sources: Vec<Source>,
    options: &IngestOptions,
    progress: Arc<WorkProgress>,
) -> Result<IngestReport, Failure> {
    if arguments.cluster.is_none() {
        let report = ingest_here(lake, sources, options, progress).await;
        return report.map_err(super::ingest::failure);
    }
    let (scheduler, workers) = workers(context, arguments)?;
    let trusted = context.trusted_keys()?.keys().to_vec();
    let work = ingest_by(
        &workers,
        trusted,
        lake,
        sources,
        options,
        Arc::clone(&progress),
    );
    let report = stopped_by_interrupt(&scheduler, &progress, work).await;
    report.map_err(super::ingest::failure)
}

/// Rebuilds the sidecars of the lake on the cluster of `--cluster`, if it is given.
pub async fn reindex(
    context: &CommandContext,
    arguments: &ClusterArgs,
    lake: &Lake,
    kinds: IndexKinds,
    all: bool,
) -> Result<Option<ReindexReport>, Failure> {
    if arguments.cluster.is_none() {
        return Ok(None);
    }
    let (scheduler, workers) = workers(context, arguments)?;
    let (progress, shown) = context.track("reindex");
    let work = reindex_by(&workers, lake, kinds, all, progress);
    let work = async { work.await.map_err(Failure::from) };
    let report = cancelled_by_interrupt(Some(&scheduler), work).await;
    drop(shown);
    report.map(Some)
}

/// Merges the small segments of the lake on the cluster of `--cluster`, if it is given. An
/// interrupt cancels the merges; a commit that has begun isn't broken off.
pub async fn compact(
    context: &CommandContext,
    arguments: &ClusterArgs,
    lake: &mut Lake,
    options: &CompactOptions,
    progress: &Arc<WorkProgress>,
) -> Option<Result<CompactReport, Failure>> {
    arguments.cluster.as_ref()?;
    let (scheduler, workers) = match workers(context, arguments) {
        Ok(found) => found,
        Err(failure) => return Some(Err(failure)),
    };
    let work = compact_by(&workers, lake, options, Arc::clone(progress));
    let ended = stopped_by_interrupt(&scheduler, progress, work).await;
    Some(ended.map_err(Failure::from))
}

/// Plans the erasure of `request` on the cluster of `--cluster`.
pub async fn plan_erasure(
    context: &CommandContext,
    arguments: &ClusterArgs,
    lake: &mut Lake,
    request: &SubjectRequest,
    threads: usize,
) -> Result<ErasurePlan, Failure> {
    let (scheduler, workers) = workers(context, arguments)?;
    let work = async {
        let planned = plan_by(erasure_workers(&workers), lake, request, threads).await;
        planned.map(|(plan, _)| plan).map_err(Failure::from)
    };
    cancelled_by_interrupt(Some(&scheduler), work).await
}

/// Erases what `request` selects, on the cluster of `--cluster` if it is given. After an interrupt,
/// as after a kill, the same command resumes the erasure from its journal.
pub async fn erase(
    context: &CommandContext,
    arguments: &ClusterArgs,
    lake: &mut Lake,
    request: &SubjectRequest,
    options: &ErasureOptions,
) -> Result<ErasureReport, Failure> {
    if arguments.cluster.is_none() {
        return Ok(erase_here(lake, request, options).await?);
    }
    let (scheduler, workers) = workers(context, arguments)?;
    let work = async {
        let erased = erase_by(erasure_workers(&workers), lake, request, options).await;
        erased.map_err(Failure::from)
    };
    cancelled_by_interrupt(Some(&scheduler), work).await
}

fn erasure_workers(workers: &ClusterSegments) -> ErasureWorkers<'_> {
    ErasureWorkers {
        survey: workers,
        search: workers,
    }
}

/// Runs `work`, which commits; an interrupt cancels its jobs on the cluster and waits for its end,
/// and an error cancels them too.
async fn stopped_by_interrupt<T>(
    scheduler: &Scheduler,
    progress: &WorkProgress,
    work: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    termination::handles_interrupts();
    let mut work = std::pin::pin!(work);
    let ended = tokio::select! {
        ended = &mut work => ended,
        Ok(()) = tokio::signal::ctrl_c() => {
            progress.stop();
            scheduler.cancel_all().await;
            work.await
        }
    };
    if ended.is_err() {
        scheduler.cancel_all().await;
    }
    ended
}

/// Returns the executors of the cluster of `--cluster` as workers, with their scheduler.
fn workers(
    context: &CommandContext,
    arguments: &ClusterArgs,
) -> Result<(Scheduler, ClusterSegments), Failure> {
    let address = arguments.cluster.as_deref().unwrap_or_default();
    let scheduler = Scheduler::at(address, cluster_key(&arguments.key)?)?;
    let workers = ClusterSegments::new(&scheduler, &location(context)?, partitions(context));
    Ok((scheduler, workers))
}

/// Returns the location of the lake for all processes.
fn location(context: &CommandContext) -> Result<String, Failure> {
    lake_url::absolute(context.lake())
        .map_err(|error| Failure::environment("can't find the lake", &error))
}

fn partitions(context: &CommandContext) -> usize {
    context.common.threads.unwrap_or(DEFAULT_PARTITIONS)
}

/// As [`join`], for a command that may also write (`writes`), which a cluster doesn't.
pub fn join_to_read(
    context: &CommandContext,
    session: &SessionContext,
    arguments: &ClusterArgs,
    writes: bool,
) -> Result<Option<Scheduler>, Failure> {
    match (&arguments.cluster, writes) {
        (Some(_), true) => Err(Failure::usage(
            "--cluster runs statements that read; leave out --allow-writes",
        )),
        _ => join(context, session, arguments),
    }
}

/// Runs `work`; an interrupt cancels its jobs on the cluster, and so does an error.
pub async fn cancelled_by_interrupt<T>(
    scheduler: Option<&Scheduler>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let Some(scheduler) = scheduler else {
        return work.await;
    };
    termination::handles_interrupts();
    let ended = tokio::select! {
        ended = work => ended,
        Ok(()) = tokio::signal::ctrl_c() => Err(EngineError::Interrupted.into()),
    };
    if ended.is_err() {
        // The queries have been dropped, which cancels them; this waits until they are.
        scheduler.cancel_all().await;
    }
    ended
}

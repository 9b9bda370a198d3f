//! `cluster`: the processes of a cluster; and `--cluster` of the commands that run on one.

use std::sync::Arc;

use gristmill_cluster::process::{ExecutorOptions, run_executor, run_scheduler};
use gristmill_cluster::query::{DEFAULT_PARTITIONS, run_on_cluster};
use gristmill_cluster::segments::ClusterSegments;
use gristmill_cluster::{ClusterError, Scheduler, lake_url};
use gristmill_engine::error::EngineError;
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{VerifyOptions, VerifyReport, VerifyScope, verify_lake_by};
use gristmill_queries::sql::SessionContext;

use super::CommandContext;
use super::sql::failure;
use crate::args::cluster::ClusterCommand;
use crate::args::query::ClusterArgs;
use crate::exit::{CommandOutcome, Failure};
use crate::log::note;

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
            run_scheduler(arguments.listen).await
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
            })
            .await
        }
    };
    ended.map(|()| CommandOutcome::Done).map_err(Failure::from)
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
    let scheduler = Scheduler::at(address)?;
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
    let scheduler = Scheduler::at(arguments.cluster.as_deref().unwrap_or_default())?;
    let workers = ClusterSegments::new(&scheduler, &location(context)?, partitions(context));
    if context.common.keys.resolve_did_web {
        return Err(Failure::usage(
            "--resolve-did-web isn't available with --cluster; trust the keys with `keys trust`",
        ));
    }
    let trusted = context.trusted_keys()?.keys().to_vec();
    let lake = context.open_lake().await?;
    let check = verify_lake_by(&workers, trusted, &lake, scope, options, progress);
    let check = async { check.await.map_err(Failure::from) };
    cancelled_by_interrupt(Some(&scheduler), check).await
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

/// Runs `work`; an interrupt cancels its jobs on the cluster.
pub async fn cancelled_by_interrupt<T>(
    scheduler: Option<&Scheduler>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let Some(scheduler) = scheduler else {
        return work.await;
    };
    tokio::select! {
        ended = work => ended,
        Ok(()) = tokio::signal::ctrl_c() => {
            scheduler.cancel_all().await;
            Err(EngineError::Interrupted.into())
        }
    }
}

//! `ingest`: ingests sources into the lake.

use std::sync::Arc;

use gristmill_connectors::source::{DEFAULT_SPOOL_LIMIT, discover_all};
use gristmill_connectors::transcript::content_folder::ContentFolder;
use gristmill_engine::error::EngineError;
use gristmill_engine::index::IndexKinds;
#[cfg(not(feature = "cluster"))]
use gristmill_engine::ingest::ingest;
use gristmill_engine::ingest::{IngestOptions, IngestReport, OnError, is_beyond_profile};
use gristmill_schemas::grain::DecodeMode;

use super::{CommandContext, changes};
use crate::args::ingest::{IndexArg, IngestArgs, OnErrorArg};
use crate::exit::{CommandOutcome, Failure};
use crate::log::{note, on_one_line};

/// Ingests the sources; the outcome is `Problems` if anything was refused, or is beyond the
/// requested device profile.
pub async fn run(
    context: &CommandContext,
    arguments: IngestArgs,
) -> Result<CommandOutcome, Failure> {
    #[cfg(feature = "cluster")]
    super::cluster::check_ingest(context, &arguments)?;
    if arguments.changes.changes {
        let options = options_of(context, &arguments)?;
        return changes::apply(context, arguments, options).await;
    }
    let sources = discover_all(&arguments.sources).await?;
    if sources.is_empty() && !context.common.quiet {
        // Agents write their logs to folders such as `.claude`.
        note(
            "no file was found; in folders, names that begin with a dot are left out: name these \
             folders themselves",
        );
    }
    // The temporary folder is removed at the end.
    let (mut lake, _temporary) = match (arguments.dry_run, arguments.encrypt) {
        (true, _) => context.lake_for_dry_run().await?,
        (false, true) => (context.encrypted_lake().await?, None),
        (false, false) => (context.open_or_create_lake().await?, None),
    };
    let options = options_of(context, &arguments)?;
    let (progress, shown) = context.track("ingest");
    #[cfg(feature = "cluster")]
    let report = {
        let cluster = &arguments.cluster;
        super::cluster::ingest(context, cluster, &mut lake, sources, &options, progress).await
    };
    #[cfg(not(feature = "cluster"))]
    let report = ingest(&mut lake, sources, &options, progress)
        .await
        .map_err(failure);
    drop(shown);
    let report = report?;
    context.printer(arguments.results).record(&report)?;
    let prefix = context.command_prefix();
    if !context.common.quiet {
        print_skipped(&prefix, &report, options.dry_run);
        print_rejected(&prefix, &report, options.dry_run);
    }
    outcome(&prefix, &report, options.dry_run)
}

fn outcome(prefix: &str, report: &IngestReport, dry_run: bool) -> Result<CommandOutcome, Failure> {
    match (report.unreadable_files, report.rejected + report.skipped) {
        (0, 0) => Ok(CommandOutcome::done_if(!is_beyond_profile(&report.marks))),
        (0, _) => Ok(CommandOutcome::Problems),
        (files, _) => Err(Failure::environment(
            "some sources couldn't be read",
            &match dry_run {
                true => format!("{files}. Run the command again when these are readable"),
                false => format!(
                    "{files}. The others were ingested; run the command again when these are \
                     readable. `{prefix} sql \"SELECT source, reason FROM sources WHERE run_id = \
                     '{}' AND outcome = 'unreadable'\"` lists them",
                    report.run_id
                ),
            },
        )),
    }
}

fn options_of(context: &CommandContext, arguments: &IngestArgs) -> Result<IngestOptions, Failure> {
    let content = arguments.content_dir.as_deref();
    let content = content.map(|folder| ContentFolder::open(folder, arguments.dry_run));
    Ok(IngestOptions {
        kind: arguments.kind.0,
        on_error: match arguments.on_error {
            OnErrorArg::Quarantine => OnError::Quarantine,
            OnErrorArg::Fail => OnError::Fail,
        },
        mode: mode_of(arguments.lenient),
        resolver: context.key_resolver()?,
        retry_refused: arguments.retry_refused,
        again: arguments.again,
        dry_run: arguments.dry_run,
        threads: context.threads(),
        memory: context.memory(),
        commit_every: arguments
            .commit_every
            .map(|size| usize::try_from(size.0).unwrap_or(usize::MAX)),
        max_source: arguments
            .max_source
            .map_or(DEFAULT_SPOOL_LIMIT, |limit| limit.0),
        indexes: match arguments.no_indexes {
            true => IndexKinds::NONE,
            false => IndexArg::kinds(arguments.indexes.as_deref()),
        },
        content: content.transpose()?.map(Arc::new),
        are_bundles: false,
        device_profile: arguments.device_profile.map(|profile| profile.0),
    })
}

/// Returns the mode of reading into a lake that `--lenient` selects.
pub fn mode_of(lenient: bool) -> DecodeMode {
    if lenient {
        DecodeMode::Lenient
    } else {
        DecodeMode::StrictAliased
    }
}

/// Lists the first sources of unsupported kinds, and how to see all of them.
fn print_skipped(prefix: &str, report: &IngestReport, dry_run: bool) {
    if report.skipped == 0 {
        return;
    }
    note(match report.skipped {
        1 => "1 source skipped, because no reader supports its content:".to_owned(),
        skipped => {
            format!("{skipped} sources skipped, because no reader supports their content:")
        }
    });
    for skipped in &report.first_skipped {
        let line = format!("{}: {}", skipped.source, skipped.reason);
        note(format_args!("  {}", on_one_line(&line)));
    }
    if report.skipped as usize > report.first_skipped.len() {
        match dry_run {
            true => note("  … run without --dry-run to list all in the table `sources`"),
            false => note(format_args!(
                "  … `{prefix} sql \"SELECT source, reason FROM sources WHERE run_id = '{}' AND \
                 outcome = 'skipped'\"` lists them all",
                report.run_id
            )),
        }
    }
}

fn print_rejected(prefix: &str, report: &IngestReport, dry_run: bool) {
    if report.rejected == 0 {
        return;
    }
    note(format_args!(
        "{} refused; to list them: `{prefix} sql \"SELECT source, ordinal, error_code, message \
         FROM rejects\"`",
        report.rejected
    ));
    if report.readable_rejects > 0 {
        let retry = if dry_run { "" } else { " --retry-refused" };
        note(format_args!(
            "`ingest --lenient{retry}` accepts {} of them and marks them",
            report.readable_rejects
        ));
    }
}

/// Converts an error of ingest; adds the remedy for refused input.
pub(super) fn failure(error: EngineError) -> Failure {
    match error {
        EngineError::Refused { .. } | EngineError::RefusedLine { .. } => Failure::data(format!(
            "{error}; use `--on-error quarantine` to store refused input in `rejects` and continue"
        )),
        error => error.into(),
    }
}

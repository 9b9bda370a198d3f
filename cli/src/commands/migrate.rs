//! `migrate`: a copy of the lake whose grains are encoded in another form.

use chrono::Utc;
use gristmill_engine::ingest::IngestOptions;
use gristmill_engine::lake::Lake;
use gristmill_engine::migrate::{
    MigrateOptions, MigrateReport, MigrationSigner, TargetForm, migrate,
};
use serde_json::json;

use super::CommandContext;
use super::keys::keyring;
use crate::args::migrate::MigrateArgs;
use crate::exit::{CommandOutcome, Failure};
use crate::log::note;

/// Migrates the lake to a new one; the outcome is `Problems` if grains become one with others, keep
/// their form, lose their signatures, or don't get the addresses back that they had.
pub async fn run(
    context: &CommandContext,
    arguments: MigrateArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    // A configuration file may set `dry-run`, which the definition of the arguments doesn't see.
    if arguments.target.is_none() && !arguments.dry_run {
        return Err(Failure::usage(
            "name the new lake: `gristmill migrate LAKE --map FILE`; --dry-run needs none",
        ));
    }
    let lake = context.open_lake().await?;
    let options = options_of(context, &arguments)?;
    // Before the new lake is created.
    options.check_map()?;
    let mut target = match &arguments.target {
        Some(uri) => Some(target_lake(context, &lake, uri).await?),
        None => None,
    };
    if target.is_some() {
        // Recording moves a lake to its newest version, which the migration must not see.
        let details = json!({ "version": lake.grains.version() });
        lake.clone().record("migrate", details).await?;
    }
    let (progress, shown) = context.track("migrate");
    let migrated = migrate(&lake, target.as_mut(), &options, progress).await;
    drop(shown);
    let report = migrated?;
    printer.record(&report)?;
    let is_complete = report.merged + report.kept + report.signatures_dropped == 0
        && report.restored == report.to_restore;
    if !context.common.quiet {
        print_losses(&report, &arguments);
    }
    Ok(CommandOutcome::done_if(is_complete))
}

/// Opens or creates the new lake, which must be another one.
async fn target_lake(context: &CommandContext, lake: &Lake, uri: &str) -> Result<Lake, Failure> {
    let target = context.unlock(Lake::open_or_create(uri).await?)?;
    match target.audit.id() == lake.audit.id() {
        true => Err(Failure::usage(format!(
            "`{uri}` is the lake itself; name a new folder"
        ))),
        false => Ok(target),
    }
}

fn options_of(
    context: &CommandContext,
    arguments: &MigrateArgs,
) -> Result<MigrateOptions, Failure> {
    let signer = |name: &String| -> Result<MigrationSigner, Failure> {
        Ok(MigrationSigner {
            key: keyring(&context.common.keys)?.signing_key(name)?,
            did: arguments.signer.clone(),
            at: Utc::now().timestamp(),
        })
    };
    Ok(MigrateOptions {
        form: TargetForm {
            encoding: arguments.encoding.map(Into::into),
            names: arguments.names.map(Into::into),
            compressed: arguments.compressed,
        },
        undo: arguments.undo.clone(),
        signer: arguments.key.as_ref().map(signer).transpose()?,
        map: arguments.map.clone(),
        overwrite: arguments.force,
        ingest: ingest_options(context)?,
    })
}

/// Returns the options with which the new lake ingests the converted grains.
fn ingest_options(context: &CommandContext) -> Result<IngestOptions, Failure> {
    Ok(IngestOptions {
        resolver: context.key_resolver()?,
        threads: context.threads(),
        memory: context.memory(),
        ..IngestOptions::default()
    })
}

/// Prints where the grains are listed that a migration couldn't carry over completely.
fn print_losses(report: &MigrateReport, arguments: &MigrateArgs) {
    let map = arguments.map.display();
    let not_restored = report.to_restore - report.restored;
    if report.merged > 0 {
        note(format_args!(
            "{} grains become one with another, from which they differ in the form only; `{map}` \
             has several old addresses for one new",
            report.merged
        ));
    }
    if report.kept > 0 {
        note(format_args!(
            "{} grains keep their form and addresses; `{map}` lists them under `kept`",
            report.kept
        ));
    }
    if report.signatures_dropped > 0 {
        note(format_args!(
            "{} signatures are dropped, because they sign other bytes; --key makes them again",
            report.signatures_dropped
        ));
    }
    if not_restored > 0 {
        note(format_args!(
            "{not_restored} grains don't have their earlier addresses again; `{map}` lists them \
             under `not_restored`"
        ));
    }
}

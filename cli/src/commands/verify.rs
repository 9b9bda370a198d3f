//! `verify`: verifies files, or the lake itself.

use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::ingest::is_beyond_profile;
use gristmill_engine::lake::LakeLocation;
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{
    Subset, VerifyOptions, VerifyReport, VerifyScope, verify_lake, verify_sources, verify_unopened,
};

use gristmill_queries::content::{ContentReport, ContentRoot, verify_content};
use gristmill_queries::sql::lake_context;
use serde::Serialize;

use super::CommandContext;
use super::ingest::mode_of;
use super::sql;
use crate::args::maintenance::VerifyArgs;
use crate::args::size::Size;
use crate::duration_arg::parse_duration;
use crate::exit::{CommandOutcome, Failure};
use crate::log::note;

/// Verifies the sources, or the lake if none is given; the outcome is `Problems` if anything is
/// bad, or beyond the requested device profile.
pub async fn run(
    context: &CommandContext,
    arguments: VerifyArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let options = options_of(context, &arguments)?;
    let part = scope_of(&arguments)?;
    let roots = content_roots(&arguments.content)?;
    #[cfg(feature = "cluster")]
    if arguments.cluster.cluster.is_some() && !arguments.sources.is_empty() {
        context.hint("files are verified by this process; --cluster verifies the lake");
    }
    let (progress, shown) = context.track("verify");
    let report = match arguments.sources.is_empty() {
        #[cfg(feature = "cluster")]
        true if arguments.cluster.cluster.is_some() => {
            super::cluster::verify(context, &arguments.cluster, part, &options, progress).await
        }
        true => verify_whole_lake(context, part, &options, progress).await,
        false => {
            let sources = discover(&arguments.sources).await?;
            Ok(verify_sources(sources, &options, progress).await?)
        }
    };
    drop(shown);
    let report = report?;
    // The report is printed also if the content can't be compared, because of a damaged segment.
    let (content, not_compared) = match verify_content_of(context, &roots).await {
        Ok(content) => (content, None),
        Err(failure) => (None, Some(failure)),
    };
    let report = VerifyOutcome { report, content };
    printer.record(&report)?;
    print_hints(context, &report.report, &arguments);
    if let Some(failure) = not_compared {
        return Err(failure);
    }
    let is_content_fine = report.content.as_ref().is_none_or(ContentReport::is_fine);
    let fits_devices = !is_beyond_profile(&report.report.marks);
    let is_intact = report.report.bad == 0 && is_content_fine && fits_devices;
    let unsaved = report.report.unsaved_position.as_deref();
    // The exit code of damage is that of the command, whatever else failed.
    for failure in [unreadable(&report.report), unsaved.map(not_continued)] {
        match failure {
            Some(failure) if is_intact => return Err(failure),
            Some(failure) => note(failure),
            None => {}
        }
    }
    Ok(CommandOutcome::done_if(
        is_intact && report.report.skipped_files == 0,
    ))
}

/// Returns the failure of a check that couldn't read all files.
fn unreadable(report: &VerifyReport) -> Option<Failure> {
    let files = report.unreadable_files;
    (files > 0).then(|| {
        Failure::environment(
            "some files couldn't be read",
            &format!(
                "{files}. The others were checked; run the command again when these are readable"
            ),
        )
    })
}

/// Returns the failure of a check that the next one can't continue, because of `cause`.
fn not_continued(cause: &str) -> Failure {
    Failure::environment(
        "where this check ended can't be stored, so the next one would check the same part \
         again; use a part such as `--subset 3/7` for a lake that can't be written",
        &cause,
    )
}

/// Prints what to do about damage and files that are left over, and that nothing was checked.
fn print_hints(context: &CommandContext, report: &VerifyReport, arguments: &VerifyArgs) {
    if report.bad > 0 && arguments.sources.is_empty() {
        context.hint(
            "`gristmill repair --dry-run` lists what can be computed again, and what must come \
             from a backup",
        );
    }
    if report.skipped_files > 0 {
        context.hint(
            "what was skipped wasn't checked: only containers (.mg), frames and files of single \
             grains can be; `ingest` checks what other files have when it reads them",
        );
    }
    if let Some(left) = &report.unreferenced {
        context.hint(format_args!(
            "{} data files ({} bytes) are part of no version of the lake: a killed command left \
             them, or a running one hasn't committed them yet; `gristmill gc` removes those that \
             are older than an hour",
            left.files, left.bytes
        ));
    }
    if report.checked == 0 && arguments.subset.is_some() {
        context.hint(
            "this part of the lake has no grains, so nothing was checked; `--subset 15%` continues \
             where the last check ended",
        );
    }
}

/// The report of a verification, with that of the content to which grains refer.
#[derive(Debug, Serialize)]
struct VerifyOutcome {
    #[serde(flatten)]
    report: VerifyReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<ContentReport>,
}

/// Returns the places of content that `named` states.
fn content_roots(named: &[String]) -> Result<Vec<ContentRoot>, Failure> {
    let roots = named.iter().map(|root| ContentRoot::new(root));
    Ok(roots.collect::<Result<_, _>>()?)
}

/// Compares content below `roots` with the references of the grains; `None` without roots.
async fn verify_content_of(
    context: &CommandContext,
    roots: &[ContentRoot],
) -> Result<Option<ContentReport>, Failure> {
    if roots.is_empty() {
        return Ok(None);
    }
    let failed = |error| sql::failure(error).within("can't read the references");
    let tables = lake_context(&context.open_lake().await?, &sql::options(context)?)
        .await
        .map_err(failed)?;
    verify_content(&tables, roots)
        .await
        .map(Some)
        .map_err(failed)
}

/// Verifies the lake; if it can't be opened, verifies its files and reports why.
async fn verify_whole_lake(
    context: &CommandContext,
    part: VerifyScope,
    options: &VerifyOptions,
    progress: Arc<WorkProgress>,
) -> Result<VerifyReport, Failure> {
    Ok(match context.open_damaged_lake().await? {
        Ok(lake) => verify_lake(&lake, part, options, progress).await?,
        Err(cause) => {
            let location = LakeLocation::new(context.lake())?;
            verify_unopened(&location, part, options, &cause).await?
        }
    })
}

/// Returns the part of the lake that the flags select.
fn scope_of(arguments: &VerifyArgs) -> Result<VerifyScope, Failure> {
    Ok(VerifyScope {
        subset: arguments.subset.as_deref().map(subset).transpose()?,
        max_duration: arguments
            .max_duration
            .as_deref()
            .map(|text| parse_duration("--max-duration", text))
            .transpose()?,
    })
}

fn options_of(context: &CommandContext, arguments: &VerifyArgs) -> Result<VerifyOptions, Failure> {
    let defaults = VerifyOptions::default();
    Ok(VerifyOptions {
        kind: arguments.kind.0,
        named: arguments.sources.clone(),
        mode: mode_of(arguments.lenient),
        resolver: context.key_resolver()?,
        threads: context.row_group_threads(),
        sidecars: arguments.sidecars,
        memory: context.memory(),
        device_profile: arguments.device_profile.map(|profile| profile.0),
        ..defaults
    })
}

/// Parses `5%`, `3/7` or `10G`.
fn subset(text: &str) -> Result<Subset, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "invalid part `--subset {text}`; use a form such as 5%, 3/7 or 10G"
        ))
    };
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        // Nothing is a part of which every check would succeed.
        return match percent > 0.0 && percent <= 100.0 {
            true => Ok(Subset::Share(percent / 100.0)),
            false => Err(wrong()),
        };
    }
    if let Some((number, of)) = text.split_once('/') {
        let number: u32 = number.parse().map_err(|_| wrong())?;
        let of: u32 = of.parse().map_err(|_| wrong())?;
        return match (1..=of).contains(&number) {
            true => Ok(Subset::Group { number, of }),
            false => Err(wrong()),
        };
    }
    match text.parse::<Size>() {
        Ok(Size(bytes @ 1..)) => Ok(Subset::Bytes(bytes)),
        _ => Err(wrong()),
    }
}

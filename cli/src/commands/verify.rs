//! `verify`: verifies files, or the lake itself.

use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::lake::LakeLocation;
use gristmill_engine::progress::WorkProgress;
use gristmill_engine::verify::{
    Part, Subset, VerifyOptions, verify_lake, verify_sources, verify_unopened,
};
use gristmill_schemas::grain::Mode;

use super::CommandContext;
use super::ingest::{snapshot, stop_on_interrupt};
use crate::args::{Size, VerifyArgs};
use crate::duration_arg::parse_duration;
use crate::exit::{CommandOutcome, Failure};
use crate::progress::ProgressDisplay;

/// Verifies the sources, or the lake if none is given; the outcome is `Problems` if anything is
/// bad.
pub async fn run(
    context: &CommandContext,
    arguments: VerifyArgs,
) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let mut options = VerifyOptions {
        kind: arguments.kind.0,
        named: arguments.sources.clone(),
        mode: if arguments.lenient {
            Mode::Lenient
        } else {
            Mode::Strict
        },
        threads: context.threads(),
        sidecars: arguments.sidecars,
        ..VerifyOptions::default()
    };
    if let Some(memory) = context.common.memory {
        options.memory = memory.0 as usize;
    }
    let part = Part {
        subset: arguments.subset.as_deref().map(subset).transpose()?,
        max_duration: arguments
            .max_duration
            .as_deref()
            .map(|text| parse_duration("--max-duration", text))
            .transpose()?,
    };
    let progress = Arc::new(WorkProgress::default());
    stop_on_interrupt(Arc::clone(&progress));
    let watched = Arc::clone(&progress);
    let shown = ProgressDisplay::start(&context.common, "verify", move || snapshot(&watched));
    let report = if arguments.sources.is_empty() {
        match context.open_damaged_lake().await? {
            Ok(lake) => verify_lake(&lake, part, &options, progress).await,
            Err(cause) => {
                verify_unopened(&LakeLocation::new(context.lake())?, part, &options, &cause).await
            }
        }
    } else {
        verify_sources(discover(&arguments.sources).await?, &options, progress).await
    };
    drop(shown);
    let report = report?;
    printer.record(&report)?;
    Ok(if report.bad == 0 {
        CommandOutcome::Done
    } else {
        CommandOutcome::Problems
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
        return if (0.0..=100.0).contains(&percent) {
            Ok(Subset::Share(percent / 100.0))
        } else {
            Err(wrong())
        };
    }
    if let Some((number, of)) = text.split_once('/') {
        let (number, of): (u32, u32) = (
            number.parse().map_err(|_| wrong())?,
            of.parse().map_err(|_| wrong())?,
        );
        return if (1..=of).contains(&number) {
            Ok(Subset::Group { number, of })
        } else {
            Err(wrong())
        };
    }
    text.parse::<Size>()
        .map(|size| Subset::Bytes(size.0))
        .map_err(|_| wrong())
}

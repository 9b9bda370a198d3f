//! `hold`: places, lifts and lists litigation holds.

use std::path::Path;

use chrono::{NaiveDate, NaiveTime, Utc};
use gristmill_engine::apply::ApplyOptions;
use gristmill_engine::erase::SubjectRequest;
use gristmill_engine::hold::{
    HoldListOptions, HoldReport, HoldRequest, HoldSelection, ReleaseRequest, held_grains, lift,
    place, summaries,
};
use gristmill_engine::text::NamePattern;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::lifecycle::{HoldName, HoldTerms};
use gristmill_schemas::message::time::Timestamp;

use super::CommandContext;
use super::subject_selector::{request_of, text};
use crate::args::holds::{HoldCommand, HoldOrderArgs, LiftHoldArgs, ListHoldsArgs, PlaceHoldArgs};
use crate::exit::{CommandOutcome, Failure};

/// Places, lifts or lists holds.
pub async fn run(
    context: &CommandContext,
    command: HoldCommand,
) -> Result<CommandOutcome, Failure> {
    match command {
        HoldCommand::Place(arguments) => place_hold(context, *arguments).await,
        HoldCommand::Lift(arguments) => lift_hold(context, arguments).await,
        HoldCommand::List(arguments) => list_holds(context, arguments).await,
    }
}

async fn place_hold(
    context: &CommandContext,
    arguments: PlaceHoldArgs,
) -> Result<CommandOutcome, Failure> {
    let mut request = request_of(context, &arguments.selector)?;
    request
        .addresses
        .extend(addresses(&arguments.address, None)?);
    let until = arguments.until.as_deref().map(instant).transpose()?;
    check_order(&arguments.order)?;
    let hold = HoldRequest {
        terms: HoldTerms {
            name: hold_name(&arguments.name)?,
            until,
        },
        authority: arguments.order.authority,
        reason: arguments.order.reason,
        selection: HoldSelection {
            request,
            namespaces: arguments.namespace.iter().map(NamePattern::new).collect(),
        },
    };
    let options = options(context, arguments.order.dry_run)?;
    let mut lake = context.open_lake().await?;
    let threads = context.row_group_threads();
    let report = place(&mut lake, &hold, &options, threads).await?;
    context.printer(arguments.results).record(&report)?;
    outcome(&report)
}

async fn lift_hold(
    context: &CommandContext,
    arguments: LiftHoldArgs,
) -> Result<CommandOutcome, Failure> {
    check_order(&arguments.order)?;
    let addresses = addresses(&arguments.address, arguments.addresses.as_deref())?;
    let names_grains = !arguments.address.is_empty() || arguments.addresses.is_some();
    if names_grains && addresses.is_empty() {
        return Err(Failure::usage(
            "--address and --addresses have no address, and without these options the hold is \
             lifted from all its grains",
        ));
    }
    let release = ReleaseRequest {
        name: hold_name(&arguments.name)?,
        addresses,
        authority: arguments.order.authority,
        reason: arguments.order.reason,
    };
    let options = options(context, arguments.order.dry_run)?;
    let mut lake = context.open_lake().await?;
    let report = lift(&mut lake, &release, &options).await?;
    context.printer(arguments.results).record(&report)?;
    outcome(&report)
}

async fn list_holds(
    context: &CommandContext,
    arguments: ListHoldsArgs,
) -> Result<CommandOutcome, Failure> {
    let lake = context.open_lake().await?;
    let options = HoldListOptions {
        name: arguments.name,
        ended: arguments.ended,
        now: Utc::now().timestamp_micros(),
    };
    let printer = context.printer(arguments.results);
    let is_empty = match arguments.grains {
        true => {
            let grains = held_grains(&lake, &options).await?;
            printer.records(&grains)?;
            grains.is_empty()
        }
        false => {
            let holds = summaries(&lake, &options).await?;
            printer.records(&holds)?;
            holds.is_empty()
        }
    };
    if is_empty {
        note_none(context, &options);
    }
    Ok(CommandOutcome::Done)
}

/// Notes that there is no hold to list, which may be because its name is mistyped.
fn note_none(context: &CommandContext, options: &HoldListOptions) {
    let hold = match &options.name {
        Some(name) => format!("hold `{name}`"),
        None => "hold".to_owned(),
    };
    match options.ended {
        true => context.hint(format_args!("the lake has no {hold}")),
        false => context.hint(format_args!(
            "the lake has no {hold} in force; --ended also lists those that ended or were lifted"
        )),
    }
}

fn options(context: &CommandContext, dry_run: bool) -> Result<ApplyOptions, Failure> {
    Ok(ApplyOptions {
        resolver: context.key_resolver()?,
        dry_run,
    })
}

/// Refusals by policy are a failure of their own, as in `apply`.
fn outcome(report: &HoldReport) -> Result<CommandOutcome, Failure> {
    let first = report.refusals.first();
    let first = first.and_then(|refusal| refusal.message.as_deref());
    match (report.denied, first) {
        (0, _) => Ok(CommandOutcome::done_if(report.failed == 0)),
        (denied, first) => Err(Failure::policy(format!(
            "{denied} of {} grains refused it, such as: {}",
            report.selected,
            first.unwrap_or_default()
        ))),
    }
}

fn hold_name(text: &str) -> Result<HoldName, Failure> {
    text.parse()
        .map_err(|error| Failure::usage(format!("`{text}`: {error}")))
}

fn check_order(order: &HoldOrderArgs) -> Result<(), Failure> {
    for (option, value) in [
        ("--authority", &order.authority),
        ("--reason", &order.reason),
    ] {
        if value.trim().is_empty() {
            return Err(Failure::usage(format!("{option} is empty")));
        }
    }
    Ok(())
}

/// Returns the addresses that are given one by one and in a file.
fn addresses(given: &[String], file: Option<&Path>) -> Result<Vec<ContentAddress>, Failure> {
    let mut request = SubjectRequest::default();
    request
        .add_addresses(&given.join("\n"))
        .map_err(|error| Failure::usage(format!("--address: {error}")))?;
    if let Some(path) = file {
        request
            .add_addresses(&text(path)?)
            .map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?;
    }
    Ok(request.addresses)
}

/// Parses an instant, or a date as its beginning in UTC, to microseconds since 1970.
fn instant(text: &str) -> Result<i64, Failure> {
    let date = text.parse::<NaiveDate>().ok();
    let midnight = date.map(|date| date.and_time(NaiveTime::MIN).and_utc().timestamp_micros());
    midnight
        .or_else(|| Timestamp::parse(text).map(Timestamp::micros))
        .ok_or_else(|| {
            Failure::usage(format!(
                "`{text}` is no instant: use a form such as 2030-01-31 or 2030-01-31T12:00:00Z"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_hold_is_a_date_or_an_instant() {
        let midnight = instant("2030-01-31").unwrap();
        assert_eq!(midnight, instant("2030-01-31T00:00:00Z").unwrap());
        assert_eq!(midnight, instant("2030-01-31T01:00:00+01:00").unwrap());
        for text in ["", "soon", "2030-02-31", "31.1.2030"] {
            assert!(instant(text).is_err(), "{text}");
        }
    }
}

//! `apply`: applies operations in bulk.

use std::io::{BufRead, BufReader};
use std::path::Path;

use gristmill_engine::apply::{ApplyOptions, ApplyReport, OperationOutcome, apply};

use super::CommandContext;
use crate::args::governance::ApplyArgs;
use crate::exit::{CommandOutcome, Failure};
use crate::human_readable::counted;
use crate::json_lines::{JsonLinesWriter, RecordLayout};
use crate::output::unless_stdout;

/// Applies operations in bulk and writes one answer per line.
pub async fn run(
    context: &CommandContext,
    arguments: ApplyArgs,
) -> Result<CommandOutcome, Failure> {
    let out = unless_stdout(arguments.out.as_deref());
    let layout = match out.is_none() {
        true => context.json_layout(arguments.results)?,
        false => RecordLayout::Lines,
    };
    check_out(&arguments.operations, out)?;
    // Before the lake: without operations none is created.
    let mut lines = open_operations(&arguments.operations)?;
    // The temporary folder is removed at the end.
    let (mut lake, _temporary) = match arguments.dry_run {
        true => context.lake_for_dry_run().await?,
        false => (context.open_or_create_lake().await?, None),
    };
    // The file grows while the run goes on, so that it shows about how far a killed run came.
    let mut answers = match out {
        Some(path) => JsonLinesWriter::to(
            path,
            std::fs::File::create(path).map_err(|error| Failure::writing(path, &error))?,
        ),
        None => JsonLinesWriter::to_stdout(layout),
    };
    let mut answer = |answer: &OperationOutcome| answers.write(answer);
    let options = ApplyOptions {
        dry_run: arguments.dry_run,
        resolver: context.key_resolver()?,
    };
    let report = apply(&mut lake, &mut *lines, &options, &mut answer).await?;
    answers.finish()?;
    let printer = context.printer(arguments.results);
    if out.is_some() {
        printer.record(&report)?;
        return outcome(&report);
    }
    printer.print_requests();
    context.hint(format_args!(
        "{}: {} done, {} denied, {} failed",
        counted(report.operations, "operation", "operations"),
        report.done,
        report.denied,
        report.failed
    ));
    outcome(&report)
}

/// Refuses answers in the file of the operations, which would be lost before they are read.
fn check_out(operations: &Path, out: Option<&Path>) -> Result<(), Failure> {
    let file = |path: &Path| std::fs::canonicalize(path).ok();
    let own = file(operations).filter(|path| path.is_file());
    match out.filter(|out| own.is_some() && file(out) == own) {
        Some(out) => Err(Failure::usage(format!(
            "`{}` has the operations: name another file for the answers",
            out.display()
        ))),
        None => Ok(()),
    }
}

/// Opens the file of operations, or standard input for `-`.
fn open_operations(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = std::fs::File::open(path).map_err(|error| Failure::reading(path, &error))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Operations that only policy refused are a failure of their own.
fn outcome(report: &ApplyReport) -> Result<CommandOutcome, Failure> {
    match (report.denied, report.failed) {
        (0, 0) => Ok(CommandOutcome::Done),
        (denied, 0) => Err(Failure::policy(format!(
            "{denied} operations were refused by policy; see their answers for the reasons"
        ))),
        _ => Ok(CommandOutcome::Problems),
    }
}

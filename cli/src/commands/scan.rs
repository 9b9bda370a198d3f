//! `scan`: runs compliance packs over the lake, or over their own examples.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use comfy_table::CellAlignment;
use gristmill_engine::lake::Lake;
use gristmill_queries::packs::report::{FindingStatistics, ReportFormat, ReportWriter};
use gristmill_queries::packs::{
    self, ExampleResult, NAMES, Pack, PackError, Rule, Scan, ScanSummary, Severity, Since,
    run_examples,
};
use gristmill_queries::render::escape_control;
use gristmill_queries::sql::{SessionContext, lake_context};
use gristmill_schemas::address::ContentAddress;
use serde::Serialize;

use super::CommandContext;
use super::sql::{self, options};
use crate::args::query::{FailOn, ScanArgs, ScanFormat};
use crate::args::{OutputFormat, ResultArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::human_readable::{counted, with_separators};
use crate::log::note;
use crate::output::{Printer, begin_file, finish_file, unless_stdout, write_file, write_stdout};
use crate::table::new_table;

/// Scans the lake; the outcome is `Problems` if a finding reaches the severity of `--fail-on`, or a
/// policy failed.
pub async fn run(context: &CommandContext, arguments: ScanArgs) -> Result<CommandOutcome, Failure> {
    if !arguments.test.is_empty() {
        return test(context, &arguments).await;
    }
    let names: Vec<&str> = arguments.packs.iter().map(String::as_str).collect();
    let mut packs = find(if names.is_empty() { NAMES } else { &names })?;
    if !arguments.rules.is_empty() {
        packs = packs::select_rules(packs, &arguments.rules).map_err(failure)?;
    }
    let form = report_format(context, &arguments)?;
    let mut lake = context.open_lake().await?;
    let session = lake_context(&lake, &options(context)?).await;
    let session = session.map_err(sql::failure)?;
    #[cfg(feature = "cluster")]
    let cluster = super::cluster::join(context, &session, &arguments.cluster)?;
    let run = scanned(session, &lake, packs, form, &arguments);
    #[cfg(feature = "cluster")]
    let run = super::cluster::cancelled_by_interrupt(cluster.as_ref(), run);
    let (scan, summary, example) = run.await?;
    let is_table = form.is_none() && unless_stdout(arguments.output.as_deref()).is_none();
    // A scan that can't be recorded still has valid results.
    if let Err(error) = scan.record(&mut lake, &summary).await {
        tracing::warn!(%error, "the scan can't be recorded in the audit log, so `--since last` \
                                ignores it");
    }
    if !context.common.quiet {
        print_summary(&summary);
        if is_table && summary.findings > 0 {
            let prefix = context.command_prefix();
            note(format_args!(
                "the cases with excerpts, sources and remedies: `{prefix} scan --output \
                 scan.html`; those of one rule as data: `{prefix} scan --rule RULE --format jsonl`"
            ));
            if let Some(address) = example {
                note(format_args!(
                    "the grain of the first example: `{prefix} sql --records \"SELECT * FROM \
                     grains WHERE content_address = '{address}'\"`"
                ));
            }
        }
    }
    // Findings have a format of their own, which isn't that of a printer.
    context.printer(ResultArgs::default()).print_requests();
    Ok(outcome(&summary, arguments.fail_on.into()))
}

/// Runs the scan of `packs` in `session`, and writes what it finds. Returns the grain of the first
/// example of a table, too.
async fn scanned(
    session: SessionContext,
    lake: &Lake,
    packs: Vec<Pack>,
    form: Option<ReportFormat>,
    arguments: &ScanArgs,
) -> Result<(Scan, ScanSummary, Option<ContentAddress>), Failure> {
    let since = since(arguments.since.as_deref())?;
    let scan = Scan::prepare_in(session, lake, packs, since)
        .await
        .map_err(failure)?;
    let output = unless_stdout(arguments.output.as_deref());
    let (summary, example) = match form {
        None => table(&scan, output).await?,
        Some(form) => (report(&scan, form, output).await?, None),
    };
    Ok((scan, summary, example))
}

fn find(names: &[&str]) -> Result<Vec<Pack>, Failure> {
    names
        .iter()
        .map(|name| packs::find(name).map_err(failure))
        .collect()
}

/// Parses `last` or a version.
fn since(text: Option<&str>) -> Result<Since, Failure> {
    match text {
        None => Ok(Since::Beginning),
        Some("last") => Ok(Since::Last),
        Some(version) => version.parse().map(Since::Version).map_err(|_| {
            Failure::usage(format!(
                "invalid version `--since {version}`; use `last` or a number (see `describe`)"
            ))
        }),
    }
}

/// Returns the report format: the flag, or else that of the file's extension, or else the default
/// for the kind of output; `None` for the table.
fn report_format(
    context: &CommandContext,
    arguments: &ScanArgs,
) -> Result<Option<ReportFormat>, Failure> {
    let ending = arguments
        .output
        .as_deref()
        .and_then(Path::extension)
        .map(|ending| ending.to_string_lossy());
    let chosen = arguments
        .format
        .or_else(|| format_of_extension(ending.as_deref()?));
    let format = match chosen {
        Some(format) => format,
        None => default_format(context.results.format, ending.as_deref())?,
    };
    Ok(match format {
        ScanFormat::Table => None,
        ScanFormat::Json => Some(ReportFormat::Json),
        ScanFormat::Jsonl => Some(ReportFormat::Jsonl),
        ScanFormat::Sarif => Some(ReportFormat::Sarif),
        ScanFormat::Html => Some(ReportFormat::Html),
    })
}

/// Returns the format without `scan --format` and a known file extension: that of the global flag,
/// or else the default for the kind of output.
fn default_format(
    general: Option<OutputFormat>,
    ending: Option<&str>,
) -> Result<ScanFormat, Failure> {
    match (general, ending) {
        (Some(OutputFormat::Table | OutputFormat::Text), _) => Ok(ScanFormat::Table),
        (Some(OutputFormat::Json), _) => Ok(ScanFormat::Json),
        (Some(OutputFormat::Jsonl), _) => Ok(ScanFormat::Jsonl),
        (Some(OutputFormat::Csv | OutputFormat::Arrow), _) => Err(Failure::usage(
            "findings can't be written as csv or arrow; see `scan --help` for the formats",
        )),
        (None, Some(ending)) => Err(Failure::usage(format!(
            "can't derive the format from `.{ending}`; use .html, .sarif, .json, .jsonl or .txt, \
             or set --format"
        ))),
        (None, None) if io::stdout().is_terminal() => Ok(ScanFormat::Table),
        (None, None) => Ok(ScanFormat::Jsonl),
    }
}

/// Returns the format of a file extension.
fn format_of_extension(ending: &str) -> Option<ScanFormat> {
    Some(match ending {
        "html" | "htm" => ScanFormat::Html,
        "sarif" => ScanFormat::Sarif,
        "json" => ScanFormat::Json,
        "jsonl" | "ndjson" => ScanFormat::Jsonl,
        "txt" => ScanFormat::Table,
        _ => return None,
    })
}

/// Writes the report while the scan runs. A file appears under its name only when it is complete.
async fn report(
    scan: &Scan,
    form: ReportFormat,
    output: Option<&Path>,
) -> Result<ScanSummary, Failure> {
    let Some(path) = output else {
        return write_report(scan, form, BufWriter::with_capacity(1 << 16, io::stdout()))
            .await
            .map_err(failure);
    };
    let mut file = begin_file(path)?;
    let summary = write_report(scan, form, BufWriter::with_capacity(1 << 16, &mut file)).await;
    let summary = summary.map_err(|error| match error {
        PackError::Write(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Failure::writing(path, &error)
        }
        other => failure(other),
    })?;
    finish_file(path, file)?;
    Ok(summary)
}

async fn write_report(
    scan: &Scan,
    form: ReportFormat,
    out: impl Write,
) -> Result<ScanSummary, PackError> {
    let mut reporter = ReportWriter::begin(out, form, scan)?;
    let summary = scan
        .run(|rule, finding| reporter.finding(rule, finding))
        .await?;
    reporter.add_contexts(scan).await?;
    reporter.finish(scan, &summary)?;
    Ok(summary)
}

/// Prints the rules with findings, by severity, with one example each. Returns the grain of the
/// first example that is about one.
async fn table(
    scan: &Scan,
    output: Option<&Path>,
) -> Result<(ScanSummary, Option<ContentAddress>), Failure> {
    let mut statistics = FindingStatistics::new(scan.rules().len());
    let take = |rule: &Rule, finding: &packs::Finding| {
        statistics.add(rule, finding);
        Ok(())
    };
    let summary = scan.run(take).await.map_err(failure)?;
    let rules = violated(scan, &summary);
    let example = rules.iter().find_map(|(index, _, _)| {
        let finding = statistics.samples(*index).first()?;
        finding.address.as_deref()?.parse::<ContentAddress>().ok()
    });
    let table = table_of(&rules, &statistics);
    let text = if summary.findings > 0 {
        format!("{table}\n")
    } else {
        "no findings\n".to_owned()
    };
    match output {
        Some(path) => write_file(path, text.as_bytes())?,
        None => write_stdout(|out| out.write_all(text.as_bytes()))?,
    }
    Ok((summary, example))
}

/// Returns the rules with findings with their index and count, by severity and then by count.
fn violated<'s>(scan: &'s Scan, summary: &ScanSummary) -> Vec<(usize, &'s Rule, u64)> {
    let count = |rule: &Rule| {
        summary
            .rules
            .get(&rule.id)
            .map_or(0, |count| count.findings)
    };
    let mut rules: Vec<(usize, &Rule, u64)> = scan
        .rules()
        .iter()
        .enumerate()
        .map(|(index, rule)| (index, rule, count(rule)))
        .filter(|(_, _, findings)| *findings > 0)
        .collect();
    rules.sort_by_key(|(_, rule, findings)| {
        (
            std::cmp::Reverse(rule.severity),
            std::cmp::Reverse(*findings),
        )
    });
    rules
}

fn table_of(rules: &[(usize, &Rule, u64)], statistics: &FindingStatistics) -> comfy_table::Table {
    let mut table = new_table();
    table.set_header(["severity", "rule", "norm", "findings", "for example"]);
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (index, rule, findings) in rules {
        let example = statistics
            .samples(*index)
            .first()
            .map(|finding| rule.message.render(&finding.evidence));
        let cells = [
            rule.severity.name().to_owned(),
            rule.id.clone(),
            rule.norm.clone(),
            with_separators(*findings),
            example.unwrap_or_default(),
        ];
        table.add_row(cells.iter().map(|cell| escape_control(cell)));
    }
    table
}

fn print_summary(summary: &ScanSummary) {
    let broken = summary
        .rules
        .values()
        .filter(|count| count.findings > 0)
        .count();
    note(format_args!(
        "{} of {broken} of {} in {}, {:.1} s",
        counted(summary.findings, "finding", "findings"),
        counted(summary.rules.len() as u64, "rule", "rules"),
        counted(summary.scope.grains, "grain", "grains"),
        summary.seconds
    ));
    if summary.findings > summary.scope.grains {
        note("a grain has a finding for each rule that it violates");
    }
    for (id, count) in &summary.rules {
        if let Some(first) = &count.first_failure {
            note(format_args!(
                "the policy {id} failed on {} views; first failure: {first}",
                with_separators(count.failures)
            ));
        }
    }
}

fn outcome(summary: &ScanSummary, fail_on: Severity) -> CommandOutcome {
    let grave = Severity::ALL
        .into_iter()
        .filter(|severity| *severity >= fail_on);
    let found: u64 = grave
        .filter_map(|severity| summary.findings_by_severity.get(severity.name()))
        .sum();
    if found > 0 || summary.failures > 0 {
        CommandOutcome::Problems
    } else {
        CommandOutcome::Done
    }
}

impl From<FailOn> for Severity {
    fn from(fail_on: FailOn) -> Severity {
        match fail_on {
            FailOn::Note => Severity::Note,
            FailOn::Warning => Severity::Warning,
            FailOn::Error => Severity::Error,
        }
    }
}

/// The result of an example in JSON.
#[derive(Debug, Serialize)]
struct TestedExample<'r> {
    #[serde(flatten)]
    result: &'r ExampleResult,
    passed: bool,
}

impl<'r> TestedExample<'r> {
    fn of(result: &'r ExampleResult) -> TestedExample<'r> {
        TestedExample {
            result,
            passed: result.is_right(),
        }
    }
}

/// Runs the examples of packs.
async fn test(context: &CommandContext, arguments: &ScanArgs) -> Result<CommandOutcome, Failure> {
    let printer = example_printer(context, arguments)?;
    let mut results = Vec::new();
    for name in &arguments.test {
        let pack = packs::find(name).map_err(failure)?;
        let of_pack = run_examples(&pack).await.map_err(failure)?;
        if printer.is_none() {
            let text: String = of_pack.iter().map(line).collect();
            write_stdout(|out| out.write_all(escape_control(&text).as_bytes()))?;
        }
        results.extend(of_pack);
    }
    if let Some(printer) = printer {
        let tested: Vec<TestedExample<'_>> = results.iter().map(TestedExample::of).collect();
        printer.records(&tested)?;
    }
    let passed = results.iter().filter(|result| result.is_right()).count();
    context.hint(format_args!(
        "{passed} of {} examples passed",
        results.len()
    ));
    Ok(CommandOutcome::done_if(passed == results.len()))
}

/// Returns the printer of the results of examples if JSON is requested; `None` for lines of text,
/// the default.
fn example_printer(
    context: &CommandContext,
    arguments: &ScanArgs,
) -> Result<Option<Printer>, Failure> {
    // A file's format is that of reports or results, which examples may not have.
    let is_given = |option: &str| context.common.given.contains_key(option);
    let own = arguments.format.filter(|format| {
        !matches!(format, ScanFormat::Sarif | ScanFormat::Html) || is_given("scan format")
    });
    let general = context.results.format.filter(|format| {
        !matches!(format, OutputFormat::Csv | OutputFormat::Arrow) || is_given("format")
    });
    let format = match (own, general) {
        (Some(format), _) => format,
        (None, None) => ScanFormat::Table,
        (None, general) => default_format(general, None)?,
    };
    let format = match format {
        ScanFormat::Table => return Ok(None),
        ScanFormat::Json => OutputFormat::Json,
        ScanFormat::Jsonl => OutputFormat::Jsonl,
        ScanFormat::Sarif | ScanFormat::Html => {
            return Err(Failure::usage(
                "results of examples are written as table, json or jsonl only",
            ));
        }
    };
    let own = ResultArgs {
        format: Some(format),
        ..ResultArgs::default()
    };
    Ok(Some(context.printer(own)))
}

fn line(result: &ExampleResult) -> String {
    let findings = |number: usize| counted(number as u64, "finding", "findings");
    let ExampleResult {
        rule,
        example,
        expected,
        found,
        messages,
    } = result;
    if result.is_right() {
        return format!("ok    {rule} [[test]] {example}: {}\n", findings(*found));
    }
    let lines: String = messages
        .iter()
        .map(|message| format!("        {message}\n"))
        .collect();
    format!(
        "WRONG {rule} [[test]] {example}: {}, not {expected}\n{lines}",
        findings(*found)
    )
}

/// Converts an error of a pack or a scan.
pub(super) fn failure(error: PackError) -> Failure {
    match error {
        PackError::Query(error) => sql::failure(error),
        PackError::Engine(error) => error.into(),
        // A closed standard output is not an error.
        PackError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            std::process::exit(0)
        }
        other => Failure::usage(other.to_string()),
    }
}

//! `scan`: compliance packs over the lake, and packs over their own examples.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use gristmill_queries::packs::report::{Digest, Form, Reporter};
use gristmill_queries::packs::{
    self, ExampleResult, NAMES, Pack, PackError, Rule, Scan, ScanOptions, Severity, Since, Summary, run_examples,
};

use super::Context;
use super::sql::{self, options};
use crate::args::{self, ReportFormat};
use crate::exit::{Failure, Outcome};
use crate::output::{grouped, write_out};

/// Scans the lake; the data has problems if a finding is as grave as asked for, or a policy failed.
pub async fn run(context: &Context, arguments: args::Scan) -> Result<Outcome, Failure> {
    if !arguments.test.is_empty() {
        return test(&arguments.test).await;
    }
    let names: Vec<&str> = arguments.packs.iter().map(String::as_str).collect();
    let packs = find(if names.is_empty() { NAMES } else { &names })?;
    let mut lake = context.open_lake().await?;
    let options = ScanOptions { sql: options(context)?, since: since(arguments.since.as_deref())? };
    let scan = Scan::prepare(&lake, packs, &options).await.map_err(failure)?;
    let summary = match form(context, &arguments) {
        None => table(&scan, arguments.output.as_deref()).await?,
        Some(form) => report(&scan, form, arguments.output.as_deref()).await?,
    };
    // A scan that can't be entered into the log has still found what it found.
    if let Err(error) = scan.record(&mut lake, &summary).await {
        tracing::warn!(%error, "the scan isn't in the audit log: `--since last` won't know of it");
    }
    if !context.common.quiet {
        tell(&summary);
    }
    Ok(outcome(&summary, arguments.fail_on.into()))
}

fn find(names: &[&str]) -> Result<Vec<Pack>, Failure> {
    names.iter().map(|name| packs::find(name).map_err(failure)).collect()
}

/// `last`, or a version.
fn since(text: Option<&str>) -> Result<Since, Failure> {
    match text {
        None => Ok(Since::Beginning),
        Some("last") => Ok(Since::Last),
        Some(version) => version.parse().map(Since::Version).map_err(|_| {
            Failure::usage(format!(
                "`--since {version}` is no version; a number (see `gristmill describe`) and `last` are"
            ))
        }),
    }
}

/// The form that was asked for, or that the file's name asks for, or that suits where the output goes; `None` for the table.
fn form(context: &Context, arguments: &args::Scan) -> Option<Form> {
    let asked = arguments.format.or_else(|| {
        let name = arguments.output.as_ref()?.extension()?.to_str()?;
        Some(match name {
            "html" | "htm" => ReportFormat::Html,
            "sarif" => ReportFormat::Sarif,
            "json" => ReportFormat::Json,
            "jsonl" | "ndjson" => ReportFormat::Jsonl,
            _ => return None,
        })
    });
    let general = || match context.results.format {
        Some(args::Format::Json) => Some(ReportFormat::Json),
        Some(args::Format::Jsonl) => Some(ReportFormat::Jsonl),
        Some(_) => Some(ReportFormat::Table),
        None => None,
    };
    let fitting = if io::stdout().is_terminal() { ReportFormat::Table } else { ReportFormat::Jsonl };
    match asked.or_else(general).unwrap_or(fitting) {
        ReportFormat::Table => None,
        ReportFormat::Json => Some(Form::Json),
        ReportFormat::Jsonl => Some(Form::Jsonl),
        ReportFormat::Sarif => Some(Form::Sarif),
        ReportFormat::Html => Some(Form::Html),
    }
}

/// Writes the report while the scan runs. A file appears under its name only when it is whole.
async fn report(scan: &Scan, form: Form, output: Option<&std::path::Path>) -> Result<Summary, Failure> {
    let Some(path) = output else {
        return write_report(scan, form, BufWriter::with_capacity(1 << 16, io::stdout())).await;
    };
    let fault =
        |error: &dyn std::fmt::Display| Failure::environment(&format!("can't write `{}`", path.display()), error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."));
    let file = tempfile::Builder::new().prefix(".scan-").tempfile_in(folder).map_err(|error| fault(&error))?;
    let out: File = file.reopen().map_err(|error| fault(&error))?;
    let summary = write_report(scan, form, BufWriter::with_capacity(1 << 16, out)).await?;
    file.persist(path).map_err(|error| fault(&error.error))?;
    Ok(summary)
}

async fn write_report(scan: &Scan, form: Form, out: impl Write) -> Result<Summary, Failure> {
    let mut reporter = Reporter::begin(out, form, scan).map_err(failure)?;
    let summary = scan.run(|rule, finding| reporter.finding(rule, finding)).await.map_err(failure)?;
    reporter.finish(scan, &summary).map_err(failure)?;
    Ok(summary)
}

/// Rules with findings, the gravest first, with an example each.
async fn table(scan: &Scan, output: Option<&std::path::Path>) -> Result<Summary, Failure> {
    let mut digest = Digest::new(scan.rules().len());
    let take = |rule: &Rule, finding: &packs::Finding| {
        digest.add(rule, finding);
        Ok(())
    };
    let summary = scan.run(take).await.map_err(failure)?;
    let mut rows: Vec<(usize, &Rule, u64)> = scan
        .rules()
        .iter()
        .enumerate()
        .map(|(place, rule)| (place, rule, summary.rules.get(&rule.id).map_or(0, |count| count.findings)))
        .filter(|(_, _, findings)| *findings > 0)
        .collect();
    rows.sort_by_key(|(_, rule, findings)| (std::cmp::Reverse(rule.severity), std::cmp::Reverse(*findings)));
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["severity", "rule", "norm", "findings", "for example"]);
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (place, rule, findings) in rows {
        let example = digest.samples(place).first().map(|finding| rule.message.render(&finding.evidence));
        let severity = rule.severity.name().to_owned();
        table.add_row([severity, rule.id.clone(), rule.norm.clone(), grouped(findings), example.unwrap_or_default()]);
    }
    let text = if summary.findings > 0 { format!("{table}\n") } else { "no findings\n".to_owned() };
    match output {
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Failure::environment(&format!("can't write `{}`", path.display()), &error))?,
        None => write_out(|out| out.write_all(text.as_bytes()))?,
    }
    Ok(summary)
}

fn tell(summary: &Summary) {
    let broken = summary.rules.values().filter(|count| count.findings > 0).count();
    eprintln!(
        "{} findings of {broken} of {} rules in {} grains, {:.1} s",
        grouped(summary.findings),
        summary.rules.len(),
        grouped(summary.scope.grains),
        summary.seconds
    );
    for (id, count) in &summary.rules {
        if let Some(first) = &count.first_failure {
            eprintln!("{id} failed on {} views; the first failure: {first}", grouped(count.failures));
        }
    }
}

fn outcome(summary: &Summary, fail_on: Severity) -> Outcome {
    let grave = Severity::ALL.into_iter().filter(|severity| *severity >= fail_on);
    let found: u64 = grave.filter_map(|severity| summary.findings_by_severity.get(severity.name())).sum();
    if found > 0 || summary.failures > 0 { Outcome::Problems } else { Outcome::Done }
}

impl From<args::FailOn> for Severity {
    fn from(fail_on: args::FailOn) -> Severity {
        match fail_on {
            args::FailOn::Note => Severity::Note,
            args::FailOn::Warning => Severity::Warning,
            args::FailOn::Error => Severity::Error,
        }
    }
}

/// Runs the examples of packs.
async fn test(names: &[String]) -> Result<Outcome, Failure> {
    let mut all = 0;
    let mut wrong = 0;
    for name in names {
        let pack = packs::find(name).map_err(failure)?;
        let results = run_examples(&pack).await.map_err(failure)?;
        let text: String = results.iter().map(line).collect();
        write_out(|out| out.write_all(text.as_bytes()))?;
        all += results.len();
        wrong += results.iter().filter(|result| !result.is_right()).count();
    }
    eprintln!("{} of {all} examples as they should be", all - wrong);
    Ok(if wrong == 0 { Outcome::Done } else { Outcome::Problems })
}

fn line(result: &ExampleResult) -> String {
    let ExampleResult { rule, example, expected, found, messages } = result;
    if result.is_right() {
        return format!("ok    {rule} [[test]] {example}: {found} findings\n");
    }
    let told: String = messages.iter().map(|message| format!("        {message}\n")).collect();
    format!("WRONG {rule} [[test]] {example}: {found} findings, not {expected}\n{told}")
}

fn failure(error: PackError) -> Failure {
    match error {
        PackError::Query(error) => sql::failure(error),
        PackError::Engine(error) => error.into(),
        // A closed standard output ends the printing, not in an error.
        PackError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Failure::usage(other.to_string()),
    }
}

//! Output of `cal`: responses and syntax trees, for people, as plain text or as JSON.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use gristmill_queries::cal::Statement;
use gristmill_queries::cal::ast::SourceBody;
use gristmill_queries::exec::{Answer, Response, ResultEntry};
use gristmill_queries::render::escape_control;
use gristmill_schemas::json::Json;

use super::cal_table::{grain_table, record_table};
use crate::args::OutputFormat;
use crate::exit::Failure;
use crate::human_readable::counted;
use crate::log::note;
use crate::output::{Printer, write_stdout};
use crate::table::TableLayout;

/// Note on a search by ABOUT or LIKE that found nothing.
pub(super) const WHOLE_WORDS: &str = "ABOUT and LIKE find whole words only; `gristmill search \
                                      'WORD*'` also finds longer forms of a word, `'WORD~'` \
                                      typing errors";

/// Form of printed responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Printing {
    /// Tables and text for people.
    People(Printer),
    /// The text that a statement requests, unchanged, other answers like those for people.
    Text(Printer),
    /// JSON with line breaks.
    Pretty,
    /// JSON on one line.
    Line,
}

impl Printing {
    /// Returns the form for the format of `printer`.
    pub(super) fn of(printer: Printer) -> Result<Printing, Failure> {
        match printer.format() {
            OutputFormat::Table => Ok(Printing::People(printer)),
            OutputFormat::Text => Ok(Printing::Text(printer)),
            OutputFormat::Json => Ok(Printing::Pretty),
            OutputFormat::Jsonl => Ok(Printing::Line),
            OutputFormat::Csv | OutputFormat::Arrow => Err(Failure::usage(
                "`cal` returns a response object: use --format table, text, json or jsonl",
            )),
        }
    }

    /// Returns true if errors are printed as JSON too.
    pub(super) fn is_json(self) -> bool {
        matches!(self, Printing::Pretty | Printing::Line)
    }

    /// Returns the form with grains as records, or in a table.
    pub(super) fn with_records(self, records: bool) -> Printing {
        match self {
            Printing::People(printer) => Printing::People(printer.with_records(records)),
            Printing::Text(printer) => Printing::Text(printer.with_records(records)),
            json => json,
        }
    }

    /// Returns whether grains are printed as records.
    pub(super) fn prints_records(self) -> bool {
        match self {
            Printing::People(printer) | Printing::Text(printer) => printer.prints_records(),
            Printing::Pretty | Printing::Line => false,
        }
    }
}

pub(super) fn print(json: &Json<'_>, printing: Printing) -> Result<(), Failure> {
    let text = match printing {
        Printing::Line => json.to_string(),
        Printing::People(_) | Printing::Text(_) | Printing::Pretty => pretty(json),
    };
    write_stdout(|out| writeln!(out, "{text}"))
}

/// Formats JSON with line breaks and indents; numbers keep their spelling.
fn pretty(json: &Json<'_>) -> String {
    let mut text = String::new();
    indent(json, 0, &mut text);
    text
}

fn indent(json: &Json<'_>, depth: usize, out: &mut String) {
    match json {
        Json::Array(items) if !items.is_empty() => {
            indent_members(('[', ']'), items, depth, out, |item, out| {
                indent(item, depth + 1, out);
            });
        }
        Json::Object(object) if !object.is_empty() => {
            indent_members(
                ('{', '}'),
                object.iter(),
                depth,
                out,
                |(key, value), out| {
                    Json::from(key.to_owned()).write(out);
                    out.push_str(": ");
                    indent(value, depth + 1, out);
                },
            );
        }
        scalar => scalar.write(out),
    }
}

/// Writes members between brackets, one per line.
fn indent_members<M>(
    (open, close): (char, char),
    members: impl IntoIterator<Item = M>,
    depth: usize,
    out: &mut String,
    mut write: impl FnMut(M, &mut String),
) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    out.push(open);
    for (at, member) in members.into_iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        line(depth + 1, out);
        write(member, out);
    }
    line(depth, out);
    out.push(close);
}

/// Prints a response.
pub(super) fn show(response: &Response, printing: Printing) -> Result<(), Failure> {
    let (printer, is_verbatim) = match printing {
        Printing::People(printer) => (printer, false),
        Printing::Text(printer) => (printer, !std::io::stdout().is_terminal()),
        Printing::Pretty | Printing::Line => return print(&response.to_json(), printing),
    };
    let answer = &response.answer;
    let text = for_people(answer, printer.layout())?;
    let text = match is_verbatim && requested_text(answer).is_some() {
        true => Cow::Borrowed(text.as_str()),
        false => escape_control(&text),
    };
    write_stdout(|out| out.write_all(text.as_bytes()))
}

/// Prints the warnings of an answer and, if it is of grains, their number, with the milliseconds
/// that it took if they are given.
pub(super) fn print_notes(answer: &Answer, took: Option<u64>) {
    for warning in &answer.warnings {
        note(format_args!(
            "{}: {}",
            warning.code.as_str(),
            warning.message
        ));
    }
    if answer.value.is_none() && answer.plan.is_none() && answer.entries.is_none() {
        let time = took.map_or_else(String::new, |took| format!(", {took} ms"));
        let counts = match &answer.assembly {
            Some(assembly) => assembly.summary(),
            None if answer.total == 0 && answer.written.is_none() => "no grains match".to_owned(),
            None => {
                let all = counted(answer.total, "grain", "grains");
                format!("{} of {all}", grains_of(answer).count())
            }
        };
        note(format_args!("{counts}{time}"));
    }
}

/// Returns true if ABOUT or LIKE found nothing, in the statement or in a source of an ASSEMBLE.
pub(super) fn is_unmatched_search(statement: &Statement, answer: &Answer) -> bool {
    match statement {
        Statement::Recall(recall) => {
            recall.searches_words() && answer.total == 0 && answer.value.is_none()
        }
        Statement::Assemble(assemble) => {
            let counts = answer.assembly.iter().flat_map(|usage| &usage.sources);
            let mut sources = assemble.sources.iter().zip(counts);
            sources.any(|(source, count)| {
                let searches = match &source.body {
                    SourceBody::Recall(recall) => recall.searches_words(),
                    SourceBody::Binding(_) => false,
                };
                searches && count.matched == 0 && !count.failed
            })
        }
        _ => false,
    }
}

/// Formats an answer for people: the requested text, otherwise values, otherwise a table of grains
/// or of other records.
fn for_people(answer: &Answer, layout: TableLayout) -> Result<String, Failure> {
    if let Some(records) = records_of(answer) {
        return record_table(records, layout);
    }
    if answer.written.is_none() && !has_own_text(answer) && !layout.records {
        return grain_table(answer, layout);
    }
    let mut out = String::new();
    for line in lines_of(answer) {
        out.push_str(&line);
        if !line.ends_with('\n') {
            out.push('\n');
        }
    }
    Ok(out)
}

/// Returns the records of an answer that is a list of records other than grains.
fn records_of(answer: &Answer) -> Option<&[Json<'static>]> {
    let list = match (&answer.changes, &answer.value) {
        (Some(changes), _) => changes,
        (None, Some(Json::Array(items))) if requested_text(answer).is_none() => items,
        _ => return None,
    };
    let is_of_records = list.iter().all(|item| matches!(item, Json::Object(_)));
    (is_of_records && !list.is_empty()).then_some(list)
}

/// Returns the text that the statement requests with AS or ASSEMBLE.
fn requested_text(answer: &Answer) -> Option<&String> {
    let context = answer.context.as_ref().map(|(_, text)| text);
    answer.formatted.as_ref().or(context)
}

/// Returns true if the answer isn't a list of grains.
fn has_own_text(answer: &Answer) -> bool {
    requested_text(answer).is_some()
        || answer.value.is_some()
        || answer.plan.is_some()
        || answer.entries.is_some()
}

fn lines_of(answer: &Answer) -> Vec<String> {
    if let Some(text) = requested_text(answer) {
        vec![text.clone()]
    } else if let Some(value) = &answer.value {
        values(value)
    } else if let Some(plan) = &answer.plan {
        vec![pretty(plan)]
    } else if let Some(entries) = &answer.entries {
        vec![pretty(&Json::Object(entries.iter().cloned().collect()))]
    } else {
        grains_of(answer)
            .map(|(group, entry)| record(group, entry))
            .collect()
    }
}

fn values(value: &Json<'_>) -> Vec<String> {
    match value {
        Json::Array(items) => items.iter().flat_map(values).collect(),
        other => vec![
            other
                .as_str()
                .map_or_else(|| other.to_string(), str::to_owned),
        ],
    }
}

/// Returns the grains of an answer with their group, if they are grouped.
pub(super) fn grains_of(answer: &Answer) -> impl Iterator<Item = (Option<&str>, &ResultEntry)> {
    let groups = answer.groups.iter().flatten();
    let grouped = groups.flat_map(|(value, group)| {
        let grains = group.iter();
        grains.map(move |entry| (Some(value.as_str()), entry))
    });
    let is_grouped = answer.groups.is_some();
    let listed = answer.results.iter().filter(move |_| !is_grouped);
    grouped.chain(listed.map(|entry| (None, entry)))
}

/// Formats a grain as a record: its address and all its fields.
fn record(group: Option<&str>, entry: &ResultEntry) -> String {
    let group = group.map_or_else(String::new, |group| format!("  {group}"));
    format!(
        "── {}{group} ──\n{}",
        entry.content_address,
        pretty(&Json::Object(entry.grain.reborrow()))
    )
}

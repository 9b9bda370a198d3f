//! Output of `cal`: responses and syntax trees, for people or as JSON.

use std::io::Write;

use gristmill_queries::exec::Response;
use gristmill_queries::render::escape_control;
use gristmill_schemas::json::{Json, Object};

use crate::args::OutputFormat;
use crate::exit::Failure;
use crate::log::note;
use crate::output::{Printer, write_stdout};

/// Form of printed responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Printing {
    /// Text for people.
    People,
    /// JSON with line breaks.
    Pretty,
    /// JSON on one line.
    Line,
}

impl Printing {
    /// Returns the form for the format of `printer`.
    pub(super) fn of(printer: Printer) -> Result<Printing, Failure> {
        match printer.format() {
            OutputFormat::Table => Ok(Printing::People),
            OutputFormat::Json => Ok(Printing::Pretty),
            OutputFormat::Jsonl => Ok(Printing::Line),
            OutputFormat::Csv | OutputFormat::Arrow => Err(Failure::usage(
                "`cal` returns a response object: use --format table, json or jsonl",
            )),
        }
    }
}

pub(super) fn print(json: &Json<'_>, printing: Printing) -> Result<(), Failure> {
    let text = match printing {
        Printing::Line => json.to_string(),
        Printing::People | Printing::Pretty => pretty(json),
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
pub(super) fn show(response: &Response, printing: Printing, timing: bool) -> Result<(), Failure> {
    if printing != Printing::People {
        return print(&response.to_json(), printing);
    }
    let text = for_people(response);
    write_stdout(|out| out.write_all(escape_control(&text).as_bytes()))?;
    for warning in &response.answer.warnings {
        note(format_args!(
            "{}: {}",
            warning.code.as_str(),
            warning.message
        ));
    }
    let answer = &response.answer;
    if answer.value.is_none() && answer.plan.is_none() && answer.entries.is_none() {
        let time = if timing {
            format!(", {} ms", response.duration_ms)
        } else {
            String::new()
        };
        eprintln!("{} of {} grains{time}", answer.results.len(), answer.total);
    }
    Ok(())
}

/// Formats a response for people: the requested text, otherwise values, otherwise one line per
/// grain.
fn for_people(response: &Response) -> String {
    let mut out = String::new();
    for line in lines_of(response) {
        out.push_str(&line);
        if !line.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

fn lines_of(response: &Response) -> Vec<String> {
    let answer = &response.answer;
    let context = answer.context.as_ref().map(|(_, text)| text);
    if let Some(text) = answer.formatted.as_ref().or(context) {
        vec![text.clone()]
    } else if let Some(value) = &answer.value {
        values(value)
    } else if let Some(plan) = &answer.plan {
        vec![pretty(plan)]
    } else if let Some(entries) = &answer.entries {
        vec![pretty(&Json::Object(entries.iter().cloned().collect()))]
    } else if let Some(groups) = &answer.groups {
        let mut lines = Vec::new();
        for (value, group) in groups {
            lines.push(value.clone());
            let grains = group.iter();
            lines.extend(
                grains.map(|entry| format!("  {}", grain(&entry.content_address, &entry.grain))),
            );
        }
        lines
    } else if let Some(changes) = &answer.changes {
        changes.iter().map(ToString::to_string).collect()
    } else {
        let grains = answer.results.iter();
        grains
            .map(|entry| grain(&entry.content_address, &entry.grain))
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

/// Number of digits of an address that are shown, enough to identify the grain in another
/// statement.
const ADDRESS_DIGITS: usize = 12;

fn grain(address: &str, grain: &Object<'_>) -> String {
    let address = address.get(..ADDRESS_DIGITS).unwrap_or(address);
    format!("{address}  {}", Json::Object(grain.reborrow()))
}

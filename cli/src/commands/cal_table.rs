//! Grains of a CAL answer as a table: type, time, person, text and short address, or the fields of
//! SELECT.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use gristmill_queries::exec::{Answer, ResultEntry};
use gristmill_queries::render::projection::content;
use gristmill_queries::render::text_format::{iso_time, one_line, text_of};
use gristmill_queries::render::{GrainView, RenderGrain};
use gristmill_schemas::json::{Json, Object};

use super::cal_output::grains_of;
use crate::exit::Failure;
use crate::table::{TableLayout, render};

/// Number of digits of an address that are shown, enough to identify the grain in another
/// statement.
const ADDRESS_DIGITS: usize = 12;

/// Maximum number of characters of a text.
const EXCERPT: usize = 160;

/// Formats the grains of `answer` as a table; the text of an empty answer is empty.
pub(super) fn grain_table(answer: &Answer, layout: TableLayout) -> Result<String, Failure> {
    let grains: Vec<_> = grains_of(answer).collect();
    if grains.is_empty() {
        return Ok(String::new());
    }
    let rows: Vec<Vec<(String, String)>> = grains
        .iter()
        .map(|(group, entry)| {
            let group = group.map(|group| ("group".to_owned(), group.to_owned()));
            let cells = match &answer.rows {
                Some(_) => selected(entry),
                None => summary(entry),
            };
            group.into_iter().chain(cells).collect()
        })
        .collect();
    let layout = TableLayout {
        uncounted: true,
        ..layout
    };
    table(&rows, layout)
}

/// Formats JSON objects as a table with a column for each member.
pub(super) fn record_table(
    records: &[Json<'static>],
    layout: TableLayout,
) -> Result<String, Failure> {
    let cells = |record: &Json<'static>| {
        let members = record.as_object().into_iter().flat_map(Object::iter);
        members
            .map(|(name, value)| (name.to_owned(), text_of(value)))
            .collect()
    };
    table(&records.iter().map(cells).collect::<Vec<_>>(), layout)
}

fn table(rows: &[Vec<(String, String)>], layout: TableLayout) -> Result<String, Failure> {
    batch_of(rows)
        .and_then(|batch| render(&batch.schema(), std::slice::from_ref(&batch), layout))
        .map_err(|error| Failure::environment("can't print the table", &error))
}

/// Returns the fields that SELECT kept, and the address.
fn selected(entry: &ResultEntry) -> Vec<(String, String)> {
    let fields = entry.grain.iter();
    let fields = fields.map(|(name, value)| (name.to_owned(), excerpt(&text_of(value))));
    fields
        .chain([("address".to_owned(), short_address(entry))])
        .collect()
}

/// Returns what a reader needs to recognise a grain. The score is that of a search.
fn summary(entry: &ResultEntry) -> Vec<(String, String)> {
    let view = GrainView::from_json(&entry.content_address, entry.grain.reborrow());
    let mut cells = Vec::new();
    if entry.score < 1.0 {
        cells.push(("score", format!("{:.3}", entry.score)));
    }
    if let Some(view) = view {
        cells.push(("type", view.grain_type().name().to_owned()));
        cells.push(("time", time_of(&view)));
        cells.push(("who", person(&view)));
        cells.push(("text", excerpt(&content(&view))));
    }
    cells.push(("address", short_address(entry)));
    let cells = cells.into_iter();
    cells.map(|(name, cell)| (name.to_owned(), cell)).collect()
}

/// Returns whom a grain is about or from: its subject, otherwise the user and the role.
fn person(grain: &GrainView<'_>) -> String {
    let text = |name: &str| grain.field(name).map(text_of);
    match (text("subject"), text("user_id"), text("role")) {
        (Some(subject), ..) => subject,
        (None, Some(user), Some(role)) => format!("{user} ({role})"),
        (None, user, role) => user.or(role).unwrap_or_default(),
    }
}

/// Returns the creation time to the second, in UTC.
fn time_of(grain: &GrainView<'_>) -> String {
    let time = iso_time(grain.created_at());
    time.get(..19).unwrap_or(&time).replace('T', " ")
}

fn short_address(entry: &ResultEntry) -> String {
    let address = &entry.content_address;
    address.get(..ADDRESS_DIGITS).unwrap_or(address).to_owned()
}

/// Returns the beginning of a text on one line.
fn excerpt(text: &str) -> String {
    let text = one_line(text);
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Returns the names in `rows`, each once, in the order of their first occurrence.
fn column_names(rows: &[Vec<(String, String)>]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    // The address is last, whichever fields the first grain has.
    names.sort_by_key(|name| *name == "address");
    names
}

/// Builds a batch with a column for each name in `rows`.
fn batch_of(rows: &[Vec<(String, String)>]) -> Result<RecordBatch, arrow::error::ArrowError> {
    let names = column_names(rows);
    let column = |name: &str| -> ArrayRef {
        let cells = rows.iter().map(|row| {
            let cell = row.iter().rfind(|(own, _)| own == name);
            cell.map(|(_, text)| text.as_str())
        });
        Arc::new(cells.collect::<StringArray>())
    };
    RecordBatch::try_from_iter_with_nullable(names.iter().map(|name| (*name, column(name), true)))
}

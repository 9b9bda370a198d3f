//! Human-readable form of results: one member per line; lists of similar records, and records that
//! contain similar records, are tables. Further lines of a text are indented, so that none of them
//! looks like a member or an item of its own.

use serde_json::{Map, Number, Value};

/// Maximum number of list items in human-readable output.
const MAX_LIST_ITEMS: usize = 5;

/// Maximum number of rows of a table in human-readable output.
const MAX_TABLE_ROWS: usize = 20;

/// Maximum width of a table; wider records are printed with one member per line.
const MAX_TABLE_WIDTH: usize = 100;

/// The member whose members are data of users rather than part of a report.
const GRAIN: &str = "grain";

/// What is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// What a command reports: names of members have spaces for underscores, numbers have
    /// separators.
    Report,
    /// Data of users, whose names and numbers are unchanged.
    Data,
}

/// Formats a result for people: one member per line, nested ones indented.
pub fn human_readable(value: &Value) -> String {
    let mut out = String::new();
    write_members(value, Style::Report, 0, &mut out);
    out
}

fn write_members(value: &Value, style: Style, indent: usize, out: &mut String) {
    let Value::Object(members) = value else {
        out.push_str(&format!(
            "{:indent$}{}\n",
            "",
            indented(value, style, indent + 2)
        ));
        return;
    };
    let widths = members.keys().map(|key| key.chars().count());
    let width = widths.max().unwrap_or(0);
    for (key, value) in members {
        let name = label_of(key, style);
        match value {
            Value::Null => {}
            Value::Object(inner) if inner.is_empty() => {}
            Value::Array(items) if items.is_empty() => {}
            Value::Object(inner) => {
                out.push_str(&format!("{:indent$}{name}\n", ""));
                let named = inner
                    .iter()
                    .map(|(name, value)| (Some(name.as_str()), value));
                let style = if key == GRAIN { Style::Data } else { style };
                match table_of(&named.collect::<Vec<_>>(), style) {
                    Some(lines) => write_lines(&lines, indent + 2, out),
                    None => write_members(value, style, indent + 2, out),
                }
            }
            Value::Array(items) => {
                out.push_str(&format!("{:indent$}{name}\n", ""));
                write_items(items, style, indent, out);
            }
            scalar => {
                let text = indented(scalar, style, indent + width + 2);
                out.push_str(&format!("{:indent$}{name:width$}  {text}\n", ""));
            }
        }
    }
}

/// Returns a single value as text, with its further lines indented by `indent`.
fn indented(value: &Value, style: Style, indent: usize) -> String {
    plain(value, style).replace('\n', &format!("\n{:indent$}", ""))
}

/// Writes the first items of a list, and how many were left out.
fn write_items(items: &[Value], style: Style, indent: usize, out: &mut String) {
    let first: Vec<_> = items
        .iter()
        .take(MAX_TABLE_ROWS)
        .map(|item| (None, item))
        .collect();
    let shown = match table_of(&first, style) {
        Some(lines) => {
            write_lines(&lines, indent + 2, out);
            first.len()
        }
        None => {
            for (at, item) in items.iter().take(MAX_LIST_ITEMS).enumerate() {
                // Records of several lines need a line between them.
                if at > 0 && item.is_object() {
                    out.push('\n');
                }
                write_members(item, style, indent + 2, out);
            }
            MAX_LIST_ITEMS
        }
    };
    if let Some(more @ 1..) = items.len().checked_sub(shown) {
        let more = with_separators(more as u64);
        out.push_str(&format!(
            "{:indent$}  … and {more} more; use --format json to see all\n",
            ""
        ));
    }
}

fn write_lines(lines: &[String], indent: usize, out: &mut String) {
    for line in lines {
        out.push_str(&format!("{:indent$}{line}\n", ""));
    }
}

/// Formats two or more records of single values as a table with a header, one line per record. A
/// name of the record, if there is one, is the first column.
///
/// Returns `None` if they are too few, have other values, or need too much width.
fn table_of(records: &[(Option<&str>, &Value)], style: Style) -> Option<Vec<String>> {
    let objects: Option<Vec<&Map<String, Value>>> = records
        .iter()
        .map(|(_, record)| record.as_object().filter(|record| is_flat(record)))
        .collect();
    let objects = objects.filter(|objects| objects.len() > 1)?;
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in objects.iter().flat_map(|object| object.iter()) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    let is_named = records.iter().any(|(name, _)| name.is_some());
    let mut columns: Vec<TableColumn> = keys
        .iter()
        .map(|key| TableColumn::of(key, &objects, style))
        .collect();
    if is_named {
        let names = records.iter().map(|(name, _)| name.unwrap_or_default());
        columns.insert(0, TableColumn::of_names(names.map(on_one_line).collect()));
    }
    let lines: Vec<String> = (0..=records.len())
        .map(|line| {
            let cells: Vec<String> = columns.iter().map(|column| column.cell(line)).collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect();
    let width = lines.iter().map(|line| line.chars().count()).max();
    (width <= Some(MAX_TABLE_WIDTH)).then_some(lines)
}

/// Returns true if each value fits a cell: it is no structure, and no text of several lines or with
/// tabs, which would look like further rows or columns.
fn is_flat(record: &Map<String, Value>) -> bool {
    let fits = |value: &Value| match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => !text.contains(['\n', '\t']),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    };
    !record.is_empty() && record.values().all(fits)
}

/// A column of a table of records.
struct TableColumn {
    /// The header, then a cell per record.
    cells: Vec<String>,
    is_numeric: bool,
    width: usize,
}

impl TableColumn {
    fn of(key: &str, records: &[&Map<String, Value>], style: Style) -> TableColumn {
        let values = || records.iter().filter_map(|record| record.get(key));
        let cell = |record: &&Map<String, Value>| match record.get(key) {
            None | Some(Value::Null) => String::new(),
            Some(value) => plain(value, style),
        };
        let cells = std::iter::once(label_of(key, style))
            .chain(records.iter().map(cell))
            .collect();
        TableColumn::new(
            cells,
            values().all(|value| value.is_number() || value.is_null()),
        )
    }

    fn of_names(names: Vec<String>) -> TableColumn {
        let cells = std::iter::once(String::new()).chain(names).collect();
        TableColumn::new(cells, false)
    }

    fn new(cells: Vec<String>, is_numeric: bool) -> TableColumn {
        let width = cells.iter().map(|cell| cell.chars().count()).max();
        TableColumn {
            cells,
            is_numeric,
            width: width.unwrap_or(0),
        }
    }

    /// Returns a cell, padded to the width of the column; line 0 is the header.
    fn cell(&self, line: usize) -> String {
        let (cell, width) = (self.cells.get(line).map_or("", |cell| cell), self.width);
        match self.is_numeric {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        }
    }
}

/// Returns a member name with spaces for underscores. Keys that are data (of grains, error codes,
/// paths) are unchanged.
fn label_of(key: &str, style: Style) -> String {
    match style == Style::Data || key.chars().any(char::is_uppercase) {
        true => on_one_line(key),
        false => on_one_line(&key.replace('_', " ")),
    }
}

/// Returns a name with its line feeds and tabs visible.
fn on_one_line(name: &str) -> String {
    name.replace('\n', "\\n").replace('\t', "\\t")
}

fn plain(value: &Value, style: Style) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if style == Style::Report => plain_number(number),
        other => other.to_string(),
    }
}

fn plain_number(number: &Number) -> String {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(whole), ..) => with_separators(whole),
        (None, Some(below), _) => format!("-{}", with_separators(below.unsigned_abs())),
        (None, None, Some(fraction)) if fraction >= 1_000.0 => {
            with_separators(fraction.round() as u64)
        }
        (None, None, Some(fraction)) if fraction <= -1_000.0 => {
            format!("-{}", with_separators(fraction.abs().round() as u64))
        }
        (None, None, Some(fraction)) => format!("{fraction:.2}"),
        (None, None, None) => number.to_string(),
    }
}

/// Formats a number of things, such as `1 finding` and `1,200 findings`.
pub fn counted(number: u64, one: &str, several: &str) -> String {
    let thing = if number == 1 { one } else { several };
    format!("{} {thing}", with_separators(number))
}

/// Formats a number with thousands separators.
pub fn with_separators(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_of_single_values_are_a_table() {
        let text = human_readable(&json!({
            "lake": "x",
            "tables": {"grains": {"rows": 3000, "last_commit": null}, "state": {"rows": 56}},
            "problems": [{"file": "a.mg", "offset": 7}, {"file": "long.mg", "offset": 12}],
        }));
        assert_eq!(
            text,
            "lake      x\ntables\n           rows  last commit\n  grains  3,000\n  state      \
             56\nproblems\n  file     offset\n  a.mg          7\n  long.mg      12\n"
        );
    }

    #[test]
    fn names_and_numbers_of_a_grain_are_unchanged() {
        let text = human_readable(&json!({
            "grain_count": 1200,
            "grain": {"input": {"my_key": 12345678}, "created_at": 1750000000000_u64, "n": 0.304},
        }));
        assert_eq!(
            text,
            "grain count  1,200\ngrain\n  input\n    my_key  12345678\n  created_at  \
             1750000000000\n  n           0.304\n"
        );
    }

    #[test]
    fn one_thing_is_singular() {
        assert_eq!(counted(1, "row", "rows"), "1 row");
        assert_eq!(counted(1_200, "row", "rows"), "1,200 rows");
    }

    #[test]
    fn wide_or_nested_records_have_a_line_per_member() {
        let long = "x".repeat(MAX_TABLE_WIDTH);
        let text = human_readable(&json!({"a": [{"b": long, "c": 1}, {"b": "y", "c": 2}]}));
        assert!(text.contains("  c  1\n\n  b  y\n  c  2\n"), "{text}");
        let text = human_readable(&json!({"a": [{"b": [1]}, {"b": [2]}]}));
        assert!(text.contains("  b\n    1\n"), "{text}");
    }

    #[test]
    fn no_line_of_a_text_looks_like_a_member_an_item_or_a_row() {
        let text = human_readable(&json!({
            "reference": "x\nvalid  true",
            "names": ["a\nb"],
            "kept": {"c\nd": 1},
            "rows": [{"e": "f\ng"}, {"e": "h\ti"}],
        }));
        assert_eq!(
            text,
            "reference  x\n           valid  true\nnames\n  a\n    b\nkept\n  c\\nd  1\n\
             rows\n  e  f\n     g\n\n  e  h\ti\n"
        );
    }

    #[test]
    fn long_lists_have_the_number_of_what_is_left_out() {
        let rows: Vec<_> = (0..25).map(|n| json!({"n": n})).collect();
        let text = human_readable(&json!({"a": rows}));
        assert!(
            text.ends_with("  19\n  … and 5 more; use --format json to see all\n"),
            "{text}"
        );
    }
}

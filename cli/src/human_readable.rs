//! Human-readable form of results: one member per line.

use serde_json::{Number, Value};

/// Maximum number of list items in human-readable output.
const MAX_LIST_ITEMS: usize = 5;

/// Formats a result for people: one member per line, nested ones indented.
pub fn human_readable(value: &Value) -> String {
    let mut out = String::new();
    write_members(value, 0, &mut out);
    out
}

fn write_members(value: &Value, indent: usize, out: &mut String) {
    let Value::Object(members) = value else {
        out.push_str(&format!("{:indent$}{}\n", "", plain(value)));
        return;
    };
    let widths = members.keys().map(|key| key.chars().count());
    let width = widths.max().unwrap_or(0);
    for (key, value) in members {
        let name = label_of(key);
        match value {
            Value::Null => {}
            Value::Object(inner) if inner.is_empty() => {}
            Value::Array(items) if items.is_empty() => {}
            Value::Object(_) => {
                out.push_str(&format!("{:indent$}{name}\n", ""));
                write_members(value, indent + 2, out);
            }
            Value::Array(items) => {
                out.push_str(&format!("{:indent$}{name}\n", ""));
                write_items(items, indent, out);
            }
            scalar => out.push_str(&format!("{:indent$}{name:width$}  {}\n", "", plain(scalar))),
        }
    }
}

/// Writes the first items of a list, and how many were left out.
fn write_items(items: &[Value], indent: usize, out: &mut String) {
    for item in items.iter().take(MAX_LIST_ITEMS) {
        write_members(item, indent + 2, out);
    }
    if let Some(more @ 1..) = items.len().checked_sub(MAX_LIST_ITEMS) {
        let more = with_separators(more as u64);
        out.push_str(&format!(
            "{:indent$}  … and {more} more; use --format json to see all\n",
            ""
        ));
    }
}

/// Returns a member name with spaces for underscores. Keys that are data (error codes, paths) are
/// unchanged.
fn label_of(key: &str) -> String {
    match key.chars().any(char::is_uppercase) {
        true => key.to_owned(),
        false => key.replace('_', " "),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => plain_number(number),
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

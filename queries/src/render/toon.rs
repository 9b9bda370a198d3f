//! TOON: tables of one header and one row per grain (CAL 1.0, section 10.9; digest, section 9.2).

use std::fmt::Write;

use super::document::{AssemblyHeading, GrainEntry, grouped};
use super::projection::ProjectedGrain;
use super::{DetailLevel, RenderStyle};
use crate::cal::{GrainType, TypeName};

/// Cell of a missing value.
const MISSING: &str = "null";

/// Renders the tables of a RECALL: rows without indent, a blank line between types.
pub fn recall(entries: &[GrainEntry], style: &RenderStyle) -> String {
    tables(entries, style, "").join("\n\n")
}

/// Renders the head and the tables of an ASSEMBLE: indented rows, a blank line between types.
pub fn assembly(heading: &AssemblyHeading, entries: &[GrainEntry], style: &RenderStyle) -> String {
    let mut out = String::new();
    for (key, value) in [("context", heading.name), ("intent", heading.intent)] {
        if let Some(value) = value {
            let _ = writeln!(out, "{key}: {}", text_cell(value));
        }
    }
    let _ = writeln!(out, "{}: {}/{}", heading.unit, heading.used, heading.total);
    out.push_str(&tables(entries, style, "  ").join("\n\n"));
    out.truncate(out.trim_end_matches('\n').len());
    out
}

/// Renders the row of one grain, which determines its cost against a budget.
pub fn row(projected: &ProjectedGrain, style: &RenderStyle) -> String {
    let columns = columns(projected.grain_type, &[projected], style);
    cells(projected, &columns)
}

fn tables(entries: &[GrainEntry], style: &RenderStyle, indent: &str) -> Vec<String> {
    let groups = grouped(entries).into_iter();
    let tables = groups.map(|(grain_type, group)| {
        let rows: Vec<&ProjectedGrain> = group.iter().map(|entry| &entry.projected).collect();
        let columns = columns(grain_type, &rows, style);
        let mut table = format!(
            "{}[{}]{{{}}}:",
            grain_type.plural(),
            rows.len(),
            columns.join(",")
        );
        for projected in rows {
            let _ = write!(table, "\n{indent}{}", cells(projected, &columns));
        }
        table
    });
    tables.collect()
}

fn columns(grain_type: GrainType, rows: &[&ProjectedGrain], style: &RenderStyle) -> Vec<String> {
    if rows.iter().all(|row| row.is_explicit) {
        return chosen_columns(rows);
    }
    let mut columns: Vec<&str> = match grain_type {
        GrainType::Belief => vec!["subject", "content", "confidence"],
        GrainType::Event => vec!["role", "time", "content"],
        GrainType::Goal => vec!["subject", "content", "state"],
        GrainType::Action => vec!["tool", "phase", "content"],
        GrainType::Observation => vec!["observer", "content"],
        GrainType::Reasoning => vec!["type", "content"],
        GrainType::State => vec!["context", "content"],
        GrainType::Workflow => vec!["trigger", "content"],
        GrainType::Consensus => vec!["threshold", "count", "content"],
        GrainType::Consent => vec!["grantor", "grantee", "action", "content"],
    };
    match style.level {
        DetailLevel::Summary => {
            columns.retain(|column| !matches!(*column, "confidence" | "state" | "phase" | "type"))
        }
        DetailLevel::Standard | DetailLevel::Full => {
            if rows.iter().any(|row| row.attribute("deadline").is_some()) {
                columns.push("deadline");
            }
        }
    }
    if style.level == DetailLevel::Full {
        columns.extend(["source", "observed"]);
    }
    let mut columns: Vec<String> = columns.into_iter().map(str::to_owned).collect();
    // Grains of sources with and without PROJECT share one table per type.
    add_named(&mut columns, rows);
    columns
}

/// Returns the columns of a PROJECT: the text, then the attributes of all rows in order of first
/// appearance.
fn chosen_columns(rows: &[&ProjectedGrain]) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    if rows.iter().any(|row| row.content.is_some()) {
        columns.push("content".to_owned());
    }
    add_named(&mut columns, rows);
    columns
}

fn add_named(columns: &mut Vec<String>, rows: &[&ProjectedGrain]) {
    for name in rows.iter().flat_map(|row| &row.named) {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
}

fn cells(projected: &ProjectedGrain, columns: &[String]) -> String {
    let cell = |column: &String| match (column.as_str(), &projected.content) {
        ("content", Some(content)) => text_cell(content),
        _ => attribute_cell(projected, column),
    };
    columns.iter().map(cell).collect::<Vec<_>>().join(",")
}

fn attribute_cell(projected: &ProjectedGrain, column: &str) -> String {
    let found = projected
        .attributes
        .iter()
        .chain(&projected.hidden)
        .find(|attribute| attribute.name == column);
    match found {
        Some(attribute) if attribute.is_literal => attribute.value.clone(),
        Some(attribute) => text_cell(&attribute.value),
        None => MISSING.to_owned(),
    }
}

/// Returns a text, quoted if TOON would parse it as something else.
fn text_cell(text: &str) -> String {
    if !needs_quotes(text) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn needs_quotes(text: &str) -> bool {
    text.trim() != text
        || matches!(text, "" | "true" | "false" | "null")
        || text.starts_with('-')
        || looks_like_number(text)
        || text.chars().any(|character| {
            matches!(character, ',' | ':' | '"' | '\\' | '[' | ']' | '{' | '}')
                || character.is_control()
        })
}

/// Returns true for a decimal number with an optional fraction and exponent.
fn looks_like_number(text: &str) -> bool {
    let mantissa = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return false;
            }
            mantissa
        }
        None => text,
    };
    crate::cal::Number::parse(mantissa).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_toon_requires_it() {
        for (text, cell) in [
            ("plain text", "plain text"),
            ("", "\"\""),
            (" a", "\" a\""),
            ("true", "\"true\""),
            ("True", "True"),
            ("42", "\"42\""),
            ("-1.5", "\"-1.5\""),
            ("1e6", "\"1e6\""),
            ("05", "\"05\""),
            ("1a", "1a"),
            ("-x", "\"-x\""),
            ("a,b", "\"a,b\""),
            ("a: b", "\"a: b\""),
            ("[x]", "\"[x]\""),
            ("say \"x\"", "\"say \\\"x\\\"\""),
            ("a\\b", "\"a\\\\b\""),
            ("a\nb", "\"a\\nb\""),
            ("日本", "日本"),
        ] {
            assert_eq!(text_cell(text), cell, "{text:?}");
        }
    }
}

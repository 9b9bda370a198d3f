//! The page of everything that a lake holds about a person, written while it is found.

use std::io::{self, Write};

use gristmill_engine::erase::{Disclosed, ErasurePlan};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{Pages, now};

const TEMPLATE: &str = include_str!("subject_page.html");

/// Longest value of a field on the page in characters; longer ones are cut, with a note.
const LONGEST_VALUE: usize = 4_000;

/// The head of the page.
#[derive(Debug, Serialize)]
pub struct SubjectPageHead<'p> {
    /// The requested identifiers.
    pub people: &'p [String],
    /// What was searched and found.
    pub plan: &'p ErasurePlan,
    /// Version of the table `grains`.
    pub lake_version: u64,
}

/// A page that is written one item after another, so that its size is bounded by the disk only.
/// Nothing is written before the first item or the end.
pub struct SubjectPage<W> {
    pages: Pages,
    /// The head, until it is written.
    head: String,
    out: W,
    items: u64,
}

/// A field of an item.
#[derive(Serialize)]
struct FieldRow {
    name: String,
    value: String,
}

impl<W: Write> SubjectPage<W> {
    /// Begins a page with `head`, which goes to `out` before the first item.
    ///
    /// # Errors
    /// If the head can't be rendered.
    pub fn begin(out: W, head: &SubjectPageHead<'_>) -> io::Result<SubjectPage<W>> {
        let pages = Pages::new(TEMPLATE).map_err(io::Error::other)?;
        let kept: u64 = head.plan.excluded.values().sum();
        let head = pages.render(&json!({
            "head": {
                "people": head.people,
                "plan": head.plan,
                "kept": kept,
                "lake_version": head.lake_version,
                "now": now(),
            }
        }));
        Ok(SubjectPage {
            pages,
            head: head.map_err(io::Error::other)?,
            out,
            items: 0,
        })
    }

    /// Writes an item.
    ///
    /// # Errors
    /// Those of the output.
    pub fn item(&mut self, held: &Disclosed) -> io::Result<()> {
        self.items += 1;
        let (title, fields) = described(held);
        let kept = held.kept.as_ref().and_then(|kept| {
            let kept = serde_json::to_value(kept).ok()?;
            Some(kept["reason"].as_str()?.replace('_', " "))
        });
        self.write(&json!({
            "item": {
                "title": title,
                "address": held.content_address,
                "found_by": held.found_by,
                "kept": kept,
                "fields": fields,
            }
        }))
    }

    /// Writes the end of the page and returns the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        let version = env!("CARGO_PKG_VERSION");
        self.write(&json!({ "foot": { "items": self.items, "version": version } }))?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write(&mut self, variables: &Json) -> io::Result<()> {
        let text = self.pages.render(variables).map_err(io::Error::other)?;
        let head = std::mem::take(&mut self.head);
        self.out.write_all(head.as_bytes())?;
        self.out.write_all(text.as_bytes())
    }
}

/// Returns the title of an item and its fields.
fn described(held: &Disclosed) -> (String, Vec<FieldRow>) {
    let object = if let Some(grain) = &held.grain {
        serde_json::from_str(grain.get()).unwrap_or_default()
    } else if let Some(event) = &held.event {
        json!(event)
    } else if let Some(source) = &held.source {
        json!(source)
    } else {
        json!({ "bytes": held.bytes_hex })
    };
    let kind = object["type"].as_str().map(str::to_owned);
    let title = kind.unwrap_or_else(|| {
        match held.table {
            "rejects" => "refused record",
            "state" => "lifecycle event",
            "sources" => "source",
            _ => "grain that can't be decoded",
        }
        .to_owned()
    });
    let Json::Object(members) = object else {
        return (title, Vec::new());
    };
    let rows = members
        .into_iter()
        .filter(|(name, value)| name != "type" && !value.is_null());
    let rows = rows.map(|(name, value)| FieldRow {
        value: shown(&name, &value),
        name,
    });
    (title, rows.collect())
}

/// Returns a value as text: times with their date, texts as they are, others as JSON.
fn shown(name: &str, value: &Json) -> String {
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Number(number) if name.ends_with("_at") || name.starts_with("valid_") => number
            .as_i64()
            .and_then(chrono::DateTime::from_timestamp_millis)
            .map_or_else(|| number.to_string(), |time| time.to_rfc3339()),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}… ({} bytes in all)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_readable_and_not_endless() {
        assert_eq!(shown("content", &json!("tea")), "tea");
        assert_eq!(shown("created_at", &json!(0)), "1970-01-01T00:00:00+00:00");
        assert_eq!(shown("tags", &json!(["a", 1])), "[\"a\",1]");
        let long = shown("content", &json!("é".repeat(LONGEST_VALUE + 1)));
        assert!(long.ends_with("… (8002 bytes in all)"), "{long}");
    }
}

//! The fields of a grain that match a search, and a snippet: all of its text if it is short, else
//! the part around the first match, or the beginning if no word matches.

use gristmill_schemas::grain::{Field, Grain};

use super::query::{Phrase, SearchTerms};
use crate::text::words::{fold_into, split};
use crate::text::{text_fields, visit_texts};

/// The display of a match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Highlight {
    /// The fields that contain a required phrase, in the order of the type's text fields.
    pub fields: Vec<Field>,
    /// All texts of the grain if they are short; else the text around the first match, in the text
    /// that contains most parts of the search; without a match the beginning. At most
    /// `SNIPPET_BYTES`; `…` marks omissions.
    pub snippet: String,
}

/// Maximal length of a snippet in bytes, without `…`.
pub const SNIPPET_BYTES: usize = 160;

/// Bytes of a snippet before the first match.
const BEFORE: usize = 40;

/// Returns the fields and the snippet of `grain` that match `terms`.
pub fn highlight(grain: &Grain<'_>, terms: &SearchTerms) -> Highlight {
    let mut found = Highlight::default();
    let (mut most, mut beginning) = (0, String::new());
    for field in grain.grain_type().map_or(&[][..], text_fields) {
        visit_texts(grain, *field, &mut |text| {
            // The blocks of a message usually have the text of `content` again.
            if *field != Field::ContentBlocks || !beginning.contains(text) {
                append(&mut beginning, text);
            }
            let Some((matched, first)) = matched(text, terms) else {
                return;
            };
            if found.fields.last() != Some(field) {
                found.fields.push(*field);
            }
            if matched > most {
                most = matched;
                found.snippet = snippet(text, first);
            }
        });
    }
    if found.snippet.is_empty() || beginning.len() <= SNIPPET_BYTES {
        found.snippet = snippet(&beginning, 0);
    }
    found
}

/// Appends `text` to the beginning of a grain's texts until that is longer than a snippet.
fn append(beginning: &mut String, text: &str) {
    if beginning.len() <= SNIPPET_BYTES {
        let separator = if beginning.is_empty() { "" } else { " " };
        let end = text.floor_char_boundary(2 * SNIPPET_BYTES);
        beginning.push_str(separator);
        beginning.push_str(&text[..end]);
    }
}

/// Returns the number of parts of the search that `text` contains, and where the first begins.
fn matched(text: &str, terms: &SearchTerms) -> Option<(usize, usize)> {
    let mut words = Vec::new();
    for (start, word) in split(text) {
        let mut folded = String::new();
        fold_into(word, &mut folded);
        words.push((start, folded));
    }
    let begins = |phrase: &Phrase| {
        let stands = |at: &[(usize, String)]| at.iter().map(|(_, word)| word).eq(phrase);
        words
            .windows(phrase.len().max(1))
            .find(|window| stands(window))
            .and_then(|window| Some(window.first()?.0))
    };
    let found = terms
        .required
        .iter()
        .filter_map(|alternatives| alternatives.iter().filter_map(begins).min());
    let places: Vec<usize> = found.collect();
    Some((places.len(), *places.iter().min()?))
}

/// Returns where the part of `text` around the byte `first` begins: after a space, if there is
/// one.
fn start_before(text: &str, first: usize) -> usize {
    match text.floor_char_boundary(first.saturating_sub(BEFORE)) {
        0 => 0,
        start => text[start..first]
            .find(char::is_whitespace)
            .map_or(start, |space| start + space),
    }
}

/// Returns the part of `text` around the byte `first`.
fn snippet(text: &str, first: usize) -> String {
    let start = start_before(text, first);
    let end = text.floor_char_boundary(text.len().min(start + SNIPPET_BYTES));
    let end = match text[start..end].rfind(char::is_whitespace) {
        Some(space) if end < text.len() && start + space > first => start + space,
        _ => end,
    };
    let (before, after) = (
        if start > 0 { "…" } else { "" },
        if end < text.len() { "…" } else { "" },
    );
    let shown: Vec<&str> = text[start..end].split_whitespace().collect();
    format!("{before}{}{after}", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_beginning_is_cut_like_any_text() {
        let mut beginning = String::new();
        for text in [
            "Ada Brennan",
            "prefers",
            &"tea ".repeat(500),
            "never appended",
        ] {
            append(&mut beginning, text);
        }
        assert!(beginning.starts_with("Ada Brennan prefers tea tea "));
        assert!(beginning.len() <= 3 * SNIPPET_BYTES && !beginning.contains("never"));
        assert!(snippet(&beginning, 0).ends_with("tea…"));
    }

    #[test]
    fn a_snippet_shows_the_match_and_marks_omissions() {
        let text = format!("{} green tea {}", "word ".repeat(40), "more ".repeat(60));
        let shown = snippet(&text, text.find("green").unwrap());
        assert!(
            shown.starts_with("…word") && shown.contains(" green tea ") && shown.ends_with("more…"),
            "{shown}"
        );
        assert!(shown.len() <= SNIPPET_BYTES + 2 * "…".len());
        assert_eq!(snippet("green\n tea", 0), "green tea");
        let long = "茶".repeat(200);
        assert!(snippet(&long, 300).len() <= SNIPPET_BYTES + 2 * "…".len());
    }
}

//! Formats CAL errors with the source line and carets below the word that the error is about.

use std::fmt::Write;

use gristmill_queries::cal::{CalError, Code};

/// How the statement that the suggestion for syntax errors names is run from a shell.
const GRAMMAR: &str = "`gristmill cal --format text 'DESCRIBE grammar'` prints it; it is also in \
                       docs/cal-grammar.md";

/// Maximum number of characters of a line that are shown.
const SHOWN: usize = 120;

/// Formats the error for people; `text` is the parsed source.
pub fn render(error: &CalError, text: &[u8]) -> String {
    let mut out = format!("{}: {}", error.code(), error.message());
    if let Some(position) = error.position() {
        point(
            &mut out,
            &String::from_utf8_lossy(text),
            position.line,
            position.column,
            position.end - position.start,
        );
    } else if !error.pointer().is_empty() {
        let _ = write!(out, "\n  at {}", error.pointer());
    }
    let _ = write!(out, "\n  {}", error.suggestion());
    if error.suggestion() == Code::E002.advice() {
        let _ = write!(out, "\n  {GRAMMAR}");
    }
    out
}

fn point(out: &mut String, text: &str, line: usize, column: usize, length: usize) {
    let Some(shown) = text.split('\n').nth(line - 1) else {
        return;
    };
    let characters: Vec<char> = shown
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    let at = (column - 1).min(characters.len());
    // A long line is cut so that it starts shortly before the word.
    let from = if characters.len() > SHOWN {
        at.saturating_sub(SHOWN / 3)
    } else {
        0
    };
    let window: String = characters.iter().skip(from).take(SHOWN).collect();
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let left = at - from;
    let carets = length
        .clamp(1, SHOWN.saturating_sub(left).max(1))
        .min(characters.len().saturating_sub(at).max(1));
    let _ = write!(
        out,
        "\n{margin} |\n{number} | {}\n{margin} | {}{}",
        window.trim_end(),
        " ".repeat(left),
        "^".repeat(carets)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_queries::cal::{Options, parse};

    fn shown(text: &str) -> String {
        render(
            &parse(text, Options::default()).unwrap_err(),
            text.as_bytes(),
        )
    }

    #[test]
    fn carets_are_below_the_word() {
        let text = shown("RECALL beliefs\nWHERE subjekt = \"alice\"");
        assert!(
            text.contains("\n  |\n2 | WHERE subjekt = \"alice\"\n  |       ^^^^^^^\n"),
            "{text}"
        );
    }

    #[test]
    fn a_suggestion_to_read_the_grammar_comes_with_the_command_that_prints_it() {
        let command = "\n  `gristmill cal --format text 'DESCRIBE grammar'` prints it";
        let text = shown("RECALL beliefs ABOUT 5");
        assert!(
            text.contains("against `DESCRIBE grammar`.") && text.contains(command),
            "{text}"
        );
        let text = shown("RECALL beliefs WHERE subjekt = \"alice\"");
        assert!(!text.contains(command), "{text}");
    }

    #[test]
    fn a_multibyte_character_is_one_column() {
        let text = shown("RECALL WHERE object = \"éé\" AND nope = 1");
        assert!(
            text.contains("\n  |                                ^^^^\n"),
            "{text}"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_word_and_an_empty_one_is_accepted() {
        let long = format!(
            "RECALL WHERE object = \"{}\" AND nope = 1",
            "x".repeat(4000)
        );
        let text = shown(&long);
        assert!(
            text.lines().all(|line| line.chars().count() < 140) && text.contains("^^^^"),
            "{text}"
        );
        assert!(shown("").starts_with("CAL-E014"));
    }
}

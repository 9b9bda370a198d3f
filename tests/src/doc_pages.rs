//! Fenced blocks of the documentation, and the commands in them.
//!
//! A `console` block has commands after `$ ` with the lines that they print; a `sh` block has
//! commands alone. A line of expected output matches any text at `…`; a line `…` matches any lines.

use std::path::PathBuf;

use crate::paths::workspace;

/// One fenced block of a page.
#[derive(Debug, Clone)]
pub struct DocBlock {
    /// The page, relative to the repository.
    pub page: String,
    /// Number of the line after the opening fence, from 1.
    pub line: usize,
    /// The word after the opening fence.
    pub language: String,
    /// The lines of the block.
    pub text: String,
}

/// A command of a `console` block with its expected output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocCommand {
    /// The command; continued lines are kept as they are.
    pub command: String,
    /// The expected lines.
    pub expected: Vec<String>,
}

/// Returns the pages of the documentation that contain commands, relative to the repository.
///
/// # Panics
/// If `docs/` can't be read.
pub fn doc_pages() -> Vec<String> {
    let folder = std::fs::read_dir(workspace().join("docs")).expect("docs/");
    let mut pages: Vec<String> = folder
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .filter_map(|path: PathBuf| Some(format!("docs/{}", path.file_name()?.to_str()?)))
        .chain(["README.md", "CONTRIBUTING.md"].map(str::to_owned))
        .collect();
    pages.sort();
    pages
}

/// Returns the fenced blocks of a page.
///
/// # Panics
/// If the page can't be read.
pub fn blocks(page: &str) -> Vec<DocBlock> {
    let path = workspace().join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let mut blocks = Vec::new();
    let mut open: Option<DocBlock> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                open = Some(DocBlock {
                    page: page.to_owned(),
                    line: number + 1,
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

impl DocBlock {
    /// Returns the commands of a `console` block.
    pub fn commands(&self) -> Vec<DocCommand> {
        let mut commands: Vec<DocCommand> = Vec::new();
        let mut is_continued = false;
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (_, Some(last)) if is_continued => {
                    last.command.push('\n');
                    last.command.push_str(line);
                }
                (Some(command), _) => commands.push(DocCommand {
                    command: command.to_owned(),
                    expected: Vec::new(),
                }),
                (None, Some(last)) => last.expected.push(line.to_owned()),
                (None, None) => {}
            }
            let quotes = commands
                .last()
                .map_or(0, |last| last.command.matches('\'').count());
            let is_command = commands.last().is_some_and(|last| last.expected.is_empty());
            is_continued = is_command && (line.ends_with('\\') || quotes % 2 == 1);
        }
        commands
    }

    /// Returns the command lines of gristmill in the block, without what follows a pipe or a
    /// redirection.
    pub fn own_command_lines(&self) -> Vec<String> {
        let joined = self.text.replace("\\\n", " ");
        let prompt = if self.language == "console" { "$ " } else { "" };
        let lines = joined.lines().filter_map(|line| line.strip_prefix(prompt));
        lines
            .map(str::trim)
            .filter(|line| line.starts_with("gristmill "))
            .map(|line| until_operator(line).to_owned())
            .collect()
    }
}

/// Returns `line` up to the first pipe, redirection, comment or separator outside quotation marks.
fn until_operator(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        match quote {
            Some(open) if open == letter => quote = None,
            Some(_) => {}
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if "|>;&<".contains(letter) => return &line[..at],
            None if letter == '#' && before == ' ' => return &line[..at],
            None => {}
        }
        before = letter;
    }
    line
}

/// Returns whether `printed` is what `expected` describes.
pub fn output_matches(expected: &[String], printed: &[&str]) -> bool {
    match (expected.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((any, rest)), _) if any == "…" => {
            (0..=printed.len()).any(|skipped| output_matches(rest, &printed[skipped..]))
        }
        (Some((pattern, rest)), Some((line, others))) => {
            line_matches(pattern, line) && output_matches(rest, others)
        }
        _ => false,
    }
}

fn line_matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.trim_end().split('…');
    let line = line.trim_end();
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        last = Some(part);
        rest = &rest[at + part.len()..];
    }
    match last {
        None => rest.is_empty(),
        Some(part) => part.is_empty() || rest.is_empty() || line.ends_with(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> DocBlock {
        DocBlock {
            page: String::new(),
            line: 1,
            language: "console".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn commands_have_their_lines_and_their_output() {
        let commands =
            block("$ one\n$ two \\\n    more\nout\n\nput\n$ sql 'a\nb'\nrow\n").commands();
        let expected = [
            ("one", &[][..]),
            ("two \\\n    more", &["out", "", "put"]),
            ("sql 'a\nb'", &["row"]),
        ];
        let found: Vec<_> = commands
            .iter()
            .map(|found| (&*found.command, &found.expected[..]))
            .collect();
        assert_eq!(found.len(), expected.len(), "{commands:?}");
        for ((command, lines), (wanted, output)) in found.into_iter().zip(expected) {
            assert_eq!((command, lines.join("\n")), (wanted, output.join("\n")));
        }
    }

    #[test]
    fn a_command_line_ends_before_operators_outside_quotation_marks() {
        let lines =
            block("$ gristmill sql \"a > b\" | head\ngristmill 1.0\n$ gristmill a \\\n  b # c\n")
                .own_command_lines();
        assert_eq!(lines, ["gristmill sql \"a > b\" ", "gristmill a    b "]);
    }

    #[test]
    fn patterns_match_parts_of_lines_and_whole_lines() {
        let matches = |expected: &str, printed: &str| {
            let expected: Vec<String> = expected.lines().map(str::to_owned).collect();
            output_matches(&expected, &printed.lines().collect::<Vec<_>>())
        };
        assert!(matches("a … c\n…\nz", "a b c\nx\ny\nz"));
        assert!(matches("…", "") && matches("a\n…", "a") && matches("took … s", "took 1.5 s"));
        assert!(!matches("a … c", "a b d") && !matches("a", "a\nb") && !matches("a", "ab"));
        assert!(!matches("a\n…\nz", "a\nb"));
    }
}

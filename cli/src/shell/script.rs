//! Scripts of the query languages: statements of a file, a pipe or an argument, with commands of
//! the shell between them.
//!
//! As in the shell, a command is a line of its own. Unlike there, a line within a statement always
//! belongs to the statement, because it may be a part of a string.

use super::{ShellCommand, ShellInput, command, unknown_command};
use crate::exit::Failure;

/// A part of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptPart<'t> {
    /// Statements without commands between them.
    Statements(ScriptStatements<'t>),
    /// A command of the shell.
    Command(ShellCommand),
}

/// Statements of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptStatements<'t> {
    /// Their text.
    pub text: &'t str,
    /// Number of lines of the script before them.
    lines_before: usize,
}

impl ScriptStatements<'_> {
    /// Returns the text after as many empty lines as there are lines before it, so that positions
    /// of its errors are positions in the script.
    pub fn in_place(&self) -> String {
        "\n".repeat(self.lines_before) + self.text
    }
}

/// Splits a script into statements and commands, in order, up to the command `quit`.
///
/// # Errors
/// If there is an unknown command, with its line.
pub fn script_parts(text: &str) -> Result<Vec<ScriptPart<'_>>, Failure> {
    let mut parts = Vec::new();
    let mut open = OpenStatements::default();
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let found = if open.is_within { None } else { command(line) };
        offset += line.len();
        match found {
            None => open.read(line),
            Some(input) => {
                parts.extend(open.part(text, offset - line.len()));
                match input {
                    ShellInput::Command(ShellCommand::Unknown(name)) => {
                        let message = unknown_command(&name);
                        return Err(Failure::usage(format!("line {}: {message}", number + 1)));
                    }
                    ShellInput::Command(command) => parts.push(ScriptPart::Command(command)),
                    ShellInput::Text(_) | ShellInput::Nothing | ShellInput::End => {
                        return Ok(parts);
                    }
                }
                open = OpenStatements::after(offset, number + 1);
            }
        }
    }
    // The language decides about a script without statements.
    open.has_code |= parts.is_empty();
    parts.extend(open.part(text, text.len()));
    Ok(parts)
}

/// Statements since the last command.
#[derive(Default)]
struct OpenStatements {
    /// Where they begin, in bytes.
    start: usize,
    /// Number of lines before them.
    lines_before: usize,
    /// True if there is more than comments and empty lines.
    has_code: bool,
    /// True if the last statement hasn't ended.
    is_within: bool,
}

impl OpenStatements {
    fn after(start: usize, lines_before: usize) -> OpenStatements {
        OpenStatements {
            start,
            lines_before,
            ..OpenStatements::default()
        }
    }

    /// Adds a line that isn't a command.
    fn read(&mut self, line: &str) {
        let line = line.trim();
        let before_comment = line.split("--").next().unwrap_or_default().trim_end();
        let is_block_comment = line.starts_with("/*") && line.ends_with("*/");
        if before_comment.is_empty() || is_block_comment {
            return;
        }
        self.has_code = true;
        self.is_within = !(line.ends_with(';') || before_comment.ends_with(';'));
    }

    /// Returns the statements up to the byte `end` of `text`, if there are any.
    fn part<'t>(&self, text: &'t str, end: usize) -> Option<ScriptPart<'t>> {
        let text = text.get(self.start..end).filter(|_| self.has_code)?;
        Some(ScriptPart::Statements(ScriptStatements {
            text,
            lines_before: self.lines_before,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(text: &str, lines_before: usize) -> ScriptPart<'_> {
        ScriptPart::Statements(ScriptStatements { text, lines_before })
    }

    #[test]
    fn commands_are_lines_between_statements() {
        let script =
            "-- tables\n\\d\nSELECT 1; -- one\n/* records */\n\\x\r\nSELECT\n2;\n\\d grains";
        let parts = script_parts(script).unwrap();
        let expected = [
            ScriptPart::Command(ShellCommand::List),
            statements("SELECT 1; -- one\n/* records */\n", 2),
            ScriptPart::Command(ShellCommand::Records),
            statements("SELECT\n2;\n", 5),
            ScriptPart::Command(ShellCommand::Describe("grains".to_owned())),
        ];
        assert_eq!(parts, expected);
        let ScriptPart::Statements(second) = &parts[3] else {
            panic!("{parts:?}");
        };
        assert_eq!(second.in_place(), "\n\n\n\n\nSELECT\n2;\n");
    }

    #[test]
    fn a_line_within_a_statement_is_no_command() {
        for script in [
            "SELECT '\n\\d\n' AS a;",
            "SELECT 1\n\\x",
            "{\"recall\":\n\\x\n}",
            "",
            "-- nothing\n",
        ] {
            assert_eq!(script_parts(script).unwrap(), [statements(script, 0)]);
        }
    }

    #[test]
    fn a_script_ends_at_quit_and_an_unknown_command_is_an_error_with_its_line() {
        let parts = script_parts("SELECT 1;\n\\q\n\\what\nSELEKT").unwrap();
        assert_eq!(parts, [statements("SELECT 1;\n", 0)]);
        assert!(script_parts("quit\nSELEKT").unwrap().is_empty());
        let failure = script_parts("SELECT 1;\n\\what\n").unwrap_err().to_string();
        assert!(
            failure.contains("line 2: unknown shell command `\\what`"),
            "{failure}"
        );
    }
}

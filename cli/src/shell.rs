//! The interactive shell that query languages share: editing, history, completion, statements over
//! several lines, and commands of the shell's own.
//!
//! A command (`help`, `quit`, `\d` …) is a line of its own. It is obeyed at once, also in the
//! middle of a statement, which is given up then.
//!
//! What doesn't live here: what a statement does, and what a language makes of a command.

use std::path::PathBuf;

use reedline::{
    ColumnarMenu, DefaultCompleter, DefaultPrompt, DefaultPromptSegment, Emacs, FileBackedHistory,
    KeyCode, KeyModifiers, MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    ValidationResult, Validator, default_emacs_keybindings,
};

use crate::exit::Failure;

/// Statements that the history keeps.
const HISTORY: usize = 1_000;

/// Letters of a word before completion offers anything.
const COMPLETE_FROM: usize = 2;

/// Letters of words beside the alphabet.
const WORD_LETTERS: [char; 3] = ['_', ':', '.'];

const MENU: &str = "completions";

/// A shell for one language.
pub struct Shell {
    editor: Reedline,
    prompt: DefaultPrompt,
}

/// What the user entered.
#[derive(Debug, PartialEq, Eq)]
pub enum ShellInput {
    /// Statements, as typed.
    Text(String),
    /// A command of the shell.
    Command(ShellCommand),
    /// Nothing to run: an empty line, or one that was given up.
    Nothing,
    /// The end.
    End,
}

/// What a shell does besides running statements.
#[derive(Debug, PartialEq, Eq)]
pub enum ShellCommand {
    /// `help`, `\?`: which commands there are.
    Help,
    /// `\d`, `\dt`: what can be asked about.
    List,
    /// `\d NAME`: what it consists of.
    Describe(String),
    /// `\x`: records instead of tables, and back.
    Records,
    /// `\timing`: how long statements take, or not.
    Timing,
    /// Anything else behind a backslash.
    Unknown(String),
}

/// The commands, for `help`.
pub const COMMANDS: &str = "Commands, each on a line of its own:
  \\d, \\dt   list what can be asked about
  \\d NAME   describe one of them
  \\x        show records instead of tables, or tables again
  \\timing   show how long a statement takes, or don't
  help, \\?  this list
  quit, \\q  leave; Ctrl-D does too
A statement ends with `;` or an empty line and may span lines; Tab completes words.";

impl Shell {
    /// A shell whose prompt and history are named after `language`, and that completes `words`.
    pub fn new(language: &str, words: Vec<String>) -> Shell {
        let mut completer =
            DefaultCompleter::with_inclusions(&WORD_LETTERS).set_min_word_len(COMPLETE_FROM);
        completer.insert(words);
        let mut keys = default_emacs_keybindings();
        let complete = vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ];
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(complete),
        );
        let mut editor = Reedline::create()
            .with_completer(Box::new(completer))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(
                ColumnarMenu::default().with_name(MENU),
            )))
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_validator(Box::new(EndsWithSemicolon));
        // A shell without history is better than none.
        if let Some(history) =
            history_file(language).and_then(|file| FileBackedHistory::with_file(HISTORY, file).ok())
        {
            editor = editor.with_history(Box::new(history));
        }
        let left = DefaultPromptSegment::Basic(language.to_owned());
        Shell {
            editor,
            prompt: DefaultPrompt::new(left, DefaultPromptSegment::Empty),
        }
    }

    /// Waits for the user.
    pub fn read(&mut self) -> Result<ShellInput, Failure> {
        let signal = self
            .editor
            .read_line(&self.prompt)
            .map_err(|error| Failure::environment("can't read a line", &error))?;
        Ok(match signal {
            Signal::Success(line) => entry(&line),
            Signal::CtrlD => ShellInput::End,
            _ => ShellInput::Nothing,
        })
    }
}

/// What a line, or several, ask for: the last one decides, if it is a command or a word for the
/// end.
fn entry(text: &str) -> ShellInput {
    let last = text.trim_end().lines().next_back().unwrap_or_default();
    match command(last) {
        Some(entry) => entry,
        None if text.trim().is_empty() => ShellInput::Nothing,
        None => ShellInput::Text(text.trim().to_owned()),
    }
}

/// The command that `line` is, if it is one. No statement has a line that begins with a backslash,
/// or is just one of these words.
fn command(line: &str) -> Option<ShellInput> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (word, argument) = match line.split_once(char::is_whitespace) {
        Some((word, argument)) => (word, argument.trim()),
        None => (line, ""),
    };
    Some(match (word, argument) {
        ("quit" | "exit" | "\\q", "") => ShellInput::End,
        ("help" | "\\?" | "\\h", "") => ShellInput::Command(ShellCommand::Help),
        ("\\d" | "\\dt", "") => ShellInput::Command(ShellCommand::List),
        ("\\d" | "\\dt", name) => ShellInput::Command(ShellCommand::Describe(name.to_owned())),
        ("\\x", "") => ShellInput::Command(ShellCommand::Records),
        ("\\timing", "") => ShellInput::Command(ShellCommand::Timing),
        _ if word.starts_with('\\') => ShellInput::Command(ShellCommand::Unknown(line.to_owned())),
        _ => return None,
    })
}

/// `$XDG_STATE_HOME/gristmill/<language>_history`, below `~/.local/state` if that isn't set.
fn history_file(language: &str) -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("gristmill").join(format!("{language}_history")))
}

/// A statement may span lines; a semicolon, an empty line or a command closes it.
struct EndsWithSemicolon;

impl Validator for EndsWithSemicolon {
    fn validate(&self, text: &str) -> ValidationResult {
        let ended = text.trim_end().ends_with(';')
            || text.ends_with("\n\n")
            || !matches!(entry(text), ShellInput::Text(_));
        if ended {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_complete(text: &str) -> bool {
        matches!(EndsWithSemicolon.validate(text), ValidationResult::Complete)
    }

    #[test]
    fn a_statement_goes_on_until_its_semicolon() {
        assert!(!is_complete("SELECT 1"));
        assert!(!is_complete("SELECT 1\n"));
        assert!(is_complete("SELECT\n1;  "));
        assert!(is_complete("exit"));
        assert!(is_complete(""));
        assert_eq!(
            entry(" SELECT\n1; "),
            ShellInput::Text("SELECT\n1;".to_owned())
        );
    }

    #[test]
    fn a_command_is_obeyed_at_once_also_in_the_middle_of_a_statement() {
        let list = || ShellInput::Command(ShellCommand::List);
        let describe = |name: &str| ShellInput::Command(ShellCommand::Describe(name.to_owned()));
        for (line, expected) in [
            ("help", ShellInput::Command(ShellCommand::Help)),
            ("help;", ShellInput::Command(ShellCommand::Help)),
            ("\\?", ShellInput::Command(ShellCommand::Help)),
            ("\\d", list()),
            ("\\dt", list()),
            ("\\d grains", describe("grains")),
            ("\\x", ShellInput::Command(ShellCommand::Records)),
            (" \\timing ", ShellInput::Command(ShellCommand::Timing)),
            (
                "\\what now",
                ShellInput::Command(ShellCommand::Unknown("\\what now".to_owned())),
            ),
            ("quit", ShellInput::End),
            ("exit;", ShellInput::End),
            ("\\q", ShellInput::End),
        ] {
            assert!(is_complete(line), "{line}");
            assert_eq!(entry(line), expected, "{line}");
            let within = format!("SELECT *\nFROM\n{line}");
            assert!(is_complete(&within), "{within}");
            assert_eq!(entry(&within), expected, "{within}");
        }
        for statement in ["SELECT help", "quit_jobs", "SELECT 1 AS quit"] {
            assert!(
                !is_complete(statement) && matches!(entry(statement), ShellInput::Text(_)),
                "{statement}"
            );
        }
    }
}

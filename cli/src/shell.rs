//! The interactive shell of the query languages: editing, history, completion, multi-line
//! statements, and shell commands.
//!
//! A shell command (`help`, `quit`, `\d` …) is a line of its own. It runs at once, also in the
//! middle of a statement, which is then discarded. In files and pipes, [`script`] finds them.
//!
//! Not in this module: the execution of statements, and the meaning of shell commands in a
//! language.

pub mod script;

use std::path::PathBuf;

use reedline::{
    ColumnarMenu, DefaultCompleter, DefaultPrompt, DefaultPromptSegment, Emacs, FileBackedHistory,
    KeyCode, KeyModifiers, MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    ValidationResult, Validator, default_emacs_keybindings,
};

use crate::exit::Failure;

/// Number of statements in the history.
const HISTORY: usize = 1_000;

/// Minimum length of a word for completion.
const COMPLETE_FROM: usize = 2;

/// Characters of words in addition to letters and digits.
const WORD_LETTERS: [char; 3] = ['_', ':', '.'];

const MENU: &str = "completions";

/// A shell of one language.
pub struct Shell {
    editor: Reedline,
    prompt: DefaultPrompt,
}

/// Input of the user.
#[derive(Debug, PartialEq, Eq)]
pub enum ShellInput {
    /// Statements, as typed.
    Text(String),
    /// A shell command.
    Command(ShellCommand),
    /// Nothing to run: an empty or cancelled line.
    Nothing,
    /// End of input.
    End,
}

/// Commands of the shell.
#[derive(Debug, PartialEq, Eq)]
pub enum ShellCommand {
    /// `help`, `\?`: list the commands.
    Help,
    /// `\d`, `\dt`: list tables or grain types.
    List,
    /// `\d NAME`: describe one of them.
    Describe(String),
    /// `\df`: list functions, those with a text in their name if one is given.
    Functions(String),
    /// `\x`: toggle between records and tables.
    Records,
    /// `\timing`: toggle the display of execution times.
    Timing,
    /// Any other word after a backslash.
    Unknown(String),
}

/// Text of `help`.
pub const COMMANDS: &str = "Commands, each on a line of its own:
  \\d, \\dt     list the tables (SQL) or grain types (CAL)
  \\d NAME     describe one of them
  \\df [TEXT]  list the functions (SQL), or those with this text in their name
  \\x          toggle between tables and records
  \\timing     toggle the display of execution times
  help, \\?    show this list
  quit, \\q    leave the shell (or Ctrl-D)
A statement ends with `;` or an empty line and may span lines; Tab completes words.";

/// Returns the message for an unknown shell command.
pub fn unknown_command(text: &str) -> String {
    format!("unknown shell command `{text}`; `help` lists the commands")
}

impl Shell {
    /// Creates a shell with the prompt and history of `language` that completes `words`.
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
        // A missing history file must not prevent the shell from starting.
        let file = history_file(language).and_then(private_file);
        if let Some(history) =
            file.and_then(|file| FileBackedHistory::with_file(HISTORY, file).ok())
        {
            editor = editor.with_history(Box::new(history));
        }
        let left = DefaultPromptSegment::Basic(language.to_owned());
        Shell {
            editor,
            prompt: DefaultPrompt::new(left, DefaultPromptSegment::Empty),
        }
    }

    /// Reads the next input.
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

/// Interprets one or more lines: if the last line is a shell command, it takes precedence.
fn entry(text: &str) -> ShellInput {
    let last = text.trim_end().lines().next_back().unwrap_or_default();
    match command(last) {
        Some(entry) => entry,
        None if text.trim().is_empty() => ShellInput::Nothing,
        None => ShellInput::Text(text.trim().to_owned()),
    }
}

/// Parses `line` as a shell command. No statement has a line that starts with a backslash or
/// consists of one of these words.
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
        ("\\df", text) => ShellInput::Command(ShellCommand::Functions(text.to_owned())),
        ("\\x", "") => ShellInput::Command(ShellCommand::Records),
        ("\\timing", "") => ShellInput::Command(ShellCommand::Timing),
        _ if word.starts_with('\\') => ShellInput::Command(ShellCommand::Unknown(line.to_owned())),
        _ => return None,
    })
}

/// Returns `$XDG_STATE_HOME/gristmill/<language>_history`, by default below `~/.local/state`.
fn history_file(language: &str) -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("gristmill").join(format!("{language}_history")))
}

/// Creates `file` if it is missing, readable by its owner only: statements name people. Returns its
/// path, or `None` if it can't be written.
fn private_file(file: PathBuf) -> Option<PathBuf> {
    std::fs::create_dir_all(file.parent()?).ok()?;
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&file).ok()?;
    Some(file)
}

/// A statement may span lines; a semicolon, an empty line or a shell command ends it.
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

    #[cfg(unix)]
    #[test]
    fn the_history_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let file = private_file(folder.path().join("state/sql_history")).unwrap();
        FileBackedHistory::with_file(HISTORY, file.clone()).unwrap();
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    fn is_complete(text: &str) -> bool {
        matches!(EndsWithSemicolon.validate(text), ValidationResult::Complete)
    }

    #[test]
    fn a_statement_ends_at_its_semicolon() {
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
    fn a_shell_command_runs_at_once_even_within_a_statement() {
        let list = || ShellInput::Command(ShellCommand::List);
        let describe = |name: &str| ShellInput::Command(ShellCommand::Describe(name.to_owned()));
        for (line, expected) in [
            ("help", ShellInput::Command(ShellCommand::Help)),
            ("help;", ShellInput::Command(ShellCommand::Help)),
            ("\\?", ShellInput::Command(ShellCommand::Help)),
            ("\\d", list()),
            ("\\dt", list()),
            ("\\d grains", describe("grains")),
            (
                "\\df json",
                ShellInput::Command(ShellCommand::Functions("json".to_owned())),
            ),
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

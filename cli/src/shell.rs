//! The interactive shell that query languages share: editing, history, completion, statements over several lines.
//!
//! What doesn't live here: what a statement does.

use std::path::PathBuf;

use reedline::{
    ColumnarMenu, DefaultCompleter, DefaultPrompt, DefaultPromptSegment, Emacs, FileBackedHistory, KeyCode,
    KeyModifiers, MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu, Signal, ValidationResult, Validator,
    default_emacs_keybindings,
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
pub enum Entry {
    /// Statements, as typed.
    Text(String),
    /// Nothing to run: an empty line, or one that was given up.
    Nothing,
    /// The end.
    End,
}

impl Shell {
    /// A shell whose prompt and history are named after `language`, and that completes `words`.
    pub fn new(language: &str, words: Vec<String>) -> Shell {
        let mut completer = DefaultCompleter::with_inclusions(&WORD_LETTERS).set_min_word_len(COMPLETE_FROM);
        completer.insert(words);
        let mut keys = default_emacs_keybindings();
        let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
        let mut editor = Reedline::create()
            .with_completer(Box::new(completer))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(ColumnarMenu::default().with_name(MENU))))
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_validator(Box::new(EndsWithSemicolon));
        // A shell without history is better than none.
        if let Some(history) = history_file(language).and_then(|file| FileBackedHistory::with_file(HISTORY, file).ok())
        {
            editor = editor.with_history(Box::new(history));
        }
        let left = DefaultPromptSegment::Basic(language.to_owned());
        Shell { editor, prompt: DefaultPrompt::new(left, DefaultPromptSegment::Empty) }
    }

    /// Waits for the user.
    pub fn read(&mut self) -> Result<Entry, Failure> {
        let signal =
            self.editor.read_line(&self.prompt).map_err(|error| Failure::environment("can't read a line", &error))?;
        Ok(match signal {
            Signal::Success(line) => entry(&line),
            Signal::CtrlD => Entry::End,
            _ => Entry::Nothing,
        })
    }
}

fn entry(line: &str) -> Entry {
    match line.trim() {
        "" => Entry::Nothing,
        "quit" | "exit" | "\\q" | "quit;" | "exit;" => Entry::End,
        text => Entry::Text(text.to_owned()),
    }
}

/// `$XDG_STATE_HOME/gristmill/<language>_history`, below `~/.local/state` if that isn't set.
fn history_file(language: &str) -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("gristmill").join(format!("{language}_history")))
}

/// A statement may span lines; a semicolon, an empty line or a word for the end closes it.
struct EndsWithSemicolon;

impl Validator for EndsWithSemicolon {
    fn validate(&self, line: &str) -> ValidationResult {
        let text = line.trim_end();
        let ended = text.ends_with(';') || line.ends_with("\n\n") || entry(text) != Entry::Text(text.trim().to_owned());
        if ended { ValidationResult::Complete } else { ValidationResult::Incomplete }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_goes_on_until_its_semicolon() {
        let complete = |line| matches!(EndsWithSemicolon.validate(line), ValidationResult::Complete);
        assert!(!complete("SELECT 1"));
        assert!(!complete("SELECT 1\n"));
        assert!(complete("SELECT\n1;  "));
        assert!(complete("exit"));
        assert!(complete(""));
    }
}

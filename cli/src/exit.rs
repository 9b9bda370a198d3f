//! Exit codes and error messages.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | wrong usage, or a problem of the environment |
//! | 2 | done with findings, or stopped at a damaged file of the lake |
//! | 3 | refused by policy |
//! | 4 | conflict with another writer, after retries |
//! | 130 | interrupted; the lake is as it was at the last commit |
//! | 143 | terminated (SIGTERM); the lake is as it was at the last commit |

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;

use clap::error::ErrorKind;
use gristmill_connectors::ConnectorError;
use gristmill_engine::error::EngineError;
use gristmill_queries::render::escape_control;

use crate::log::note;
use crate::termination::INTERRUPTED;

/// Result of a command that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Completed without problems.
    Done,
    /// Completed, but the data has problems.
    Problems,
}

impl CommandOutcome {
    /// Returns `Done` if there are no problems.
    pub fn done_if(is_fine: bool) -> CommandOutcome {
        match is_fine {
            true => CommandOutcome::Done,
            false => CommandOutcome::Problems,
        }
    }
}

/// Reason why a command failed.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

const SUCCESS: u8 = 0;
const ENVIRONMENT: u8 = 1;
const DATA: u8 = 2;
const POLICY: u8 = 3;
const CONFLICT: u8 = 4;

impl Failure {
    /// Wrong usage.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure {
            code: ENVIRONMENT,
            message: message.into(),
        }
    }

    /// A problem of the environment.
    pub fn environment(what: &str, cause: &dyn Display) -> Failure {
        Failure {
            code: ENVIRONMENT,
            message: format!("{what}: {cause}"),
        }
    }

    /// A file can't be read.
    pub fn reading(path: &Path, cause: &dyn Display) -> Failure {
        Failure::environment(&format!("can't read `{}`", path.display()), cause)
    }

    /// A file can't be written.
    pub fn writing(path: &Path, cause: &dyn Display) -> Failure {
        Failure::environment(&format!("can't write `{}`", path.display()), cause)
    }

    /// A refusal by policy.
    pub fn policy(message: impl Into<String>) -> Failure {
        Failure {
            code: POLICY,
            message: message.into(),
        }
    }

    /// Returns the failure with what failed in front of its message.
    pub fn within(self, what: &str) -> Failure {
        Failure {
            message: format!("{what}: {}", self.message),
            ..self
        }
    }

    /// A problem of the data that prevents the command from completing.
    pub fn data(message: impl Into<String>) -> Failure {
        Failure {
            code: DATA,
            message: message.into(),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "gristmill: {}", self.message)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Failure::from(&error)
    }
}

impl From<&EngineError> for Failure {
    fn from(error: &EngineError) -> Self {
        let code = match error {
            EngineError::Refused { .. }
            | EngineError::RefusedLine { .. }
            | EngineError::NotAbsent(_) => DATA,
            EngineError::Policy(_) => POLICY,
            EngineError::Conflict(_) => CONFLICT,
            EngineError::Interrupted => INTERRUPTED,
            damage if damage.is_damage() => DATA,
            _ => ENVIRONMENT,
        };
        let message = match error {
            // These have a remedy of their own.
            EngineError::Damaged { .. } | EngineError::TableLost { .. } => error.to_string(),
            damage if damage.is_damage() => with_remedy_of_damage(damage),
            other => match other.to_string() {
                message if is_of_removed_file(&message) => with_remedy_of_damage(&message),
                message => message,
            },
        };
        Failure { code, message }
    }
}

/// Returns the message of an error about a damaged file, with what to do.
pub fn with_remedy_of_damage(error: &dyn Display) -> String {
    let message = error.to_string();
    let meanwhile = match is_of_removed_file(&message) {
        true => {
            "an erasure may have removed it meanwhile: run the command again; if it fails \
                 again, "
        }
        false => "",
    };
    format!(
        "{message}; {meanwhile}a file is damaged or lost, and `gristmill verify` names those of \
         the lake"
    )
}

/// Returns whether `message` is about a data file of a lake that isn't there. All are there when a
/// lake in a folder is opened. Some libraries pass on no more than the text of an error.
fn is_of_removed_file(message: &str) -> bool {
    message.contains("/part-") && message.contains("No such file")
}

impl From<ConnectorError> for Failure {
    fn from(error: ConnectorError) -> Self {
        Failure {
            code: ENVIRONMENT,
            message: error.to_string(),
        }
    }
}

/// Prints a failure and returns the exit code.
pub fn report(outcome: Result<CommandOutcome, Failure>) -> u8 {
    match outcome {
        Ok(CommandOutcome::Done) => SUCCESS,
        Ok(CommandOutcome::Problems) => DATA,
        Err(failure) => {
            note(&failure);
            failure.code
        }
    }
}

/// Prints a message of clap about the command line `words`: help is a success, a wrong command line
/// is not.
pub fn usage(error: &clap::Error, words: &[OsString]) -> u8 {
    if error.kind() == ErrorKind::InvalidUtf8 {
        return report(Err(Failure::usage(not_unicode(words))));
    }
    // Unknown arguments are quoted in the message, such as a file name that a shell pattern
    // expanded to. If any argument contains control characters, the whole message is escaped and
    // printed without colours.
    if words
        .iter()
        .any(|word| matches!(escape_control(&word.to_string_lossy()), Cow::Owned(_)))
    {
        note(error.render().to_string().trim_end());
        return ENVIRONMENT;
    }
    // A closed standard output is not an error.
    let _ = error.print();
    if error.use_stderr() {
        ENVIRONMENT
    } else {
        SUCCESS
    }
}

/// Returns the message for arguments, or variables of the environment, that aren't UTF-8. That of
/// clap names none of them.
fn not_unicode(words: &[OsString]) -> String {
    let words = words.iter().filter(|word| word.to_str().is_none());
    let mut found: Vec<String> = words
        .map(|word| format!("`{}`", word.to_string_lossy()))
        .collect();
    if found.is_empty() {
        // A value may be secret.
        found = std::env::vars_os()
            .filter(|(_, value)| value.to_str().is_none())
            .map(|(name, _)| format!("the value of {}", name.to_string_lossy()))
            .filter(|name| name.contains("GRISTMILL_"))
            .collect();
    }
    format!(
        "not valid UTF-8: {}; type it in UTF-8, or rename the file",
        found.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_an_erasure_may_have_removed_is_no_damage_before_the_second_attempt() {
        let file = |path: &str, cause: std::io::Error| EngineError::File {
            what: "can't read",
            path: path.to_owned(),
            cause: cause.into(),
        };
        let part = "grains/part-01m8mk4xncx1dny0wkn43xtvf9.parquet";
        let removed = Failure::from(file(part, std::io::Error::from_raw_os_error(2)));
        assert_eq!(removed.code, DATA);
        assert!(
            removed.message.contains("run the command again"),
            "{removed}"
        );
        let damaged = "can't read `grains/part-1.parquet`: Parquet error: eof";
        let damaged = with_remedy_of_damage(&damaged);
        assert!(!damaged.contains("again"), "{damaged}");
        let other = Failure::from(file("retention.toml", std::io::Error::from_raw_os_error(2)));
        assert_eq!(other.code, ENVIRONMENT);
        assert!(!other.message.contains("again"), "{other}");
    }
}

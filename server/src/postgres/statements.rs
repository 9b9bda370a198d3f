//! Statements about the session, which clients send without being asked to: transactions, settings,
//! cursors. A session reads one version of the lake per query and has no settings, so they are
//! accepted and change nothing.

use gristmill_queries::sql::DataFusionError;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, Set, Statement as SqlStatement};
use pgwire::error::PgWireResult;

use super::catalog::rewritten;
use super::failure::error;
use super::session::SERVER_VERSION;

/// What a statement asks for.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    /// Rows of the lake.
    Query(Box<Statement>),
    /// Something about the session.
    Reply(Reply),
}

/// Answer to a statement about the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// A transaction begins.
    Begin,
    /// A transaction ends; the tag of the command.
    End(&'static str),
    /// Nothing changes; the tag of the command.
    Done(&'static str),
    /// The prepared statement with this name is forgotten.
    Deallocate(String),
    /// The value of a setting.
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: &'static str,
    },
}

/// Settings that clients ask for.
pub(super) const SETTINGS: [(&str, &str); 20] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("default_transaction_isolation", "repeatable read"),
    ("default_transaction_read_only", "on"),
    ("extra_float_digits", "1"),
    ("integer_datetimes", "on"),
    ("IntervalStyle", "postgres"),
    ("is_superuser", "off"),
    ("lc_collate", "C"),
    ("max_identifier_length", "63"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "160006"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("TimeZone", "UTC"),
    ("transaction_read_only", "on"),
];

/// Returns what `statement` asks for.
///
/// # Errors
/// A setting that would change the meaning of answers.
pub(super) fn asked(statement: Statement) -> PgWireResult<Asked> {
    let Statement::Statement(inner) = &statement else {
        return Ok(match statement {
            Statement::Reset(_) => Asked::Reply(Reply::Done("RESET")),
            other => Asked::Query(Box::new(rewritten(other))),
        });
    };
    let reply = match &**inner {
        SqlStatement::StartTransaction { .. } => Reply::Begin,
        SqlStatement::Commit { .. } => Reply::End("COMMIT"),
        SqlStatement::Rollback {
            savepoint: None, ..
        } => Reply::End("ROLLBACK"),
        SqlStatement::Rollback { .. } => Reply::Done("ROLLBACK"),
        SqlStatement::Savepoint { .. } => Reply::Done("SAVEPOINT"),
        SqlStatement::ReleaseSavepoint { .. } => Reply::Done("RELEASE"),
        SqlStatement::Set(set) => check_setting(set)?,
        SqlStatement::Reset(_) => Reply::Done("RESET"),
        SqlStatement::Discard { .. } => Reply::Done("DISCARD ALL"),
        SqlStatement::Deallocate { name, .. } => Reply::Deallocate(name.value.clone()),
        SqlStatement::LISTEN { .. } => Reply::Done("LISTEN"),
        SqlStatement::UNLISTEN { .. } => Reply::Done("UNLISTEN"),
        SqlStatement::Close { .. } => Reply::Done("CLOSE CURSOR"),
        SqlStatement::ShowVariable { variable } => match setting(variable) {
            Some(reply) => reply,
            None => return Ok(Asked::Query(Box::new(rewritten(statement)))),
        },
        _ => return Ok(Asked::Query(Box::new(rewritten(statement)))),
    };
    Ok(Asked::Reply(reply))
}

/// Refuses the settings that would have answers in another form or with other limits.
fn check_setting(set: &Set) -> PgWireResult<Reply> {
    if let Set::SingleAssignment {
        variable, values, ..
    } = set
    {
        let name = variable.to_string().to_lowercase();
        let value = values.iter().map(ToString::to_string).collect::<String>();
        let value = value.trim_matches('\'').replace('-', "").to_lowercase();
        if name.starts_with("datafusion.") {
            return Err(error(
                "0A000",
                format!("the setting `{name}` can't be changed"),
            ));
        }
        if name == "client_encoding" && !["utf8", "unicode", "default"].contains(&&*value) {
            return Err(error("22023", "answers are in UTF-8 only"));
        }
    }
    Ok(Reply::Done("SET"))
}

/// Returns the reply to `SHOW`, or `None` for what isn't a setting of PostgreSQL.
fn setting(variable: &[Ident]) -> Option<Reply> {
    let words: Vec<String> = variable
        .iter()
        .map(|word| word.value.to_lowercase())
        .collect();
    let name = match words.join(" ").as_str() {
        "transaction isolation level" | "transaction_isolation" => {
            let (name, value) = ("transaction_isolation", "repeatable read");
            return Some(Reply::Setting { name, value });
        }
        "time zone" => "timezone".to_owned(),
        name => name.to_owned(),
    };
    let known = SETTINGS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(&name));
    known.map(|(name, value)| Reply::Setting { name, value })
}

/// Parses a text into what its statements ask for.
pub(super) fn parsed(text: &str) -> PgWireResult<Vec<Asked>> {
    let statements = gristmill_queries::sql::statements(text);
    let failed = |error: DataFusionError| super::failure::query_error(error);
    statements.map_err(failed)?.into_iter().map(asked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Option<Reply> {
        match parsed(text).unwrap().pop().unwrap() {
            Asked::Reply(reply) => Some(reply),
            Asked::Query(_) => None,
        }
    }

    #[test]
    fn what_clients_send_unasked_is_answered_without_a_query() {
        for (text, expected) in [
            ("BEGIN", Reply::Begin),
            ("BEGIN READ WRITE", Reply::Begin),
            (
                "START TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                Reply::Begin,
            ),
            ("COMMIT", Reply::End("COMMIT")),
            ("END", Reply::End("COMMIT")),
            ("ROLLBACK", Reply::End("ROLLBACK")),
            ("SAVEPOINT a", Reply::Done("SAVEPOINT")),
            ("RELEASE SAVEPOINT a", Reply::Done("RELEASE")),
            ("SET extra_float_digits = 3", Reply::Done("SET")),
            ("SET client_encoding TO 'UTF8'", Reply::Done("SET")),
            ("SET TIME ZONE 'UTC'", Reply::Done("SET")),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                Reply::Done("SET"),
            ),
            ("RESET ALL", Reply::Done("RESET")),
            ("DISCARD ALL", Reply::Done("DISCARD ALL")),
            ("DEALLOCATE ALL", Reply::Deallocate("ALL".into())),
            ("UNLISTEN *", Reply::Done("UNLISTEN")),
        ] {
            assert_eq!(reply(text), Some(expected), "{text}");
        }
        for text in ["SHOW standard_conforming_strings", "SHOW TimeZone"] {
            assert!(matches!(reply(text), Some(Reply::Setting { .. })), "{text}");
        }
        assert_eq!(reply("SELECT 1"), None);
        assert_eq!(reply("SHOW TABLES"), None);
    }

    #[test]
    fn settings_that_would_change_answers_are_refused() {
        assert!(parsed("SET client_encoding TO 'LATIN1'").is_err());
        assert!(parsed("SET datafusion.execution.batch_size = 1").is_err());
    }
}

//! Classification of statements: those for rows, for cursors, and for the session, which drivers
//! send by themselves (transactions, settings). A session reads one version of the lake per query
//! and has no settings, so the latter are accepted and change nothing.

use gristmill_queries::sql::DataFusionError;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CloseCursor, Declare, DiscardObject, FetchDirection, Ident, Set, Statement as SqlStatement,
};
use pgwire::error::PgWireResult;

use super::catalog::rewritten;
use super::copy::{CopiedQuery, copied_query};
use super::failure::error;
use super::session::SERVER_VERSION;
use super::transaction_modes::without_deferrable;

/// A statement, by what it is answered with.
#[derive(Debug, Clone)]
pub(super) enum ClientStatement {
    /// Rows of the lake.
    Query(Box<Statement>),
    /// The same in the form of COPY.
    Copy(CopiedQuery),
    /// A cursor is made.
    Declare(Declaration),
    /// Rows of a cursor: so many at most, or all that are left.
    Fetch {
        /// Its name.
        cursor: String,
        /// Number of rows.
        count: Option<usize>,
    },
    /// The cursor with this name is dropped, or all of them.
    Close(Option<String>),
    /// A fixed answer about the session.
    Reply(Reply),
}

/// A cursor and its query.
#[derive(Debug, Clone)]
pub(super) struct Declaration {
    pub(super) name: String,
    pub(super) query: Box<Statement>,
    /// Whether FETCH answers in binary if it names no format.
    pub(super) is_binary: bool,
}

/// Answer to a statement about the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// A transaction begins.
    Begin,
    /// A transaction ends; the tag of the command.
    End(&'static str),
    /// A transaction goes on after a savepoint, also if it has failed since.
    ToSavepoint,
    /// Nothing changes; the tag of the command.
    Done(&'static str),
    /// The prepared statement with this name is forgotten.
    Deallocate(String),
    /// All prepared statements that have a name are forgotten.
    DeallocateAll,
    /// These and all portals are forgotten.
    DiscardAll,
    /// The value of a setting.
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: &'static str,
    },
    /// There is no statement in the text.
    Empty,
}

/// Settings that clients request.
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

/// Returns what `statement` requests.
///
/// # Errors
/// A setting that would change the meaning of answers, and cursors that read backwards.
pub(super) fn classified(statement: Statement) -> PgWireResult<ClientStatement> {
    let Statement::Statement(inner) = &statement else {
        return Ok(match statement {
            Statement::Reset(_) => ClientStatement::Reply(Reply::Done("RESET")),
            other => ClientStatement::Query(Box::new(rewritten(other))),
        });
    };
    let reply = match &**inner {
        SqlStatement::StartTransaction { .. } => Reply::Begin,
        SqlStatement::Commit { .. } => Reply::End("COMMIT"),
        SqlStatement::Rollback {
            savepoint: None, ..
        } => Reply::End("ROLLBACK"),
        SqlStatement::Rollback { .. } => Reply::ToSavepoint,
        SqlStatement::Savepoint { .. } => Reply::Done("SAVEPOINT"),
        SqlStatement::ReleaseSavepoint { .. } => Reply::Done("RELEASE"),
        SqlStatement::Set(set) => check_setting(set)?,
        SqlStatement::Reset(_) => Reply::Done("RESET"),
        SqlStatement::Discard { object_type } => match object_type {
            DiscardObject::ALL => Reply::DiscardAll,
            DiscardObject::PLANS => Reply::Done("DISCARD PLANS"),
            DiscardObject::SEQUENCES => Reply::Done("DISCARD SEQUENCES"),
            DiscardObject::TEMP => Reply::Done("DISCARD TEMP"),
        },
        SqlStatement::Deallocate { name, .. } => match name_of(name) {
            all if name.quote_style.is_none() && all == "all" => Reply::DeallocateAll,
            name => Reply::Deallocate(name),
        },
        SqlStatement::LISTEN { .. } => Reply::Done("LISTEN"),
        SqlStatement::UNLISTEN { .. } => Reply::Done("UNLISTEN"),
        SqlStatement::Declare { stmts } => {
            return Ok(ClientStatement::Declare(declaration(stmts)?));
        }
        SqlStatement::Fetch {
            name, direction, ..
        } => {
            let (cursor, count) = (name_of(name), rows_of(direction)?);
            return Ok(ClientStatement::Fetch { cursor, count });
        }
        SqlStatement::Close { cursor } => {
            return Ok(ClientStatement::Close(match cursor {
                CloseCursor::All => None,
                CloseCursor::Specific { name } => Some(name_of(name)),
            }));
        }
        SqlStatement::ShowVariable { variable } => match setting(variable) {
            Some(reply) => reply,
            None => return Ok(ClientStatement::Query(Box::new(rewritten(statement)))),
        },
        _ => return Ok(ClientStatement::Query(Box::new(rewritten(statement)))),
    };
    Ok(ClientStatement::Reply(reply))
}

/// Returns the name of a cursor or prepared statement: in lower case unless it is quoted.
fn name_of(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

fn declaration(declared: &[Declare]) -> PgWireResult<Declaration> {
    let [
        Declare {
            names,
            binary,
            scroll,
            hold,
            for_query: Some(query),
            ..
        },
    ] = declared
    else {
        return Err(error("42601", "expected DECLARE name CURSOR FOR query"));
    };
    let [name] = names.as_slice() else {
        return Err(error("42601", "expected the name of one cursor"));
    };
    if *scroll == Some(true) {
        let message = "cursors read forwards only: leave out SCROLL";
        return Err(error("0A000", message));
    }
    if *hold == Some(true) {
        let message = "cursors end with their transaction: leave out WITH HOLD";
        return Err(error("0A000", message));
    }
    let query = Statement::Statement(Box::new(SqlStatement::Query(query.clone())));
    Ok(Declaration {
        name: name_of(name),
        query: Box::new(rewritten(query)),
        is_binary: *binary == Some(true),
    })
}

/// Returns the number of rows of a FETCH; `None` for all.
fn rows_of(direction: &FetchDirection) -> PgWireResult<Option<usize>> {
    let limit = match direction {
        FetchDirection::Next | FetchDirection::Forward { limit: None } => return Ok(Some(1)),
        FetchDirection::All | FetchDirection::ForwardAll => return Ok(None),
        FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => limit,
        _ => return Err(error("55000", "cursors read forwards only")),
    };
    let count = limit.value.to_string().parse();
    let count = count.map_err(|_| error("42601", "expected a number of rows"))?;
    Ok(Some(count))
}

/// Refuses the settings that would have answers in another form or with other limits.
fn check_setting(set: &Set) -> PgWireResult<Reply> {
    match set {
        Set::SingleAssignment {
            variable, values, ..
        } => {
            let name = variable.to_string().to_lowercase();
            if name.starts_with("datafusion.") {
                return Err(error(
                    "0A000",
                    format!("the setting `{name}` can't be changed"),
                ));
            }
            if name == "client_encoding" {
                let value = values.iter().map(ToString::to_string).collect::<String>();
                check_encoding(value.trim_matches('\''))?;
            }
        }
        // Another form of the same.
        Set::SetNames { charset_name, .. } => check_encoding(&charset_name.value)?,
        _ => {}
    }
    Ok(Reply::Done("SET"))
}

/// Refuses an encoding of texts other than that of answers.
fn check_encoding(name: &str) -> PgWireResult<()> {
    let name = name.replace('-', "").to_lowercase();
    match ["utf8", "unicode", "default"].contains(&&*name) {
        true => Ok(()),
        false => Err(error("22023", "answers are in UTF-8 only")),
    }
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

/// Parses a text into its statements.
pub(super) fn parsed(text: &str) -> PgWireResult<Vec<ClientStatement>> {
    if let Some(copied) = copied_query(text)? {
        return Ok(vec![ClientStatement::Copy(copied)]);
    }
    let statements = gristmill_queries::sql::statements(&without_deferrable(text));
    let failed = |error: DataFusionError| super::failure::query_error(error);
    statements
        .map_err(failed)?
        .into_iter()
        .map(classified)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Option<Reply> {
        match parsed(text).unwrap().pop().unwrap() {
            ClientStatement::Reply(reply) => Some(reply),
            _ => None,
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
            ("BEGIN READ ONLY, NOT DEFERRABLE", Reply::Begin),
            ("BEGIN DEFERRABLE", Reply::Begin),
            ("SET TRANSACTION DEFERRABLE", Reply::Done("SET")),
            ("COMMIT", Reply::End("COMMIT")),
            ("END", Reply::End("COMMIT")),
            ("ROLLBACK", Reply::End("ROLLBACK")),
            ("SAVEPOINT a", Reply::Done("SAVEPOINT")),
            ("ROLLBACK TO SAVEPOINT a", Reply::ToSavepoint),
            ("RELEASE SAVEPOINT a", Reply::Done("RELEASE")),
            ("SET extra_float_digits = 3", Reply::Done("SET")),
            ("SET client_encoding TO 'UTF8'", Reply::Done("SET")),
            ("SET NAMES 'UTF8'", Reply::Done("SET")),
            ("SET NAMES DEFAULT", Reply::Done("SET")),
            ("SET TIME ZONE 'UTC'", Reply::Done("SET")),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                Reply::Done("SET"),
            ),
            ("RESET ALL", Reply::Done("RESET")),
            ("DISCARD ALL", Reply::DiscardAll),
            ("DISCARD TEMPORARY", Reply::Done("DISCARD TEMP")),
            ("DEALLOCATE ALL", Reply::DeallocateAll),
            ("DEALLOCATE PREPARE All", Reply::DeallocateAll),
            ("DEALLOCATE \"ALL\"", Reply::Deallocate("ALL".into())),
            ("DEALLOCATE PREPARE S_1", Reply::Deallocate("s_1".into())),
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
    fn cursors_have_a_name_and_read_forwards() {
        let classified = |text: &str| parsed(text).map(|mut classified| classified.pop().unwrap());
        for (text, expected) in [
            ("DECLARE c CURSOR FOR SELECT 1", ("c", false)),
            (
                "DECLARE \"C\" NO SCROLL CURSOR WITHOUT HOLD FOR SELECT 1",
                ("C", false),
            ),
            ("DECLARE C BINARY CURSOR FOR SELECT 1", ("c", true)),
        ] {
            let Ok(ClientStatement::Declare(declared)) = classified(text) else {
                panic!("{text}");
            };
            assert_eq!((&*declared.name, declared.is_binary), expected, "{text}");
        }
        for (text, expected) in [
            ("FETCH NEXT FROM c", Some(1)),
            ("FETCH 7 FROM c", Some(7)),
            ("FETCH FORWARD 0 FROM c", Some(0)),
            ("FETCH FORWARD ALL IN c", None),
            ("FETCH ALL FROM c", None),
        ] {
            let Ok(ClientStatement::Fetch { cursor, count }) = classified(text) else {
                panic!("{text}");
            };
            assert_eq!((&*cursor, count), ("c", expected), "{text}");
        }
        assert!(matches!(
            classified("CLOSE ALL"),
            Ok(ClientStatement::Close(None))
        ));
        assert!(matches!(
            classified("CLOSE c"),
            Ok(ClientStatement::Close(Some(_)))
        ));
        for text in [
            "DECLARE c SCROLL CURSOR FOR SELECT 1",
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "FETCH PRIOR FROM c",
            "FETCH BACKWARD 3 FROM c",
            "FETCH ABSOLUTE 3 FROM c",
        ] {
            assert!(classified(text).is_err(), "{text}");
        }
    }

    #[test]
    fn settings_that_would_change_answers_are_refused() {
        assert!(parsed("SET client_encoding TO 'LATIN1'").is_err());
        assert!(parsed("SET NAMES 'LATIN1'").is_err());
        assert!(parsed("SET datafusion.execution.batch_size = 1").is_err());
    }
}

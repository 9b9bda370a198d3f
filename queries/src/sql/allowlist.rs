//! Allowlist of statements: decides which ones a session runs.
//!
//! SQL is read-only: it changes neither the lake nor the session's view of it, and touches no file
//! outside the lake unless that is allowed. Every node of the logical plan is checked, by matches
//! without wildcards: a COPY, INSERT or CREATE inside EXPLAIN ANALYZE, PREPARE or a subquery is
//! found, and a new kind of statement in DataFusion doesn't compile until it is listed here.
//! Statements that are refused whatever they name are refused before they are planned.

use std::ops::ControlFlow;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement, WriteOp};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{SetExpr, Statement as SqlStatement};

/// Access of statements to files outside the lake. Each level includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FileAccess {
    /// No access: packs, CAL, and programs that use the library.
    #[default]
    Refused,
    /// Reading containers and transcripts: `mg_file`, `transcript_file`.
    Read,
    /// Also reading and writing other files: `CREATE EXTERNAL TABLE`, `COPY … TO`.
    ReadAndWrite,
}

/// Kinds of statements that are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementScope {
    /// Queries.
    Queries,
    /// Also session statements such as SET and PREPARE, and what the file access allows.
    Statements(FileAccess),
}

/// Reason why a statement is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// A statement that touches files, without the access.
    #[error(
        "`{statement}` {does} and is refused: run `gristmill sql --allow-files` to allow it. Packs \
         and CAL can't use it"
    )]
    FileStatement {
        /// The statement.
        statement: &'static str,
        /// Its effect on files.
        does: &'static str,
    },
    /// A function that reads files, without the access.
    #[error(
        "`{function}` reads files outside the lake: it is available in `gristmill sql`, but not in \
         packs, CAL and read-only sessions"
    )]
    FileFunction {
        /// The function.
        function: &'static str,
    },
    /// A statement that would change rows.
    #[error(
        "`{statement}` is refused: SQL is read-only. Use `gristmill ingest` or `gristmill apply` \
         to add grains, `gristmill erase` to remove them"
    )]
    Write {
        /// The statement.
        statement: &'static str,
    },
    /// A statement that would define or drop something.
    #[error(
        "`{statement}` is refused: the lake's tables and views are fixed. Use a WITH clause, or \
         write the result to a file with --format"
    )]
    Definition {
        /// The statement.
        statement: &'static str,
    },
    /// A transaction.
    #[error(
        "`{statement}` is refused: there are no transactions, a session reads one version of the \
         lake"
    )]
    Transaction {
        /// The statement.
        statement: &'static str,
    },
    /// A setting that can't be changed.
    #[error(
        "the setting `{name}` can't be changed: only settings under datafusion.execution, \
         datafusion.optimizer, datafusion.explain and datafusion.format can. Use --memory for the \
         memory limit"
    )]
    Setting {
        /// The setting.
        name: String,
    },
    /// A statement other than a query, where only queries are accepted.
    #[error("`{statement}` is refused: only queries are accepted here")]
    NotAQuery {
        /// The statement.
        statement: &'static str,
    },
    /// No such table.
    #[error("there is no table `{name}`{}; `SHOW TABLES` lists them", did_you_mean(.near))]
    UnknownTable {
        /// The unknown name.
        name: String,
        /// Tables with similar names.
        near: Vec<String>,
    },
}

/// Returns ` (did you mean …?)`, or an empty text without suggestions.
pub(super) fn did_you_mean(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => format!(" (did you mean {one}?)"),
        [most @ .., last] => format!(" (did you mean {} or {last}?)", most.join(", ")),
    }
}

/// Prefixes of the settings that a session may change: none of them sets a path, raises a limit, or
/// changes the meaning of a statement.
const SETTINGS: [&str; 4] = [
    "datafusion.execution.",
    "datafusion.optimizer.",
    "datafusion.explain.",
    "datafusion.format.",
];

/// Checks the kind of a statement that isn't planned yet: one that changes or defines something is
/// refused for that, also if what it names doesn't exist or its columns don't fit. [`check_plan`]
/// decides about all others.
///
/// # Errors
/// [`StatementError::Write`] and [`StatementError::Definition`].
pub(crate) fn check_kind(mut statement: &ParsedStatement) -> Result<(), StatementError> {
    while let ParsedStatement::Explain(explained) = statement {
        statement = explained.statement.as_ref();
    }
    let ParsedStatement::Statement(inner) = statement else {
        return Ok(());
    };
    let mut inner = inner.as_ref();
    while let SqlStatement::Prepare { statement, .. } = inner {
        inner = statement.as_ref();
    }
    let statement = match changed_by_query(inner).unwrap_or(inner) {
        SqlStatement::Insert(_) => "INSERT",
        SqlStatement::Update(_) => "UPDATE",
        SqlStatement::Delete(_) => "DELETE",
        SqlStatement::Truncate(_) => "TRUNCATE",
        SqlStatement::Merge(_) => "MERGE INTO",
        SqlStatement::CreateTable(_) => return defines("CREATE TABLE"),
        SqlStatement::CreateView(_) => return defines("CREATE VIEW"),
        _ => return Ok(()),
    };
    Err(StatementError::Write { statement })
}

/// Returns the statement that changes rows in a query whose WITH clause precedes one.
fn changed_by_query(statement: &SqlStatement) -> Option<&SqlStatement> {
    let SqlStatement::Query(query) = statement else {
        return None;
    };
    match query.body.as_ref() {
        SetExpr::Insert(change)
        | SetExpr::Update(change)
        | SetExpr::Delete(change)
        | SetExpr::Merge(change) => Some(change),
        _ => None,
    }
}

fn defines(statement: &'static str) -> Result<(), StatementError> {
    Err(StatementError::Definition { statement })
}

/// Checks every node of `plan`.
///
/// # Errors
/// The first refusal.
pub(crate) fn check_plan(plan: &LogicalPlan, scope: StatementScope) -> Result<(), StatementError> {
    let mut refusal = None;
    // The visit itself can't fail; it stops at the first refusal.
    let visited = plan.apply_with_subqueries(|node| {
        Ok(match check_node(node, scope) {
            ControlFlow::Continue(()) => TreeNodeRecursion::Continue,
            ControlFlow::Break(error) => {
                refusal = Some(error);
                TreeNodeRecursion::Stop
            }
        })
    });
    match (refusal, visited) {
        (Some(error), _) => Err(error),
        (None, Ok(_)) => Ok(()),
        (None, Err(_)) => Err(StatementError::NotAQuery {
            statement: "a plan that can't be checked",
        }),
    }
}

fn check_node(node: &LogicalPlan, scope: StatementScope) -> ControlFlow<StatementError> {
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::RecursiveQuery(_)
        | LogicalPlan::DescribeTable(_)
        // The explained plan is a node of its own and checked separately.
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        // Never produced by a statement: only optimizer rules of a library insert it.
        | LogicalPlan::Extension(_) => ControlFlow::Continue(()),
        LogicalPlan::Copy(_) => check_file_access("COPY … TO", "writes a file", scope),
        LogicalPlan::Dml(change) => refuse(StatementError::Write {
            statement: name_of_change(&change.op),
        }),
        LogicalPlan::Ddl(definition) => check_definition(definition, scope),
        LogicalPlan::Statement(statement) => check_session_statement(statement, scope),
    }
}

fn refuse(error: StatementError) -> ControlFlow<StatementError> {
    ControlFlow::Break(error)
}

fn check_file_access(
    statement: &'static str,
    does: &'static str,
    scope: StatementScope,
) -> ControlFlow<StatementError> {
    match scope {
        StatementScope::Statements(FileAccess::ReadAndWrite) => ControlFlow::Continue(()),
        StatementScope::Statements(FileAccess::Refused | FileAccess::Read)
        | StatementScope::Queries => refuse(StatementError::FileStatement { statement, does }),
    }
}

fn name_of_change(change: &WriteOp) -> &'static str {
    match change {
        WriteOp::Insert(_) => "INSERT",
        WriteOp::Delete => "DELETE",
        WriteOp::Update => "UPDATE",
        WriteOp::Ctas => "CREATE TABLE … AS",
        WriteOp::Truncate => "TRUNCATE",
        WriteOp::MergeInto(_) => "MERGE INTO",
        // `WriteOp` is non-exhaustive; new operations are refused as well.
        _ => "a statement that changes rows",
    }
}

fn check_definition(
    definition: &DdlStatement,
    scope: StatementScope,
) -> ControlFlow<StatementError> {
    let statement = match definition {
        // A replacement could shadow a table of the lake.
        DdlStatement::CreateExternalTable(table) if table.or_replace => {
            "CREATE OR REPLACE EXTERNAL TABLE"
        }
        DdlStatement::CreateExternalTable(_) => {
            return check_file_access("CREATE EXTERNAL TABLE", "reads files", scope);
        }
        DdlStatement::CreateMemoryTable(_) => "CREATE TABLE",
        DdlStatement::CreateView(_) => "CREATE VIEW",
        DdlStatement::CreateCatalogSchema(_) => "CREATE SCHEMA",
        DdlStatement::CreateCatalog(_) => "CREATE DATABASE",
        DdlStatement::CreateIndex(_) => "CREATE INDEX",
        DdlStatement::DropTable(_) => "DROP TABLE",
        DdlStatement::DropView(_) => "DROP VIEW",
        DdlStatement::DropCatalogSchema(_) => "DROP SCHEMA",
        DdlStatement::CreateFunction(_) => "CREATE FUNCTION",
        DdlStatement::DropFunction(_) => "DROP FUNCTION",
    };
    refuse(StatementError::Definition { statement })
}

fn check_session_statement(
    statement: &Statement,
    scope: StatementScope,
) -> ControlFlow<StatementError> {
    let name = match statement {
        Statement::TransactionStart(_) => {
            return refuse(StatementError::Transaction { statement: "BEGIN" });
        }
        Statement::TransactionEnd(_) => {
            return refuse(StatementError::Transaction {
                statement: "COMMIT, ROLLBACK",
            });
        }
        Statement::SetVariable(set) if !is_settable(&set.variable) => {
            return refuse(StatementError::Setting {
                name: set.variable.clone(),
            });
        }
        Statement::ResetVariable(reset) if !is_settable(&reset.variable) => {
            return refuse(StatementError::Setting {
                name: reset.variable.clone(),
            });
        }
        Statement::SetVariable(_) => "SET",
        Statement::ResetVariable(_) => "RESET",
        // The prepared statement is a node of its own; an executed one was checked when it was
        // prepared.
        Statement::Prepare(_) => "PREPARE",
        Statement::Execute(_) => "EXECUTE",
        Statement::Deallocate(_) => "DEALLOCATE",
    };
    match scope {
        StatementScope::Statements(_) => ControlFlow::Continue(()),
        StatementScope::Queries => refuse(StatementError::NotAQuery { statement: name }),
    }
}

fn is_settable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SETTINGS.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::statements;

    #[test]
    fn statements_that_change_something_are_refused_by_their_kind() {
        let refusal = |text: &str| {
            let statement = statements(text).unwrap().remove(0);
            check_kind(&statement).err()
        };
        for (text, statement) in [
            ("INSERT INTO nothing (a) VALUES (1, 2)", "INSERT"),
            ("EXPLAIN INSERT INTO grains VALUES (1)", "INSERT"),
            ("EXPLAIN ANALYZE DELETE FROM nothing", "DELETE"),
            ("PREPARE p AS UPDATE grains SET nothing = 1", "UPDATE"),
            ("TRUNCATE TABLE nothing", "TRUNCATE"),
        ] {
            assert_eq!(
                refusal(text),
                Some(StatementError::Write { statement }),
                "{text}"
            );
        }
        for (text, statement) in [
            (
                "CREATE TABLE t AS SELECT nothing FROM grains",
                "CREATE TABLE",
            ),
            ("CREATE VIEW v AS SELECT nothing FROM grains", "CREATE VIEW"),
        ] {
            let expected = Some(StatementError::Definition { statement });
            assert_eq!(refusal(text), expected, "{text}");
        }
        for text in [
            "SELECT 1",
            "EXPLAIN SELECT 1",
            "SHOW TABLES",
            "SET a = 1",
            "COPY grains TO 'a.csv'",
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a.csv'",
        ] {
            assert_eq!(refusal(text), None, "{text}");
        }
    }
}

//! Which statements a session runs.
//!
//! SQL reads: it changes neither the lake nor what the session knows of it, and touches no file
//! outside the lake unless that was scope. The decision is made on the logical plan, for every
//! node of it, by matches without wildcard: what COPY, INSERT or CREATE hide in EXPLAIN ANALYZE,
//! PREPARE or a subquery is found there too, and a new kind of statement doesn't compile until it
//! is listed here.

use std::ops::ControlFlow;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement, WriteOp};

/// What statements may do with files outside the lake. Each allows what those before it allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FileAccess {
    /// Nothing: packs, CAL, and programs that read a lake through the library.
    #[default]
    Refused,
    /// Read containers and transcripts: `mg_file`, `transcript_file`.
    Read,
    /// Also read and write files of other kinds: `CREATE EXTERNAL TABLE`, `COPY … TO`.
    ReadAndWrite,
}

/// What a text may consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementScope {
    /// Queries.
    Queries,
    /// Also what is about the session, such as SET and PREPARE, and what the files allow.
    Statements(FileAccess),
}

/// Why a statement isn't run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// A statement that touches files, where that wasn't scope.
    #[error(
        "`{statement}` {does}: `gristmill sql --allow-files` allows it, packs and CAL never may"
    )]
    FileStatement {
        /// The statement.
        statement: &'static str,
        /// What it does with files.
        does: &'static str,
    },
    /// A function that reads files, where none may be read.
    #[error(
        "`{function}` reads files outside the lake: `gristmill sql` may, packs, CAL and read-only \
         sessions may not"
    )]
    FileFunction {
        /// The function.
        function: &'static str,
    },
    /// A statement that would change rows.
    #[error(
        "`{statement}` is refused: SQL reads the lake. `gristmill ingest` and `gristmill apply` \
         add to it, `gristmill erase` removes"
    )]
    Write {
        /// The statement.
        statement: &'static str,
    },
    /// A statement that would define or drop something.
    #[error(
        "`{statement}` is refused: the lake's tables and views are fixed, and nothing else \
         outlives the session. Put the query into a WITH clause, or write its result to a file \
         with --format"
    )]
    Definition {
        /// The statement.
        statement: &'static str,
    },
    /// A transaction.
    #[error(
        "`{statement}` is refused: a session reads one version of the lake throughout, so there is \
         nothing to begin or to end"
    )]
    Transaction {
        /// The statement.
        statement: &'static str,
    },
    /// A setting that isn't the user's to change.
    #[error(
        "the setting `{name}` is fixed: those below datafusion.execution, datafusion.optimizer, \
         datafusion.explain and datafusion.format can be set; memory is bounded by --memory"
    )]
    Setting {
        /// The setting.
        name: String,
    },
    /// Something else than a query, where only queries are scope.
    #[error("`{statement}` is refused: only queries are scope here")]
    NotAQuery {
        /// The statement.
        statement: &'static str,
    },
    /// No such table.
    #[error("there is no table `{name}`{}; `SHOW TABLES` lists them", did_you_mean(.near))]
    UnknownTable {
        /// What was asked for.
        name: String,
        /// Tables whose names are like it.
        near: Vec<String>,
    },
}

/// ` (did you mean …?)`, or nothing.
pub(super) fn did_you_mean(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => format!(" (did you mean {one}?)"),
        [most @ .., last] => format!(" (did you mean {} or {last}?)", most.join(", ")),
    }
}

/// Prefixes of the settings that a session may change: none of them names a place, lifts a bound,
/// or changes what a text means.
const SETTINGS: [&str; 4] = [
    "datafusion.execution.",
    "datafusion.optimizer.",
    "datafusion.explain.",
    "datafusion.format.",
];

/// Checks every node of `plan`.
///
/// # Errors
/// The first refusal.
pub(crate) fn check_plan(plan: &LogicalPlan, scope: StatementScope) -> Result<(), StatementError> {
    let mut refusal = None;
    // The visit itself can't fail: it ends early where something is refused.
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
            statement: "a plan that can't be walked",
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
        // What these explain is a node of its own.
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        // No statement makes one: they are what a library's own rules put into a plan.
        | LogicalPlan::Extension(_) => ControlFlow::Continue(()),
        LogicalPlan::Copy(_) => check_file_access("COPY … TO", "writes a file", scope),
        LogicalPlan::Dml(change) => refuse(StatementError::Write { statement: name_of_change(&change.op) }),
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
        // The library keeps this list open; whatever joins it is refused as well.
        _ => "a statement that changes rows",
    }
}

fn check_definition(
    definition: &DdlStatement,
    scope: StatementScope,
) -> ControlFlow<StatementError> {
    let statement = match definition {
        // One that takes another's place could pass for a table of the lake.
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
        // What is prepared is a node of its own; what is executed was judged when it was prepared.
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

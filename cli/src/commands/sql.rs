//! `sql`: runs a statement, a file, standard input, or a shell.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Instant;

use futures::StreamExt;
use gristmill_engine::error::{EngineError, is_of_damaged_file};
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{
    DataFusionError, FileAccess, SessionContext, SqlOptions, Statement, completions,
    context_without_grains, context_without_lake, execute, functions_query, lake_context,
    statements, tables_query, user_message, with_small_batches,
};

use super::CommandContext;
use crate::args::OutputFormat;
use crate::args::query::SqlArgs;
use crate::exit::{CommandOutcome, Failure, with_remedy_of_damage};
use crate::log::note;
use crate::output::{Printer, read_script};
use crate::shell::script::{ScriptPart, script_parts};
use crate::shell::{COMMANDS, Shell, ShellCommand, ShellInput, unknown_command};

/// Runs the command.
pub async fn run(context: &CommandContext, arguments: SqlArgs) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let files = if arguments.allow_files {
        FileAccess::ReadAndWrite
    } else {
        FileAccess::Read
    };
    let session = session(context, files).await?;
    #[cfg(feature = "cluster")]
    let cluster = super::cluster::join(context, &session, &arguments.cluster)?;
    #[cfg(feature = "cluster")]
    let runs_here = cluster.is_none();
    #[cfg(not(feature = "cluster"))]
    let runs_here = true;
    let session = match runs_here {
        true => with_small_batches(&session),
        false => session,
    };
    let text = match (arguments.query, arguments.file) {
        (Some(query), _) => query,
        (None, None) if std::io::stdin().is_terminal() => {
            return shell(context, &session, printer).await;
        }
        (None, file) => script_text(file.as_deref())?,
    };
    let mut run = SqlRun {
        context,
        session: &session,
        printer,
        timing: false,
    };
    let run = run.script(&text);
    #[cfg(feature = "cluster")]
    let run = super::cluster::cancelled_by_interrupt(cluster.as_ref(), run);
    run.await?;
    printer.print_requests();
    Ok(CommandOutcome::Done)
}

/// Reads a script from `file`, or from standard input if there is none.
fn script_text(file: Option<&Path>) -> Result<String, Failure> {
    String::from_utf8(read_script(file)?).map_err(|error| match file {
        Some(path) => Failure::reading(path, &error),
        None => Failure::usage(format!("standard input is not valid UTF-8: {error}")),
    })
}

/// Returns the query options of the global flags, without access to files outside the lake.
pub fn options(context: &CommandContext) -> Result<SqlOptions, Failure> {
    let mut prices = context.price_tables()?;
    if !prices.is_empty() {
        // Each table is available by its version; without a version, all of them override the
        // built-in one.
        prices.push(context.prices()?);
    }
    Ok(SqlOptions {
        prices,
        threads: context.threads(),
        memory: Some(context.memory()),
        embedder: Some(context.embedder()?),
        files: FileAccess::Refused,
    })
}

/// Returns the lake's SQL context. Without a lake, files and values can still be queried; if only
/// data files of `grains` are lost, the other stored tables, too.
pub async fn session(
    context: &CommandContext,
    files: FileAccess,
) -> Result<SessionContext, Failure> {
    let options = SqlOptions {
        files,
        ..options(context)?
    };
    match Lake::open_for_queries(context.lake()).await {
        Ok(lake) => {
            let lake = context.unlock(lake)?;
            context.note_unfinished_erasure(&lake).await?;
            lake_context(&lake, &options).await.map_err(failure)
        }
        Err(EngineError::NoLake(place)) => context_without_lake(&place, &options).map_err(failure),
        Err(EngineError::Damaged { .. }) => session_despite_damage(context, &options).await,
        Err(error) => Err(error.into()),
    }
}

/// Returns the context of a lake that has lost data files of `grains` and nothing else.
async fn session_despite_damage(
    context: &CommandContext,
    options: &SqlOptions,
) -> Result<SessionContext, Failure> {
    let (lake, damage) = Lake::open_despite_lost_segments(context.lake()).await?;
    let lake = context.unlock(lake)?;
    match damage {
        Some(damage) => context_without_grains(&lake, damage, options).map_err(failure),
        // It was restored meanwhile.
        None => lake_context(&lake, options).await.map_err(failure),
    }
}

/// A step of a script.
enum SqlStep {
    Statements(Vec<Statement>),
    Command(ShellCommand),
}

/// Parses a script, so that nothing of it runs if a statement can't be parsed.
fn steps(script: &str) -> Result<Vec<SqlStep>, Failure> {
    script_parts(script)?.into_iter().map(parsed).collect()
}

fn parsed(part: ScriptPart<'_>) -> Result<SqlStep, Failure> {
    match part {
        ScriptPart::Command(command) => Ok(SqlStep::Command(command)),
        ScriptPart::Statements(part) => statements(part.text)
            // An error has the position in the script.
            .or_else(|_| statements(&part.in_place()))
            .map(SqlStep::Statements)
            .map_err(failure),
    }
}

/// Runs statements and shell commands over a session, with the settings that the commands change.
struct SqlRun<'s> {
    context: &'s CommandContext,
    session: &'s SessionContext,
    printer: Printer,
    /// True if execution times are shown.
    timing: bool,
}

impl SqlRun<'_> {
    /// Runs the statements and shell commands of a script in order, up to the first failure.
    async fn script(&mut self, text: &str) -> Result<(), Failure> {
        for step in steps(text)? {
            self.step(step).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: SqlStep) -> Result<(), Failure> {
        let parsed = match step {
            SqlStep::Statements(parsed) => parsed,
            SqlStep::Command(command) => match self.run_command(command) {
                Some(query) => statements(&query).map_err(failure)?,
                None => return Ok(()),
            },
        };
        let started = Instant::now();
        for statement in parsed {
            self.statement(statement).await?;
        }
        if self.timing {
            note(format_args!("{} ms", started.elapsed().as_millis()));
        }
        Ok(())
    }

    async fn statement(&self, statement: Statement) -> Result<(), Failure> {
        let mut stream = execute(self.session, statement).await.map_err(failure)?;
        // A statement like SET returns no columns.
        if stream.schema().fields().is_empty() {
            while let Some(batch) = stream.next().await {
                batch.map_err(failure)?;
            }
            return Ok(());
        }
        let mut rows = self.printer.rows(stream.schema())?;
        let mut is_empty = true;
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(failure)?;
            is_empty &= batch.num_rows() == 0;
            rows.write(batch)?;
        }
        rows.finish()?;
        // Only this format prints nothing for no rows: others have a header, a number or brackets.
        if is_empty && self.printer.format() == OutputFormat::Jsonl {
            self.context.hint("0 rows");
        }
        Ok(())
    }

    /// Runs a shell command; returns the SQL statement that it is an alias for, if any.
    fn run_command(&mut self, command: ShellCommand) -> Option<String> {
        match command {
            ShellCommand::Help => note(COMMANDS),
            ShellCommand::List => return Some(tables_query()),
            ShellCommand::Describe(name) => return Some(format!("DESCRIBE {name}")),
            ShellCommand::Functions(part) => return Some(functions_query(&part)),
            ShellCommand::Records if !self.printer.is_for_people() => {
                note("records need the format of tables; add --format table");
            }
            ShellCommand::Records => {
                let records = !self.printer.prints_records();
                self.printer = self.printer.with_records(records);
                note(format_args!("records are {}", on_off(records)));
            }
            ShellCommand::Timing => {
                self.timing = !self.timing;
                note(format_args!("timing is {}", on_off(self.timing)));
            }
            ShellCommand::Unknown(text) => note(unknown_command(&text)),
        }
        None
    }
}

async fn shell(
    context: &CommandContext,
    session: &SessionContext,
    printer: Printer,
) -> Result<CommandOutcome, Failure> {
    note(
        "SQL over the lake. End a statement with `;`. `help` lists the shell's commands, `\\d` the \
         tables, `quit` leaves.",
    );
    let mut shell = Shell::new("sql", completions(session).await);
    let mut run = SqlRun {
        context,
        session,
        printer,
        timing: true,
    };
    loop {
        let ended = match shell.read()? {
            ShellInput::End => return Ok(CommandOutcome::Done),
            ShellInput::Nothing => continue,
            ShellInput::Text(text) => run.script(&text).await,
            ShellInput::Command(command) => run.step(SqlStep::Command(command)).await,
        };
        if let Err(failure) = ended {
            note(&failure);
        }
    }
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// Converts an error of the query engine, without the layers around its cause. A damaged file is a
/// problem of the data; an error of a function or cast on a valid value is one of usage.
pub fn failure(error: DataFusionError) -> Failure {
    failure_of(&error)
}

/// Converts a borrowed error as [`failure`] does.
pub(super) fn failure_of(error: &DataFusionError) -> Failure {
    let root = error.find_root();
    if let DataFusionError::External(cause) = root
        && let Some(cause) = cause.downcast_ref::<EngineError>()
    {
        return Failure::from(cause);
    }
    match is_of_damaged_file(root) {
        true => Failure::data(with_remedy_of_damage(&user_message(root))),
        false => Failure::usage(user_message(root)),
    }
}

//! `sql`: runs a statement, a file, standard input, or a shell.

use std::io::IsTerminal;
use std::time::Instant;

use futures::StreamExt;
use gristmill_engine::error::{EngineError, is_of_damaged_file};
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{
    DataFusionError, FileAccess, SessionContext, SqlOptions, TABLES_QUERY, completions,
    context_without_lake, execute, functions_query, lake_context, statements, user_message,
};

use super::CommandContext;
use crate::args::query::SqlArgs;
use crate::exit::{CommandOutcome, Failure, with_remedy_of_damage};
use crate::log::note;
use crate::output::{Printer, read_stdin};
use crate::shell::{COMMANDS, Shell, ShellCommand, ShellInput};

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
    let text = match (arguments.query, arguments.file) {
        (Some(query), _) => query,
        (None, Some(file)) => {
            std::fs::read_to_string(&file).map_err(|error| Failure::reading(&file, &error))?
        }
        (None, None) if std::io::stdin().is_terminal() => return shell(&session, printer).await,
        (None, None) => text_of_stdin()?,
    };
    let run = run_text(&session, printer, &text);
    #[cfg(feature = "cluster")]
    let run = super::cluster::cancelled_by_interrupt(cluster.as_ref(), run);
    run.await?;
    printer.print_requests();
    Ok(CommandOutcome::Done)
}

/// Reads standard input as text.
fn text_of_stdin() -> Result<String, Failure> {
    String::from_utf8(read_stdin()?)
        .map_err(|error| Failure::usage(format!("standard input is not valid UTF-8: {error}")))
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

/// Returns the lake's SQL context. Without a lake, files and values can still be queried.
pub async fn session(
    context: &CommandContext,
    files: FileAccess,
) -> Result<SessionContext, Failure> {
    let options = SqlOptions {
        files,
        ..options(context)?
    };
    match Lake::open_for_queries(context.lake()).await {
        Ok(lake) => lake_context(&context.unlock(lake)?, &options)
            .await
            .map_err(failure),
        Err(EngineError::NoLake(place)) => context_without_lake(&place, &options).map_err(failure),
        Err(error) => Err(error.into()),
    }
}

async fn run_text(session: &SessionContext, printer: Printer, text: &str) -> Result<(), Failure> {
    for statement in statements(text).map_err(failure)? {
        let mut stream = execute(session, statement).await.map_err(failure)?;
        // A statement like SET returns no columns.
        if stream.schema().fields().is_empty() {
            while let Some(batch) = stream.next().await {
                batch.map_err(failure)?;
            }
            continue;
        }
        let mut rows = printer.rows(stream.schema())?;
        while let Some(batch) = stream.next().await {
            rows.write(batch.map_err(failure)?)?;
        }
        rows.finish()?;
    }
    Ok(())
}

/// State of the shell between statements.
struct ShellState {
    records: bool,
    timing: bool,
}

async fn shell(session: &SessionContext, printer: Printer) -> Result<CommandOutcome, Failure> {
    eprintln!(
        "SQL over the lake. End a statement with `;`. `help` lists the shell's commands, `\\d` the \
         tables, `quit` leaves."
    );
    let mut shell = Shell::new("sql", completions(session).await);
    let mut state = ShellState {
        records: printer.prints_records(),
        timing: true,
    };
    while let Some(text) = next_statements(&mut shell, &mut state)? {
        let started = Instant::now();
        match run_text(session, printer.with_records(state.records), &text).await {
            Err(failure) => note(&failure),
            Ok(()) if state.timing => eprintln!("{} ms", started.elapsed().as_millis()),
            Ok(()) => {}
        }
    }
    Ok(CommandOutcome::Done)
}

/// Returns the next statements of the user, after the shell's commands before them; `None` at the
/// end of the input.
fn next_statements(shell: &mut Shell, state: &mut ShellState) -> Result<Option<String>, Failure> {
    loop {
        let text = match shell.read()? {
            ShellInput::End => return Ok(None),
            ShellInput::Nothing => None,
            ShellInput::Text(text) => Some(text),
            ShellInput::Command(command) => state.run_command(command),
        };
        if text.is_some() {
            return Ok(text);
        }
    }
}

impl ShellState {
    /// Runs a shell command; returns the SQL statement that it is an alias for, if any.
    fn run_command(&mut self, command: ShellCommand) -> Option<String> {
        let on_off = |is_on: bool| if is_on { "on" } else { "off" };
        match command {
            ShellCommand::Help => eprintln!("{COMMANDS}"),
            ShellCommand::List => return Some(TABLES_QUERY.to_owned()),
            ShellCommand::Describe(name) => return Some(format!("DESCRIBE {name}")),
            ShellCommand::Functions(part) => return Some(functions_query(&part)),
            ShellCommand::Records => {
                self.records = !self.records;
                eprintln!("records are {}", on_off(self.records));
            }
            ShellCommand::Timing => {
                self.timing = !self.timing;
                eprintln!("timing is {}", on_off(self.timing));
            }
            ShellCommand::Unknown(text) => note(format_args!(
                "unknown shell command `{text}`; `help` lists the commands"
            )),
        }
        None
    }
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

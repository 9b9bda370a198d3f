//! `sql`: one statement, a file of them, standard input, or a shell.

use std::io::IsTerminal;

use arrow::error::ArrowError;
use futures::StreamExt;
use gristmill_engine::error::EngineError;
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{
    DataFusionError, SessionContext, SqlOptions, bare_context, completions, execute, lake_context, statements,
};

use super::Context;
use crate::args::Sql;
use crate::exit::{Failure, Outcome};
use crate::output::{Printer, read_in};
use crate::shell::{Entry, Shell};

/// Runs what was asked for.
pub async fn run(context: &Context, arguments: Sql) -> Result<Outcome, Failure> {
    let printer = context.printer(arguments.results);
    let session = session(context).await?;
    let text = match (arguments.query, arguments.file) {
        (Some(query), _) => query,
        (None, Some(file)) => std::fs::read_to_string(&file).map_err(|error| Failure::reading(&file, &error))?,
        (None, None) if std::io::stdin().is_terminal() => return shell(&session, printer).await,
        (None, None) => String::from_utf8(read_in()?)
            .map_err(|error| Failure::usage(format!("standard input is no statement: {error}")))?,
    };
    run_text(&session, printer, &text).await?;
    Ok(Outcome::Done)
}

/// What the common flags say about queries.
pub fn options(context: &Context) -> Result<SqlOptions, Failure> {
    let mut prices = context.price_tables()?;
    if !prices.is_empty() {
        // Each by its own version, and all of them over the shipped one where a query names none.
        prices.push(context.prices()?);
    }
    Ok(SqlOptions {
        prices,
        threads: context.threads(),
        memory: context.common.memory.map(|memory| memory.0 as usize),
        embedder: Some(context.embedder()?),
    })
}

/// The lake's context; files can be queried where there is no lake.
pub async fn session(context: &Context) -> Result<SessionContext, Failure> {
    let options = options(context)?;
    match Lake::open(context.lake()).await {
        Ok(lake) => lake_context(&context.unlocked(lake)?, &options).await.map_err(failure),
        Err(EngineError::NoLake(uri)) => {
            tracing::info!(uri, "no lake: only files can be queried");
            bare_context(&options).map_err(failure)
        }
        Err(error) => Err(error.into()),
    }
}

async fn run_text(session: &SessionContext, printer: Printer, text: &str) -> Result<(), Failure> {
    for statement in statements(text).map_err(failure)? {
        let mut stream = execute(session, statement).await.map_err(failure)?;
        // A statement like CREATE VIEW has nothing to show.
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

async fn shell(session: &SessionContext, printer: Printer) -> Result<Outcome, Failure> {
    eprintln!(
        "SQL over the lake. End a statement with `;`, complete words with Tab, leave with Ctrl-D. SHOW TABLES; lists tables."
    );
    let mut shell = Shell::new("sql", completions(session).await);
    loop {
        match shell.read()? {
            Entry::End => return Ok(Outcome::Done),
            Entry::Nothing => {}
            Entry::Text(text) => {
                if let Err(failure) = run_text(session, printer, &text).await {
                    eprintln!("{failure}");
                }
            }
        }
    }
}

/// What the query engine said, without the layers around it. A damaged file is a problem of the data; what a function or a cast makes
/// of a sound value is one of usage.
pub fn failure(error: DataFusionError) -> Failure {
    let root = error.find_root();
    if let DataFusionError::External(cause) = root
        && let Some(cause) = cause.downcast_ref::<EngineError>()
    {
        return match cause {
            EngineError::Refused { .. } => Failure::data(cause.to_string()),
            other => Failure::usage(other.to_string()),
        };
    }
    if is_damage(root) { Failure::data(hint(root)) } else { Failure::usage(hint(root)) }
}

/// True if a file can't be read as what it is.
fn is_damage(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::ParquetError(_) => true,
        DataFusionError::ArrowError(error, _) => matches!(
            **error,
            ArrowError::ParquetError(_)
                | ArrowError::IpcError(_)
                | ArrowError::AvroError(_)
                | ArrowError::CsvError(_)
                | ArrowError::JsonError(_)
                | ArrowError::ExternalError(_)
                | ArrowError::IoError(..)
        ),
        _ => false,
    }
}

/// The message, with what to try next where that is known.
fn hint(error: &DataFusionError) -> String {
    let message = error.strip_backtrace();
    if message.contains("table") && message.contains("not found") {
        format!("{message}; `gristmill sql \"SHOW TABLES\"` lists the tables, `--lake` names another lake")
    } else {
        message
    }
}

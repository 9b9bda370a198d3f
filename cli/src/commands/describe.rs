//! `describe`: what the lake is made of.

use gristmill_engine::describe::describe;

use super::Context;
use crate::args::Describe;
use crate::exit::{Failure, Outcome};

/// Shows tables, segments, sources and sidecars.
pub async fn run(context: &Context, arguments: Describe) -> Result<Outcome, Failure> {
    let printer = context.printer(arguments.results);
    let lake = context.open_lake().await?;
    printer.record(&describe(&lake).await?)?;
    Ok(Outcome::Done)
}

//! `reindex`: sidecars that are missing or damaged are made again.

use gristmill_engine::index::{IndexKinds, reindex};
use gristmill_engine::lake::Lake;

use super::Context;
use crate::args::Reindex;
use crate::exit::{Failure, Outcome};

/// Looks at every segment's sidecars and makes again what isn't whole.
pub async fn run(context: &Context, arguments: Reindex) -> Result<Outcome, Failure> {
    let printer = context.printer(arguments.results);
    let lake = Lake::open(context.lake()).await?;
    let report = reindex(&lake, IndexKinds::ALL, arguments.all).await?;
    printer.record(&report)?;
    Ok(Outcome::Done)
}

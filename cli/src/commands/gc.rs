//! `gc`: files that aren't part of the lake go.

use gristmill_engine::gc::{GcOptions, collect_garbage};

use super::Context;
use crate::args::Gc;
use crate::exit::{Failure, Outcome};
use crate::quantity::duration;

/// Removes what nobody needs, or shows it.
pub async fn run(context: &Context, arguments: Gc) -> Result<Outcome, Failure> {
    let printer = context.printer(arguments.results);
    let options = GcOptions {
        older_than: duration("--older-than", &arguments.older_than)?,
        retention: duration("--retention", &arguments.retention)?,
        dry_run: arguments.dry_run,
    };
    let mut lake = context.open_lake().await?;
    printer.record(&collect_garbage(&mut lake, &options).await?)?;
    Ok(Outcome::Done)
}

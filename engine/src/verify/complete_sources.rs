//! Whether the sources that ingest skips were ingested: the log of `grains` names them, and
//! `sources` has a row of each, which is committed before.

use std::collections::BTreeSet;

use gristmill_schemas::columns::{GRAINS, SourceOutcome};

use super::tables::{TablesCheck, problem};
use crate::error::Result;
use crate::lake::{Lake, Ledger, ReadPosition, Table, text_of};

/// The remedy for a source that is skipped and wasn't ingested.
const READ_AGAIN: &str = "gristmill ingest --again with this source";

/// Milliseconds within which the tables of a new lake are created.
const CREATION: u64 = 60_000;

/// Checks that `sources` has a row of every source of `lake` that counts as ingested. It hasn't in
/// lakes that earlier versions began, which have the table since later.
///
/// # Errors
/// Errors of reading a file that aren't damage.
pub(super) async fn check(lake: &Lake, check: &mut TablesCheck<'_>) -> Result<()> {
    let Some(sources) = lake
        .sources
        .as_ref()
        .filter(|it| is_as_old(it, &lake.grains))
    else {
        return Ok(());
    };
    // Damage of the tables is a problem of its own.
    let ledger = match Ledger::load(&lake.grains).await {
        Err(error) if error.is_environment() => return Err(error),
        Err(_) => return Ok(()),
        Ok(ledger) => ledger,
    };
    let complete = ledger
        .iter()
        .filter(|(_, reached)| *reached == ReadPosition::Complete);
    let mut unlisted: BTreeSet<&str> = complete.map(|(source, _)| source).collect();
    match remove_listed(sources, &mut unlisted).await {
        Err(error) if error.is_environment() => return Err(error),
        Err(_) => return Ok(()),
        Ok(()) => {}
    }
    for source in unlisted {
        let cause = format!(
            "the source {source} counts as ingested there and is skipped, but `sources` has no \
             row of its ingest"
        );
        let log = format!("{GRAINS}/_delta_log");
        check.found(problem(GRAINS, &log, &cause, READ_AGAIN));
    }
    Ok(())
}

fn is_as_old(sources: &Table, grains: &Table) -> bool {
    let ages = sources.created_at().zip(grains.created_at());
    ages.is_some_and(|(sources, grains)| sources <= grains.saturating_add(CREATION))
}

/// Removes the sources with a row of their ingest in the newest version of `sources` from
/// `unlisted`.
async fn remove_listed(sources: &Table, unlisted: &mut BTreeSet<&str>) -> Result<()> {
    // The ledger may be newer than the handle.
    let mut sources = sources.clone();
    sources.refresh().await?;
    for batch in sources.read_columns(&["source_id", "outcome"]).await? {
        for row in 0..batch.num_rows() {
            if text_of(&batch, "outcome", row) == Some(SourceOutcome::Ingested.name())
                && let Some(source) = text_of(&batch, "source_id", row)
            {
                unlisted.remove(source);
            }
        }
    }
    Ok(())
}

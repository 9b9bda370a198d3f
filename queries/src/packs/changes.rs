//! The tables of a scan that state what changed since the last one, for rules about the lifecycle
//! of grains. An event can make an old grain a finding, so such rules need more than `scanned`; and
//! few grains have new events, so they don't need the lake.
//!
//! | table | one row is |
//! |---|---|
//! | `unscanned` | a grain that isn't in scope |
//! | `changed_grains` | a grain in scope, or another one that an event of the scope is about |
//! | `scanned_supersessions` | a supersession that a grain in scope or an event of the scope states |
//!
//! In a scan of everything the last two are `grains` and `supersessions`, and the first is empty.

use std::sync::Arc;

use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use gristmill_engine::lake::Lake;
use gristmill_schemas::columns::{GRAINS, grains_schema, state_schema};

use super::error::Result;
use super::incremental::NewFiles;
use super::scan::SCANNED;
use crate::sql::lifecycle::{Copies, supersessions_in};
use crate::sql::{LAKE_STORE, LakeTable, register_view};

/// The events in scope.
const SCANNED_STATE: &str = "scanned_state";

const UNSCANNED: &str = "unscanned";

const CHANGED_GRAINS: &str = "changed_grains";
const SCANNED_SUPERSESSIONS: &str = "scanned_supersessions";

/// Registers the tables of a scan of everything.
///
/// # Errors
/// If `context` lacks `scanned` or the views of a lake.
pub(super) fn register_everything(context: &SessionContext) -> Result<()> {
    context.register_table(UNSCANNED, Arc::new(EmptyTable::new(grains_schema())))?;
    register(context, SCANNED, "supersessions")
}

/// Registers the tables of a scan of `new`, files of `lake`.
///
/// # Errors
/// [`PackError::Engine`](super::PackError::Engine) if the logs of the lake can't be read.
pub(super) fn register_changes(
    context: &SessionContext,
    lake: &Lake,
    new: &NewFiles,
) -> Result<()> {
    let store = ObjectStoreUrl::parse(LAKE_STORE)?;
    let others = LakeTable::new(lake, lake.grains.clone(), grains_schema(), store.clone())?
        .with_sidecars(lake)
        .limited_to(|file| !new.contain(file));
    context.register_table(UNSCANNED, Arc::new(others))?;
    let copies = Copies::of(&context.copied_config());
    if copies == Copies::Possible {
        // An original that is new supersedes its copies, without an event that names them.
        return register(context, GRAINS, "supersessions");
    }
    let events = LakeTable::new(lake, lake.state.clone(), state_schema(), store)?
        .limited_to(|file| new.contain_events(file));
    context.register_table(SCANNED_STATE, Arc::new(events))?;
    // Most events are about grains in scope. Those of others are few enough to be looked up.
    let changed = format!(
        "SELECT * FROM {SCANNED}
         UNION ALL
         SELECT * FROM {UNSCANNED} LEFT SEMI JOIN
             (SELECT about FROM
                  (SELECT content_address AS about FROM {SCANNED_STATE}
                   UNION ALL
                   SELECT unnest(supersedes) AS about FROM {SCANNED} WHERE supersedes IS NOT NULL)
              LEFT ANTI JOIN (SELECT content_address AS known FROM {SCANNED}) AS scope
                  ON about = known) AS events
             ON content_address = about"
    );
    let supersessions = supersessions_in(SCANNED_STATE, SCANNED, copies);
    register(
        context,
        &format!("({changed})"),
        &format!("({supersessions})"),
    )
}

/// Registers both tables as the rows of two relations.
fn register(context: &SessionContext, changed: &str, supersessions: &str) -> Result<()> {
    register_view(
        context,
        CHANGED_GRAINS,
        format!("SELECT * FROM {changed} AS changed"),
    )?;
    register_view(
        context,
        SCANNED_SUPERSESSIONS,
        format!("SELECT * FROM {supersessions} AS stated"),
    )?;
    Ok(())
}

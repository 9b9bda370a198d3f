//! The tables of a scan that state what changed since the last one, for rules about the lifecycle
//! of grains. An event can make an old grain a finding, so such rules need more than `scanned`; and
//! few grains have new events, so they don't need the lake.
//!
//! | table | one row is |
//! |---|---|
//! | `unscanned` | a grain that isn't in scope |
//! | `changed_grains` | a grain in scope, or another one that an event of the scope is about |
//! | `scanned_supersessions` | a supersession that a grain in scope or an event of the scope states |
//! | `changed_withdrawals` | a row of `withdrawn_consents` that may be new since the last scan |
//!
//! In a scan of everything `changed_grains` and `scanned_supersessions` are `grains` and
//! `supersessions`, and the other two are empty.
//!
//! Whether a consent stands depends on nothing but the consents of its subject and the events about
//! these. So `changed_withdrawals` has those of the subjects with a consent in `changed_grains`.

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
const CHANGED_WITHDRAWALS: &str = "changed_withdrawals";

/// Query of `changed_withdrawals` in a scan of what is new.
const WITHDRAWALS_OF_CHANGED: &str = "
    SELECT * FROM withdrawn_consents LEFT SEMI JOIN
        (SELECT c.content_address FROM consents c LEFT SEMI JOIN
             (SELECT subject_did FROM consents LEFT SEMI JOIN
                  (SELECT content_address AS about FROM changed_grains) AS changed
              ON content_address = about) AS touched
         ON c.subject_did = touched.subject_did) AS theirs
    ON consent = theirs.content_address";

/// Registers the tables of a scan of everything.
///
/// # Errors
/// If `context` lacks `scanned` or the views of a lake.
pub(super) fn register_everything(context: &SessionContext) -> Result<()> {
    context.register_table(UNSCANNED, Arc::new(EmptyTable::new(grains_schema())))?;
    register(context, SCANNED, "supersessions")?;
    let none = "SELECT * FROM withdrawn_consents WHERE false";
    register_view(context, CHANGED_WITHDRAWALS, none.to_owned())?;
    Ok(())
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
        register(context, GRAINS, "supersessions")?;
        return register_withdrawals(context);
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
    )?;
    register_withdrawals(context)
}

/// Registers the withdrawals that may be new, by the grains that have changed.
fn register_withdrawals(context: &SessionContext) -> Result<()> {
    let query = WITHDRAWALS_OF_CHANGED.to_owned();
    register_view(context, CHANGED_WITHDRAWALS, query)?;
    Ok(())
}

/// Registers `changed_grains` and `scanned_supersessions` as the rows of two relations.
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

//! The tables of a scan that state what changed since the last one, for rules about the lifecycle
//! of grains. An event can make an old grain a finding, so such rules need more than `scanned`; and
//! few grains have new events, so they don't need the lake.
//!
//! | table | one row is |
//! |---|---|
//! | `unscanned` | a grain that isn't in scope |
//! | `changed_grains` | a grain in scope, or another one that an event of the scope is about |
//! | `scanned_supersessions` | a supersession that a grain in scope or an event of the scope states |
//! | `changed_supersessions` | a row of `supersessions` about one of these, a new successor, or a source of a grain in scope |
//! | `changed_lifecycle` | a row of `lifecycle` about one of the same grains |
//! | `scanned_consent_state` | a row of `consent_state` about a subject of a user of `scanned` |
//! | `scanned_withdrawals` | a row of `withdrawn_consents` that a grain in scope may rest on |
//! | `changed_withdrawals` | a row of `withdrawn_consents` that may be new since the last scan |
//!
//! In a scan of everything `unscanned` and `changed_withdrawals` are empty, and the others are the
//! tables and views of the lake.
//!
//! What is folded for a grain depends on nothing but the events about it, and whether a consent
//! stands on nothing but the consents of its subject and the events about these. So the views are
//! asked about some grains or subjects only: with their own definitions, over fewer rows. The
//! subjects are found once, before the rules run; if there are too many, all are asked about.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use gristmill_engine::lake::Lake;
use gristmill_schemas::columns::{GRAINS, grains_schema, state_schema};

use super::error::Result;
use super::incremental::NewFiles;
use super::pack::{Check, Pack};
use super::scan::SCANNED;
use crate::sql::consent_views::{consent_state_of, withdrawn_consents_of};
use crate::sql::lifecycle::{Copies, EventSources, fold_query, supersessions_in};
use crate::sql::{LAKE_STORE, LakeTable, register_view};

/// The events in scope.
const SCANNED_STATE: &str = "scanned_state";

const UNSCANNED: &str = "unscanned";

pub(super) const CHANGED_GRAINS: &str = "changed_grains";
const SCANNED_SUPERSESSIONS: &str = "scanned_supersessions";
const CHANGED_SUPERSESSIONS: &str = "changed_supersessions";
pub(super) const CHANGED_LIFECYCLE: &str = "changed_lifecycle";
const SCANNED_CONSENT_STATE: &str = "scanned_consent_state";
const SCANNED_WITHDRAWALS: &str = "scanned_withdrawals";
const CHANGED_WITHDRAWALS: &str = "changed_withdrawals";

/// Query of the grains in scope, what they are derived from, the grains that an event of the scope
/// is about, and the successors that such events name. Not all of them are in the lake.
const CHANGED_ADDRESSES: &str = "
    SELECT content_address AS listed FROM scanned
    UNION ALL
    SELECT content_address AS listed FROM scanned_state
    UNION ALL
    SELECT value AS listed FROM scanned_state WHERE event = 'superseded'
    UNION ALL
    SELECT unnest(supersedes) AS listed FROM scanned WHERE supersedes IS NOT NULL
    UNION ALL
    SELECT grain_reference(target) AS listed
    FROM (SELECT unnest(derived_from) AS target FROM scanned WHERE derived_from IS NOT NULL)";

/// Most subjects that are found before a scan and held in memory. A view reads the list several
/// times at once. If they are more, the views are asked about all subjects.
const MAX_SUBJECTS: usize = 65_536;

/// Query of the grains that an event of the scope is about.
const GRAINS_WITH_EVENTS: &str = "
    SELECT content_address AS about FROM scanned_state
    UNION ALL
    SELECT unnest(supersedes) AS about FROM scanned WHERE supersedes IS NOT NULL";

/// Returns the query of the subjects of the consents in `changed_grains`.
fn changed_subjects() -> String {
    format!(
        "SELECT subject_did AS listed FROM scanned WHERE type = 'consent'
         UNION ALL
         SELECT subject_did AS listed FROM consents
             LEFT SEMI JOIN ({GRAINS_WITH_EVENTS}) AS events ON content_address = about"
    )
}

/// Query of the subjects of the consents that grains in scope rest on.
const BASIS_SUBJECTS: &str = "
    SELECT DISTINCT subject_did AS listed FROM consents LEFT SEMI JOIN
        (SELECT grain_reference(processing_basis) AS named
         FROM scanned WHERE processing_basis IS NOT NULL) AS bases
    ON content_address = named";

/// Query of the subjects of the consents of the users with a grain in scope.
const USERS_SUBJECTS: &str = "
    SELECT DISTINCT subject_did AS listed FROM consents LEFT SEMI JOIN
        (SELECT DISTINCT user_id AS seen FROM scanned WHERE user_id IS NOT NULL) AS users
    ON user_id = seen";

/// Registers the tables of a scan of everything.
///
/// # Errors
/// If `context` lacks `scanned` or the views of a lake.
pub(super) fn register_everything(context: &SessionContext) -> Result<()> {
    context.register_table(UNSCANNED, Arc::new(EmptyTable::new(grains_schema())))?;
    register_all_events(context, SCANNED)?;
    register_all_consents(context, "withdrawn_consents WHERE false")
}

/// Registers the tables of a scan of `new`, files of `lake`, for the rules of `packs`.
///
/// # Errors
/// [`PackError::Engine`](super::PackError::Engine) if the logs of the lake can't be read.
pub(super) async fn register_changes(
    context: &SessionContext,
    lake: &Lake,
    new: &NewFiles,
    packs: &[Pack],
) -> Result<()> {
    let store = ObjectStoreUrl::parse(LAKE_STORE)?;
    let others = LakeTable::new(lake, lake.grains.clone(), grains_schema(), store.clone())?
        .with_sidecars(lake)
        .limited_to(|file| !new.contain(file));
    context.register_table(UNSCANNED, Arc::new(others))?;
    let copies = Copies::of(&context.copied_config());
    if copies == Copies::Possible {
        // An original that is new supersedes its copies, without an event that names them.
        register_all_events(context, GRAINS)?;
        return register_all_consents(context, "withdrawn_consents");
    }
    let events = LakeTable::new(lake, lake.state.clone(), state_schema(), store)?
        .limited_to(|file| new.contain_events(file));
    context.register_table(SCANNED_STATE, Arc::new(events))?;
    // Most events are about grains in scope. Those of others are few enough to be looked up.
    let changed = format!(
        "SELECT * FROM {SCANNED}
         UNION ALL
         SELECT * FROM {UNSCANNED} LEFT SEMI JOIN
             (SELECT about FROM ({GRAINS_WITH_EVENTS}) AS all_events
              LEFT ANTI JOIN (SELECT content_address AS known FROM {SCANNED}) AS scope
                  ON about = known) AS events
             ON content_address = about"
    );
    let stated = EventSources {
        state: SCANNED_STATE,
        grains: SCANNED,
        copies,
        about: None,
    };
    let changed_events = EventSources {
        about: Some(CHANGED_ADDRESSES),
        ..EventSources::of_lake(copies)
    };
    for (name, query) in [
        (CHANGED_GRAINS, changed),
        (SCANNED_SUPERSESSIONS, supersessions_in(&stated)),
        (CHANGED_SUPERSESSIONS, supersessions_in(&changed_events)),
        (CHANGED_LIFECYCLE, fold_query(&changed_events, None)),
    ] {
        register_view(context, name, query)?;
    }
    register_consents(context, packs).await
}

/// Registers the tables about lifecycle events with all of them, and `changed_grains` as `changed`.
fn register_all_events(context: &SessionContext, changed: &str) -> Result<()> {
    for (name, rows) in [
        (CHANGED_GRAINS, changed),
        (SCANNED_SUPERSESSIONS, "supersessions"),
        (CHANGED_SUPERSESSIONS, "supersessions"),
        (CHANGED_LIFECYCLE, "lifecycle"),
    ] {
        register_view(context, name, format!("SELECT * FROM {rows}"))?;
    }
    Ok(())
}

/// Registers the tables about consents with what is stated about all of them, and
/// `changed_withdrawals` as `changed`.
fn register_all_consents(context: &SessionContext, changed: &str) -> Result<()> {
    for (name, rows) in [
        (SCANNED_CONSENT_STATE, "consent_state"),
        (SCANNED_WITHDRAWALS, "withdrawn_consents"),
        (CHANGED_WITHDRAWALS, changed),
    ] {
        register_view(context, name, format!("SELECT * FROM {rows}"))?;
    }
    Ok(())
}

/// Registers what is stated about the consents that concern grains in scope, and the withdrawals
/// that may be new. Subjects are found for the tables only that a rule of `packs` names.
async fn register_consents(context: &SessionContext, packs: &[Pack]) -> Result<()> {
    type Limited = fn(&str) -> String;
    let changed_subjects = changed_subjects();
    let tables: [(&str, &str, &str, Limited); 3] = [
        (
            SCANNED_CONSENT_STATE,
            "consent_state",
            USERS_SUBJECTS,
            consent_state_of,
        ),
        (
            SCANNED_WITHDRAWALS,
            "withdrawn_consents",
            BASIS_SUBJECTS,
            withdrawn_consents_of,
        ),
        (
            CHANGED_WITHDRAWALS,
            "withdrawn_consents",
            &changed_subjects,
            withdrawn_consents_of,
        ),
    ];
    for (name, view, subjects, limited) in tables {
        let list = match is_named(name, packs) {
            true => list_subjects(context, &format!("{name}_subjects"), subjects).await?,
            false => None,
        };
        let whole = || format!("SELECT * FROM {view}");
        let query = list.map_or_else(whole, |list| limited(&list));
        register_view(context, name, query)?;
    }
    Ok(())
}

/// Returns true if the query of a rule may name `table`.
fn is_named(table: &str, packs: &[Pack]) -> bool {
    let mut rules = packs.iter().flat_map(|pack| &pack.rules);
    rules.any(
        |rule| matches!(&rule.check, Check::Sql(text) if text.to_ascii_lowercase().contains(table)),
    )
}

/// Finds the subjects that `query` lists and registers them as `table`; returns the query of its
/// rows, or `None` if there are more than [`MAX_SUBJECTS`].
async fn list_subjects(
    context: &SessionContext,
    table: &str,
    query: &str,
) -> Result<Option<String>> {
    let limit = MAX_SUBJECTS + 1;
    let distinct = format!(
        "SELECT DISTINCT listed FROM ({query}) AS found WHERE listed IS NOT NULL LIMIT {limit}"
    );
    let found = context.sql(&distinct).await?;
    let schema = Arc::clone(found.schema().inner());
    let rows = found.collect().await?;
    if rows.iter().map(RecordBatch::num_rows).sum::<usize>() > MAX_SUBJECTS {
        return Ok(None);
    }
    let rows = MemTable::try_new(schema, vec![rows])?;
    context.register_table(table, Arc::new(rows))?;
    Ok(Some(format!("SELECT listed FROM {table}")))
}

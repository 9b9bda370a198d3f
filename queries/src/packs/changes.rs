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
//! | `scanned_consent_state` | a row of `consent_state` about a subject of a user of `changed_grains` |
//! | `scanned_withdrawals` | a row of `withdrawn_consents`, on which a grain in scope may rest |
//! | `changed_withdrawals` | a row of `withdrawn_consents` that may be new since the last scan |
//!
//! In a scan of everything `unscanned` and `changed_withdrawals` are empty, and the others are the
//! tables and views of the lake.
//!
//! What is folded for a grain depends on nothing but the events about it, and whether a consent
//! stands on nothing but the consents of its subject and the events about these. So the views are
//! asked about some grains or subjects only: with their own definitions, over fewer rows. What
//! several rules ask about is computed once, when the first of them runs.

use std::sync::Arc;

use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use gristmill_engine::lake::Lake;
use gristmill_schemas::columns::{GRAINS, grains_schema, state_schema};

use super::error::Result;
use super::incremental::NewFiles;
use super::pack::{Check, Pack};
use super::scan::SCANNED;
use crate::sql::consent_views::{
    CONSENT_STATE, ConsentSources, SUBJECT, WITHDRAWN_CONSENTS, changed_withdrawn_consents,
    consent_state, withdrawals, withdrawn_consents,
};
use crate::sql::lifecycle::{Copies, EventSources, fold_query, supersessions_in};
use crate::sql::{LAKE_STORE, LakeTable, register_shared_rows, register_view, share_view};

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

/// The grains that aren't in scope and that an event of the scope is about.
const EVENTS_OF_OTHERS: &str = "events_of_others";

/// Addresses of the current consents of the lake.
const CURRENT_ADDRESSES: &str = "scan_current_consents";

/// The current consents of the lake. Most consents are current, and all of them are read in any
/// case, so that of the current ones only the addresses are read.
const CURRENT_CONSENTS: &str = "
    (SELECT * FROM consents AS c
     LEFT SEMI JOIN scan_current_consents AS k ON c.content_address = k.current_address)";

/// All withdrawals of the lake.
const WITHDRAWALS: &str = "scan_withdrawals";

/// The consents of the lake, as the tables of a scan have them.
const LAKE_CONSENTS: ConsentSources<'_> = ConsentSources {
    consents: "consents",
    current: CURRENT_CONSENTS,
    withdrawals: WITHDRAWALS,
};

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

/// Query of the grains that an event of the scope is about.
const GRAINS_WITH_EVENTS: &str = "
    SELECT content_address AS about FROM scanned_state
    UNION ALL
    SELECT unnest(supersedes) AS about FROM scanned WHERE supersedes IS NOT NULL";

/// Returns the query of the grains that aren't in scope and that an event of the scope is about.
/// Most events are about grains in scope, so they are few enough to be looked up.
fn events_of_others() -> String {
    format!(
        "SELECT DISTINCT about FROM ({GRAINS_WITH_EVENTS}) AS events
         LEFT ANTI JOIN (SELECT content_address AS known FROM {SCANNED}) AS scope
             ON about = known"
    )
}

/// Returns the query of `changed_grains`.
fn changed_grains() -> String {
    format!(
        "SELECT * FROM {SCANNED}
         UNION ALL
         SELECT * FROM {UNSCANNED}
         LEFT SEMI JOIN {EVENTS_OF_OTHERS} AS others ON content_address = about"
    )
}

/// Returns the query of the consents in scope, and of the grains that an event of the scope is
/// about.
fn changed_consents() -> String {
    format!(
        "SELECT content_address AS listed FROM {SCANNED} WHERE type = 'consent'
         UNION ALL
         SELECT about AS listed FROM ({GRAINS_WITH_EVENTS}) AS events"
    )
}

/// Query of the subjects of the consents of the users with a grain in scope, or with one that an
/// event of the scope is about: an older consent stands again if a newer one is refuted.
const USERS_SUBJECTS: &str = "
    SELECT DISTINCT subject_did AS listed FROM consents LEFT SEMI JOIN
        (SELECT DISTINCT user_id AS seen FROM changed_grains WHERE user_id IS NOT NULL) AS users
    ON user_id = seen
    WHERE subject_did IS NOT NULL";

/// Registers the tables of a scan of everything.
///
/// # Errors
/// If `context` lacks `scanned` or the views of a lake.
pub(super) fn register_everything(context: &SessionContext) -> Result<()> {
    context.register_table(UNSCANNED, Arc::new(EmptyTable::new(grains_schema())))?;
    register_all_events(context, SCANNED)?;
    register_all_consents(context, "withdrawn_consents WHERE false")
}

/// Lets the current consents of the lake be found once, and the withdrawn ones be computed once if
/// a rule of `packs` may ask for them.
///
/// # Errors
/// If `context` lacks the views of a lake, or they were planned before.
pub(super) fn share_consents(context: &SessionContext, packs: &[Pack]) -> Result<()> {
    let addresses = "SELECT content_address AS current_address FROM current WHERE type = 'consent'";
    register_shared_rows(context, CURRENT_ADDRESSES, addresses)?;
    let tables = [WITHDRAWN_CONSENTS, SCANNED_WITHDRAWALS, CHANGED_WITHDRAWALS];
    if tables.into_iter().any(|table| is_named(table, packs)) {
        register_shared_rows(context, WITHDRAWALS, &withdrawals("consents"))?;
        share_view(
            context,
            WITHDRAWN_CONSENTS,
            &withdrawn_consents(&LAKE_CONSENTS),
        )?;
    }
    Ok(())
}

/// Registers the tables of a scan of `new`, files of `lake`, for the rules of `packs`.
///
/// # Errors
/// [`PackError::Engine`](super::PackError::Engine) if the logs of the lake can't be read.
pub(super) fn register_changes(
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
    register_shared_rows(context, EVENTS_OF_OTHERS, &events_of_others())?;
    register_view(context, CHANGED_GRAINS, changed_grains())?;
    register_view(context, SCANNED_SUPERSESSIONS, supersessions_in(&stated))?;
    for (name, query) in [
        (CHANGED_SUPERSESSIONS, supersessions_in(&changed_events)),
        (CHANGED_LIFECYCLE, fold_query(&changed_events, None)),
    ] {
        register_shared_rows(context, name, &query)?;
    }
    register_consents(context, packs)
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
/// that may be new.
fn register_consents(context: &SessionContext, packs: &[Pack]) -> Result<()> {
    let all = |view| format!("SELECT * FROM {view}");
    let state = match is_named(SCANNED_CONSENT_STATE, packs) {
        true => scanned_consent_state(context)?,
        false => all(CONSENT_STATE),
    };
    register_view(context, SCANNED_CONSENT_STATE, state)?;
    register_view(context, SCANNED_WITHDRAWALS, all(WITHDRAWN_CONSENTS))?;
    if !is_named(CHANGED_WITHDRAWALS, packs) {
        return Ok(register_view(
            context,
            CHANGED_WITHDRAWALS,
            all(WITHDRAWN_CONSENTS),
        )?);
    }
    let query = changed_withdrawn_consents(&LAKE_CONSENTS, &changed_consents());
    Ok(register_shared_rows(context, CHANGED_WITHDRAWALS, &query)?)
}

/// Returns the query of `scanned_consent_state`.
fn scanned_consent_state(context: &SessionContext) -> Result<String> {
    let subjects = format!("{SCANNED_CONSENT_STATE}_subjects");
    register_shared_rows(context, &subjects, USERS_SUBJECTS)?;
    let of_subjects = |consents: &str| {
        format!("(SELECT * FROM {consents} AS c LEFT SEMI JOIN {subjects} ON {SUBJECT} = listed)")
    };
    let ConsentSources {
        consents, current, ..
    } = LAKE_CONSENTS;
    let [consents, current] = [consents, current].map(of_subjects);
    let withdrawals = format!("({})", withdrawals(&consents));
    Ok(consent_state(&ConsentSources {
        consents: &consents,
        current: &current,
        withdrawals: &withdrawals,
    }))
}

/// Returns true if the query of a rule may name `table`.
fn is_named(table: &str, packs: &[Pack]) -> bool {
    let mut rules = packs.iter().flat_map(|pack| &pack.rules);
    rules.any(
        |rule| matches!(&rule.check, Check::Sql(text) if text.to_ascii_lowercase().contains(table)),
    )
}

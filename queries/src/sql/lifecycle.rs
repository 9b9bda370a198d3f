//! Lifecycle state of grains in SQL: the one definition that the SQL views, `as_of` and CAL share.
//!
//! | view | one row is |
//! |---|---|
//! | `supersessions` | a grain that supersedes another, from `state` and from the columns `supersedes` and `_disclosure_of` |
//! | `lifecycle` | the fold of a grain's lifecycle events |
//! | `current` | a grain that is not superseded, expired, contradicted or retracted |
//!
//! Lifecycle fields in a blob are not trusted: only events, the grains that a row supersedes, and
//! disclosed copies next to their originals are folded. The rules that decide which event counts
//! are those of [`gristmill_schemas::lifecycle`]; a property test compares the two.

use datafusion::common::Result;
use datafusion::prelude::SessionConfig;
use gristmill_engine::lake::Lake;

use super::external;
use super::lazy_views::View;
use super::listed_rows::listed_rows;

/// Name of the view of the current grains. In a lake it is a table that leaves out rows by
/// lifecycle masks; elsewhere it is a query.
pub(super) const CURRENT: &str = "current";

/// Returns the views of a session with or without disclosed copies, and their queries.
pub(super) fn views(copies: Copies) -> [View; 3] {
    [
        ("supersessions", supersessions_query(copies)),
        ("lifecycle", lifecycle_query(None, copies)),
        (CURRENT, current_query("lifecycle", None)),
    ]
}

/// Whether grains of a session may be disclosed copies, an extension of its configuration. If not,
/// queries don't look for the originals of copies, which would be a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// The log of the lake states that there are none.
    None,
    /// There are some, or nothing is stated.
    Possible,
}

impl Copies {
    /// Returns what the grains of a session with `config` may be.
    pub(crate) fn of(config: &SessionConfig) -> Copies {
        let known = config.get_extension::<Copies>();
        known.map_or(Copies::Possible, |known| *known)
    }

    /// Returns what the grains of `lake` may be.
    ///
    /// # Errors
    /// [`DataFusionError::External`](datafusion::error::DataFusionError::External) if the log can't
    /// be read.
    pub(super) fn in_lake(lake: &Lake) -> Result<Copies> {
        let segments = lake.segments().map_err(external)?;
        let has_none = segments.iter().all(|it| it.file.disclosed == Some(0));
        Ok(if has_none {
            Copies::None
        } else {
            Copies::Possible
        })
    }
}

/// The relations from which events are read.
pub(crate) struct EventSources<'q> {
    /// Events, with the columns of `state`.
    pub(crate) state: &'q str,
    /// Grains, with the columns of `grains`.
    pub(crate) grains: &'q str,
    pub(crate) copies: Copies,
    /// A query of addresses, one column `listed`: only events about these grains are read.
    pub(crate) about: Option<&'q str>,
}

impl EventSources<'_> {
    /// Returns the sources of all events of a lake.
    pub(crate) fn of_lake(copies: Copies) -> EventSources<'static> {
        EventSources {
            state: "state",
            grains: "grains",
            copies,
            about: None,
        }
    }

    /// Returns the events as a relation: `content_address`, `event`, `value`, `at`. A grain that
    /// supersedes another adds an event to the other, at the time at which the superseding grain
    /// was created; a disclosed copy next to its original adds one to itself, at the time at which
    /// it was created. A successor that isn't an address becomes NULL.
    fn events(&self) -> String {
        let EventSources {
            state,
            grains,
            copies,
            about,
        } = self;
        let disclosed = match copies {
            Copies::None => String::new(),
            Copies::Possible => format!("UNION ALL {}", disclosed(grains)),
        };
        let events = format!(
            "(SELECT content_address, event,
                     CASE WHEN event = 'superseded' AND NOT regexp_like(value, '^[0-9a-f]{{64}}$')
                          THEN NULL ELSE value END AS value, at
              FROM {state}
              UNION ALL
              SELECT old AS content_address, 'superseded' AS event, new AS value, made AS at
              FROM (SELECT unnest(supersedes) AS old, content_address AS new,
                           coalesce(created_at, ingested_at) AS made
                    FROM {grains} WHERE supersedes IS NOT NULL)
              {disclosed})"
        );
        listed_rows(&events, "content_address", *about)
    }

    /// Returns the events of `state` as a relation.
    fn stored_events(&self) -> String {
        listed_rows(self.state, "content_address", self.about)
    }
}

/// Returns the query of the events of the disclosed copies among `grains` (a relation) whose
/// originals are there, too, and in no other namespace than the copy shows.
fn disclosed(grains: &str) -> String {
    format!(
        "SELECT content_address, 'superseded' AS event, original AS value, made AS at
         FROM (SELECT content_address, right(_disclosure_of, 64) AS original,
                      coalesce(created_at, ingested_at) AS made, namespace AS shown
               FROM {grains}
               WHERE _disclosure_of IS NOT NULL
                     AND regexp_like(_disclosure_of, '^(sha256:)?[0-9a-f]{{64}}$')) AS copies
         LEFT SEMI JOIN (SELECT content_address AS known, namespace FROM {grains}) AS originals
         ON original = known AND coalesce(shown = namespace, shown IS NULL)"
    )
}

/// Verification statuses that are recognised.
const STATUSES: &str = "('unverified', 'verified', 'contested', 'retracted')";

/// The superseding grain.
const SUCCESSOR: &str = "first_value(value ORDER BY at, value) FILTER (WHERE event = 'superseded' \
                         AND value IS NOT NULL)";

/// Whether the newest event about a contradiction asserts it. Of two events at the same instant,
/// `true` wins.
const CONTRADICTED: &str = "
    coalesce(max(at) FILTER (WHERE event = 'contradicted' AND value = 'true')
                 >= max(at) FILTER (WHERE event = 'contradicted' AND value = 'false'),
             max(at) FILTER (WHERE event = 'contradicted' AND value = 'true') IS NOT NULL)";

/// Name of the event that [`contradictions`] derives.
const CONTRADICTED_SINCE: &str = "contradicted_since";

/// Query of `supersessions`: `content_address`, `superseded_by`, `at`. If both a grain and an event
/// state a supersession, it is one row.
fn supersessions_query(copies: Copies) -> String {
    supersessions_in(&EventSources::of_lake(copies))
}

/// Query of the rows of `supersessions` that `sources` state.
pub(crate) fn supersessions_in(sources: &EventSources<'_>) -> String {
    format!(
        "SELECT content_address, value AS superseded_by, min(at) AS at FROM {events} AS events
         WHERE event = 'superseded' AND value IS NOT NULL
         GROUP BY content_address, value",
        events = sources.events()
    )
}

/// Query of the events that close grains: `content_address`, and `value`, the successor or NULL.
pub(crate) fn closing_events_query(copies: Copies) -> String {
    let events = EventSources::of_lake(copies).events();
    format!("SELECT content_address, value FROM {events} WHERE event IN ('superseded', 'expired')")
}

/// Query of the fold of all events, or of those up to `until` (an SQL expression).
pub(crate) fn lifecycle_query(until: Option<&str>, copies: Copies) -> String {
    fold_query(&EventSources::of_lake(copies), until)
}

/// Query of the fold of the events of `sources`, or of those up to `until` (an SQL expression).
pub(crate) fn fold_query(sources: &EventSources<'_>, until: Option<&str>) -> String {
    let seen = until.map_or("true".to_owned(), |until| format!("at <= {until}"));
    let verification = verification();
    format!(
        "SELECT content_address,
                {SUCCESSOR} AS superseded_by,
                min(at) FILTER (WHERE event IN ('superseded', 'expired', '{CONTRADICTED_SINCE}')) AS system_valid_to,
                {CONTRADICTED} AS contradicted,
                {verification} AS verification_status,
                max(TRY_CAST(value AS BIGINT)) FILTER (WHERE event = 'accessed') AS access_count,
                max(at) FILTER (WHERE event = 'accessed') AS last_accessed_at
         FROM (SELECT * FROM {events} AS events WHERE {seen} UNION ALL {contradictions})
         GROUP BY content_address",
        events = sources.events(),
        contradictions = contradictions(&sources.stored_events(), &seen),
    )
}

/// Query of the fold for CAL: `content_address`, `superseded_by`, `contradicted`,
/// `verification_status`, and `ended`, true if the grain was superseded or expired. CAL leaves out
/// ended grains and marks contradicted ones.
pub(crate) fn status_query(copies: Copies) -> String {
    let verification = verification();
    format!(
        "SELECT content_address,
                {SUCCESSOR} AS superseded_by,
                count(*) FILTER (WHERE event IN ('superseded', 'expired')) > 0 AS ended,
                {CONTRADICTED} AS contradicted,
                {verification} AS verification_status
         FROM {events}
         GROUP BY content_address",
        events = EventSources::of_lake(copies).events()
    )
}

/// Aggregate of the newest verification status.
fn verification() -> String {
    format!(
        "last_value(value ORDER BY at, value) FILTER (WHERE event = 'verification' AND value IN \
         {STATUSES})"
    )
}

/// Query with one row, in the columns of [`EventSources::events`], for each grain that the events
/// of `state` (a relation) matching `seen` (an SQL condition) contradict: the instant since which
/// it is contradicted without interruption.
fn contradictions(state: &str, seen: &str) -> String {
    format!(
        "SELECT content_address, '{CONTRADICTED_SINCE}' AS event, NULL AS value, min(at) AS at
         FROM (SELECT content_address, value, at,
                      max(CASE WHEN value = 'false' THEN at END) OVER (PARTITION BY content_address) AS withdrawn
               FROM {state} AS stored WHERE event = 'contradicted' AND value IN ('true', 'false') AND {seen})
         WHERE value = 'true' AND (withdrawn IS NULL OR at >= withdrawn)
         GROUP BY content_address"
    )
}

/// Query of the grains that `lifecycle` (a relation) doesn't close; with `until`, only those
/// created up to then.
pub(super) fn current_query(lifecycle: &str, until: Option<&str>) -> String {
    let made = until
        .map(|until| format!("WHERE g.created_at <= {until}"))
        .unwrap_or_default();
    format!(
        "SELECT g.* FROM grains g LEFT ANTI JOIN
             (SELECT content_address FROM {lifecycle}
              WHERE system_valid_to IS NOT NULL OR verification_status = 'retracted') AS closed
         ON g.content_address = closed.content_address {made}"
    )
}

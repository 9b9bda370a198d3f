//! What became of grains, as SQL: the one definition that SQL's views, `as_of` and CAL share.
//!
//! | view | one row is |
//! |---|---|
//! | `supersessions` | one grain taking another's place, from `state` and from the grains that say so themselves |
//! | `lifecycle` | the fold of a grain's lifecycle events |
//! | `current` | a grain that is neither superseded, expired, contradicted nor retracted |
//!
//! What a blob says of its own lifecycle isn't trusted: only events are folded, and what a grain
//! says that it supersedes. Which event counts is decided as in [`gristmill_schemas::lifecycle`],
//! whose table of rules this is in SQL; a property test compares the two.

use super::lazy_views::View;

/// The views.
pub(super) fn views() -> [View; 3] {
    [
        ("supersessions", supersessions_query()),
        ("lifecycle", lifecycle_query(None)),
        ("current", current_query("lifecycle", None)),
    ]
}

/// All events: `content_address`, `event`, `value`, `at`. A grain that supersedes another is an
/// event of the other, at the instant at which it was made. A successor that is no address is none.
const EVENTS: &str = "
    (SELECT content_address, event,
            CASE WHEN event = 'superseded' AND NOT regexp_like(value, '^[0-9a-f]{64}$') THEN NULL ELSE value END AS value, at
     FROM state
     UNION ALL
     SELECT old AS content_address, 'superseded' AS event, new AS value, made AS at
     FROM (SELECT unnest(supersedes) AS old, content_address AS new, coalesce(created_at, ingested_at) AS made FROM grains
           WHERE supersedes IS NOT NULL))";

/// The statuses of a verification that count.
const STATUSES: &str = "('unverified', 'verified', 'contested', 'retracted')";

/// The grain that took the place.
const SUCCESSOR: &str = "first_value(value ORDER BY at, value) FILTER (WHERE event = 'superseded' \
                         AND value IS NOT NULL)";

/// Whether the last word on a contradiction is that there is one. At the same instant `true`
/// counts.
const CONTRADICTED: &str = "
    coalesce(max(at) FILTER (WHERE event = 'contradicted' AND value = 'true')
                 >= max(at) FILTER (WHERE event = 'contradicted' AND value = 'false'),
             max(at) FILTER (WHERE event = 'contradicted' AND value = 'true') IS NOT NULL)";

/// The name of the event that [`contradictions`] makes.
const CONTRADICTED_SINCE: &str = "contradicted_since";

/// Who took whose place: `content_address`, `superseded_by`, `at`. What both a grain and an event
/// say is one supersession.
fn supersessions_query() -> String {
    format!(
        "SELECT content_address, value AS superseded_by, min(at) AS at FROM {EVENTS}
         WHERE event = 'superseded' AND value IS NOT NULL
         GROUP BY content_address, value"
    )
}

/// What ended whose time in the system: `content_address`, and `value`, NULL if nothing took its
/// place.
pub(crate) fn closing_events_query() -> String {
    format!("SELECT content_address, value FROM {EVENTS} WHERE event IN ('superseded', 'expired')")
}

/// The fold of all events, or of those up to `until` (an SQL expression).
pub(crate) fn lifecycle_query(until: Option<&str>) -> String {
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
         FROM (SELECT * FROM {EVENTS} WHERE {seen} UNION ALL {contradictions})
         GROUP BY content_address",
        contradictions = contradictions(&seen),
    )
}

/// The fold as CAL needs it: `content_address`, `superseded_by`, `contradicted`,
/// `verification_status`, and `ended`, whether the grain was superseded or expired. CAL leaves out
/// what ended and shows what is contradicted with a mark.
pub(crate) fn status_query() -> String {
    let verification = verification();
    format!(
        "SELECT content_address,
                {SUCCESSOR} AS superseded_by,
                count(*) FILTER (WHERE event IN ('superseded', 'expired')) > 0 AS ended,
                {CONTRADICTED} AS contradicted,
                {verification} AS verification_status
         FROM {EVENTS}
         GROUP BY content_address"
    )
}

/// The last status of a verification.
fn verification() -> String {
    format!(
        "last_value(value ORDER BY at, value) FILTER (WHERE event = 'verification' AND value IN \
         {STATUSES})"
    )
}

/// One row for each grain that is contradicted by the events that are `seen` (an SQL condition):
/// the instant since which it is, without interruption, in the columns of [`EVENTS`].
fn contradictions(seen: &str) -> String {
    format!(
        "SELECT content_address, '{CONTRADICTED_SINCE}' AS event, NULL AS value, min(at) AS at
         FROM (SELECT content_address, value, at,
                      max(CASE WHEN value = 'false' THEN at END) OVER (PARTITION BY content_address) AS withdrawn
               FROM state WHERE event = 'contradicted' AND value IN ('true', 'false') AND {seen})
         WHERE value = 'true' AND (withdrawn IS NULL OR at >= withdrawn)
         GROUP BY content_address"
    )
}

/// The grains that `lifecycle` (a relation) doesn't close, or those of them that were made up to
/// `until`.
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

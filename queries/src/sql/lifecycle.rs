//! What became of grains, as SQL: the one definition that SQL's views, `as_of` and CAL share.
//!
//! | view | one row is |
//! |---|---|
//! | `supersessions` | one grain taking another's place, from `state` and from the grains that say so themselves |
//! | `lifecycle` | the fold of a grain's lifecycle events |
//! | `current` | a grain that is neither superseded, expired, contradicted nor retracted |
//!
//! What a blob says of its own lifecycle isn't trusted: only events are folded, and what a grain says that it supersedes. Of
//! events at the same instant the one with the greater value counts, so that an answer never depends on the order of files.

use super::lazy::View;

/// The views.
pub(super) fn views() -> [View; 3] {
    [("supersessions", supersessions()), ("lifecycle", folded(None)), ("current", current("lifecycle", None))]
}

/// All events: `content_address`, `event`, `value`, `at`. A grain that supersedes another is an event of the other, at the
/// instant at which it was made.
const EVENTS: &str = "
    (SELECT content_address, event, value, at FROM state
     UNION ALL
     SELECT old AS content_address, 'superseded' AS event, new AS value, made AS at
     FROM (SELECT unnest(supersedes) AS old, content_address AS new, coalesce(created_at, ingested_at) AS made FROM grains
           WHERE supersedes IS NOT NULL))";

/// Who took whose place: `content_address`, `superseded_by`, `at`. What both a grain and an event say is one supersession.
fn supersessions() -> String {
    format!(
        "SELECT content_address, value AS superseded_by, min(at) AS at FROM {EVENTS}
         WHERE event = 'superseded' AND value IS NOT NULL
         GROUP BY content_address, value"
    )
}

/// What ended whose time in the system: `content_address`, and `value`, NULL if nothing took its place.
pub(crate) fn ended() -> String {
    format!("SELECT content_address, value FROM {EVENTS} WHERE event IN ('superseded', 'expired')")
}

/// The fold of all events, or of those up to `until` (an SQL expression).
pub(crate) fn folded(until: Option<&str>) -> String {
    let seen = until.map(|until| format!("WHERE at <= {until}")).unwrap_or_default();
    format!(
        "SELECT content_address,
                first_value(value ORDER BY at, value) FILTER (WHERE event = 'superseded' AND value IS NOT NULL)
                    AS superseded_by,
                min(at) FILTER (WHERE event IN ('superseded', 'expired')) AS system_valid_to,
                coalesce(last_value(value ORDER BY at, value) FILTER (WHERE event = 'contradicted') = 'true', false)
                    AS contradicted,
                last_value(value ORDER BY at, value) FILTER (WHERE event = 'verification') AS verification_status,
                max(TRY_CAST(value AS BIGINT)) FILTER (WHERE event = 'accessed') AS access_count,
                max(at) FILTER (WHERE event = 'accessed') AS last_accessed_at
         FROM {EVENTS} {seen}
         GROUP BY content_address"
    )
}

/// The grains that `lifecycle` (a relation) doesn't close, or those of them that were made up to `until`.
pub(super) fn current(lifecycle: &str, until: Option<&str>) -> String {
    let made = until.map(|until| format!("WHERE g.created_at <= {until}")).unwrap_or_default();
    format!(
        "SELECT g.* FROM grains g LEFT ANTI JOIN
             (SELECT content_address FROM {lifecycle}
              WHERE system_valid_to IS NOT NULL OR contradicted OR verification_status = 'retracted') AS closed
         ON g.content_address = closed.content_address {made}"
    )
}

//! Authority and environment of a session. No statement can widen them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::cal::limits;

/// The authority and the environment of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The only visible namespace; `None` for the whole lake.
    pub namespace: Option<String>,
    /// The user that MY refers to.
    pub user: Option<String>,
    /// The agent that acts for the user: the default observer of new observations.
    pub agent: Option<String>,
    /// The current time, in milliseconds since the epoch.
    pub now_ms: i64,
    /// Allows ADD, SUPERSEDE and REVERT (tier 1).
    pub writes: bool,
    /// Lets an ASSEMBLE without FORMAT be written as `toon` when its budget is tight.
    pub auto_toon: bool,
    /// Lets an ASSEMBLE include reasoning that a human must review first.
    pub unreviewed: bool,
    /// Leaves the cause out of errors of the environment: it may name files, and values of grains
    /// that the session doesn't see. The log has it.
    pub hides_causes: bool,
    /// Time limit of a query.
    pub query_timeout: Duration,
    /// Time limit of an ASSEMBLE.
    pub assemble_timeout: Duration,
}

impl Session {
    /// Returns a read-only session over the whole lake at `now_ms`, with the time limits of the
    /// specification.
    pub fn at(now_ms: i64) -> Session {
        Session {
            namespace: None,
            user: None,
            agent: None,
            now_ms,
            writes: false,
            auto_toon: false,
            unreviewed: false,
            hides_causes: false,
            query_timeout: Duration::from_millis(limits::QUERY_TIMEOUT_MILLIS),
            assemble_timeout: Duration::from_millis(limits::ASSEMBLE_TIMEOUT_MILLIS),
        }
    }
}

/// Returns the current time in milliseconds since the Unix epoch, as [`Session::now_ms`] has it.
pub fn current_millis() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

//! Who asks, and under which conditions: nothing that a statement says can widen it.

use std::time::Duration;

use crate::cal::limits;

/// The authority and the environment of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The namespace of its grains; absent for the whole lake.
    pub namespace: Option<String>,
    /// The user that MY means.
    pub user: Option<String>,
    /// The agent that works for the user: the observer of observations that name none.
    pub agent: Option<String>,
    /// What "now" is, in milliseconds since the epoch.
    pub now_ms: i64,
    /// ADD, SUPERSEDE and REVERT may be executed (tier 1).
    pub writes: bool,
    /// An ASSEMBLE without FORMAT may come out as `toon` when its budget is tight.
    pub auto_toon: bool,
    /// How long a query may take.
    pub query_timeout: Duration,
    /// How long an ASSEMBLE may take.
    pub assemble_timeout: Duration,
}

impl Session {
    /// A reading session over the whole lake at `now_ms`, with the limits of the specification.
    pub fn at(now_ms: i64) -> Session {
        Session {
            namespace: None,
            user: None,
            agent: None,
            now_ms,
            writes: false,
            auto_toon: false,
            query_timeout: Duration::from_millis(limits::QUERY_TIMEOUT_MILLIS),
            assemble_timeout: Duration::from_millis(limits::ASSEMBLE_TIMEOUT_MILLIS),
        }
    }
}

//! The head of an audit log at an earlier time, kept outside of the lake.
//!
//! With the right to write every file of a lake, all of it can be set back to an earlier state,
//! which is consistent. Only what is kept elsewhere shows that there were later entries.

use chrono::{SecondsFormat, Utc};
use gristmill_schemas::columns::AuditRow;
use serde::{Deserialize, Serialize};

use super::AuditVerdict;

/// The end of an audit log at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// When the log was verified, in the form of RFC 3339.
    pub at: String,
    /// The number of its entries, of which there was at least one.
    pub entries: u64,
    /// The hash of its last entry.
    pub head: String,
}

impl AuditHead {
    /// Returns the head of the log of `verdict`, verified now. Returns `None` if the log has
    /// problems or no entry.
    pub fn of(verdict: &AuditVerdict) -> Option<AuditHead> {
        let head = verdict.head.clone().filter(|_| verdict.bad == 0)?;
        Some(AuditHead {
            at: Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true),
            entries: verdict.entries,
            head,
        })
    }

    /// Returns what `entries`, all of a log in their order, lack of this head or have in its place.
    pub(super) fn difference(&self, entries: &[AuditRow]) -> Option<String> {
        let AuditHead {
            at,
            entries: count,
            head,
        } = self;
        let last = count
            .checked_sub(1)
            .and_then(|last| usize::try_from(last).ok());
        let cause = match last.and_then(|last| entries.get(last)) {
            Some(entry) if entry.hash == *head => return None,
            Some(entry) => format!("entry {} has another hash, {}", entry.sequence, entry.hash),
            None => format!("the log has {}", entries.len()),
        };
        Some(format!(
            "at {at} the log had {count} entries and the head {head}, now {cause}: the lake was set \
             back or its log replaced since, or this is the head of another lake"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: i64, hash: &str) -> AuditRow {
        AuditRow {
            sequence,
            at: 0,
            action: "ingest".to_owned(),
            actor: None,
            details: "{}".to_owned(),
            previous: String::new(),
            hash: hash.to_owned(),
        }
    }

    #[test]
    fn a_log_has_the_heads_that_it_had() {
        let log = [entry(0, "a"), entry(1, "b")];
        let difference = |entries, head: &str| {
            let at = "2026-11-30T02:30:00Z".to_owned();
            let head = head.to_owned();
            AuditHead { at, entries, head }.difference(&log)
        };
        assert_eq!(difference(1, "a"), None);
        assert_eq!(difference(2, "b"), None);
        for (entries, head, cause) in [
            (2, "a", "entry 1 has another hash, b"),
            (3, "c", "now the log has 2"),
            (0, "a", "now the log has 2"),
            (u64::MAX, "a", "now the log has 2"),
        ] {
            let problem = difference(entries, head).unwrap();
            assert!(problem.contains(cause), "{problem}");
        }
    }
}

//! The delegation chain of a message, which only grows at its end.

use chrono::{DateTime, FixedOffset};

use crate::cmf::json_record::record;

record! {
    /// A hop of a delegation: subject, audience and scopes.
    #[derive(Eq)]
    pub struct DelegationHop {
        /// The subject that acts at this hop.
        required subject_id: String,
        /// The type of the subject, such as `user` or `agent`; not a closed set.
        required subject_type: String,
        /// The audience of the hop's credential.
        optional audience: Option<String>,
        /// The scopes of the hop's credential.
        default scopes_granted: Vec<String>,
        /// The time of the hop. The format defaults to the current time, which this crate does not
        /// read.
        optional timestamp: Option<DateTime<FixedOffset>>,
        /// The validity of the hop's credential in seconds.
        optional ttl_seconds: Option<i64>,
        /// How the credential was obtained.
        optional strategy: Option<String>,
        /// True if the credential came from a cache.
        default from_cache: bool,
    }
}

record! {
    /// The delegation chain. All members except `chain` are derived from it and recomputed when it
    /// grows.
    #[derive(Default)]
    pub struct DelegationExtension {
        /// The hops, oldest first.
        default chain: Vec<DelegationHop>,
        /// The number of hops.
        default depth: i64,
        /// The subject of the first hop.
        optional origin_subject_id: Option<String>,
        /// The subject of the last hop.
        optional actor_subject_id: Option<String>,
        /// True if there is a hop.
        default delegated: bool,
        /// Seconds from the first hop to the last.
        default age_seconds: f64,
    }
}

/// The reason why a chain is not an extension of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelegationBreak {
    /// The chain has fewer hops.
    Shrunk {
        /// Hops before.
        before: usize,
        /// Hops after.
        after: usize,
    },
    /// An existing hop was changed.
    Rewritten {
        /// The index of the first changed hop.
        hop: usize,
    },
}

impl DelegationExtension {
    /// Returns the hops that `after` adds to this chain.
    ///
    /// # Errors
    /// [`DelegationBreak`] if `after` does not start with this chain.
    pub fn added_by<'a>(
        &self,
        after: &'a DelegationExtension,
    ) -> Result<&'a [DelegationHop], DelegationBreak> {
        let (before, grown) = (&self.chain, &after.chain);
        if let Some(hop) = before.iter().zip(grown).position(|(old, new)| old != new) {
            return Err(DelegationBreak::Rewritten { hop });
        }
        grown.get(before.len()..).ok_or(DelegationBreak::Shrunk {
            before: before.len(),
            after: grown.len(),
        })
    }

    /// Returns this chain with `hops` appended. Depth, actor, age and the flag are recomputed, so a
    /// consumer can't forge them; the origin is unchanged.
    pub fn with_hops(&self, hops: &[DelegationHop]) -> Self {
        let Some(last) = hops.last() else {
            return self.clone();
        };
        let chain: Vec<DelegationHop> = self.chain.iter().chain(hops).cloned().collect();
        let age_seconds = seconds_between(chain.first(), chain.last())
            .map_or(self.age_seconds, |age| age.max(self.age_seconds));
        DelegationExtension {
            depth: i64::try_from(chain.len()).unwrap_or(i64::MAX),
            origin_subject_id: self
                .origin_subject_id
                .clone()
                .or_else(|| chain.first().map(|hop| hop.subject_id.clone())),
            actor_subject_id: Some(last.subject_id.clone()),
            delegated: true,
            age_seconds,
            chain,
        }
    }
}

/// Returns the seconds between two hops if both have a time.
fn seconds_between(first: Option<&DelegationHop>, last: Option<&DelegationHop>) -> Option<f64> {
    let milliseconds = (last?.timestamp? - first?.timestamp?).num_milliseconds();
    Some(milliseconds as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(subject: &str, time: &str) -> DelegationHop {
        DelegationHop {
            subject_id: subject.to_owned(),
            subject_type: "user".to_owned(),
            audience: None,
            scopes_granted: vec![],
            timestamp: Some(DateTime::parse_from_rfc3339(time).unwrap()),
            ttl_seconds: None,
            strategy: None,
            from_cache: false,
        }
    }

    #[test]
    fn a_hop_moves_the_actor_and_leaves_the_origin() {
        let first =
            DelegationExtension::default().with_hops(&[hop("alice", "2026-01-01T00:00:00Z")]);
        let second = first.with_hops(&[hop("agent", "2026-01-01T00:01:30Z")]);
        assert_eq!(
            (first.depth, first.delegated, first.age_seconds),
            (1, true, 0.0)
        );
        assert_eq!((second.depth, second.age_seconds), (2, 90.0));
        assert_eq!(second.origin_subject_id.as_deref(), Some("alice"));
        assert_eq!(second.actor_subject_id.as_deref(), Some("agent"));
    }

    #[test]
    fn only_hops_at_the_end_may_be_added() {
        let (alice, bob) = (
            hop("alice", "2026-01-01T00:00:00Z"),
            hop("bob", "2026-01-01T00:00:00Z"),
        );
        let chain = |hops: &[DelegationHop]| DelegationExtension::default().with_hops(hops);
        let before = chain(std::slice::from_ref(&alice));
        assert_eq!(
            before
                .added_by(&chain(&[alice.clone(), bob.clone()]))
                .unwrap(),
            std::slice::from_ref(&bob)
        );
        assert_eq!(
            before.added_by(&chain(&[])),
            Err(DelegationBreak::Shrunk {
                before: 1,
                after: 0
            })
        );
        assert_eq!(
            before.added_by(&chain(&[bob, alice])),
            Err(DelegationBreak::Rewritten { hop: 0 })
        );
    }
}

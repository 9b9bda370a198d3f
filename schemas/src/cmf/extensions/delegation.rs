//! On whose behalf a message is, hop by hop: a chain that only grows at its end.

use chrono::{DateTime, FixedOffset};

use crate::cmf::record::record;

record! {
    /// One step of a delegation: who acts, for which audience, with which scopes.
    #[derive(Eq)]
    pub struct DelegationHop {
        /// Who acts at this hop.
        required subject_id: String,
        /// What that is, such as `user` or `agent`; not a closed set here.
        required subject_type: String,
        /// For whom the hop's credential is.
        optional audience: Option<String>,
        /// What the hop's credential permits.
        default scopes_granted: Vec<String>,
        /// When the hop was made. The format defaults to the clock, which this crate doesn't read.
        optional timestamp: Option<DateTime<FixedOffset>>,
        /// How long the hop's credential is good, in seconds.
        optional ttl_seconds: Option<i64>,
        /// How the credential was got.
        optional strategy: Option<String>,
        /// True if the credential came from a cache.
        default from_cache: bool,
    }
}

record! {
    /// The chain of delegations. All members but the chain follow from it, and are recomputed when
    /// it grows.
    #[derive(Default)]
    pub struct DelegationExtension {
        /// The hops, oldest first.
        default chain: Vec<DelegationHop>,
        /// How many hops there are.
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

/// How a chain fails to be another one with hops added at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelegationBreak {
    /// It has fewer hops.
    Shrunk {
        /// Hops before.
        before: usize,
        /// Hops after.
        after: usize,
    },
    /// A hop that was there is another one now.
    Rewritten {
        /// The position of the first such hop, from 0.
        hop: usize,
    },
}

impl DelegationExtension {
    /// The hops that `after` adds to this chain.
    ///
    /// # Errors
    /// [`DelegationBreak`] if `after` doesn't begin with this chain.
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

    /// This chain with `hops` at its end. Depth, actor, age and the flag follow from the chain, so
    /// a consumer can't forge them; the origin stays whom it was.
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

/// Seconds between two hops whose times are known.
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
    fn only_hops_at_the_end_are_growth() {
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

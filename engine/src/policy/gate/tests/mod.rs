//! The gate's rules one by one, and as properties over random policies and ancestries.

mod consents;
mod goals;
mod modes;
mod properties;
mod scopes;

use std::collections::HashMap;

use super::super::terms::PolicyScope;
use super::*;

const NOW: u64 = 1_800_000_000;

#[derive(Default)]
struct Lake(HashMap<ContentAddress, GrainFacts>);

impl FactSource for Lake {
    fn facts(&self, address: &ContentAddress) -> Option<&GrainFacts> {
        self.0.get(address)
    }
}

impl Lake {
    fn add(&mut self, name: &str, facts: GrainFacts) -> ContentAddress {
        let address = ContentAddress::of(name.as_bytes());
        self.0.insert(address, facts);
        address
    }

    fn judge(
        &self,
        target: ContentAddress,
        act: &Act,
        requester: &Requester,
    ) -> Result<Permit, ErrorCode> {
        Gate {
            now: NOW,
            known: self,
        }
        .judge(&target, act, requester)
        .map_err(|error| error.code)
    }
}

fn terms(mode: PolicyMode) -> Policy {
    Policy {
        mode,
        authorized: vec![
            "did:web:a".to_owned(),
            "did:web:b".to_owned(),
            "did:web:c".to_owned(),
        ],
        threshold: 2,
        locked_until: Some(NOW + 10),
        fallback: PolicyMode::Open,
        scope: PolicyScope::Grain,
    }
}

fn grain(policy: Policy) -> GrainFacts {
    GrainFacts {
        policy,
        author: Some("did:web:author".to_owned()),
        parents: vec![],
        supersedes: vec![],
        kind: GrainRole::Other,
        states_hold: false,
        holds: HoldStatus::default(),
        delegation: None,
    }
}

fn open() -> GrainFacts {
    grain(Policy::absent(false))
}

fn by(facts: GrainFacts) -> Act {
    Act::Supersede(Box::new(Successor {
        facts,
        has_own_policy: false,
        evidence: vec![],
        withdraws: None,
    }))
}

fn signed(did: &str) -> Requester {
    Requester {
        signer: Some(did.to_owned()),
        ..Requester::default()
    }
}

fn authorized(dids: &[&str]) -> Requester {
    Requester {
        authorizing: dids.iter().map(|did| (*did).to_owned()).collect(),
        ..Requester::default()
    }
}

const DENIED: Result<Permit, ErrorCode> = Err(ErrorCode::InvalidationDenied);
const FREE: Result<Permit, ErrorCode> = Ok(Permit {
    needs_review: false,
    autonomous: false,
});
const REVIEW: Result<Permit, ErrorCode> = Ok(Permit {
    needs_review: true,
    autonomous: false,
});
const AUTONOMOUS: Result<Permit, ErrorCode> = Ok(Permit {
    needs_review: false,
    autonomous: true,
});

fn goal(policy: Policy, state: &str) -> GrainFacts {
    let allowed = vec!["satisfied".to_owned(), "suspended".to_owned()];
    let kind = GrainRole::Goal {
        state: state.to_owned(),
        allowed,
        evidence_required: 2,
        depends_on: vec![],
    };
    GrainFacts {
        kind,
        ..grain(policy)
    }
}

fn transition(state: &str, evidence: Vec<ContentAddress>) -> Act {
    let facts = goal(Policy::absent(false), state);
    Act::Supersede(Box::new(Successor {
        facts,
        has_own_policy: false,
        evidence,
        withdraws: None,
    }))
}

/// Adds a chain of grains, each derived from the one before; the first has `policy`. Returns the
/// last.
fn chain(lake: &mut Lake, policy: Policy, length: usize, superseding: bool) -> ContentAddress {
    let mut last = lake.add("0", grain(policy));
    for number in 1..=length {
        let supersedes = if superseding { vec![last] } else { vec![] };
        last = lake.add(
            &number.to_string(),
            GrainFacts {
                parents: vec![last],
                supersedes,
                ..open()
            },
        );
    }
    last
}

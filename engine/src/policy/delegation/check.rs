//! Whether a new grain is permitted by the delegations under which it is written.

use std::collections::HashSet;
use std::fmt::Display;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{Field, GrainType};
use gristmill_schemas::sign::did_without_fragment as bare;

use super::{DelegatedAct, Delegation, Permitted};
use crate::policy::{FactSource, GrainFacts, HOPS};

/// A source of facts and of which grains are in force.
pub trait DelegationSource: FactSource {
    /// Returns true if nobody has superseded, contradicted or retracted the grain called `address`,
    /// and it hasn't expired in the lake.
    fn is_in_force(&self, address: &ContentAddress) -> bool;
}

/// Checks `act` at `now` (milliseconds since 1970) against the delegations from which it is
/// derived, except `replaced`, the grain that it supersedes, and against those under which these
/// were granted.
///
/// # Errors
/// [`ErrorCode::InvalidationDenied`] with the field that a delegation doesn't permit.
pub(crate) fn check_delegations(
    act: &DelegatedAct,
    replaced: Option<&ContentAddress>,
    source: &impl DelegationSource,
    now: i64,
) -> Result<(), GrainError> {
    if let Some(replaced) = replaced {
        check_replacement(act, replaced, source)?;
    }
    let mut seen: HashSet<ContentAddress> = replaced.copied().into_iter().collect();
    let direct = act.parents.iter().filter(|parent| seen.insert(**parent));
    let mut grants: Vec<Grant> = direct
        .map(|address| Grant {
            address: *address,
            holder: act.author.clone(),
            hops: 0,
        })
        .collect();
    while let Some(grant) = grants.pop() {
        let Some((facts, terms)) = grant.used(source) else {
            continue;
        };
        if !source.is_in_force(&grant.address) {
            let cause = "it was superseded, contradicted, retracted or expired";
            return Err(grant.refusal(Field::DerivedFrom.name(), cause, NEW_GRANT));
        }
        grant.check(act, terms, now)?;
        grants.extend(
            grant
                .above(facts)
                .filter(|above| seen.insert(above.address)),
        );
    }
    Ok(())
}

/// How many times authority can be delegated further at most: the facts of more distant ancestors
/// aren't looked up.
const MAX_DEPTH: u64 = HOPS as u64 - 1;

/// What helps if a delegation isn't valid any more, or its terms are exceeded.
const NEW_GRANT: &str = "ask the delegator for a new delegation";

/// The field with the type, which isn't one of [`Field`] for all encodings.
const TYPE: &str = "type";

/// Refuses that the delegatee of the delegation `replaced` replaces it by another one.
fn check_replacement(
    act: &DelegatedAct,
    replaced: &ContentAddress,
    source: &impl DelegationSource,
) -> Result<(), GrainError> {
    let facts = source.facts(replaced);
    let Some(terms) = facts.and_then(|facts| facts.delegation.as_deref()) else {
        return Ok(());
    };
    let is_own = is_same(&act.author, &terms.delegatee);
    if act.delegation.is_none() || !is_own || is_same(&act.author, &terms.delegator) {
        return Ok(());
    }
    let grant = Grant {
        address: *replaced,
        holder: act.author.clone(),
        hops: 0,
    };
    let cause = "its delegatee can end it and not replace it by another one";
    Err(grant.refusal(Field::AuthorDid.name(), cause, NEW_GRANT))
}

/// Returns true if both are the same DID, fragments aside. An absent one equals none.
fn is_same(left: &Option<String>, right: &Option<String>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => bare(left) == bare(right),
        _ => false,
    }
}

/// A delegation under which something is written.
#[derive(Debug, Clone)]
struct Grant {
    address: ContentAddress,
    /// Who uses it: the author of the new grain, or of the delegation below.
    holder: Option<String>,
    /// The number of delegations between it and the new grain.
    hops: u64,
}

impl Grant {
    /// Returns the facts and terms of the delegation; `None` if it is none, or its holder is the
    /// delegator, who needs none.
    fn used<'s>(&self, source: &'s impl FactSource) -> Option<(&'s GrainFacts, &'s Delegation)> {
        let facts = source.facts(&self.address)?;
        let terms = facts.delegation.as_deref()?;
        (!is_same(&self.holder, &terms.delegator)).then_some((facts, terms))
    }

    /// Returns the delegations under which this one, whose facts are `facts`, may be granted.
    fn above<'f>(&self, facts: &'f GrainFacts) -> impl Iterator<Item = Grant> + use<'f> {
        let hops = self.hops + 1;
        let parents = facts.parents.iter();
        let parents = parents.filter(|parent| !facts.supersedes.contains(parent));
        parents.map(move |address| Grant {
            address: *address,
            holder: facts.author.clone(),
            hops,
        })
    }

    /// Returns the error of an act whose `field` the delegation doesn't permit.
    fn refusal(&self, field: &'static str, cause: &str, remedy: &str) -> GrainError {
        let message = format!(
            "the delegation {} doesn't permit the grain: {cause}; {remedy}",
            self.address
        );
        GrainError::new(ErrorCode::InvalidationDenied, message).field(field)
    }

    /// Checks the conditions of the delegation, whose terms are `terms`.
    fn check(&self, act: &DelegatedAct, terms: &Delegation, now: i64) -> Result<(), GrainError> {
        if let Some(expiry) = terms.expiry.filter(|expiry| now >= *expiry) {
            let cause = format!("it expired at {expiry} ms");
            return Err(self.refusal(Field::DerivedFrom.name(), &cause, NEW_GRANT));
        }
        self.check_holder(terms)?;
        self.check_values(act, terms)?;
        self.check_depth(act, terms)?;
        match &act.delegation {
            Some(granted) => self.check_granted(granted, terms),
            None => Ok(()),
        }
    }

    fn check_holder(&self, terms: &Delegation) -> Result<(), GrainError> {
        if is_same(&self.holder, &terms.delegatee) {
            return Ok(());
        }
        let name = |did: &Option<String>| did.clone().unwrap_or_else(|| "nobody".to_owned());
        let (holder, delegatee) = (name(&self.holder), name(&terms.delegatee));
        let cause = match self.hops {
            0 => format!("it grants authority to {delegatee}, and `author_did` names {holder}"),
            _ => format!("it grants authority to {delegatee}, and {holder} has delegated it"),
        };
        let remedy = "derive only grains of its delegatee from it";
        Err(self.refusal(Field::AuthorDid.name(), &cause, remedy))
    }

    fn check_values(&self, act: &DelegatedAct, terms: &Delegation) -> Result<(), GrainError> {
        if let Some(cause) = exceeded(&terms.namespaces, act.namespace.as_ref(), "namespaces") {
            let remedy = "write to a permitted namespace";
            return Err(self.refusal(Field::Namespace.name(), &cause, remedy));
        }
        let byte = act.grain_type.map(|grain_type| grain_type as u8);
        if let Some(cause) = exceeded(&terms.types, byte.as_ref(), "types")
            && !act.reports_end
        {
            return Err(self.refusal(TYPE, &cause, NEW_GRANT));
        }
        self.check_tool(act, terms)
    }

    fn check_tool(&self, act: &DelegatedAct, terms: &Delegation) -> Result<(), GrainError> {
        let is_call = act.grain_type == Some(GrainType::Action) && act.tool.is_some();
        match exceeded(&terms.tools, act.tool.as_ref(), "tools").filter(|_| is_call) {
            Some(cause) => Err(self.refusal(Field::ToolName.name(), &cause, NEW_GRANT)),
            None => Ok(()),
        }
    }

    /// Checks that authority isn't passed on more often than the delegation permits.
    fn check_depth(&self, act: &DelegatedAct, terms: &Delegation) -> Result<(), GrainError> {
        let passed_on = self.hops + u64::from(act.delegation.is_some());
        let most = terms.depth.unwrap_or(u64::MAX).min(MAX_DEPTH);
        if passed_on > most {
            let cause =
                format!("it may be delegated further {most} times, and would be {passed_on} times");
            return Err(self.refusal(Field::DelegationDepth.name(), &cause, NEW_GRANT));
        }
        Ok(())
    }

    /// Checks that a further delegation doesn't grant more than it was granted.
    fn check_granted(&self, granted: &Delegation, terms: &Delegation) -> Result<(), GrainError> {
        let passed_on = self.hops + 1;
        let is_deeper = terms.depth.is_some_and(|depth| {
            granted
                .depth
                .is_none_or(|own| own.saturating_add(passed_on) > depth)
        });
        let is_later = terms
            .expiry
            .is_some_and(|expiry| granted.expiry.is_none_or(|own| own > expiry));
        let wider = [
            (
                is_wider(&granted.namespaces, &terms.namespaces),
                Field::AuthorizedNamespaces,
            ),
            (
                is_wider(&granted.types, &terms.types),
                Field::AuthorizedTypes,
            ),
            (
                is_wider(&granted.tools, &terms.tools),
                Field::AuthorizedTools,
            ),
            (is_deeper, Field::DelegationDepth),
            (is_later, Field::DelegationExpiry),
        ];
        match wider.into_iter().find(|(is_wider, _)| *is_wider) {
            Some((_, field)) => {
                let cause = format!("`{}` grants more than it does", field.name());
                let remedy = "state a limit that is within its own";
                Err(self.refusal(field.name(), &cause, remedy))
            }
            None => Ok(()),
        }
    }
}

/// Returns why `value` isn't `permitted`; `None` if it is.
fn exceeded<T: PartialEq + Display>(
    permitted: &Permitted<T>,
    value: Option<&T>,
    name: &str,
) -> Option<String> {
    let Permitted::Only(permitted) = permitted else {
        return None;
    };
    if value.is_some_and(|value| permitted.contains(value)) {
        return None;
    }
    let value = value.map_or_else(|| "none".to_owned(), |value| format!("`{value}`"));
    let permitted: Vec<String> = permitted.iter().map(|one| format!("`{one}`")).collect();
    Some(format!(
        "of {name} it permits [{}], and the grain has {value}",
        permitted.join(", ")
    ))
}

/// Returns true if `granted` permits a value that `terms` doesn't.
fn is_wider<T: PartialEq>(granted: &Permitted<T>, terms: &Permitted<T>) -> bool {
    match (granted, terms) {
        (_, Permitted::All) => false,
        (Permitted::All, Permitted::Only(_)) => true,
        (Permitted::Only(granted), Permitted::Only(terms)) => {
            granted.iter().any(|one| !terms.contains(one))
        }
    }
}

#[cfg(test)]
mod tests;

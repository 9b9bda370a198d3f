//! Delegations (§6.11, §28.7): what an agent may write under the authority that another granted it.
//!
//! A grain with the relation `mg:delegates_to` grants the agent that is its object (the delegatee)
//! an authority of the agent that is its subject (the delegator). A new grain whose `derived_from`
//! names a delegation is written under it, unless the delegator itself writes it or it supersedes
//! the delegation. It must be permitted by that delegation, and by those under which the delegation
//! itself was granted.
//!
//! Limits that a delegation doesn't state don't bind. One that is hidden or can't be read permits
//! nothing.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{Field, Grain, GrainType, RawValue};

mod check;

pub use check::DelegationSource;
pub(crate) use check::check_delegations;

/// The relation of delegations.
const DELEGATES_TO: &str = "mg:delegates_to";

/// The namespace that stands for all of them.
const ANY: &str = "*";

/// States of a goal with which a delegatee reports that its task has ended (§28.7).
const ENDED: [&str; 2] = ["satisfied", "failed"];

/// The values that a delegation permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permitted<T> {
    /// All values.
    All,
    /// These values.
    Only(Vec<T>),
}

/// The terms of a delegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// The agent that grants authority: `subject`.
    pub delegator: Option<String>,
    /// The agent that acts: `object`.
    pub delegatee: Option<String>,
    /// `authorized_namespaces`.
    pub namespaces: Permitted<String>,
    /// `authorized_types`, as type bytes.
    pub types: Permitted<u8>,
    /// `authorized_tools`, by which an empty list restricts nothing.
    pub tools: Permitted<String>,
    /// `delegation_depth`: how many times it may be delegated further.
    pub depth: Option<u64>,
    /// `delegation_expiry`, in milliseconds since 1970.
    pub expiry: Option<i64>,
}

impl Delegation {
    /// Returns the terms of `grain`; `None` if it is no delegation.
    pub fn of(grain: &Grain<'_>) -> Option<Delegation> {
        if grain.text(Field::Relation) != Some(DELEGATES_TO) {
            return None;
        }
        let owned = |field| grain.text(field).map(str::to_owned);
        let tools = match permitted(grain, Field::AuthorizedTools, text_of) {
            Permitted::Only(tools)
                if tools.is_empty() && !is_hidden(grain, Field::AuthorizedTools) =>
            {
                Permitted::All
            }
            tools => tools,
        };
        let namespaces = match permitted(grain, Field::AuthorizedNamespaces, text_of) {
            Permitted::Only(names) if names.iter().any(|name| name == ANY) => Permitted::All,
            namespaces => namespaces,
        };
        Some(Delegation {
            delegator: owned(Field::Subject),
            delegatee: owned(Field::Object),
            namespaces,
            types: permitted(grain, Field::AuthorizedTypes, byte_of),
            tools,
            depth: limit(grain, Field::DelegationDepth)
                .map(|depth| u64::try_from(depth).unwrap_or_default()),
            expiry: limit(grain, Field::DelegationExpiry),
        })
    }
}

fn text_of(value: RawValue<'_>) -> Option<String> {
    value.as_text().map(str::to_owned)
}

fn byte_of(value: RawValue<'_>) -> Option<u8> {
    value.as_int().and_then(|byte| u8::try_from(byte).ok())
}

/// Returns true if `field` has a value that isn't shown.
fn is_hidden(grain: &Grain<'_>, field: Field) -> bool {
    grain.get(field).is_none() && grain.is_elided(field)
}

/// Returns the values of the list `field`; none of them if it is hidden or isn't a list.
fn permitted<T>(
    grain: &Grain<'_>,
    field: Field,
    value_of: impl Fn(RawValue<'_>) -> Option<T>,
) -> Permitted<T> {
    if grain.get(field).is_none() && !grain.is_elided(field) {
        return Permitted::All;
    }
    let items = grain.get(field).and_then(|value| value.as_array());
    Permitted::Only(items.into_iter().flatten().filter_map(value_of).collect())
}

/// Returns the number `field`; the least one if it is hidden or isn't a number.
fn limit(grain: &Grain<'_>, field: Field) -> Option<i64> {
    let stated = grain.get(field).is_some() || grain.is_elided(field);
    let value = grain.get(field).and_then(|value| value.as_int());
    stated.then(|| value.unwrap_or(i64::MIN))
}

/// A new grain, as far as delegations limit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegatedAct {
    /// `author_did`.
    pub author: Option<String>,
    /// `derived_from`.
    pub parents: Vec<ContentAddress>,
    /// `namespace`.
    pub namespace: Option<String>,
    /// Its type.
    pub grain_type: Option<GrainType>,
    /// `tool_name` of an action.
    pub tool: Option<String>,
    /// True for a goal by which a delegatee reports the end of its task (§28.7).
    pub reports_end: bool,
    /// Its own terms, if it delegates further.
    pub delegation: Option<Delegation>,
}

impl DelegatedAct {
    /// Returns what `grain`, derived from `parents`, does; `None` if it is derived from nothing.
    pub fn of(grain: &Grain<'_>, parents: &[ContentAddress]) -> Option<DelegatedAct> {
        let owned = |field| grain.text(field).map(str::to_owned);
        let grain_type = grain.grain_type();
        let delegation = Delegation::of(grain);
        let state = grain.text(Field::GoalState);
        let has_ended = state.is_some_and(|state| ENDED.contains(&state));
        let is_goal = grain_type == Some(GrainType::Goal);
        (!parents.is_empty()).then(|| DelegatedAct {
            author: owned(Field::AuthorDid),
            parents: parents.to_vec(),
            namespace: owned(Field::Namespace),
            grain_type,
            tool: owned(Field::ToolName).filter(|_| grain_type == Some(GrainType::Action)),
            reports_end: is_goal && has_ended && delegation.is_none(),
            delegation,
        })
    }
}

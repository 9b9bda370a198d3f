//! The slots of the extensions, their mutability, and the check of a change (§3.1, §3.2, §5.2).

use super::capability::Capability;
use super::capability::CapabilitySet;
use super::extensions::{
    DelegationBreak, DelegationExtension, Extensions, SecurityExtension, Subject,
};
use super::labels::Labels;
use super::vocabulary::vocabulary;

vocabulary! {
    /// How a slot may change during processing (§3.1).
    pub enum MutabilityTier {
        /// No changes.
        Immutable = "immutable",
        /// Additions only; requires a capability.
        Monotonic = "monotonic",
        /// Any change; requires a capability.
        Guarded = "guarded",
        /// Any change.
        Mutable = "mutable",
    }
}

vocabulary! {
    /// The slots in the order of checking: immutable slots first. Adding or removing the whole
    /// security slot is therefore reported as a change of its subject or objects, not of its labels
    /// (§5).
    pub enum Slot {
        /// The request.
        Request = "request",
        /// Origin and threading.
        Provenance = "provenance",
        /// How a model came to its answer.
        Completion = "completion",
        /// The model.
        Llm = "llm",
        /// The framework.
        Framework = "framework",
        /// The entity as described by its server.
        Mcp = "mcp",
        /// Metadata of the host about the entity.
        Meta = "meta",
        /// Session and lineage.
        Agent = "agent",
        /// The subject as a whole.
        Subject = "security.subject",
        /// The subject's roles.
        Roles = "security.subject.roles",
        /// The subject's teams.
        Teams = "security.subject.teams",
        /// The subject's claims.
        Claims = "security.subject.claims",
        /// The subject's permissions.
        Permissions = "security.subject.permissions",
        /// Access profiles.
        Objects = "security.objects",
        /// Data policies.
        Data = "security.data",
        /// Security labels.
        Labels = "security.labels",
        /// HTTP headers.
        Http = "http",
        /// The classification level. It has no rule of change: the check ignores it, and a merge
        /// never applies a change of it.
        Classification = "security.classification",
        /// The delegation chain.
        Delegation = "delegation",
        /// Slots that are unknown in this version.
        Unknown = "unknown",
        /// Custom data.
        Custom = "custom",
    }
}

impl Slot {
    /// Returns the mutability of the slot.
    pub const fn tier(self) -> MutabilityTier {
        match self {
            Slot::Labels | Slot::Delegation => MutabilityTier::Monotonic,
            Slot::Http => MutabilityTier::Guarded,
            Slot::Custom => MutabilityTier::Mutable,
            _ => MutabilityTier::Immutable,
        }
    }

    /// Returns the capability that a change requires; `None` if no capability allows a change, or
    /// none is needed (`custom`).
    pub const fn write_capability(self) -> Option<Capability> {
        match self {
            Slot::Labels => Some(Capability::AppendLabels),
            Slot::Http => Some(Capability::WriteHeaders),
            Slot::Delegation => Some(Capability::AppendDelegation),
            _ => None,
        }
    }

    /// Returns true if the slot differs between `before` and `after`. A slot of an absent parent is
    /// absent, which is not the same as empty.
    pub fn differs(self, before: Option<&Extensions>, after: Option<&Extensions>) -> bool {
        let pair = Pair { before, after };
        match self {
            Slot::Request => pair.differ(|ext| ext.request.as_ref()),
            Slot::Provenance => pair.differ(|ext| ext.provenance.as_ref()),
            Slot::Completion => pair.differ(|ext| ext.completion.as_ref()),
            Slot::Llm => pair.differ(|ext| ext.llm.as_ref()),
            Slot::Framework => pair.differ(|ext| ext.framework.as_ref()),
            Slot::Mcp => pair.differ(|ext| ext.mcp.as_ref()),
            Slot::Meta => pair.differ(|ext| ext.meta.as_ref()),
            Slot::Agent => pair.differ(|ext| ext.agent.as_ref()),
            Slot::Subject => pair.differ(subject),
            Slot::Roles => pair.differ(|ext| subject(ext).map(|subject| &subject.roles)),
            Slot::Teams => pair.differ(|ext| subject(ext).map(|subject| &subject.teams)),
            Slot::Claims => pair.differ(|ext| subject(ext).map(|subject| &subject.claims)),
            Slot::Permissions => {
                pair.differ(|ext| subject(ext).map(|subject| &subject.permissions))
            }
            Slot::Objects => pair.differ(|ext| security(ext).map(|security| &security.objects)),
            Slot::Data => pair.differ(|ext| security(ext).map(|security| &security.data)),
            Slot::Classification => pair.differ(|ext| security(ext)?.classification.as_ref()),
            Slot::Labels => pair.differ(|ext| security(ext).map(|security| &security.labels)),
            Slot::Http => pair.differ(|ext| ext.http.as_ref()),
            Slot::Delegation => pair.differ(|ext| ext.delegation.as_ref()),
            Slot::Unknown => {
                pair.differ(|ext| Some(&ext.unknown).filter(|unknown| !unknown.is_empty()))
            }
            Slot::Custom => pair.differ(|ext| ext.custom.as_ref()),
        }
    }
}

struct Pair<'a> {
    before: Option<&'a Extensions>,
    after: Option<&'a Extensions>,
}

impl<'a> Pair<'a> {
    fn differ<T: PartialEq + 'a>(&self, slot: impl Fn(&'a Extensions) -> Option<&'a T>) -> bool {
        self.before.and_then(&slot) != self.after.and_then(&slot)
    }
}

fn security(extensions: &Extensions) -> Option<&SecurityExtension> {
    extensions.security.as_ref()
}

fn subject(extensions: &Extensions) -> Option<&Subject> {
    security(extensions)?.subject.as_ref()
}

/// A forbidden change of a slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{slot}` is {}: {reason}", slot.tier())]
pub struct TierViolation {
    /// The slot.
    pub slot: Slot,
    /// The reason.
    pub reason: ViolationReason,
}

/// The reason why a change is forbidden.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ViolationReason {
    /// No capability allows a change of the slot.
    #[error("no capability permits a change")]
    Immutable,
    /// The consumer lacks the capability.
    #[error("a change requires `{0}`")]
    Lacks(Capability),
    /// A label was removed.
    #[error("labels were removed: {}", .0.join(", "))]
    LabelsRemoved(Vec<String>),
    /// The delegation chain is shorter.
    #[error("the chain had {before} hops and has {after}")]
    ChainShrunk {
        /// Hops before.
        before: usize,
        /// Hops after.
        after: usize,
    },
    /// A hop of the delegation chain was changed.
    #[error("hop {hop} of the chain was rewritten")]
    ChainRewritten {
        /// The index of the hop.
        hop: usize,
    },
    /// The origin of the delegation was replaced, or another member without a new hop.
    #[error("the delegation was changed other than by new hops")]
    DelegationRewritten,
}

impl From<DelegationBreak> for TierViolation {
    fn from(broken: DelegationBreak) -> Self {
        let reason = match broken {
            DelegationBreak::Shrunk { before, after } => {
                ViolationReason::ChainShrunk { before, after }
            }
            DelegationBreak::Rewritten { hop } => ViolationReason::ChainRewritten { hop },
        };
        TierViolation {
            slot: Slot::Delegation,
            reason,
        }
    }
}

/// Checks that no labels were removed.
///
/// # Errors
/// [`TierViolation`] with the removed labels.
pub fn check_labels_grew(before: &Labels, after: &Labels) -> Result<(), TierViolation> {
    let gone: Vec<String> = before
        .iter()
        .filter(|label| !after.contains(label))
        .map(str::to_owned)
        .collect();
    match gone.is_empty() {
        true => Ok(()),
        false => Err(TierViolation {
            slot: Slot::Labels,
            reason: ViolationReason::LabelsRemoved(gone),
        }),
    }
}

/// Checks that all changes between `before` and `after` are permitted for a consumer with
/// `capabilities`. Both must be complete; for the output of a consumer that saw only a part, use
/// [`merge`](super::merge()).
///
/// # Errors
/// The first violation, in the order of [`Slot::ALL`].
pub fn validate(
    before: Option<&Extensions>,
    after: Option<&Extensions>,
    capabilities: CapabilitySet,
) -> Result<(), TierViolation> {
    let ruled = Slot::ALL
        .iter()
        .filter(|slot| **slot != Slot::Classification);
    let mut changed = ruled.filter(|slot| slot.differs(before, after));
    changed.try_for_each(|slot| permitted(*slot, before, after, capabilities))
}

/// Checks a changed slot.
fn permitted(
    slot: Slot,
    before: Option<&Extensions>,
    after: Option<&Extensions>,
    capabilities: CapabilitySet,
) -> Result<(), TierViolation> {
    match (slot.tier(), slot.write_capability()) {
        (MutabilityTier::Mutable, _) => Ok(()),
        (_, None) => Err(TierViolation {
            slot,
            reason: ViolationReason::Immutable,
        }),
        (_, Some(needed)) if !capabilities.contains(needed) => Err(TierViolation {
            slot,
            reason: ViolationReason::Lacks(needed),
        }),
        (MutabilityTier::Monotonic, _) => only_grew(slot, before, after),
        _ => Ok(()),
    }
}

fn only_grew(
    slot: Slot,
    before: Option<&Extensions>,
    after: Option<&Extensions>,
) -> Result<(), TierViolation> {
    if slot == Slot::Delegation {
        let none = DelegationExtension::default();
        let before = before.and_then(|ext| ext.delegation.as_ref());
        let after = after.and_then(|ext| ext.delegation.as_ref());
        return check_delegation_grew(before.unwrap_or(&none), after.unwrap_or(&none));
    }
    let none = Labels::new();
    let before = before
        .and_then(security)
        .map_or(&none, |security| &security.labels);
    check_labels_grew(
        before,
        after
            .and_then(security)
            .map_or(&none, |security| &security.labels),
    )
}

/// Checks that a delegation differs by new hops only. These change the members that are derived
/// from the chain, but not the origin.
fn check_delegation_grew(
    before: &DelegationExtension,
    after: &DelegationExtension,
) -> Result<(), TierViolation> {
    let added = before.added_by(after)?;
    let (known, given) = (&before.origin_subject_id, &after.origin_subject_id);
    let has_grown = match added.is_empty() {
        true => before == after,
        false => known.is_none() || given.is_none() || known == given,
    };
    match has_grown {
        true => Ok(()),
        false => Err(TierViolation {
            slot: Slot::Delegation,
            reason: ViolationReason::DelegationRewritten,
        }),
    }
}

//! What is taken over from the extensions that a consumer hands back (§3.1, §5.2).
//!
//! The unfiltered original stays the authority. Slot by slot, only what the consumer may change is
//! taken from its answer; what it couldn't see is absent there, and absence is no opinion. A
//! consumer that breaks a monotonic slot has the whole answer refused.

use std::borrow::Cow;

use super::access::filter;
use super::capability::{Capability, CapabilitySet};
use super::extensions::{DelegationExtension, Extensions, SecurityExtension};
use super::labels::Labels;
use super::tier::{MutabilityTier, Slot, TierViolation, labels_only_grew};

/// What became of a consumer's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged<'a> {
    /// The extensions from here on: the original itself, borrowed, where nothing was taken over.
    pub extensions: Option<Cow<'a, Extensions>>,
    /// The slots that were taken over; headers among them belong in the host's audit (§3.5).
    pub accepted: Vec<Slot>,
    /// The slots that the consumer changed without a right to. They are as they were.
    pub ignored: Vec<Slot>,
}

impl Merged<'_> {
    /// True if the answer changed nothing.
    pub fn is_unchanged(&self) -> bool {
        self.accepted.is_empty()
    }
}

/// Takes over from `output` what a consumer with `capabilities` may change in `original`.
///
/// # Errors
/// [`TierViolation`] if it removed labels, or shortened or rewrote the delegation chain, while
/// holding the right to add. The original then stays as it is.
pub fn merge<'a>(
    original: Option<&'a Extensions>,
    output: Option<&Extensions>,
    capabilities: CapabilitySet,
) -> Result<Merged<'a>, TierViolation> {
    let (Some(original), Some(output)) = (original, output) else {
        return Ok(Merged {
            extensions: original.map(Cow::Borrowed),
            accepted: vec![],
            ignored: vec![],
        });
    };
    let mut merged = Cow::Borrowed(original);
    let mut accepted = Vec::new();
    if capabilities.contains(Capability::WriteHeaders)
        && output.http.is_some()
        && output.http != original.http
    {
        merged.to_mut().http.clone_from(&output.http);
        accepted.push(Slot::Http);
    }
    if let Some(security) = grown_labels(original, output, capabilities)? {
        merged.to_mut().security = Some(security);
        accepted.push(Slot::Labels);
    }
    if let Some(delegation) = grown_delegation(original, output, capabilities)? {
        merged.to_mut().delegation = Some(delegation);
        accepted.push(Slot::Delegation);
    }
    if output.custom != original.custom {
        merged.to_mut().custom.clone_from(&output.custom);
        accepted.push(Slot::Custom);
    }
    let ignored = ignored(original, output, capabilities, &accepted);
    Ok(Merged {
        extensions: Some(merged),
        accepted,
        ignored,
    })
}

/// The original's security slot with the labels that the consumer added. Labels need a security
/// slot to be added to.
fn grown_labels(
    original: &Extensions,
    output: &Extensions,
    capabilities: CapabilitySet,
) -> Result<Option<SecurityExtension>, TierViolation> {
    let (Some(before), Some(after)) = (&original.security, &output.security) else {
        return Ok(None);
    };
    if !capabilities.contains(Capability::AppendLabels) || before.labels == after.labels {
        return Ok(None);
    }
    labels_only_grew(&before.labels, &after.labels)?;
    Ok(Some(SecurityExtension {
        labels: Labels::union([&before.labels, &after.labels]),
        ..before.clone()
    }))
}

/// The original's chain with the hops that the consumer added.
fn grown_delegation(
    original: &Extensions,
    output: &Extensions,
    capabilities: CapabilitySet,
) -> Result<Option<DelegationExtension>, TierViolation> {
    let Some(after) = &output.delegation else {
        return Ok(None);
    };
    if !capabilities.contains(Capability::AppendDelegation) {
        return Ok(None);
    }
    let none = DelegationExtension::default();
    let before = original.delegation.as_ref().unwrap_or(&none);
    let added = before.added_by(after)?;
    Ok((!added.is_empty()).then(|| before.with_hops(added)))
}

/// The slots that the consumer changed against what it was shown, and that were not taken over. A
/// slot that it left out, or left as empty as it would be if it were hidden, isn't a change.
fn ignored(
    original: &Extensions,
    output: &Extensions,
    capabilities: CapabilitySet,
    accepted: &[Slot],
) -> Vec<Slot> {
    let shown = filter(Some(original), capabilities);
    let hidden = Extensions {
        security: output
            .security
            .as_ref()
            .map(|_| SecurityExtension::default()),
        ..Extensions::default()
    };
    let changed = |slot: &Slot| {
        slot.tier() != MutabilityTier::Mutable
            && !accepted.contains(slot)
            && slot.differs(shown.as_ref(), Some(output))
            && slot.differs(Some(&hidden), Some(output))
    };
    Slot::ALL.iter().copied().filter(changed).collect()
}

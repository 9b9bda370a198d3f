//! Applies the changes of a consumer to the extensions of a message (§3.1, §5.2).
//!
//! The unfiltered original is authoritative. For each slot, only changes that the consumer may make
//! are applied. Slots that were hidden from the consumer are absent from its output; absence is not
//! a change. If a consumer violates a monotonic slot, its whole output is rejected.

use std::borrow::Cow;

use super::access::filter;
use super::capability::{Capability, CapabilitySet};
use super::extensions::{DelegationExtension, Extensions, SecurityExtension};
use super::labels::Labels;
use super::tier::{MutabilityTier, Slot, TierViolation, check_labels_grew};

/// The outcome of merging a consumer's output.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeOutcome<'a> {
    /// The resulting extensions; the original, borrowed, if nothing changed.
    pub extensions: Option<Cow<'a, Extensions>>,
    /// The changed slots. Changes of headers belong in the host's audit log (§3.5).
    pub accepted: Vec<Slot>,
    /// The slots that the consumer changed without the capability. They are unchanged.
    pub ignored: Vec<Slot>,
}

impl MergeOutcome<'_> {
    /// Returns true if nothing changed.
    pub fn is_unchanged(&self) -> bool {
        self.accepted.is_empty()
    }
}

/// Applies those changes from `output` to `original` that a consumer with `capabilities` may make.
///
/// # Errors
/// [`TierViolation`] if a consumer with the capability to append removed labels, or shortened or
/// rewrote the delegation chain.
pub fn merge<'a>(
    original: Option<&'a Extensions>,
    output: Option<&Extensions>,
    capabilities: CapabilitySet,
) -> Result<MergeOutcome<'a>, TierViolation> {
    let (Some(original), Some(output)) = (original, output) else {
        return Ok(MergeOutcome {
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
    Ok(MergeOutcome {
        extensions: Some(merged),
        accepted,
        ignored,
    })
}

/// Returns the security slot with the consumer's added labels. Labels require an existing security
/// slot.
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
    check_labels_grew(&before.labels, &after.labels)?;
    Ok(Some(SecurityExtension {
        labels: Labels::union([&before.labels, &after.labels]),
        ..before.clone()
    }))
}

/// Returns the chain with the consumer's added hops.
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

/// Returns the slots that differ from the consumer's input and were not applied. A slot that is
/// missing, or as empty as if it were hidden, is not a change.
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

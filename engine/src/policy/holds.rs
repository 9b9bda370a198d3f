//! Litigation holds: how a grain states one, and who may lift it (§23.2, Appendix A.2).
//!
//! A grain is under hold by what it states itself, or by a hold that was placed on it
//! ([`HoldIndex`](gristmill_schemas::lifecycle::HoldIndex)). Both bind erasures and the gate alike.

use std::collections::HashSet;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::Grain;
use gristmill_schemas::lifecycle::HoldStatus;
use gristmill_schemas::sign::did_without_fragment as bare;

use super::gate::{Gate, Requester, denied, is_authorized};
use super::terms::{Policy, PolicyMode};

/// The tag of a grain under a litigation hold (§13.2).
pub(crate) const HOLD_TAG: &str = "legal:litigation_hold";

/// The domain field that names the grain which declares the hold (A.2).
pub(crate) const HOLD_REFERENCE: &str = "legal:hold_ref";

/// How a grain itself states that it is under hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatedHold {
    /// The mode of its invalidation policy (§23.2).
    Policy,
    /// The tag `legal:litigation_hold` (§13.2).
    Tag,
    /// `legal:hold_ref` (A.2).
    Reference,
}

impl StatedHold {
    /// Returns how `grain` states a hold that is in force at `now`, in seconds since 1970.
    pub fn of(grain: &Grain<'_>, now: u64) -> Option<StatedHold> {
        if Policy::of(grain).effective(now) == PolicyMode::Hold {
            return Some(StatedHold::Policy);
        }
        if grain.tags().any(|tag| tag == HOLD_TAG) {
            return Some(StatedHold::Tag);
        }
        grain
            .domain_field(HOLD_REFERENCE)
            .map(|_| StatedHold::Reference)
    }

    /// Returns its name in lists.
    pub const fn name(self) -> &'static str {
        match self {
            StatedHold::Policy => "policy",
            StatedHold::Tag => "tag",
            StatedHold::Reference => "reference",
        }
    }
}

impl Policy {
    /// Returns the mode in force at `now` (seconds since 1970) for a grain with these holds: a
    /// placed hold has priority over every mode, and a stated hold that was lifted leaves the grain
    /// open.
    pub(crate) fn effective_with(&self, holds: HoldStatus, now: u64) -> PolicyMode {
        let micros = i64::try_from(now)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000_000);
        match self.effective(now) {
            _ if holds.is_placed(micros) => PolicyMode::Hold,
            PolicyMode::Hold if holds.stated_is_lifted => PolicyMode::Open,
            mode => mode,
        }
    }
}

impl Gate<'_> {
    /// Judges whether `requester` may lift the hold that the grain called `target` states. If its
    /// policy names who is authorized, as many of them must sign as its threshold requires, and at
    /// least one.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidationDenied`]; [`ErrorCode::Schema`] if the lake doesn't contain
    /// `target`.
    pub(crate) fn judge_release(
        &self,
        target: &ContentAddress,
        requester: &Requester,
    ) -> Result<(), GrainError> {
        let facts = self
            .known
            .facts(target)
            .ok_or_else(|| unknown_target(target))?;
        let policy = &facts.policy;
        if policy.authorized.is_empty() {
            return Ok(());
        }
        let signers: HashSet<&str> = requester
            .authorizing
            .iter()
            .map(|did| bare(did))
            .filter(|did| is_authorized(policy, did))
            .collect();
        let needed = policy.threshold.max(1);
        match signers.len() as u64 >= needed {
            true => Ok(()),
            false => Err(denied(
                policy,
                &format!(
                    "{} of {needed} signatures that lifting its hold needs are present; `grain \
                     authorize` makes them, for `apply` with `authorization_hex`",
                    signers.len()
                ),
            )),
        }
    }
}

pub(super) fn unknown_target(target: &ContentAddress) -> GrainError {
    GrainError::new(ErrorCode::Schema, format!("the lake has no grain {target}"))
}

/// Returns the refusal of an act on a grain under hold.
pub(super) fn held(act: &str) -> GrainError {
    let message = format!(
        "the grain is under hold: a litigation hold forbids every {act} until it is lifted; \
         `hold list` shows it"
    );
    GrainError::new(ErrorCode::InvalidationDenied, message).field("invalidation_policy")
}

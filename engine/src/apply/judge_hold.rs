//! Judging the operations that place and lift litigation holds (§23.2, Appendix A.2).
//!
//! Both need an authority (`actor`) and a reason, which are stored with the event.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::LifecycleEvent;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::lifecycle::{HoldEntry, HoldName, HoldTerms};

use super::judge::{Judged, OperationJudge, Refusal, acted_on};
use super::operation::OperationRequest;
use crate::policy::FactSource;

impl OperationJudge<'_> {
    /// Places a hold on a grain. One that is in force with the same end is done already; another
    /// end replaces the one before.
    pub(super) fn hold(
        &mut self,
        target: &ContentAddress,
        terms: &HoldTerms,
        request: &OperationRequest,
    ) -> Judged {
        check_documented(request)?;
        if terms.name.is_stated() {
            let message = "`stated` is the name of holds that grains state themselves";
            return Err(GrainError::new(ErrorCode::Schema, message)
                .field("hold")
                .into());
        }
        if terms.until.is_some_and(|until| until <= self.now) {
            let message = "the end of a hold must be in the future";
            return Err(GrainError::new(ErrorCode::Schema, message)
                .field("until")
                .into());
        }
        // The rows of an erasure that was interrupted are still there.
        if self.known.is_erased(target) {
            return Err(Refusal::erased(target));
        }
        let permit = self.permit_if_known(target)?;
        let same = |entry: HoldEntry<'_>| !entry.is_lifted && entry.until == terms.until;
        let already = self
            .facts
            .holds()
            .find(target, &terms.name)
            .is_some_and(same);
        if !already {
            let value = terms.to_value();
            self.hold_event(target, &terms.name, (LifecycleEvent::Held, &value), request);
        }
        Ok(acted_on(target, already, permit))
    }

    /// Lifts a hold from a grain. One that was lifted before is done already.
    pub(super) fn release(
        &mut self,
        target: &ContentAddress,
        name: &HoldName,
        request: &OperationRequest,
    ) -> Judged {
        check_documented(request)?;
        let permit = self.permit_if_known(target)?;
        let placed = self.facts.holds().find(target, name);
        let is_lifted = placed.map(|entry| entry.is_lifted);
        let states_hold = self
            .facts
            .facts(target)
            .is_some_and(|facts| facts.states_hold);
        let already = match (is_lifted, name.is_stated() && states_hold) {
            (Some(is_lifted), _) => is_lifted,
            (None, true) => false,
            (None, false) => return Err(not_held(target, name).into()),
        };
        if !already && name.is_stated() {
            let requester = self.requester(target, "release", request);
            self.gate().judge_release(target, &requester)?;
        }
        if !already {
            let event = (LifecycleEvent::Released, name.as_str());
            self.hold_event(target, name, event, request);
        }
        Ok(acted_on(target, already, permit))
    }

    fn hold_event(
        &mut self,
        target: &ContentAddress,
        name: &HoldName,
        event: (LifecycleEvent, &str),
        request: &OperationRequest,
    ) {
        let now = self.event_time();
        let at = self.facts.add_hold_event(*target, name, event, now);
        self.record(target, event, at, &request.actor, &request.reason);
    }
}

/// Refuses an operation without authority or reason.
fn check_documented(request: &OperationRequest) -> Result<(), GrainError> {
    for (name, value) in [("actor", &request.actor), ("reason", &request.reason)] {
        if value.as_deref().is_none_or(|text| text.trim().is_empty()) {
            let message = "a hold is placed and lifted with an authority (`actor`) and a `reason`";
            return Err(GrainError::new(ErrorCode::Schema, message).field(name));
        }
    }
    Ok(())
}

fn not_held(target: &ContentAddress, name: &HoldName) -> GrainError {
    let message = match name.is_stated() {
        true => format!("the grain {target} states no hold"),
        false => format!("the hold `{name}` was never placed on the grain {target}"),
    };
    GrainError::new(ErrorCode::Schema, message).field("hold")
}

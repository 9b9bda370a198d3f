//! The effects of lifecycle events, and the least number of them that has the same state at every
//! instant.

use super::{FALSE, LifecycleEvent, TRUE};
use crate::address::ContentAddress;
use crate::container::VerificationStatus;

/// The effect of an event on the state of its grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventEffect {
    /// The grain ended, and this is its successor.
    Superseded(ContentAddress),
    /// The grain ended; no successor is known.
    Ended,
    /// The grain was contradicted (true), or a contradiction was withdrawn (false).
    Contradicted(bool),
    /// A reviewer set the verification status.
    Verification(VerificationStatus),
    /// The grain was retrieved; the total number of retrievals, if it is known.
    Accessed(Option<i64>),
}

/// An effect and its instant in microseconds since 1970.
pub type TimedEffect = (i64, EventEffect);

impl EventEffect {
    /// Returns the effect of an event with this value; `None` if it changes no state.
    pub fn of(event: LifecycleEvent, value: Option<&str>) -> Option<EventEffect> {
        match event {
            LifecycleEvent::Superseded => Some(
                value
                    .and_then(|value| value.parse().ok())
                    .map_or(EventEffect::Ended, EventEffect::Superseded),
            ),
            LifecycleEvent::Expired => Some(EventEffect::Ended),
            LifecycleEvent::Contradicted => match value {
                Some(TRUE) => Some(EventEffect::Contradicted(true)),
                Some(FALSE) => Some(EventEffect::Contradicted(false)),
                _ => None,
            },
            LifecycleEvent::Verification => value
                .and_then(VerificationStatus::from_name)
                .map(EventEffect::Verification),
            LifecycleEvent::Accessed => Some(EventEffect::Accessed(
                value.and_then(|value| value.parse().ok()),
            )),
            LifecycleEvent::Noted | LifecycleEvent::Held | LifecycleEvent::Released => None,
        }
    }
}

/// Returns the effects that determine the state at every instant, without the others, in a
/// canonical order. The result depends neither on the order of `effects` nor on repetitions, and
/// reducing it together with further effects equals reducing all of them at once.
///
/// | effects | kept |
/// |---|---|
/// | `Superseded` | the first; at the same instant that of the least address |
/// | `Ended` | the first, if it is before any `Superseded` |
/// | `Contradicted`, `Verification` | all, each once |
/// | `Accessed` | one with the greatest count, at the last instant |
///
/// Access counts are kept for the last instant only.
pub fn reduce(mut effects: Vec<TimedEffect>) -> Vec<TimedEffect> {
    effects.sort_unstable();
    effects.dedup();
    let accesses = effects.iter().filter_map(|(at, effect)| match effect {
        EventEffect::Accessed(count) => Some((*at, *count)),
        _ => None,
    });
    let accessed = accesses.reduce(|all, next| (all.0.max(next.0), all.1.max(next.1)));
    let (mut is_superseded, mut has_ended) = (false, false);
    effects.retain(|(_, effect)| match effect {
        EventEffect::Superseded(_) => {
            has_ended = true;
            !std::mem::replace(&mut is_superseded, true)
        }
        EventEffect::Ended => !std::mem::replace(&mut has_ended, true),
        EventEffect::Contradicted(_) | EventEffect::Verification(_) => true,
        EventEffect::Accessed(_) => false,
    });
    effects.extend(accessed.map(|(at, count)| (at, EventEffect::Accessed(count))));
    effects
}

//! The bytes of lifecycle effects in a mask: tag, instant and operand.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::lifecycle::{EventEffect, TimedEffect};

use super::status_at;

const SUPERSEDED: u8 = 1;
const ENDED: u8 = 2;
const CONTRADICTED: u8 = 3;
const WITHDRAWN: u8 = 4;
const VERIFICATION: u8 = 5;
const ACCESSED: u8 = 6;
const COUNTED: u8 = 7;

/// Appends an effect to `out`.
pub(super) fn encode((at, effect): TimedEffect, out: &mut Vec<u8>) {
    let tag = match effect {
        EventEffect::Superseded(_) => SUPERSEDED,
        EventEffect::Ended => ENDED,
        EventEffect::Contradicted(true) => CONTRADICTED,
        EventEffect::Contradicted(false) => WITHDRAWN,
        EventEffect::Verification(_) => VERIFICATION,
        EventEffect::Accessed(None) => ACCESSED,
        EventEffect::Accessed(Some(_)) => COUNTED,
    };
    out.push(tag);
    out.extend(at.to_le_bytes());
    match effect {
        EventEffect::Superseded(successor) => out.extend(successor.as_bytes()),
        EventEffect::Verification(status) => {
            let known = VerificationStatus::ALL;
            let number = known.iter().position(|known| *known == status);
            out.push(number.unwrap_or_default() as u8);
        }
        EventEffect::Accessed(Some(count)) => out.extend(count.to_le_bytes()),
        EventEffect::Ended | EventEffect::Contradicted(_) | EventEffect::Accessed(None) => {}
    }
}

/// Returns the effects in `bytes`, up to the first that isn't one.
pub(super) fn decode(mut bytes: &[u8]) -> Vec<TimedEffect> {
    let mut effects = Vec::new();
    while let Some((effect, rest)) = decode_first(bytes) {
        effects.push(effect);
        bytes = rest;
    }
    effects
}

fn decode_first(bytes: &[u8]) -> Option<(TimedEffect, &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    let (effect, rest) = match *tag {
        SUPERSEDED => {
            let (successor, rest) = rest.split_first_chunk::<32>()?;
            let successor = ContentAddress::from_digest(*successor);
            (EventEffect::Superseded(successor), rest)
        }
        ENDED => (EventEffect::Ended, rest),
        CONTRADICTED => (EventEffect::Contradicted(true), rest),
        WITHDRAWN => (EventEffect::Contradicted(false), rest),
        VERIFICATION => {
            let (status, rest) = rest.split_first()?;
            (EventEffect::Verification(status_at(*status)?), rest)
        }
        ACCESSED => (EventEffect::Accessed(None), rest),
        COUNTED => {
            let (count, rest) = rest.split_first_chunk::<8>()?;
            let count = i64::from_le_bytes(*count);
            (EventEffect::Accessed(Some(count)), rest)
        }
        _ => return None,
    };
    Some(((i64::from_le_bytes(*at), effect), rest))
}

//! Passing over grains without decoding them: which payloads can't hold anything of what a request looks for?
//!
//! Most grains of a lake are of nobody whom a request names, and decoding them is most of what looking at them costs. In a payload all
//! of whose strings are plain ASCII without escapes, an identifier that is found stands as it was folded, but for the case of letters
//! and for blanks. So its longest run without blanks is looked for in the payload's bytes in lower case, whatever stands next to it.
//! A payload that has none is passed over; any other is decoded and matched. A property test holds this to the matcher.

use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Payload};

use super::needles::{Finder, SHORTEST};
use crate::text::fold::is_blank;

/// What is looked for in payloads.
#[derive(Debug)]
pub(crate) struct Sifter(Finder);

impl Sifter {
    /// Looks for `texts`, which are folded. `None` if one of them is too short for it, or has nothing to look for.
    pub(super) fn new<'t>(texts: impl Iterator<Item = &'t str>) -> Option<Sifter> {
        let longest = |text: &'t str| text.split(is_blank).max_by_key(|run| run.len()).unwrap_or_default();
        // What isn't ASCII stands in no plain string.
        let needles: Vec<Vec<u8>> =
            texts.filter(|text| text.is_ascii()).map(|text| longest(text).to_ascii_lowercase().into_bytes()).collect();
        let suits = needles.iter().all(|needle| needle.len() >= SHORTEST);
        suits.then(|| Sifter(Finder::new((0..).zip(needles))))
    }

    /// True if the grain `blob`, which is known to be readable, holds nothing of what is looked for. `scratch` is any memory.
    pub(crate) fn passes(&self, blob: &[u8], scratch: &mut Vec<u8>) -> bool {
        let Ok(payload) = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT) else { return false };
        let Some((bytes, _)) = payload.clear() else { return false };
        if bytes.contains(&b'\\') || !payload.is_plain() {
            return false;
        }
        scratch.clear();
        scratch.extend(bytes.iter().map(u8::to_ascii_lowercase));
        let mut found = false;
        self.0.find(scratch, |_, _| found = true);
        !found
    }
}

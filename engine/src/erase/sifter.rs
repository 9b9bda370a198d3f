//! Passing over grains without decoding them: which payloads can't hold anything of what a request looks for?
//!
//! Most grains of a lake are of nobody whom a request names, and decoding them is most of what looking at them costs. In ASCII without
//! escapes, an identifier that is found stands as it was folded, but for the case of letters and for blanks. So its longest run
//! without blanks is looked for in the payload's bytes in lower case, whatever stands next to it; and in the folded form of each
//! run that isn't ASCII, where it may be spelled in another way. A payload that has none is passed over; any other is decoded and
//! matched. A property test holds this to the matcher.

use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Payload};

use super::needles::{Finder, SHORTEST};
use crate::text::fold::{Folding, is_blank};

/// What is looked for in payloads.
#[derive(Debug)]
pub(crate) struct Sifter {
    runs: Finder,
    folding: Folding,
}

/// Memory that looking at one payload leaves for the next.
#[derive(Debug, Default)]
pub(crate) struct SifterScratch {
    bytes: Vec<u8>,
    folded: String,
}

impl Sifter {
    /// Looks for `texts`, which `folding` has folded. `None` if one of them is too short for it, or has nothing to look for.
    pub(super) fn new<'t>(texts: impl Iterator<Item = &'t str>, folding: Folding) -> Option<Sifter> {
        let longest = |text: &'t str| text.split(is_blank).max_by_key(|run| run.len()).unwrap_or_default();
        // Folding takes blanks off the end that aren't ASCII either.
        let needle = |text| longest(text).trim_end().to_ascii_lowercase().into_bytes();
        let needles: Vec<Vec<u8>> = texts.map(needle).collect();
        let suits = needles.iter().all(|needle| needle.len() >= SHORTEST);
        suits.then(|| Sifter { runs: Finder::new((0..).zip(needles)), folding })
    }

    /// True if the grain `blob`, which is known to be readable, holds nothing of what is looked for.
    pub(crate) fn passes(&self, blob: &[u8], scratch: &mut SifterScratch) -> bool {
        let Ok(payload) = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT) else { return false };
        let Some((bytes, _)) = payload.clear() else { return false };
        if bytes.contains(&b'\\') {
            return false;
        }
        let mut found = false;
        let SifterScratch { bytes: lower, folded } = scratch;
        let is_whole = payload.each_text_beyond_ascii(|text| {
            for run in text.split(is_blank).filter(|run| !run.is_ascii()) {
                self.folding.fold(run, folded);
                folded.make_ascii_lowercase();
                self.runs.find(folded.as_bytes(), |_, _| found = true);
            }
        });
        if found || !is_whole {
            return false;
        }
        lower.clear();
        lower.extend(bytes.iter().map(u8::to_ascii_lowercase));
        self.runs.find(lower, |_, _| found = true);
        !found
    }
}

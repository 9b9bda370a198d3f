//! Searches bytes of any kind for many byte strings at once.
//!
//! Addresses are searched as hex text and as digests (without their first eight bytes, which
//! sidecars store separately). Identifiers are searched by [`super::identifier_search`].

mod strided_finder;
#[cfg(test)]
mod tests;
mod window;

use std::ops::Range;

use gristmill_schemas::address::ContentAddress;

use super::identifier_search::IdentifierSearch;

use strided_finder::StridedFinder;
use window::{AnyBytes, Hex, LONG_PATTERN, MAX_WINDOW, MIN_STRIDE, MIN_WINDOW, NearlyAscii};

/// A compiled search for addresses and identifiers.
#[derive(Debug)]
pub(super) struct PatternSearch {
    /// Digests of the addresses.
    digests: StridedFinder<NearlyAscii>,
    /// Addresses as lower-case text.
    texts: StridedFinder<Hex>,
    identifiers: IdentifierSearch,
    addresses: usize,
}

/// Finds byte strings of at least [`MIN_PATTERN_BYTES`] bytes.
#[derive(Debug, Default)]
pub(super) struct MultiFinder(Vec<StridedFinder<AnyBytes>>);

/// Number of bytes of a digest that are searched.
const DIGEST_BYTES: usize = 24;

/// Minimal length in bytes of a pattern that is searched for.
pub(super) const MIN_PATTERN_BYTES: usize = 4;

impl PatternSearch {
    /// Compiles a search for addresses and identifiers.
    pub(super) fn new<'t>(
        addresses: impl IntoIterator<Item = &'t ContentAddress>,
        identifiers: IdentifierSearch,
    ) -> PatternSearch {
        let (mut digests, mut texts) = (Vec::new(), Vec::new());
        for address in addresses {
            digests.push(address.as_bytes()[32 - DIGEST_BYTES..].to_vec());
            texts.push(address.to_string().into_bytes());
        }
        PatternSearch {
            addresses: texts.len(),
            digests: StridedFinder::new((0..).zip(digests), MAX_WINDOW),
            texts: StridedFinder::new((0..).zip(texts), MAX_WINDOW),
            identifiers,
        }
    }

    /// Returns the number of addresses and of identifiers.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.addresses, self.identifiers.identifiers())
    }

    /// Returns the number of occurrences of addresses and of identifiers in `bytes`.
    pub(super) fn count(&self, bytes: &[u8], scratch: &mut Vec<u8>) -> (u64, u64) {
        let mut addresses = 0;
        self.digests.find(bytes, |_, _| addresses += 1);
        if !self.texts.is_empty() {
            scratch.clear();
            scratch.extend(bytes.iter().map(u8::to_ascii_lowercase));
            self.texts.find(scratch, |_, _| addresses += 1);
        }
        (addresses, self.identifiers.count(bytes))
    }

    /// As [`PatternSearch::count`], for bytes that are a whole value.
    pub(super) fn count_in_value(&self, value: &[u8], scratch: &mut Vec<u8>) -> (u64, u64) {
        let (addresses, identifiers) = self.count(value, scratch);
        match identifiers {
            0 => (addresses, 0),
            _ => (addresses, self.identifiers.count_in_value(value)),
        }
    }
}

impl MultiFinder {
    /// Compiles `patterns`, which have numbers; those that are too short are left out.
    pub(super) fn new(patterns: impl IntoIterator<Item = (u32, Vec<u8>)>) -> MultiFinder {
        let patterns = patterns
            .into_iter()
            .filter(|(_, pattern)| pattern.len() >= MIN_PATTERN_BYTES);
        let (long, short): (Vec<_>, Vec<_>) =
            patterns.partition(|(_, pattern)| pattern.len() >= LONG_PATTERN);
        let groups = [long, short].into_iter().filter_map(|group| {
            let shortest = group.iter().map(|(_, pattern)| pattern.len()).min()?;
            Some(StridedFinder::new(
                group,
                (shortest + 1)
                    .saturating_sub(MIN_STRIDE)
                    .clamp(MIN_WINDOW, MAX_WINDOW),
            ))
        });
        MultiFinder(groups.collect())
    }

    /// Calls `note` for every occurrence of a pattern in `bytes`, with the pattern's number.
    pub(super) fn find(&self, bytes: &[u8], mut note: impl FnMut(u32, Range<usize>)) {
        self.0
            .iter()
            .for_each(|strides| strides.find(bytes, &mut note));
    }
}

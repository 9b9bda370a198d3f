//! Searches bytes of any kind for many byte strings at once.
//!
//! Addresses are searched as hex text and as digests (without their first eight bytes, which
//! sidecars store separately). Identifiers are searched by [`super::identifier_search`].
//!
//! Above 500 lines: a third of them are its tests.

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ops::Range;

use gristmill_schemas::address::ContentAddress;

use super::identifier_search::IdentifierSearch;
use crate::bloom::BloomFilter;

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

/// Finds byte strings that are longer than a window of a few bytes. Each is filed under the windows
/// at `stride` consecutive offsets, one of which is at a multiple of the stride wherever the string
/// occurs. So only every `stride`-th position of the searched bytes is examined.
#[derive(Debug, Default)]
struct StridedFinder<C> {
    /// The byte strings, concatenated.
    patterns: Vec<u8>,
    /// The number and the end of each.
    ends: Vec<(u32, usize)>,
    stride: usize,
    /// Length of a window in bytes, at most eight.
    width: usize,
    /// Sorted by bytes, and then as [`StridedFinder::verify_candidate`] searches them.
    windows: Vec<Window>,
    /// Bloom filters for windows below eight bytes: of the eight bytes that end with the window,
    /// and of the windows alone, for patterns with fewer bytes before them.
    wide: BloomFilter,
    leading: BloomFilter,
    /// Bloom filters of the windows of each class. The class that nearly all searched bytes belong
    /// to has the smaller filter, which stays in the cache.
    filters: [BloomFilter; 2],
    class: PhantomData<C>,
}

/// A window of a pattern.
#[derive(Debug, Clone, Copy)]
struct Window {
    bytes: u64,
    /// Its offset in the pattern.
    offset: u32,
    /// Length of the pattern in bytes.
    length: u32,
    /// Index of the pattern in [`StridedFinder::ends`].
    pattern: u32,
}

/// Maximal number of windows, unless there are more patterns; each takes 24 bytes.
const MAX_WINDOWS: usize = 4 << 20;

/// Number of bytes of a digest that are searched.
const DIGEST_BYTES: usize = 24;

/// Minimal length of a window in bytes.
const MIN_WINDOW: usize = 4;

/// Maximal length of a window in bytes: the longer, the fewer texts share it. Where a narrower
/// window is found, this many bytes up to its end are compared too, if the pattern has them.
const MAX_WINDOW: usize = 8;

/// Minimal stride, for patterns that have room for a window and a stride.
const MIN_STRIDE: usize = 3;

/// Number of buckets in the table of window frequencies.
const FREQUENCY_BUCKETS: usize = 1 << 16;

/// Length of a pattern that has room for a window and a stride.
const LONG_PATTERN: usize = MIN_WINDOW + MIN_STRIDE - 1;

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
        if !self.texts.windows.is_empty() {
            scratch.clear();
            scratch.extend(bytes.iter().map(u8::to_ascii_lowercase));
            self.texts.find(scratch, |_, _| addresses += 1);
        }
        (addresses, self.identifiers.count(bytes))
    }
}

/// Divides windows into two classes.
trait WindowClass {
    /// Returns the class of `window`.
    fn of(window: u64) -> bool;
}

/// A single class.
#[derive(Debug, Default)]
struct AnyBytes;

impl WindowClass for AnyBytes {
    fn of(_: u64) -> bool {
        false
    }
}

/// Windows with at most one byte that isn't ASCII, as those of grains and texts mostly are. One in
/// thirty windows of digests is in this class.
#[derive(Debug, Default)]
struct NearlyAscii;

impl WindowClass for NearlyAscii {
    fn of(window: u64) -> bool {
        let beyond = window & 0x8080_8080_8080_8080;
        beyond & beyond.wrapping_sub(1) == 0
    }
}

/// Windows of lower-case hex digits, and few others: the upper half of each byte is 3 or 6.
#[derive(Debug, Default)]
struct Hex;

impl WindowClass for Hex {
    fn of(window: u64) -> bool {
        window & 0xa0a0_a0a0_a0a0_a0a0 == 0x2020_2020_2020_2020
            && (window ^ window >> 2) & 0x1010_1010_1010_1010 == 0x1010_1010_1010_1010
    }
}

/// Returns the `width` (at most eight) bytes at `at`, if there are so many.
fn bytes_at(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let rest = bytes.get(at..)?;
    let eight = match rest.first_chunk() {
        Some(eight) => *eight,
        None => {
            let mut eight = [0; 8];
            eight
                .get_mut(..rest.len())
                .filter(|_| rest.len() >= width)?
                .copy_from_slice(rest);
            eight
        }
    };
    Some(u64::from_le_bytes(eight) & low_bytes(width))
}

/// Returns a mask of the lowest `width` bytes, at most eight.
fn low_bytes(width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width)
}

/// Returns the [`MAX_WINDOW`] bytes that end with the window of `width` bytes at `at`, if there are
/// so many.
fn wide_at(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    bytes_at(bytes, (at + width).checked_sub(MAX_WINDOW)?, MAX_WINDOW)
}

/// Returns the bucket of `window` in [`StridedFinder::window_frequencies`].
fn frequency_bucket(window: u64) -> usize {
    (window.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % FREQUENCY_BUCKETS
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

impl<C: WindowClass + Default> StridedFinder<C> {
    /// Compiles `patterns`, which have numbers and at least `width` bytes.
    fn new(patterns: impl IntoIterator<Item = (u32, Vec<u8>)>, width: usize) -> StridedFinder<C> {
        let mut finder = StridedFinder {
            width,
            ..StridedFinder::default()
        };
        let mut shortest = usize::MAX;
        for (number, pattern) in patterns {
            shortest = shortest.min(pattern.len());
            finder.patterns.extend(pattern);
            finder.ends.push((number, finder.patterns.len()));
        }
        if finder.ends.is_empty() {
            return finder;
        }
        finder.stride = (shortest + 1 - width)
            .min(MAX_WINDOWS / finder.ends.len())
            .max(1);
        let frequencies = finder.window_frequencies();
        for pattern in 0..finder.ends.len() as u32 {
            finder.add_windows(pattern, &frequencies);
        }
        finder.sort_windows();
        finder
    }

    /// Adds the windows of `pattern` at the offsets of one stride.
    fn add_windows(&mut self, pattern: u32, frequencies: &[u32]) {
        let length = self.text(pattern).len() as u32;
        let first = self.rarest_offset(pattern, frequencies);
        for offset in first..first + self.stride {
            let text = self.text(pattern);
            let Some(bytes) = bytes_at(text, offset, self.width) else {
                continue;
            };
            match wide_at(text, offset, self.width) {
                _ if self.width == MAX_WINDOW => {}
                Some(wide) => self.wide.insert(wide),
                None => self.leading.insert(bytes),
            }
            self.filters[usize::from(C::of(bytes))].insert(bytes);
            self.windows.push(Window {
                bytes,
                offset: offset as u32,
                length,
                pattern,
            });
        }
    }

    fn sort_windows(&mut self) {
        let mut windows = std::mem::take(&mut self.windows);
        windows.sort_unstable_by(|left, right| {
            let key = |it: &Window| (it.bytes, it.offset, it.length);
            key(left)
                .cmp(&key(right))
                .then_with(|| self.text(left.pattern).cmp(self.text(right.pattern)))
        });
        self.windows = windows;
    }

    /// Counts the patterns that contain each window, by [`frequency_bucket`].
    fn window_frequencies(&self) -> Vec<u32> {
        let mut frequencies = vec![0; FREQUENCY_BUCKETS];
        for pattern in 0..self.ends.len() as u32 {
            let text = self.text(pattern);
            let windows = (0..text.len()).map_while(|offset| bytes_at(text, offset, self.width));
            windows.for_each(|window| frequencies[frequency_bucket(window)] += 1);
        }
        frequencies
    }

    /// Returns the offset of the consecutive windows of a pattern that the fewest patterns share.
    /// Of ten thousand names many begin alike, and so do names in the searched bytes that aren't
    /// searched for.
    fn rarest_offset(&self, pattern: u32, frequencies: &[u32]) -> usize {
        let text = self.text(pattern);
        let frequency_at = |offset: usize| {
            bytes_at(text, offset, self.width).map_or(0, |it| frequencies[frequency_bucket(it)])
        };
        let most = |first: &usize| (*first..first + self.stride).map(frequency_at).max();
        let last = (text.len() + 1).saturating_sub(self.width + self.stride);
        (0..=last).rev().min_by_key(most).unwrap_or_default()
    }

    /// Returns the bytes of a pattern.
    fn text(&self, pattern: u32) -> &[u8] {
        let end = |pattern: usize| self.ends.get(pattern).map_or(0, |(_, end)| *end);
        let start = (pattern as usize).checked_sub(1).map_or(0, end);
        self.patterns
            .get(start..end(pattern as usize))
            .unwrap_or_default()
    }

    /// Calls `note` for every occurrence of a pattern in `bytes`, with the pattern's number.
    fn find(&self, bytes: &[u8], mut note: impl FnMut(u32, Range<usize>)) {
        if self.windows.is_empty() {
            return;
        }
        let mut at = 0;
        while let Some((place, window)) = self.next_candidate(bytes, at) {
            if self.wide_window_may_match(bytes, place, window) {
                self.verify_candidate(bytes, place, window, &mut note);
            }
            at = place + self.stride;
        }
    }

    /// Returns the first position from `at` on, in steps of the stride, whose window passes the
    /// Bloom filter, with that window.
    ///
    /// A separate function, so that the registers are available to the loop over all bytes.
    #[inline(never)]
    fn next_candidate(&self, bytes: &[u8], mut at: usize) -> Option<(usize, u64)> {
        let (stride, mask) = (self.stride, low_bytes(self.width));
        let [likely, rare] = &self.filters;
        // The class of the next window is unpredictable: select without a branch.
        let may_match =
            |window| select_unpredictable(C::of(window), rare, likely).may_contain(window);
        while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
            let window = u64::from_le_bytes(*eight) & mask;
            if may_match(window) {
                return Some((at, window));
            }
            at += stride;
        }
        while let Some(window) = bytes_at(bytes, at, self.width) {
            if may_match(window) {
                return Some((at, window));
            }
            at += stride;
        }
        None
    }

    /// Returns whether a pattern may have the bytes that `bytes` have up to the end of `window`,
    /// which is at `at`.
    fn wide_window_may_match(&self, bytes: &[u8], at: usize, window: u64) -> bool {
        self.width == MAX_WINDOW
            || wide_at(bytes, at, self.width).is_some_and(|wide| self.wide.may_contain(wide))
            || self.leading.may_contain(window)
    }

    /// Calls `note` for the patterns that occur around the position `at` of `bytes`, where `window`
    /// is.
    ///
    /// Thousands of identifiers may begin alike. Patterns of one length that have the window at the
    /// same offset are sorted by their bytes, so that the bytes at hand are found by binary search.
    fn verify_candidate(
        &self,
        bytes: &[u8],
        at: usize,
        window: u64,
        note: &mut impl FnMut(u32, Range<usize>),
    ) {
        let first = self.windows.partition_point(|known| known.bytes < window);
        let mut rest = self.windows.get(first..).unwrap_or_default();
        while let Some(Window { offset, length, .. }) =
            rest.first().copied().filter(|known| known.bytes == window)
        {
            let end = rest.partition_point(|known| {
                (known.bytes, known.offset, known.length) <= (window, offset, length)
            });
            let (candidates, others) = rest.split_at(end);
            rest = others;
            let Some(start) = at.checked_sub(offset as usize) else {
                continue;
            };
            let Some(found) = bytes.get(start..start + length as usize) else {
                continue;
            };
            let place = candidates.partition_point(|known| self.text(known.pattern) < found);
            let same = candidates
                .iter()
                .skip(place)
                .take_while(|known| self.text(known.pattern) == found);
            for (number, _) in same.filter_map(|known| self.ends.get(known.pattern as usize)) {
                note(*number, start..start + found.len());
            }
        }
    }
}

/// Returns whether the bytes before `start..end` are the length of a text of exactly that length,
/// which makes it a whole value without regard to word boundaries. Parquet writes the length in
/// four bytes, MessagePack and CBOR in the header of a string.
pub(super) fn has_length_prefix(bytes: &[u8], start: usize, end: usize) -> bool {
    let before = bytes.get(..start).unwrap_or_default();
    let length = end - start;
    let short = |byte: u8, head: u8, most: usize| {
        length <= most && usize::from(byte) == usize::from(head) + length
    };
    match before {
        [.., a, b, c, d] if u32::from_le_bytes([*a, *b, *c, *d]) as usize == length => true,
        [.., 0x79 | 0xda, high, low]
            if usize::from(u16::from_be_bytes([*high, *low])) == length =>
        {
            true
        }
        [.., 0x78 | 0xd9, one] if usize::from(*one) == length => true,
        [.., head] if short(*head, 0xa0, 31) => true,
        [before @ .., head] => short(*head, 0x60, 23) && may_end_cbor_item(before),
        [] => false,
    }
}

/// Returns whether a CBOR item may end with `bytes`. CBOR's header of a short text is a small
/// letter, like the d of Edward, which doesn't make Ward a value. A value is preceded by its key,
/// which has a header too, by the header of an array, or by another value.
fn may_end_cbor_item(bytes: &[u8]) -> bool {
    let word = bytes
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_graphic() || !byte.is_ascii())
        .count();
    let announced = |length| ends_with_short_text(bytes, length);
    let is_text = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    bytes.last().is_none_or(|last| !is_text(*last)) || (1..=word.min(255)).any(announced)
}

/// Returns whether the last `length` bytes follow the CBOR header of a text of this length, which
/// is at most 255.
fn ends_with_short_text(bytes: &[u8], length: usize) -> bool {
    let byte = |back: usize| {
        bytes
            .len()
            .checked_sub(back)
            .and_then(|at| bytes.get(at))
            .copied()
            .map(usize::from)
    };
    match length {
        ..=23 => byte(length + 1) == Some(0x60 + length),
        _ => byte(length + 1) == Some(length) && byte(length + 2) == Some(0x78),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::erase::{Person, SubjectRequest};

    proptest! {
        #[test]
        fn the_finder_agrees_with_a_naive_search(
            patterns in prop::collection::btree_set("[ab]{1,14}", 1..30),
            bytes in "[ab.]{0,80}",
        ) {
            let patterns: Vec<String> = patterns.into_iter().collect();
            let finder = MultiFinder::new((0..).zip(patterns.iter().map(|needle| needle.clone().into_bytes())));
            let mut found = Vec::new();
            finder.find(bytes.as_bytes(), |number, range| found.push((number, range.start, range.end)));
            found.sort_unstable();
            let places = |(number, needle): (u32, &String)| {
                let stands = |at: &usize| bytes[*at..].starts_with(&**needle);
                let whole = |at| (number, at, at + needle.len());
                (0..bytes.len()).filter(stands).map(whole).collect::<Vec<_>>()
            };
            let long = (0..).zip(&patterns).filter(|(_, needle)| needle.len() >= MIN_PATTERN_BYTES);
            prop_assert_eq!(found, long.flat_map(places).collect::<Vec<_>>());
        }
    }

    #[test]
    fn patterns_with_a_common_prefix_are_all_found() {
        let names: Vec<String> = (0..20_000)
            .map(|number| format!("user-{number:06}"))
            .collect();
        let finder =
            MultiFinder::new((0..).zip(names.iter().map(|name| name.clone().into_bytes())));
        let text = names.join(" ") + " user-020000";
        let mut found = Vec::new();
        finder.find(text.as_bytes(), |number, _| found.push(number));
        found.sort_unstable();
        assert_eq!(found, (0..20_000).collect::<Vec<u32>>());
    }

    /// Returns a search for the identifiers of one person.
    fn search<const N: usize>(identifiers: [&str; N]) -> IdentifierSearch {
        let person = Person {
            identifiers: identifiers.map(str::to_owned).into(),
            ..Person::default()
        };
        let request = SubjectRequest {
            people: vec![person],
            ..SubjectRequest::default()
        };
        IdentifierSearch::new(&request, |_| false, []).unwrap()
    }

    fn count(patterns: &PatternSearch, bytes: &[u8]) -> (u64, u64) {
        patterns.count(bytes, &mut Vec::new())
    }

    #[test]
    fn an_address_is_found_as_text_as_digest_and_without_its_first_bytes() {
        let address = ContentAddress::of(b"grain");
        let patterns = PatternSearch::new([&address], search([]));
        assert_eq!(count(&patterns, format!("x{address}y").as_bytes()), (1, 0));
        assert_eq!(
            count(
                &patterns,
                &[&[7; 3], &address.as_bytes()[..], &[7; 3]].concat()
            ),
            (1, 0)
        );
        assert_eq!(
            count(&patterns, &[&[7; 3], &address.as_bytes()[8..]].concat()),
            (1, 0)
        );
        assert_eq!(
            count(
                &patterns,
                ContentAddress::of(b"other").to_string().as_bytes()
            ),
            (0, 0)
        );
    }

    #[test]
    fn an_address_is_found_at_any_offset() {
        let addresses: Vec<ContentAddress> = (0..40_u32)
            .map(|number| ContentAddress::of(&number.to_le_bytes()))
            .collect();
        let patterns = PatternSearch::new(&addresses, search([]));
        for (before, address) in addresses.iter().enumerate() {
            let text = address.to_string();
            for bytes in [
                address.as_bytes()[8..].to_vec(),
                text.clone().into_bytes(),
                text.to_uppercase().into_bytes(),
            ] {
                let placed = [vec![b'.'; before], bytes.clone()].concat();
                assert_eq!(
                    count(&patterns, &placed),
                    (1, 0),
                    "at the end, behind {before} bytes"
                );
                let placed = [placed, vec![b'.'; before % 17]].concat();
                assert_eq!(count(&patterns, &placed), (1, 0), "behind {before} bytes");
                assert_eq!(
                    count(&patterns, &placed[..before + bytes.len() - 1]),
                    (0, 0),
                    "cut"
                );
            }
        }
    }

    #[test]
    fn many_addresses_are_found_without_false_matches() {
        let addresses: Vec<ContentAddress> = (0..20_000_u32)
            .map(|number| ContentAddress::of(&number.to_le_bytes()))
            .collect();
        let (erased, kept) = addresses.split_at(10_000);
        let patterns = PatternSearch::new(erased, search(["u-17", "alice-77"]));
        let text = |addresses: &[ContentAddress]| {
            addresses
                .iter()
                .map(|address| format!("{address},"))
                .collect::<String>()
        };
        assert_eq!(count(&patterns, text(erased).as_bytes()), (10_000, 0));
        assert_eq!(count(&patterns, text(kept).as_bytes()), (0, 0));
        assert_eq!(count(&patterns, b"u-17 met alice-77 at u-18's"), (0, 2));
    }

    #[test]
    fn an_identifier_is_found_at_word_boundaries_in_any_case() {
        let patterns = PatternSearch::new([], search(["u-17", "José Díaz"]));
        for (text, expected) in [
            ("\u{a4}u-17\u{a1}", 1),
            ("(U-17)", 1),
            ("u-171", 0),
            ("xu-17", 0),
            ("u-17-b", 0),
            ("JOSÉ DÍAZ", 1),
            ("jose\u{301} di\u{301}az", 1),
            ("José Díazé", 0),
        ] {
            assert_eq!(count(&patterns, text.as_bytes()), (0, expected), "{text}");
        }
        // A MessagePack length before an identifier is no letter.
        assert_eq!(
            count(&patterns, &[&[0xa4][..], b"u-17", &[0xa1]].concat()),
            (0, 1)
        );
    }

    #[test]
    fn an_identifier_is_found_after_a_length_that_looks_like_a_letter() {
        let did = format!("did:key:{}", "z".repeat(40));
        let patterns = PatternSearch::new([], search(["alice-77", &did, "José Díaz"]));
        let parquet = [b"\x08\0\0\0alice-77", &b"8\0\0\0abc"[..]].concat();
        for (bytes, what) in [
            (&b"\x68alice-77\x67subject"[..], "CBOR"),
            (&[b"\xd90", did.as_bytes()].concat(), "MessagePack"),
            (&parquet, "Parquet"),
            (b"met alice-77A\0\0\0and so on", "the end of a value"),
            (br#"{"a":"Dear all,\nalice-77"}"#, "an escape"),
            (br#""Jos\u00E9 D\u00edaz""#, "escaped letters"),
        ] {
            assert_eq!(count(&patterns, bytes), (0, 1), "{what}");
        }
        for text in ["galice-77", "alice-771", "xalice-77"] {
            assert_eq!(count(&patterns, text.as_bytes()), (0, 0), "{text}");
        }
    }

    #[test]
    fn a_letter_of_prose_is_not_taken_for_a_length() {
        let patterns = PatternSearch::new([], search(["ward", "andy"]));
        for prose in [
            "met Edward and",
            "Woodward",
            "is a dandy",
            "facing windward",
        ] {
            assert_eq!(count(&patterns, prose.as_bytes()), (0, 0), "{prose}");
        }
        for cbor in [
            &b"\xa2\x61sdward\x61od"[..],
            b"\xa1\x67user_iddandyx",
            b"\x82cbobdward",
            b"\xa1\x61n\x82\x01dward",
        ] {
            assert_eq!(count(&patterns, cbor), (0, 1), "{cbor:?}");
        }
    }
}

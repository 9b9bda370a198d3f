//! Looking for many byte strings at once in bytes of any kind.
//!
//! Addresses are looked for as hex text and as digests (without their first eight bytes, which
//! sidecars keep apart). Identifiers are [`super::identifier_search`]'s matter.

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ops::Range;

use gristmill_schemas::address::ContentAddress;

use super::identifier_search::IdentifierSearch;
use crate::bloom::BloomFilter;

/// What is looked for.
#[derive(Debug)]
pub(super) struct PatternSearch {
    /// Addresses as digests.
    digests: StridedFinder<NearlyAscii>,
    /// Addresses as text in lower case.
    texts: StridedFinder<Hex>,
    identifiers: IdentifierSearch,
    addresses: usize,
}

/// Byte strings of any length from [`MIN_PATTERN_BYTES`] on.
#[derive(Debug, Default)]
pub(super) struct MultiFinder(Vec<StridedFinder<AnyBytes>>);

/// Byte strings that are longer than a window of a few bytes: each is filed under every window of
/// it that may stand at a multiple of a stride, so that only those places of the searched bytes are
/// looked at.
#[derive(Debug, Default)]
struct StridedFinder<C> {
    /// The byte strings, one after another.
    patterns: Vec<u8>,
    /// The number of each, and where it ends there.
    ends: Vec<(u32, usize)>,
    stride: usize,
    /// Bytes of a window: eight at most.
    width: usize,
    /// By their bytes, and then as [`StridedFinder::verify_candidate`] looks for patterns.
    windows: Vec<Window>,
    /// What narrow windows end: eight bytes with themselves, or the windows alone where a needle
    /// has fewer before.
    wide: BloomFilter,
    leading: BloomFilter,
    /// What the windows of each kind may be. What nearly all of the searched bytes are like has the
    /// smaller one, which stays in the cache.
    filters: [BloomFilter; 2],
    class: PhantomData<C>,
}

/// A window of a needle.
#[derive(Debug, Clone, Copy)]
struct Window {
    bytes: u64,
    /// Where it stands in the needle.
    offset: u32,
    /// Bytes of the needle.
    length: u32,
    /// The needle's place in [`StridedFinder::ends`].
    needle: u32,
}

/// Windows of [`StridedFinder`] at most, unless there are more patterns: 24 bytes each.
const WINDOWS: usize = 4 << 20;

/// Bytes of a digest that are looked for.
const DIGEST_BYTES: usize = 24;

/// Bytes of a window at least.
const NARROW: usize = 4;

/// Bytes of a window at most: the more, the fewer texts have the same. They are looked at where a
/// narrower window is met, too, if the needle has so many up to its end.
const WIDE: usize = 8;

/// How far from one place that is looked at to the next, at least, where patterns have room for
/// windows and strides.
const STRIDE: usize = 3;

/// Places of the table that tells how many patterns have a window.
const FREQUENCY_BUCKETS: usize = 1 << 16;

/// Bytes of a needle that has room for both.
const LONG: usize = NARROW + STRIDE - 1;

/// Bytes of an identifier from which on it is looked for.
pub(super) const MIN_PATTERN_BYTES: usize = 4;

impl PatternSearch {
    /// Looks for addresses and for identifiers.
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
            digests: StridedFinder::new((0..).zip(digests), WIDE),
            texts: StridedFinder::new((0..).zip(texts), WIDE),
            identifiers,
        }
    }

    /// How many addresses and identifiers are looked for.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.addresses, self.identifiers.identifiers())
    }

    /// How many places in `bytes` hold an address, and how many an identifier.
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

/// Two kinds of windows.
trait WindowClass {
    /// The kind of `window`.
    fn of(window: u64) -> bool;
}

/// One kind.
#[derive(Debug, Default)]
struct AnyBytes;

impl WindowClass for AnyBytes {
    fn of(_: u64) -> bool {
        false
    }
}

/// Eight bytes that are ASCII, but for one at most, as those of grains and texts mostly are, or
/// others: of the windows of digests one in thirty is of this kind.
#[derive(Debug, Default)]
struct NearlyAscii;

impl WindowClass for NearlyAscii {
    fn of(window: u64) -> bool {
        let beyond = window & 0x8080_8080_8080_8080;
        beyond & beyond.wrapping_sub(1) == 0
    }
}

/// Eight lower-case hex digits, and little else, or others: of each digit's byte the upper half is
/// 3 or 6.
#[derive(Debug, Default)]
struct Hex;

impl WindowClass for Hex {
    fn of(window: u64) -> bool {
        window & 0xa0a0_a0a0_a0a0_a0a0 == 0x2020_2020_2020_2020
            && (window ^ window >> 2) & 0x1010_1010_1010_1010 == 0x1010_1010_1010_1010
    }
}

/// The `width` bytes at `at`, eight at most, if there are so many.
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

/// The lowest `width` bytes of a number, eight at most.
fn low_bytes(width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width)
}

/// The [`WIDE`] bytes that end with the window of `width` bytes at `at`, if there are so many.
fn wide_at(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    bytes_at(bytes, (at + width).checked_sub(WIDE)?, WIDE)
}

/// The place of `window` in the table of [`StridedFinder::window_frequencies`].
fn frequency_bucket(window: u64) -> usize {
    (window.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % FREQUENCY_BUCKETS
}

impl MultiFinder {
    /// Finds each of `pattern_search`, which have numbers, but for those that are too short.
    pub(super) fn new(patterns: impl IntoIterator<Item = (u32, Vec<u8>)>) -> MultiFinder {
        let patterns = patterns
            .into_iter()
            .filter(|(_, needle)| needle.len() >= MIN_PATTERN_BYTES);
        let (long, short): (Vec<_>, Vec<_>) =
            patterns.partition(|(_, needle)| needle.len() >= LONG);
        let groups = [long, short].into_iter().filter_map(|group| {
            let shortest = group.iter().map(|(_, needle)| needle.len()).min()?;
            Some(StridedFinder::new(
                group,
                (shortest + 1).saturating_sub(STRIDE).clamp(NARROW, WIDE),
            ))
        });
        MultiFinder(groups.collect())
    }

    /// Calls `note` for every place in `bytes` that holds one of them, with its number.
    pub(super) fn find(&self, bytes: &[u8], mut note: impl FnMut(u32, Range<usize>)) {
        self.0
            .iter()
            .for_each(|strides| strides.find(bytes, &mut note));
    }
}

impl<C: WindowClass + Default> StridedFinder<C> {
    /// Finds each of `pattern_search`, which have numbers and at least `width` bytes.
    fn new(patterns: impl IntoIterator<Item = (u32, Vec<u8>)>, width: usize) -> StridedFinder<C> {
        let mut strides = StridedFinder {
            width,
            ..StridedFinder::default()
        };
        let mut shortest = usize::MAX;
        for (number, needle) in patterns {
            shortest = shortest.min(needle.len());
            strides.patterns.extend(needle);
            strides.ends.push((number, strides.patterns.len()));
        }
        if strides.ends.is_empty() {
            return strides;
        }
        strides.stride = (shortest + 1 - width)
            .min(WINDOWS / strides.ends.len())
            .max(1);
        let shared = strides.window_frequencies();
        for needle in 0..strides.ends.len() as u32 {
            let length = strides.text(needle).len() as u32;
            let first = strides.rarest_offset(needle, &shared);
            for offset in first..first + strides.stride {
                let text = strides.text(needle);
                let Some(bytes) = bytes_at(text, offset, width) else {
                    continue;
                };
                match wide_at(text, offset, width) {
                    _ if width == WIDE => {}
                    Some(wide) => strides.wide.insert(wide),
                    None => strides.leading.insert(bytes),
                }
                strides.filters[usize::from(C::of(bytes))].insert(bytes);
                strides.windows.push(Window {
                    bytes,
                    offset: offset as u32,
                    length,
                    needle,
                });
            }
        }
        let mut windows = std::mem::take(&mut strides.windows);
        windows.sort_unstable_by(|left, right| {
            let key = |it: &Window| (it.bytes, it.offset, it.length);
            key(left)
                .cmp(&key(right))
                .then_with(|| strides.text(left.needle).cmp(strides.text(right.needle)))
        });
        strides.windows = windows;
        strides
    }

    /// How many patterns have a window, by what [`frequency_bucket`] says of it.
    fn window_frequencies(&self) -> Vec<u32> {
        let mut shared = vec![0; FREQUENCY_BUCKETS];
        for needle in 0..self.ends.len() as u32 {
            let text = self.text(needle);
            let windows = (0..text.len()).map_while(|offset| bytes_at(text, offset, self.width));
            windows.for_each(|window| shared[frequency_bucket(window)] += 1);
        }
        shared
    }

    /// Where the neighbouring windows of a needle begin that the fewest patterns share: of ten
    /// thousand names many begin alike, and so do all those in the searched bytes that aren't
    /// looked for.
    fn rarest_offset(&self, needle: u32, shared: &[u32]) -> usize {
        let text = self.text(needle);
        let sharing_at = |offset: usize| {
            bytes_at(text, offset, self.width).map_or(0, |it| shared[frequency_bucket(it)])
        };
        let most = |first: &usize| (*first..first + self.stride).map(sharing_at).max();
        let last = (text.len() + 1).saturating_sub(self.width + self.stride);
        (0..=last).rev().min_by_key(most).unwrap_or_default()
    }

    /// The bytes of the needle at the place `needle`.
    fn text(&self, needle: u32) -> &[u8] {
        let end = |needle: usize| self.ends.get(needle).map_or(0, |(_, end)| *end);
        let start = (needle as usize).checked_sub(1).map_or(0, end);
        self.patterns
            .get(start..end(needle as usize))
            .unwrap_or_default()
    }

    /// Calls `note` for every place in `bytes` that holds one of them, with its number.
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

    /// The first place from `at` on, a stride after the other, whose window may be one of a needle,
    /// and that window.
    ///
    /// A function of its own, so that the loop which goes through all bytes has the processor's
    /// registers for itself.
    #[inline(never)]
    fn next_candidate(&self, bytes: &[u8], mut at: usize) -> Option<(usize, u64)> {
        let (stride, mask) = (self.stride, low_bytes(self.width));
        let [these, others] = &self.filters;
        // Which kind comes next can't be foreseen.
        let may_contain =
            |window| select_unpredictable(C::of(window), others, these).may_contain(window);
        while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
            let window = u64::from_le_bytes(*eight) & mask;
            if may_contain(window) {
                return Some((at, window));
            }
            at += stride;
        }
        while let Some(window) = bytes_at(bytes, at, self.width) {
            if may_contain(window) {
                return Some((at, window));
            }
            at += stride;
        }
        None
    }

    /// False if no needle has before the end of `window`, which stands at `at`, what `bytes` have
    /// there.
    fn wide_window_may_match(&self, bytes: &[u8], at: usize, window: u64) -> bool {
        self.width == WIDE
            || wide_at(bytes, at, self.width).is_some_and(|wide| self.wide.may_contain(wide))
            || self.leading.may_contain(window)
    }

    /// Calls `note` for the patterns around the place `at` of `bytes`, where `window` stands.
    ///
    /// Thousands of identifiers may begin alike. PatternSearch of one length that have the window
    /// at the same place differ in their bytes alone, which stand in order: those at hand are
    /// looked up among them.
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
            let (alike, others) = rest.split_at(end);
            rest = others;
            let Some(start) = at.checked_sub(offset as usize) else {
                continue;
            };
            let Some(found) = bytes.get(start..start + length as usize) else {
                continue;
            };
            let place = alike.partition_point(|known| self.text(known.needle) < found);
            let same = alike
                .iter()
                .skip(place)
                .take_while(|known| self.text(known.needle) == found);
            for (number, _) in same.filter_map(|known| self.ends.get(known.needle as usize)) {
                note(*number, start..start + found.len());
            }
        }
    }
}

/// True if what stands before `start..end` tells that a text of just that length follows: then it
/// is the whole of a value, whatever is next to it. Parquet writes the length in four bytes,
/// MessagePack and CBOR in the head of a string.
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

/// True if an item of CBOR may end with `bytes`: CBOR's head of a short text is a small letter, as
/// the d of Edward, who isn't Ward. In front of a value stand its key, which was announced too, the
/// head of an array, or another value.
fn may_end_cbor_item(bytes: &[u8]) -> bool {
    let word = bytes
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_graphic() || !byte.is_ascii())
        .count();
    let announced = |length: usize| {
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
    };
    let is_text = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    bytes.last().is_none_or(|last| !is_text(*last)) || (1..=word.min(255)).any(announced)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::erase::{Person, SubjectRequest};

    proptest! {
        #[test]
        fn whatever_looking_at_every_place_finds_is_found(
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
    fn each_of_many_that_begin_alike_is_found_soon() {
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

    /// The search for the identifiers of one person.
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
    fn an_address_is_found_as_text_as_digest_and_split() {
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
    fn an_address_is_found_wherever_it_stands() {
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
    fn each_of_many_is_found_and_nothing_else() {
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
    fn an_identifier_is_found_where_it_stands_alone_in_any_case() {
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
        // A MessagePack length before it is no letter.
        assert_eq!(
            count(&patterns, &[&[0xa4][..], b"u-17", &[0xa1]].concat()),
            (0, 1)
        );
    }

    #[test]
    fn an_identifier_is_found_behind_a_length_that_looks_like_a_letter() {
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
    fn a_letter_that_looks_like_a_length_in_prose_is_none() {
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

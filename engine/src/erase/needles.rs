//! Looking for many byte strings at once in bytes of any kind.
//!
//! Addresses are looked for as hex text and as digests (without their first eight bytes, which sidecars keep apart);
//! identifiers in their spellings, whatever the case of ASCII letters, standing by themselves.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use gristmill_schemas::address::ContentAddress;
use rustc_hash::FxBuildHasher;
use unicode_normalization::UnicodeNormalization;

/// What is looked for.
#[derive(Debug, Default)]
pub(super) struct Needles {
    /// Addresses as digests.
    digests: Strides,
    /// Addresses as text in lower case.
    texts: Strides,
    /// Identifiers in lower case.
    identifiers: Anchors<()>,
    addresses: usize,
    spellings: usize,
}

/// Byte strings by their first four or eight bytes.
#[derive(Debug)]
pub(super) struct Anchors<K> {
    needles: Vec<Needle<K>>,
    by_eight: HashMap<u64, Vec<u32>, FxBuildHasher>,
    by_four: HashMap<u32, Vec<u32>, FxBuildHasher>,
    /// What the first four bytes may be: nearly every place is passed over by this alone.
    fours: Sieve,
}

/// Byte strings of one length, far longer than eight bytes: each is filed under every eight bytes of it that may stand at a
/// multiple of a stride, so that only those places of the searched bytes are looked at.
#[derive(Debug, Default)]
struct Strides {
    /// The needles, one after another.
    needles: Vec<u8>,
    length: usize,
    stride: usize,
    /// Eight bytes, and where they stand in `needles`; sorted.
    windows: Vec<(u64, u32)>,
    /// What the eight bytes may be: those that `class` is false for, and those that it is true for. What nearly all of the
    /// searched bytes are like has the smaller one, which stays in the cache.
    eights: [Sieve; 2],
    class: Option<fn(u64) -> bool>,
}

/// Windows of [`Strides`] at most, unless there are more needles: 16 bytes each.
const WINDOWS: usize = 4 << 20;

/// Bytes of a digest that are looked for.
const DIGEST_BYTES: usize = 24;

/// The longest stride: the shortest needles, digests without their first eight bytes, have 17 windows.
const STRIDE: usize = 16;

/// One bit for each value of a hash. It grows with what it holds, so that few bits are set.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    bits: Vec<u64>,
    hashes: Vec<u64>,
}

#[derive(Debug)]
struct Needle<K> {
    bytes: Vec<u8>,
    kind: K,
}

impl<K> Default for Anchors<K> {
    fn default() -> Self {
        Anchors {
            needles: Vec::new(),
            by_eight: HashMap::default(),
            by_four: HashMap::default(),
            fours: Sieve::default(),
        }
    }
}

/// Bytes of an identifier from which on it is looked for.
const SHORTEST: usize = 4;

/// Bits of a sieve for each hash that it holds, at least.
const SPARSENESS: usize = 32;

impl Needles {
    /// Needles for addresses and for identifiers.
    pub(super) fn new<'t>(
        addresses: impl IntoIterator<Item = &'t ContentAddress>,
        identifiers: impl IntoIterator<Item = &'t str>,
    ) -> Needles {
        let (mut digests, mut texts) = (Vec::new(), Vec::new());
        for address in addresses {
            digests.extend(&address.as_bytes()[32 - DIGEST_BYTES..]);
            texts.extend(address.to_string().bytes());
        }
        let mut needles = Needles { addresses: texts.len() / ContentAddress::TEXT_LENGTH, ..Needles::default() };
        needles.digests = Strides::new(digests, DIGEST_BYTES, is_ascii);
        needles.texts = Strides::new(texts, ContentAddress::TEXT_LENGTH, may_be_hex);
        let mut forms: BTreeSet<Vec<u8>> = BTreeSet::new();
        for identifier in identifiers {
            needles.spellings += 1;
            for spelling in [identifier.to_owned(), identifier.to_lowercase(), identifier.to_uppercase()] {
                for form in [spelling.nfc().collect::<String>(), spelling.nfd().collect(), spelling] {
                    forms.insert(escaped(&form).to_ascii_lowercase().into_bytes());
                    forms.insert(form.to_ascii_lowercase().into_bytes());
                }
            }
        }
        let forms = forms.into_iter().filter(|form| form.len() >= SHORTEST);
        forms.for_each(|form| needles.identifiers.add(form, ()));
        needles
    }

    /// How many addresses and identifiers are looked for.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.addresses, self.spellings)
    }

    /// How many places in `bytes` hold an address, and how many an identifier.
    pub(super) fn count(&self, bytes: &[u8], scratch: &mut Vec<u8>) -> (u64, u64) {
        let mut counts = (self.digests.count(bytes), 0);
        scratch.clear();
        scratch.extend(bytes.iter().map(u8::to_ascii_lowercase));
        counts.0 += self.texts.count(scratch);
        self.identifiers.find(scratch, |(), Range { start, end }| {
            if stands_alone(scratch, start, end) || is_announced(bytes, start, end) {
                counts.1 += 1;
            }
        });
        counts
    }
}

/// `text` as JSON writes it that holds nothing but ASCII.
fn escaped(text: &str) -> String {
    let mut units = [0; 2];
    text.chars().fold(String::with_capacity(text.len()), |mut out, letter| {
        match letter.is_ascii() {
            true => out.push(letter),
            false => letter.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
        out
    })
}

/// True if all of the eight bytes are ASCII: of the windows of digests one in 256 is.
fn is_ascii(eight: u64) -> bool {
    eight & 0x8080_8080_8080_8080 == 0
}

/// True for eight lower-case hex digits, and for little else: of each byte the upper half is 3 or 6.
fn may_be_hex(eight: u64) -> bool {
    eight & 0xa0a0_a0a0_a0a0_a0a0 == 0x2020_2020_2020_2020
        && (eight ^ eight >> 2) & 0x1010_1010_1010_1010 == 0x1010_1010_1010_1010
}

/// A hash whose upper bits are good.
fn mixed(bytes: u64) -> u64 {
    bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Strides {
    /// The needles in `needles`, each of `length` bytes.
    fn new(needles: Vec<u8>, length: usize, class: fn(u64) -> bool) -> Strides {
        let count = needles.len() / length;
        let stride = (WINDOWS / count.max(1)).clamp(1, STRIDE);
        let windows = Vec::with_capacity(count * stride);
        let mut strides = Strides { length, stride, windows, class: Some(class), ..Strides::default() };
        for start in (0..count).map(|number| number * length) {
            for at in start..start + stride {
                let Some(eight) = needles.get(at..).and_then(first_eight) else { continue };
                strides.eights[usize::from(class(eight))].add(eight);
                strides.windows.push((eight, at as u32));
            }
        }
        strides.windows.sort_unstable();
        strides.needles = needles;
        strides
    }

    /// How many places in `bytes` hold one of them.
    fn count(&self, bytes: &[u8]) -> u64 {
        let Some(class) = self.class.filter(|_| !self.windows.is_empty()) else { return 0 };
        let mut count = 0;
        for (number, step) in bytes.chunks(self.stride).enumerate() {
            let at = number * self.stride;
            // A step that is shorter than a window is the last, or is followed by others.
            let eight = if step.len() < 8 { bytes.get(at..).and_then(first_eight) } else { first_eight(step) };
            if let Some(eight) = eight.filter(|eight| self.eights[usize::from(class(*eight))].may_have(*eight)) {
                count += self.around(bytes, at, eight);
            }
        }
        count
    }

    /// How many needles stand in `bytes` that have `eight`, which is at `at`, among their windows.
    fn around(&self, bytes: &[u8], at: usize, eight: u64) -> u64 {
        let first = self.windows.partition_point(|(window, _)| *window < eight);
        let same = self.windows.get(first..).unwrap_or_default().iter().take_while(|(window, _)| *window == eight);
        let stands = |place: usize| {
            let before = place % self.length;
            let needle = self.needles.get(place - before..)?.get(..self.length)?;
            bytes.get(at.checked_sub(before)?..)?.starts_with(needle).then_some(())
        };
        same.filter(|(_, place)| stands(*place as usize).is_some()).count() as u64
    }
}

impl Sieve {
    pub(super) fn add(&mut self, bytes: u64) {
        self.hashes.push(mixed(bytes));
        if self.hashes.len() * SPARSENESS > self.bits.len() * 64 {
            let words = (self.hashes.len() * SPARSENESS).next_power_of_two().max(1 << 16) / 64;
            self.bits = vec![0; words];
            let hashes = std::mem::take(&mut self.hashes);
            hashes.iter().for_each(|hash| self.set(*hash));
            self.hashes = hashes;
        } else {
            self.set(mixed(bytes));
        }
    }

    fn set(&mut self, hash: u64) {
        let (word, bit) = self.place(hash);
        if let Some(word) = self.bits.get_mut(word) {
            *word |= bit;
        }
    }

    /// The word and the bit of `hash`; there are bits.
    fn place(&self, hash: u64) -> (usize, u64) {
        let slot = hash >> (64 - (self.bits.len() * 64).trailing_zeros());
        (slot as usize / 64, 1 << (slot % 64))
    }

    pub(super) fn may_have(&self, bytes: u64) -> bool {
        let (word, bit) = self.place(mixed(bytes));
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }
}

impl<K: Copy> Anchors<K> {
    /// Adds a byte string of at least four bytes.
    pub(super) fn add(&mut self, bytes: Vec<u8>, kind: K) {
        let number = self.needles.len() as u32;
        match (first_eight(&bytes), first_four(&bytes)) {
            (Some(eight), Some(four)) => {
                self.fours.add(four.into());
                self.by_eight.entry(eight).or_default().push(number);
            }
            (None, Some(four)) => {
                self.fours.add(four.into());
                self.by_four.entry(four).or_default().push(number);
            }
            _ => return,
        }
        self.needles.push(Needle { bytes, kind });
    }

    /// Calls `note` for every place in `bytes` that holds one of them.
    pub(super) fn find(&self, bytes: &[u8], mut note: impl FnMut(K, Range<usize>)) {
        let mut at_place = |at: usize, candidates: Option<&Vec<u32>>| {
            let rest = bytes.get(at..).unwrap_or_default();
            let candidates = candidates.into_iter().flatten();
            for needle in candidates.filter_map(|number| self.needles.get(*number as usize)) {
                if rest.starts_with(&needle.bytes) {
                    note(needle.kind, at..at + needle.bytes.len());
                }
            }
        };
        if self.needles.is_empty() {
            return;
        }
        for (at, four) in bytes.windows(4).enumerate() {
            if let Some(four) = first_four(four).filter(|four| self.fours.may_have((*four).into())) {
                at_place(at, self.by_four.get(&four));
                let eight = bytes.get(at..).and_then(first_eight);
                at_place(at, eight.and_then(|eight| self.by_eight.get(&eight)));
            }
        }
    }
}

fn first_eight(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|eight| u64::from_le_bytes(*eight))
}

fn first_four(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_le_bytes(*four))
}

/// True if what stands at `start..end` isn't part of a longer word or identifier.
fn stands_alone(bytes: &[u8], start: usize, end: usize) -> bool {
    let (before, after) = (bytes.get(..start).unwrap_or_default(), bytes.get(end..).unwrap_or_default());
    let joins = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    // The letter of an escape such as `\n`, and the length of what follows, as Parquet writes it, are none of a word.
    let is_escape = matches!(before, [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f']);
    let is_length = matches!(after, [_, 0, 0, 0, ..]);
    if before.last().is_some_and(joins) && !is_escape || after.first().is_some_and(joins) && !is_length {
        return false;
    }
    // A letter of several bytes next to it; anything else that isn't ASCII is a length or a marker.
    let tail = before.get(before.len().saturating_sub(4)..).unwrap_or_default();
    let letter_before = (1..=tail.len().min(4)).rev().find_map(|length| {
        let text = std::str::from_utf8(tail.get(tail.len() - length..)?).ok()?;
        text.chars().last()
    });
    let letter_after = (2..=4).find_map(|length| std::str::from_utf8(after.get(..length)?).ok()?.chars().next());
    let joins = |letter: Option<char>| letter.is_some_and(|letter| !letter.is_ascii() && letter.is_alphanumeric());
    !joins(letter_before) && !joins(letter_after)
}

/// True if what stands before `start..end` tells that a text of just that length follows: then it is the whole of a value,
/// whatever is next to it. Parquet writes the length in four bytes, MessagePack and CBOR in the head of a string.
fn is_announced(bytes: &[u8], start: usize, end: usize) -> bool {
    let before = bytes.get(..start).unwrap_or_default();
    let length = end - start;
    let short = |byte: u8, head: u8, most: usize| length <= most && usize::from(byte) == usize::from(head) + length;
    match before {
        [.., a, b, c, d] if u32::from_le_bytes([*a, *b, *c, *d]) as usize == length => true,
        [.., 0x79 | 0xda, high, low] if usize::from(u16::from_be_bytes([*high, *low])) == length => true,
        [.., 0x78 | 0xd9, one] if usize::from(*one) == length => true,
        [.., head] if short(*head, 0xa0, 31) => true,
        [before @ .., head] => short(*head, 0x60, 23) && may_end_an_item(before),
        [] => false,
    }
}

/// True if an item of CBOR may end with `bytes`: CBOR's head of a short text is a small letter, as the d of Edward, who isn't
/// Ward. In front of a value stand its key, which was announced too, the head of an array, or another value.
fn may_end_an_item(bytes: &[u8]) -> bool {
    let word = bytes.iter().rev().take_while(|byte| byte.is_ascii_graphic() || !byte.is_ascii()).count();
    let announced = |length: usize| {
        let byte = |back: usize| bytes.len().checked_sub(back).and_then(|at| bytes.get(at)).copied().map(usize::from);
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
    use super::*;

    fn count(needles: &Needles, bytes: &[u8]) -> (u64, u64) {
        needles.count(bytes, &mut Vec::new())
    }

    #[test]
    fn an_address_is_found_as_text_as_digest_and_split() {
        let address = ContentAddress::of(b"grain");
        let needles = Needles::new([&address], []);
        assert_eq!(count(&needles, format!("x{address}y").as_bytes()), (1, 0));
        assert_eq!(count(&needles, &[&[7; 3], &address.as_bytes()[..], &[7; 3]].concat()), (1, 0));
        assert_eq!(count(&needles, &[&[7; 3], &address.as_bytes()[8..]].concat()), (1, 0));
        assert_eq!(count(&needles, ContentAddress::of(b"other").to_string().as_bytes()), (0, 0));
    }

    #[test]
    fn an_address_is_found_wherever_it_stands() {
        let addresses: Vec<ContentAddress> =
            (0..40_u32).map(|number| ContentAddress::of(&number.to_le_bytes())).collect();
        let needles = Needles::new(&addresses, []);
        for (before, address) in addresses.iter().enumerate() {
            let text = address.to_string();
            for bytes in [address.as_bytes()[8..].to_vec(), text.clone().into_bytes(), text.to_uppercase().into_bytes()]
            {
                let placed = [vec![b'.'; before], bytes.clone()].concat();
                assert_eq!(count(&needles, &placed), (1, 0), "at the end, behind {before} bytes");
                let placed = [placed, vec![b'.'; before % 17]].concat();
                assert_eq!(count(&needles, &placed), (1, 0), "behind {before} bytes");
                assert_eq!(count(&needles, &placed[..before + bytes.len() - 1]), (0, 0), "cut");
            }
        }
    }

    #[test]
    fn each_of_many_is_found_and_nothing_else() {
        let addresses: Vec<ContentAddress> =
            (0..20_000_u32).map(|number| ContentAddress::of(&number.to_le_bytes())).collect();
        let (erased, kept) = addresses.split_at(10_000);
        let needles = Needles::new(erased, ["u-17", "alice-77"]);
        let text =
            |addresses: &[ContentAddress]| addresses.iter().map(|address| format!("{address},")).collect::<String>();
        assert_eq!(count(&needles, text(erased).as_bytes()), (10_000, 0));
        assert_eq!(count(&needles, text(kept).as_bytes()), (0, 0));
        assert_eq!(count(&needles, b"u-17 met alice-77 at u-18's"), (0, 2));
    }

    #[test]
    fn an_identifier_is_found_where_it_stands_alone_in_any_case() {
        let needles = Needles::new([], ["u-17", "José Díaz"]);
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
            assert_eq!(count(&needles, text.as_bytes()), (0, expected), "{text}");
        }
        // A MessagePack length before it is no letter.
        assert_eq!(count(&needles, &[&[0xa4][..], b"u-17", &[0xa1]].concat()), (0, 1));
    }

    #[test]
    fn an_identifier_is_found_behind_a_length_that_looks_like_a_letter() {
        let did = format!("did:key:{}", "z".repeat(40));
        let needles = Needles::new([], ["alice-77", &did, "José Díaz"]);
        let parquet = [b"\x08\0\0\0alice-77", &b"8\0\0\0abc"[..]].concat();
        for (bytes, what) in [
            (&b"\x68alice-77\x67subject"[..], "CBOR"),
            (&[b"\xd90", did.as_bytes()].concat(), "MessagePack"),
            (&parquet, "Parquet"),
            (b"met alice-77A\0\0\0and so on", "the end of a value"),
            (br#"{"a":"Dear all,\nalice-77"}"#, "an escape"),
            (br#""Jos\u00E9 D\u00edaz""#, "escaped letters"),
        ] {
            assert_eq!(count(&needles, bytes), (0, 1), "{what}");
        }
        for text in ["galice-77", "alice-771", "xalice-77"] {
            assert_eq!(count(&needles, text.as_bytes()), (0, 0), "{text}");
        }
    }

    #[test]
    fn a_letter_that_looks_like_a_length_in_prose_is_none() {
        let needles = Needles::new([], ["ward", "andy"]);
        for prose in ["met Edward and", "Woodward", "is a dandy", "facing windward"] {
            assert_eq!(count(&needles, prose.as_bytes()), (0, 0), "{prose}");
        }
        for cbor in
            [&b"\xa2\x61sdward\x61od"[..], b"\xa1\x67user_iddandyx", b"\x82cbobdward", b"\xa1\x61n\x82\x01dward"]
        {
            assert_eq!(count(&needles, cbor), (0, 1), "{cbor:?}");
        }
    }
}

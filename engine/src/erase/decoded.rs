//! Unescapes and decodes text in bytes of any kind, and removes control sequences and symbols, for
//! the byte search.
//!
//! Only stretches around escapes and encodings are processed: most bytes have none. The rules are
//! those of [`crate::text::encodings`] and [`crate::text::fold`]; base64 and hex are decoded by
//! different code. Control sequences and symbols are recognised by [`crate::text::undecorated`].

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::variations::{Variation, Variations};
use crate::text::encodings::{LONG_WORD, named_entity};
use crate::text::undecorated::undecorated_bytes;

/// Minimal number of bytes around an escape that are part of its stretch.
const AROUND: usize = 256;

/// Maximal number of bytes by which a stretch is extended, so that it begins and ends at a word
/// boundary.
const WORD: usize = 64;

/// Calls `found` for each stretch of `bytes` with JSON escapes, with its written and its unescaped
/// form.
pub(super) fn each_unescaped(bytes: &[u8], mut found: impl FnMut(&[u8], &[u8])) {
    let escapes = memchr::memchr_iter(b'\\', bytes)
        .filter(|at| escape(bytes.get(*at..).unwrap_or_default()).is_some());
    each_stretch(bytes, escapes, |written| {
        let mut meant = Vec::with_capacity(written.len());
        replace(written, b'\\', escape, &mut meant);
        found(written, &meant);
    });
}

/// Calls `found` for each stretch of `bytes` around the control sequences and symbols at `places`,
/// with its written form and the one without them.
pub(super) fn each_undecorated(
    bytes: &[u8],
    places: &[Range<usize>],
    mut found: impl FnMut(&[u8], &[u8]),
) {
    // A long sequence is one stretch.
    let marks = |place: &Range<usize>| place.clone().step_by(WORD).chain([place.end]);
    each_stretch(bytes, places.iter().flat_map(marks), |written| {
        if let Some(plain) = undecorated_bytes(written) {
            found(written, &plain.text);
        }
    });
}

/// Calls `found` for each stretch of `bytes` in an encoding of `variations`, with its written and
/// its decoded form.
pub(super) fn each_decoded(
    bytes: &[u8],
    variations: Variations,
    mut found: impl FnMut(&[u8], &[u8]),
) {
    for (variation, mark, decode) in [
        (Variation::UrlEncoding, b'%', url_byte as Decode),
        (Variation::HtmlEntities, b'&', entity as Decode),
    ] {
        if variations.contains(variation) {
            let marks = memchr::memchr_iter(mark, bytes)
                .filter(|at| decode(bytes.get(*at..).unwrap_or_default()).is_some());
            each_stretch(bytes, marks, |written| {
                let mut plain = Vec::with_capacity(written.len());
                replace(written, mark, decode, &mut plain);
                found(written, &plain);
            });
        }
    }
    let (base64, hex) = (
        variations.contains(Variation::Base64),
        variations.contains(Variation::Hex),
    );
    if base64 || hex {
        each_run(bytes, |run| {
            let written = bytes.get(run.clone()).unwrap_or_default();
            if base64 {
                base64_texts(bytes, run, |plain| found(written, plain));
            }
            if hex {
                hex_texts(written, |plain| found(written, plain));
            }
        });
    }
}

/// Decodes the escape at the beginning of some bytes. Returns the character and the length of the
/// escape.
type Decode = fn(&[u8]) -> Option<(char, usize)>;

/// Calls `found` for each stretch of `bytes` around `marks`, which are ascending.
fn each_stretch(bytes: &[u8], marks: impl Iterator<Item = usize>, mut found: impl FnMut(&[u8])) {
    let is_joint = |byte: &u8| *byte <= b' ' || *byte >= 0x80;
    let begins = |mark: usize| {
        let start = mark.saturating_sub(AROUND);
        let earliest = start.saturating_sub(WORD);
        let before = bytes.get(earliest..start).unwrap_or_default();
        before
            .iter()
            .rposition(is_joint)
            .map_or(earliest, |at| earliest + at + 1)
    };
    let ends = |mark: usize| {
        let end = (mark + AROUND).min(bytes.len());
        let after = bytes
            .get(end..(end + WORD).min(bytes.len()))
            .unwrap_or_default();
        end + after.iter().position(is_joint).unwrap_or(after.len())
    };
    let mut open: Option<Range<usize>> = None;
    for mark in marks {
        match &mut open {
            Some(stretch) if mark < stretch.end + WORD => stretch.end = stretch.end.max(ends(mark)),
            _ => {
                if let Some(written) = open.take().and_then(|stretch| bytes.get(stretch)) {
                    found(written);
                }
                open = Some(begins(mark)..ends(mark));
            }
        }
    }
    if let Some(written) = open.and_then(|stretch| bytes.get(stretch)) {
        found(written);
    }
}

/// Appends `bytes` to `out`, with the escapes that begin with `mark` decoded.
fn replace(bytes: &[u8], mark: u8, decode: Decode, out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(mark, rest) {
        let (before, from) = rest.split_at(at);
        out.extend(before);
        let (letter, length) = decode(from).unwrap_or((char::from(mark), 1));
        match mark {
            // URL encoding encodes single bytes.
            b'%' => out.push(letter as u8),
            _ => out.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        rest = from.get(length..).unwrap_or_default();
    }
    out.extend(rest);
}

/// Decodes a JSON escape.
fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    match bytes.get(1)? {
        b'n' | b'r' | b't' | b'b' | b'f' => Some((' ', 2)),
        b'"' => Some(('"', 2)),
        b'\\' => Some(('\\', 2)),
        b'/' => Some(('/', 2)),
        b'u' => {
            let unit = |at: usize| {
                let digits = bytes
                    .get(at..at + 4)
                    .and_then(|digits| std::str::from_utf8(digits).ok())?;
                u16::from_str_radix(digits, 16).ok()
            };
            let first = unit(2)?;
            if let Some(letter) = char::from_u32(first.into()) {
                return Some((letter, 6));
            }
            let second = unit(8).filter(|_| bytes.get(6..8) == Some(b"\\u"))?;
            let letter = char::decode_utf16([first, second]).next()?.ok()?;
            Some((letter, 12))
        }
        _ => None,
    }
}

/// Decodes a URL-encoded byte.
fn url_byte(bytes: &[u8]) -> Option<(char, usize)> {
    let digits = std::str::from_utf8(bytes.get(1..3)?).ok()?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16)
        .ok()
        .filter(|_| is_hex)
        .map(|byte| (char::from(byte), 3))
}

/// Decodes an HTML entity.
fn entity(bytes: &[u8]) -> Option<(char, usize)> {
    let end = memchr::memchr(b';', bytes.get(..bytes.len().min(10))?)?;
    let letter = match bytes.get(1..end)? {
        [b'#', b'x' | b'X', digits @ ..] => {
            u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
        }
        [b'#', digits @ ..] => std::str::from_utf8(digits).ok()?.parse().ok()?,
        name => u32::from(named_entity(std::str::from_utf8(name).ok()?)?),
    };
    char::from_u32(letter).map(|letter| (letter, end + 1))
}

/// For each byte whether it is in one of the alphabets of base64.
static IN_BASE64: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let is_joint = matches!(byte as u8, b'+' | b'/' | b'-' | b'_');
        table[byte] = is_joint || (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    table
};

/// Calls `found` for the runs of `bytes` that may be base64 or hex.
fn each_run(bytes: &[u8], mut found: impl FnMut(Range<usize>)) {
    let mut at = LONG_WORD - 1;
    while at < bytes.len() {
        // In a run that is long enough, one of so many consecutive bytes is a letter or a digit.
        if !bytes.get(at).is_some_and(u8::is_ascii_alphanumeric) {
            at += LONG_WORD;
            continue;
        }
        let of_run = |byte: &&u8| IN_BASE64[usize::from(**byte)];
        let start = at
            - bytes
                .get(..at)
                .unwrap_or_default()
                .iter()
                .rev()
                .take_while(of_run)
                .count();
        let end = at
            + bytes
                .get(at..)
                .unwrap_or_default()
                .iter()
                .take_while(of_run)
                .count();
        let run = bytes.get(start..end).unwrap_or_default();
        if run
            .split(|byte| !byte.is_ascii_alphanumeric())
            .any(|row| row.len() >= LONG_WORD)
        {
            found(start..end);
        }
        at = end + LONG_WORD - 1;
    }
}

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Number of characters that are decoded to determine whether they are text.
const PROBE: usize = 16;

/// Calls `found` for the texts in base64 in the run `run` of `bytes`. Up to three bytes at its
/// beginning may not be part of the text.
fn base64_texts(bytes: &[u8], run: Range<usize>, mut found: impl FnMut(&[u8])) {
    let padding = bytes
        .get(run.end..)
        .unwrap_or_default()
        .iter()
        .take(2)
        .take_while(|byte| **byte == b'=')
        .count();
    let written = bytes.get(run).unwrap_or_default();
    let standard = standard_alphabet(written);
    let joints = standard
        .iter()
        .enumerate()
        .filter(|(_, byte)| matches!(byte, b'+' | b'/'))
        .map(|(at, _)| at + 1);
    let mut done = 0;
    for start in (0..4).chain(joints) {
        let Some(from) = standard
            .get(start..)
            .filter(|from| start >= done && from.len() + padding >= PROBE)
        else {
            continue;
        };
        if begins_with_base64_text(from)
            && let Some(plain) = base64_text(from)
        {
            done = start + plain.len() * 4 / 3;
            found(&plain);
        }
    }
}

/// Converts URL-safe base64 to the standard alphabet.
fn standard_alphabet(written: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'-', b'_', written).is_none() {
        return written.into();
    }
    let standard = written.iter().map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => *byte,
    });
    standard.collect()
}

/// Returns whether the first [`PROBE`] characters of `written` decode to ten bytes of text: most
/// runs, addresses above all, are no text and needn't be decoded whole.
fn begins_with_base64_text(written: &[u8]) -> bool {
    let mut plain = [0; PROBE];
    let probe = written.get(..written.len().min(PROBE)).unwrap_or_default();
    let whole = probe.len() - usize::from(probe.len() % 4 == 1);
    let decoded = BASE64.decode_slice(probe.get(..whole).unwrap_or_default(), &mut plain);
    decoded.is_ok_and(|length| text_length(plain.get(..length).unwrap_or_default()) >= 10)
}

/// Decodes base64 and returns the text at the beginning of the result.
fn base64_text(written: &[u8]) -> Option<Vec<u8>> {
    let whole = written.len() - usize::from(written.len() % 4 == 1);
    let plain = BASE64.decode(written.get(..whole)?).ok()?;
    Some(plain.get(..text_length(&plain))?.to_vec())
}

/// Calls `found` for the texts in hex in `run`.
fn hex_texts(run: &[u8], mut found: impl FnMut(&[u8])) {
    for digits in run
        .split(|byte| !byte.is_ascii_hexdigit())
        .filter(|digits| digits.len() >= 16)
    {
        for start in 0..4 {
            let digits = digits.get(start..).unwrap_or_default();
            let even = digits.get(..digits.len() & !1).unwrap_or_default();
            let least = 8 - start.min(1);
            if !begins_with_hex_text(even, least) {
                continue;
            }
            let plain = hex::decode(even).unwrap_or_default();
            let length = text_length(&plain);
            if length >= least {
                found(&plain[..length]);
                break;
            }
        }
    }
}

/// Returns whether the first bytes that `digits` encode are text of at least `least` bytes, as far
/// as a probe shows: hashes are no text and needn't be decoded whole. The probe is longer than
/// `least` by a letter, which its end may cut.
fn begins_with_hex_text(digits: &[u8], least: usize) -> bool {
    let mut plain = [0; 12];
    let length = digits.len().min(2 * plain.len());
    let (Some(probe), Some(plain)) = (digits.get(..length), plain.get_mut(..length / 2)) else {
        return false;
    };
    hex::decode_to_slice(probe, plain).is_ok() && text_length(plain) >= least
}

/// Returns the length of the text at the beginning of `plain`.
fn text_length(plain: &[u8]) -> usize {
    let is_other =
        |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r') || *byte == 0x7f;
    let end = plain.iter().position(is_other).unwrap_or(plain.len());
    match std::str::from_utf8(&plain[..end]) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    }
}

/// Maximal number of bytes of structure between the texts of adjacent blocks, and of texts between
/// them that belong to neither.
pub(super) const STRUCTURE: usize = 64;
pub(super) const KEYS: usize = 4;

/// Returns the end of `piece` if the block after the one whose text ends at `at` begins with it.
pub(super) fn block_after(bytes: &[u8], at: usize, piece: &[u8]) -> Option<usize> {
    let gap = bytes.get(at..(at + STRUCTURE + piece.len()).min(bytes.len()))?;
    let place = (1..gap.len()).find(|place| {
        gap.get(*place..)
            .is_some_and(|rest| rest.starts_with(piece))
            && gap.get(..*place).is_some_and(is_only_structure)
    })?;
    Some(at + place + piece.len())
}

/// Returns the start of `piece` if the block before the one whose text begins at `at` ends with it.
pub(super) fn block_before(bytes: &[u8], at: usize, piece: &[u8]) -> Option<usize> {
    let start = at.saturating_sub(STRUCTURE + piece.len());
    let gap = bytes.get(start..at)?;
    (0..gap.len()).rev().find_map(|end| {
        let (before, structure) = gap.split_at(end);
        (before.ends_with(piece) && is_only_structure(structure)).then(|| start + end - piece.len())
    })
}

/// Returns whether `gap` is such a structure and can't be text. In CBOR, the header of a short text
/// is a small letter, like the s of Carlsberg, which doesn't make Carl and Berg texts of their own.
fn is_only_structure(gap: &[u8]) -> bool {
    std::str::from_utf8(gap).is_err() && is_structure(gap)
}

/// Returns whether `gap` consists of the structure between the texts of adjacent blocks, up to the
/// header of the second text: only keys and short words, and either nothing else or the header of a
/// map.
pub(super) fn is_structure(gap: &[u8]) -> bool {
    in_message_pack(gap)
        .or_else(|| in_cbor(gap))
        .unwrap_or(false)
}

/// As [`is_structure`], for MessagePack; `None` if it isn't MessagePack.
fn in_message_pack(gap: &[u8]) -> Option<bool> {
    let (mut at, mut texts, mut has_map) = (0, 0, false);
    loop {
        let (length, is_text) = match gap.get(at)? {
            0x80..=0x8f => {
                has_map = true;
                (1, false)
            }
            head @ 0xa0..=0xbf => (1 + usize::from(head - 0xa0), true),
            0xd9 => (2 + usize::from(*gap.get(at + 1).unwrap_or(&0)), true),
            0xda => (
                3 + usize::from(u16::from_be_bytes([*gap.get(at + 1)?, *gap.get(at + 2)?])),
                true,
            ),
            0xc0 | 0xc2 | 0xc3 => (1, false),
            _ => return None,
        };
        let head = match gap[at] {
            0xd9 => 2,
            0xda => 3,
            _ => 1,
        };
        if is_text && at + head == gap.len() {
            return Some(has_map || texts == 0);
        }
        texts += usize::from(is_text);
        at += length;
        if texts > KEYS {
            return None;
        }
    }
}

/// As [`is_structure`], for CBOR; `None` if it isn't CBOR.
fn in_cbor(gap: &[u8]) -> Option<bool> {
    let (mut at, mut texts, mut has_map) = (0, 0, false);
    loop {
        let (length, head) = match gap.get(at)? {
            0xa0..=0xb7 => {
                has_map = true;
                (1, 0)
            }
            head @ 0x60..=0x77 => (1 + usize::from(head - 0x60), 1),
            0x78 => (2 + usize::from(*gap.get(at + 1).unwrap_or(&0)), 2),
            0xf4..=0xf6 => (1, 0),
            _ => return None,
        };
        if head > 0 && at + head == gap.len() {
            return Some(has_map || texts == 0);
        }
        texts += usize::from(head > 0);
        at += length;
        if texts > KEYS {
            return None;
        }
    }
}

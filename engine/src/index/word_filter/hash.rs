//! Splits text into words, and hashes them. The hashes are part of the file format.

use crate::text::fold::is_segmented;

/// Number of hash functions.
const PROBES: u64 = 8;

/// Returns the words of `text` in scripts that separate words.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter| !is_segmented(letter))
        .filter(|word| !word.is_empty())
}

/// Calls `found` with every word of `text` and the hash of its lower-case form.
pub(crate) fn each_word(text: &str, mut found: impl FnMut(&str, u64)) {
    if !text.is_ascii() {
        words_of(text).for_each(|word| found(word, hash_of(word)));
        return;
    }
    let (mut start, mut hash) = (0, OFFSET);
    for (at, byte) in text.bytes().enumerate() {
        match WORD_BYTES[usize::from(byte)] {
            0 => {
                if start < at {
                    found(text.get(start..at).unwrap_or_default(), finish(hash));
                    hash = OFFSET;
                }
                start = at + 1;
            }
            lower => hash = step(hash, lower),
        }
    }
    if start < text.len() {
        found(text.get(start..).unwrap_or_default(), finish(hash));
    }
}

/// The ASCII letters and digits in lower case; 0 for other bytes, which separate words.
static WORD_BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            bytes[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    bytes
};

/// FNV-1a with a finaliser that spreads it over all bits. It is part of the file format.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

const fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
}

const fn finish(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Returns the hash of the lower-case form of `word`.
pub(super) fn hash_of(word: &str) -> u64 {
    if word.is_ascii() {
        return finish(
            word.bytes()
                .fold(OFFSET, |hash, byte| step(hash, byte.to_ascii_lowercase())),
        );
    }
    let mut letters = [0; 4];
    let lower = word.chars().flat_map(char::to_lowercase);
    finish(lower.fold(OFFSET, |hash, letter| {
        letter.encode_utf8(&mut letters).bytes().fold(hash, step)
    }))
}

/// Returns the hash of the decimal digits of a number.
pub(in crate::index) fn hash_of_number(number: u64) -> u64 {
    let mut digits = [0; 20];
    let (mut rest, mut start) = (number, digits.len());
    while start == digits.len() || rest > 0 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    finish(
        digits[start..]
            .iter()
            .fold(OFFSET, |hash, digit| step(hash, *digit)),
    )
}

/// Returns the hash of a number's last digits.
pub(in crate::index) fn hash_of_tail(tail: u32) -> u64 {
    finish(
        tail.to_le_bytes()
            .into_iter()
            .chain(*b"tail")
            .fold(OFFSET, step),
    )
}

pub(in crate::index) fn hash_of_letter(letter: char) -> u64 {
    hash_of(letter.encode_utf8(&mut [0; 4]))
}

/// Returns the bits of a word in a filter of `words` words.
pub(in crate::index) fn bits(hash: u64, words: usize) -> impl Iterator<Item = (usize, u64)> {
    let stride = hash.rotate_left(32) | 1;
    let count = (words as u128) << 6;
    (0..PROBES).map(move |probe| {
        let place = (u128::from(hash.wrapping_add(probe.wrapping_mul(stride))) * count) >> 64;
        ((place >> 6) as usize, 1 << (place & 63))
    })
}

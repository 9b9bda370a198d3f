//! Decodes texts that are encoded within texts: URL encoding, HTML entities, base64, hex. Each is
//! decoded once, not recursively.
//!
//! | encoding | what is opened |
//! |---|---|
//! | URL | the whole text, if it has a `%` with two hex digits |
//! | HTML | the whole text, if it has an entity: decimal, hexadecimal, or a name of HTML 4's Latin-1 set |
//! | base64 | runs of 16 characters and more with their padding, standard and URL-safe, of which 12 in a row are letters and digits |
//! | hex | runs of 16 digits and more |
//!
//! Base64 and hex are decoded as long as the result is text: valid UTF-8 without control
//! characters. Most runs that look encoded are identifiers and digests, for which decoding fails
//! within a few bytes.

/// An encoding of text within text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextEncoding {
    Url,
    Html,
    Base64,
    Hex,
}

/// Minimal number of consecutive letters and digits of a run that may be base64 or hex.
pub(crate) const LONG_WORD: usize = 12;

/// Minimal number of characters of base64, including padding, and minimal number of decoded bytes.
const BASE64: usize = 16;
const BASE64_TEXT: usize = 10;

/// Minimal number of hex digits.
const HEX: usize = 16;

/// Maximal length of the name of an entity.
const ENTITY: usize = 8;

/// Returns whether `text` may contain URL encoding or entities. Base64 and hex are recognised by
/// words of [`LONG_WORD`] letters.
pub(crate) fn has_marks(text: &str) -> bool {
    memchr::memchr2(b'%', b'&', text.as_bytes()).is_some()
}

/// Calls `found` for each text that is encoded in `text`.
pub(crate) fn each_decoded(text: &str, mut found: impl FnMut(TextEncoding, &str)) {
    if let Some(plain) = url_decoded(text) {
        found(TextEncoding::Url, &plain);
    }
    if let Some(plain) = html_decoded(text) {
        found(TextEncoding::Html, &plain);
    }
    let bytes = text.as_bytes();
    let mut opened = Vec::new();
    each_run(bytes, |run, padding| {
        base64_texts(run, padding, 0, &mut opened, |plain| {
            found(TextEncoding::Base64, plain)
        });
        hex_texts(run, 1, &mut opened, |plain| found(TextEncoding::Hex, plain));
    });
}

/// Returns whether a text in `payload`, the bytes of a grain, may contain anything that
/// [`each_decoded`] decodes. Bytes between texts may look like letters; `is_delimited` states that
/// at most two such bytes precede a text.
pub(crate) fn may_hold_encoded(payload: &[u8], is_delimited: bool) -> bool {
    let has_mark = |mark: usize| match payload.get(mark..).unwrap_or_default() {
        [b'%', high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        [b'&', rest @ ..] => entity(rest).is_some(),
        _ => false,
    };
    if memchr::memchr2_iter(b'%', b'&', payload).any(has_mark) {
        return true;
    }
    let (mut opens, mut opened) = (false, Vec::new());
    each_run(payload, |run, padding| {
        if !opens {
            base64_texts(run, padding, 2, &mut opened, |_| opens = true);
            hex_texts(run, 3, &mut opened, |_| opens = true);
            opens |= !is_delimited;
        }
    });
    opens
}

/// Returns the byte whose two hex digits begin at `at`.
fn hex_byte(bytes: &[u8], at: usize) -> Option<u8> {
    let digits = bytes
        .get(at..at + 2)
        .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    match digits? {
        [high, low] => Some(hex_digit(*high) << 4 | hex_digit(*low)),
        _ => None,
    }
}

/// Decodes the URL encoding in `text`; `None` if there is none. A plus isn't decoded, because names
/// may have any separator.
fn url_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let (mut copied, mut from) = (0, 0);
    while let Some(at) = memchr::memchr(b'%', bytes.get(from..)?).map(|at| from + at) {
        from = at + 1;
        if let Some(byte) = hex_byte(bytes, from) {
            out.extend(bytes.get(copied..at)?);
            out.push(byte);
            copied = at + 3;
            from = copied;
        }
    }
    if copied == 0 {
        return None;
    }
    out.extend(bytes.get(copied..)?);
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// Decodes the entities in `text`; `None` if there are none.
fn html_decoded(text: &str) -> Option<String> {
    let mut out = String::new();
    let (mut copied, mut from) = (0, 0);
    while let Some(at) = text.get(from..)?.find('&').map(|at| from + at) {
        from = at + 1;
        if let Some((letter, length)) = text.as_bytes().get(at + 1..).and_then(entity) {
            out.push_str(text.get(copied..at)?);
            out.push(letter);
            copied = at + 1 + length;
            from = copied;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(text.get(copied..)?);
    Some(out)
}

/// Decodes the entity whose `&` precedes `rest`. Returns the letter and its length in `rest`.
fn entity(rest: &[u8]) -> Option<(char, usize)> {
    let end = rest
        .iter()
        .take(ENTITY + 1)
        .position(|byte| *byte == b';')?;
    let name = std::str::from_utf8(rest.get(..end)?).ok()?;
    let letter = match name.strip_prefix('#') {
        Some(number) => {
            let hexadecimal = number.strip_prefix(['x', 'X']);
            let code = match hexadecimal {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
        None => named_entity(name)?,
    };
    Some((letter, end + 1))
}

/// The names of the letters from U+00A0 to U+00FF, in order.
const LATIN_1: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy \
                       reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo \
                       frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig \
                       Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve \
                       Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN \
                       szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute \
                       ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde \
                       ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml";

/// Returns the letter of a named entity.
pub(crate) fn named_entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" | "rsquo" | "lsquo" => Some('\''),
        "ndash" | "mdash" => Some('-'),
        _ => {
            let place = LATIN_1
                .split_ascii_whitespace()
                .position(|known| known == name)?;
            char::from_u32(0xa0 + place as u32)
        }
    }
}

/// Calls `found` for each run of the base64 alphabet in `bytes` that is long enough for base64 or
/// hex, with the length of the padding after it.
fn each_run(bytes: &[u8], mut found: impl FnMut(&[u8], usize)) {
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let (mut row, mut longest) = (0, 0);
        while let Some(class) = bytes
            .get(at)
            .map(|byte| CLASSES[usize::from(*byte)])
            .filter(|class| *class < OTHER)
        {
            row = if class < JOINT { row + 1 } else { 0 };
            longest = longest.max(row);
            at += 1;
        }
        if longest >= LONG_WORD {
            found(
                bytes.get(start..at).unwrap_or_default(),
                padding_at(bytes, at),
            );
        }
        at += 1;
    }
}

/// Returns the length of the padding of base64 that begins at `at`.
fn padding_at(bytes: &[u8], at: usize) -> usize {
    bytes
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take(2)
        .take_while(|byte| **byte == b'=')
        .count()
}

/// Classes of bytes: letters and digits are below this value, and their class is their base64
/// value.
const JOINT: u8 = 64;
/// Class of the characters for 62 and 63: `+`, `-`, `/`, `_`; other bytes are at or above this
/// value.
const OTHER: u8 = 128;

/// The class of each byte; the lowest six bits are its base64 value.
static CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut value = 0;
    while value < 26 {
        classes[b'A' as usize + value] = value as u8;
        classes[b'a' as usize + value] = 26 + value as u8;
        value += 1;
    }
    value = 0;
    while value < 10 {
        classes[b'0' as usize + value] = 52 + value as u8;
        value += 1;
    }
    classes[b'+' as usize] = JOINT | 62;
    classes[b'-' as usize] = JOINT | 62;
    classes[b'/' as usize] = JOINT | 63;
    classes[b'_' as usize] = JOINT | 63;
    classes
};

/// Calls `found` for the texts in base64 in `run`: from its beginning, from up to `shifts`
/// characters after it, and after each `/`, `-`, `_` and `+`, which may also precede base64.
fn base64_texts(
    run: &[u8],
    padding: usize,
    shifts: usize,
    opened: &mut Vec<u8>,
    mut found: impl FnMut(&str),
) {
    let joints = run
        .iter()
        .enumerate()
        .filter(|(_, byte)| CLASSES[usize::from(**byte)] >= JOINT)
        .map(|(at, _)| at + 1);
    let mut done = 0;
    for start in (0..=shifts).chain(joints) {
        let Some(rest) = run
            .get(start..)
            .filter(|rest| start >= done && rest.len() + padding >= BASE64)
        else {
            continue;
        };
        let taken = base64_text(rest, opened);
        if let Some(text) = text_of(opened, BASE64_TEXT) {
            done = start + taken;
            found(text);
        }
    }
}

/// Decodes `run` to `opened` up to the first byte that isn't text. Returns the number of characters
/// consumed.
fn base64_text(run: &[u8], opened: &mut Vec<u8>) -> usize {
    opened.clear();
    let (mut bits, mut held) = (0u32, 0);
    for (at, byte) in run.iter().enumerate() {
        bits = bits << 6 | u32::from(CLASSES[usize::from(*byte)] & 63);
        held += 6;
        if held >= 8 {
            held -= 8;
            let byte = (bits >> held) as u8;
            if !may_be_text(byte) {
                return at;
            }
            opened.push(byte);
        }
    }
    run.len()
}

/// Calls `found` for the texts in hex in `run`; up to `shifts` digits may precede each.
fn hex_texts(run: &[u8], shifts: usize, opened: &mut Vec<u8>, mut found: impl FnMut(&str)) {
    for digits in run
        .split(|byte| !byte.is_ascii_hexdigit())
        .filter(|digits| digits.len() >= HEX)
    {
        for start in 0..=shifts {
            opened.clear();
            let pairs = digits.get(start..).unwrap_or_default().chunks_exact(2);
            let bytes = pairs.map(|pair| {
                pair.iter()
                    .fold(0, |byte, digit| byte << 4 | hex_digit(*digit))
            });
            opened.extend(bytes.take_while(|byte| may_be_text(*byte)));
            if let Some(text) = text_of(opened, HEX / 2 - start.min(1)) {
                found(text);
                break;
            }
        }
    }
}

/// Returns the text at the beginning of `bytes`, if it has at least `least` bytes.
fn text_of(bytes: &[u8], least: usize) -> Option<&str> {
    if bytes.len() < least {
        return None;
    }
    let text = bytes.utf8_chunks().next()?.valid();
    (text.len() >= least).then_some(text)
}

fn may_be_text(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r')
}

fn hex_digit(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or_default() as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn opened(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        each_decoded(text, |_, plain| out.push(plain.to_owned()));
        out
    }

    #[test]
    fn each_encoding_is_decoded_once() {
        for (text, plain) in [
            ("q=Ada%20Okafor", "q=Ada Okafor"),
            ("Zo%C3%AB", "Zoë"),
            ("Jos&eacute; D&#237;az &#x41;", "José Díaz A"),
            ("data:;base64,RGVhciBBZGEgT2thZm9y", "Dear Ada Okafor"),
            ("QWRhIE9rYWZvcg==", "Ada Okafor"),
            ("img/Zm9yIEFkYSBPa2Fmb3Igb25seS4=/1", "for Ada Okafor only."),
            ("fn4_PkFkYSBPa2Fmb3I_Pn5-", "~~?>Ada Okafor?>~~"),
            ("x'416461204f6b61666f72'", "Ada Okafor"),
            (
                "0x616461406f6b61666f722e6578616d706c65",
                "ada@okafor.example",
            ),
        ] {
            assert_eq!(opened(text), [plain], "{text}");
        }
    }

    #[test]
    fn text_that_only_looks_encoded_is_not_decoded() {
        for text in [
            "100% sure & safe",
            "AT&T; and more",
            "internationalization",
            "550e8400-e29b-41d4-a716-446655440000",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "toolu_01A09q90qw90lq917835lq9",
            "QWRhIE9r",
        ] {
            assert_eq!(opened(text), [""; 0], "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_payload_with_encoded_text_is_never_skipped(
            before in "[A-Za-z0-9+/_ -]{0,3}",
            text in "[a-z@ ]{4,14}",
            kind in 0..4_usize,
            length in 0..64_u8,
        ) {
            let encoded = match kind {
                0 => text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>(),
                1 => text.bytes().map(|byte| format!("%{byte:02x}")).collect(),
                2 => text.chars().map(|letter| format!("&#{};", letter as u32)).collect(),
                _ => {
                    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
                    let sextets = text.as_bytes().chunks(3).flat_map(|three| {
                        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(*three.get(at).unwrap_or(&0)));
                        (0..=three.len()).map(move |at| (bits >> (18 - 6 * at) & 63) as usize)
                    });
                    sextets.map(|at| alphabet[at] as char).collect()
                }
            };
            let whole = format!("{before}{encoded}");
            let payload = [&[0xd9, length][..], whole.as_bytes(), &[0xa1]].concat();
            prop_assert!(opened(&whole).is_empty() || may_hold_encoded(&payload, true));
        }
    }
}

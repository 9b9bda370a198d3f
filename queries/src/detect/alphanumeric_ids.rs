//! Identifiers that start with letters: IBAN, codice fiscale, national insurance numbers, NIE.

use super::checksum::{is_mod_97, number};
use super::national_ids::spanish_letter;
use super::{Match, PersonalDataKind, begins_word, ends_word, is_word};

/// Length of the longest identifier, including spaces.
const LONGEST: usize = 42;

/// Examines the word whose first digit, at `at`, follows a letter.
pub(super) fn find(text: &[u8], at: usize) -> Match {
    let letters = (1..=7)
        .take_while(|back| is_letter(text, at, *back))
        .count();
    let start = at - letters;
    if !begins_word(text, start)
        || start > 0
            && text
                .get(start - 1)
                .is_some_and(|byte| *byte == b'-' || *byte == b'.')
    {
        return None;
    }
    match letters {
        1 => residence(text, start),
        2 => iban(text, start).or_else(|| insurance(text, start)),
        6 => codice_fiscale(text, start),
        _ => None,
    }
}

/// Examines a digit at `at` that follows two letters and a space, as in `QQ 12 34 56 C` and
/// `DE 89 3704 0044 0532 0130 00`.
pub(super) fn spaced(text: &[u8], at: usize) -> Match {
    let apart = at >= 3
        && text.get(at - 1) == Some(&b' ')
        && is_letter(text, at - 1, 1)
        && is_letter(text, at - 1, 2);
    if !apart || !begins_word(text, at - 3) {
        return None;
    }
    insurance(text, at - 3).or_else(|| {
        let (kind, range) = iban(text, at - 3)?;
        // Small letters are those of a sentence: `at 20 …`.
        let is_large = !text.get(range.clone())?.iter().any(u8::is_ascii_lowercase);
        is_large.then_some((kind, range))
    })
}

fn is_letter(text: &[u8], at: usize, back: usize) -> bool {
    at.checked_sub(back)
        .and_then(|place| text.get(place))
        .is_some_and(u8::is_ascii_alphabetic)
}

/// Letters and digits from `start` on without single separators between them, and the end position
/// of each.
struct CompactId {
    characters: [u8; LONGEST],
    ends: [usize; LONGEST],
    count: usize,
}

impl CompactId {
    fn read(text: &[u8], start: usize, limit: usize, separators: &[u8]) -> CompactId {
        let mut compact = CompactId {
            characters: [0; LONGEST],
            ends: [0; LONGEST],
            count: 0,
        };
        let mut at = start;
        while compact.count < limit.min(LONGEST) {
            let separated = text.get(at).is_some_and(|byte| separators.contains(byte));
            let skipped = usize::from(compact.count > 0 && separated);
            let Some(byte) = text
                .get(at + skipped)
                .filter(|byte| byte.is_ascii_alphanumeric())
            else {
                break;
            };
            at += skipped + 1;
            compact.characters[compact.count] = byte.to_ascii_uppercase();
            compact.ends[compact.count] = at;
            compact.count += 1;
        }
        compact
    }

    /// Returns the first `count` characters and their end, if there are as many and the word ends
    /// there.
    fn whole(&self, text: &[u8], count: usize) -> Option<(&[u8], usize)> {
        let end = *self.ends.get(count.checked_sub(1)?)?;
        (self.count >= count && ends_word(text, end)).then(|| (&self.characters[..count], end))
    }
}

/// Lengths of IBANs by country (ISO 13616 registry).
fn iban_length(country: &[u8]) -> Option<usize> {
    Some(match country {
        b"NO" => 15,
        b"BE" => 16,
        b"DK" | b"FI" | b"FK" | b"FO" | b"GL" | b"NL" | b"SD" => 18,
        b"MK" | b"SI" => 19,
        b"AT" | b"BA" | b"EE" | b"KZ" | b"LT" | b"LU" | b"MN" | b"XK" => 20,
        b"CH" | b"HR" | b"LI" | b"LV" => 21,
        b"BG" | b"BH" | b"CR" | b"DE" | b"GB" | b"GE" | b"IE" | b"ME" | b"RS" | b"VA" => 22,
        b"AE" | b"GI" | b"IL" | b"IQ" | b"OM" | b"SO" | b"TL" => 23,
        b"AD" | b"CZ" | b"ES" | b"MD" | b"PK" | b"RO" | b"SA" | b"SE" | b"SK" | b"TN" | b"VG" => 24,
        b"LY" | b"PT" | b"ST" => 25,
        b"IS" | b"TR" => 26,
        b"BI" | b"DJ" | b"FR" | b"GR" | b"IT" | b"MC" | b"MR" | b"SM" => 27,
        b"AL" | b"AZ" | b"BY" | b"CY" | b"DO" | b"GT" | b"HN" | b"HU" | b"LB" | b"NI" | b"PL"
        | b"SV" => 28,
        b"BR" | b"EG" | b"PS" | b"QA" | b"UA" => 29,
        b"JO" | b"KW" | b"MU" | b"YE" => 30,
        b"MT" | b"SC" => 31,
        b"LC" => 32,
        b"RU" => 33,
        _ => return None,
    })
}

fn iban(text: &[u8], start: usize) -> Match {
    let country = [
        text.get(start)?.to_ascii_uppercase(),
        text.get(start + 1)?.to_ascii_uppercase(),
    ];
    let length = iban_length(&country)?;
    let compact = CompactId::read(text, start, length, b" -");
    let (characters, end) = compact.whole(text, length)?;
    let checked = characters.get(2..4)?.iter().all(u8::is_ascii_digit);
    let moved = characters.iter().cycle().skip(4).take(length).copied();
    (checked && is_mod_97(moved)).then_some((PersonalDataKind::Iban, start..end))
}

/// Two letters, six digits and a letter from A to D, without prefixes that are never issued.
fn insurance(text: &[u8], start: usize) -> Match {
    let compact = CompactId::read(text, start, 9, b" ");
    let (characters, end) = compact.whole(text, 9)?;
    let (prefix, rest) = characters.split_at_checked(2)?;
    let (digits, suffix) = rest.split_at_checked(6)?;

    let is_large = |place: usize| text.get(place).is_some_and(u8::is_ascii_uppercase);
    // A small letter is a word after a number: `PR 123456 a week ago`.
    let written_large = is_large(start) && is_large(start + 1) && is_large(end - 1);
    let formed = digits.iter().all(u8::is_ascii_digit) && matches!(suffix, [b'A'..=b'D']);
    (formed && is_issued_prefix(prefix) && written_large)
        .then_some((PersonalDataKind::UkNino, start..end))
}

/// Returns true unless national insurance numbers with this prefix are never issued.
fn is_issued_prefix(prefix: &[u8]) -> bool {
    let unused = [b"BG", b"GB", b"NK", b"KN", b"TN", b"NT", b"ZZ"]
        .iter()
        .any(|unused| prefix == *unused);
    prefix.iter().all(|letter| !b"DFIQUV".contains(letter))
        && prefix.get(1) != Some(&b'O')
        && !unused
}

/// `X1234567L`: the first letter represents a digit.
fn residence(text: &[u8], start: usize) -> Match {
    let end = start + 9;
    let word = text.get(start..end)?;
    let lead = word
        .first()
        .and_then(|letter| b"XYZ".iter().position(|known| known == letter))?;
    let digits: Vec<u8> = word
        .get(1..8)?
        .iter()
        .map(|byte| byte.wrapping_sub(b'0'))
        .collect();
    let formed = digits.iter().all(|digit| *digit < 10) && ends_word(text, end);
    let right =
        word.last().copied() == Some(spanish_letter(lead as u64 * 10_000_000 + number(&digits)));
    (formed && right).then_some((PersonalDataKind::EsDni, start..end))
}

/// Six letters, two digits, a letter for the month, two digits, a letter, three digits, and the
/// check letter. Digits are replaced by letters where two people would share a code.
fn codice_fiscale(text: &[u8], start: usize) -> Match {
    let end = start + 16;
    let word: Vec<u8> = text
        .get(start..end)?
        .iter()
        .map(u8::to_ascii_uppercase)
        .collect();
    let is_digit = |byte: &u8| byte.is_ascii_digit() || b"LMNPQRSTUV".contains(byte);
    let formed = word.iter().enumerate().all(|(place, byte)| match place {
        0..6 | 11 | 15 => byte.is_ascii_uppercase(),
        8 => b"ABCDEHLMPRST".contains(byte),
        _ => is_digit(byte),
    });
    if !formed || text.get(end).is_some_and(|byte| is_word(*byte)) {
        return None;
    }
    let sum: u32 = word
        .iter()
        .take(15)
        .enumerate()
        .map(|(place, byte)| fiscal_value(place, *byte))
        .sum();
    (word.last().copied() == Some(b'A' + (sum % 26) as u8))
        .then_some((PersonalDataKind::ItCodiceFiscale, start..end))
}

/// Returns the value of a character in the checksum: its rank at odd positions (counted from 0), a
/// permuted value at even ones.
fn fiscal_value(place: usize, byte: u8) -> u32 {
    const PERMUTED: [u32; 26] = [
        1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24,
        23,
    ];
    let rank = usize::from(if byte.is_ascii_digit() {
        byte - b'0'
    } else {
        byte.wrapping_sub(b'A')
    });
    match place % 2 {
        0 => PERMUTED.get(rank).copied().unwrap_or(0),
        _ => rank as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::super::mask;

    #[test]
    fn bank_accounts_as_people_write_them() {
        for text in [
            "DE89-3704-0044-0532-0130-00",
            "DE 89 3704 0044 0532 0130 00",
            "FK88SC123456789012",
            "HN88CABF00000000000250005469",
        ] {
            assert_eq!(mask(&format!("to {text} by Friday")), "to [iban] by Friday");
        }
        let wrong = "DE89-3704-0044-0532-0130-01";
        assert_eq!(mask(wrong), wrong);
    }

    #[test]
    fn letters_of_an_insurance_number_are_large() {
        for text in ["merged PR 123456 a week ago", "see Pr123456A"] {
            assert_eq!(mask(text), text);
        }
        assert_eq!(mask("NI number AB 12 34 56 C"), "NI number [uk_nino]");
    }
}

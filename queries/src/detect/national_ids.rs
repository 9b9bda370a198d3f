//! National identifiers of people that start with digits.

use super::checksum::{is_day, is_mod_11_10, luhn, number, verhoeff, weighted};
use super::digit_groups::{GroupWindow, Separator};
use super::{PersonalDataKind, ends_word, is_named};

use Separator::{Dash, Dot, Slash, Space};

/// Names of the social security number, in prose and in JSON.
const SOCIAL_SECURITY_NAMES: [&str; 4] = [
    "ssn",
    "social security",
    "social_security",
    "socialsecuritynumber",
];

/// Names of the Canadian social insurance number. `sin` alone is a word.
const SOCIAL_INSURANCE_NAMES: [&str; 5] = [
    "social insurance",
    "social_insurance",
    "socialinsurancenumber",
    "sin number",
    "sin:",
];

/// Names of the German tax identifier.
const GERMAN_TAX_ID_NAMES: [&str; 9] = [
    "steuer-id",
    "steuerid",
    "steueridentifikationsnummer",
    "idnr",
    "tax id",
    "tax_id",
    "taxid",
    "tin",
    "steuer-idnr",
];

/// Returns the kind of identifier that the digits of `window`, which start at `at`, form.
pub(super) fn find(text: &[u8], at: usize, window: &GroupWindow<'_>) -> Option<PersonalDataKind> {
    let named = |words: &[&str]| is_named(text, at, words);
    match window.digits.len() {
        9 => nine(window, named),
        10 | 12 if is_swedish(window) => Some(PersonalDataKind::SePersonnummer),
        11 => eleven(window, named),
        12 => is_indian(window, named).then_some(PersonalDataKind::InAadhaar),
        15 => is_french(window).then_some(PersonalDataKind::FrNir),
        18 => is_chinese(window.digits, window).then_some(PersonalDataKind::CnResidentId),
        _ => None,
    }
}

fn is_indian(window: &GroupWindow<'_>, named: impl Fn(&[&str]) -> bool) -> bool {
    let shaped = window.has_shape(&[4, 4, 4]) && window.is_separated_by(&[Space, Dash]);
    let fits = shaped || window.is_plain() && named(&["aadhaar", "aadhar", "uidai", "uid"]);
    fits && window.digits.first() >= Some(&2) && verhoeff(window.digits)
}

fn nine(window: &GroupWindow<'_>, named: impl Fn(&[&str]) -> bool) -> Option<PersonalDataKind> {
    let social = window.has_shape(&[3, 2, 4]) && window.is_separated_by(&[Dash])
        || (window.is_plain() || window.has_shape(&[3, 2, 4])) && named(&SOCIAL_SECURITY_NAMES);
    if social && is_social_security(window.digits) {
        return Some(PersonalDataKind::UsSsn);
    }
    if is_canadian(window, &named) {
        return Some(PersonalDataKind::CaSin);
    }
    let service = window.is_plain()
        && passes_eleven_test(window.digits)
        && named(&["bsn", "burgerservicenummer", "sofinummer"]);
    service.then_some(PersonalDataKind::NlBsn)
}

fn is_canadian(window: &GroupWindow<'_>, named: impl Fn(&[&str]) -> bool) -> bool {
    let shaped =
        window.is_plain() || window.has_shape(&[3, 3, 3]) && window.is_separated_by(&[Space, Dash]);
    shaped && luhn(window.digits) && number(window.digits) > 0 && named(&SOCIAL_INSURANCE_NAMES)
}

/// The weighted sum of the digits of a citizen service number is a multiple of eleven.
fn passes_eleven_test(digits: &[u8]) -> bool {
    let (body, last) = (
        digits.get(..8).unwrap_or_default(),
        u32::from(digits.last().copied().unwrap_or(0)),
    );
    (weighted(body, &[9, 8, 7, 6, 5, 4, 3, 2]) + 11 * 9 - last).is_multiple_of(11)
        && number(digits) > 0
}

/// Returns true for area, group and serial numbers that can be issued, except the two numbers that
/// were printed in advertisements.
fn is_social_security(digits: &[u8]) -> bool {
    let part = |from: usize, to: usize| number(digits.get(from..to).unwrap_or_default());
    let (area, group, serial) = (part(0, 3), part(3, 5), part(5, 9));
    let printed = matches!(number(digits), 78_051_120 | 219_099_999);
    area > 0 && area != 666 && area < 900 && group > 0 && serial > 0 && !printed
}

fn eleven(window: &GroupWindow<'_>, named: impl Fn(&[&str]) -> bool) -> Option<PersonalDataKind> {
    let digits = window.digits;
    let brazilian = window.has_shape(&[3, 3, 3, 2]) && window.separators == [Dot, Dot, Dash];
    if (brazilian || window.is_plain() && named(&["cpf"])) && is_brazilian(digits) {
        return Some(PersonalDataKind::BrCpf);
    }
    let german = window.has_shape(&[2, 3, 3, 3]) && window.is_separated_by(&[Space, Slash]);

    if (german || window.is_plain() && named(&GERMAN_TAX_ID_NAMES)) && is_german(digits) {
        return Some(PersonalDataKind::DeTaxId);
    }
    (window.is_plain() && named(&["pesel"]) && is_polish(digits))
        .then_some(PersonalDataKind::PlPesel)
}

fn is_brazilian(digits: &[u8]) -> bool {
    let check = |count: usize| {
        let weights: Vec<u32> = (2..=count as u32 + 1).rev().collect();
        let rest = weighted(digits.get(..count).unwrap_or_default(), &weights) * 10 % 11 % 10;
        digits
            .get(count)
            .is_some_and(|digit| u32::from(*digit) == rest)
    };
    let varied = digits.iter().any(|digit| Some(digit) != digits.first());
    varied && check(9) && check(10)
}

/// One of the first ten digits occurs two or three times, and the first isn't zero.
fn is_german(digits: &[u8]) -> bool {
    let mut counts = [0_u8; 10];
    digits
        .iter()
        .take(10)
        .for_each(|digit| counts[usize::from(*digit % 10)] += 1);
    let repeated = counts.iter().filter(|count| **count > 1).count();
    let most = counts.iter().max().copied().unwrap_or(0);
    digits.first() != Some(&0) && repeated == 1 && most <= 3 && is_mod_11_10(digits)
}

/// The month encodes the century.
fn is_polish(digits: &[u8]) -> bool {
    let part = |from: usize, to: usize| number(digits.get(from..to).unwrap_or_default()) as u32;
    let check = (10
        - weighted(
            digits.get(..10).unwrap_or_default(),
            &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3],
        ) % 10)
        % 10;
    let century = [1900, 2000, 2100, 2200, 1800][(part(2, 4) / 20).min(4) as usize];
    is_day(century + part(0, 2), part(2, 4) % 20, part(4, 6))
        && digits
            .last()
            .is_some_and(|digit| u32::from(*digit) == check)
}

/// `811218-9876`, or with a four-digit year.
fn is_swedish(window: &GroupWindow<'_>) -> bool {
    let separated = matches!(window.separators, [Dash | Separator::Plus]);
    let short = match (window.has_shape(&[6, 4]), window.has_shape(&[8, 4])) {
        (true, _) => window.digits,
        (_, true) => window.digits.get(2..).unwrap_or_default(),
        _ => return false,
    };
    let part = |from: usize, to: usize| number(short.get(from..to).unwrap_or_default()) as u32;
    separated && is_day(2000 + part(0, 2), part(2, 4), part(4, 6)) && luhn(short)
}

/// Sex, year, month, place and order, and a two-digit key. Corsica's letters aren't recognised.
fn is_french(window: &GroupWindow<'_>) -> bool {
    let shaped = window.is_plain()
        || window.is_separated_by(&[Space])
            && (window.has_shape(&[1, 2, 2, 2, 3, 3, 2]) || window.has_shape(&[13, 2]));
    let digits = window.digits;
    let (body, key) = (
        number(digits.get(..13).unwrap_or_default()),
        number(digits.get(13..).unwrap_or_default()),
    );
    let month = number(digits.get(3..5).unwrap_or_default());
    let person =
        matches!(digits.first(), Some(1 | 2)) && matches!(month, 1..=12 | 20..=42 | 50..=99);
    shaped && person && body % 97 + key == 97
}

fn is_chinese_body(digits: &[u8]) -> bool {
    let part = |from: usize, to: usize| number(digits.get(from..to).unwrap_or_default()) as u32;
    (11..=65).contains(&part(0, 2))
        && (1900..=2100).contains(&part(6, 10))
        && is_day(part(6, 10), part(10, 12), part(12, 14))
}

const CHINESE_WEIGHTS: [u32; 17] = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];

fn chinese_check(digits: &[u8]) -> u32 {
    (12 - weighted(digits.get(..17).unwrap_or_default(), &CHINESE_WEIGHTS) % 11) % 11
}

fn is_chinese(digits: &[u8], window: &GroupWindow<'_>) -> bool {
    window.is_plain()
        && is_chinese_body(digits)
        && digits
            .last()
            .is_some_and(|digit| u32::from(*digit) == chinese_check(digits))
}

const SPANISH_LETTERS: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";

/// Returns the check letter of a Spanish number.
pub(super) fn spanish_letter(number: u64) -> u8 {
    SPANISH_LETTERS[(number % 23) as usize]
}

/// Detects identifiers whose last character is a letter directly after the digits, or after a dash.
pub(super) fn with_letter(
    text: &[u8],
    at: usize,
    window: &GroupWindow<'_>,
) -> Option<(PersonalDataKind, usize)> {
    if !window.is_plain() {
        return None;
    }
    let (letter, end) = last_letter(text, window.end)?;
    match window.digits.len() {
        8 if letter == spanish_letter(number(window.digits))
            && is_named(text, at, &["dni", "nif", "documento"]) =>
        {
            Some((PersonalDataKind::EsDni, end))
        }
        17 if letter == b'X'
            && is_chinese_body(window.digits)
            && chinese_check(window.digits) == 10 =>
        {
            Some((PersonalDataKind::CnResidentId, end))
        }
        _ => None,
    }
}

/// Returns the letter, in upper case, that ends the word at `at` or after a dash, and its end.
fn last_letter(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let dash = usize::from(text.get(at) == Some(&b'-'));
    let letter = text.get(at + dash)?.to_ascii_uppercase();
    let end = at + dash + 1;
    (letter.is_ascii_uppercase() && ends_word(text, end)).then_some((letter, end))
}

//! Dates of birth: a date behind a word such as `born`, in digits or with the name of its month.

use super::checksum::{is_day, number};
use super::digit_groups::{GroupWindow, Separator, end_of_digits};
use super::{Match, PersonalDataKind, ends_word, is_letter, is_named};

const BIRTH_WORDS: &[&str] = &[
    "born",
    "dob",
    "d.o.b",
    "birth",
    "birthdate",
    "birthday",
    "birth_date",
    "date_of_birth",
    "dateofbirth",
    "geboren",
    "geb",
    "geburtsdatum",
    "geburtstag",
    "geboortedatum",
    "naissance",
    "né le",
    "née le",
    "né(e) le",
    "nacimiento",
    "nacido",
    "nacida",
    "nació",
    "nascita",
    "nato il",
    "nata il",
    "nascimento",
];

/// Names of the months, in lower case. Their beginnings are abbreviations.
const MONTHS: [&[&str]; 12] = [
    &[
        "january", "januari", "janvier", "enero", "gennaio", "janeiro",
    ],
    &[
        "february",
        "februari",
        "février",
        "febrero",
        "febbraio",
        "fevereiro",
    ],
    &["march", "märz", "maart", "mars", "marzo", "março"],
    &["april", "avril", "abril", "aprile"],
    &["may", "mai", "mei", "mayo", "maggio", "maio"],
    &["june", "juni", "juin", "junio", "giugno", "junho"],
    &["july", "juli", "juillet", "julio", "luglio", "julho"],
    &["augustus", "août", "agosto"],
    &[
        "september",
        "septembre",
        "septiembre",
        "settembre",
        "setembro",
    ],
    &[
        "october", "oktober", "octobre", "octubre", "ottobre", "outubro",
    ],
    &["november", "novembre", "noviembre", "novembro"],
    &[
        "december",
        "dezember",
        "décembre",
        "diciembre",
        "dicembre",
        "dezembro",
    ],
];

/// Words between the parts of a date, as in `10 de mayo de 1985`.
const CONNECTIVES: [&[u8]; 2] = [b"of", b"de"];

/// Length of the longest name of a month in bytes.
const LONGEST_MONTH: usize = 10;

/// Returns true if the groups of `window`, which start at `at`, form a date of birth. Two digits of
/// a year count only with two for day and month.
pub(super) fn is_numeric(text: &[u8], at: usize, window: &GroupWindow<'_>) -> bool {
    let part = |from: usize, to: usize| part_of(window, from, to);
    let date = match window.separators.len() {
        0 => (window.digits.len() == 8).then(|| (part(0, 4), part(4, 6), part(6, 8))),
        2 if has_date_separators(window) => long_date(window).or_else(|| {
            let short = window.has_shape(&[2, 2, 2]);
            short.then(|| (2000 + part(4, 6), part(0, 2), part(2, 4)))
        }),
        _ => None,
    };
    date.is_some_and(is_date) && is_named(text, at, BIRTH_WORDS)
}

/// Returns true if `window` begins with a date whose year has four digits.
pub(super) fn begins_with_date(window: &GroupWindow<'_>) -> bool {
    has_date_separators(window) && long_date(window).is_some_and(is_date)
}

/// Returns true if the same sign of dates is between the first three groups.
fn has_date_separators(window: &GroupWindow<'_>) -> bool {
    matches!(
        window.separators,
        [first @ (Separator::Dash | Separator::Slash | Separator::Dot), second, ..]
            if first == second
    )
}

/// Returns a year of four digits and the two numbers of the day and month, with which `window`
/// begins.
fn long_date(window: &GroupWindow<'_>) -> Option<(u32, u32, u32)> {
    let part = |from: usize, to: usize| part_of(window, from, to);
    let mut shapes = [(1, 1), (1, 2), (2, 1), (2, 2)].into_iter();
    shapes.find_map(|(one, other)| {
        let both = one + other;
        if window.begins_with(&[4, one, other]) {
            Some((part(0, 4), part(4, 4 + one), part(4 + one, 4 + both)))
        } else if window.begins_with(&[one, other, 4]) {
            Some((part(both, both + 4), part(0, one), part(one, both)))
        } else {
            None
        }
    })
}

/// Returns true for a year and two numbers that are a day and a month, in any order.
fn is_date((year, one, other): (u32, u32, u32)) -> bool {
    is_year(year) && (is_day(year, one, other) || is_day(year, other, one))
}

/// Returns the number that the digits `from` to `to` of `window` form.
fn part_of(window: &GroupWindow<'_>, from: usize, to: usize) -> u32 {
    number(window.digits.get(from..to).unwrap_or_default()) as u32
}

fn is_year(year: u32) -> bool {
    (1900..=2100).contains(&year)
}

/// Returns true if the time of day follows at `at`, as in `1985-12-10T00:00:00Z`.
pub(super) fn is_before_time(text: &[u8], at: usize) -> bool {
    matches!(text.get(at..at + 2), Some([b'T', digit]) if digit.is_ascii_digit())
}

/// Examines the day at `at`: `10 December 1985`, `10th of Dec. 1985`, `December 10, 1985`.
pub(super) fn with_month_name(text: &[u8], at: usize) -> Match {
    let day_end = end_of_digits(text, at);
    if day_end - at > 2 {
        return None;
    }
    let after_day = after_ordinal(text, day_end);
    let (start, month, next) = match month_before(text, at) {
        Some((start, month)) => (start, month, after_day),
        None => {
            let (month, next) = month_after(text, after_day)?;
            (at, month, next)
        }
    };
    let year_at = after_connective(text, after_separator(text, next)?);
    let end = end_of_digits(text, year_at);
    let (day, year) = (value(text, at, day_end), value(text, year_at, end));
    let is_date = end - year_at == 4 && is_year(year) && is_day(year, month, day);
    (is_date && ends_word(text, end) && is_named(text, start, BIRTH_WORDS))
        .then_some((PersonalDataKind::DateOfBirth, start..end))
}

/// Returns the number that the digits from `start` to `end` form.
fn value(text: &[u8], start: usize, end: usize) -> u32 {
    let digits = text.get(start..end).unwrap_or_default().iter().take(4);
    digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
}

/// Returns the position after the ending of an ordinal number at `at`, such as `th` or a dot.
fn after_ordinal(text: &[u8], at: usize) -> usize {
    let ending = text.get(at..at + 2).unwrap_or_default();
    let is_ordinal = [b"st", b"nd", b"rd", b"th"]
        .iter()
        .any(|ordinal| ending.eq_ignore_ascii_case(*ordinal));
    match is_ordinal {
        true => at + 2,
        false => at + usize::from(text.get(at) == Some(&b'.')),
    }
}

/// Returns the position after a space, dash or slash at `at`, or after a comma or dot and a space.
fn after_separator(text: &[u8], at: usize) -> Option<usize> {
    if matches!(text.get(at), Some(b'-' | b'/')) {
        return Some(at + 1);
    }
    let signs = usize::from(matches!(text.get(at), Some(b',' | b'.')));
    (text.get(at + signs) == Some(&b' ')).then_some(at + signs + 1)
}

/// Returns the position after a connective and a space at `at`, otherwise `at`.
fn after_connective(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let found = CONNECTIVES.iter().find(|word| {
        let written = rest.get(..word.len()).unwrap_or_default();
        written.eq_ignore_ascii_case(word) && rest.get(word.len()) == Some(&b' ')
    });
    found.map_or(at, |word| at + word.len() + 1)
}

/// Returns the month whose name follows after the space at `at`, and the end of the name.
fn month_after(text: &[u8], at: usize) -> Option<(u32, usize)> {
    let start = after_connective(text, after_separator(text, at)?);
    let rest = text.get(start..)?.iter().take(LONGEST_MONTH + 1);
    let end = start + rest.take_while(|byte| is_letter(**byte)).count();
    Some((month(text.get(start..end)?)?, end))
}

/// Returns the start of the month whose name ends before the space before `at`, and the month.
fn month_before(text: &[u8], at: usize) -> Option<(usize, u32)> {
    let before = text.get(..at)?.strip_suffix(b" ")?;
    let name = before.strip_suffix(b".").unwrap_or(before);
    let letters = name.iter().rev().take(LONGEST_MONTH + 1);
    let start = name.len() - letters.take_while(|byte| is_letter(**byte)).count();
    Some((start, month(name.get(start..)?)?))
}

/// Returns the number of the month with this name, or with one that begins so.
fn month(name: &[u8]) -> Option<u32> {
    let begins = |full: &str| {
        let beginning = full.as_bytes().get(..name.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(name))
    };
    if name.len() < 3 {
        return None;
    }
    let place = MONTHS
        .iter()
        .position(|names| names.iter().any(|full| begins(full)))?;
    u32::try_from(place + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::super::mask;

    #[test]
    fn dates_as_people_write_them() {
        for text in [
            "born 1985-12-10",
            "DOB: 3/5/1985",
            "geb. 3.5.1985",
            "born 1985-3-5",
            "DOB 03/05/85",
            "born on December 10, 1985",
            "Born December 10th, 1985",
            "born on 10 December 1985",
            "born on the 3rd of Dec. 1985",
            "geboren am 10. Dezember 1985",
            "née le 10 décembre 1985",
            "fecha de nacimiento: 10 de mayo de 1985",
            "Geburtsdatum: 10.12.1985",
            "DOB: 10-Dec-1985",
            "DOB 10/DEC/1985",
            "DOB: 19851210",
            "Né(e) le 10/12/1985",
            "nacida el 10 de mayo de 1985",
            "nata il 10 maggio 1985",
            "Data de nascimento: 10 de março de 1985",
            "geboortedatum: 10 maart 1985",
        ] {
            let masked = mask(&format!("{text} in Rome")).into_owned();
            let before = masked.strip_suffix("[date_of_birth] in Rome");
            assert!(
                before.is_some_and(|before| !before.contains(char::is_numeric)),
                "{text}: {masked}"
            );
        }
        assert_eq!(
            mask(r#"{"dateOfBirth":"1985-12-10T00:00:00Z"}"#),
            r#"{"dateOfBirth":"[date_of_birth]T00:00:00Z"}"#
        );
    }

    #[test]
    fn other_dates_and_numbers_are_left_alone() {
        for text in [
            "released on December 10, 1985",
            "released on 3/5/1985",
            "released on 10-Dec-1985",
            "born in ward 19851399",
            "born in 1985",
            "born December 32, 1985",
            "born 10 Decembers 1985",
            "born on 1.2.34",
            "born on 10 December 19850",
            "birthday in room 10 may 1985x",
            "1985-12-10T00:00:00Z",
        ] {
            assert_eq!(mask(text), text);
        }
    }
}

//! Numbers other than national identifiers and dates: payment cards, phone numbers, IPv4 addresses.

use std::net::Ipv4Addr;

use super::checksum::{luhn, number};
use super::digit_groups::{DigitGroups, GroupWindow, Separator};
use super::{
    Match, PersonalDataKind, begins_word, birth_dates, ends_word, has_word_before, is_named,
    is_word, national_ids,
};

/// Examines digits that start at `at` and don't follow a letter.
pub(super) fn find(text: &[u8], at: usize) -> Match {
    let lead = Lead::of(text, at);
    if lead == Lead::None && !begins_word(text, at) {
        return None;
    }
    if lead == Lead::None {
        let date = birth_dates::with_month_name(text, at);
        if date.is_some() {
            return date;
        }
    }
    let phrase = DigitGroups::read(text, at);
    phrase.windows().find_map(|window| {
        if let Some((kind, end)) = national_ids::with_letter(text, at, &window) {
            return Some((kind, at..end));
        }
        let ends = ends_word(text, window.end);
        if !ends && !birth_dates::is_before_time(text, window.end) {
            return None;
        }
        let kind = classify(text, at, lead, &window)?;
        if !ends && kind != PersonalDataKind::DateOfBirth {
            return None;
        }
        let start = if kind == PersonalDataKind::Phone {
            at - lead.width()
        } else {
            at
        };
        Some((kind, start..window.end))
    })
}

/// The character before the first digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    None,
    Plus,
    Bracket,
}

impl Lead {
    fn of(text: &[u8], at: usize) -> Lead {
        let free = at < 2 || text.get(at - 2).is_none_or(|before| !is_word(*before));
        match at.checked_sub(1).and_then(|before| text.get(before)) {
            Some(b'+') if free => Lead::Plus,
            Some(b'(') if free => Lead::Bracket,
            _ => Lead::None,
        }
    }

    const fn width(self) -> usize {
        match self {
            Lead::None => 0,
            Lead::Plus | Lead::Bracket => 1,
        }
    }
}

fn classify(
    text: &[u8],
    at: usize,
    lead: Lead,
    window: &GroupWindow<'_>,
) -> Option<PersonalDataKind> {
    let checks: [(PersonalDataKind, bool); 3] = [
        (
            PersonalDataKind::IpAddress,
            lead == Lead::None && is_public_ipv4(text, at, window),
        ),
        (
            PersonalDataKind::PaymentCard,
            lead == Lead::None && is_card(window),
        ),
        (
            PersonalDataKind::DateOfBirth,
            lead == Lead::None && birth_dates::is_numeric(text, at, window),
        ),
    ];
    let found = checks.into_iter().find(|(_, is)| *is).map(|(kind, _)| kind);
    found
        .or_else(|| {
            if lead == Lead::None {
                national_ids::find(text, at, window)
            } else {
                None
            }
        })
        .or_else(|| is_phone(text, at, lead, window).then_some(PersonalDataKind::Phone))
}

/// Returns true if the length and prefix belong to a card issuer.
fn is_issued(digits: &[u8]) -> bool {
    let prefix = |count: usize| number(digits.get(..count).unwrap_or_default());
    match digits.len() {
        14 => matches!(prefix(2), 30 | 36 | 38 | 39),
        15 => matches!(prefix(2), 34 | 37),
        16 => {
            matches!(prefix(1), 4)
                || matches!(prefix(2), 51..=55 | 65)
                || matches!(prefix(3), 644..=649)
                || matches!(prefix(4), 2200..=2204 | 2221..=2720 | 3528..=3589 | 6011 | 6200..=6299)
        }
        19 => matches!(prefix(1), 4) || matches!(prefix(4), 6200..=6299),
        _ => false,
    }
}

fn is_card(window: &GroupWindow<'_>) -> bool {
    let shaped = window.is_plain()
        || window.is_separated_by(&[Separator::Space, Separator::Dash])
            && (window.has_shape(&[4, 4, 4, 4])
                || window.has_shape(&[4, 6, 5])
                || window.has_shape(&[4, 6, 4])
                || window.has_shape(&[4, 4, 4, 4, 3]));
    let varied = window
        .digits
        .iter()
        .any(|digit| Some(digit) != window.digits.first());
    shaped && varied && is_issued(window.digits) && luhn(window.digits)
}

/// Returns true for public IPv4 addresses. Version numbers have the same form, so a keyword such as
/// `version` before the number excludes it.
fn is_public_ipv4(text: &[u8], at: usize, window: &GroupWindow<'_>) -> bool {
    if window.separators != [Separator::Dot; 3]
        || is_named(
            text,
            at,
            &["version", "v", "ver", "release", "section", "§"],
        )
    {
        return false;
    }
    let Some(address) = text
        .get(at..window.end)
        .and_then(|text| std::str::from_utf8(text).ok())
    else {
        return false;
    };
    address.parse::<Ipv4Addr>().is_ok_and(|address| {
        let octets = address.octets();
        let special = address.is_private()
            || address.is_loopback()
            || address.is_link_local()
            || address.is_multicast()
            || address.is_documentation()
            || address.is_broadcast()
            || octets[0] >= 240
            || octets[0] == 0
            || octets[0] == 100 && (64..128).contains(&octets[1]);
        // 1.2.3.4 and 4.0.0.1 are versions and examples far more often than addresses.
        !special && octets.iter().any(|octet| *octet > 9)
    })
}

const PHONE_WORDS: &[&str] = &[
    "tel",
    "telephone",
    "phone",
    "mobile",
    "cell",
    "fax",
    "whatsapp",
    "sms",
    "handy",
    "telefon",
    "mobil",
    "phonenumber",
    "telephonenumber",
    "mobilephone",
    "mobilenumber",
    "cellphone",
    "homephone",
    "workphone",
    "telefonnummer",
    "handynummer",
    "téléphone",
    "tél",
    "portable",
    "teléfono",
    "telefono",
    "móvil",
];

fn is_phone(text: &[u8], at: usize, lead: Lead, window: &GroupWindow<'_>) -> bool {
    let digits = window.digits;
    let first = digits.first().copied().unwrap_or(0);
    let varied = digits
        .iter()
        .skip(2)
        .any(|digit| Some(digit) != digits.get(2));
    let telephonic = !window.separators.contains(&Separator::Plus) && varied;
    match lead {
        // E.164: a country code and up to fifteen digits in all.
        Lead::Plus => telephonic && first != 0 && (8..=15).contains(&digits.len()),
        _ if !telephonic => false,
        Lead::None if digits.starts_with(&[0, 0]) && !window.is_plain() => {
            digits.get(2).is_some_and(|digit| *digit != 0) && (10..=17).contains(&digits.len())
        }
        _ => {
            is_north_american(lead, window)
                || lead == Lead::None && is_european(window)
                || is_named_phone(text, at, window)
        }
    }
}

/// `(415) 555-2671`, `415-555-2671`, `1-415-555-2671`: area and exchange codes start with 2 to 9.
fn is_north_american(lead: Lead, window: &GroupWindow<'_>) -> bool {
    let (area, shaped) = if window.has_shape(&[3, 3, 4]) {
        (0, true)
    } else {
        (
            1,
            window.has_shape(&[1, 3, 3, 4]) && window.digits.first() == Some(&1),
        )
    };
    let at = |place: usize| window.digits.get(place).copied().unwrap_or(0);

    // The second and third digits of an area code aren't both one (911, 411 …); 555-01xx is
    // fictional.
    shaped
        && has_phone_separators(lead, window)
        && at(area) >= 2
        && at(area + 3) >= 2
        && !(at(area + 1) == 1 && at(area + 2) == 1)
}

/// Returns true if a bracket closes the area code, or if dashes or dots separate the groups.
fn has_phone_separators(lead: Lead, window: &GroupWindow<'_>) -> bool {
    match lead {
        Lead::Bracket => window.separators.first() == Some(&Separator::Bracket),
        _ => {
            window.is_separated_by(&[Separator::Dash, Separator::Dot])
                || window.separators.contains(&Separator::Bracket)
        }
    }
}

/// `020 7946 0958`, `07700 900123` and `06 12 34 56 78`.
fn is_european(window: &GroupWindow<'_>) -> bool {
    let begins =
        window.digits.first() == Some(&0) && window.digits.get(1).is_some_and(|digit| *digit > 0);
    let shaped = window.has_shape(&[3, 4, 4])
        || window.has_shape(&[5, 6])
        || window.has_shape(&[2, 2, 2, 2, 2]);
    begins && shaped && window.is_separated_by(&[Separator::Space, Separator::Dot, Separator::Dash])
}

fn is_named_phone(text: &[u8], at: usize, window: &GroupWindow<'_>) -> bool {
    let dated = window.has_shape(&[4, 2, 2])
        || window.has_shape(&[2, 2, 4])
        || birth_dates::begins_with_date(window);
    // The rest of a date, or the minutes before one.
    let continued = match text.get(..at) {
        Some([.., digit, b'/']) => digit.is_ascii_digit(),
        Some([.., ten, one, b':']) => ten.is_ascii_digit() && one.is_ascii_digit(),
        _ => false,
    };
    // Calls of tools have numbers of their own: `tool_call_id`.
    let named = || is_named(text, at, PHONE_WORDS) || has_word_before(text, at, "call", is_word);
    (7..=15).contains(&window.digits.len()) && !dated && !continued && named()
}

#[cfg(test)]
mod tests {
    use super::super::mask;

    #[test]
    fn cards_of_further_issuers() {
        for card in ["39341234567801", "3934 123456 7801", "2200 7000 0000 0009"] {
            assert_eq!(mask(&format!("card {card}")), "card [payment_card]");
        }
    }

    #[test]
    fn a_slash_between_spaces_separates_groups() {
        for (text, masked) in [
            ("+49 30 / 901820", "[phone]"),
            ("Tel. 030 / 901820", "Tel. [phone]"),
            ("DOB 10 / 12 / 1985", "DOB [date_of_birth]"),
            ("4111 1111 1111 1111 / 12 / 25", "[payment_card] / 12 / 25"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }

    #[test]
    fn an_address_ends_at_a_path_and_not_at_the_length_of_a_prefix() {
        let text = "http://81.2.69.142/2024/01";
        assert_eq!(mask(text), "http://[ip_address]/2024/01");
        let network = "104.16.0.0/13";
        assert_eq!(mask(network), network);
    }

    #[test]
    fn a_dash_between_spaces_ends_a_number() {
        for (text, masked) in [
            ("4111 1111 1111 1111 - 12/25", "[payment_card] - 12/25"),
            ("SSN 536-90-4399 - 2 files", "SSN [us_ssn] - 2 files"),
            ("81.2.69.142 - 200", "[ip_address] - 200"),
            ("415 - 555 - 2671", "[phone]"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }

    #[test]
    fn times_of_calls_and_numbers_of_tool_calls_are_no_phone_numbers() {
        for text in [
            "call on 2024-11-22 14:30",
            "call at 22.11.2024 10:00",
            "call on 13/5/2024",
            "call on 11/22/2024 14:30",
            "call at 10:30 2024-11-22",
            r#"{"tool_call_id":10293847}"#,
        ] {
            assert_eq!(mask(text), text);
        }
        assert_eq!(mask("call 415 555 2671"), "call [phone]");
        assert_eq!(mask("phone2:4155552671"), "phone2:[phone]");
    }

    #[test]
    fn a_word_ends_at_letters_with_accents_and_at_spanish_signs() {
        for text in [
            "Hôtel Lutetia, réservation 84930215",
            // The beginning of the word is too far away.
            &format!("hotel {} 84930215", "x".repeat(35)),
        ] {
            assert_eq!(mask(text), text);
        }
        for (text, masked) in [
            ("¿Tel 84930215?", "¿Tel [phone]?"),
            ("¿4111111111111111?", "¿[payment_card]?"),
            ("电话tel 84930215", "电话tel [phone]"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }
}

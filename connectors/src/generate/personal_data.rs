//! Invented personal data: identifiers with correct check digits.
//!
//! Where the issuer of an identifier has a range for tests or fiction, or one that isn't assigned,
//! numbers come from it: telephone numbers of films, banks that don't exist, social security areas
//! that weren't assigned before 2011, IPv4 addresses for benchmarks.

use std::fmt::Write;
use std::ops::Range;

use super::check_digits::{iban_check, luhn_digit};
use super::draws::Draws;

/// A country whose identifiers people have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Country {
    GreatBritain,
    UnitedStates,
    Canada,
    Germany,
    France,
    Spain,
    Italy,
    Netherlands,
    Poland,
    Sweden,
    Brazil,
    India,
    China,
}

/// A kind of personal data, by the name that scans use, and where it is in a text.
pub(super) type Found = (&'static str, Range<usize>);

/// Appends `text` and returns where it is.
pub(super) fn found(kind: &'static str, out: &mut String, text: &str) -> Found {
    let start = out.len();
    out.push_str(text);
    (kind, start..out.len())
}

/// Returns `count` random digits.
pub(super) fn digits(draws: &mut Draws, count: usize) -> String {
    (0..count)
        .map(|_| char::from(b'0' + draws.below(10) as u8))
        .collect()
}

/// Appends an e-mail address at a reserved domain.
pub(super) fn email(out: &mut String, draws: &mut Draws, first: &str, last: &str) -> Found {
    let domains = [
        "example.org",
        "example.com",
        "example.net",
        "mail.example.org",
    ];
    let domain = domains[draws.below(domains.len())];
    let address = match draws.below(3) {
        0 => format!("{first}.{last}@{domain}"),
        1 => format!("{first}.{last}{}@{domain}", draws.between(2, 99)),
        _ => format!("{}{last}{}@{domain}", &first[..1], draws.between(60, 2007)),
    };
    found("email", out, &address)
}

/// Appends a telephone number.
pub(super) fn phone(out: &mut String, draws: &mut Draws, country: Country) -> Found {
    let areas = [
        "303", "617", "212", "312", "602", "720", "857", "214", "503", "651",
    ];
    let area = areas[draws.below(areas.len())];
    let (two, three) = (digits(draws, 2), digits(draws, 3));
    let pattern = PHONE_PATTERNS[country as usize][draws.below(2)];
    let start = out.len();
    for letter in pattern.chars() {
        match letter {
            'A' => out.push_str(area),
            'B' => out.push_str(&two),
            'C' => out.push_str(&three),
            'D' => out.push_str(&digits(draws, 2)),
            'E' => out.push_str(&digits(draws, 3)),
            'F' => {
                let _ = write!(out, "{}", draws.between(10, 99));
            }
            _ => out.push(letter),
        }
    }
    ("phone", start..out.len())
}

/// Two ways to write a number, by country: `A` is an area code, other letters are digits.
const PHONE_PATTERNS: [[&str; 2]; 13] = [
    ["07700 900C", "+44 20 7946 0C"],
    ["(A) 555-01B", "+1 A 555 01B"],
    ["+1 (416) 555-01B"; 2],
    ["+49 30 23125 C", "0049 171 39200 B"],
    ["06 39 98 B D", "+33 1 99 00 B D"],
    ["+34 999 C E"; 2],
    ["+39 06 0000 C1"; 2],
    ["+31 20 000 C7"; 2],
    ["+48 22 000 B 31"; 2],
    ["+46 70 174 06 F"; 2],
    ["+55 11 0000-C5"; 2],
    ["+91 11 0000 C9"; 2],
    ["+86 10 0000 C2"; 2],
];

/// Appends the number of a bank account in groups of four. Its bank doesn't exist.
pub(super) fn iban(out: &mut String, draws: &mut Draws, country: Country) -> Found {
    let (code, bank, length) = match country {
        Country::GreatBritain => ("GB", "TEST999999", 22),
        Country::France => ("FR", "9999999999", 27),
        Country::Spain => ("ES", "9999", 24),
        Country::Italy => ("IT", "X9999999999", 27),
        Country::Netherlands => ("NL", "TEST0", 18),
        Country::Poland => ("PL", "99999999", 28),
        Country::Sweden => ("SE", "999", 24),
        _ => ("DE", "90000000", 22),
    };
    let account = digits(draws, length - 4 - bank.len());
    let body = format!("{bank}{account}");
    let all = format!("{code}{:02}{body}", iban_check(code, &body));
    let start = out.len();
    for (place, character) in all.chars().enumerate() {
        if place > 0 && place % 4 == 0 {
            out.push(' ');
        }
        out.push(character);
    }
    ("iban", start..out.len())
}

/// Appends the number of a payment card, with a prefix that payment services use for tests.
pub(super) fn card(out: &mut String, draws: &mut Draws) -> Found {
    let prefixes = ["411111", "424242", "400000", "555555", "520082"];
    let prefix = prefixes[draws.below(prefixes.len())];
    let body = format!("{prefix}{}", digits(draws, 9));
    let check = luhn_digit(&body);
    let separator = if draws.below(4) == 0 { '-' } else { ' ' };
    let number = format!(
        "{}{separator}{}{separator}{}{separator}{}{check}",
        &body[..4],
        &body[4..8],
        &body[8..12],
        &body[12..]
    );
    found("payment_card", out, &number)
}

/// Appends a public IPv4 address of the range for benchmarks.
pub(super) fn ip_address(out: &mut String, draws: &mut Draws) -> Found {
    let start = out.len();
    let octets = [
        draws.between(18, 19),
        draws.below(256),
        draws.between(1, 254),
    ];
    let _ = write!(out, "198.{}.{}.{}", octets[0], octets[1], octets[2]);
    ("ip_address", start..out.len())
}

/// Appends a key that no service has issued.
pub(super) fn credential(out: &mut String, draws: &mut Draws) -> Found {
    let start = out.len();
    let (prefix, count, suffix) = match draws.below(3) {
        0 => ("ghp_x7", 34, ""),
        1 => ("sk-test-9q", 24, ""),
        _ => ("AKIA7Q", 7, "EXAMPLE"),
    };
    let letters: &[u8] = match suffix {
        "" => b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789",
        _ => b"ABCDEFGHJKLMNPQRSTUVWXYZ234567",
    };
    out.push_str(prefix);
    out.extend((0..count).map(|_| char::from(letters[draws.below(letters.len())])));
    out.push_str(suffix);
    ("credential", start..out.len())
}

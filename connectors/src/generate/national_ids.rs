//! Invented national identifiers of people, with correct check digits.

use std::fmt::Write;

use super::check_digits::{luhn_digit, mod_11_10_digit, verhoeff_digit, weighted};
use super::draws::Draws;
use super::personal_data::{Country, Found, digits, found};

/// Appends the national identifier of a person, after the words that name it.
pub(super) fn national_id(out: &mut String, draws: &mut Draws, country: Country) -> Found {
    let (words, kind, number) = match country {
        Country::GreatBritain => ("NI number ", "uk_nino", uk_nino(draws)),
        Country::UnitedStates => ("SSN ", "us_ssn", us_ssn(draws)),
        Country::Canada => ("social insurance number ", "ca_sin", ca_sin(draws)),
        Country::Germany => ("Steuer-ID ", "de_tax_id", de_tax_id(draws)),
        Country::France => ("NIR ", "fr_nir", fr_nir(draws)),
        Country::Spain => ("DNI ", "es_dni", es_dni(draws)),
        Country::Italy => (
            "codice fiscale ",
            "it_codice_fiscale",
            codice_fiscale(draws),
        ),
        Country::Netherlands => ("BSN ", "nl_bsn", nl_bsn(draws)),
        Country::Poland => ("PESEL ", "pl_pesel", pl_pesel(draws)),
        Country::Sweden => ("personnummer ", "se_personnummer", personnummer(draws)),
        Country::Brazil => ("CPF ", "br_cpf", br_cpf(draws)),
        Country::India => ("Aadhaar ", "in_aadhaar", in_aadhaar(draws)),
        Country::China => ("identity number ", "cn_resident_id", resident_id(draws)),
    };
    out.push_str(words);
    found(kind, out, &number)
}

/// A prefix that is used for administration only.
fn uk_nino(draws: &mut Draws) -> String {
    let (body, suffix) = (digits(draws, 6), ["A", "B", "C", "D"][draws.below(4)]);
    format!("MW {} {} {} {suffix}", &body[..2], &body[2..4], &body[4..])
}

fn us_ssn(draws: &mut Draws) -> String {
    let (area, group) = (draws.between(773, 899), draws.between(1, 99));
    format!("{area}-{group:02}-{:04}", draws.between(1, 9_999))
}

/// A first digit that isn't issued.
fn ca_sin(draws: &mut Draws) -> String {
    let body = format!("0{}", digits(draws, 7));
    let check = luhn_digit(&body);
    format!("{} {} {}{check}", &body[..3], &body[3..6], &body[6..])
}

/// One of the first ten digits occurs twice, the others once or never.
fn de_tax_id(draws: &mut Draws) -> String {
    let mut body = *b"1234567890";
    for at in (1..10).rev() {
        body.swap(at, draws.below(at + 1));
    }
    if body[0] == b'0' {
        body.swap(0, 1);
    }
    body[draws.between(1, 9)] = body[0];
    let body = String::from_utf8_lossy(&body).into_owned();
    let check = mod_11_10_digit(&body);
    format!(
        "{} {} {} {}{check}",
        &body[..2],
        &body[2..5],
        &body[5..8],
        &body[8..]
    )
}

/// A place of birth that doesn't exist.
fn fr_nir(draws: &mut Draws) -> String {
    let (sex, year, month) = (draws.between(1, 2), draws.below(100), draws.between(1, 12));
    let order = draws.between(1, 999);
    let all = format!("{sex}{year:02}{month:02}99999{order:03}");
    let key = 97 - all.parse::<u64>().unwrap_or(0) % 97;
    format!("{sex} {year:02} {month:02} 99 999 {order:03} {key:02}")
}

fn es_dni(draws: &mut Draws) -> String {
    let number = 99_000_000 + draws.below(1_000_000);
    format!(
        "{number}{}",
        char::from(b"TRWAGMYFPDXBNJZSQVHLCKE"[number % 23])
    )
}

/// A place of birth that doesn't exist.
fn codice_fiscale(draws: &mut Draws) -> String {
    let letters = b"BCDFGLMNPRSTVZ";
    let mut code: String = (0..6)
        .map(|_| char::from(letters[draws.below(letters.len())]))
        .collect();
    let month = char::from(b"ABCDEHLMPRST"[draws.below(12)]);
    let (year, day) = (draws.below(100), draws.between(1, 28));
    let _ = write!(code, "{year:02}{month}{day:02}Z9{:02}", draws.below(100));
    code.push(fiscal_letter(&code));
    code
}

/// Values of letters and digits at odd places of a codice fiscale.
const ODD: [u32; 26] = [
    1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
];

/// Returns the check letter of a codice fiscale.
fn fiscal_letter(code: &str) -> char {
    let sum: u32 = code
        .bytes()
        .enumerate()
        .map(|(place, byte)| {
            let rank = u32::from(byte) - u32::from(if byte < b'A' { b'0' } else { b'A' });
            if place % 2 == 0 {
                ODD[rank as usize]
            } else {
                rank
            }
        })
        .sum();
    char::from(b'A' + (sum % 26) as u8)
}

/// A number of the range for tests.
fn nl_bsn(draws: &mut Draws) -> String {
    loop {
        let body = format!("99999{}", digits(draws, 3));
        let check = weighted(&body, &[9, 8, 7, 6, 5, 4, 3, 2]) % 11;
        if check < 10 {
            return format!("{body}{check}");
        }
    }
}

/// A birth in the nineteenth century, whose months are counted from 80 on.
fn pl_pesel(draws: &mut Draws) -> String {
    let (year, month, day) = (
        draws.below(100),
        draws.between(81, 92),
        draws.between(1, 28),
    );
    let body = format!("{year:02}{month}{day:02}{}", digits(draws, 4));
    let check = (10 - weighted(&body, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3]) % 10) % 10;
    format!("{body}{check}")
}

fn personnummer(draws: &mut Draws) -> String {
    let (year, month, day) = (draws.below(100), draws.between(1, 12), draws.between(1, 28));
    let body = format!("{year:02}{month:02}{day:02}{}", draws.between(980, 999));
    let check = luhn_digit(&body);
    format!("{}-{}{check}", &body[..6], &body[6..])
}

fn br_cpf(draws: &mut Draws) -> String {
    let check = |body: &str| {
        let weights: Vec<u32> = (2..=body.len() as u32 + 1).rev().collect();
        weighted(body, &weights) * 10 % 11 % 10
    };
    let body = format!("0{}", digits(draws, 8));
    let first = check(&body);
    let second = check(&format!("{body}{first}"));
    format!(
        "{}.{}.{}-{first}{second}",
        &body[..3],
        &body[3..6],
        &body[6..]
    )
}

/// A number of the range for tests.
fn in_aadhaar(draws: &mut Draws) -> String {
    let body = format!("9999{}", digits(draws, 7));
    let check = verhoeff_digit(&body);
    format!("{} {} {}{check}", &body[..4], &body[4..8], &body[8..])
}

/// A region that doesn't exist.
fn resident_id(draws: &mut Draws) -> String {
    let (year, month, day) = (
        draws.between(1940, 2005),
        draws.between(1, 12),
        draws.between(1, 28),
    );
    let body = format!("659999{year}{month:02}{day:02}{}", digits(draws, 3));
    let weights = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    match (12 - weighted(&body, &weights) % 11) % 11 {
        10 => format!("{body}X"),
        check => format!("{body}{check}"),
    }
}

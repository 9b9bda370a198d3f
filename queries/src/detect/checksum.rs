//! Check digit algorithms over digit values 0 to 9.

/// Luhn (ISO/IEC 7812-1): every second digit from the right doubled, the sum a multiple of ten.
pub(super) fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, u32::from(*digit)) {
            (0, digit) => digit,
            (_, digit) if digit > 4 => digit * 2 - 9,
            (_, digit) => digit * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// ISO 7064 mod 97-10 over letters and digits, as used by IBANs after their first four characters
/// are moved to the end.
pub(super) fn is_mod_97(characters: impl Iterator<Item = u8>) -> bool {
    let rest = characters.fold(0_u32, |rest, character| match character {
        b'0'..=b'9' => (rest * 10 + u32::from(character - b'0')) % 97,
        _ => (rest * 100 + u32::from(character.to_ascii_uppercase().wrapping_sub(b'A')) + 10) % 97,
    });
    rest == 1
}

/// ISO 7064 mod 11,10: the check digit of German tax identification numbers.
pub(super) fn is_mod_11_10(digits: &[u8]) -> bool {
    let Some((check, body)) = digits.split_last() else {
        return false;
    };
    let product = body.iter().fold(10_u32, |product, digit| {
        let sum = match (u32::from(*digit) + product) % 10 {
            0 => 10,
            sum => sum,
        };
        sum * 2 % 11
    });
    (11 - product) % 10 == u32::from(*check)
}

/// Returns the weighted sum of the digits.
pub(super) fn weighted(digits: &[u8], weights: &[u32]) -> u32 {
    digits
        .iter()
        .zip(weights)
        .map(|(digit, weight)| u32::from(*digit) * weight)
        .sum()
}

/// Verhoeff: detects every single wrong digit and every transposition of neighbours.
pub(super) fn verhoeff(digits: &[u8]) -> bool {
    const PERMUTATION: [[u8; 10]; 8] = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [1, 5, 7, 6, 2, 8, 3, 0, 9, 4],
        [5, 8, 0, 3, 7, 9, 6, 1, 4, 2],
        [8, 9, 1, 6, 0, 4, 3, 5, 2, 7],
        [9, 4, 5, 3, 1, 2, 6, 8, 7, 0],
        [4, 2, 8, 6, 5, 7, 3, 9, 0, 1],
        [2, 7, 9, 3, 8, 0, 6, 4, 1, 5],
        [7, 0, 4, 6, 9, 1, 3, 2, 5, 8],
    ];
    let check = digits
        .iter()
        .rev()
        .enumerate()
        .fold(0, |check, (place, digit)| {
            dihedral(check, PERMUTATION[place % 8][usize::from(*digit % 10)])
        });
    check == 0
}

/// Multiplication in the dihedral group of order ten.
const fn dihedral(left: u8, right: u8) -> u8 {
    match (left < 5, right < 5) {
        (true, true) => (left + right) % 5,
        (true, false) => 5 + (left + right - 5) % 5,
        (false, true) => 5 + (left + 5 - right) % 5,
        (false, false) => (left + 5 - right) % 5,
    }
}

/// Returns true if year, month and day form a valid date.
pub(super) fn is_day(year: u32, month: u32, day: u32) -> bool {
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// Returns the decimal number that the digits form.
pub(super) fn number(digits: &[u8]) -> u64 {
    digits
        .iter()
        .fold(0, |number, digit| number * 10 + u64::from(*digit))
}

//! Check digits of identifiers, computed from texts of digits.

fn values(digits: &str) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
    digits
        .bytes()
        .map(|byte| u32::from(byte.wrapping_sub(b'0')))
}

/// Returns the Luhn digit (ISO/IEC 7812-1) that follows the digits.
pub(super) fn luhn_digit(digits: &str) -> u32 {
    let sum: u32 = values(digits)
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit) {
            (0, digit) if digit > 4 => digit * 2 - 9,
            (0, digit) => digit * 2,
            (_, digit) => digit,
        })
        .sum();
    (10 - sum % 10) % 10
}

/// Returns the sum of the digits, each times its weight.
pub(super) fn weighted(digits: &str, weights: &[u32]) -> u32 {
    values(digits)
        .zip(weights)
        .map(|(digit, weight)| digit * weight)
        .sum()
}

/// Returns the check digits (ISO 7064, mod 97-10) of an account number in a country.
pub(super) fn iban_check(country: &str, body: &str) -> u32 {
    let rest = body
        .bytes()
        .chain(country.bytes())
        .fold(0, |rest, byte| match byte {
            b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
            _ => (rest * 100 + u32::from(byte.wrapping_sub(b'A')) + 10) % 97,
        });
    98 - rest * 100 % 97
}

/// Returns the check digit (ISO 7064, mod 11,10) that follows the digits.
pub(super) fn mod_11_10_digit(digits: &str) -> u32 {
    let product = values(digits).fold(10, |product, digit| match (digit + product) % 10 {
        0 => 9,
        sum => sum * 2 % 11,
    });
    (11 - product) % 10
}

/// The permutations of Verhoeff's digit, by place.
const PERMUTATION: [[u32; 10]; 8] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    [1, 5, 7, 6, 2, 8, 3, 0, 9, 4],
    [5, 8, 0, 3, 7, 9, 6, 1, 4, 2],
    [8, 9, 1, 6, 0, 4, 3, 5, 2, 7],
    [9, 4, 5, 3, 1, 2, 6, 8, 7, 0],
    [4, 2, 8, 6, 5, 7, 3, 9, 0, 1],
    [2, 7, 9, 3, 8, 0, 6, 4, 1, 5],
    [7, 0, 4, 6, 9, 1, 3, 2, 5, 8],
];

/// Returns the Verhoeff digit that follows the digits.
pub(super) fn verhoeff_digit(digits: &str) -> u32 {
    let check = values(digits)
        .rev()
        .enumerate()
        .fold(0, |check, (place, digit)| {
            dihedral(check, PERMUTATION[(place + 1) % 8][digit as usize % 10])
        });
    // The digits 1 to 4 are each other's inverses, the others are their own.
    if check < 5 { (5 - check) % 5 } else { check }
}

/// Multiplication in the dihedral group of order ten.
const fn dihedral(left: u32, right: u32) -> u32 {
    match (left < 5, right < 5) {
        (true, true) => (left + right) % 5,
        (true, false) => 5 + (left + right - 5) % 5,
        (false, true) => 5 + (left + 5 - right) % 5,
        (false, false) => (left + 5 - right) % 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_digits_of_published_examples_are_right() {
        assert_eq!(luhn_digit("411111111111111"), 1);
        assert_eq!(luhn_digit("811218987"), 6);
        assert_eq!(iban_check("DE", "370400440532013000"), 89);
        assert_eq!(iban_check("GB", "WEST12345698765432"), 82);
        assert_eq!(mod_11_10_digit("8609574271"), 9);
        assert_eq!(verhoeff_digit("23412341234"), 6);
        assert_eq!(weighted("11122233", &[9, 8, 7, 6, 5, 4, 3, 2]) % 11, 3);
    }
}

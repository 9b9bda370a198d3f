//! Folds text to ASCII: full-width letters and signs, decimal digits of any script, the many spaces
//! and dashes, and other punctuation and symbols, which end a word. So do letters of scripts that
//! are written without spaces before and after numbers. Zero-width characters are removed, and so
//! are those that set the direction of text, with which telephones surround the numbers that they
//! copy. All others keep their bytes, which detectors treat as parts of words. Escapes of JSON are
//! folded as the characters that they stand for.

use std::ops::Range;

use gristmill_engine::text::fold::is_unsegmented;

use super::json_escapes::Escape;

/// A folded text with the mapping back to the original.
pub(super) struct AsciiFolded {
    bytes: Vec<u8>,
    /// For each folded byte the position of its character in the text, and the end of the text.
    places: Vec<u32>,
}

impl AsciiFolded {
    /// Folds `text`. In texts over 4 GiB, which no grain contains, positions are wrong but detected
    /// kinds are right.
    pub(super) fn of(text: &str) -> AsciiFolded {
        let mut folded = AsciiFolded {
            bytes: Vec::with_capacity(text.len()),
            places: Vec::with_capacity(text.len() + 1),
        };
        let mut from = 0;
        for (place, character) in text.char_indices() {
            if place < from {
                continue;
            }
            let mut meant = character;
            if character == '\\' {
                let escape = Escape::at(text.get(place..).unwrap_or_default());
                meant = escape.meant.unwrap_or(character);
                from = place + escape.length;
            }
            folded.push_character(meant, place);
        }
        folded.places.push(text.len() as u32);
        folded
    }

    fn push_character(&mut self, character: char, place: usize) {
        match fold(character) {
            Folding::To(byte) => self.push(byte, place),
            Folding::Gone => {}
            Folding::Kept => {
                let mut buffer = [0; 4];
                character
                    .encode_utf8(&mut buffer)
                    .bytes()
                    .for_each(|byte| self.push(byte, place));
            }
        }
    }

    fn push(&mut self, byte: u8, place: usize) {
        self.bytes.push(byte);
        self.places.push(place as u32);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Maps a range of folded bytes to the text; both ends are character boundaries.
    pub(super) fn range(&self, folded: Range<usize>) -> Range<usize> {
        let place = |at: usize| self.places.get(at).map_or(0, |place| *place as usize);
        place(folded.start)..place(folded.end)
    }
}

enum Folding {
    To(u8),
    Gone,
    Kept,
}

/// Code points of the digit zero of scripts in use.
const ZEROS: [u32; 24] = [
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
    0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x17E0, 0x1810, 0xFF10, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC,
    0x1D7F6,
];

fn fold(character: char) -> Folding {
    let code = character as u32;
    match code {
        0..0x80 => Folding::To(code as u8),
        0xFF01..=0xFF5E => Folding::To((code - 0xFEE0) as u8),
        0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x2069 => Folding::Gone,
        0x061C | 0xFE0E | 0xFE0F | 0xFEFF | 0x00AD => Folding::Gone,
        0x00A0 | 0x2000..=0x200A | 0x202F | 0x205F | 0x3000 => Folding::To(b' '),
        0x2010..=0x2013 | 0x2212 | 0xFE63 => Folding::To(b'-'),
        _ => match ZEROS
            .iter()
            .find(|zero| (**zero..**zero + 10).contains(&code))
        {
            Some(zero) => Folding::To(b'0' + (code - zero) as u8),
            None if is_symbol(character) => Folding::To(SYMBOL),
            None if is_unsegmented(character) => Folding::To(UNSPACED),
            None => Folding::Kept,
        },
    }
}

/// What symbols are folded to: no part of a word, and no separator within a number or an address.
const SYMBOL: u8 = b'"';

/// What letters are folded to that need no space before or after a number. UTF-8 doesn't have this
/// byte.
pub(super) const UNSPACED: u8 = 0xFF;

/// Returns true for quotation marks, long dashes, ellipses, bullets, arrows, emoji and other
/// symbols.
fn is_symbol(character: char) -> bool {
    let is_of_block = matches!(
        character as u32,
        0x00A1 | 0x00AB | 0x00B0 | 0x00B7 | 0x00BB | 0x00BF | 0x2000..=0x2BFF | 0x3000..=0x303F
            | 0xFE58 | 0x1F000..=0x1FAFF
    );
    is_of_block && !character.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::super::mask;

    #[test]
    fn digits_in_all_styles_are_digits() {
        for zero in [0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6] {
            let digit = |digit: char| char::from_u32(zero + u32::from(digit) - u32::from('0'));
            let card: String = "4111111111111111".chars().filter_map(digit).collect();
            assert_eq!(mask(&card), "[payment_card]");
        }
    }
}

//! Detects personal data in free text in one pass; only bytes that can belong to an identifier are
//! examined further.
//!
//! ```text
//! text ── fold (if not ASCII, or escaped) ──▶ bytes ── class of each byte
//!     digit    ──▶ numbers: cards, phones, national ids …
//!     '@'      ──▶ e-mail
//!     ':'      ──▶ IPv6
//!     - _ A J  ──▶ credentials
//! ```
//!
//! The work for each candidate is bounded by a constant, so the time is linear in the length of any
//! text. Identifiers with check digits must have correct ones. Forms that ordinary numbers share
//! count only after a keyword in the 40 bytes before. Precision is preferred over recall: users
//! switch off a detector with many false positives.
//!
//! | module | question |
//! |---|---|
//! | `ascii_fold` | How are letters, digits and signs of other scripts folded to ASCII? |
//! | `json_escapes` | What do escapes in JSON stand for? |
//! | `digit_groups` | Which groups of digits belong together, and what separates them? |
//! | `numbers` | Is this group a payment card, phone number or IPv4 address? |
//! | `birth_dates` | Is this a date of birth, in digits or with the name of its month? |
//! | `national_ids` | Is it a national identifier of a person? |
//! | `alphanumeric_ids` | IBAN and identifiers that start with letters |
//! | `network` | E-mail and IPv6 addresses |
//! | `credentials` | Keys and tokens |
//! | `checksum` | Luhn, Verhoeff, ISO 7064 … |

mod alphanumeric_ids;
mod ascii_fold;
mod birth_dates;
mod checksum;
mod credentials;
mod digit_groups;
mod json_escapes;
mod national_ids;
mod network;
mod numbers;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use json_escapes::EscapedText;

macro_rules! kinds {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// A kind of personal data.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum PersonalDataKind {
            $(#[doc = $doc] $variant,)*
        }

        impl PersonalDataKind {
            /// All kinds.
            pub const ALL: &[PersonalDataKind] = &[$(PersonalDataKind::$variant),*];

            /// Returns the name used in SQL and in reports.
            pub const fn name(self) -> &'static str {
                match self { $(PersonalDataKind::$variant => $name,)* }
            }
        }
    };
}

kinds! {
    Email "email" "An e-mail address.";
    Phone "phone" "A telephone number: international, or in the usual writing of North America, \
                   Britain or France, or behind a word such as `tel`.";
    Iban "iban" "An international bank account number, ISO 13616, check digits right.";
    PaymentCard "payment_card" "A payment card number: a known issuer's range and length, Luhn \
                                digit right.";
    UsSsn "us_ssn" "A social security number of the United States.";
    UkNino "uk_nino" "A national insurance number of the United Kingdom.";
    DeTaxId "de_tax_id" "A tax identification number of Germany, check digit right.";
    FrNir "fr_nir" "A social security number of France, key right.";
    EsDni "es_dni" "A DNI or NIE of Spain, check letter right.";
    ItCodiceFiscale "it_codice_fiscale" "A codice fiscale of Italy, check letter right.";
    NlBsn "nl_bsn" "A citizen service number of the Netherlands, behind its name, eleven-test \
                    passed.";
    PlPesel "pl_pesel" "A PESEL of Poland, behind its name, check digit right.";
    SePersonnummer "se_personnummer" "A personal identity number of Sweden, check digit right.";
    BrCpf "br_cpf" "A CPF of Brazil, check digits right.";
    InAadhaar "in_aadhaar" "An Aadhaar number of India, check digit right.";
    CnResidentId "cn_resident_id" "A resident identity number of China, check character right.";
    CaSin "ca_sin" "A social insurance number of Canada, behind its name, Luhn digit right.";
    IpAddress "ip_address" "A public IP address, version 4 or 6.";
    DateOfBirth "date_of_birth" "A date behind a word such as `born`.";
    Credential "credential" "A secret: an API key, a token, a private key.";
}

/// A detected occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detection {
    /// The kind.
    pub kind: PersonalDataKind,
    /// Byte range in the text.
    pub range: Range<usize>,
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PersonalDataKinds(u32);

impl PersonalDataKinds {
    /// Adds a kind.
    pub fn insert(&mut self, kind: PersonalDataKind) {
        self.0 |= 1 << kind as u8;
    }

    /// Returns true if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set contains `kind`.
    pub const fn contains(self, kind: PersonalDataKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Returns the kinds in order of declaration.
    pub fn iter(self) -> impl Iterator<Item = PersonalDataKind> {
        PersonalDataKind::ALL
            .iter()
            .copied()
            .filter(move |kind| self.contains(*kind))
    }
}

/// Calls `found` for every occurrence in `text`, from start to end. Linear in the length of the
/// text.
pub fn scan(text: &str, mut found: impl FnMut(Detection)) {
    if text.is_ascii() {
        let bytes = match EscapedText::of(text) {
            EscapedText::Plain => Some(Cow::Borrowed(text.as_bytes())),
            EscapedText::Blanks(bytes) => Some(Cow::Owned(bytes)),
            EscapedText::Characters => None,
        };
        if let Some(bytes) = bytes {
            scan_folded(&bytes, |kind, range| found(Detection { kind, range }));
            return;
        }
    }
    let folded = ascii_fold::AsciiFolded::of(text);
    scan_folded(folded.bytes(), |kind, range| {
        found(Detection {
            kind,
            range: folded.range(range),
        })
    });
}

/// Returns the kinds of personal data in `text`.
pub fn kinds(text: &str) -> PersonalDataKinds {
    let mut kinds = PersonalDataKinds::default();
    scan(text, |found| kinds.insert(found.kind));
    kinds
}

/// Returns `text` with every occurrence replaced by its kind in brackets.
pub fn mask(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut end = 0;
    scan(text, |found| {
        out.push_str(text.get(end..found.range.start).unwrap_or_default());
        out.push('[');
        out.push_str(found.kind.name());
        out.push(']');
        end = found.range.end;
    });
    if end == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(end..).unwrap_or_default());
    Cow::Owned(out)
}

/// Candidates that a byte may belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Nothing,
    Digit,
    At,
    Colon,
    Secret,
}

const CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Nothing; 256];
    let mut digit = b'0';
    while digit <= b'9' {
        classes[digit as usize] = ByteClass::Digit;
        digit += 1;
    }
    classes[b'@' as usize] = ByteClass::At;
    classes[b':' as usize] = ByteClass::Colon;
    classes[b'-' as usize] = ByteClass::Secret;
    classes[b'_' as usize] = ByteClass::Secret;
    classes[b'A' as usize] = ByteClass::Secret;
    classes[b'J' as usize] = ByteClass::Secret;
    classes
};

fn scan_folded(text: &[u8], mut found: impl FnMut(PersonalDataKind, Range<usize>)) {
    let mut at = 0;
    // End of the last occurrence; occurrences don't overlap.
    let mut last_end = 0;
    while let Some(next) = next_candidate(text, at) {
        at = next;
        let class = text
            .get(at)
            .map_or(ByteClass::Nothing, |byte| CLASSES[*byte as usize]);
        let candidate = match class {
            ByteClass::Nothing => None,
            ByteClass::Digit => digits(text, at),
            ByteClass::At => network::email(text, at),
            ByteClass::Colon => network::ipv6(text, at),
            ByteClass::Secret => credentials::find(text, at),
        };
        match candidate {
            Some((kind, range)) if range.start >= last_end => {
                at = range.end.max(at + 1);
                last_end = range.end;
                found(kind, range);
            }
            _ if class == ByteClass::Digit => at = digit_groups::end_of_digits(text, at),
            _ => at += 1,
        }
    }
}

/// Returns the next position from `at` on that may belong to an occurrence.
fn next_candidate(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    Some(
        at + rest
            .iter()
            .position(|byte| CLASSES[*byte as usize] != ByteClass::Nothing)?,
    )
}

type Match = Option<(PersonalDataKind, Range<usize>)>;

/// Examines the run of digits that starts at `at`.
fn digits(text: &[u8], at: usize) -> Match {
    match at.checked_sub(1).and_then(|before| text.get(before)) {
        Some(before) if before.is_ascii_alphabetic() => alphanumeric_ids::find(text, at),
        _ => alphanumeric_ids::spaced(text, at).or_else(|| numbers::find(text, at)),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii() && byte != ascii_fold::UNSPACED
}

/// Returns true for letters of all scripts.
fn is_letter(byte: u8) -> bool {
    is_word(byte) && byte != b'_' && !byte.is_ascii_digit()
}

/// Returns true if no word continues at `at`.
fn ends_word(text: &[u8], at: usize) -> bool {
    match text.get(at) {
        Some(b'-') => text.get(at + 1).is_none_or(|next| !is_word(*next)),
        Some(byte) => !is_word(*byte),
        None => true,
    }
}

/// Returns true if a word starts at `at`; a word joined by a dash or dot continues the one before
/// it.
fn begins_word(text: &[u8], at: usize) -> bool {
    let before = |back: usize| {
        at.checked_sub(back)
            .and_then(|place| text.get(place))
            .copied()
    };
    match before(1) {
        Some(b'-' | b'.') => before(2).is_none_or(|byte| !is_word(byte)),
        Some(byte) => !is_word(byte),
        None => true,
    }
}

/// Maximum distance between a keyword and the number after it, in bytes.
const REACH: usize = 40;

/// Returns true if one of `words` (in lower case) occurs as a whole word in the bytes before `at`.
fn is_named(text: &[u8], at: usize, words: &[&str]) -> bool {
    words
        .iter()
        .any(|word| has_word_before(text, at, word, is_letter))
}

/// Returns true if `word` (in lower case) occurs in the bytes before `at`, and neither byte next to
/// it is a part of a word by `is_part`.
fn has_word_before(text: &[u8], at: usize, word: &str, is_part: impl Fn(u8) -> bool) -> bool {
    let start = at.saturating_sub(REACH);
    let before = text.get(start..at).unwrap_or_default();
    let is_free = |place: Option<usize>| {
        place
            .and_then(|place| text.get(place))
            .is_none_or(|byte| !is_part(*byte))
    };
    let mut windows = before.windows(word.len()).enumerate();
    windows.any(|(place, window)| {
        let begin = start + place;
        window.eq_ignore_ascii_case(word.as_bytes())
            && is_free(begin.checked_sub(1))
            && is_free(Some(begin + word.len()))
    })
}

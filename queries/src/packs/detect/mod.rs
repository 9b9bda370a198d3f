//! Personal data in free text: one pass that looks closer only where something could be.
//!
//! ```text
//! text ── fold (only if not ASCII) ──▶ bytes ── class of each byte ──▶ a digit? numbers: cards, phones, national ids …
//!                                                                      '@'?      e-mail
//!                                                                      ':'?      IPv6
//!                                                                      - _ A J?  credentials
//! ```
//!
//! Every look at a candidate is bounded by a constant, so the time is linear in the text whatever
//! it holds. Identifiers with check digits must have them right. Shapes that ordinary numbers share
//! count only behind a word that names them, which is looked for in the 40 bytes before. A detector
//! that misses little and errs often is switched off by its users, so in doubt it stays silent.
//!
//! | module | what it answers |
//! |---|---|
//! | `ascii_fold` | how does other scripts' writing of digits, spaces and dashes become ASCII? |
//! | `digit_groups` | which groups of digits stand together, and with what between them? |
//! | `numbers` | is this phrase a card, a phone number, a date of birth, an address of a machine? |
//! | `national_ids` | is it an identifier that a state gave to a person? |
//! | `alphanumeric_ids` | IBAN and identifiers that begin with letters |
//! | `network` | e-mail and IPv6 |
//! | `credentials` | keys and tokens |
//! | `checksum` | Luhn, Verhoeff, ISO 7064 … |

mod alphanumeric_ids;
mod ascii_fold;
mod checksum;
mod credentials;
mod digit_groups;
mod national_ids;
mod network;
mod numbers;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

macro_rules! kinds {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// What was found.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum PersonalDataKind {
            $(#[doc = $doc] $variant,)*
        }

        impl PersonalDataKind {
            /// All kinds.
            pub const ALL: &[PersonalDataKind] = &[$(PersonalDataKind::$variant),*];

            /// The name in SQL and in reports.
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

/// One find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detection {
    /// What it is.
    pub kind: PersonalDataKind,
    /// Where it stands in the text, in bytes.
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

    /// True if there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if `kind` is one of them.
    pub const fn contains(self, kind: PersonalDataKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// The kinds, in their order.
    pub fn iter(self) -> impl Iterator<Item = PersonalDataKind> {
        PersonalDataKind::ALL
            .iter()
            .copied()
            .filter(move |kind| self.contains(*kind))
    }
}

/// Tells `found` of everything in `text`, from its beginning to its end. Linear in the length of
/// the text.
pub fn scan(text: &str, mut found: impl FnMut(Detection)) {
    if text.is_ascii() {
        scan_folded(text.as_bytes(), |kind, range| {
            found(Detection { kind, range })
        });
        return;
    }
    let folded = ascii_fold::AsciiFolded::of(text);
    scan_folded(folded.bytes(), |kind, range| {
        found(Detection {
            kind,
            range: folded.range(range),
        })
    });
}

/// The kinds of personal data in `text`.
pub fn kinds(text: &str) -> PersonalDataKinds {
    let mut kinds = PersonalDataKinds::default();
    scan(text, |found| kinds.insert(found.kind));
    kinds
}

/// `text` with every find replaced by its kind in brackets.
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

/// What a byte may be the beginning of, or the middle.
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
    // Nothing that was told of is looked at again.
    let mut told = 0;
    while let Some(next) = interesting(text, at) {
        at = next;
        let class = text
            .get(at)
            .map_or(ByteClass::Nothing, |byte| CLASSES[*byte as usize]);
        let look = match class {
            ByteClass::Nothing => None,
            ByteClass::Digit => digits(text, at),
            ByteClass::At => network::email(text, at),
            ByteClass::Colon => network::ipv6(text, at),
            ByteClass::Secret => credentials::find(text, at),
        };
        match look {
            Some((kind, range)) if range.start >= told => {
                at = range.end.max(at + 1);
                told = range.end;
                found(kind, range);
            }
            _ if class == ByteClass::Digit => at = digit_groups::end_of_digits(text, at),
            _ => at += 1,
        }
    }
}

/// The next place from `at` on where something could be.
fn interesting(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    Some(
        at + rest
            .iter()
            .position(|byte| CLASSES[*byte as usize] != ByteClass::Nothing)?,
    )
}

type Match = Option<(PersonalDataKind, Range<usize>)>;

/// A run of digits begins at `at`.
fn digits(text: &[u8], at: usize) -> Match {
    match at.checked_sub(1).and_then(|before| text.get(before)) {
        Some(before) if before.is_ascii_alphabetic() => alphanumeric_ids::find(text, at),
        _ => alphanumeric_ids::spaced(text, at).or_else(|| numbers::find(text, at)),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// True if no word goes on at `at`.
fn ends_word(text: &[u8], at: usize) -> bool {
    match text.get(at) {
        Some(b'-') => text.get(at + 1).is_none_or(|next| !is_word(*next)),
        Some(byte) => !is_word(*byte),
        None => true,
    }
}

/// True if no word goes on before `at`; a word that a dash joins goes on too.
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

/// How far before a number a word that names it may stand, in bytes.
const REACH: usize = 40;

/// True if one of `words` (in lower case) stands as a word in the bytes before `at`.
fn is_named(text: &[u8], at: usize, words: &[&str]) -> bool {
    let start = at.saturating_sub(REACH);
    let before = text.get(start..at).unwrap_or_default();
    words.iter().any(|word| {
        before
            .windows(word.len())
            .enumerate()
            .any(|(place, window)| {
                window.eq_ignore_ascii_case(word.as_bytes())
                    && place
                        .checked_sub(1)
                        .and_then(|left| before.get(left))
                        .is_none_or(|left| !left.is_ascii_alphabetic())
                    && before
                        .get(place + word.len())
                        .is_none_or(|right| !right.is_ascii_alphabetic())
            })
    })
}

//! Citations of works outside of memory (§27.5): maps in `content_refs` and `derived_from`.

use super::decode::Grain;
use super::elide::is_sha256_reference;
use super::fields::Field;
use super::raw::RawValue;

/// A kind of work, and whether an identifier has its form.
type CitationType = (&'static str, fn(&str) -> bool);

/// The kinds of works that a citation may identify.
const TYPES: [CitationType; 7] = [
    ("doi", is_doi),
    ("arxiv", is_arxiv),
    ("pmid", is_pmid),
    ("isbn", is_isbn),
    ("rrid", is_rrid),
    ("clinicaltrials", is_trial),
    ("url", is_url),
];

/// What a citation is for.
const ROLES: [&str; 6] = [
    "supports",
    "refutes",
    "extends",
    "replicates",
    "uses_data",
    "uses_software",
];

/// Something wrong with a citation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CitationFault {
    /// Its type or its role isn't of the registry.
    Vocabulary(String),
    /// A member is missing, or not of its form.
    Form(String),
    /// Its identifier isn't of the form of its type.
    Identifier(String),
}

impl CitationFault {
    /// Returns what is wrong, for people.
    pub fn message(&self) -> &str {
        match self {
            CitationFault::Vocabulary(message)
            | CitationFault::Form(message)
            | CitationFault::Identifier(message) => message,
        }
    }
}

impl<'a> Grain<'a> {
    /// Returns the citations of the grain: the entries of `content_refs` with a member of a
    /// citation, and all maps in `derived_from`.
    pub fn citations(&self) -> impl Iterator<Item = RawValue<'a>> {
        let entries = |field| {
            let listed = self.get(field).and_then(|value| value.as_array());
            listed.into_iter().flatten()
        };
        let derived = entries(Field::DerivedFrom).filter(|entry| entry.as_map().is_some());
        entries(Field::ContentRefs)
            .filter(is_citation)
            .chain(derived)
    }
}

/// Returns false if no grain in the uncompressed bytes `payload` can have a citation with a type or
/// an identifier. A cheap filter that saves decoding most grains.
pub fn may_contain_citation(payload: &[u8]) -> bool {
    MEMBERS
        .iter()
        .any(|key| memchr::memmem::find(payload, key.as_bytes()).is_some())
}

/// The members that make an entry of `content_refs` a citation.
const MEMBERS: [&str; 2] = ["citation_type", "identifier"];

/// Returns true if an entry of `content_refs` is a citation and no reference to content.
pub(super) fn is_citation(entry: &RawValue<'_>) -> bool {
    MEMBERS.iter().any(|key| entry.get(key).is_some())
}

/// Returns what is wrong with `citation`.
pub fn citation_faults(citation: &RawValue<'_>) -> Vec<CitationFault> {
    let text = |name: &str| citation.get(name).and_then(|value| value.as_text());
    let mut faults = Vec::new();
    for name in MEMBERS {
        if text(name).is_none_or(str::is_empty) {
            faults.push(CitationFault::Form(format!("no `{name}`")));
        }
    }
    if let Some(kind) = text("citation_type").filter(|kind| !kind.is_empty()) {
        let known = TYPES.iter().find(|(name, _)| *name == kind);
        let identifier = text("identifier").filter(|identifier| !identifier.is_empty());
        match (known, identifier) {
            (None, _) => faults.push(CitationFault::Vocabulary(format!("citation_type `{kind}`"))),
            (Some((_, fits)), Some(identifier)) if !fits(identifier) => faults.push(
                CitationFault::Identifier(format!("`{identifier}` is not of the form of a {kind}")),
            ),
            _ => {}
        }
    }
    if let Some(role) = text("citation_role").filter(|role| !ROLES.contains(role)) {
        faults.push(CitationFault::Vocabulary(format!("citation_role `{role}`")));
    }
    if let Some(hash) = text("content_hash").filter(|hash| !is_sha256_reference(hash)) {
        faults.push(CitationFault::Form(format!("content_hash `{hash}`")));
    }
    let retrieved = citation.get("retrieved_at");
    if retrieved.is_some_and(|at| at.as_int().is_none_or(|at| at < 0)) {
        let message = "retrieved_at is no number of milliseconds since 1970".to_owned();
        faults.push(CitationFault::Form(message));
    }
    faults
}

/// Returns true for `10.`, a registrant, a slash and a name (ISO 26324).
fn is_doi(text: &str) -> bool {
    let parts = text
        .strip_prefix("10.")
        .and_then(|rest| rest.split_once('/'));
    parts.is_some_and(|(registrant, name)| {
        let is_number = |part: &str| is_digits(part, 1..=9);
        registrant.split('.').all(is_number) && is_word(name)
    })
}

/// Returns true for a number of the scheme since 2007 or before it, with or without a version.
fn is_arxiv(text: &str) -> bool {
    let text = text.strip_prefix("arXiv:").unwrap_or(text);
    let number = match text.rsplit_once('v') {
        Some((number, version)) if is_digits(version, 1..=3) => number,
        _ => text,
    };
    let is_new = number
        .split_once('.')
        .is_some_and(|(month, rest)| is_digits(month, 4..=4) && is_digits(rest, 4..=5));
    let is_archive = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'.');
        !name.is_empty() && name.bytes().all(is_part)
    };
    let is_old = number
        .split_once('/')
        .is_some_and(|(archive, rest)| is_archive(archive) && is_digits(rest, 7..=7));
    is_new || is_old
}

fn is_pmid(text: &str) -> bool {
    is_digits(text, 1..=8)
}

/// Returns true for ten or thirteen digits with a valid check digit (ISO 2108); hyphens and blanks
/// don't count.
fn is_isbn(text: &str) -> bool {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !matches!(byte, b'-' | b' '))
        .collect();
    let value = |(place, byte): (usize, &u8)| match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'X' if place == 9 && digits.len() == 10 => Some(10),
        _ => None,
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    let Some(values) = values else {
        return false;
    };
    let weighted = |weight: fn(usize) -> u32| -> u32 {
        let each = values.iter().enumerate();
        each.map(|(place, value)| value * weight(place)).sum()
    };
    match values.len() {
        10 => weighted(|place| 10 - place as u32).is_multiple_of(11),
        13 => weighted(|place| [1, 3][place % 2]).is_multiple_of(10),
        _ => false,
    }
}

/// Returns true for `RRID:`, an authority and a number, such as `RRID:AB_90755`.
fn is_rrid(text: &str) -> bool {
    let text = text.strip_prefix("RRID:").unwrap_or(text);
    let parts = text.split_once(['_', ':']);
    parts.is_some_and(|(authority, number)| {
        !authority.is_empty()
            && authority.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && is_word(number)
    })
}

/// Returns true for the number of a registered trial, such as `NCT04280705`.
fn is_trial(text: &str) -> bool {
    text.strip_prefix("NCT")
        .is_some_and(|number| is_digits(number, 8..=8))
}

/// Returns true for a scheme, a colon and the rest (RFC 3986).
fn is_url(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        let is_scheme_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(is_scheme_byte)
            && is_word(rest)
    })
}

fn is_digits(text: &str, lengths: std::ops::RangeInclusive<usize>) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true for characters without blanks.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_the_form_of_their_type() {
        for (kind, fine, other) in [
            ("doi", "10.1038/s41586-024-07487-w", "doi:10.1038/x"),
            ("doi", "10.1000.10/123", "10.1038"),
            ("doi", "10.1/a(b)c", "10.1/a b"),
            ("arxiv", "2501.00123", "2501"),
            ("arxiv", "arXiv:2501.00123v2", "2501.00123w2"),
            ("arxiv", "math.GT/0309136", "math.GT/03091"),
            ("pmid", "31452104", "PMID31452104"),
            ("isbn", "978-0-306-40615-7", "978-0-306-40615-8"),
            ("isbn", "0-8044-2957-X", "0-8044-2957-1"),
            ("rrid", "RRID:AB_90755", "AB90755"),
            ("clinicaltrials", "NCT04280705", "NCT0428070"),
            ("url", "https://example.org/a", "example.org/a"),
        ] {
            let fits = |text: &str| {
                let known = TYPES.iter().find(|(name, _)| *name == kind);
                known.unwrap().1(text)
            };
            assert!(fits(fine), "{kind} {fine}");
            assert!(!fits(other), "{kind} {other}");
        }
    }
}

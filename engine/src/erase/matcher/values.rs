//! Matches the values of a grain, and bytes that aren't a grain.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{Field, Grain, RawValue};
use rustc_hash::FxHashSet;

use super::adjacent_texts::AdjacentTexts;
use super::{Hits, IdentifierMatcher, NO_PERSON};
use crate::erase::field_roles::{FieldRole, role_of};
use crate::erase::patterns::{Coverage, IdentifierPattern};
use crate::erase::reason::Reason;
use crate::erase::variations::{Variation, Variations};
use crate::policy::{Policy, PolicyMode};
use crate::text::confusables::LetterEquivalence;
use crate::text::numbers::integer_of;
use crate::text::undecorated::Undecorated;
use crate::text::{each_part_of_value, is_text};

/// Bytes at the end of one block and at the beginning of the next that are matched together.
const BOUNDARY_BYTES: usize = 96;

impl IdentifierMatcher {
    /// Matches the address of a grain.
    pub fn match_address(&self, address: &ContentAddress, hits: &mut Hits) {
        if let Some(person) = self.addresses.get(address.as_bytes()) {
            hits.add(*person, Reason::Address);
        }
    }

    /// Matches the signer of a grain.
    pub fn match_signer(&self, signer: &str, hits: &mut Hits) {
        self.match_text(FieldRole::Identity(Reason::Party), signer, hits);
    }

    /// Matches the content of `grain`.
    pub fn match_grain(&self, grain: &Grain<'_>, hits: &mut Hits) {
        if self.only_addresses() {
            return;
        }
        for (field, value) in grain.known() {
            self.match_value(role_of(*field), value, hits);
        }
        let unknown = grain.unknown().iter().copied();
        self.match_entries(FieldRole::Value(Reason::Value), unknown, hits);
        for key in grain.null_keys() {
            self.match_text(FieldRole::Value(Reason::Value), key, hits);
        }
        if self.variations.contains(Variation::SplitBlocks) {
            AdjacentTexts::new(self, hits).match_grain(grain);
        }
        if self.lacks_consent(grain) {
            hits.add(NO_PERSON, Reason::Consent);
        }
    }

    /// Returns true if `grain` ends with its consent, and that is one of the withdrawn ones.
    #[inline]
    fn lacks_consent(&self, grain: &Grain<'_>) -> bool {
        grain
            .text(Field::ProcessingBasis)
            .filter(|_| !self.withdrawn.is_empty())
            .is_some_and(|basis| {
                self.withdrawn
                    .contains(basis.strip_prefix("sha256:").unwrap_or(basis))
                    && Policy::of(grain).effective(self.now) == PolicyMode::ConsentCascade
            })
    }

    fn match_value(&self, role: FieldRole, value: &RawValue<'_>, hits: &mut Hits) {
        match value {
            RawValue::Text(text) => self.match_text(role, text, hits),
            RawValue::Array(_) => self.match_items(role, value, hits),
            RawValue::Map(encoded) => {
                // A member of a map isn't the object that the field names.
                let inner = match role {
                    FieldRole::Value(Reason::Object) => FieldRole::Value(Reason::Value),
                    role => role,
                };
                self.match_entries(inner, encoded.all_entries(), hits);
            }
            RawValue::Bytes(bytes) => self.match_bytes(bytes, Reason::Mention, hits),
            RawValue::Int(number)
                if self.matches_integers || *number >= 0 && self.checks_integers() =>
            {
                self.match_text(role, &number.to_string(), hits)
            }
            RawValue::BigInt(number) if self.checks_integers() => {
                self.match_text(role, &number.to_string(), hits)
            }
            RawValue::Float(number) => {
                if let Some(integer) = integer_of(*number) {
                    self.match_value(role, &RawValue::Int(integer), hits);
                }
            }
            _ => {}
        }
    }

    /// Matches the items of a list, and names that are split over two adjacent items.
    fn match_items(&self, role: FieldRole, list: &RawValue<'_>, hits: &mut Hits) {
        let RawValue::Array(encoded) = list else {
            return;
        };
        let mut before = None;
        for item in encoded.items() {
            self.match_value(role, &item, hits);
            if self.variations.contains(Variation::SplitBlocks) {
                let text = main_text(&item);
                if let Some((before, text)) = before.zip(text) {
                    self.match_across_blocks(before, text, hits);
                }
                before = text;
            }
        }
    }

    /// Matches keys and values of entries.
    fn match_entries<'g>(
        &self,
        role: FieldRole,
        entries: impl Iterator<Item = (&'g str, RawValue<'g>)>,
        hits: &mut Hits,
    ) {
        for (key, value) in entries {
            self.match_text(role, key, hits);
            self.match_value(role, &value, hits);
        }
    }

    /// Matches identifiers and references in bytes that may contain text anywhere. If they are an
    /// encoded value, like a signature, its texts are matched one by one, and what is between them
    /// too: a length before a text may look like a letter of it.
    pub fn match_bytes(&self, bytes: &[u8], reason: Reason, hits: &mut Hits) {
        each_part_of_value(bytes, |part| {
            for chunk in part.utf8_chunks() {
                self.match_chunk(chunk.valid(), reason, hits);
            }
        });
    }

    fn match_chunk(&self, text: &str, reason: Reason, hits: &mut Hits) {
        if !self.references.is_empty() && self.mentions_reference(text) {
            hits.add(NO_PERSON, Reason::Related);
        }
        let mut folded = std::mem::take(&mut hits.folded);
        self.each_form(text, &mut folded, &mut |pattern, _, classes| {
            if pattern.distinctive {
                hits.variations = hits.variations.with(classes);
                hits.add(pattern.person, or_initials(reason, classes));
            }
        });
        hits.folded = folded;
    }

    /// Matches bytes that can't be decoded. In binary bytes, a length or a type marker may look
    /// like a letter of the text that follows, so that long identifiers are found without a word
    /// boundary.
    pub fn match_undecodable(&self, bytes: &[u8], hits: &mut Hits) {
        self.match_bytes(bytes, Reason::Undecodable, hits);
        if is_text(bytes) {
            return;
        }
        for chunk in bytes.utf8_chunks() {
            let folded = self.coarsest_form(chunk.valid());
            // Which classes a match requires depends on the whole chunk.
            let mut known = FxHashSet::default();
            self.unbounded.find(folded.as_bytes(), |number, _| {
                if known.insert(number)
                    && let Some(pattern) = self.pattern(number)
                    && let Some(classes) = self.letter_classes_of(pattern, chunk.valid(), true)
                {
                    hits.variations = hits.variations.with(classes);
                    hits.add(pattern.person, Reason::Undecodable);
                }
            });
        }
    }

    /// Matches a value that isn't part of a decoded grain.
    pub fn match_loose_value(&self, value: &RawValue<'_>, hits: &mut Hits) {
        self.match_value(FieldRole::Value(Reason::Undecodable), value, hits);
        if let RawValue::Map(encoded) = value {
            for (key, value) in encoded.all_entries() {
                let field = Field::from_short_key(key).or_else(|| Field::from_name(key));
                if let (Some(FieldRole::Session), RawValue::Text(id)) = (field.map(role_of), value)
                {
                    self.match_role(FieldRole::Session, id, hits);
                }
            }
        }
        if self.variations.contains(Variation::SplitBlocks) {
            AdjacentTexts::new(self, hits).match_value(value);
        }
    }

    /// Matches the sessions that members of `json` name, at any depth: bytes that aren't a grain
    /// may be JSON.
    pub(in crate::erase) fn match_sessions_of_json(
        &self,
        json: &serde_json::Value,
        hits: &mut Hits,
    ) {
        match json {
            serde_json::Value::Object(members) => {
                for (key, value) in members {
                    if let Some(id) = value.as_str().filter(|_| names_session(key)) {
                        self.match_role(FieldRole::Session, id, hits);
                    }
                    self.match_sessions_of_json(value, hits);
                }
            }
            serde_json::Value::Array(items) => items
                .iter()
                .for_each(|item| self.match_sessions_of_json(item, hits)),
            _ => {}
        }
    }

    /// Returns whether `text` names a person distinctively: as a whole or as a mention; by initials
    /// only if the request selects initials.
    pub fn names_person(&self, text: &str, hits: &mut Hits) -> bool {
        hits.clear();
        self.match_text(FieldRole::Identity(Reason::Party), text, hits);
        self.is_named(hits)
    }

    /// Returns whether `hits` name a person: by initials only if the request selects initials.
    pub(in crate::erase) fn is_named(&self, hits: &Hits) -> bool {
        let names = |reason| reason != Reason::Initials || self.takes_initials;
        hits.people
            .iter()
            .any(|(_, reasons)| reasons.iter().any(names))
    }

    fn match_text(&self, role: FieldRole, text: &str, hits: &mut Hits) {
        self.match_role(role, text, hits);
        if !self.references.is_empty() && self.mentions_reference(text) {
            hits.add(NO_PERSON, Reason::Related);
        }
        let mut folded = std::mem::take(&mut hits.folded);
        let mut whole = false;
        self.each_form(text, &mut folded, &mut |pattern, coverage, classes| {
            if let Some(reason) = reason_for(role, pattern, coverage, classes) {
                whole |= coverage == Coverage::Whole && !is_mention(reason);
                hits.variations = hits.variations.with(classes);
                hits.add(pattern.person, reason);
            }
        });
        hits.folded = folded;
        if whole {
            hits.spellings.push(text.to_owned());
        }
    }

    /// Matches a whole value against the consents or sessions of the request, by its role.
    fn match_role(&self, role: FieldRole, text: &str, hits: &mut Hits) {
        match role {
            FieldRole::Basis => {
                let consent = text.strip_prefix("sha256:").unwrap_or(text);
                if let Some(person) = self.consents.get(consent) {
                    hits.add(*person, Reason::Consent);
                }
            }
            FieldRole::Session if !self.sessions.is_empty() => {
                if let Some(person) = self.sessions.get(&self.folding.folded(text)) {
                    hits.add(*person, Reason::Session);
                }
            }
            _ => {}
        }
    }

    /// Returns whether `text` contains one of the reference addresses, in upper or lower case.
    fn mentions_reference(&self, text: &str) -> bool {
        let is_reference = |hex: &str| {
            hex.to_ascii_lowercase()
                .parse()
                .is_ok_and(|address| self.references.contains(&address))
        };
        let mut digits = 0;
        text.len() >= ContentAddress::TEXT_LENGTH
            && text.bytes().enumerate().any(|(at, byte)| {
                digits = if byte.is_ascii_hexdigit() {
                    digits + 1
                } else {
                    0
                };
                digits >= ContentAddress::TEXT_LENGTH
                    && text
                        .get(at + 1 - ContentAddress::TEXT_LENGTH..=at)
                        .is_some_and(is_reference)
            })
    }

    /// Matches identifiers that begin in the text `before` and end in the text `after`, which are
    /// in adjacent blocks.
    pub(super) fn match_across_blocks(&self, before: &str, after: &str, hits: &mut Hits) {
        let Some((before, after)) = around_boundary(before, after) else {
            return;
        };
        self.match_pair(before, after, hits);
        let plain = (self.undecorated(before), self.undecorated(after));
        if plain.0.is_some() || plain.1.is_some() {
            let text = |plain: Option<Undecorated<String>>, text: &str| {
                plain.map_or_else(|| text.to_owned(), |plain| plain.text)
            };
            self.match_pair(&text(plain.0, before), &text(plain.1, after), hits);
        }
    }

    /// Matches identifiers that begin in `before` and end in `after`.
    fn match_pair(&self, before: &str, after: &str, hits: &mut Hits) {
        let mut folded = std::mem::take(&mut hits.folded);
        if self.scan_text(before, &mut folded).may_match
            || self.scan_text(after, &mut folded).may_match
        {
            let joined = format!("{before} {after}");
            self.match_joined(&joined, (before.len(), before.len()), &mut folded, hits);
        }
        hits.folded = folded;
    }

    /// Matches identifiers in `joined`, adjacent texts with a blank between them, that begin in the
    /// first text and end in the last one. `ends` are the ends of the first and of the last but
    /// one.
    pub(super) fn match_joined(
        &self,
        joined: &str,
        ends: (usize, usize),
        folded: &mut String,
        hits: &mut Hits,
    ) {
        let folded_end = |end: usize| {
            let before = joined.get(..end).unwrap_or_default();
            self.coarsest_form(before).len()
        };
        let (first, last) = (folded_end(ends.0), folded_end(ends.1));
        self.folding
            .fold_equivalent(LetterEquivalence::ALL, joined, folded);
        self.occurrences(folded, |pattern, _, classes, (start, end)| {
            if pattern.distinctive
                && start < first
                && last < end
                && let Some(letters) = self.letter_classes_of(pattern, joined, false)
            {
                let classes = classes.with(letters).with(Variation::SplitBlocks.into());
                hits.variations = hits.variations.with(classes);
                hits.add(pattern.person, or_initials(Reason::Mention, classes));
            }
        });
    }
}

/// Returns `reason`, or [`Reason::Initials`] if the match relies on initials.
fn or_initials(reason: Reason, classes: Variations) -> Reason {
    if classes.contains(Variation::Initials) {
        Reason::Initials
    } else {
        reason
    }
}

/// Returns the last [`BOUNDARY_BYTES`] of `before` and the first of `after`, cut at characters.
pub(super) fn around_boundary<'t>(before: &'t str, after: &'t str) -> Option<(&'t str, &'t str)> {
    let start = (before.len().saturating_sub(BOUNDARY_BYTES)..=before.len())
        .find(|at| before.is_char_boundary(*at))?;
    let end = (0..=BOUNDARY_BYTES.min(after.len()))
        .rev()
        .find(|at| after.is_char_boundary(*at))?;
    Some((before.get(start..)?, after.get(..end)?))
}

/// Returns the text of an item of a list: the item itself, or the longest text of a map, which is
/// the text of a content block.
fn main_text<'g>(item: &RawValue<'g>) -> Option<&'g str> {
    match item {
        RawValue::Text(text) => Some(text),
        RawValue::Map(entries) => entries
            .entries()
            .filter_map(|(_, value)| value.as_text())
            .max_by_key(|text| text.len()),
        _ => None,
    }
}

/// Returns whether `key` is that of a session or run id in JSON: `session_id`, `sessionId`,
/// `run_id`.
fn names_session(key: &str) -> bool {
    let letters = key.chars().filter(char::is_ascii_alphanumeric);
    let key: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    matches!(key.as_str(), "session" | "sessionid" | "runid")
}

/// Returns the reason of a match of `pattern` with the given coverage in a field of the given role.
/// `None` if it is no reason.
fn reason_for(
    role: FieldRole,
    pattern: &IdentifierPattern,
    coverage: Coverage,
    classes: Variations,
) -> Option<Reason> {
    if classes.contains(Variation::Initials) {
        return Some(Reason::Initials);
    }
    // With other letters, a short identifier is another one: Bo and Bö.
    if !pattern.distinctive && !classes.is_empty() {
        return None;
    }
    let mention = pattern.distinctive.then_some(Reason::Mention);
    match (role, coverage) {
        (FieldRole::Identity(reason), Coverage::Whole) => Some(reason),
        (FieldRole::Segments, Coverage::Whole | Coverage::Segment) if pattern.distinctive => {
            Some(Reason::Namespace)
        }
        (FieldRole::Segments, Coverage::Whole | Coverage::Segment) => Some(Reason::Ambiguous),
        (FieldRole::Value(reason), Coverage::Whole) if pattern.distinctive => Some(reason),
        (FieldRole::Value(_), Coverage::Whole) => Some(Reason::Ambiguous),
        _ => mention,
    }
}

/// Returns whether `reason` is that a text only mentions somebody.
fn is_mention(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Mention | Reason::Ambiguous | Reason::Initials
    )
}

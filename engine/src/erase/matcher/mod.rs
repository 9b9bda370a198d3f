//! The selector: decides whether a grain names one of the people of a request, and where.
//!
//! It reads the grain itself, never an index. Every string of the payload is matched, whether its
//! field is known or not, key or value, at any depth. The field determines what a match means:
//!
//! | field | the whole value matches | a part of the value matches |
//! |---|---|---|
//! | `user_id`, `subject`, `subject_did`, `entity_id`, the parties | selects | mention |
//! | `namespace`, tags | selects, also as one segment between colons | mention |
//! | any other value or key: object, map object, context, input, blocks, unknown fields | selects, if the identifier is distinctive | mention |
//! | words of closed vocabularies (`role`, `relation` …) | mention | mention |
//!
//! A mention begins and ends at a word boundary, so that `u-1` isn't found in `u-17`. Only in
//! binary bytes that can't be decoded, where a length before a text may look like a letter, longer
//! identifiers need no boundary. Text with escapes (JSON in a string) is matched as it is written
//! and unescaped, encoded text is decoded ([`crate::text::encodings`]), and all of these are also
//! matched without control sequences and symbols ([`crate::text::undecorated`]).
//!
//! All classes of variation ([`super::patterns`]) are searched for in the same pass, in the
//! coarsest form of the text: letters that some class treats as equal are the same. Only the
//! matches are compared in finer forms. Cost: one pass over the text and one hash look-up per word,
//! independent of the number of people.
//!
//! | module | contents |
//! |---|---|
//! | `adjacent_texts` | texts over which a name may be split |
//! | `compile` | from a request to patterns and look-up tables |
//! | `name_chains` | names over three or more texts |
//! | `values` | grains, values, addresses and raw bytes |
//! | `text` | one text in all its forms |

mod adjacent_texts;
mod compile;
mod name_chains;
mod text;
mod values;

use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use rustc_hash::{FxHashMap, FxHashSet};

use super::pattern_search::MultiFinder;
use super::patterns::IdentifierPattern;
use super::payload_prefilter::{PayloadPrefilter, PrefilterTerms};
use super::phone::PhoneNumber;
use super::reason::{Reason, Reasons};
use super::variations::Variations;
use crate::index::Watchlist;
use crate::index::word_filter::WordFilter;
use crate::text::confusables::LetterEquivalence;
use crate::text::fold::Folding;

use name_chains::NameRuns;

/// Index of a person in the request, or [`NO_PERSON`].
pub type PersonNumber = u32;

/// Stands for sessions, consents and addresses that belong to no person of the request.
pub const NO_PERSON: PersonNumber = u32::MAX;

/// A compiled request.
#[derive(Debug)]
pub struct IdentifierMatcher {
    folding: Folding,
    variations: Variations,
    /// The letters that the enabled classes of variation treat as equal.
    equivalence: LetterEquivalence,
    /// Whether [`IdentifierMatcher::names_person`] accepts initials.
    takes_initials: bool,
    patterns: Vec<IdentifierPattern>,
    /// Indexes of patterns by their anchor: the word that the fewest patterns contain.
    by_word: FxHashMap<Box<str>, Vec<u32>>,
    /// The anchors, and words of sessions, consents and references. Most texts contain none.
    watched: Arc<Watchlist>,
    /// Patterns without an anchor: those of unsegmented scripts, and those without any word.
    anywhere: Vec<u32>,
    /// Telephone numbers by their last digits, each with the index of its pattern.
    phones: FxHashMap<u32, Vec<(PhoneNumber, u32)>>,
    /// Names that may be split over three or more texts.
    runs: NameRuns,
    /// Patterns that are long enough to be found in binary bytes without a word boundary.
    unbounded: MultiFinder,
    /// Whether an identifier is an integer, so that integers in grains are matched.
    matches_integers: bool,
    sessions: FxHashMap<String, PersonNumber>,
    consents: FxHashMap<String, PersonNumber>,
    /// Withdrawn consents. They select grains whose policy is `consent_cascade`.
    withdrawn: FxHashSet<String>,
    /// The instant for policies, in seconds since 1970.
    now: u64,
    addresses: FxHashMap<[u8; 32], PersonNumber>,
    /// Addresses of which any mention makes a grain related.
    references: FxHashSet<ContentAddress>,
}

/// The matches in one grain.
#[derive(Debug)]
pub struct Hits {
    /// The people, each with the reasons.
    pub people: Vec<(PersonNumber, Reasons)>,
    /// Values that equal an identifier, as they are written.
    pub spellings: Vec<String>,
    /// Classes of variation of matches for which there is no match in plain spelling.
    pub variations: Variations,
    /// The retention policy by which the grain expired.
    pub(super) policy: Option<u32>,
    /// Buffer for folded text.
    folded: String,
}

impl Default for Hits {
    fn default() -> Hits {
        let (people, spellings, folded) = (Vec::new(), Vec::new(), String::new());
        Hits {
            people,
            spellings,
            variations: Variations::NONE,
            policy: None,
            folded,
        }
    }
}

impl Hits {
    /// Removes all matches.
    pub fn clear(&mut self) {
        self.people.clear();
        self.spellings.clear();
        self.variations = Variations::NONE;
        self.policy = None;
    }

    /// Returns the union of the reasons of all people.
    pub(super) fn reasons(&self) -> Reasons {
        let mut all = Reasons::default();
        self.people.iter().for_each(|(_, found)| all.merge(*found));
        all
    }

    pub(super) fn add(&mut self, person: PersonNumber, reason: Reason) {
        match self.people.iter_mut().find(|(known, _)| *known == person) {
            Some((_, reasons)) => reasons.insert(reason),
            None => self.people.push((person, reason.into())),
        }
    }
}

impl IdentifierMatcher {
    /// Returns the coarsest form of `text`, in which patterns are searched for.
    fn coarsest_form(&self, text: &str) -> String {
        self.folding.folded_equivalent(LetterEquivalence::ALL, text)
    }

    /// Returns the identifiers that are too short or common to be searched for in text, as they
    /// were given, with their person.
    pub(crate) fn non_distinctive(&self) -> impl Iterator<Item = (&str, PersonNumber)> {
        let all = self
            .patterns
            .iter()
            .filter(|pattern| pattern.is_primary() && !pattern.distinctive);
        all.map(|pattern| (pattern.identifier(), pattern.person))
    }

    /// Returns the words of which every grain that [`IdentifierMatcher::match_grain`] matches has
    /// at least one.
    pub(crate) fn watchlist(&self) -> &Arc<Watchlist> {
        &self.watched
    }

    /// Returns the number of identifiers.
    pub fn identifiers(&self) -> usize {
        self.patterns
            .iter()
            .filter(|pattern| pattern.is_primary())
            .count()
    }

    /// Returns whether the request selects by addresses alone, so that no grain needs to be
    /// decoded.
    pub(crate) fn only_addresses(&self) -> bool {
        self.patterns.is_empty()
            && self.sessions.is_empty()
            && self.consents.is_empty()
            && self.withdrawn.is_empty()
            && self.references.is_empty()
    }

    /// Returns whether a grain of a segment with the word filter `filter` may match.
    pub(crate) fn may_find(&self, filter: &WordFilter) -> bool {
        let mut keys = self.consents.keys().chain(&self.withdrawn);
        let mut addresses = self
            .addresses
            .keys()
            .map(|address| ContentAddress::from_digest(*address));
        let may_hold = |pattern: &IdentifierPattern| {
            filter.may_hold(&pattern.text) && filter.may_hold(&pattern.required_neighbour())
        };
        let may_hold_phone = |(phone, _): &(PhoneNumber, u32)| {
            filter.may_hold_number_tail(phone.tail())
                || phone
                    .integers()
                    .into_iter()
                    .any(|number| filter.may_hold_number(number))
        };
        self.patterns.iter().any(may_hold)
            || self.phones.values().flatten().any(may_hold_phone)
            || self
                .sessions
                .keys()
                .any(|session| filter.may_hold(&self.coarsest_form(session)))
            || keys.any(|text| filter.may_hold(text))
            || addresses.any(|address| filter.may_hold(&address.to_string()))
            || self
                .references
                .iter()
                .any(|address| filter.may_hold(&address.to_string()))
    }

    /// Returns a prefilter that rules grains out without decoding them. `None` if the request
    /// contains something that it can't search for.
    pub(crate) fn prefilter(&self) -> Option<PayloadPrefilter> {
        if self.has_addresses() || self.matches_integers || !self.anywhere.is_empty() {
            return None;
        }
        let references = self.references.iter().map(ToString::to_string);
        let sessions = self
            .sessions
            .keys()
            .map(|session| self.coarsest_form(session));
        let keys = sessions
            .chain(references)
            .chain(self.consents.keys().cloned())
            .chain(self.withdrawn.iter().cloned());
        let phones = || self.phones.values().flatten().map(|(phone, _)| phone);
        PayloadPrefilter::new(PrefilterTerms {
            texts: self
                .patterns
                .iter()
                .map(|pattern| pattern.required_substring().to_owned())
                .chain(keys)
                .collect(),
            number_tails: phones().map(PhoneNumber::tail).collect(),
            integers: phones().flat_map(PhoneNumber::integers).collect(),
            is_encoded: self.decodes_encodings(),
            folding: self.folding,
        })
    }

    /// Returns whether encoded texts are decoded.
    fn decodes_encodings(&self) -> bool {
        !self.patterns.is_empty() && !self.variations.only(Variations::ENCODINGS).is_empty()
    }

    /// Returns whether the request selects addresses.
    pub fn has_addresses(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Returns whether the request selects sessions.
    pub(super) fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    fn checks_integers(&self) -> bool {
        self.matches_integers || !self.phones.is_empty()
    }

    fn pattern(&self, number: u32) -> Option<&IdentifierPattern> {
        self.patterns.get(number as usize)
    }
}

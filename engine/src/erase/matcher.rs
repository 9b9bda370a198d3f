//! The one selector: does a grain name one of these people, and where?
//!
//! It reads the grain itself, never an index. Every string of the payload is looked at, known field
//! or not, key or value, however deep. Where it stands decides what a match means:
//!
//! | place | a match of the whole value | a match of a part |
//! |---|---|---|
//! | `user_id`, `subject`, `subject_did`, `entity_id`, the parties | selects | mention |
//! | `namespace`, tags | selects, also as one segment between colons | mention |
//! | any other value or key: object, map object, context, input, blocks, unknown fields | selects, if the identifier is distinctive | mention |
//! | words of closed vocabularies (`role`, `relation` …) | mention | mention |
//!
//! A mention begins and ends at the boundary of a word, so that `u-1` isn't found in `u-17`. Only
//! in binary bytes that can't be decoded, where a length before a text looks like a letter of it,
//! longer identifiers need no boundary. Text with escapes (JSON in a string) is read as it is
//! written and as it is meant, and what it encodes is opened ([`crate::text::encodings`]). The
//! classes of variation that [`super::patterns`] makes of an identifier are looked for in the same
//! pass, in one form of the text, in which all letters are the same that some class takes for one
//! another; only what is found there is compared letter by letter. Cost: one pass over the text,
//! one look-up per word, whatever the number of people.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{Field, Grain, RawValue};
use rustc_hash::FxBuildHasher;

use super::field_roles::{FieldRole, role_of};
use super::pattern_search::MultiFinder;
use super::patterns::{Coverage, IdentifierPattern, compile, words};
use super::payload_prefilter::{PayloadPrefilter, PrefilterTerms};
use super::phone::PhoneNumber;
use super::reason::{Reason, Reasons};
use super::request::SubjectRequest;
use super::variations::{Variation, Variations};
use crate::index::Watchlist;
use crate::index::word_filter::{WordFilter, each_word};
use crate::policy::{Mode, Policy};
use crate::text::confusables::LetterEquivalence;
use crate::text::encodings::{LONG_WORD, TextEncoding, each_decoded, has_marks};
use crate::text::fold::{Folding, is_blank, unescaped};
use crate::text::numbers::{MIN_DIGITS, each_number};

/// The number of a person in the request; sessions, consents and addresses that belong to nobody
/// have [`NO_PERSON`].
pub type PersonNumber = u32;

/// Stands for selectors that name no person.
pub const NO_PERSON: PersonNumber = u32::MAX;

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// A compiled request.
#[derive(Debug)]
pub struct IdentifierMatcher {
    folding: Folding,
    variations: Variations,
    /// The letters that are the same, of the classes that are searched for.
    alike: LetterEquivalence,
    /// What initials alone show counts as naming somebody.
    takes_initials: bool,
    patterns: Vec<IdentifierPattern>,
    /// Patterns by the word in them that the fewest others have.
    by_word: Map<Box<str>, Vec<u32>>,
    /// These words and those of sessions, consents and references: most texts hold none of them.
    watched: Arc<Watchlist>,
    /// Patterns of scripts without blanks, and those without any word: looked for everywhere.
    anywhere: Vec<u32>,
    /// Telephone numbers by their last digits, each with the pattern of its identifier.
    phones: Map<u32, Vec<(PhoneNumber, u32)>>,
    /// Patterns that are long enough to be looked for in binary bytes, whatever stands next to
    /// them.
    unbounded: MultiFinder,
    /// Numbers in grains are compared too.
    matches_integers: bool,
    sessions: Map<String, PersonNumber>,
    consents: Map<String, PersonNumber>,
    /// Consents that were withdrawn: they count for grains whose policy says so.
    withdrawn: HashSet<String, FxBuildHasher>,
    /// The instant by which policies are read, in seconds since 1970.
    now: u64,
    addresses: Map<[u8; 32], PersonNumber>,
    /// Addresses whose mention anywhere in a grain makes it related.
    references: HashSet<ContentAddress, FxBuildHasher>,
}

/// A find in one form of a text: the cover and the classes of variation that it needs.
type OnMatch<'f> = dyn FnMut(&IdentifierPattern, Coverage, Variations) + 'f;

/// What was found in one grain.
#[derive(Debug)]
pub struct Hits {
    /// Who, and why.
    pub people: Vec<(PersonNumber, Reasons)>,
    /// Values that equal an identifier, as they are written.
    pub spellings: Vec<String>,
    /// The classes of variation by which something was found that wasn't there in plain spelling
    /// too.
    pub variations: Variations,
    folded: String,
}

impl Default for Hits {
    fn default() -> Hits {
        let (people, spellings, folded) = (Vec::new(), Vec::new(), String::new());
        Hits {
            people,
            spellings,
            variations: Variations::NONE,
            folded,
        }
    }
}

impl Hits {
    /// Forgets what was found.
    pub fn clear(&mut self) {
        self.people.clear();
        self.spellings.clear();
        self.variations = Variations::NONE;
    }

    pub(super) fn add(&mut self, person: PersonNumber, reason: Reason) {
        match self.people.iter_mut().find(|(known, _)| *known == person) {
            Some((_, reasons)) => reasons.insert(reason),
            None => self.people.push((person, reason.into())),
        }
    }
}

/// Bytes of an identifier from which on it needs no boundary in binary bytes.
const UNBOUNDED_MIN_BYTES: usize = 6;

/// Bytes at the end of one block and at the beginning of the next that are looked at together.
const BOUNDARY_BYTES: usize = 96;

impl IdentifierMatcher {
    /// Compiles `request`.
    pub fn new(request: &SubjectRequest) -> IdentifierMatcher {
        let variations = request.searched();
        let on = |variation| variations.contains(variation);
        let mut matcher = IdentifierMatcher {
            folding: request.folding,
            variations,
            alike: LetterEquivalence {
                accents: on(Variation::Accents),
                lookalikes: on(Variation::Homoglyphs),
                turkish_i: on(Variation::TurkishI),
            },
            takes_initials: request.extent.initials,
            patterns: Vec::new(),
            by_word: Map::default(),
            watched: Arc::default(),
            anywhere: Vec::new(),
            phones: Map::default(),
            unbounded: MultiFinder::default(),
            matches_integers: false,
            sessions: Map::default(),
            consents: Map::default(),
            withdrawn: HashSet::default(),
            now: 0,
            addresses: Map::default(),
            references: HashSet::default(),
        };
        for (number, person) in request.people.iter().enumerate() {
            let number = number as PersonNumber;
            person
                .identifiers
                .iter()
                .for_each(|identifier| matcher.add(identifier, number));
            let sessions = person
                .sessions
                .iter()
                .map(|session| (request.folding.folded(session), number));
            matcher.sessions.extend(sessions);
        }
        let mut watched = matcher.assign_anchors();
        matcher
            .sessions
            .keys()
            .for_each(|session| watched.add(&matcher.coarsest_form(session)));
        request
            .consents
            .iter()
            .for_each(|consent| watched.add(&consent.to_string()));
        matcher.watched = Arc::new(watched);
        matcher.consents.extend(
            request
                .consents
                .iter()
                .map(|consent| (consent.to_string(), NO_PERSON)),
        );
        matcher.addresses.extend(
            request
                .addresses
                .iter()
                .map(|address| (*address.as_bytes(), NO_PERSON)),
        );
        matcher
    }

    /// The form of `text` in which patterns are looked for: with one letter for all that some class
    /// makes the same.
    fn coarsest_form(&self, text: &str) -> String {
        self.folding.folded_equivalent(LetterEquivalence::ALL, text)
    }

    fn add(&mut self, identifier: &str, person: PersonNumber) {
        let mut patterns = compile(identifier, self.folding, self.variations, person);
        let Some(own) = patterns.first() else { return };
        // Identifiers come person by person.
        let mut known = self
            .patterns
            .iter()
            .rev()
            .take_while(|known| known.person == person);
        if known
            .any(|known| known.is_primary() && known.text == own.text && known.same_identifier(own))
        {
            return;
        }
        self.matches_integers |= own
            .text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-');
        if self.variations.contains(Variation::Phone) && own.distinctive {
            let number = self.patterns.len() as u32;
            for phone in PhoneNumber::read(&own.text) {
                self.phones
                    .entry(phone.tail())
                    .or_default()
                    .push((phone, number));
            }
        }
        self.patterns.append(&mut patterns);
    }

    /// Files every pattern under the word of it that the fewest patterns have: of ten thousand
    /// names many begin alike. Answers these words.
    fn assign_anchors(&mut self) -> Watchlist {
        let mut watched = Watchlist::default();
        let mut sharing: Map<&str, u32> = Map::default();
        let all = self.patterns.iter().flat_map(IdentifierPattern::anchors);
        all.for_each(|(_, word)| *sharing.entry(word).or_default() += 1);
        let rarest = |pattern: &IdentifierPattern| {
            let anchors = pattern
                .anchors()
                .map(|(start, word)| (sharing.get(word), start, word.len()));
            anchors.min().map(|(_, start, length)| (start, length))
        };
        let anchors: Vec<_> = self.patterns.iter().map(rarest).collect();
        for ((number, pattern), anchor) in (0..).zip(&mut self.patterns).zip(anchors) {
            match anchor {
                Some((start, length)) => {
                    pattern.set_anchor(start, length);
                    watched.add_words(pattern.anchor_word());
                    self.by_word
                        .entry(pattern.anchor_word().into())
                        .or_default()
                        .push(number);
                }
                None => {
                    watched.add(&pattern.text);
                    self.anywhere.push(number);
                }
            }
        }
        for (phone, _) in self.phones.values().flatten() {
            watched.add_number_tail(phone.tail());
            phone
                .integers()
                .into_iter()
                .for_each(|number| watched.add_number(number));
        }
        let unbounded = (0..).zip(&self.patterns);
        let unbounded = unbounded.filter(|(_, it)| {
            it.is_literal() && it.distinctive && it.text.len() >= UNBOUNDED_MIN_BYTES
        });
        self.unbounded = MultiFinder::new(
            unbounded.map(|(number, pattern)| (number, pattern.text.clone().into_bytes())),
        );
        watched
    }

    /// Adds consents that were found to be withdrawn; grains whose policy is `consent_cascade` at
    /// `now` (seconds since 1970) go with them (§23.2).
    pub fn add_withdrawn(&mut self, consents: impl IntoIterator<Item = String>, now: u64) {
        let watched = Arc::make_mut(&mut self.watched);
        self.withdrawn
            .extend(consents.into_iter().inspect(|consent| watched.add(consent)));
        self.now = now;
    }

    /// Adds addresses whose mention anywhere in a grain, in text too, is to be reported as
    /// [`Reason::Related`].
    pub fn add_references(&mut self, addresses: impl IntoIterator<Item = ContentAddress>) {
        let watched = Arc::make_mut(&mut self.watched);
        self.references.extend(
            addresses
                .into_iter()
                .inspect(|address| watched.add(&address.to_string())),
        );
    }

    /// Identifiers too short or plain to be looked for in text, as they were given, with the number
    /// of their person.
    pub fn non_distinctive(&self) -> impl Iterator<Item = (&str, PersonNumber)> {
        let all = self
            .patterns
            .iter()
            .filter(|pattern| pattern.is_primary() && !pattern.distinctive);
        all.map(|pattern| (pattern.identifier(), pattern.person))
    }

    /// Words of which a grain has one if [`IdentifierMatcher::match_grain`] finds anything in it.
    pub(crate) fn watchlist(&self) -> &Arc<Watchlist> {
        &self.watched
    }

    /// How many identifiers it looks for.
    pub fn identifiers(&self) -> usize {
        self.patterns
            .iter()
            .filter(|pattern| pattern.is_primary())
            .count()
    }

    /// True if it looks for nothing inside of grains but addresses.
    pub fn only_addresses(&self) -> bool {
        self.patterns.is_empty()
            && self.sessions.is_empty()
            && self.consents.is_empty()
            && self.withdrawn.is_empty()
            && self.references.is_empty()
    }

    /// False if no grain of a segment with the word filter `filter` can be found.
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

    /// What tells without decoding that nothing is found in a grain, if there is nothing to be
    /// found that it can't see.
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

    /// True if encoded texts are opened.
    fn decodes_encodings(&self) -> bool {
        !self.patterns.is_empty() && !self.variations.only(Variations::ENCODINGS).is_empty()
    }

    /// True if the request names addresses.
    pub fn has_addresses(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Adds to `hits` if the request names `address`.
    pub fn match_address(&self, address: &ContentAddress, hits: &mut Hits) {
        if let Some(person) = self.addresses.get(address.as_bytes()) {
            hits.add(*person, Reason::Address);
        }
    }

    /// Adds to `hits` whom it means that `signer` signed a grain.
    pub fn match_signer(&self, signer: &str, hits: &mut Hits) {
        self.match_text(FieldRole::Identity(Reason::Party), signer, hits);
    }

    /// Adds to `hits` who `grain` is of.
    pub fn match_grain(&self, grain: &Grain<'_>, hits: &mut Hits) {
        if self.only_addresses() {
            return;
        }
        for (field, value) in grain.known() {
            self.match_value(role_of(*field), value, hits);
        }
        for (key, value) in grain.unknown() {
            self.match_text(FieldRole::Value(Reason::Value), key, hits);
            self.match_value(FieldRole::Value(Reason::Value), value, hits);
        }
        if let Some(basis) = grain
            .text(Field::ProcessingBasis)
            .filter(|_| !self.withdrawn.is_empty())
            && self
                .withdrawn
                .contains(basis.strip_prefix("sha256:").unwrap_or(basis))
            && Policy::of(grain).effective(self.now) == Mode::ConsentCascade
        {
            hits.add(NO_PERSON, Reason::Consent);
        }
    }

    fn match_value(&self, place: FieldRole, value: &RawValue<'_>, hits: &mut Hits) {
        // Inside a map the name of the field says no more whom a value is about.
        let inner = match place {
            FieldRole::Value(Reason::Object) => FieldRole::Value(Reason::Value),
            place => place,
        };
        match value {
            RawValue::Text(text) => self.match_text(place, text, hits),
            RawValue::Array(encoded) => {
                let mut before = None;
                for item in encoded.items() {
                    self.match_value(place, &item, hits);
                    if self.variations.contains(Variation::SplitBlocks) {
                        let text = main_text(&item);
                        if let Some((before, text)) = before.zip(text) {
                            self.match_across_blocks(before, text, hits);
                        }
                        before = text;
                    }
                }
            }
            RawValue::Map(encoded) => encoded.entries().for_each(|(key, value)| {
                self.match_text(inner, key, hits);
                self.match_value(inner, &value, hits);
            }),
            RawValue::Bytes(bytes) => self.match_bytes(bytes, Reason::Mention, hits),
            RawValue::Int(number)
                if self.matches_integers || *number >= 0 && self.checks_integers() =>
            {
                self.match_text(place, &number.to_string(), hits)
            }
            RawValue::BigInt(number) if self.checks_integers() => {
                self.match_text(place, &number.to_string(), hits)
            }
            _ => {}
        }
    }

    /// Looks for identifiers and references in bytes that may hold text anywhere.
    pub fn match_bytes(&self, bytes: &[u8], reason: Reason, hits: &mut Hits) {
        let mut found = Vec::new();
        for chunk in bytes.utf8_chunks() {
            if !self.references.is_empty() && self.mentions_reference(chunk.valid()) {
                hits.add(NO_PERSON, Reason::Related);
            }
            let mut folded = std::mem::take(&mut hits.folded);
            self.each_form(chunk.valid(), &mut folded, &mut |pattern, _, classes| {
                if pattern.distinctive {
                    found.push((pattern.person, classes));
                }
            });
            hits.folded = folded;
        }
        for (person, classes) in found {
            hits.variations = hits.variations.with(classes);
            hits.add(
                person,
                if classes.contains(Variation::Initials) {
                    Reason::Initials
                } else {
                    reason
                },
            );
        }
    }

    /// [`IdentifierMatcher::match_bytes`] for bytes that can't be decoded: in binary ones a length
    /// or a marker looks like a letter of the text that it stands before, so that longer
    /// identifiers are found whatever stands next to them.
    pub fn match_undecodable(&self, bytes: &[u8], hits: &mut Hits) {
        self.match_bytes(bytes, Reason::Undecodable, hits);
        if !is_binary(bytes) {
            return;
        }
        for chunk in bytes.utf8_chunks() {
            let folded = self.coarsest_form(chunk.valid());
            self.unbounded.find(folded.as_bytes(), |number, _| {
                if let Some(pattern) = self.pattern(number)
                    && let Some(classes) = self.letter_classes_of(pattern, chunk.valid(), true)
                {
                    hits.variations = hits.variations.with(classes);
                    hits.add(pattern.person, Reason::Undecodable);
                }
            });
        }
    }

    /// Adds to `hits` whom a value names that isn't part of a grain.
    pub fn match_loose_value(&self, value: &RawValue<'_>, hits: &mut Hits) {
        self.match_value(FieldRole::Value(Reason::Undecodable), value, hits);
    }

    /// True if `text` names somebody distinctively: as a whole or as a mention, by initials only if
    /// the request takes them.
    pub fn names_somebody(&self, text: &str, hits: &mut Hits) -> bool {
        hits.clear();
        self.match_text(FieldRole::Identity(Reason::Party), text, hits);
        let names = |reason| reason != Reason::Initials || self.takes_initials;
        hits.people
            .iter()
            .any(|(_, reasons)| reasons.iter().any(names))
    }

    fn match_text(&self, place: FieldRole, text: &str, hits: &mut Hits) {
        match place {
            FieldRole::Basis => {
                if let Some(person) = self
                    .consents
                    .get(text.strip_prefix("sha256:").unwrap_or(text))
                {
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
        if !self.references.is_empty() && self.mentions_reference(text) {
            hits.add(NO_PERSON, Reason::Related);
        }
        let mut folded = std::mem::take(&mut hits.folded);
        let mut whole = false;
        self.each_form(text, &mut folded, &mut |pattern, cover, classes| {
            if let Some(reason) = reason_for(place, pattern, cover, classes) {
                let is_mention = matches!(
                    reason,
                    Reason::Mention | Reason::Ambiguous | Reason::Initials
                );
                whole |= cover == Coverage::Whole && !is_mention;
                hits.variations = hits.variations.with(classes);
                hits.add(pattern.person, reason);
            }
        });
        hits.folded = folded;
        if whole {
            hits.spellings.push(text.to_owned());
        }
    }

    /// True if `text` holds one of the references.
    fn mentions_reference(&self, text: &str) -> bool {
        let is_reference =
            // The proof looks for addresses in any case.
            |hex: &str| hex.to_ascii_lowercase().parse().is_ok_and(|address| self.references.contains(&address));
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

    /// What a first look at `text` shows. Plain ASCII means what it says; of anything else the runs
    /// between blanks are folded to `folded`, one by one, as folding the whole would.
    fn scan_text(&self, text: &str, folded: &mut String) -> TextScan {
        let is_ascii = text.is_ascii();
        let mut anywhere = self
            .anywhere
            .iter()
            .filter_map(|number| self.pattern(*number));
        let may_occur = anywhere.any(|pattern| pattern.text.is_ascii() || !is_ascii);
        let mut found = TextScan {
            may_occur,
            has_long_word: false,
        };
        let mut look = |text: &str| {
            each_word(text, |word, hash| {
                found.may_occur = found.may_occur || self.watched.has(hash);
                found.has_long_word |= word.len() >= LONG_WORD;
            });
        };
        match is_ascii {
            true => look(text),
            false => text.split(is_blank).for_each(|run| match run.is_ascii() {
                true => look(run),
                false => {
                    self.folding
                        .fold_equivalent(LetterEquivalence::ALL, run, folded);
                    look(folded);
                }
            }),
        }
        found
    }

    fn checks_integers(&self) -> bool {
        self.matches_integers || !self.phones.is_empty()
    }

    fn pattern(&self, number: u32) -> Option<&IdentifierPattern> {
        self.patterns.get(number as usize)
    }

    /// Calls `found` for every identifier that stands in `text` as it is written, as it is meant if
    /// it has escapes, or in what it encodes. What the text shows in plain spelling needs no class,
    /// in whatever other form it stands there too.
    fn each_form(&self, text: &str, folded: &mut String, found: &mut OnMatch<'_>) {
        let mut plain: Vec<PersonNumber> = Vec::new();
        let mut found = |pattern: &IdentifierPattern, cover: Coverage, classes: Variations| {
            if classes.is_empty() {
                plain.push(pattern.person);
            }
            let is_plain =
                plain.contains(&pattern.person) && !classes.contains(Variation::Initials);
            found(
                pattern,
                cover,
                if is_plain { Variations::NONE } else { classes },
            );
        };
        let TextScan {
            may_occur,
            has_long_word,
        } = self.scan_text(text, folded);
        if may_occur {
            self.find_in_form(text, folded, &mut found);
        }
        self.find_phone_numbers(text, &mut found);
        let meant: Vec<String> = unescaped(text).collect();
        for meant in &meant {
            self.find_in_form(meant, folded, &mut found);
            self.find_phone_numbers(meant, &mut found);
        }
        if self.decodes_encodings() && (has_long_word || !meant.is_empty() || has_marks(text)) {
            self.find_in_encoded(text, folded, &mut found);
            meant
                .iter()
                .for_each(|meant| self.find_in_encoded(meant, folded, &mut found));
        }
    }

    /// Calls `found` for the identifiers in `form`, which is read as it stands there.
    fn find_in_form(&self, form: &str, folded: &mut String, found: &mut OnMatch<'_>) {
        self.folding
            .fold_equivalent(LetterEquivalence::ALL, form, folded);
        self.occurrences(folded, |pattern, cover, classes, _| {
            if let Some(letters) = self.letter_classes_of(pattern, form, false) {
                found(pattern, cover, classes.with(letters));
            }
        });
    }

    /// Calls `found` for the identifiers in the texts that `text` holds encoded.
    fn find_in_encoded(&self, text: &str, folded: &mut String, found: &mut OnMatch<'_>) {
        each_decoded(text, |encoding, plain| {
            let (class, is_all) = match encoding {
                TextEncoding::Url => (Variation::UrlEncoding, true),
                TextEncoding::Html => (Variation::HtmlEntities, true),
                // Of other runs than the whole text, what they hold is a part.
                TextEncoding::Base64 => (
                    Variation::Base64,
                    text.trim().len() <= plain.len() * 4 / 3 + 4,
                ),
                TextEncoding::Hex => (Variation::Hex, text.trim().len() <= plain.len() * 2 + 2),
            };
            if !self.variations.contains(class) {
                return;
            }
            let mut found = |pattern: &IdentifierPattern, cover: Coverage, classes: Variations| {
                found(
                    pattern,
                    if is_all { cover } else { Coverage::Part },
                    classes.with(class.into()),
                );
            };
            for form in std::iter::once(plain.to_owned()).chain(unescaped(plain)) {
                self.find_in_form(&form, folded, &mut found);
                self.find_phone_numbers(&form, &mut found);
            }
        });
    }

    /// Calls `found` for the telephone numbers in `text`, but for those that stand there as they
    /// were given.
    fn find_phone_numbers(&self, text: &str, found: &mut OnMatch<'_>) {
        if self.phones.is_empty() || !may_hold_number(text) {
            return;
        }
        each_number(text, |number| {
            for (phone, pattern) in self.phones.get(&number.tail()).into_iter().flatten() {
                if let (Some(start), Some(pattern)) =
                    (phone.start_in(number), self.pattern(*pattern))
                {
                    let is_blank = |text: Option<&str>| {
                        !text.unwrap_or_default().chars().any(char::is_alphanumeric)
                    };
                    let is_all = is_blank(text.get(..start)) && is_blank(text.get(number.end..));
                    let cover = if is_all {
                        Coverage::Whole
                    } else {
                        Coverage::Part
                    };
                    found(pattern, cover, Variation::Phone.into());
                }
            }
        });
    }

    /// Looks for identifiers that begin in the text `before` and end in `after`, which stand in
    /// blocks next to each other.
    fn match_across_blocks(&self, before: &str, after: &str, hits: &mut Hits) {
        let start = (before.len().saturating_sub(BOUNDARY_BYTES)..=before.len())
            .find(|at| before.is_char_boundary(*at));
        let end = (0..=BOUNDARY_BYTES.min(after.len()))
            .rev()
            .find(|at| after.is_char_boundary(*at));
        let (Some(before), Some(after)) = (
            start.and_then(|start| before.get(start..)),
            end.and_then(|end| after.get(..end)),
        ) else {
            return;
        };
        let mut folded = std::mem::take(&mut hits.folded);
        if self.scan_text(before, &mut folded).may_occur
            || self.scan_text(after, &mut folded).may_occur
        {
            let joined = format!("{before} {after}");
            let joint = self.coarsest_form(before).len();
            self.folding
                .fold_equivalent(LetterEquivalence::ALL, &joined, &mut folded);
            self.occurrences(&folded, |pattern, _, classes, (start, end)| {
                if pattern.distinctive
                    && (start..end).contains(&joint)
                    && start < joint
                    && let Some(letters) = self.letter_classes_of(pattern, &joined, false)
                {
                    let classes = classes.with(letters).with(Variation::SplitBlocks.into());
                    hits.variations = hits.variations.with(classes);
                    let is_initial = classes.contains(Variation::Initials);
                    hits.add(
                        pattern.person,
                        if is_initial {
                            Reason::Initials
                        } else {
                            Reason::Mention
                        },
                    );
                }
            });
        }
        hits.folded = folded;
    }

    /// The classes of letters that `pattern` needs to stand in `form`, which holds it in its
    /// coarsest form; `None` if it needs one that isn't searched for. With `anywhere`, it may be
    /// part of a word.
    fn letter_classes_of(
        &self,
        pattern: &IdentifierPattern,
        form: &str,
        anywhere: bool,
    ) -> Option<Variations> {
        if self.folding == Folding::Exact || form.is_ascii() && pattern.is_ascii() {
            return Some(Variations::NONE);
        }
        let stands = |alike: LetterEquivalence| {
            let text = self.folding.folded_equivalent(alike, form);
            let finer = pattern.refolded(alike);
            finer.is_some_and(|it| {
                if anywhere {
                    text.contains(&it.text)
                } else {
                    it.occurs_in(&text)
                }
            })
        };
        let all = self.alike;
        if !stands(all) {
            return None;
        }
        let without = [
            (
                Variation::Accents,
                LetterEquivalence {
                    accents: false,
                    ..all
                },
            ),
            (
                Variation::Homoglyphs,
                LetterEquivalence {
                    lookalikes: false,
                    ..all
                },
            ),
            (
                Variation::TurkishI,
                LetterEquivalence {
                    turkish_i: false,
                    ..all
                },
            ),
        ];
        Some(
            without
                .into_iter()
                .filter(|(_, fewer)| *fewer != all && !stands(*fewer))
                .map(|(class, _)| class)
                .collect(),
        )
    }

    /// Calls `found` for every identifier that stands in `text`, which is folded, with where it
    /// begins and ends.
    fn occurrences(
        &self,
        text: &str,
        mut found: impl FnMut(&IdentifierPattern, Coverage, Variations, (usize, usize)),
    ) {
        let pattern = |number: &u32| self.pattern(*number);
        if !self.by_word.is_empty() {
            for (start, word) in words(text) {
                for pattern in self
                    .by_word
                    .get(word)
                    .into_iter()
                    .flatten()
                    .filter_map(pattern)
                {
                    if let Some(it) = pattern.match_at(text, start) {
                        found(pattern, it.cover, it.classes, (it.start, it.end));
                    }
                }
            }
        }
        for pattern in self.anywhere.iter().filter_map(pattern) {
            if let Some(start) = text.find(&pattern.text) {
                let whole = start == 0 && text.len() == pattern.text.len();
                let cover = if whole {
                    Coverage::Whole
                } else {
                    Coverage::Part
                };
                found(
                    pattern,
                    cover,
                    Variations::NONE,
                    (start, start + pattern.text.len()),
                );
            }
        }
    }
}

/// What a first look at a text shows.
#[derive(Debug, Clone, Copy, Default)]
struct TextScan {
    /// An identifier may stand in it.
    may_occur: bool,
    /// It may hold base64 or hex.
    has_long_word: bool,
}

/// False if `text` has too few digits for a telephone number.
fn may_hold_number(text: &str) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == 0xef;
    text.bytes()
        .filter(|byte| is_digit(byte))
        .take(MIN_DIGITS)
        .count()
        == MIN_DIGITS
}

/// The text of an item of a list: itself, or the longest one of a map, as a block of content has
/// it.
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

/// True if `bytes` aren't all text.
fn is_binary(bytes: &[u8]) -> bool {
    let is_text = |text: &str| {
        text.bytes()
            .all(|byte| byte >= b' ' || byte.is_ascii_whitespace())
    };
    !std::str::from_utf8(bytes).is_ok_and(is_text)
}

/// What it means that `pattern` covers so much of a text at `field_roles`, by variations of
/// `classes`.
fn reason_for(
    place: FieldRole,
    pattern: &IdentifierPattern,
    cover: Coverage,
    classes: Variations,
) -> Option<Reason> {
    if classes.contains(Variation::Initials) {
        return Some(Reason::Initials);
    }
    let mention = pattern.distinctive.then_some(Reason::Mention);
    match (place, cover) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::erase::Person;

    fn piece() -> impl Strategy<Value = &'static str> {
        let letters = [
            "ann",
            "ANN",
            "a",
            "n",
            "jos\u{e9}",
            "\u{ff21}nn",
            "4711",
            "7",
            "@",
            "?",
            "#",
            "\u{4f1f}",
        ];
        let joints = [
            " ", "-", "_", ":", ".", "\\n", "\\u0061", "\\", "\t", "\u{200b}", "\u{7f}", "\0",
        ];
        prop::sample::select([letters, joints].concat())
    }

    proptest! {
        #[test]
        fn no_text_that_names_somebody_is_passed_over(
            text in prop::collection::vec(piece(), 1..8),
            names in prop::collection::vec(prop::collection::vec(piece(), 1..4), 1..4),
            exact: bool,
        ) {
            let folding = if exact { Folding::Exact } else { Folding::Spellings };
            let identifiers = names.iter().map(|name| name.concat()).collect();
            let people = vec![Person { identifiers, ..Person::default() }];
            let matcher = IdentifierMatcher::new(&SubjectRequest { people, folding, ..SubjectRequest::default() });
            let text = text.concat();
            let mut found = 0;
            matcher.occurrences(&matcher.coarsest_form(&text), |_, _, _, _| found += 1);
            prop_assert!(found == 0 || matcher.scan_text(&text, &mut String::new()).may_occur);
        }
    }
}

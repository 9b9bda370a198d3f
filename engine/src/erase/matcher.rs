//! The one selector: does a grain name one of these people, and where?
//!
//! It reads the grain itself, never an index. Every string of the payload is looked at, known field or not, key or value,
//! however deep. Where it stands decides what a match means:
//!
//! | place | a match of the whole value | a match of a part |
//! |---|---|---|
//! | `user_id`, `subject`, `subject_did`, `entity_id`, the parties | selects | mention |
//! | `namespace`, tags | selects, also as one segment between colons | mention |
//! | any other value or key: object, map object, context, input, blocks, unknown fields | selects, if the identifier is distinctive | mention |
//! | words of closed vocabularies (`role`, `relation` …) | mention | mention |
//!
//! A mention begins and ends at the boundary of a word, so that `u-1` isn't found in `u-17`. Only in binary bytes that can't be
//! decoded, where a length before a text looks like a letter of it, longer identifiers need no boundary. Text with escapes
//! (JSON in a string) is read as it is written and as it is meant. Cost: one pass over the text, one look-up per word, whatever
//! the number of people.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{Field, Grain, RawValue};
use rustc_hash::FxBuildHasher;

use super::needles::Finder;
use super::place::{Place, place_of};
use super::reason::{Reason, Reasons};
use super::request::Request;
use super::sifter::Sifter;
use crate::index::Watchlist;
use crate::index::words::{WordFilter, each_word};
use crate::policy::{Mode, Policy};
use crate::text::fold::{Folding, is_blank, is_word, runs_together, unescaped};

/// The number of a person in the request; sessions, consents and addresses that belong to nobody have [`NOBODY`].
pub type PersonNumber = u32;

/// Stands for selectors that name no person.
pub const NOBODY: PersonNumber = u32::MAX;

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// A compiled request.
#[derive(Debug)]
pub struct Matcher {
    folding: Folding,
    patterns: Vec<Pattern>,
    /// Patterns by the word in them that the fewest others have.
    by_word: Map<Box<str>, Vec<u32>>,
    /// These words and those of sessions, consents and references: most texts hold none of them.
    watched: Arc<Watchlist>,
    /// Patterns of scripts without blanks, and those without any word: looked for everywhere.
    anywhere: Vec<u32>,
    /// Patterns that are long enough to be looked for in binary bytes, whatever stands next to them.
    loose: Finder,
    /// Numbers in grains are compared too.
    has_numbers: bool,
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

/// One identifier.
#[derive(Debug)]
struct Pattern {
    text: String,
    person: PersonNumber,
    /// Bytes before the word that it is filed under.
    lead: usize,
    /// A value that equals it is no coincidence.
    distinctive: bool,
    /// Hyphens and underscores next to it belong to the same identifier.
    joined: bool,
    is_did: bool,
}

/// How much of a text an identifier covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cover {
    Whole,
    /// All between two colons, or between one and an end.
    Segment,
    Part,
}

/// What was found in one grain.
#[derive(Debug, Default)]
pub struct Hits {
    /// Who, and why.
    pub people: Vec<(PersonNumber, Reasons)>,
    /// Values that equal an identifier, as they are written.
    pub spellings: Vec<String>,
    folded: String,
}

impl Hits {
    /// Forgets what was found.
    pub fn clear(&mut self) {
        self.people.clear();
        self.spellings.clear();
    }

    pub(super) fn add(&mut self, person: PersonNumber, reason: Reason) {
        match self.people.iter_mut().find(|(known, _)| *known == person) {
            Some((_, reasons)) => reasons.insert(reason),
            None => self.people.push((person, reason.into())),
        }
    }
}

/// Bytes of an identifier from which on it needs no boundary in binary bytes.
const LOOSE: usize = 6;

/// Letters and digits from which on an identifier is distinctive, if it isn't a mere number.
const DISTINCTIVE: usize = 4;

/// Digits from which on a mere number is distinctive: telephone and account numbers are, ages and amounts aren't.
const DISTINCTIVE_DIGITS: usize = 7;

impl Matcher {
    /// Compiles `request`.
    pub fn new(request: &Request) -> Matcher {
        let mut matcher = Matcher {
            folding: request.folding,
            patterns: Vec::new(),
            by_word: Map::default(),
            watched: Arc::default(),
            anywhere: Vec::new(),
            loose: Finder::default(),
            has_numbers: false,
            sessions: Map::default(),
            consents: Map::default(),
            withdrawn: HashSet::default(),
            now: 0,
            addresses: Map::default(),
            references: HashSet::default(),
        };
        for (number, person) in request.people.iter().enumerate() {
            let number = number as PersonNumber;
            person.identifiers.iter().for_each(|identifier| matcher.add(identifier, number));
            let sessions = person.sessions.iter().map(|session| (request.folding.folded(session), number));
            matcher.sessions.extend(sessions);
        }
        let mut watched = matcher.index();
        matcher.sessions.keys().for_each(|session| watched.add(session));
        request.consents.iter().for_each(|consent| watched.add(&consent.to_string()));
        matcher.watched = Arc::new(watched);
        matcher.consents.extend(request.consents.iter().map(|consent| (consent.to_string(), NOBODY)));
        matcher.addresses.extend(request.addresses.iter().map(|address| (*address.as_bytes(), NOBODY)));
        matcher
    }

    fn add(&mut self, identifier: &str, person: PersonNumber) {
        let text = self.folding.folded(identifier);
        // Identifiers come person by person.
        let mut own = self.patterns.iter().rev().take_while(|known| known.person == person);
        if text.is_empty() || own.any(|known| known.text == text) {
            return;
        }
        let counted = text.chars().filter(|letter| is_word(*letter)).count();
        let digits_only = text.chars().all(|letter| !letter.is_alphabetic());
        let ideographs = text.chars().any(runs_together);
        let enough = if digits_only { DISTINCTIVE_DIGITS } else { DISTINCTIVE };
        self.has_numbers |= text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let id_like = text.chars().any(|letter| letter.is_numeric() || matches!(letter, '-' | '_' | ':' | '@'));
        let distinctive = counted >= enough || ideographs && counted >= 2;
        self.patterns.push(Pattern {
            person,
            lead: 0,
            distinctive,
            joined: id_like,
            is_did: text.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("did:")),
            text,
        });
    }

    /// Files every pattern under the word of it that the fewest patterns have: of ten thousand names many begin alike. Answers
    /// these words.
    fn index(&mut self) -> Watchlist {
        let mut watched = Watchlist::default();
        let mut sharing: Map<&str, u32> = Map::default();
        let all = self.patterns.iter().flat_map(|pattern| words(&pattern.text));
        all.for_each(|(_, word)| *sharing.entry(word).or_default() += 1);
        let mut leads = Vec::with_capacity(self.patterns.len());
        for (number, pattern) in (0..).zip(&self.patterns) {
            let rarest = words(&pattern.text).min_by_key(|(start, word)| (sharing.get(word), *start));
            match rarest.filter(|_| !pattern.text.chars().any(runs_together)) {
                Some((_, word)) => {
                    watched.add_words(word);
                    self.by_word.entry(word.into()).or_default().push(number);
                }
                None => {
                    watched.add(&pattern.text);
                    self.anywhere.push(number);
                }
            }
            leads.push(rarest.map_or(0, |(start, _)| start));
        }
        self.patterns.iter_mut().zip(leads).for_each(|(pattern, lead)| pattern.lead = lead);
        let loose = (0..).zip(&self.patterns).filter(|(_, it)| it.distinctive && it.text.len() >= LOOSE);
        self.loose = Finder::new(loose.map(|(number, pattern)| (number, pattern.text.clone().into_bytes())));
        watched
    }

    /// Adds consents that were found to be withdrawn; grains whose policy is `consent_cascade` at `now` (seconds since 1970) go
    /// with them (§23.2).
    pub fn add_withdrawn(&mut self, consents: impl IntoIterator<Item = String>, now: u64) {
        let watched = Arc::make_mut(&mut self.watched);
        self.withdrawn.extend(consents.into_iter().inspect(|consent| watched.add(consent)));
        self.now = now;
    }

    /// Adds addresses whose mention anywhere in a grain, in text too, is to be reported as [`Reason::Related`].
    pub fn add_references(&mut self, addresses: impl IntoIterator<Item = ContentAddress>) {
        let watched = Arc::make_mut(&mut self.watched);
        self.references.extend(addresses.into_iter().inspect(|address| watched.add(&address.to_string())));
    }

    /// Identifiers too short or plain to be looked for in text, with the number of their person.
    pub fn indistinct(&self) -> impl Iterator<Item = (&str, PersonNumber)> {
        self.patterns.iter().filter(|pattern| !pattern.distinctive).map(|pattern| (&*pattern.text, pattern.person))
    }

    /// Words of which a grain has one if [`Matcher::find`] finds anything in it.
    pub(crate) fn watched(&self) -> &Arc<Watchlist> {
        &self.watched
    }

    /// How many identifiers it looks for.
    pub fn identifiers(&self) -> usize {
        self.patterns.len()
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
        let texts = self.patterns.iter().map(|pattern| &pattern.text);
        let keys = self.sessions.keys().chain(self.consents.keys()).chain(&self.withdrawn);
        let mut addresses = self.addresses.keys().map(|address| ContentAddress::from_digest(*address));
        texts.chain(keys).any(|text| filter.may_hold(text))
            || addresses.any(|address| filter.may_hold(&address.to_string()))
            || self.references.iter().any(|address| filter.may_hold(&address.to_string()))
    }

    /// What tells without decoding that nothing is found in a grain, if there is nothing to be found that it can't see.
    pub(crate) fn sifter(&self) -> Option<Sifter> {
        if self.has_addresses() || self.has_numbers || !self.anywhere.is_empty() {
            return None;
        }
        let references: Vec<String> = self.references.iter().map(ToString::to_string).collect();
        let keys = self.sessions.keys().chain(self.consents.keys()).chain(&self.withdrawn).chain(&references);
        let texts = self.patterns.iter().map(|pattern| &pattern.text).chain(keys);
        Sifter::new(texts.map(String::as_str), self.folding)
    }

    /// True if the request names addresses.
    pub fn has_addresses(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Adds to `hits` if the request names `address`.
    pub fn address(&self, address: &ContentAddress, hits: &mut Hits) {
        if let Some(person) = self.addresses.get(address.as_bytes()) {
            hits.add(*person, Reason::Address);
        }
    }

    /// Adds to `hits` whom it means that `signer` signed a grain.
    pub fn signer(&self, signer: &str, hits: &mut Hits) {
        self.text(Place::Identity(Reason::Party), signer, hits);
    }

    /// Adds to `hits` who `grain` is of.
    pub fn find(&self, grain: &Grain<'_>, hits: &mut Hits) {
        if self.only_addresses() {
            return;
        }
        for (field, value) in grain.known() {
            self.value(place_of(*field), value, hits);
        }
        for (key, value) in grain.unknown() {
            self.text(Place::Value(Reason::Value), key, hits);
            self.value(Place::Value(Reason::Value), value, hits);
        }
        if let Some(basis) = grain.text(Field::ProcessingBasis).filter(|_| !self.withdrawn.is_empty())
            && self.withdrawn.contains(basis.strip_prefix("sha256:").unwrap_or(basis))
            && Policy::of(grain).effective(self.now) == Mode::ConsentCascade
        {
            hits.add(NOBODY, Reason::Consent);
        }
    }

    fn value(&self, place: Place, value: &RawValue<'_>, hits: &mut Hits) {
        // Inside a map the name of the field says no more whom a value is about.
        let inner = match place {
            Place::Value(Reason::Object) => Place::Value(Reason::Value),
            place => place,
        };
        match value {
            RawValue::Text(text) => self.text(place, text, hits),
            RawValue::Array(encoded) => encoded.items().for_each(|item| self.value(place, &item, hits)),
            RawValue::Map(encoded) => encoded.entries().for_each(|(key, value)| {
                self.text(inner, key, hits);
                self.value(inner, &value, hits);
            }),
            RawValue::Bytes(bytes) => self.bytes(bytes, Reason::Mention, hits),
            RawValue::Int(number) if self.has_numbers => self.text(place, &number.to_string(), hits),
            RawValue::BigInt(number) if self.has_numbers => self.text(place, &number.to_string(), hits),
            _ => {}
        }
    }

    /// Looks for identifiers and references in bytes that may hold text anywhere.
    pub fn bytes(&self, bytes: &[u8], reason: Reason, hits: &mut Hits) {
        let mut found = Vec::new();
        for chunk in bytes.utf8_chunks() {
            if !self.references.is_empty() && self.refers(chunk.valid()) {
                hits.add(NOBODY, Reason::Related);
            }
            self.each_form(chunk.valid(), &mut hits.folded, |pattern, _| {
                if pattern.distinctive {
                    found.push(pattern.person);
                }
            });
        }
        found.into_iter().for_each(|person| hits.add(person, reason));
    }

    /// [`Matcher::bytes`] for bytes that can't be decoded: in binary ones a length or a marker looks like a letter of the text
    /// that it stands before, so that longer identifiers are found whatever stands next to them.
    pub fn undecodable(&self, bytes: &[u8], hits: &mut Hits) {
        self.bytes(bytes, Reason::Undecodable, hits);
        if !is_binary(bytes) {
            return;
        }
        for chunk in bytes.utf8_chunks() {
            self.folding.fold(chunk.valid(), &mut hits.folded);
            let folded = std::mem::take(&mut hits.folded);
            self.loose.find(folded.as_bytes(), |number, _| {
                if let Some(pattern) = self.pattern(number) {
                    hits.add(pattern.person, Reason::Undecodable);
                }
            });
            hits.folded = folded;
        }
    }

    /// Adds to `hits` whom a value names that isn't part of a grain.
    pub fn stray(&self, value: &RawValue<'_>, hits: &mut Hits) {
        self.value(Place::Value(Reason::Undecodable), value, hits);
    }

    /// True if `text` names somebody distinctively: as a whole or as a mention.
    pub fn names_somebody(&self, text: &str, hits: &mut Hits) -> bool {
        hits.clear();
        self.text(Place::Identity(Reason::Party), text, hits);
        !hits.people.is_empty()
    }

    fn text(&self, place: Place, text: &str, hits: &mut Hits) {
        match place {
            Place::Basis => {
                if let Some(person) = self.consents.get(text.strip_prefix("sha256:").unwrap_or(text)) {
                    hits.add(*person, Reason::Consent);
                }
            }
            Place::Session if !self.sessions.is_empty() => {
                if let Some(person) = self.sessions.get(&self.folding.folded(text)) {
                    hits.add(*person, Reason::Session);
                }
            }
            _ => {}
        }
        if !self.references.is_empty() && self.refers(text) {
            hits.add(NOBODY, Reason::Related);
        }
        let mut folded = std::mem::take(&mut hits.folded);
        let mut whole = false;
        self.each_form(text, &mut folded, |pattern, cover| {
            if let Some(reason) = meaning(place, pattern, cover) {
                whole |= cover == Cover::Whole && !matches!(reason, Reason::Mention | Reason::Ambiguous);
                hits.add(pattern.person, reason);
            }
        });
        hits.folded = folded;
        if whole {
            hits.spellings.push(text.to_owned());
        }
    }

    /// True if `text` holds one of the references.
    fn refers(&self, text: &str) -> bool {
        let is_reference =
            // The proof looks for addresses in any case.
            |hex: &str| hex.to_ascii_lowercase().parse().is_ok_and(|address| self.references.contains(&address));
        let mut digits = 0;
        text.len() >= ContentAddress::TEXT_LENGTH
            && text.bytes().enumerate().any(|(at, byte)| {
                digits = if byte.is_ascii_hexdigit() { digits + 1 } else { 0 };
                digits >= ContentAddress::TEXT_LENGTH
                    && text.get(at + 1 - ContentAddress::TEXT_LENGTH..=at).is_some_and(is_reference)
            })
    }

    /// False if no identifier can stand in `text`. Plain ASCII means what it says; of anything else the runs between blanks are
    /// folded to `folded`, one by one, as folding the whole would.
    fn may_occur(&self, text: &str, folded: &mut String) -> bool {
        if text.contains('\\') {
            return true;
        }
        let is_ascii = text.is_ascii();
        let mut may =
            self.anywhere.iter().filter_map(|number| self.pattern(*number)).any(|it| it.text.is_ascii() || !is_ascii);
        let mut look = |text: &str| each_word(text, |_, hash| may = may || self.watched.has(hash));
        match is_ascii {
            true => look(text),
            false => text.split(is_blank).for_each(|run| match run.is_ascii() {
                true => look(run),
                false => {
                    self.folding.fold(run, folded);
                    look(folded);
                }
            }),
        }
        may
    }

    fn pattern(&self, number: u32) -> Option<&Pattern> {
        self.patterns.get(number as usize)
    }

    /// Calls `found` for every identifier that stands in `text` as it is written, or as it is meant if it has escapes.
    fn each_form(&self, text: &str, folded: &mut String, mut found: impl FnMut(&Pattern, Cover)) {
        if !self.may_occur(text, folded) {
            return;
        }
        self.folding.fold(text, folded);
        self.occurrences(folded, &mut found);
        for meant in unescaped(text) {
            self.folding.fold(&meant, folded);
            self.occurrences(folded, &mut found);
        }
    }

    /// Calls `found` for every identifier that stands in `text`, which is folded.
    fn occurrences(&self, text: &str, mut found: impl FnMut(&Pattern, Cover)) {
        let pattern = |number: &u32| self.pattern(*number);
        if !self.by_word.is_empty() {
            for (start, word) in words(text) {
                for pattern in self.by_word.get(word).into_iter().flatten().filter_map(pattern) {
                    if let Some(start) = start.checked_sub(pattern.lead)
                        && let Some(cover) = pattern.covers(text, start)
                    {
                        found(pattern, cover);
                    }
                }
            }
        }
        for pattern in self.anywhere.iter().filter_map(pattern) {
            if let Some(start) = text.find(&pattern.text) {
                let whole = start == 0 && text.len() == pattern.text.len();
                found(pattern, if whole { Cover::Whole } else { Cover::Part });
            }
        }
    }
}

/// True if `bytes` aren't all text.
fn is_binary(bytes: &[u8]) -> bool {
    let is_text = |text: &str| text.bytes().all(|byte| byte >= b' ' || byte.is_ascii_whitespace());
    !std::str::from_utf8(bytes).is_ok_and(is_text)
}

/// What it means that `pattern` covers so much of a text at `place`.
fn meaning(place: Place, pattern: &Pattern, cover: Cover) -> Option<Reason> {
    let mention = pattern.distinctive.then_some(Reason::Mention);
    match (place, cover) {
        (Place::Identity(reason), Cover::Whole) => Some(reason),
        (Place::Segments, Cover::Whole | Cover::Segment) if pattern.distinctive => Some(Reason::Namespace),
        (Place::Segments, Cover::Whole | Cover::Segment) => Some(Reason::Ambiguous),
        (Place::Value(reason), Cover::Whole) if pattern.distinctive => Some(reason),
        (Place::Value(_), Cover::Whole) => Some(Reason::Ambiguous),
        _ => mention,
    }
}

impl Pattern {
    /// How much of `text` it covers where it begins at `start`; `None` if it doesn't stand there by itself.
    fn covers(&self, text: &str, start: usize) -> Option<Cover> {
        let rest = text.get(start..)?.strip_prefix(&*self.text)?;
        let before = text.get(..start)?;
        if before.is_empty() && (rest.is_empty() || self.is_did && rest.starts_with(['#', '/', '?', ';'])) {
            return Some(Cover::Whole);
        }
        let opens = before.is_empty() || !self.goes_on(&mut before.chars().rev());
        let closes = rest.is_empty() || !self.goes_on(&mut rest.chars());
        if !opens || !closes {
            return None;
        }
        let segment = (before.is_empty() || before.ends_with(':')) && (rest.is_empty() || rest.starts_with(':'));
        Some(if segment { Cover::Segment } else { Cover::Part })
    }

    /// True if the letters next to it belong to the same word or identifier.
    fn goes_on(&self, letters: &mut dyn Iterator<Item = char>) -> bool {
        match letters.next() {
            Some('-' | '_') if self.joined => letters.next().is_some_and(is_word),
            Some(letter) => is_word(letter),
            None => false,
        }
    }
}

/// The words of `text` and where each begins.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = text.get(from..)?;
        let start = from + rest.find(is_word)?;
        let tail = text.get(start..)?;
        let end = start + tail.find(|letter| !is_word(letter)).unwrap_or(tail.len());
        from = end;
        Some((start, text.get(start..end)?))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::erase::Person;

    fn piece() -> impl Strategy<Value = &'static str> {
        let letters = ["ann", "ANN", "a", "n", "jos\u{e9}", "\u{ff21}nn", "4711", "7", "@", "?", "#", "\u{4f1f}"];
        let joints = [" ", "-", "_", ":", ".", "\\n", "\\u0061", "\\", "\t", "\u{200b}", "\u{7f}", "\0"];
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
            let matcher = Matcher::new(&Request { people, folding, ..Request::default() });
            let text = text.concat();
            let mut found = 0;
            for form in std::iter::once(text.clone()).chain(unescaped(&text)) {
                matcher.occurrences(&folding.folded(&form), |_, _| found += 1);
            }
            prop_assert!(found == 0 || matcher.may_occur(&text, &mut String::new()));
        }
    }
}

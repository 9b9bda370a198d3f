//! Compiles a request into an [`IdentifierMatcher`].

use std::collections::HashSet;
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use rustc_hash::FxHashMap;

use super::name_chains::NameRuns;
use super::{IdentifierMatcher, NO_PERSON, PersonNumber};
use crate::erase::pattern_search::MultiFinder;
use crate::erase::patterns::{IdentifierPattern, compile};
use crate::erase::phone::PhoneNumber;
use crate::erase::request::SubjectRequest;
use crate::erase::variations::Variation;
use crate::index::Watchlist;
use crate::text::confusables::LetterEquivalence;
use crate::text::fold::Folding;

/// Minimal length in bytes of an identifier that is found in binary bytes without a word boundary.
const UNBOUNDED_MIN_BYTES: usize = 6;

impl IdentifierMatcher {
    /// Compiles `request`.
    pub fn new(request: &SubjectRequest) -> IdentifierMatcher {
        let mut matcher = IdentifierMatcher::empty(request);
        for (number, person) in (0..).zip(&request.people) {
            person
                .identifiers
                .iter()
                .for_each(|identifier| matcher.add(identifier, number));
            let sessions = person.sessions.iter();
            let sessions = sessions.map(|session| (request.folding.folded(session), number));
            matcher.sessions.extend(sessions);
        }
        let mut watched = matcher.assign_anchors();
        matcher.watch_phones(&mut watched);
        matcher
            .sessions
            .keys()
            .for_each(|session| watched.add(&matcher.coarsest_form(session)));
        for consent in request.consents.iter().map(ToString::to_string) {
            watched.add(&consent);
            matcher.consents.insert(consent, NO_PERSON);
        }
        let addresses = request.addresses.iter();
        matcher
            .addresses
            .extend(addresses.map(|address| (*address.as_bytes(), NO_PERSON)));
        matcher.watched = Arc::new(watched);
        matcher.unbounded = matcher.unbounded_patterns();
        // Exact folding looks for identifiers as they are written.
        if request.folding != Folding::Exact {
            matcher.runs = NameRuns::of(&matcher.patterns);
        }
        matcher
    }

    /// Returns a matcher with the settings of `request`, and without patterns.
    fn empty(request: &SubjectRequest) -> IdentifierMatcher {
        let variations = request.searched();
        let on = |variation| variations.contains(variation);
        IdentifierMatcher {
            folding: request.folding,
            variations,
            equivalence: LetterEquivalence {
                accents: on(Variation::Accents),
                lookalikes: on(Variation::Homoglyphs),
                turkish_i: on(Variation::TurkishI),
            },
            takes_initials: request.extent.initials,
            patterns: Vec::new(),
            by_word: FxHashMap::default(),
            watched: Arc::default(),
            anywhere: Vec::new(),
            phones: FxHashMap::default(),
            runs: NameRuns::default(),
            unbounded: MultiFinder::default(),
            matches_integers: false,
            sessions: FxHashMap::default(),
            consents: FxHashMap::default(),
            withdrawn: HashSet::default(),
            now: 0,
            addresses: FxHashMap::default(),
            references: HashSet::default(),
        }
    }

    /// Adds the patterns of `identifier`, unless an equal identifier of `person` was added.
    fn add(&mut self, identifier: &str, person: PersonNumber) {
        let mut patterns = compile(identifier, self.folding, self.variations, person);
        let Some(own) = patterns.first() else { return };
        // Identifiers are added person by person.
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
                let known = self.phones.entry(phone.tail()).or_default();
                known.push((phone, number));
            }
        }
        self.patterns.append(&mut patterns);
    }

    /// Files every pattern under the word of it that the fewest patterns contain: of ten thousand
    /// names, many begin equivalence. Returns these words.
    fn assign_anchors(&mut self) -> Watchlist {
        let mut watched = Watchlist::default();
        let anchors = rarest_words(&self.patterns);
        for ((number, pattern), anchor) in (0..).zip(&mut self.patterns).zip(anchors) {
            match anchor {
                Some((start, length)) => {
                    pattern.set_anchor(start, length);
                    watched.add_words(pattern.anchor_word());
                    let word = pattern.anchor_word().into();
                    self.by_word.entry(word).or_default().push(number);
                }
                None => {
                    watched.add(&pattern.text);
                    self.anywhere.push(number);
                }
            }
        }
        watched
    }

    /// Adds all forms of the telephone numbers to `watched`.
    fn watch_phones(&self, watched: &mut Watchlist) {
        for (phone, _) in self.phones.values().flatten() {
            watched.add_number_tail(phone.tail());
            let integers = phone.integers().into_iter();
            integers.for_each(|number| watched.add_number(number));
        }
    }

    /// Returns a finder for the patterns that are found in binary bytes without a word boundary.
    fn unbounded_patterns(&self) -> MultiFinder {
        let is_unbounded = |pattern: &IdentifierPattern| {
            pattern.is_literal() && pattern.distinctive && pattern.text.len() >= UNBOUNDED_MIN_BYTES
        };
        let patterns = (0..).zip(&self.patterns);
        let patterns = patterns.filter(|(_, pattern)| is_unbounded(pattern));
        MultiFinder::new(
            patterns.map(|(number, pattern)| (number, pattern.text.clone().into_bytes())),
        )
    }

    /// Adds withdrawn consents. Grains that are based on them match if their policy is
    /// `consent_cascade` at `now`, in seconds since 1970 (§23.2).
    pub fn add_withdrawn(&mut self, consents: impl IntoIterator<Item = String>, now: u64) {
        let watched = Arc::make_mut(&mut self.watched);
        self.withdrawn
            .extend(consents.into_iter().inspect(|consent| watched.add(consent)));
        self.now = now;
    }

    /// Adds addresses of which any mention in a grain, including text, is reported as
    /// [`Reason::Related`](crate::erase::Reason::Related).
    pub fn add_references(&mut self, addresses: impl IntoIterator<Item = ContentAddress>) {
        let watched = Arc::make_mut(&mut self.watched);
        self.references.extend(
            addresses
                .into_iter()
                .inspect(|address| watched.add(&address.to_string())),
        );
    }
}

/// Returns, for each pattern, the start and length of its word that the fewest patterns contain;
/// `None` for patterns that are searched for everywhere.
fn rarest_words(patterns: &[IdentifierPattern]) -> Vec<Option<(usize, usize)>> {
    let mut frequencies: FxHashMap<&str, u32> = FxHashMap::default();
    let all = patterns.iter().flat_map(IdentifierPattern::anchors);
    all.for_each(|(_, word)| *frequencies.entry(word).or_default() += 1);
    let rarest = |pattern: &IdentifierPattern| {
        let anchors = pattern
            .anchors()
            .map(|(start, word)| (frequencies.get(word), start, word.len()));
        anchors.min().map(|(_, start, length)| (start, length))
    };
    patterns.iter().map(rarest).collect()
}

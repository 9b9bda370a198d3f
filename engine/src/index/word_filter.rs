//! The word filter of a segment: excludes words that are in none of its grains.
//!
//! A search for a person must find every mention, wherever a grain contains text, so an index of
//! some fields doesn't suffice. This filter contains every word of every key and value at any
//! depth, of the rows' addresses, of what they supersede, of envelopes and signers, and of bytes
//! that can't be decoded. It is a Bloom filter: a word that isn't in the filter is in no grain; a
//! word that is in the filter is probably in a grain. Its header has the other facts that a survey
//! needs of a segment that it doesn't read.
//!
//! ```text
//! "GMWORD03"    magic                                            8
//! n             rows                                             u64
//! u             rows that can't be decoded                       u64
//! flags         1 has a policy that reaches other grains,        u64
//!               2 has a withdrawal, 4 the filter says nothing
//! m             words of 64 bits in the filter                   u64
//! filter                                                         u64 × m
//! checksum      BLAKE3 of all before                             32
//! ```
//!
//! Integers are little-endian. Words are lower case, and folded in two ways by
//! [`crate::text::fold`]: exactly, and to the coarsest form, without accents and with one letter
//! for those that look alike. In unsegmented scripts each letter is a word. Text with escapes is
//! added as it is written and unescaped; encoded text is also added decoded
//! (`crate::text::encodings`). A number that is written in groups is added by its last seven digits
//! at the end of every group.
//!
//! A filter of another version (`GMWORD02` had neither of the latter two) isn't used: its segment
//! is read, and `reindex` rebuilds the filter.
//!
//! Sealed segments have no filter, because it would reveal words.

use std::error::Error;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::grain::{Field, Grain, RawValue};

use super::watchlist::Watchlist;
use crate::policy::Policy;
use crate::segment::Sidecar;
use crate::text::confusables::LetterEquivalence;
use crate::text::encodings::{LONG_WORD, each_decoded, has_marks};
use crate::text::fold::{Folding, is_blank, is_unsegmented, is_word, unescaped};
use crate::text::numbers::{MIN_DIGITS, each_number};

/// Name of the sidecar file.
pub const WORDS_FILE: &str = "words.bin";

const MAGIC: &[u8; 8] = b"GMWORD03";
const HEADER: usize = 40;
const CHECKSUM: usize = 32;

/// Bits of the filter per word. With [`PROBES`] hash functions, the false-positive rate is 0.3 %.
const BITS: usize = 12;
const PROBES: u64 = 8;

/// Minimal number of 64-bit words of a filter, because very small filters have erratic
/// false-positive rates.
const LEAST_WORDS: usize = 32;

/// Maximal number of addresses that are searched for in one run of hex digits. A longer run
/// disables the filter.
const WINDOWS: usize = 4_096;

const REACHING: u64 = 1;
const WITHDRAWALS: u64 = 2;
const SAYS_NOTHING: u64 = 4;

/// The words of some rows, collected while they are written.
#[derive(Debug, Default)]
pub struct WordSet {
    /// Hashes of the words, with duplicates until the set is closed.
    words: Vec<u64>,
    /// Number of distinct words at the last compaction.
    distinct: usize,
    recent: Recent,
    rows: u64,
    undecodable: u64,
    flags: u64,
    folded: String,
    /// For each field its last text, and whether that has a word of the watchlist: neighbouring
    /// rows often repeat values.
    last: Vec<(String, bool)>,
    watched: Option<Arc<Watchlist>>,
    /// Whether the grain that is being added has a word of the watchlist.
    met: bool,
    /// Whether the text that is being added has a word that may be base64 or hex.
    has_long_word: bool,
    /// Number of digits in its words that begin with a digit.
    digits: usize,
}

/// Cache of recently added words, indexed by hash, because most words repeat recent ones. The
/// lowest bit of an entry is whether the word is in the watchlist; the lowest bit of the hash is
/// implied by the index.
#[derive(Debug)]
struct Recent(Box<[u64; RECENT]>);

const RECENT: usize = 16_384;

const WATCHED: u64 = 1;

/// Maximal length in bytes of a text that is kept for comparison with the next grain's.
const REPEATED: usize = 128;

/// Minimal number of words for a compaction.
const LEAST_COMPACTED: usize = 1 << 18;

impl Default for Recent {
    fn default() -> Recent {
        // No hash of an entry's own index equals its initial value.
        Recent(Box::new(std::array::from_fn(|place| {
            place as u64 ^ (WATCHED << 1)
        })))
    }
}

impl Recent {
    /// Returns whether `hash` is in the watchlist, if it was added recently.
    fn is_watched(&self, hash: u64) -> Option<bool> {
        let found = self.0[hash as usize % RECENT];
        ((found ^ hash) & !WATCHED == 0).then_some(found & WATCHED != 0)
    }

    fn add(&mut self, hash: u64, is_watched: bool) {
        self.0[hash as usize % RECENT] = hash & !WATCHED | u64::from(is_watched);
    }
}

impl WordSet {
    /// The columns that it is built from.
    pub const COLUMNS: [&'static str; 5] = [
        IdentityColumn::ContentAddress.name(),
        IdentityColumn::Blob.name(),
        IdentityColumn::Envelope.name(),
        IdentityColumn::SignerDid.name(),
        IdentityColumn::Supersedes.name(),
    ];

    /// Adds the words of all columns except the blobs. Returns `None` if columns are missing. The
    /// blobs are added by [`WordSet::add`].
    pub(super) fn add_beside_blobs(&mut self, batch: &RecordBatch) -> Option<()> {
        let [addresses, _, envelopes, signers, supersedes] =
            WordSet::COLUMNS.map(|name| batch.column_by_name(name));
        let (addresses, signers) = (
            addresses?.as_string_opt::<i32>()?,
            signers?.as_string_opt::<i32>()?,
        );
        let envelopes = envelopes?.as_binary_opt::<i32>()?;
        let supersedes = supersedes?.as_list_opt::<i32>()?;
        // The batch may be a slice, whose lists share the items of the whole.
        let [start, end] = [
            supersedes.value_offsets().first()?,
            supersedes.value_offsets().last()?,
        ]
        .map(|at| *at as usize);
        let supersedes = supersedes.values().slice(start, end - start);
        let supersedes = supersedes.as_string_opt::<i32>()?;
        self.rows += batch.num_rows() as u64;
        // Addresses contain neither escapes nor encodings.
        addresses
            .iter()
            .chain(supersedes)
            .flatten()
            .for_each(|text| self.written(text));
        signers.iter().flatten().for_each(|text| self.text(text));
        envelopes
            .iter()
            .flatten()
            .for_each(|bytes| self.bytes(bytes));
        Some(())
    }

    /// Sets the watchlist for the blobs that are added from now on.
    pub(super) fn watch(&mut self, list: Option<&Arc<Watchlist>>) {
        if self.watched.as_ref().map(Arc::as_ptr) != list.map(Arc::as_ptr) {
            self.watched = list.cloned();
            // The cached results belong to the previous list.
            self.last.clear();
            self.recent = Recent::default();
        }
    }

    /// Adds the words of a blob, decoded as `grain` if that is possible. Returns whether it has a
    /// word of the watchlist.
    pub(super) fn add(&mut self, blob: &[u8], grain: Option<&Grain<'_>>) -> bool {
        self.met = self
            .watched
            .as_ref()
            .is_some_and(|list| list.has_wordless());
        match grain {
            Some(grain) => self.grain(grain),
            None => {
                self.undecodable += 1;
                self.bytes(blob);
            }
        }
        self.met
    }

    /// Removes duplicates if there are many, so that the set isn't much larger than its distinct
    /// words.
    pub(super) fn compact(&mut self) {
        if self.words.len() > (2 * self.distinct).max(LEAST_COMPACTED) {
            self.sort();
        }
    }

    /// Finishes the set: sorts it and removes duplicates.
    pub(super) fn closed(mut self) -> WordSet {
        self.watched = None;
        self.sort();
        self.words.shrink_to_fit();
        self
    }

    fn sort(&mut self) {
        // Most of it is sorted already, which the stable sort makes use of.
        self.words.sort();
        self.words.dedup();
        self.distinct = self.words.len();
    }

    fn grain(&mut self, grain: &Grain<'_>) {
        for (field, value) in grain.known() {
            match value {
                RawValue::Text(text) if text.len() <= REPEATED => self.repeated(*field, text),
                value => self.value(value),
            }
        }
        for (key, value) in grain.unknown() {
            self.text(key);
            self.value(value);
        }
        if grain.get(Field::InvalidationPolicy).is_some() {
            let scope = Policy::of(grain).scope;
            self.flags |= if scope.reaches_derived() || scope.reaches_lineage() {
                REACHING
            } else {
                0
            };
        }
        if grain
            .get(Field::IsWithdrawal)
            .and_then(|value| value.as_bool())
            == Some(true)
        {
            self.flags |= WITHDRAWALS;
        }
    }

    /// Adds `text`, the value of `field`, unless the previous grain has the same value.
    fn repeated(&mut self, field: Field, text: &str) {
        let place = field as usize;
        if self.last.len() <= place {
            self.last.resize_with(Field::COUNT, Default::default);
        }
        if self.last[place].0 != text {
            let met = std::mem::replace(&mut self.met, false);
            self.text(text);
            let last = &mut self.last[place];
            last.0.clear();
            last.0.push_str(text);
            last.1 = std::mem::replace(&mut self.met, met);
        }
        self.met |= self.last[place].1;
    }

    fn value(&mut self, value: &RawValue<'_>) {
        match value {
            RawValue::Text(text) => self.text(text),
            RawValue::Bytes(bytes) => self.bytes(bytes),
            RawValue::Array(items) => items.items().for_each(|item| self.value(&item)),
            RawValue::Map(entries) => entries.entries().for_each(|(key, value)| {
                self.text(key);
                self.value(&value);
            }),
            RawValue::Int(number) => self.word(hash_of_number(number.unsigned_abs())),
            RawValue::BigInt(number) => self.word(hash_of_number(*number)),
            RawValue::Nil | RawValue::Bool(_) | RawValue::Float(_) => {}
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        bytes
            .utf8_chunks()
            .for_each(|chunk| self.text(chunk.valid()));
    }

    fn text(&mut self, text: &str) {
        self.form(text);
        for meant in unescaped(text) {
            self.form(&meant);
        }
    }

    /// Adds the words of `text`, and those of the texts that it encodes.
    fn form(&mut self, text: &str) {
        self.has_long_word = false;
        self.written(text);
        if std::mem::take(&mut self.has_long_word) || has_marks(text) {
            each_decoded(text, |_, plain| {
                self.written(plain);
                unescaped(plain).for_each(|meant| self.written(&meant));
            });
        }
    }

    fn written(&mut self, text: &str) {
        self.digits = 0;
        if text.is_ascii() {
            self.folded_text(text);
        } else {
            let mut folded = std::mem::take(&mut self.folded);
            for run in text.split(is_blank) {
                if run.is_ascii() {
                    self.folded_text(run);
                    continue;
                }
                Folding::Spellings.fold_equivalent(LetterEquivalence::ALL, run, &mut folded);
                self.folded_text(&folded);
                Folding::Exact.fold(run, &mut folded);
                self.folded_text(&folded);
            }
            self.folded = folded;
        }
        if self.digits >= MIN_DIGITS {
            each_number(text, |number| self.word(hash_of_tail(number.tail())));
        }
    }

    fn folded_text(&mut self, text: &str) {
        each_word(text, |word, hash| {
            self.word(hash);
            if word.len() >= LONG_WORD {
                self.has_long_word = true;
                if word.len() > ContentAddress::TEXT_LENGTH {
                    self.addresses_in(word);
                }
            }
            if word.as_bytes().first().is_some_and(u8::is_ascii_digit) {
                self.digits += word.len();
            }
        });
        if !text.is_ascii() {
            text.chars()
                .filter(|letter| is_unsegmented(*letter))
                .for_each(|letter| self.word(hash_of_letter(letter)));
        }
    }

    fn word(&mut self, hash: u64) {
        self.met |= self.recent.is_watched(hash).unwrap_or_else(|| {
            let is_watched = self.watched.as_ref().is_some_and(|list| list.has(hash));
            self.recent.add(hash, is_watched);
            self.words.push(hash);
            is_watched
        });
    }

    /// Adds every window of a run of hex digits that is longer than an address, because an address
    /// may be in the middle of it.
    fn addresses_in(&mut self, word: &str) {
        for run in word.split(|letter: char| !letter.is_ascii_hexdigit()) {
            let Some(last) = run.len().checked_sub(ContentAddress::TEXT_LENGTH) else {
                continue;
            };
            if last > WINDOWS {
                self.flags |= SAYS_NOTHING;
                self.met |= self.watched.is_some();
                return;
            }
            let windows = (0..=last).filter_map(|at| run.get(at..at + ContentAddress::TEXT_LENGTH));
            windows.for_each(|window| self.word(hash_of(window)));
        }
    }
}

/// Calls `found` with every word of `text` and the hash of its lower-case form.
pub(crate) fn each_word(text: &str, mut found: impl FnMut(&str, u64)) {
    if !text.is_ascii() {
        for word in text
            .split(|letter| !is_word(letter))
            .filter(|word| !word.is_empty())
        {
            found(word, hash_of(word));
        }
        return;
    }
    let (mut start, mut hash) = (0, OFFSET);
    for (at, byte) in text.bytes().enumerate() {
        match WORD_BYTES[usize::from(byte)] {
            0 => {
                if start < at {
                    found(text.get(start..at).unwrap_or_default(), finish(hash));
                    hash = OFFSET;
                }
                start = at + 1;
            }
            lower => hash = step(hash, lower),
        }
    }
    if start < text.len() {
        found(text.get(start..).unwrap_or_default(), finish(hash));
    }
}

/// The ASCII letters and digits in lower case; 0 for other bytes, which separate words.
static WORD_BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            bytes[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    bytes
};

/// FNV-1a with a finaliser that spreads it over all bits. It is part of the file format.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

const fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
}

const fn finish(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Returns the hash of the lower-case form of `word`.
fn hash_of(word: &str) -> u64 {
    if word.is_ascii() {
        return finish(
            word.bytes()
                .fold(OFFSET, |hash, byte| step(hash, byte.to_ascii_lowercase())),
        );
    }
    let mut letters = [0; 4];
    let lower = word.chars().flat_map(char::to_lowercase);
    finish(lower.fold(OFFSET, |hash, letter| {
        letter.encode_utf8(&mut letters).bytes().fold(hash, step)
    }))
}

/// Returns the hash of the decimal digits of a number.
pub(super) fn hash_of_number(number: u64) -> u64 {
    let mut digits = [0; 20];
    let (mut rest, mut start) = (number, digits.len());
    while start == digits.len() || rest > 0 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    finish(
        digits[start..]
            .iter()
            .fold(OFFSET, |hash, digit| step(hash, *digit)),
    )
}

/// Returns the hash of a number's last digits.
pub(super) fn hash_of_tail(tail: u32) -> u64 {
    finish(
        tail.to_le_bytes()
            .into_iter()
            .chain(*b"tail")
            .fold(OFFSET, step),
    )
}

pub(super) fn hash_of_letter(letter: char) -> u64 {
    hash_of(letter.encode_utf8(&mut [0; 4]))
}

/// Returns the bits of a word in a filter of `words` words.
fn bits(hash: u64, words: usize) -> impl Iterator<Item = (usize, u64)> {
    let stride = hash.rotate_left(32) | 1;
    let count = (words as u128) << 6;
    (0..PROBES).map(move |probe| {
        let place = (u128::from(hash.wrapping_add(probe.wrapping_mul(stride))) * count) >> 64;
        ((place >> 6) as usize, 1 << (place & 63))
    })
}

/// Returns the bytes of the filter for a segment whose rows have the words of `sets`, which are
/// closed.
pub fn build(sets: &[WordSet]) -> Vec<u8> {
    let mut all: Vec<u64> = Vec::with_capacity(sets.iter().map(|set| set.words.len()).sum());
    sets.iter().for_each(|set| all.extend(&set.words));
    // Each set is sorted: the stable sort merges them.
    all.sort();
    all.dedup();
    let mut filter = vec![0u64; (all.len() * BITS).div_ceil(64).max(LEAST_WORDS)];
    let words = filter.len();
    for hash in all {
        for (word, bit) in bits(hash, words) {
            if let Some(word) = filter.get_mut(word) {
                *word |= bit;
            }
        }
    }
    let sum = |part: fn(&WordSet) -> u64| sets.iter().map(part).sum::<u64>();
    let flags = sets.iter().fold(0, |flags, set| flags | set.flags);
    let mut out = Vec::with_capacity(HEADER + words * 8 + CHECKSUM);
    out.extend(MAGIC);
    for number in [
        sum(|set| set.rows),
        sum(|set| set.undecodable),
        flags,
        words as u64,
    ]
    .iter()
    .chain(&filter)
    {
        out.extend(number.to_le_bytes());
    }
    out.extend(blake3::hash(&out).as_bytes());
    out
}

/// Why a word filter can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the word filter is damaged: {0}")]
pub struct DamagedFilter(&'static str);

impl DamagedFilter {
    /// The filter was built by the rules of another version.
    pub(super) const OTHER_VERSION: DamagedFilter = DamagedFilter("it was made by other rules");
}

/// The word filter of one segment, borrowing its file's bytes.
#[derive(Debug)]
pub struct WordFilter {
    bytes: SourceBytes,
    words: usize,
}

impl WordFilter {
    /// Opens the filter in `bytes` and verifies its checksum. Reads every byte.
    ///
    /// # Errors
    /// [`DamagedFilter`] if it is damaged or of another version.
    pub fn open(bytes: SourceBytes) -> Result<WordFilter, DamagedFilter> {
        let body = bytes
            .len()
            .checked_sub(CHECKSUM)
            .and_then(|length| bytes.split_at_checked(length));
        let (body, checksum) = body.ok_or(DamagedFilter("it is too short"))?;
        if blake3::hash(body).as_bytes() != checksum {
            return Err(DamagedFilter("its checksum is wrong"));
        }
        if !body.starts_with(MAGIC) {
            return Err(DamagedFilter::OTHER_VERSION);
        }
        let words = number(body, 32) as usize;
        if words == 0
            || words
                .checked_mul(8)
                .and_then(|length| length.checked_add(HEADER))
                != Some(body.len())
        {
            return Err(DamagedFilter("its length is wrong"));
        }
        Ok(WordFilter { words, bytes })
    }

    /// Returns the number of rows that can't be decoded, and so can't be attributed to a person.
    pub fn undecodable(&self) -> u64 {
        number(&self.bytes, 16)
    }

    /// Returns whether a grain of the segment has a policy whose scope reaches other grains.
    pub fn reaches_others(&self) -> bool {
        number(&self.bytes, 24) & REACHING != 0
    }

    /// Returns whether a grain of the segment withdraws a consent.
    pub fn has_withdrawals(&self) -> bool {
        number(&self.bytes, 24) & WITHDRAWALS != 0
    }

    /// Returns whether a text of the segment may contain `text`, which may be folded, as one or
    /// more whole words (in unsegmented scripts: at all).
    pub fn may_hold(&self, text: &str) -> bool {
        if number(&self.bytes, 24) & SAYS_NOTHING != 0 {
            return true;
        }
        if text.chars().any(is_unsegmented) {
            return text
                .chars()
                .filter(|letter| is_unsegmented(*letter))
                .all(|letter| self.has(hash_of_letter(letter)));
        }
        let mut all = true;
        each_word(text, |_, hash| all = all && self.has(hash));
        all
    }

    /// Returns whether a text of the segment may contain a number in groups whose last digits are
    /// `tail`.
    pub(crate) fn may_hold_number_tail(&self, tail: u32) -> bool {
        number(&self.bytes, 24) & SAYS_NOTHING != 0 || self.has(hash_of_tail(tail))
    }

    /// Returns whether a grain of the segment may contain the integer `value`.
    pub(crate) fn may_hold_number(&self, value: u64) -> bool {
        number(&self.bytes, 24) & SAYS_NOTHING != 0 || self.has(hash_of_number(value))
    }

    fn has(&self, hash: u64) -> bool {
        bits(hash, self.words).all(|(word, bit)| number(&self.bytes, HEADER + word * 8) & bit != 0)
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(u64::MAX, |number| u64::from_le_bytes(*number))
}

impl Sidecar for WordFilter {
    const FILE: &'static str = WORDS_FILE;
    const NAME: &'static str = "word filter";

    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(WordFilter::open(bytes)?)
    }

    fn segment_rows(&self) -> u64 {
        number(&self.bytes, 8)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, BinaryArray, ListArray, ListBuilder, StringArray, StringBuilder};
    use gristmill_schemas::grain::{EncodeOptions, encode_json};
    use gristmill_schemas::json::{Json, Object};
    use proptest::prelude::*;

    use super::*;
    use crate::erase::{Hits, IdentifierMatcher, Person, SubjectRequest};
    use crate::text::with_grain_if_any;

    fn filter(texts: &[&str]) -> WordFilter {
        let mut set = WordSet::default();
        texts.iter().for_each(|text| set.text(text));
        WordFilter::open(build(&[set.closed()]).into()).unwrap()
    }

    #[test]
    fn what_is_there_is_never_denied() {
        let texts = [
            "Marguerite OYELARAN wrote to moy-4711@mail.example",
            "Stra\u{df}e 7",
            "\u{5f20}\u{4f1f}\u{5728}",
            "Ali\u{200b}ce",
            "{\"to\":\"Dear all,\\nPaul D\\u00edaz\"}",
        ];
        let filter = filter(&texts);
        for text in [
            "marguerite oyelaran",
            "moy-4711",
            "moy-4711@mail.example",
            "strasse",
            "Stra\u{df}e",
            "\u{5f20}\u{4f1f}",
            "alice",
            "Ali",
            "paul diaz",
            "D\u{ed}az",
            "",
        ] {
            assert!(filter.may_hold(text), "{text}");
        }
        for text in [
            "margerite",
            "moy-4712",
            "moy-4711@mail.test",
            "\u{5f20}\u{4e09}",
            "lice",
        ] {
            assert!(!filter.may_hold(text), "{text}");
        }
    }

    #[test]
    fn an_address_inside_a_longer_run_of_digits_is_found() {
        let address = ContentAddress::of(b"a").to_string();
        assert!(filter(&[&format!("sha256:{address}")]).may_hold(&address));
        assert!(filter(&[&format!("x00{}ff", address.to_uppercase())]).may_hold(&address));
        assert!(
            !filter(&[&format!("sha256:{address}")])
                .may_hold(&ContentAddress::of(b"b").to_string())
        );
        assert!(filter(&[&"0".repeat(10_000)]).may_hold("anything"));
    }

    #[test]
    fn a_number_is_found_by_its_digits() {
        for number in [0, 7, 10, 4_711, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(hash_of_number(number), hash_of(&number.to_string()));
        }
    }

    proptest! {
        #[test]
        fn what_a_search_for_a_person_finds_is_never_ruled_out(
            text in prop::collection::vec(piece(), 1..8),
            name in prop::collection::vec(piece(), 1..3),
            session in prop::collection::vec(piece(), 2..5),
            exact: bool,
            talks: bool,
            refers: bool,
        ) {
            let folding = if exact { Folding::Exact } else { Folding::Spellings };
            let person = Person { identifiers: [name.concat()].into(), ..Person::default() };
            let talk = Person { sessions: [session.concat()].into(), ..Person::default() };
            let mut matcher = IdentifierMatcher::new(&SubjectRequest { people: vec![person, talk], folding, ..SubjectRequest::default() });
            let referred = ContentAddress::of(b"a");
            matcher.add_references([referred]);
            let mut json = Object::new();
            json.insert("type", "event");
            json.insert("created_at", 1_767_225_600_000_i64);
            json.insert("role", "user");
            json.insert("session_id", if talks { session.concat() } else { text.concat() });
            json.insert("content", text.concat() + &if refers { referred.to_string().to_uppercase() } else { String::new() });
            let encoded = encode_json(&Json::Object(json), EncodeOptions::default());
            prop_assume!(encoded.is_ok());
            let blob = encoded.unwrap().blob;
            let mut set = WordSet::default();
            set.watch(Some(matcher.watchlist()));
            let has_word = with_grain_if_any(&blob, |grain| set.add(&blob, grain));
            let filter = WordFilter::open(build(&[set.closed()]).into()).unwrap();
            let mut hits = Hits::default();
            with_grain_if_any(&blob, |grain| matcher.match_grain(grain.unwrap(), &mut hits));
            let passes = matcher.prefilter().is_some_and(|prefilter| prefilter.rules_out(&blob, &mut Default::default()));
            prop_assert!(hits.people.is_empty() || matcher.may_find(&filter) && has_word && !passes);
        }
    }

    /// Pieces that texts and names share, in several spellings.
    fn piece() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "ann",
            "ANN",
            "\u{ff21}nn",
            "a\u{200b}nn",
            "jos\u{e9}",
            "jose\u{301}",
            "stra\u{df}e",
            "STRASSE",
            "\u{5f20}\u{4f1f}",
            "\u{5728}",
            "4711",
            "7",
            "@",
            " ",
            "-",
            "_",
            ":",
            ".",
            "\\n",
            "\\u00e9",
            "\\u0061",
            "\u{2019}",
            "'",
            "\u{2011}",
        ])
    }

    #[test]
    fn a_part_of_a_batch_has_the_words_of_its_own_rows_alone() {
        let texts = |texts: [&str; 3]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        let supersedes: ListArray = {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for row in 0..3 {
                lists.values().append_value(format!("before{row}"));
                lists.append(true);
            }
            lists.finish()
        };
        let bytes = || Arc::new(BinaryArray::from_vec(vec![b"".as_slice(); 3])) as ArrayRef;
        let columns = [
            texts(["address0", "address1", "address2"]),
            bytes(),
            bytes(),
            texts(["signer0", "signer1", "signer2"]),
            Arc::new(supersedes),
        ];
        let batch = RecordBatch::try_from_iter(WordSet::COLUMNS.into_iter().zip(columns)).unwrap();
        let mut set = WordSet::default();
        set.add_beside_blobs(&batch.slice(1, 1)).unwrap();
        let filter = WordFilter::open(build(&[set.closed()]).into()).unwrap();
        for word in ["address", "signer", "before"] {
            let rows: Vec<bool> = (0..3)
                .map(|row| filter.may_hold(&format!("{word}{row}")))
                .collect();
            assert_eq!(rows, [false, true, false], "{word}");
        }
    }

    #[test]
    fn few_words_that_are_not_there_seem_to_be() {
        let words: Vec<String> = (0..20_000).map(|number| format!("word{number}")).collect();
        let filter = filter(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let wrong = (0..20_000)
            .filter(|number| filter.may_hold(&format!("other{number}")))
            .count();
        assert!(wrong < 200, "{wrong} of 20000");
    }

    #[test]
    fn a_filter_that_was_changed_is_refused() {
        let mut bytes = build(&[WordSet::default()]);
        assert!(WordFilter::open(bytes.clone().into()).is_ok());
        bytes[20] ^= 1;
        assert!(WordFilter::open(bytes.into()).is_err());
        assert!(WordFilter::open(Vec::new().into()).is_err());
    }
}

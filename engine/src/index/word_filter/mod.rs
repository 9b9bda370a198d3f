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
//! "GMWORD06"    magic                                            8
//! n             rows                                             u64
//! u             rows that can't be decoded                       u64
//! flags         1 has a policy that reaches other grains,        u64
//!               2 has a withdrawal, 4 the filter rules nothing out
//! m             words of 64 bits in the filter                   u64
//! filter                                                         u64 × m
//! checksum      BLAKE3 of all before                             32
//! ```
//!
//! Integers are little-endian. Words are lower case, and folded in two ways by
//! [`crate::text::fold`]: exactly, and to the coarsest form, without accents and with one letter
//! for those that look alike. In unsegmented scripts each letter is a word, and ends a word of
//! another script before it. Text with escapes is added as it is written and unescaped; encoded
//! text is also added decoded (`crate::text::encodings`), and all of these also without control
//! sequences and symbols (`crate::text::undecorated`). A number that is written in groups is added
//! by its last seven digits at the end of every group.
//!
//! Keys of null entries are added like others: grains that aren't canonical may have such entries.
//!
//! A filter of another version (`GMWORD03` lacked keys of null entries and integers that are stored
//! as doubles, and kept some invisible characters; `GMWORD04` lacked single letters of Hangul,
//! and words next to letters of unsegmented scripts; `GMWORD05` lacked words next to control
//! sequences and symbols) isn't used: its segment is read, and `reindex`
//! rebuilds the filter.
//!
//! Sealed segments have no filter, because it would reveal words.
//!
//! | module | contents |
//! |---|---|
//! | this one | the file: built from word sets, and opened |
//! | `word_set` | collecting the words of rows |
//! | `hash` | splitting text into words, and hashing them |

mod hash;
mod word_set;

use std::error::Error;

use gristmill_connectors::source::SourceBytes;

pub(super) use hash::bits;
pub(crate) use hash::each_word;
pub(super) use hash::{hash_of_letter, hash_of_number, hash_of_tail};
pub use word_set::WordSet;

use crate::segment::Sidecar;
use crate::text::fold::is_unsegmented;

/// Name of the sidecar file.
pub(crate) const WORDS_FILE: &str = "words.bin";

const MAGIC: &[u8; 8] = b"GMWORD06";
const HEADER: usize = 40;
const CHECKSUM: usize = 32;

/// Bits of the filter per word. With 8 hash functions, the false-positive rate is 0.3 %.
const BITS_PER_WORD: usize = 12;

/// Minimal number of 64-bit words of a filter, because very small filters have erratic
/// false-positive rates.
const MIN_FILTER_WORDS: usize = 32;

const HAS_REACHING_POLICY: u64 = 1;
const HAS_WITHDRAWAL: u64 = 2;
const DISABLED: u64 = 4;

/// Returns the bytes of the filter for a segment whose rows have the words of `sets`, which are
/// closed.
pub fn build(sets: &[WordSet]) -> Vec<u8> {
    let filter = filter_of(sets);
    let sum = |part: fn(&WordSet) -> u64| sets.iter().map(part).sum::<u64>();
    let flags = sets.iter().fold(0, |flags, set| flags | set.flags);
    let mut out = Vec::with_capacity(HEADER + filter.len() * 8 + CHECKSUM);
    out.extend(MAGIC);
    let header = [
        sum(|set| set.rows),
        sum(|set| set.undecodable),
        flags,
        filter.len() as u64,
    ];
    for number in header.iter().chain(&filter) {
        out.extend(number.to_le_bytes());
    }
    out.extend(blake3::hash(&out).as_bytes());
    out
}

/// Returns the Bloom filter of the words of `sets`.
fn filter_of(sets: &[WordSet]) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::with_capacity(sets.iter().map(|set| set.words.len()).sum());
    sets.iter().for_each(|set| all.extend(&set.words));
    // Each set is sorted: the stable sort merges them.
    all.sort();
    all.dedup();
    let mut filter = vec![
        0u64;
        (all.len() * BITS_PER_WORD)
            .div_ceil(64)
            .max(MIN_FILTER_WORDS)
    ];
    let words = filter.len();
    for hash in all {
        for (word, bit) in bits(hash, words) {
            if let Some(word) = filter.get_mut(word) {
                *word |= bit;
            }
        }
    }
    filter
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
    pub(crate) fn reaches_others(&self) -> bool {
        number(&self.bytes, 24) & HAS_REACHING_POLICY != 0
    }

    /// Returns whether a grain of the segment withdraws a consent.
    pub(crate) fn has_withdrawals(&self) -> bool {
        number(&self.bytes, 24) & HAS_WITHDRAWAL != 0
    }

    /// Returns whether a text of the segment may contain `text`, which may be folded, as one or
    /// more whole words (in unsegmented scripts: at all).
    pub(crate) fn may_hold(&self, text: &str) -> bool {
        if number(&self.bytes, 24) & DISABLED != 0 {
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
        number(&self.bytes, 24) & DISABLED != 0 || self.has(hash_of_tail(tail))
    }

    /// Returns whether a grain of the segment may contain the integer `value`.
    pub(crate) fn may_hold_number(&self, value: u64) -> bool {
        number(&self.bytes, 24) & DISABLED != 0 || self.has(hash_of_number(value))
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
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BinaryArray, ListArray, ListBuilder, RecordBatch, StringArray, StringBuilder,
    };
    use gristmill_schemas::address::ContentAddress;
    use gristmill_schemas::grain::{EncodeOptions, encode_json};
    use gristmill_schemas::json::{Json, Object};
    use proptest::prelude::*;

    use super::hash::hash_of;
    use super::*;
    use crate::erase::{Hits, IdentifierMatcher, Person, SubjectRequest};
    use crate::text::fold::Folding;
    use crate::text::with_grain_if_any;

    fn filter(texts: &[&str]) -> WordFilter {
        let mut set = WordSet::default();
        texts.iter().for_each(|text| set.add_text(text));
        WordFilter::open(build(&[set.closed()]).into()).unwrap()
    }

    #[test]
    fn a_filter_has_no_false_negatives() {
        let texts = [
            "Marguerite OYELARAN wrote to moy-4711@mail.example",
            "Stra\u{df}e 7",
            "\u{5f20}\u{4f1f}\u{5728}",
            "Ali\u{200b}ce",
            "{\"to\":\"Dear all,\\nPaul D\\u00edaz\"}",
            "\u{8bf7}\u{53d1}\u{5230}Bo@z.invalid\u{8c22}\u{8c22}",
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
            "bo@z.invalid",
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
    fn words_next_to_control_sequences_and_symbols_are_in_the_filter() {
        let decorated = filter(&[
            "\u{1b}[1;34mAda Okafor\u{1b}[0m",
            "Ona Silva\u{b9}, 0160 5551003\u{b2}",
        ]);
        for text in ["ada okafor", "ona silva"] {
            assert!(decorated.may_hold(text), "{text}");
        }
        assert!(decorated.may_hold_number_tail(5_551_003));
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
        fn filter_watchlist_and_prefilter_never_rule_out_what_the_matcher_finds(
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
            "\u{1b}[1m",
            "[0m",
            "\\e[0m",
            "\u{b9}",
            "\u{2122}",
            "\u{336}",
            "\u{640}",
        ])
    }

    #[test]
    fn a_slice_of_a_batch_adds_only_the_words_of_its_own_rows() {
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
        set.add_other_columns(&batch.slice(1, 1)).unwrap();
        let filter = WordFilter::open(build(&[set.closed()]).into()).unwrap();
        for word in ["address", "signer", "before"] {
            let rows: Vec<bool> = (0..3)
                .map(|row| filter.may_hold(&format!("{word}{row}")))
                .collect();
            assert_eq!(rows, [false, true, false], "{word}");
        }
    }

    #[test]
    fn a_filter_has_few_false_positives() {
        let words: Vec<String> = (0..20_000).map(|number| format!("word{number}")).collect();
        let filter = filter(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let wrong = (0..20_000)
            .filter(|number| filter.may_hold(&format!("other{number}")))
            .count();
        assert!(wrong < 200, "{wrong} of 20000");
    }

    #[test]
    fn a_damaged_filter_is_rejected() {
        let mut bytes = build(&[WordSet::default()]);
        assert!(WordFilter::open(bytes.clone().into()).is_ok());
        bytes[20] ^= 1;
        assert!(WordFilter::open(bytes.into()).is_err());
        assert!(WordFilter::open(Vec::new().into()).is_err());
    }
}

//! Collects the words of rows.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::{Field, Grain, RawValue};

use super::hash::{each_word, hash_of, hash_of_letter, hash_of_number, hash_of_tail};
use super::{DISABLED, HAS_REACHING_POLICY, HAS_WITHDRAWAL};
use crate::index::watchlist::Watchlist;
use crate::policy::Policy;
use crate::text::confusables::LetterEquivalence;
use crate::text::each_part_of_value;
use crate::text::encodings::{LONG_WORD, each_decoded, has_marks};
use crate::text::fold::{Folding, is_blank, is_unsegmented, unescaped};
use crate::text::numbers::{MIN_DIGITS, each_number, integer_of};
use crate::text::undecorated::undecorated;

/// Maximal number of addresses that are searched for in one run of hex digits. A longer run
/// disables the filter.
const MAX_WINDOWS: usize = 4_096;

/// The words of some rows, collected while they are written.
#[derive(Debug, Default)]
pub struct WordSet {
    /// Hashes of the words, with duplicates until the set is closed.
    pub(super) words: Vec<u64>,
    /// Number of distinct words at the last compaction.
    distinct: usize,
    recent: Recent,
    pub(super) rows: u64,
    pub(super) undecodable: u64,
    pub(super) flags: u64,
    folded: String,
    /// For each field its last text, and whether that has a word of the watchlist: neighbouring
    /// rows often repeat values.
    last: Vec<(String, bool)>,
    watched: Option<Arc<Watchlist>>,
    /// Whether the grain that is being added has a word of the watchlist.
    has_watched: bool,
    /// Whether the text that is being added has a word that may be base64 or hex.
    has_long_word: bool,
    /// Number of digits in its words that may be groups of a number.
    digits: usize,
}

/// Which words may be groups of a number.
#[derive(Clone, Copy)]
enum Digits {
    /// Words of digits alone: a letter next to a group makes it part of a word. For texts as they
    /// are written. Hex digits of addresses, the most frequent words with digits, don't count.
    NumbersOnly,
    /// Words that begin with a digit. For folded texts, where a letter may come from a symbol.
    All,
}

impl Digits {
    fn in_word(self, word: &[u8]) -> usize {
        let counts = match self {
            Digits::NumbersOnly => word.iter().all(u8::is_ascii_digit),
            Digits::All => word.first().is_some_and(u8::is_ascii_digit),
        };
        if counts { word.len() } else { 0 }
    }
}

/// Cache of recently added words, indexed by hash, because most words repeat recent ones. The
/// lowest bit of an entry is whether the word is in the watchlist; the lowest bit of the hash is
/// implied by the index.
#[derive(Debug)]
struct Recent(Box<[u64; RECENT]>);

const RECENT: usize = 16_384;

const WATCHED: u64 = 1;

/// Maximal length in bytes of a text that is kept for comparison with the next grain's.
const MAX_REPEATED_BYTES: usize = 128;

/// Minimal number of words for a compaction.
const MIN_COMPACTION: usize = 1 << 18;

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
        SystemColumn::ContentAddress.name(),
        SystemColumn::Blob.name(),
        SystemColumn::Envelope.name(),
        SystemColumn::SignerDid.name(),
        SystemColumn::Supersedes.name(),
    ];

    /// Adds the words of all columns except the blobs. Returns `None` if columns are missing. The
    /// blobs are added by [`WordSet::add`].
    pub(in crate::index) fn add_other_columns(&mut self, batch: &RecordBatch) -> Option<()> {
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
            .for_each(|text| self.add_words(text, Digits::NumbersOnly));
        signers
            .iter()
            .flatten()
            .for_each(|text| self.add_text(text));
        envelopes
            .iter()
            .flatten()
            .for_each(|bytes| self.add_bytes(bytes));
        Some(())
    }

    /// Sets the watchlist for the blobs that are added from now on.
    pub(in crate::index) fn watch(&mut self, list: Option<&Arc<Watchlist>>) {
        if self.watched.as_ref().map(Arc::as_ptr) != list.map(Arc::as_ptr) {
            self.watched = list.cloned();
            // The cached results belong to the previous list.
            self.last.clear();
            self.recent = Recent::default();
        }
    }

    /// Adds the words of a blob, decoded as `grain` if that is possible. Returns whether it has a
    /// word of the watchlist.
    pub(in crate::index) fn add(&mut self, blob: &[u8], grain: Option<&Grain<'_>>) -> bool {
        self.has_watched = self
            .watched
            .as_ref()
            .is_some_and(|list| list.has_wordless());
        match grain {
            Some(grain) => self.add_grain(grain),
            None => {
                self.undecodable += 1;
                self.add_bytes(blob);
            }
        }
        self.has_watched
    }

    /// Removes duplicates if there are many, so that the set isn't much larger than its distinct
    /// words.
    pub(in crate::index) fn compact(&mut self) {
        if self.words.len() > (2 * self.distinct).max(MIN_COMPACTION) {
            self.sort();
        }
    }

    /// Finishes the set: sorts it and removes duplicates.
    pub(in crate::index) fn closed(mut self) -> WordSet {
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

    fn add_grain(&mut self, grain: &Grain<'_>) {
        for (field, value) in grain.known() {
            match value {
                RawValue::Text(text) if text.len() <= MAX_REPEATED_BYTES => {
                    self.add_repeated(*field, text)
                }
                value => self.add_value(value),
            }
        }
        for (key, value) in grain.unknown() {
            self.add_text(key);
            self.add_value(value);
        }
        grain.null_keys().iter().for_each(|key| self.add_text(key));
        self.add_flags(grain);
    }

    /// Adds the flags of a policy that reaches other grains, and of a withdrawal.
    #[inline]
    fn add_flags(&mut self, grain: &Grain<'_>) {
        if Policy::is_stated(grain) {
            let scope = Policy::of(grain).scope;
            self.flags |= if scope.reaches_derived() || scope.reaches_lineage() {
                HAS_REACHING_POLICY
            } else {
                0
            };
        }
        if grain
            .get(Field::IsWithdrawal)
            .and_then(|value| value.as_bool())
            == Some(true)
        {
            self.flags |= HAS_WITHDRAWAL;
        }
    }

    /// Adds `text`, the value of `field`, unless the previous grain has the same value.
    fn add_repeated(&mut self, field: Field, text: &str) {
        let place = field as usize;
        if self.last.len() <= place {
            self.last.resize_with(Field::COUNT, Default::default);
        }
        if self.last[place].0 != text {
            let has_watched = std::mem::replace(&mut self.has_watched, false);
            self.add_text(text);
            let last = &mut self.last[place];
            last.0.clear();
            last.0.push_str(text);
            last.1 = std::mem::replace(&mut self.has_watched, has_watched);
        }
        self.has_watched |= self.last[place].1;
    }

    fn add_value(&mut self, value: &RawValue<'_>) {
        match value {
            RawValue::Text(text) => self.add_text(text),
            RawValue::Bytes(bytes) => self.add_bytes(bytes),
            RawValue::Array(items) => items.items().for_each(|item| self.add_value(&item)),
            RawValue::Map(entries) => entries.all_entries().for_each(|(key, value)| {
                self.add_text(key);
                self.add_value(&value);
            }),
            RawValue::Int(number) => self.add_word(hash_of_number(number.unsigned_abs())),
            RawValue::BigInt(number) => self.add_word(hash_of_number(*number)),
            RawValue::Float(number) => {
                if let Some(integer) = integer_of(*number) {
                    self.add_word(hash_of_number(integer.unsigned_abs()));
                }
            }
            RawValue::Nil | RawValue::Bool(_) => {}
        }
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        each_part_of_value(bytes, |part| {
            let chunks = part.utf8_chunks();
            chunks.for_each(|chunk| self.add_text(chunk.valid()));
        });
    }

    pub(super) fn add_text(&mut self, text: &str) {
        self.add_form(text);
        for meant in unescaped(text) {
            self.add_form(&meant);
        }
    }

    /// Adds the words of `text`, and those of the texts that it encodes; also of the text without
    /// its control sequences and symbols.
    fn add_form(&mut self, text: &str) {
        self.has_long_word = false;
        self.add_written(text);
        if std::mem::take(&mut self.has_long_word) || has_marks(text) {
            self.add_decoded(text);
            if let Some(plain) = undecorated(text) {
                self.add_decoded(&plain.text);
            }
        }
    }

    /// Adds the words of the texts that `text` encodes.
    fn add_decoded(&mut self, text: &str) {
        each_decoded(text, |_, plain| {
            self.add_written(plain);
            unescaped(plain).for_each(|meant| self.add_written(&meant));
        });
    }

    /// Adds the words of `text` as it is written, and without its control sequences and symbols.
    fn add_written(&mut self, text: &str) {
        self.add_plain(text);
        if let Some(plain) = undecorated(text) {
            self.add_plain(&plain.text);
        }
    }

    fn add_plain(&mut self, text: &str) {
        self.digits = 0;
        if text.is_ascii() {
            self.add_words(text, Digits::NumbersOnly);
        } else {
            let mut folded = std::mem::take(&mut self.folded);
            for run in text.split(is_blank) {
                if run.is_ascii() {
                    self.add_words(run, Digits::NumbersOnly);
                    continue;
                }
                Folding::Spellings.fold_equivalent(LetterEquivalence::ALL, run, &mut folded);
                self.add_words(&folded, Digits::All);
                Folding::Exact.fold(run, &mut folded);
                self.add_words(&folded, Digits::All);
            }
            self.folded = folded;
        }
        if self.digits >= MIN_DIGITS {
            each_number(text, |number| self.add_word(hash_of_tail(number.tail())));
        }
    }

    /// Adds the words of `text`, which is folded, or needs no folding.
    fn add_words(&mut self, text: &str, digits: Digits) {
        each_word(text, |word, hash| {
            self.add_word(hash);
            if word.len() >= LONG_WORD {
                self.has_long_word = true;
                if word.len() > ContentAddress::TEXT_LENGTH {
                    self.add_addresses_in(word);
                }
            }
            self.digits += digits.in_word(word.as_bytes());
        });
        if !text.is_ascii() {
            text.chars()
                .filter(|letter| is_unsegmented(*letter))
                .for_each(|letter| self.add_word(hash_of_letter(letter)));
        }
    }

    fn add_word(&mut self, hash: u64) {
        self.has_watched |= self.recent.is_watched(hash).unwrap_or_else(|| {
            let is_watched = self.watched.as_ref().is_some_and(|list| list.has(hash));
            self.recent.add(hash, is_watched);
            self.words.push(hash);
            is_watched
        });
    }

    /// Adds every window of a run of hex digits that is longer than an address, because an address
    /// may be in the middle of it.
    fn add_addresses_in(&mut self, word: &str) {
        for run in word.split(|letter: char| !letter.is_ascii_hexdigit()) {
            let Some(last) = run.len().checked_sub(ContentAddress::TEXT_LENGTH) else {
                continue;
            };
            if last > MAX_WINDOWS {
                self.flags |= DISABLED;
                self.has_watched |= self.watched.is_some();
                return;
            }
            let windows = (0..=last).filter_map(|at| run.get(at..at + ContentAddress::TEXT_LENGTH));
            windows.for_each(|window| self.add_word(hash_of(window)));
        }
    }
}

//! The full-text indexes of all segments of a lake as one: which rows match, and the statistics of
//! words. `ranked` has the searches with scores.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use tantivy::collector::Count;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::query::{
    BooleanQuery, EnableScoring, FuzzyTermQuery, Occur, PhraseQuery, Query, TermQuery,
};
use tantivy::schema::IndexRecordOption;
use tantivy::termdict::TermDictionary;
use tantivy::{DocSet, Index, ReloadPolicy, Searcher, SegmentReader, Term};

use super::directory::PackedDirectory;
use super::pack::SegmentTextIndex;
use super::query::{Phrase, QueryPart, SearchTerms, TextQuery};
use super::text_field;
use super::tokenizer::tokenizers;
use crate::text::Statistics;

/// Maximal number of words that a prefix or a fuzzy word expands to; the most frequent ones are
/// used.
const EXPANSIONS: usize = 128;

/// Maximal number of dictionary entries that are read for an expansion.
const CANDIDATES: usize = 65_536;

/// The indexes of some segments, as one index.
pub struct LakeTextIndex {
    pub(super) searcher: Searcher,
    /// For each segment of tantivy: the index of its segment of the lake, and its first row there.
    pub(super) places: Vec<(usize, u32)>,
    /// Number of words in all grains.
    pub(super) words: u64,
}

impl LakeTextIndex {
    /// Opens the indexes of `segments` as one. Reads little: dictionaries and postings are read on
    /// demand.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn new(segments: &[Arc<SegmentTextIndex>]) -> tantivy::Result<LakeTextIndex> {
        let mut places = Vec::new();
        let mut pieces = Vec::new();
        let mut counted = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            for (entry, own) in segment.pieces() {
                places.extend(own.iter().map(|_| (number, entry.first_row)));
                counted.extend(own.iter().map(|_| entry.words));
                pieces.extend(own.iter().cloned());
            }
        }
        let meta = meta_of(segments, pieces)?;
        let mut index = Index::open(PackedDirectory::new(segments.iter(), meta))?;
        index.set_tokenizers(tokenizers());
        let searcher = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .try_into()?
            .searcher();
        let mut words = 0;
        for (reader, counted) in searcher.segment_readers().iter().zip(counted) {
            words += match counted {
                Some(words) => words,
                None => reader.inverted_index(text_field())?.total_num_tokens(),
            };
        }
        Ok(LakeTextIndex {
            searcher,
            places,
            words,
        })
    }

    /// Returns the exact number of rows that match `query`.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn count(&self, query: &TextQuery) -> tantivy::Result<usize> {
        match compile(&self.terms(query)?) {
            Some(compiled) => self.searcher.search(&*compiled, &Count),
            None => Ok(0),
        }
    }

    /// Returns the rows of each segment that match `query`, ascending, without scores.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn rows(&self, query: &TextQuery, segments: usize) -> tantivy::Result<Vec<Vec<u32>>> {
        let mut rows = vec![Vec::new(); segments];
        let Some(compiled) = compile(&self.terms(query)?) else {
            return Ok(rows);
        };
        let weight = compiled.weight(EnableScoring::disabled_from_searcher(&self.searcher))?;
        for (reader, (segment, first_row)) in
            self.searcher.segment_readers().iter().zip(&self.places)
        {
            if let Some(rows) = rows.get_mut(*segment) {
                weight.for_each_no_score(reader, &mut |documents| {
                    rows.extend(documents.iter().map(|document| first_row + document));
                })?;
            }
        }
        Ok(rows)
    }

    /// Returns the statistics of `words` over all grains.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn statistics(&self, words: &[String]) -> tantivy::Result<Statistics> {
        let mut statistics = Statistics {
            documents: self.len(),
            words: self.words,
            ..Statistics::new(words.len())
        };
        for (word, containing) in words.iter().zip(&mut statistics.containing) {
            *containing = self
                .searcher
                .doc_freq(&Term::from_field_text(text_field(), word))?;
        }
        Ok(statistics)
    }

    /// Returns the statistics of `words` over the rows `within` alone (ascending ranges of rows per
    /// segment). Lengths of texts are those of [`rounded_length`], which the index stores for each
    /// row.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn statistics_within(
        &self,
        words: &[String],
        within: &[Vec<Range<u32>>],
    ) -> tantivy::Result<Statistics> {
        let mut statistics = Statistics::new(words.len());
        let readers = self.searcher.segment_readers().iter();
        for (reader, (segment, first_row)) in readers.zip(&self.places) {
            let ranges = within.get(*segment).map(Vec::as_slice).unwrap_or_default();
            let own = documents_of(ranges, *first_row..first_row + reader.max_doc());
            if !own.is_empty() {
                add_statistics(reader, words, &own, &mut statistics)?;
            }
        }
        Ok(statistics)
    }

    /// Returns the number of grains in the index.
    pub fn len(&self) -> u64 {
        self.searcher.num_docs()
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Expands prefixes and fuzzy words to words of the lake.
    pub(super) fn terms(&self, query: &TextQuery) -> tantivy::Result<SearchTerms> {
        let mut terms = SearchTerms::default();
        for alternatives in &query.required {
            let mut phrases = Vec::new();
            for part in alternatives {
                phrases.extend(self.expand(part)?);
            }
            terms.required.push(phrases);
        }
        for part in &query.excluded {
            terms.excluded.extend(self.expand(part)?);
        }
        Ok(terms)
    }

    /// Returns the phrases that `part` expands to: the most frequent words of a prefix or a fuzzy
    /// word.
    fn expand(&self, part: &QueryPart) -> tantivy::Result<Vec<Phrase>> {
        let frequencies = match part {
            QueryPart::Phrase(words) => return Ok(vec![words.clone()]),
            QueryPart::Prefix(prefix) => self.words_with_prefix(prefix)?,
            QueryPart::Fuzzy(word, changes) => self.words_near(word, *changes)?,
        };
        let mut found: Vec<(Vec<u8>, u64)> = frequencies.into_iter().collect();
        // The sort is stable: of equally frequent words, the first is kept.
        found.sort_by_key(|(_, documents)| Reverse(*documents));
        found.truncate(EXPANSIONS);
        Ok(found
            .into_iter()
            .filter_map(|(word, _)| Some(vec![String::from_utf8(word).ok()?]))
            .collect())
    }

    fn words_with_prefix(&self, prefix: &str) -> tantivy::Result<WordFrequencies> {
        let mut found = WordFrequencies::new();
        self.each_dictionary(|dictionary| {
            let mut words = dictionary.range().ge(prefix).into_stream()?;
            while words.advance()
                && words.key().starts_with(prefix.as_bytes())
                && found.len() < CANDIDATES
            {
                let documents = found.entry(words.key().to_vec()).or_default();
                *documents += u64::from(words.value().doc_freq);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn words_near(&self, word: &str, changes: u8) -> tantivy::Result<WordFrequencies> {
        let mut found = WordFrequencies::new();
        let query = FuzzyTermQuery::new(Term::from_field_text(text_field(), word), changes, true);
        let automaton = query.automaton()?;
        self.each_dictionary(|dictionary| {
            let mut words = dictionary.search(&automaton).into_stream()?;
            while words.advance() && found.len() < CANDIDATES {
                let documents = found.entry(words.key().to_vec()).or_default();
                *documents += u64::from(words.value().doc_freq);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn each_dictionary(
        &self,
        mut visit: impl FnMut(&TermDictionary) -> tantivy::Result<()>,
    ) -> tantivy::Result<()> {
        for reader in self.searcher.segment_readers() {
            visit(reader.inverted_index(text_field())?.terms())?;
        }
        Ok(())
    }
}

/// Returns the parts of `ranges` that are among `rows`, as documents of the index of these rows.
fn documents_of(ranges: &[Range<u32>], rows: Range<u32>) -> Vec<Range<u32>> {
    ranges
        .iter()
        .map(|range| range.start.max(rows.start)..range.end.min(rows.end))
        .filter(|range| !range.is_empty())
        .map(|range| range.start - rows.start..range.end - rows.start)
        .collect()
}

/// Words of the dictionaries, with their document frequencies.
type WordFrequencies = BTreeMap<Vec<u8>, u64>;

/// Adds the statistics of `words` over the documents `ranges` (ascending) of one segment of
/// tantivy.
fn add_statistics(
    reader: &SegmentReader,
    words: &[String],
    ranges: &[Range<u32>],
    statistics: &mut Statistics,
) -> tantivy::Result<()> {
    let lengths = reader.get_fieldnorms_reader(text_field())?;
    for document in ranges.iter().cloned().flatten() {
        statistics.documents += 1;
        statistics.words += u64::from(lengths.fieldnorm(document));
    }
    let inverted = reader.inverted_index(text_field())?;
    for (word, containing) in words.iter().zip(&mut statistics.containing) {
        let term = Term::from_field_text(text_field(), word);
        let Some(mut postings) = inverted.read_postings(&term, IndexRecordOption::Basic)? else {
            continue;
        };
        for range in ranges {
            let mut document = postings.doc();
            if document < range.start {
                document = postings.seek(range.start);
            }
            while document < range.end {
                *containing += 1;
                document = postings.advance();
            }
        }
    }
    Ok(())
}

/// Returns the length of a text of `words` words as the index stores it: exact up to 40, rounded
/// beyond.
pub fn rounded_length(words: u64) -> u64 {
    let words = u32::try_from(words).unwrap_or(u32::MAX);
    u64::from(FieldNormReader::id_to_fieldnorm(
        FieldNormReader::fieldnorm_to_id(words),
    ))
}

impl std::fmt::Debug for LakeTextIndex {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "LakeTextIndex({} grains in {} pieces)",
            self.len(),
            self.places.len()
        )
    }
}

/// Compiles a search to a query of tantivy; `None` if it can't match anything. A single clause
/// isn't wrapped, because only then can tantivy skip blocks of documents that can't be among the
/// best.
pub(super) fn compile(terms: &SearchTerms) -> Option<Box<dyn Query>> {
    let mut clauses: Vec<(Occur, Box<dyn Query>)> = Vec::new();
    for alternatives in &terms.required {
        clauses.push((Occur::Must, any_of(alternatives)?));
    }
    with_exclusions(clauses, terms)
}

/// Joins `clauses` with the exclusions of `terms`; `None` if there is
/// no clause.
pub(super) fn with_exclusions(
    mut clauses: Vec<(Occur, Box<dyn Query>)>,
    terms: &SearchTerms,
) -> Option<Box<dyn Query>> {
    if clauses.is_empty() {
        return None;
    }
    // tantivy seeks excluded clauses to documents before their current one, which its phrase scorer
    // doesn't support. Its union scorer does; so each phrase is added twice, which makes a union.
    let excluded: Vec<Phrase> = terms
        .excluded
        .iter()
        .flat_map(|phrase| [phrase.clone(), phrase.clone()])
        .collect();
    match any_of(&excluded) {
        Some(excluded) => clauses.push((Occur::MustNot, excluded)),
        None if clauses.len() == 1 => return clauses.pop().map(|(_, query)| query),
        None => {}
    }
    Some(Box::new(BooleanQuery::new(clauses)))
}

/// Returns `None` for an empty list.
pub(super) fn any_of(phrases: &[Phrase]) -> Option<Box<dyn Query>> {
    match phrases {
        [] => None,
        [phrase] => Some(phrase_query(phrase)),
        several => {
            let clauses = several
                .iter()
                .map(|phrase| (Occur::Should, phrase_query(phrase)))
                .collect();
            Some(Box::new(BooleanQuery::new(clauses)))
        }
    }
}

fn phrase_query(phrase: &Phrase) -> Box<dyn Query> {
    let mut terms: Vec<Term> = phrase
        .iter()
        .map(|word| Term::from_field_text(text_field(), word))
        .collect();
    match terms.len() {
        1 => Box::new(TermQuery::new(
            terms.remove(0),
            IndexRecordOption::WithFreqs,
        )),
        _ => Box::new(PhraseQuery::new(terms)),
    }
}

/// Returns tantivy's metadata of an index with the segments `pieces`.
fn meta_of(
    segments: &[Arc<SegmentTextIndex>],
    pieces: Vec<Value>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut metas = segments.iter().map(|segment| segment.meta().clone());
    match metas.find(Value::is_object) {
        Some(Value::Object(mut members)) => {
            members.insert("segments".to_owned(), Value::Array(pieces));
            serde_json::to_vec(&members)
        }
        _ => serde_json::to_vec(&empty_meta()),
    }
}

/// Returns the metadata of an index without segments.
fn empty_meta() -> Value {
    serde_json::json!({ "segments": [], "schema": super::schema(), "opstamp": 0 })
}

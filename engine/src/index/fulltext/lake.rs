//! The full text of a lake: the indexes of all its segments as one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use tantivy::collector::Count;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::query::{
    Bm25StatisticsProvider, BooleanQuery, EnableScoring, FuzzyTermQuery, Occur, PhraseQuery, Query,
    TermQuery,
};
use tantivy::schema::{Field as TextField, IndexRecordOption};
use tantivy::termdict::TermDictionary;
use tantivy::{DocSet, Index, ReloadPolicy, Searcher, Term};

use super::directory::PackedDirectory;
use super::pack::SegmentTextIndex;
use super::query::{Phrase, QueryPart, SearchTerms, TextQuery};
use super::text_field;
use super::tokenizer::tokenizers;
use super::top_k::{RankedDocument, TopK};
use crate::text::Statistics;

/// Words that a beginning or a near word stands for at most; the most frequent ones are taken.
const EXPANSIONS: usize = 128;

/// Words that are looked at to find these.
const CANDIDATES: usize = 65_536;

/// The indexes of some segments as one.
pub struct LakeTextIndex {
    pub(super) searcher: Searcher,
    /// For each of tantivy's segments: which of the lake's segments it is part of, and its first
    /// row there.
    pub(super) places: Vec<(usize, u32)>,
    /// The words of all grains.
    words: u64,
}

/// A row that fits a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextHit {
    /// The place of its segment among those that the index was made of.
    pub segment: usize,
    /// Its row there.
    pub row: u32,
    /// How well it fits: its BM25 weight as a part of the greatest that the search could give,
    /// above 0 and at most 1.
    pub score: f64,
}

impl LakeTextIndex {
    /// The indexes of `segments` as one. Reads little: dictionaries and postings are looked up when
    /// they are needed.
    ///
    /// # Errors
    /// What tantivy says of the files.
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
        let mut meta = segments
            .iter()
            .map(|segment| segment.meta().clone())
            .find(Value::is_object)
            .unwrap_or_default();
        let meta = match &mut meta {
            Value::Object(members) => {
                members.insert("segments".to_owned(), Value::Array(pieces));
                serde_json::to_vec(members)?
            }
            _ => serde_json::to_vec(&empty_meta())?,
        };
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

    /// The `limit` rows that fit `query` best, best first; of equal ones those that stand first in
    /// the lake.
    ///
    /// # Errors
    /// What tantivy says of the files.
    pub fn search(
        &self,
        query: &TextQuery,
        limit: usize,
    ) -> tantivy::Result<(SearchTerms, Vec<TextHit>)> {
        let terms = self.terms(query)?;
        let Some(compiled) = compile(&terms) else {
            return Ok((terms, Vec::new()));
        };
        // Room for as many is made at once: no more than there are documents.
        let limit = limit.min(self.searcher.num_docs() as usize);
        if limit == 0 {
            return Ok((terms, Vec::new()));
        }
        let known = DocumentFrequencies::of(&terms, self)?;
        let greatest = known.greatest(&terms);
        let weight = compiled.weight(EnableScoring::enabled_from_statistics_provider(
            &known,
            &self.searcher,
        ))?;
        let mut best = TopK::of(limit);
        for (place, reader) in self.searcher.segment_readers().iter().enumerate() {
            let threshold = best.threshold();
            weight.for_each_pruning(threshold, reader, &mut |document, score| {
                best.add(score, place, document)
            })?;
        }
        let hits = best.ranked().filter_map(
            |RankedDocument {
                 score,
                 place,
                 document,
             }| {
                let (segment, first_row) = *self.places.get(place)?;
                let score = (f64::from(score) / greatest).clamp(f64::MIN_POSITIVE, 1.0);
                Some(TextHit {
                    segment,
                    row: first_row + document,
                    score,
                })
            },
        );
        Ok((terms, hits.collect()))
    }

    /// How many rows fit `query`; exact.
    ///
    /// # Errors
    /// What tantivy says of the files.
    pub fn count(&self, query: &TextQuery) -> tantivy::Result<usize> {
        match compile(&self.terms(query)?) {
            Some(compiled) => self.searcher.search(&*compiled, &Count),
            None => Ok(0),
        }
    }

    /// The rows of each segment that fit `query`, ascending, without scores.
    ///
    /// # Errors
    /// What tantivy says of the files.
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

    /// What is known of `words` in all grains.
    ///
    /// # Errors
    /// What tantivy says of the files.
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

    /// What is known of `words` in the rows `within` (ranges of rows for each segment, ascending),
    /// and of nothing else. Lengths of texts are those of [`rounded_length`], which the index keeps
    /// for each row.
    ///
    /// # Errors
    /// What tantivy says of the files.
    pub fn statistics_within(
        &self,
        words: &[String],
        within: &[Vec<Range<u32>>],
    ) -> tantivy::Result<Statistics> {
        let mut statistics = Statistics::new(words.len());
        for (reader, (segment, first_row)) in
            self.searcher.segment_readers().iter().zip(&self.places)
        {
            let end = first_row + reader.max_doc();
            let ranges = within.get(*segment).into_iter().flatten();
            let own = ranges.map(|range| range.start.max(*first_row)..range.end.min(end));
            let own: Vec<Range<u32>> = own
                .filter(|range| !range.is_empty())
                .map(|range| range.start - first_row..range.end - first_row)
                .collect();
            if own.is_empty() {
                continue;
            }
            let lengths = reader.get_fieldnorms_reader(text_field())?;
            for document in own.iter().cloned().flatten() {
                statistics.documents += 1;
                statistics.words += u64::from(lengths.fieldnorm(document));
            }
            let inverted = reader.inverted_index(text_field())?;
            for (word, containing) in words.iter().zip(&mut statistics.containing) {
                let term = Term::from_field_text(text_field(), word);
                let Some(mut postings) = inverted.read_postings(&term, IndexRecordOption::Basic)?
                else {
                    continue;
                };
                for range in &own {
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
        }
        Ok(statistics)
    }

    /// How many grains the index has.
    pub fn len(&self) -> u64 {
        self.searcher.num_docs()
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces beginnings and near words by words that the lake has.
    fn terms(&self, query: &TextQuery) -> tantivy::Result<SearchTerms> {
        let mut terms = SearchTerms::default();
        for alternatives in &query.wanted {
            let mut phrases = Vec::new();
            for part in alternatives {
                phrases.extend(self.expand(part)?);
            }
            terms.wanted.push(phrases);
        }
        for part in &query.unwanted {
            terms.unwanted.extend(self.expand(part)?);
        }
        Ok(terms)
    }

    fn expand(&self, part: &QueryPart) -> tantivy::Result<Vec<Phrase>> {
        let mut found = std::collections::BTreeMap::new();
        match part {
            QueryPart::Phrase(words) => return Ok(vec![words.clone()]),
            QueryPart::Prefix(prefix) => self.each_dictionary(|dictionary| {
                let mut words = dictionary.range().ge(prefix).into_stream()?;
                while words.advance()
                    && words.key().starts_with(prefix.as_bytes())
                    && found.len() < CANDIDATES
                {
                    *found.entry(words.key().to_vec()).or_insert(0) +=
                        u64::from(words.value().doc_freq);
                }
                Ok(())
            })?,
            QueryPart::Fuzzy(word, changes) => {
                let query =
                    FuzzyTermQuery::new(Term::from_field_text(text_field(), word), *changes, true);
                let automaton = query.automaton()?;
                self.each_dictionary(|dictionary| {
                    let mut words = dictionary.search(&automaton).into_stream()?;
                    while words.advance() && found.len() < CANDIDATES {
                        *found.entry(words.key().to_vec()).or_insert(0) +=
                            u64::from(words.value().doc_freq);
                    }
                    Ok(())
                })?;
            }
        }
        let mut found: Vec<(Vec<u8>, u64)> = found.into_iter().collect();
        // A stable sort: of equally frequent words the first.
        found.sort_by_key(|(_, documents)| Reverse(*documents));
        found.truncate(EXPANSIONS);
        Ok(found
            .into_iter()
            .filter_map(|(word, _)| Some(vec![String::from_utf8(word).ok()?]))
            .collect())
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

/// In how many grains the words of a search are, looked up once: dictionaries of many pieces are
/// slow to ask.
struct DocumentFrequencies<'t> {
    text: &'t LakeTextIndex,
    containing: HashMap<Term, u64>,
}

impl<'t> DocumentFrequencies<'t> {
    fn of(
        terms: &SearchTerms,
        text: &'t LakeTextIndex,
    ) -> tantivy::Result<DocumentFrequencies<'t>> {
        let mut containing = HashMap::new();
        for word in terms.wanted.iter().flatten().flatten() {
            let term = Term::from_field_text(text_field(), word);
            let frequency = text.searcher.doc_freq(&term)?;
            containing.insert(term, frequency);
        }
        Ok(DocumentFrequencies { text, containing })
    }

    /// The weight that no grain can pass: every wanted word as often as can be.
    fn greatest(&self, terms: &SearchTerms) -> f64 {
        let documents = self.text.len() as f64;
        let mut sum = 0.0;
        for word in terms.wanted.iter().flatten().flatten() {
            let containing = self
                .containing
                .get(&Term::from_field_text(text_field(), word));
            let containing = containing.copied().unwrap_or_default() as f64;
            sum += (1.0 + (documents - containing + 0.5) / (containing + 0.5)).ln()
                * GREATEST_FREQUENCY;
        }
        f64::max(sum, f64::MIN_POSITIVE)
    }
}

impl Bm25StatisticsProvider for DocumentFrequencies<'_> {
    /// Not tantivy's own figure: it would be an estimate where rows were taken out of a piece.
    fn total_num_tokens(&self, _: TextField) -> tantivy::Result<u64> {
        Ok(self.text.words)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.text.len())
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        match self.containing.get(term) {
            Some(known) => Ok(*known),
            None => self.text.searcher.doc_freq(term),
        }
    }
}

/// The length of a text of `words` words as the index keeps it for its row: exact up to 40, less so
/// beyond.
pub fn rounded_length(words: u64) -> u64 {
    let words = u32::try_from(words).unwrap_or(u32::MAX);
    u64::from(FieldNormReader::id_to_fieldnorm(
        FieldNormReader::fieldnorm_to_id(words),
    ))
}

/// What BM25 makes of a word that stands in a text more often than any other: k₁ + 1.
const GREATEST_FREQUENCY: f64 = 2.2;

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

/// The search as tantivy's; `None` if it can't find anything. A single part stands alone: only then
/// can tantivy pass over blocks of documents that can't be among the best.
fn compile(terms: &SearchTerms) -> Option<Box<dyn Query>> {
    let mut clauses: Vec<(Occur, Box<dyn Query>)> = Vec::new();
    for alternatives in &terms.wanted {
        clauses.push((Occur::Must, any_of(alternatives)?));
    }
    if clauses.is_empty() {
        return None;
    }
    // tantivy asks what is excluded about documents before those that it stands at, which its
    // phrases don't expect. Its unions do, and a phrase taken twice is one.
    let unwanted: Vec<Phrase> = terms
        .unwanted
        .iter()
        .flat_map(|phrase| [phrase.clone(), phrase.clone()])
        .collect();
    match any_of(&unwanted) {
        Some(unwanted) => clauses.push((Occur::MustNot, unwanted)),
        None if clauses.len() == 1 => return clauses.pop().map(|(_, query)| query),
        None => {}
    }
    Some(Box::new(BooleanQuery::new(clauses)))
}

/// `None` if there is nothing to choose from.
fn any_of(phrases: &[Phrase]) -> Option<Box<dyn Query>> {
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

/// The metadata of an index without segments.
fn empty_meta() -> Value {
    serde_json::json!({ "segments": [], "schema": super::schema(), "opstamp": 0 })
}

//! The best rows of a search by BM25.
//!
//! A search needs all of its words, or enough of them: a third of the weight of all, where a word
//! weighs the more, the fewer grains contain it (BM25's inverse document frequency). A word that no
//! grain contains weighs most, so a search for what isn't there finds nothing, and a question finds
//! what its rare words are about.

use std::collections::HashMap;

use roaring::RoaringBitmap;
use tantivy::Term;
use tantivy::query::{Bm25StatisticsProvider, ConstScoreQuery, EnableScoring, Occur, Query};
use tantivy::schema::Field as TextField;

use super::lake::{LakeTextIndex, any_of, compile, with_exclusions};
use super::query::{Phrase, SearchTerms, TextQuery};
use super::text_field;
use super::top_k::TopK;

/// A row that matches a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextHit {
    /// Index of its segment among those that the index was opened with.
    pub segment: usize,
    /// Its row there.
    pub row: u32,
    /// Its BM25 weight divided by the maximal weight of the search: above 0 and at most 1.
    pub score: f64,
}

/// Which of the words of a search a grain must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordsNeeded {
    /// All of them.
    All,
    /// Any of them.
    Any,
}

/// Share of the weight of all words that a grain with enough of them contains. Measured with the
/// questions of `docs/search.md`: a half finds a third fewer answers, a quarter finds grains for
/// texts that have nothing to do with the lake.
const ENOUGH: f32 = 1.0 / 3.0;

impl LakeTextIndex {
    /// Returns the expanded search, and the `limit` rows that match all of it best, best first; of
    /// equal scores, the first in the lake.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn search(
        &self,
        query: &TextQuery,
        limit: usize,
    ) -> tantivy::Result<(SearchTerms, Vec<TextHit>)> {
        self.search_within(query, WordsNeeded::All, limit, None)
    }

    /// Like [`LakeTextIndex::search`], for grains with the words that `needed` states, among the
    /// rows `within` (a set for each segment; `None`: all rows).
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn search_within(
        &self,
        query: &TextQuery,
        needed: WordsNeeded,
        limit: usize,
        within: Option<&[RoaringBitmap]>,
    ) -> tantivy::Result<(SearchTerms, Vec<TextHit>)> {
        let terms = self.terms(query)?;
        let compiled = match needed {
            WordsNeeded::All => compile(&terms),
            WordsNeeded::Any => compile_any(&terms),
        };
        // The collector allocates for the limit, which is capped by the number of documents.
        let limit = limit.min(self.searcher.num_docs() as usize);
        let Some(compiled) = compiled.filter(|_| limit > 0) else {
            return Ok((terms, Vec::new()));
        };
        let known = DocumentFrequencies::of(&terms, self)?;
        let greatest = known.greatest(&terms);
        let best = self.best(&*compiled, &known, limit, within)?;
        let hits = best.ranked().filter_map(|ranked| {
            let (segment, row) = self.row_of(ranked.place, ranked.document)?;
            let score = (f64::from(ranked.score) / greatest).clamp(f64::MIN_POSITIVE, 1.0);
            Some(TextHit {
                segment,
                row,
                score,
            })
        });
        Ok((terms, hits.collect()))
    }

    /// Returns the rows of each segment that contain enough of the words of `query`.
    /// Costs a pass over the postings of all words.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn rows_with_enough(&self, query: &TextQuery) -> tantivy::Result<Vec<RoaringBitmap>> {
        let segments = self.places.iter().map(|(segment, _)| segment + 1).max();
        let mut rows = vec![RoaringBitmap::new(); segments.unwrap_or_default()];
        let terms = self.terms(query)?;
        let known = DocumentFrequencies::of(&terms, self)?;
        let (mut clauses, mut total) = (Vec::new(), 0.0);
        for alternatives in &terms.required {
            let weight = known.least_rarity(alternatives) as f32;
            total += weight;
            if let Some(query) = any_of(alternatives) {
                let weighted: Box<dyn Query> = Box::new(ConstScoreQuery::new(query, weight));
                clauses.push((Occur::Should, weighted));
            }
        }
        let Some(compiled) = with_exclusions(clauses, &terms) else {
            return Ok(rows);
        };
        let scoring = EnableScoring::enabled_from_statistics_provider(&known, &self.searcher);
        let weight = compiled.weight(scoring)?;
        for (place, reader) in self.searcher.segment_readers().iter().enumerate() {
            weight.for_each(reader, &mut |document, score| {
                let found = self
                    .row_of(place, document)
                    .filter(|_| score >= ENOUGH * total);
                if let Some((segment, row)) = found
                    && let Some(rows) = rows.get_mut(segment)
                {
                    rows.insert(row);
                }
            })?;
        }
        Ok(rows)
    }

    /// Returns the number of rows that contain all words of `query`; if there are none, of those
    /// that contain enough.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn count_matches(&self, query: &TextQuery) -> tantivy::Result<u64> {
        match self.count(query)? {
            0 => Ok(self
                .rows_with_enough(query)?
                .iter()
                .map(RoaringBitmap::len)
                .sum()),
            exact => Ok(exact as u64),
        }
    }

    /// Collects the `limit` best documents of `compiled` among the rows `within`.
    fn best(
        &self,
        compiled: &dyn Query,
        known: &DocumentFrequencies<'_>,
        limit: usize,
        within: Option<&[RoaringBitmap]>,
    ) -> tantivy::Result<TopK> {
        let scoring = EnableScoring::enabled_from_statistics_provider(known, &self.searcher);
        let weight = compiled.weight(scoring)?;
        let is_wanted = |place: usize, document: u32| match within {
            None => true,
            Some(within) => self
                .row_of(place, document)
                .and_then(|(segment, row)| Some(within.get(segment)?.contains(row)))
                .unwrap_or_default(),
        };
        let mut best = TopK::of(limit);
        for (place, reader) in self.searcher.segment_readers().iter().enumerate() {
            let threshold = best.threshold();
            weight.for_each_pruning(threshold, reader, &mut |document, score| match is_wanted(
                place, document,
            ) {
                true => best.add(score, place, document),
                false => best.threshold(),
            })?;
        }
        Ok(best)
    }

    /// Returns the segment of the lake and the row of a document in the piece `place`.
    fn row_of(&self, place: usize, document: u32) -> Option<(usize, u32)> {
        let (segment, first_row) = *self.places.get(place)?;
        Some((segment, first_row + document))
    }
}

/// Compiles a search for grains that have any of its words.
fn compile_any(terms: &SearchTerms) -> Option<Box<dyn Query>> {
    let clauses = terms
        .required
        .iter()
        .filter_map(|alternatives| Some((Occur::Should, any_of(alternatives)?)))
        .collect();
    with_exclusions(clauses, terms)
}

/// Document frequencies of the words of a search, looked up once, because look-ups in many pieces
/// are slow.
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
        for word in terms.required.iter().flatten().flatten() {
            let term = Term::from_field_text(text_field(), word);
            let frequency = text.searcher.doc_freq(&term)?;
            containing.insert(term, frequency);
        }
        Ok(DocumentFrequencies { text, containing })
    }

    /// Returns BM25's inverse document frequency of a word.
    fn rarity(&self, word: &str) -> f64 {
        let documents = self.text.len() as f64;
        let containing = self
            .containing
            .get(&Term::from_field_text(text_field(), word));
        let containing = containing.copied().unwrap_or_default() as f64;
        (1.0 + (documents - containing + 0.5) / (containing + 0.5)).ln()
    }

    /// Returns the rarity of the least rare of some phrases; without any, that of a word that no
    /// grain contains.
    fn least_rarity(&self, phrases: &[Phrase]) -> f64 {
        phrases
            .iter()
            .map(|phrase| phrase.iter().map(|word| self.rarity(word)).sum())
            .min_by(f64::total_cmp)
            .unwrap_or_else(|| self.rarity(""))
    }

    /// Returns the maximal weight: every required word with maximal frequency.
    fn greatest(&self, terms: &SearchTerms) -> f64 {
        let words = terms.required.iter().flatten().flatten();
        let sum: f64 = words
            .map(|word| self.rarity(word) * GREATEST_FREQUENCY)
            .sum();
        f64::max(sum, f64::MIN_POSITIVE)
    }
}

impl Bm25StatisticsProvider for DocumentFrequencies<'_> {
    /// Tantivy's own number is an estimate where rows were removed from a piece.
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

/// BM25's limit of the frequency factor: k₁ + 1.
const GREATEST_FREQUENCY: f64 = 2.2;

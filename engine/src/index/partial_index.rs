//! The full text of the segments whose index is usable, for queries that read the other segments
//! themselves.

use std::ops::Range;
use std::sync::Arc;

use super::fulltext::{LakeTextIndex, SegmentTextIndex, TextQuery};
use crate::text::{Statistics, Terms};

/// The full-text indexes of some of the requested segments.
#[derive(Debug)]
pub struct PartialTextIndex {
    text: Arc<LakeTextIndex>,
    /// For each requested segment, whether its index is usable.
    covered: Vec<bool>,
}

impl PartialTextIndex {
    /// Opens the indexes `texts`; `None` for those that aren't usable.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn new(texts: &[Option<Arc<SegmentTextIndex>>]) -> tantivy::Result<PartialTextIndex> {
        let usable: Vec<Arc<SegmentTextIndex>> = texts.iter().flatten().cloned().collect();
        let text = Arc::new(LakeTextIndex::new(&usable)?);
        Ok(PartialTextIndex {
            text,
            covered: texts.iter().map(Option::is_some).collect(),
        })
    }

    /// Returns the index of all requested segments, or `None` if some of them have none.
    pub fn whole(&self) -> Option<&Arc<LakeTextIndex>> {
        self.covered
            .iter()
            .all(|covered| *covered)
            .then_some(&self.text)
    }

    /// Returns, for each requested segment, whether its index is usable.
    pub fn covered(&self) -> &[bool] {
        &self.covered
    }

    /// Returns the statistics of a search in the indexed grains, exactly as if the words of these
    /// grains were counted. Cost: one look-up per word and piece of the index.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn statistics(&self, terms: &Terms) -> tantivy::Result<Statistics> {
        self.text.statistics(terms.words())
    }

    /// As [`PartialTextIndex::statistics`], for the rows `within` alone: ranges of rows for each
    /// requested segment.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn statistics_within(
        &self,
        terms: &Terms,
        within: &[Vec<Range<u32>>],
    ) -> tantivy::Result<Statistics> {
        let usable = within
            .iter()
            .zip(&self.covered)
            .filter(|(_, covered)| **covered);
        let within: Vec<_> = usable.map(|(ranges, _)| ranges.clone()).collect();
        self.text.statistics_within(terms.words(), &within)
    }

    /// Returns the rows of each segment that contain all words of a search, ascending; `None` for a
    /// segment without an index.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn rows_with(&self, terms: &Terms) -> tantivy::Result<Vec<Option<Vec<u32>>>> {
        let usable = self.covered.iter().filter(|covered| **covered).count();
        let query = TextQuery::all_of(terms.words().iter().cloned());
        let mut rows = self.text.rows(&query, usable)?.into_iter();
        Ok(self
            .covered
            .iter()
            .map(|covered| covered.then(|| rows.next().unwrap_or_default()))
            .collect())
    }
}

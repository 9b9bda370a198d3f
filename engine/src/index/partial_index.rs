//! The full text of those segments of a lake whose index can be used, for askers who read the
//! others themselves.

use std::ops::Range;
use std::sync::Arc;

use super::fulltext::{LakeTextIndex, SegmentTextIndex, TextQuery};
use crate::text::{Statistics, Terms};

/// The full text of some of the segments that were asked for.
#[derive(Debug)]
pub struct PartialTextIndex {
    text: Arc<LakeTextIndex>,
    /// For each segment that was asked for, whether its index can be used.
    covered: Vec<bool>,
}

impl PartialTextIndex {
    /// The indexes `texts`, of which some can't be used.
    ///
    /// # Errors
    /// What tantivy says of the files.
    pub fn new(texts: &[Option<Arc<SegmentTextIndex>>]) -> tantivy::Result<PartialTextIndex> {
        let usable: Vec<Arc<SegmentTextIndex>> = texts.iter().flatten().cloned().collect();
        let text = Arc::new(LakeTextIndex::new(&usable)?);
        Ok(PartialTextIndex {
            text,
            covered: texts.iter().map(Option::is_some).collect(),
        })
    }

    /// The text of all segments; `None` if some of them can't be used.
    pub fn whole(&self) -> Option<&Arc<LakeTextIndex>> {
        self.covered
            .iter()
            .all(|covered| *covered)
            .then_some(&self.text)
    }

    /// For each segment that was asked for, whether its index can be used.
    pub fn covered(&self) -> &[bool] {
        &self.covered
    }

    /// What the usable indexes know of the words of a search: exactly what counting the words of
    /// their grains would say. Looks up each word in each piece of the index.
    ///
    /// # Errors
    /// What tantivy says of the files.
    pub fn statistics(&self, terms: &Terms) -> tantivy::Result<Statistics> {
        self.text.statistics(terms.words())
    }

    /// As [`PartialTextIndex::statistics`], of the rows `within` alone: ranges of rows for each
    /// segment that was asked for.
    ///
    /// # Errors
    /// What tantivy says of the files.
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

    /// The rows of each segment that have all words of a search, ascending; `None` for one whose
    /// index can't be used.
    ///
    /// # Errors
    /// What tantivy says of the files.
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

//! All rows that match a search, with upper bounds of their scores.
//!
//! The index contains the exact frequencies of words, but the lengths of long texts only rounded
//! down, so that [`Scorer`] computes at least the score of the text from it, and the same score for
//! texts of up to 40 words.

use std::ops::Range;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, SegmentReader, TERMINATED, Term};

use super::lake::LakeTextIndex;
use super::ranked::TextHit;
use super::text_field;
use crate::text::{Frequencies, Scorer, Terms};

impl LakeTextIndex {
    /// Returns the rows that contain all of `terms` with upper bounds of their scores, in the order
    /// of the lake; `None` if there are more than `limit`. With `within`, only rows in these ranges
    /// count (ascending, for each segment).
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub fn scored_rows(
        &self,
        terms: &Terms,
        scorer: &Scorer,
        within: Option<&[Vec<Range<u32>>]>,
        limit: usize,
    ) -> tantivy::Result<Option<Vec<TextHit>>> {
        let mut hits = Vec::new();
        let readers = self.searcher.segment_readers().iter();
        for (reader, (segment, first_row)) in readers.zip(&self.places) {
            let Some(mut matches) = DocumentsWithAll::open(reader, terms)? else {
                continue;
            };
            let ranges = within.map(|within| within.get(*segment).map_or(&[][..], Vec::as_slice));
            while let Some(document) = matches.next_document() {
                let row = first_row + document;
                if ranges.is_some_and(|ranges| !contains(ranges, row)) {
                    continue;
                }
                let Some(score) = scorer.score(&matches.frequencies(document)) else {
                    continue;
                };
                if hits.len() == limit {
                    return Ok(None);
                }
                hits.push(TextHit {
                    segment: *segment,
                    row,
                    score,
                });
            }
        }
        Ok(Some(hits))
    }
}

/// The documents of one segment of tantivy that contain all words of a search.
struct DocumentsWithAll {
    /// The postings of each word, in the order of the search.
    postings: Vec<SegmentPostings>,
    lengths: FieldNormReader,
    /// The first document that hasn't been considered.
    next: DocId,
}

impl DocumentsWithAll {
    /// Returns the documents with all `terms`; `None` if one of the words is missing, or there is
    /// none.
    fn open(reader: &SegmentReader, terms: &Terms) -> tantivy::Result<Option<DocumentsWithAll>> {
        let inverted = reader.inverted_index(text_field())?;
        let mut postings = Vec::with_capacity(terms.words().len());
        for word in terms.words() {
            let term = Term::from_field_text(text_field(), word);
            match inverted.read_postings(&term, IndexRecordOption::WithFreqs)? {
                Some(own) => postings.push(own),
                None => return Ok(None),
            }
        }
        if postings.is_empty() {
            return Ok(None);
        }
        let lengths = reader.get_fieldnorms_reader(text_field())?;
        Ok(Some(DocumentsWithAll {
            postings,
            lengths,
            next: 0,
        }))
    }

    /// Returns the next document, at which all postings are then.
    fn next_document(&mut self) -> Option<DocId> {
        let mut target = self.next;
        loop {
            let mut furthest = target;
            for own in &mut self.postings {
                furthest = match own.doc() < furthest {
                    true => own.seek(furthest),
                    false => own.doc(),
                };
                if furthest == TERMINATED {
                    return None;
                }
            }
            if furthest == target {
                self.next = target + 1;
                return Some(target);
            }
            target = furthest;
        }
    }

    /// Returns the number of words of `document`, the last one returned, and how often it contains
    /// each word of the search.
    fn frequencies(&self, document: DocId) -> Frequencies {
        Frequencies {
            length: self.lengths.fieldnorm(document),
            counts: self.postings.iter().map(|own| own.term_freq()).collect(),
        }
    }
}

/// Returns whether `row` is in one of `ranges` (ascending).
fn contains(ranges: &[Range<u32>], row: u32) -> bool {
    let begun = ranges.partition_point(|range| range.start <= row);
    let last = begun.checked_sub(1).and_then(|last| ranges.get(last));
    last.is_some_and(|range| row < range.end)
}

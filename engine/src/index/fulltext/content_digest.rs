//! A digest of the content of an index, independent of its bytes: tantivy's file names are random,
//! and reused postings are laid out differently.

use tantivy::TERMINATED;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;

use super::lake::LakeTextIndex;
use super::text_field;

impl LakeTextIndex {
    /// Returns a digest of all words, their rows, frequencies and positions. Equal indexes have
    /// equal digests however their rows are divided into pieces. Reads every posting.
    ///
    /// # Errors
    /// Errors of tantivy when it reads the files.
    pub(crate) fn content_digest(&self) -> tantivy::Result<[u8; 32]> {
        // A sum doesn't depend on the order of its terms.
        let mut sums = [0_u64; 4];
        let readers = self.searcher.segment_readers().iter();
        for (reader, (segment, first_row)) in readers.zip(&self.places) {
            let index = reader.inverted_index(text_field())?;
            let mut terms = index.terms().stream()?;
            while terms.advance() {
                let option = IndexRecordOption::WithFreqsAndPositions;
                let postings = index.read_postings_from_terminfo(terms.value(), option)?;
                let is_alive = |document| {
                    let alive = reader.alive_bitset();
                    alive.is_none_or(|alive| alive.is_alive(document))
                };
                let place = (*segment as u64, *first_row);
                add_postings(postings, terms.key(), place, is_alive, &mut sums);
            }
        }
        let mut digest = [0; 32];
        digest
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip(sums)
            .for_each(|(part, sum)| *part = sum.to_le_bytes());
        Ok(digest)
    }
}

/// Adds the hash of each posting of a term to `sums`. `segment` and `first_row` are the place of
/// the piece in the lake.
fn add_postings(
    mut postings: impl Postings,
    term: &[u8],
    (segment, first_row): (u64, u32),
    is_alive: impl Fn(u32) -> bool,
    sums: &mut [u64; 4],
) {
    let mut positions = Vec::new();
    while postings.doc() != TERMINATED {
        let document = postings.doc();
        if is_alive(document) {
            positions.clear();
            postings.positions(&mut positions);
            let mut hasher = blake3::Hasher::new();
            hasher.update(&segment.to_le_bytes());
            hasher.update(&(first_row + document).to_le_bytes());
            hasher.update(&postings.term_freq().to_le_bytes());
            positions
                .iter()
                .for_each(|position| _ = hasher.update(&position.to_le_bytes()));
            let hash = hasher.update(term).finalize();
            for (sum, part) in sums.iter_mut().zip(hash.as_bytes().as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*part));
            }
        }
        postings.advance();
    }
}

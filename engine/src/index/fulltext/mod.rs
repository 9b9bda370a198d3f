//! Full-text index of a segment, and searches over the indexes of a whole lake.
//!
//! Each segment has one file, `fulltext.bin`: the files of a `tantivy` index, packed, with a
//! checksum over all. Each row group is a piece of its own, so that a segment is indexed on all
//! cores while it is written; document `n` of a piece is row `n` of its row group. Texts aren't
//! stored, because the lake has them. Opened together, the pieces of all segments are one index, so
//! that BM25 uses the statistics of the whole lake.
//!
//! ```text
//! "GMTEXT01"   magic                                     8
//! h            bytes of the head                         u32
//! head         JSON: rows, version of the text rules, tantivy's own metadata, pieces with their files
//! files        the files of the pieces, one after another
//! checksum     BLAKE3 of all before                      32
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `tokenizer` | the words of [`crate::text`] as tantivy's tokens |
//! | `piece` | from rows to a piece, and from pieces to the file |
//! | `postings_reuse` | a piece without some of its rows |
//! | `content_digest` | comparing two indexes whose bytes differ |
//! | `pack` | the format of the file |
//! | `directory` | packed files as a tantivy directory |
//! | `query` | the syntax of searches |
//! | `lake` | the indexes of all segments as one |
//! | `ranked` | the best rows of a search, with scores |
//! | `scored` | all rows of a search, with upper bounds of their scores |
//! | `top_k` | the best documents so far |
//! | `snippet` | the matching fields of a grain, and the text around a match |

mod content_digest;
mod directory;
mod lake;
mod pack;
mod piece;
mod postings_reuse;
mod query;
mod ranked;
mod scored;
mod snippet;
#[cfg(test)]
mod tests;
mod tokenizer;
mod top_k;

pub use lake::{LakeTextIndex, rounded_length};
pub use pack::{DamagedText, SegmentTextIndex};
pub use piece::{TextPiece, TextPieceBuilder, pack, words_in};
pub use query::{Phrase, SearchTerms, TextQuery, TextQueryError};
pub use ranked::{TextHit, WordsNeeded};
pub use snippet::{Highlight, highlight};

use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};

/// Name of the sidecar file.
pub(crate) const FULLTEXT_FILE: &str = "fulltext.bin";

/// Version of the rules that determine the words of a grain. An index built by other rules is
/// stale.
const TEXT_VERSION: u32 = 1;

/// The name of the tokenizer in tantivy's schema.
const TOKENIZER: &str = "words";

/// Returns the schema of every piece: words with frequencies and positions.
fn schema() -> Schema {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let mut schema = Schema::builder();
    schema.add_text_field(
        "text",
        TextOptions::default().set_indexing_options(indexing),
    );
    schema.build()
}

/// Returns the only field of [`schema`].
fn text_field() -> Field {
    Field::from_field_id(0)
}

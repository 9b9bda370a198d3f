//! Full text: the words of the grains of a segment, and searches over the words of a whole lake.
//!
//! Each segment has one file, `fulltext.bin`: the files of a `tantivy` index, packed, with a
//! checksum over all. Its pieces are made of one row group each, so that a segment is indexed on
//! all cores while it is written; the document `n` of a piece is the row `n` of its row group.
//! Texts aren't stored: the lake has them. Opened, the pieces of all segments are one index, so the
//! statistics that BM25 needs are those of the whole lake.
//!
//! ```text
//! "GMTEXT01"   magic                                     8
//! h            bytes of the head                         u32
//! head         JSON: rows, version of the text rules, tantivy's own metadata, pieces with their files
//! files        the files of the pieces, one after another
//! checksum     BLAKE3 of all before                      32
//! ```
//!
//! | module | what it answers |
//! |---|---|
//! | `tokenizer` | how does tantivy see the words of [`crate::text`]? |
//! | `piece` | how do rows become a piece, and pieces the file? |
//! | `postings_reuse` | what is a piece without some of its rows? |
//! | `pack` | which pieces has a file, and where are they in it? |
//! | `directory` | how does tantivy read packed files? |
//! | `query` | what does a search ask for? |
//! | `lake` | which rows of the lake fit it best? |
//! | `top_k` | which of them are the best so far? |
//! | `snippet` | which fields of a grain fit it, and which words around the match are shown? |

mod content_digest;
mod directory;
mod lake;
mod pack;
mod piece;
mod postings_reuse;
mod query;
mod snippet;
#[cfg(test)]
mod tests;
mod tokenizer;
mod top_k;

pub use lake::{LakeTextIndex, TextHit, rounded_length};
pub use pack::{DamagedText, SegmentTextIndex};
pub use piece::{TextPiece, TextPieceBuilder, pack, words_in};
pub use query::{Phrase, SearchTerms, TextQuery, TextQueryError};
pub use snippet::{Highlight, highlight};

use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};

/// The file's name among the sidecars.
pub const FULLTEXT_FILE: &str = "fulltext.bin";

/// The version of the rules by which a grain has words. An index made by other rules is stale.
const TEXT_VERSION: u32 = 1;

/// The name of the tokenizer in tantivy's schema.
const TOKENIZER: &str = "words";

/// The schema of every piece: the words, with how often and where they stand.
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

/// The only field of [`schema`].
fn text_field() -> Field {
    Field::from_field_id(0)
}

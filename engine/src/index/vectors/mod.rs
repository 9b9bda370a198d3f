//! Vectors: nearest neighbours among the embeddings of a segment's grains.
//!
//! A segment has one file for each model, `vectors-<model>.bin`: the vectors in half precision, the
//! rows that they belong to, and a graph (HNSW) over them that is built on all cores and laid out
//! flat, so that it is searched where it is mapped. A row may have several vectors (chunks); it
//! counts with its nearest.
//!
//! ```text
//! "GMVECT01"   magic                                             8
//! h            bytes of the head                                 u32
//! head         JSON: rows of the segment, model, dimensions, metric, counts; padded with spaces so that vectors are aligned
//! vectors      half precision                                    2 × dimensions × n
//! rows         the row of each vector                            u32 × n
//! levels       the level of each vector in the graph             u8 × n, padded to 4
//! ends         where the neighbours of each vector end           u32 × n
//! neighbours   for each vector, for each of its levels from the lowest: how many, then which   u32
//! checksum     BLAKE3 of all before                              32
//! ```
//!
//! | module | what it answers |
//! |---|---|
//! | `metric` | how far apart are two vectors? |
//! | `walk` | which vectors does one meet on the way to another? |
//! | `graph` | which vectors are neighbours? |
//! | `build` | how do vectors become the file? |
//! | `read` | which vectors of the file are nearest? |
//! | `lake` | how are the vectors of a whole lake made and searched? |
//! | [`files`] | where are the vectors that grains refer to? |
//! | [`embed`] | which vector has a text? |

mod build;
pub mod embed;
pub mod files;
mod hnsw_build;
mod hnsw_search;
mod lake;
mod metric;
mod read;
#[cfg(test)]
mod tests;

pub use build::VectorBuilder;
pub(crate) use lake::files_of;
pub use lake::{LakeVectors, VectorHit, VectorReport, VectorSource, index_vectors};
pub use metric::Metric;
pub use read::{DamagedVectors, Neighbour, VectorIndex};

use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"GMVECT01";

const CHECKSUM: usize = 32;

/// Bytes to whose multiples the head is padded.
const ALIGNMENT: usize = 64;

/// Dimensions of a vector at most.
pub const DIMENSION_LIMIT: usize = 16_384;

/// The head of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct VectorHeader {
    /// Rows of the segment.
    rows: u64,
    model: String,
    dimensions: usize,
    metric: Metric,
    /// Vectors.
    count: usize,
    /// Numbers in the list of neighbours.
    neighbours: usize,
    /// The vector at which searches begin.
    entry: u32,
}

/// Returns the name of the file for `model`: what of the model's name can be part of a file's name,
/// and a hash of all of it.
pub fn file_name(model: &str) -> String {
    let plain: String = model
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .take(48)
        .collect();
    let hash = blake3::hash(model.as_bytes()).to_hex();
    format!("vectors-{plain}-{}.bin", &hash[..8])
}

/// Returns whether `name` is that of a file of vectors.
pub fn is_vector_file(name: &str) -> bool {
    name.starts_with("vectors-") && name.ends_with(".bin")
}

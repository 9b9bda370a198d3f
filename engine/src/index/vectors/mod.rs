//! Vector index: nearest neighbours among the embeddings of a segment's grains.
//!
//! A segment has one file per model, `vectors-<model>.bin`: the vectors in half precision, their
//! rows, and an HNSW graph over them, which is built on all cores and stored as flat arrays, so
//! that it is searched in the mapped file. A row may have several vectors (chunks); its distance is
//! that of the nearest.
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
//! | module | contents |
//! |---|---|
//! | `metric` | the distance of two vectors |
//! | `hnsw_search` | search in a proximity graph |
//! | `hnsw_build` | construction of the graph |
//! | `build` | from vectors to the file |
//! | `read` | search in the file |
//! | `transfer` | the vectors of segments that are replaced, for the segments that replace them |
//! | `lake` | building and searching the vectors of a whole lake |
//! | [`files`] | vectors that grains refer to |
//! | [`embed`] | vectors of texts |

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
mod transfer;

pub use build::VectorBuilder;
pub(crate) use lake::files_of;
pub use lake::{LakeVectors, VectorHit, VectorReport, VectorSource, index_vectors};
pub use metric::Metric;
pub use read::{DamagedVectors, Neighbour, VectorIndex};
pub(crate) use transfer::{MovedRow, ReplacedVectors, VECTOR_BYTES, vectors_of, vectors_without};

use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"GMVECT01";

const CHECKSUM: usize = 32;

/// The header is padded to a multiple of this number of bytes.
const ALIGNMENT: usize = 64;

/// Maximal number of dimensions.
pub(crate) const DIMENSION_LIMIT: usize = 16_384;

/// The header of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct VectorHeader {
    /// Number of rows of the segment.
    rows: u64,
    model: String,
    dimensions: usize,
    metric: Metric,
    /// Number of vectors.
    count: usize,
    /// Length of the array of neighbours.
    neighbours: usize,
    /// The entry point of searches.
    entry: u32,
}

/// Returns the file name for `model`: the part of the model's name that is valid in a file name,
/// and a hash of the whole name.
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

/// Returns whether `name` is the name of a vector file.
pub(crate) fn is_vector_file(name: &str) -> bool {
    name.starts_with("vectors-") && name.ends_with(".bin")
}

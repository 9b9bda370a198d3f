//! Sources: resolves the names that a user gives to files, objects and streams, and provides their
//! bytes.
//!
//! Local files are memory-mapped. Other sources (objects in a store, standard input, pipes, what is
//! compressed) are spooled to a temporary file first, so that all of them are read in the same way
//! and memory use is independent of their size.
//!
//! | module | question |
//! |---|---|
//! | `discover` | which files, objects and streams do the names denote? |
//! | `lakes` | which folders are lakes, and no sources? |
//! | `location` | where is a source, and what is a pattern? |
//! | `bytes` | how are the bytes of a source accessed and released? |
//! | `resident_limit` | how much memory do pages of mapped files take? |
//! | `decompress` | what is in a file in gzip or zstd? |
//! | `fetch` | how does a remote source become local? |
//! | `spool` | where are the bytes of a stream stored while it is read? |
//! | `objects` | which objects of a store does a URI denote? (cargo feature `object-store`) |
//! | `kind` | which format does a source have? |
//! | `reference` | how does another process find a source? |

mod bytes;
pub(crate) mod decompress;
mod discover;
mod fetch;
mod kind;
mod lakes;
mod location;
#[cfg(feature = "object-store")]
mod objects;
mod reference;
mod resident_limit;
pub(crate) mod spool;

pub use bytes::SourceBytes;
pub use decompress::for_each_decompressed;
pub use discover::{discover, discover_all};
pub use fetch::{fetch, fetch_stored, fetch_with};
pub use kind::{SourceKind, UnknownKind};
pub use lakes::{is_lake_folder, lake_of};
pub use location::{Source, SourceLocation};
pub use reference::SourceReference;
pub use resident_limit::limit_resident_memory;
pub use spool::{DEFAULT_SPOOL_LIMIT, SealedFile, SealedWriter, SpoolOptions};

//! Sources: what a user names on the command line, as local bytes.
//!
//! Everything that isn't a local file (objects in a store, standard input) is spooled to a
//! temporary file first, so that one road serves all and memory stays bounded whatever the size.
//! Local files are memory-mapped.
//!
//! | module | what it answers |
//! |---|---|
//! | `discover` | which files, objects and streams does the user mean? |
//! | `bytes` | what are the bytes of one of them? |
//! | `fetch` | how does a remote one become local? |
//! | `spool` | how is it kept until then? |
//! | `kind` | what kind of input is it? |

mod bytes;
mod discover;
mod fetch;
mod kind;
pub(crate) mod spool;

pub use bytes::SourceBytes;
pub use discover::{Location, Source, discover};
pub use fetch::{fetch, fetch_with};
pub use kind::SourceKind;
pub use spool::{DEFAULT_SPOOL_LIMIT, SealedFile, SealedWriter, SpoolOptions};

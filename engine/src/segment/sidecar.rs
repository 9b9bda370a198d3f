//! Sidecars: index files that are derived from a segment and stored in a folder of their own. To
//! add a kind, start in `index/builder.rs`; docs/architecture.md, "Where to add", lists the rest.
//!
//! A sidecar is bound to its segment by a trailer ([`SidecarBinding`](super::SidecarBinding)) and
//! can be rebuilt at any time. The sidecars of statements, words and vectors are in `index`; the
//! address index is in this folder, because ingest needs it to detect duplicates.

use std::error::Error;

use bytes::Bytes;
use gristmill_connectors::source::SourceBytes;

use super::address_index::{ADDRESSES_FILE, AddressIndex};

/// A kind of sidecar that consists of one file.
pub trait Sidecar: Sized + Send + Sync + 'static {
    /// The name of the file in the segment's folder.
    const FILE: &'static str;
    /// The name of the kind in messages.
    const NAME: &'static str;

    /// Opens the sidecar and checks all of its bytes.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>>;

    /// Returns how many rows the segment had from which the sidecar was built.
    fn segment_rows(&self) -> u64;
}

impl Sidecar for AddressIndex {
    const FILE: &'static str = ADDRESSES_FILE;
    const NAME: &'static str = "address index";

    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(AddressIndex::open(bytes)?)
    }

    fn segment_rows(&self) -> u64 {
        self.len() as u64
    }
}

/// The content of a sidecar that isn't part of the lake yet.
#[derive(Debug)]
pub struct SidecarFile {
    /// The name of the file in the segment's folder.
    pub name: String,
    /// The bytes, in parts, so that large parts needn't be concatenated in memory.
    pub parts: Vec<Bytes>,
}

impl SidecarFile {
    /// Returns the file `name` with one part.
    pub(crate) fn whole(name: &str, bytes: Vec<u8>) -> SidecarFile {
        SidecarFile {
            name: name.to_owned(),
            parts: vec![bytes.into()],
        }
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

//! Segments: immutable Parquet files of `grains`, each with its sidecars.
//!
//! | module | question |
//! |---|---|
//! | `layout` | how is a segment's Parquet file laid out? |
//! | `mapped_file` | how does the Parquet reader access a mapped file? |
//! | `footer` | does a file have the columns of our tables? |
//! | `reader` | how are row groups, single rows and columns read? |
//! | `null_columns` | which columns of a row group contain only nulls? |
//! | `bounds` | which values of a row group do its statistics allow? |
//! | `writer` | how do batches become the file, on all cores? |
//! | `record_writer` | how do batches become a file of a small table? |
//! | `column` | how is one column of a row group encoded? |
//! | `copy` | how is a row group copied to another file? |
//! | `splice` | how is a column copied without some rows, page by page? |
//! | `pages` | where are the pages of a file? |
//! | `page_places` | does the page index state where the pages of a row group are? |
//! | `address_index` | which row of the segment has this address? |
//! | `repeated_addresses` | which addresses do several rows of some segments have? |
//! | `creation_seconds` | at which seconds were its grains created? |
//! | `created_span` | between which times were they created, as their payloads state it? |
//! | `binding` | to which segment does a sidecar belong? |
//! | `sidecar` | what is a sidecar? |
//!
//! Nothing here depends on the lake: a segment is a file, wherever it is stored.

mod address_index;
mod binding;
mod bounds;
mod column;
mod copy;
mod created_span;
mod creation_seconds;
mod footer;
mod layout;
mod mapped_file;
mod null_columns;
mod page_places;
mod pages;
mod reader;
mod record_writer;
mod repeated_addresses;
mod sidecar;
mod splice;
mod writer;

pub(crate) use address_index::addresses_of;
pub use address_index::{ADDRESSES_FILE, AddressIndex};
pub use binding::BindingError;
pub(crate) use binding::{PARQUET_END, SidecarBinding, content_of, footer_length, without_trailer};
pub(crate) use bounds::{BoundValue, StatedBounds, StatisticsOf};
pub(crate) use copy::CopySource;
pub use creation_seconds::CreationSeconds;
pub(crate) use creation_seconds::creation_seconds_of;
pub use layout::{ROW_GROUP_ROWS, grains_properties, unsorted_grains_properties};
pub(crate) use mapped_file::MappedFile;
pub(crate) use pages::page_bodies;
pub use reader::SegmentReader;
pub(crate) use record_writer::RecordWriter;
pub(crate) use repeated_addresses::{ADDRESS_PARTS, RowPlace, repeated_addresses};
pub use sidecar::{Sidecar, SidecarFile};
pub use writer::{RowGroupWriter, SegmentWriter};

use crate::file_digest::WrittenFile;

/// The name of a segment. It is unique, and part of the name of the data file and of the folder of
/// the sidecars.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(String);

impl SegmentId {
    /// Returns a new name, which sorts after all names that were made before on this machine.
    pub fn new() -> Self {
        SegmentId(ulid::Ulid::generate().to_string().to_ascii_lowercase())
    }

    /// Returns a new name, of an encrypted segment if `sealed` is true.
    pub fn new_sealed(sealed: bool) -> Self {
        let SegmentId(id) = SegmentId::new();
        SegmentId(if sealed { id + SEALED } else { id })
    }

    /// Returns true if the segment's rows are encrypted. The name states it, so that no file has to
    /// be read.
    pub fn is_sealed(&self) -> bool {
        self.0.ends_with(SEALED)
    }

    /// Returns when the name was made, in milliseconds since 1970, or `None` for a name of another
    /// engine.
    pub fn created_at(&self) -> Option<u64> {
        let id = self.0.strip_suffix(SEALED).unwrap_or(&self.0);
        ulid::Ulid::from_string(id).ok().map(|id| id.timestamp_ms())
    }

    /// Returns the segment of the data file `name`.
    pub fn of_file(name: &str) -> Option<SegmentId> {
        let id = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
        Some(SegmentId(id.to_owned()))
    }

    /// Returns the segment whose sidecars are in the folder `name`.
    pub(crate) fn of_folder(name: &str) -> SegmentId {
        SegmentId(name.to_owned())
    }

    /// Returns the name of the data file.
    pub fn file_name(&self) -> String {
        format!("part-{}.parquet", self.0)
    }

    /// Returns the folder of the sidecars, from the lake's root.
    pub fn folder(&self) -> object_store::path::Path {
        object_store::path::Path::from(format!("{SIDECARS}/{}", self.0))
    }

    /// Returns the path of the sidecar `name`, from the lake's root.
    pub fn sidecar(&self, name: &str) -> object_store::path::Path {
        object_store::path::Path::from(format!("{SIDECARS}/{}/{name}", self.0))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The suffix of an encrypted segment's name.
const SEALED: &str = ".sealed";

impl Default for SegmentId {
    fn default() -> Self {
        SegmentId::new()
    }
}

/// A segment whose files are written but not yet part of the lake.
pub(crate) struct WrittenSegment {
    pub(crate) id: SegmentId,
    pub(crate) data: tempfile::NamedTempFile,
    /// Rows, size and digest of the data file.
    pub(crate) file: WrittenFile,
    /// The creation seconds of its grains, if they are readable.
    pub(crate) seconds: Option<CreationSeconds>,
    /// The number of rows that supersede others, if it is known.
    pub(crate) superseding: Option<u64>,
    /// The number of rows that are disclosed copies, if it is known.
    pub(crate) disclosed: Option<u64>,
    /// The sidecars.
    pub(crate) sidecars: Vec<SidecarFile>,
}

impl WrittenSegment {
    /// Returns the binding for its sidecars.
    ///
    /// # Errors
    /// As [`SidecarBinding::of_file`].
    pub(crate) fn binding(&self) -> crate::error::Result<SidecarBinding> {
        SidecarBinding::of_file(&self.id, self.data.as_file())
    }
}

/// The folder of all sidecars. It is outside of the tables' folders, where Delta's VACUUM removes
/// files that the log doesn't reference.
pub(crate) const SIDECARS: &str = "index";

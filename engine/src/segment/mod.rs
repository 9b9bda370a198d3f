//! Segments: one Parquet file of `grains` each, immutable, with its sidecars.
//!
//! | module | what it answers |
//! |---|---|
//! | `layout` | how is a segment's Parquet file laid out? |
//! | `mapped_file` | how does the Parquet reader see a mapped file? |
//! | `footer` | has a file the columns that it should have? |
//! | `reader` | what are the rows of these row groups, with these columns? |
//! | `write` | how do batches become the file, on all cores? |
//! | `records` | how do batches become a file of a small table? |
//! | `column` | how does one column of a row group become its chunk? |
//! | `copy` | how does a row group become part of another file as it is? |
//! | `splice` | and a column that loses some rows, with the pages that lose none? |
//! | `pages` | where do the pages of a file lie? |
//! | `addresses` | which row of the segment has this address? |
//! | `binding` | of which segment is a sidecar? |
//! | `sidecar` | what is a sidecar, and what does one that isn't published yet consist of? |

mod addresses;
mod binding;
mod column;
mod copy;
mod footer;
mod layout;
mod mapped_file;
mod pages;
mod reader;
mod records;
mod sidecar;
mod splice;
mod write;

pub(crate) use addresses::addresses_of;
pub use addresses::{ADDRESSES_FILE, AddressIndex};
pub use binding::Unbound;
pub(crate) use binding::{Binding, PARQUET_END, footer_length, without_trailer};
pub(crate) use copy::CopySource;
pub use layout::{ROW_GROUP_ROWS, grains_properties, unsorted_grains_properties};
pub(crate) use mapped_file::MappedFile;
pub(crate) use pages::page_bodies;
pub use reader::SegmentReader;
pub(crate) use records::RecordsFile;
pub use sidecar::{Sidecar, SidecarFile};
pub use write::{RowGroup, SegmentFile};

use crate::file_digest::WrittenFile;

/// The name of a segment: unique, and the same in the data file's name and in the folder of its
/// sidecars.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(String);

impl SegmentId {
    /// A new name, later than all that were made before it on this machine.
    pub fn new() -> Self {
        SegmentId(ulid::Ulid::generate().to_string().to_ascii_lowercase())
    }

    /// A new name, of a sealed segment if `sealed` says so.
    pub fn new_sealed(sealed: bool) -> Self {
        let SegmentId(id) = SegmentId::new();
        SegmentId(if sealed { id + SEALED } else { id })
    }

    /// True if the segment's rows are sealed: it is in the name, so that nothing has to be read to
    /// know.
    pub fn is_sealed(&self) -> bool {
        self.0.ends_with(SEALED)
    }

    /// When the name was made, in milliseconds since 1970; `None` for a name of another writer.
    pub fn made_at(&self) -> Option<u64> {
        let id = self.0.strip_suffix(SEALED).unwrap_or(&self.0);
        ulid::Ulid::from_string(id).ok().map(|id| id.timestamp_ms())
    }

    /// The segment of a data file.
    pub fn of_file(name: &str) -> Option<SegmentId> {
        let id = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
        Some(SegmentId(id.to_owned()))
    }

    /// The segment whose sidecars are in the folder `name`.
    pub fn of_folder(name: &str) -> SegmentId {
        SegmentId(name.to_owned())
    }

    /// The name of the data file.
    pub fn file_name(&self) -> String {
        format!("part-{}.parquet", self.0)
    }

    /// The folder of the sidecars, from the lake's root.
    pub fn folder(&self) -> object_store::path::Path {
        object_store::path::Path::from(format!("{SIDECARS}/{}", self.0))
    }

    /// The path of the sidecar `name`, from the lake's root.
    pub fn sidecar(&self, name: &str) -> object_store::path::Path {
        object_store::path::Path::from(format!("{SIDECARS}/{}/{name}", self.0))
    }

    /// The name alone.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The end of a sealed segment's name.
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
    /// What the data file holds.
    pub(crate) file: WrittenFile,
    /// What stands beside the data file.
    pub(crate) sidecars: Vec<SidecarFile>,
}

impl WrittenSegment {
    /// What its sidecars are bound to.
    ///
    /// # Errors
    /// As [`Binding::of_file`].
    pub(crate) fn binding(&self) -> crate::error::Result<Binding> {
        Binding::of_file(&self.id, self.data.as_file())
    }
}

/// The folder of all sidecars: outside the tables' folders, where Delta's VACUUM removes what the
/// log doesn't know.
pub const SIDECARS: &str = "index";

//! Making a written segment part of the lake's folder; part of the lake it is once a commit names it.

use gristmill_connectors::source::SourceBytes;

use super::Lake;
use super::table::{Change, DataFile};
use crate::error::{Context, Result};
use crate::segment::{ADDRESSES_FILE, AddressIndex, WrittenSegment};

impl Lake {
    /// Puts the files of `segment` at their places, sidecars first, and adds it to `change`. Answers its address index.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn publish_segment(&self, change: &mut Change, segment: WrittenSegment) -> Result<AddressIndex> {
        let id = segment.id;
        crate::index::publish(&self.location, &id, &segment.sidecars).await?;
        let name = id.file_name();
        self.location.publish(segment.data, &self.grains.path_of(&name)).await?;
        change.added.push(DataFile { name, size: segment.size, rows: segment.rows });
        let bytes: SourceBytes = self.location.read(&id.sidecar(ADDRESSES_FILE)).await?;
        AddressIndex::open(bytes).file("can't read the sidecars of", id.as_str())
    }
}

//! Making a written segment part of the lake's folder; part of the lake it is once a commit names
//! it.

use gristmill_connectors::source::SourceBytes;

use super::Lake;
use super::table::{Change, DataFile};
use crate::error::{Context, Result};
use crate::segment::{ADDRESSES_FILE, AddressIndex, WrittenSegment};

impl Lake {
    /// Puts the files of `segment` at their places and adds it to `change`. Answers its address
    /// index.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn publish_segment(
        &self,
        change: &mut Change,
        segment: WrittenSegment,
    ) -> Result<AddressIndex> {
        let (file, index) = self.publishing(segment).await?;
        change.added.push(file);
        Ok(index)
    }

    /// What [`Lake::publish_segment`] does, for a change that is made later: other tables may be
    /// committed meanwhile. Answers what is to be added, and its address index.
    ///
    /// # Errors
    /// As [`Lake::publish_segment`].
    pub(crate) fn publishing(
        &self,
        segment: WrittenSegment,
    ) -> impl Future<Output = Result<(DataFile, AddressIndex)>> + Send + 'static {
        let (location, name) = (self.location.clone(), segment.id.file_name());
        let path = self.grains.path_of(&name);
        async move {
            let binding = segment.binding()?;
            let id = segment.id;
            let sidecars = crate::index::publish(&location, &id, &binding, segment.sidecars);
            // Both wait for the disk.
            let (sidecars, data) = tokio::join!(sidecars, location.publish(segment.data, &path));
            sidecars?;
            data?;
            let bytes: SourceBytes = location.read(&id.sidecar(ADDRESSES_FILE)).await?;
            let content = binding
                .unwrap(bytes)
                .file("can't read the sidecars of", id.as_str())?;
            let index =
                AddressIndex::open(content).file("can't read the sidecars of", id.as_str())?;
            Ok((DataFile::new(name, segment.file), index))
        }
    }
}

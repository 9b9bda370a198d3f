//! A segment that is being written: its data file and its sidecars.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tempfile::NamedTempFile;

use super::builder::IndexBuilder;
use crate::destination::folder_of;
use crate::error::{Context, Result};
use crate::lake::LakeLocation;
use crate::segment::{SegmentId, SegmentWriter, WrittenSegment, grains_properties};

/// A segment that is being written. Row groups go to [`file`](SegmentBuilder::file), and the same
/// rows to [`index`](SegmentBuilder::index), from any thread.
pub(crate) struct SegmentBuilder {
    id: SegmentId,
    data: NamedTempFile,
    pub(crate) file: SegmentWriter,
    pub(crate) index: IndexBuilder,
}

impl SegmentBuilder {
    /// What failed if a segment can't be written, in front of [`SegmentBuilder::place`].
    pub(crate) const WRITING: &str = "can't write a segment in";

    /// Starts the segment `id` with rows of `schema` in a temporary file of the lake.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) fn create(
        location: &LakeLocation,
        id: SegmentId,
        schema: SchemaRef,
        index: IndexBuilder,
    ) -> Result<SegmentBuilder> {
        let data = location.scratch_file()?;
        let file = SegmentWriter::create(&data, schema, grains_properties())
            .file(Self::WRITING, folder_of(data.path()).display())?;
        Ok(SegmentBuilder {
            id,
            data,
            file,
            index,
        })
    }

    /// Returns the name of the segment.
    pub(crate) fn id(&self) -> &SegmentId {
        &self.id
    }

    /// Returns the folder of the file that is written, for messages: the one whose disk is full.
    pub(crate) fn place(&self) -> std::path::Display<'_> {
        folder_of(self.data.path()).display()
    }

    /// Indexes and writes `batch` as row group `number`. Of sealed rows, `sealed_copies` are
    /// disclosed copies.
    ///
    /// # Errors
    /// As [`SegmentBuilder::create`].
    pub(crate) fn write_row_group(
        &self,
        number: usize,
        batch: RecordBatch,
        sealed_copies: Option<u64>,
    ) -> Result<()> {
        let mut part = self.index.part()?;
        part.add(&batch)?;
        if let Some(copies) = sealed_copies {
            part.set_sealed_copies(copies);
        }
        self.index.put(number, part)?;
        self.file
            .write_row_group(number, &[batch])
            .file(Self::WRITING, self.place())
    }

    /// Completes the data file, then the sidecars.
    ///
    /// # Errors
    /// As [`SegmentBuilder::create`].
    pub(crate) fn finish(self) -> Result<WrittenSegment> {
        let SegmentBuilder {
            id,
            data,
            file,
            index,
        } = self;
        let file = file
            .finish()
            .file(Self::WRITING, folder_of(data.path()).display())?;
        let (seconds, superseding) = (index.creation_seconds(), index.superseding_rows());
        let disclosed = index.disclosed_rows();
        Ok(WrittenSegment {
            id,
            data,
            file,
            seconds,
            superseding,
            disclosed,
            sidecars: index.finish(),
        })
    }

    /// Completes the data file and the sidecars in parallel, on the rayon pool of the caller.
    ///
    /// # Errors
    /// As [`SegmentBuilder::create`].
    pub(crate) fn finish_in_parallel(self) -> Result<WrittenSegment> {
        let SegmentBuilder {
            id,
            data,
            file,
            index,
        } = self;
        let (seconds, superseding) = (index.creation_seconds(), index.superseding_rows());
        let disclosed = index.disclosed_rows();
        let (file, sidecars) = rayon::join(|| file.finish(), || index.finish());
        let file = file.file(Self::WRITING, folder_of(data.path()).display())?;
        Ok(WrittenSegment {
            id,
            data,
            file,
            seconds,
            superseding,
            disclosed,
            sidecars,
        })
    }
}

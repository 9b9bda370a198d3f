//! The rows of `grains`, segment by segment, without a query engine.

use arrow::array::RecordBatch;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::mpsc;

use super::{Lake, Segment};
use crate::error::{Context, EngineError, Result};
use crate::keys::{ErasedRows, LakeKeys};
use crate::segment::SegmentReader;

/// A stream of batches.
pub type RowStream = BoxStream<'static, Result<RecordBatch>>;

/// Maximum number of rows of a batch.
const BATCH_ROWS: usize = 8_192;

/// Batches that are prefetched.
const AHEAD: usize = 4;

impl Lake {
    /// Streams all grains at the version of the handle, with just `columns` (or all), in the order
    /// of the segments. A few batches are prefetched.
    ///
    /// # Errors
    /// [`EngineError::Delta`] at once; [`EngineError::File`] and [`EngineError::Connector`] in the
    /// stream.
    pub fn scan(&self, columns: Option<&'static [&'static str]>) -> Result<RowStream> {
        Ok(self.scan_segments(self.segments()?, columns))
    }

    /// As [`Lake::scan`], but just `segments`.
    pub(crate) fn scan_segments(
        &self,
        segments: Vec<Segment>,
        columns: Option<&'static [&'static str]>,
    ) -> RowStream {
        let lake = self.clone();
        let (sender, receiver) = mpsc::channel(AHEAD);
        tokio::spawn(async move {
            for segment in segments {
                let failed = match read_segment(&lake, &segment, columns, sender.clone()).await {
                    Ok(()) => continue,
                    Err(error) => error,
                };
                // The receiver may be gone.
                let _ = sender.send(Err(failed)).await;
                return;
            }
        });
        stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|item| (item, receiver))
        })
        .boxed()
    }
}

/// Sends the rows of one segment. Stops early if the receiver is gone.
async fn read_segment(
    lake: &Lake,
    segment: &Segment,
    columns: Option<&'static [&'static str]>,
    sender: mpsc::Sender<Result<RecordBatch>>,
) -> Result<()> {
    let path = lake.grains.path_of(&segment.file.name);
    let keys = lake.keys_to_read(&segment.file.name)?;
    let bytes = lake.location().read(&path).await?;
    let name = path.to_string();
    let send = move || -> Result<()> {
        let reader = SegmentReader::open(bytes).file("can't read", &name)?;
        for row_group in 0..reader.row_groups() {
            let sealed = keys.as_ref().map(|_| LakeKeys::sealed_columns(columns));
            let stored = sealed.as_deref().or(columns);
            for batch in reader
                .read(row_group..row_group + 1, stored, BATCH_ROWS)
                .file("can't read", &name)?
            {
                let mut batch = batch.file("can't read", &name)?;
                if let Some(keys) = &keys {
                    batch = keys.open_rows(&batch, columns, ErasedRows::Dropped)?;
                }
                if sender.blocking_send(Ok::<_, EngineError>(batch)).is_err() {
                    return Ok(());
                }
            }
            reader.release(row_group);
        }
        Ok(())
    };
    tokio::task::spawn_blocking(send)
        .await
        .file("can't read", &path)?
}

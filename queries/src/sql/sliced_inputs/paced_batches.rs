//! Batches in slices whose size follows the time that the operator above works on one: a join may
//! compare each row of a batch with millions of rows, and returns nothing meanwhile.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::Stream;

/// Rows of the first slice, whose time isn't known before, and of the smallest.
const LEAST_ROWS: usize = 8;

/// A slice that takes longer is followed by a pause and smaller ones.
const SLOW: Duration = Duration::from_millis(50);

/// A slice that takes less is followed by larger ones.
const FAST: Duration = Duration::from_millis(20);

/// The batches of an input, sliced.
pub(super) struct PacedBatches {
    input: SendableRecordBatchStream,
    /// What is left of the last batch.
    rest: Option<RecordBatch>,
    /// Rows of the next slice.
    rows: usize,
    /// Rows of the largest slice.
    most: usize,
    /// When the last slice was returned.
    returned: Option<Instant>,
}

impl PacedBatches {
    /// Returns the batches of `input` in slices of at most `most` rows.
    pub(super) fn of(input: SendableRecordBatchStream, most: usize) -> PacedBatches {
        PacedBatches {
            input,
            rest: None,
            rows: LEAST_ROWS.min(most.max(1)),
            most: most.max(1),
            returned: None,
        }
    }

    /// Adapts the size of slices to the time that the last one took. Returns true if that was slow.
    fn adapt(&mut self) -> bool {
        let took = self.returned.take().map(|returned| returned.elapsed());
        match took {
            Some(took) if took > SLOW => {
                self.rows = (self.rows / 2).max(LEAST_ROWS.min(self.most));
                true
            }
            Some(took) if took < FAST => {
                self.rows = self.rows.saturating_mul(2).min(self.most);
                false
            }
            _ => false,
        }
    }

    /// Takes the next slice of `batch`.
    fn slice(&mut self, batch: RecordBatch) -> RecordBatch {
        self.returned = Some(Instant::now());
        let left = batch.num_rows().saturating_sub(self.rows);
        if left == 0 {
            return batch;
        }
        self.rest = Some(batch.slice(self.rows, left));
        batch.slice(0, self.rows)
    }
}

impl Stream for PacedBatches {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.adapt() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match ready!(self.input.as_mut().poll_next(context)) {
                Some(Ok(batch)) => batch,
                ended => return Poll::Ready(ended),
            },
        };
        Poll::Ready(Some(Ok(self.slice(batch))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{StreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn slices_have_all_rows_and_follow_the_time_that_they_take() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5_000));
        let batch = RecordBatch::try_from_iter([("a", numbers)]).unwrap();
        let input = stream::iter([Ok(batch.clone()), Ok(batch.slice(0, 0))]);
        let input = RecordBatchStreamAdapter::new(batch.schema(), input);
        let mut paced = PacedBatches::of(Box::pin(input), 1_000);
        let (mut sizes, mut found) = (Vec::new(), Vec::new());
        while let Some(slice) = paced.next().await {
            let slice = slice.unwrap();
            sizes.push(slice.num_rows());
            found.extend_from_slice(slice.column(0).as_primitive::<Int64Type>().values());
            if sizes.len() == 5 {
                tokio::time::sleep(2 * SLOW).await;
            }
        }
        assert!(found.into_iter().eq(0..5_000));
        assert_eq!(sizes[0], LEAST_ROWS);
        assert_eq!(sizes[5], (sizes[4] / 2).max(LEAST_ROWS));
        assert!(sizes.iter().all(|rows| *rows <= 1_000));
        assert_eq!(sizes.last(), Some(&0));
    }
}

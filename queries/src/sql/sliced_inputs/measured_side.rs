//! How many rows one side of a join has, and how wide they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;

use super::super::wide_rows::batch_bytes;

/// The rows of one side of a join that are read so far, in all partitions.
#[derive(Debug)]
pub(super) struct MeasuredSide {
    /// Rows with at most so many bytes aren't wide.
    narrow: usize,
    rows: AtomicUsize,
    widest: AtomicUsize,
}

impl MeasuredSide {
    /// Returns a side without rows, in which those above `narrow` bytes are wide.
    pub(super) fn of_rows_above(narrow: usize) -> Arc<MeasuredSide> {
        Arc::new(MeasuredSide {
            narrow,
            rows: AtomicUsize::new(0),
            widest: AtomicUsize::new(0),
        })
    }

    /// Adds the rows of a batch.
    pub(super) fn add(&self, batch: &RecordBatch) {
        self.rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
        let widest = widest_row(batch, self.narrow.max(self.widest()));
        self.widest.fetch_max(widest, Ordering::Relaxed);
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the widest row; 0 if no row is wide.
    pub(super) fn widest(&self) -> usize {
        self.widest.load(Ordering::Relaxed)
    }
}

/// Returns the bytes of the widest row of a batch; 0 if no row has more than `narrow`.
fn widest_row(batch: &RecordBatch, narrow: usize) -> usize {
    let (mut widest, mut rest) = (0, vec![batch.clone()]);
    while let Some(part) = rest.pop() {
        let (bytes, half) = (batch_bytes(&part), part.num_rows() / 2);
        if bytes <= narrow.max(widest) {
            continue;
        }
        if half == 0 {
            widest = bytes;
        } else {
            rest.push(part.slice(half, part.num_rows() - half));
            rest.push(part.slice(0, half));
        }
    }
    widest
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, StringArray};

    use super::*;

    #[test]
    fn the_widest_row_is_found_and_narrow_rows_have_no_width() {
        let texts = (0..100).map(|row| "x".repeat(if row == 63 { 40_000 } else { row }));
        let column: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let side = MeasuredSide::of_rows_above(1_000);
        side.add(&batch.slice(0, 60));
        assert_eq!((side.rows(), side.widest()), (60, 0));
        side.add(&batch.slice(60, 40));
        assert_eq!(side.rows(), 100);
        assert!((40_000..40_100).contains(&side.widest()));
    }
}

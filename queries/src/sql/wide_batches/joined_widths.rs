//! How many bytes of keys and lists a join may gather.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, JoinType, Result};

use super::super::wide_rows::batch_bytes;
use super::GatherLimits;

/// The rows of one side that are read so far, in all partitions.
#[derive(Debug, Default)]
struct Side {
    rows: AtomicUsize,
    /// Rows whose keys are wide, and the bytes of the widest ones.
    wide_keys: AtomicUsize,
    widest_key: AtomicUsize,
    /// Bytes of the widest lists of a row.
    widest_lists: AtomicUsize,
}

/// The widths of both sides of a join.
#[derive(Debug)]
pub(super) struct JoinedWidths {
    sides: [Side; 2],
    /// False if rows have no place in the result without an equal key.
    is_outer: bool,
    limits: GatherLimits,
}

impl JoinedWidths {
    pub(super) fn of(kind: JoinType, limits: GatherLimits) -> JoinedWidths {
        JoinedWidths {
            sides: Default::default(),
            is_outer: kind != JoinType::Inner,
            limits,
        }
    }

    /// Returns the bytes of a row that isn't wide.
    pub(super) fn narrow_bytes(&self) -> usize {
        self.limits.narrow_bytes()
    }

    /// Adds the rows of a batch to those of a side: their keys, and their lists.
    ///
    /// # Errors
    /// `ResourcesExhausted` if a batch of results may have too many bytes of them.
    pub(super) fn add(&self, side: usize, keys: &RecordBatch, lists: &RecordBatch) -> Result<()> {
        let narrow = self.narrow_bytes();
        let Some(side) = self.sides.get(side) else {
            return Ok(());
        };
        side.rows.fetch_add(keys.num_rows(), Relaxed);
        let wide = wide_rows(keys, narrow);
        side.wide_keys.fetch_add(wide.rows, Relaxed);
        side.widest_key.fetch_max(wide.widest, Relaxed);
        let wide = wide_rows(lists, narrow);
        side.widest_lists.fetch_max(wide.widest, Relaxed);
        self.check()
    }

    fn check(&self) -> Result<()> {
        let most = self.limits.copied_bytes;
        let bytes = self.bytes_of_keys().saturating_add(self.bytes_of_lists());
        if bytes > most {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "a join on equal columns would make {bytes} bytes of a batch of rows, more than \
                 {most}: its keys or lists are too wide, join on md5(key) or shorter lists"
            )));
        }
        Ok(())
    }

    /// Only wide keys of both sides are equal, and each may be equal to all of the other side.
    fn bytes_of_keys(&self) -> usize {
        let [left, right] = [0, 1].map(|side| self.sides[side].wide_keys.load(Relaxed));
        let pairs = left.saturating_mul(right).min(self.limits.rows);
        let alone = match self.is_outer {
            true => left.max(right).min(self.limits.rows),
            false => 0,
        };
        let widest = self.sides.iter().map(|side| side.widest_key.load(Relaxed));
        let widest = widest.max().unwrap_or_default();
        widest.saturating_mul(pairs.saturating_add(alone))
    }

    /// A row of one side may be joined with all rows of the other.
    fn bytes_of_lists(&self) -> usize {
        let [left, right] = &self.sides;
        let bytes = |side: &Side, other: &Side| {
            let times = other.rows.load(Relaxed).min(self.limits.rows);
            side.widest_lists.load(Relaxed).saturating_mul(times)
        };
        bytes(left, right).saturating_add(bytes(right, left))
    }
}

/// The wide rows of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WideRows {
    pub(super) rows: usize,
    /// Bytes of the widest one.
    widest: usize,
}

/// Returns the rows of a batch with more than `narrow` bytes. Costs a few steps for a batch without
/// such rows.
pub(super) fn wide_rows(batch: &RecordBatch, narrow: usize) -> WideRows {
    let mut wide = WideRows::default();
    if batch.num_columns() == 0 {
        return wide;
    }
    let mut rest = vec![batch.clone()];
    while let Some(part) = rest.pop() {
        let (bytes, half) = (batch_bytes(&part), part.num_rows() / 2);
        if bytes <= narrow {
            continue;
        }
        if half == 0 {
            wide.rows += 1;
            wide.widest = wide.widest.max(bytes);
        } else {
            rest.push(part.slice(half, part.num_rows() - half));
            rest.push(part.slice(0, half));
        }
    }
    wide
}

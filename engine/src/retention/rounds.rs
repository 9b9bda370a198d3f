//! Rounds: spans of creation time, each with a bounded number of grains.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use arrow::array::{Array, AsArray};
use arrow::datatypes::TimestampMicrosecondType;
use gristmill_schemas::grain::Field;

use crate::error::{Context, Result};
use crate::lake::{Lake, LakeFile};

/// Rows of a round by default. What expires in a round is held in memory: some 300 bytes for each.
pub const ROUND_ROWS: u64 = 1_000_000;

const HOUR: u32 = 3_600;

/// Numbers of rows by the hour of their creation since 1970.
type Hours = BTreeMap<u32, u64>;

/// Cuts the creation seconds up to `last` into spans with about `rows` grains each, ascending. A
/// span has whole hours. Reads one column of the segments that have grains up to `last`.
///
/// # Errors
/// Those of the lake.
pub(super) async fn rounds(lake: &Lake, last: u32, rows: u64) -> Result<Vec<RangeInclusive<u32>>> {
    Ok(spans(&count_hours(lake, last).await?, last, rows))
}

async fn count_hours(lake: &Lake, last: u32) -> Result<Hours> {
    let column = Field::CreatedAt.name();
    let mut hours = Hours::new();
    for segment in lake.segments()? {
        let seconds = segment.file.seconds.as_ref();
        if seconds.is_some_and(|seconds| !seconds.overlaps(&(0..=last))) {
            continue;
        }
        let path = lake.grains.path_of(&segment.file.name);
        let file = LakeFile::open(lake, &path).await?;
        let count = move || {
            file.map_batches(Some(&[column]), |_, batch| {
                let instants = batch
                    .column_by_name(column)
                    .and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
                let mut hours = Hours::new();
                for row in 0..batch.num_rows() {
                    let micros = instants
                        .filter(|instants| instants.is_valid(row))
                        .map_or(0, |instants| instants.value(row));
                    let second = u32::try_from(micros.div_euclid(1_000_000)).unwrap_or(0);
                    *hours.entry(second / HOUR).or_default() += 1;
                }
                Ok(hours)
            })
        };
        let counted = tokio::task::spawn_blocking(count).await;
        for (hour, rows) in counted.file("can't read", &path)??.into_iter().flatten() {
            *hours.entry(hour).or_default() += rows;
        }
    }
    Ok(hours)
}

/// Returns spans that cover all seconds up to `last`, or none if there is no row up to it.
fn spans(hours: &Hours, last: u32, rows: u64) -> Vec<RangeInclusive<u32>> {
    let mut spans = Vec::new();
    let (mut first, mut counted) = (0, 0);
    for (hour, count) in hours.range(..=last / HOUR) {
        if counted > 0 && counted + count > rows {
            let start = hour * HOUR;
            spans.push(first..=start - 1);
            (first, counted) = (start, 0);
        }
        counted += count;
    }
    if counted > 0 {
        spans.push(first..=last);
    }
    spans
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The spans cover every second once, and have more rows than wanted only in one hour.
        #[test]
        fn spans_cover_every_row_once(
            hours in prop::collection::btree_map(0..200_u32, 1..50_u64, 0..40),
            last in 0..800_000_u32,
            rows in 1..100_u64,
        ) {
            let spans = spans(&hours, last, rows);
            let count = |span: &RangeInclusive<u32>| -> Vec<u64> {
                let within = hours.range(span.start() / HOUR..=span.end() / HOUR);
                within.map(|(_, count)| *count).collect()
            };
            let mut next = 0;
            for span in &spans {
                prop_assert_eq!(*span.start(), next);
                next = span.end().saturating_add(1);
                let counts = count(span);
                prop_assert!(counts.len() <= 1 || counts.iter().sum::<u64>() <= rows);
            }
            let is_covered = spans.last().is_some_and(|span| *span.end() == last);
            prop_assert_eq!(is_covered, hours.range(..=last / HOUR).next().is_some());
        }
    }
}

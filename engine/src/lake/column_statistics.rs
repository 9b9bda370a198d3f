//! What the log of `grains` states about the values of a data file, so that readers pass over files
//! without opening them. This program writes the number of rows, and between which times the grains
//! were created. Other engines may write more.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use chrono::{DateTime, Datelike, SecondsFormat};
use deltalake::kernel::LogicalFileView;
use gristmill_schemas::columns::grains_schema;
use gristmill_schemas::grain::Field;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::table::{DataFile, Table, delta_error};
use crate::error::Result;
use crate::file_digest::CreatedSpan;
use crate::segment::{BoundValue, StatedBounds, StatisticsOf};

/// Microseconds by which a time may be later than a maximum, which has milliseconds.
const CUT_MICROS: i64 = 999;

/// The statistics in an `add` action. Members of structs are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileStatistics {
    min_values: Option<Map<String, Value>>,
    max_values: Option<Map<String, Value>>,
    null_count: Option<Map<String, Value>>,
}

impl FileStatistics {
    /// Returns what is stated about the columns of a file of `rows` rows.
    fn bounds(&self, rows: u64) -> Vec<StatedBounds> {
        let stated = |field: &FieldRef| {
            let of = |values: &Option<Map<String, Value>>, later| {
                let value = values.as_ref()?.get(field.name())?;
                bound_of(value, field.data_type(), later)
            };
            // Some engines count the nulls inside of lists.
            let nulls = self.null_count.as_ref();
            let nulls = nulls.filter(|_| !field.data_type().is_nested());
            let bounds = StatedBounds {
                of: StatisticsOf::File,
                column: field.name().clone(),
                rows: 0..rows,
                min: of(&self.min_values, 0),
                max: of(&self.max_values, CUT_MICROS),
                nulls: nulls.and_then(|nulls| nulls.get(field.name())?.as_u64()),
            };
            let is_empty = bounds.min.is_none() && bounds.max.is_none() && bounds.nulls.is_none();
            (!is_empty).then_some(bounds)
        };
        grains_schema().fields().iter().filter_map(stated).collect()
    }
}

/// Returns `value` as a bound of a column of the type `kind`, or `None` if it is none. Times are
/// taken `later` by so many microseconds.
fn bound_of(value: &Value, kind: &DataType, later: i64) -> Option<BoundValue> {
    match kind {
        DataType::Utf8 => {
            let text = value.as_str()?;
            Some(BoundValue::Bytes(text.as_bytes().to_vec()))
        }
        DataType::Boolean => value.as_bool().map(BoundValue::Boolean),
        DataType::Float64 => value.as_f64().map(BoundValue::Double),
        DataType::Int16 | DataType::Int64 => {
            let nearest = || value.as_f64().map(|number| number as i64);
            value.as_i64().or_else(nearest).map(BoundValue::Integer)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            micros_of(value.as_str()?, later).map(BoundValue::Integer)
        }
        _ => None,
    }
}

/// What the statistics of an `add` action state about the column `created_at`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedStatistics {
    min_values: CreatedBound,
    max_values: CreatedBound,
    null_count: CreatedNulls,
}

/// Unknown members are ignored. [`statistics_of`] writes the name.
#[derive(Deserialize)]
struct CreatedBound {
    created_at: String,
}

#[derive(Deserialize)]
struct CreatedNulls {
    created_at: u64,
}

/// Returns when the grains of `file` were created, if the log states it of all.
pub(super) fn stated_span(file: &LogicalFileView) -> Option<CreatedSpan> {
    span_in(&file.stats()?)
}

fn span_in(statistics: &str) -> Option<CreatedSpan> {
    let stated: CreatedStatistics = serde_json::from_str(statistics).ok()?;
    (stated.null_count.created_at == 0).then_some(())?;
    Some(CreatedSpan {
        first: micros_of(&stated.min_values.created_at, 0)?,
        last: micros_of(&stated.max_values.created_at, CUT_MICROS)?,
    })
}

/// Returns the statistics of `file` for its `add` action, as JSON.
pub(super) fn statistics_of(file: &DataFile) -> String {
    let span = file.created.as_ref();
    let bounds = span.and_then(|span| Some((text_of(span.first)?, text_of(span.last)?)));
    let name = Field::CreatedAt.name();
    let statistics = match bounds {
        Some((first, last)) => json!({
            "numRecords": file.rows,
            "minValues": {name: first},
            "maxValues": {name: last},
            "nullCount": {name: 0},
        }),
        None => json!({"numRecords": file.rows}),
    };
    statistics.to_string()
}

/// Returns the instant with its milliseconds; `None` outside of the years 1 to 9999, which other
/// engines don't read.
fn text_of(micros: i64) -> Option<String> {
    let instant = DateTime::from_timestamp_micros(micros)?;
    let is_readable = (1..=9_999).contains(&instant.year());
    is_readable.then(|| instant.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// Returns the microseconds since 1970 of an instant, `later` by so many.
fn micros_of(text: &str, later: i64) -> Option<i64> {
    let instant = DateTime::parse_from_rfc3339(text).ok()?;
    Some(instant.timestamp_micros().saturating_add(later))
}

impl Table {
    /// Returns what the log states about the values of the live files, by their names. Statistics
    /// that can't be read state nothing.
    ///
    /// # Errors
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub(crate) fn stated_bounds(&self) -> Result<HashMap<String, Arc<[StatedBounds]>>> {
        let fault = delta_error("can't read the log", self.name());
        let state = self.delta().snapshot().map_err(fault)?;
        let stated = |file: LogicalFileView| {
            let statistics: FileStatistics = serde_json::from_str(&file.stats()?).ok()?;
            let bounds = statistics.bounds(file.num_records().unwrap_or_default() as u64);
            let is_empty = bounds.is_empty();
            (!is_empty).then(|| {
                (
                    file.path().into_owned(),
                    Arc::<[StatedBounds]>::from(bounds),
                )
            })
        };
        Ok(state.log_data().iter().filter_map(stated).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_any_engine_become_bounds() {
        let text = r#"{"numRecords":3,
            "minValues":{"subject":"a","type_byte":1,"created_at":"2026-01-01T00:00:00.000Z"},
            "maxValues":{"subject":7,"type_byte":1e30,"created_at":"2026-01-01T00:00:00.001Z"},
            "nullCount":{"subject":2,"supersedes":7,"unknown":1}}"#;
        let statistics: FileStatistics = serde_json::from_str(text).unwrap();
        let bounds = statistics.bounds(3);
        let of = |column: &str| {
            let found = bounds.iter().find(|bounds| bounds.column == column);
            let found = found.unwrap();
            (found.min.clone(), found.max.clone(), found.nulls)
        };
        assert_eq!(bounds.len(), 3);
        assert_eq!(
            of("subject"),
            (Some(BoundValue::Bytes(b"a".to_vec())), None, Some(2))
        );
        let [min, max] = [1, i64::MAX].map(|number| Some(BoundValue::Integer(number)));
        assert_eq!(of("type_byte"), (min, max, None));
        let micros = 1_767_225_600_000_000;
        let [min, max] = [micros, micros + 1_999].map(|at| Some(BoundValue::Integer(at)));
        assert_eq!(of("created_at"), (min, max, None));
        let counts: FileStatistics = serde_json::from_str(r#"{"numRecords":3}"#).unwrap();
        assert!(counts.bounds(3).is_empty());
    }
    #[test]
    fn the_span_of_a_file_is_read_as_it_was_or_wider() {
        let day = 86_400_000_000;
        for (first, last, read) in [
            (0, 0, Some((0, CUT_MICROS))),
            (-1, 1_000, Some((-1_000, 1_999))),
            (
                1_767_225_600_123_456,
                1_767_225_600_999_999,
                Some((1_767_225_600_123_000, 1_767_225_600_999_999)),
            ),
            (
                -719_162 * day,
                2_932_896 * day,
                Some((-719_162 * day, 2_932_896 * day + CUT_MICROS)),
            ),
            (0, 2_932_897 * day, None),
            (-719_163 * day, 0, None),
            (i64::MIN, i64::MAX, None),
        ] {
            let file = DataFile {
                created: Some(CreatedSpan { first, last }),
                ..DataFile::untagged("part-1.parquet", 1, 9)
            };
            let text = statistics_of(&file);
            let read = read.map(|(first, last)| CreatedSpan { first, last });
            assert_eq!(span_in(&text), read, "{text}");
            assert!(text.contains("\"numRecords\":9"), "{text}");
        }
        let unknown = statistics_of(&DataFile::untagged("part-1.parquet", 1, 9));
        assert_eq!(unknown, "{\"numRecords\":9}");
        let of_nulls = |nulls| {
            let time = r#"{"created_at":"2026-01-01T00:00:00Z","a":2}"#;
            let text = format!(
                r#"{{"minValues":{time},"maxValues":{time},"nullCount":{{"created_at":{nulls}}}}}"#
            );
            span_in(&text).is_some()
        };
        assert_eq!([0, 1].map(of_nulls), [true, false]);
        let foreign = r#"{"minValues":{"created_at":1,"a":2},"maxValues":{"created_at":2}}"#;
        assert_eq!(span_in(foreign), None);
    }
}

//! What the log of `grains` states about the values of a data file. This program writes counts of
//! rows only. Other engines may write more, and pass over files by it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use chrono::DateTime;
use deltalake::kernel::LogicalFileView;
use gristmill_schemas::columns::grains_schema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::table::{Table, delta_error};
use crate::error::Result;
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
            let instant = DateTime::parse_from_rfc3339(value.as_str()?).ok()?;
            let micros = instant.timestamp_micros().saturating_add(later);
            Some(BoundValue::Integer(micros))
        }
        _ => None,
    }
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
}

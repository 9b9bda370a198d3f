//! What statistics state about the values of a row group: those in the footer, and those in the
//! page index. Readers pass over row groups and pages by them.

use std::cmp::Ordering;
use std::ops::Range;

use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataBuilder,
    ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::statistics::Statistics;

use super::mapped_file::MappedFile;

/// What statistics are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatisticsOf {
    /// A data file, in its table's log.
    File,
    /// A row group, in the footer.
    RowGroup,
    /// A page, in the page index.
    Page,
}

/// A value that bounds others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BoundValue {
    Boolean(bool),
    /// Also a time, in microseconds since 1970.
    Integer(i64),
    Double(f64),
    /// Also a text, whose bytes have its order.
    Bytes(Vec<u8>),
}

impl BoundValue {
    /// Returns how the value compares with `other`, if it does.
    fn order(&self, other: &BoundValue) -> Option<Ordering> {
        match (self, other) {
            (BoundValue::Boolean(left), BoundValue::Boolean(right)) => Some(left.cmp(right)),
            (BoundValue::Integer(left), BoundValue::Integer(right)) => Some(left.cmp(right)),
            (BoundValue::Double(left), BoundValue::Double(right)) => left.partial_cmp(right),
            (BoundValue::Bytes(left), BoundValue::Bytes(right)) => Some(left.cmp(right)),
            _ => None,
        }
    }
}

/// What statistics state about one column of some rows.
#[derive(Debug, Clone)]
pub(crate) struct StatedBounds {
    pub(crate) of: StatisticsOf,
    /// The column.
    pub(crate) column: String,
    /// The rows, counted from the start of the file.
    pub(crate) rows: Range<u64>,
    /// No value is below.
    pub(crate) min: Option<BoundValue>,
    /// No value is above.
    pub(crate) max: Option<BoundValue>,
    /// The number of nulls.
    pub(crate) nulls: Option<u64>,
}

impl StatedBounds {
    /// Returns true if they state that no row has a value.
    fn are_of_nulls(&self) -> bool {
        self.nulls == Some(self.rows.end - self.rows.start)
    }

    /// Returns true if no value is within the bounds and outside of those of `outer`.
    fn are_within(&self, outer: &StatedBounds) -> bool {
        let is_within = |own: &Option<BoundValue>, outer: &Option<BoundValue>, wrong| match outer {
            None => true,
            Some(outer) => own
                .as_ref()
                .and_then(|own| own.order(outer))
                .is_some_and(|order| order != wrong),
        };
        self.are_of_nulls()
            || (is_within(&self.min, &outer.min, Ordering::Less)
                && is_within(&self.max, &outer.max, Ordering::Greater))
    }
}

/// Returns what the statistics of `group` in `bytes`, whose first row is row `begin` of the file,
/// state about its columns, without lists and members of structs. Minima and maxima of the row
/// group that follow from those of its pages are left out.
///
/// # Errors
/// [`ParquetError`] if the page index is damaged or doesn't fit the row group.
pub(super) fn stated_bounds(
    bytes: &MappedFile,
    file: &FileMetaData,
    group: &RowGroupMetaData,
    begin: u64,
) -> Result<Vec<StatedBounds>> {
    let indexed = with_page_index(bytes, file, group)?;
    let rows = begin..begin + group.num_rows().max(0) as u64;
    let mut all = Vec::new();
    for (leaf, chunk) in group.columns().iter().enumerate() {
        if chunk.column_path().parts().len() > 1 || chunk.column_descr().max_rep_level() > 0 {
            continue;
        }
        let index = indexed
            .column_index()
            .and_then(|all| all.first()?.get(leaf));
        let offsets = indexed
            .offset_index()
            .and_then(|all| all.first()?.get(leaf));
        let pages = match index.zip(offsets) {
            Some((index, offsets)) => {
                bounds_of_pages(chunk, index, offsets.page_locations(), &rows)?
            }
            None => Vec::new(),
        };
        if let Some(mut of_group) = bounds_of_group(chunk, &rows) {
            if !pages.is_empty() && pages.iter().all(|page| page.are_within(&of_group)) {
                (of_group.min, of_group.max) = (None, None);
            }
            all.push(of_group);
        }
        all.extend(pages);
    }
    Ok(all)
}

/// Returns the metadata of `group` alone, with its page index, if it has one.
fn with_page_index(
    bytes: &MappedFile,
    file: &FileMetaData,
    group: &RowGroupMetaData,
) -> Result<ParquetMetaData> {
    let metadata = ParquetMetaDataBuilder::new(file.clone())
        .add_row_group(group.clone())
        .build();
    let mut reader = ParquetMetaDataReader::new_with_metadata(metadata)
        .with_page_index_policy(PageIndexPolicy::Optional);
    reader.read_page_indexes(bytes)?;
    reader.finish()
}

fn bounds_of_group(chunk: &ColumnChunkMetaData, rows: &Range<u64>) -> Option<StatedBounds> {
    let statistics = chunk.statistics()?;
    let [min, max] = values_of_group(statistics);
    Some(StatedBounds {
        of: StatisticsOf::RowGroup,
        column: chunk.column_path().string(),
        rows: rows.clone(),
        min,
        max,
        nulls: statistics.null_count_opt(),
    })
}

/// Returns what `index` states about the pages at `locations` of `chunk`, which has `rows`.
fn bounds_of_pages(
    chunk: &ColumnChunkMetaData,
    index: &ColumnIndexMetaData,
    locations: &[PageLocation],
    rows: &Range<u64>,
) -> Result<Vec<StatedBounds>> {
    if matches!(index, ColumnIndexMetaData::NONE) {
        return Ok(Vec::new());
    }
    let start = |location: &PageLocation| {
        rows.start
            .saturating_add(location.first_row_index.max(0) as u64)
    };
    let starts = || locations.iter().map(start);
    let ranges: Vec<Range<u64>> = starts()
        .zip(starts().skip(1).chain([rows.end]))
        .map(|(start, end)| start..end)
        .collect();
    let begins = starts().next().is_some_and(|first| first == rows.start);
    let is_sound = index.num_pages() == locations.len() as u64
        && (begins || rows.is_empty())
        && ranges.iter().all(|range| range.start <= range.end);
    if !is_sound {
        return Err(ParquetError::General(format!(
            "the page index of `{}` doesn't fit its rows",
            chunk.column_path().string()
        )));
    }
    let bounds = |(page, rows): (usize, Range<u64>)| {
        let is_null = index.is_null_page(page);
        let [min, max] = match is_null {
            true => [None, None],
            false => values_of_page(index, page),
        };
        let counted = index.null_count(page).map(|nulls| nulls.max(0) as u64);
        StatedBounds {
            of: StatisticsOf::Page,
            column: chunk.column_path().string(),
            nulls: match is_null {
                true => Some(rows.end - rows.start),
                false => counted,
            },
            rows,
            min,
            max,
        }
    };
    Ok(ranges.into_iter().enumerate().map(bounds).collect())
}

fn both<T>(values: [Option<T>; 2], value: impl Fn(T) -> BoundValue) -> [Option<BoundValue>; 2] {
    values.map(|bound| bound.map(&value))
}

/// Returns the minimum and the maximum of a row group.
fn values_of_group(statistics: &Statistics) -> [Option<BoundValue>; 2] {
    match statistics {
        Statistics::Boolean(found) => both([found.min_opt(), found.max_opt()], |value: &bool| {
            BoundValue::Boolean(*value)
        }),
        Statistics::Int32(found) => both([found.min_opt(), found.max_opt()], |value: &i32| {
            BoundValue::Integer(i64::from(*value))
        }),
        Statistics::Int64(found) => both([found.min_opt(), found.max_opt()], |value: &i64| {
            BoundValue::Integer(*value)
        }),
        Statistics::Float(found) => both([found.min_opt(), found.max_opt()], |value: &f32| {
            BoundValue::Double(f64::from(*value))
        }),
        Statistics::Double(found) => both([found.min_opt(), found.max_opt()], |value: &f64| {
            BoundValue::Double(*value)
        }),
        Statistics::ByteArray(found) => {
            both([found.min_opt(), found.max_opt()], |value: &ByteArray| {
                BoundValue::Bytes(value.data().to_vec())
            })
        }
        Statistics::FixedLenByteArray(found) => both(
            [found.min_opt(), found.max_opt()],
            |value: &FixedLenByteArray| BoundValue::Bytes(value.data().to_vec()),
        ),
        Statistics::Int96(_) => [None, None],
    }
}

/// Returns the minimum and the maximum of the page number `page`.
fn values_of_page(index: &ColumnIndexMetaData, page: usize) -> [Option<BoundValue>; 2] {
    match index {
        ColumnIndexMetaData::BOOLEAN(found) => both(
            [found.min_value(page), found.max_value(page)],
            |value: &bool| BoundValue::Boolean(*value),
        ),
        ColumnIndexMetaData::INT32(found) => both(
            [found.min_value(page), found.max_value(page)],
            |value: &i32| BoundValue::Integer(i64::from(*value)),
        ),
        ColumnIndexMetaData::INT64(found) => both(
            [found.min_value(page), found.max_value(page)],
            |value: &i64| BoundValue::Integer(*value),
        ),
        ColumnIndexMetaData::FLOAT(found) => both(
            [found.min_value(page), found.max_value(page)],
            |value: &f32| BoundValue::Double(f64::from(*value)),
        ),
        ColumnIndexMetaData::DOUBLE(found) => both(
            [found.min_value(page), found.max_value(page)],
            |value: &f64| BoundValue::Double(*value),
        ),
        ColumnIndexMetaData::BYTE_ARRAY(found)
        | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(found) => both(
            [found.min_value(page), found.max_value(page)],
            |value: &[u8]| BoundValue::Bytes(value.to_vec()),
        ),
        ColumnIndexMetaData::INT96(_) | ColumnIndexMetaData::NONE => [None, None],
    }
}

//! Verification compares every cell that follows from a blob.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int16Array, Int64Array,
    ListArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use gristmill_engine::segment::SegmentReader;
use gristmill_engine::verify::Problem;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{RowMetadata, StoredRows, SystemColumn, grains_schema};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};

use crate::lab::{Lab, read, with_cell};

/// Returns a column of one row that isn't null and equals no cell of the corpus.
fn some_cell(kind: &DataType) -> ArrayRef {
    match kind {
        DataType::Utf8 => Arc::new(StringArray::from(vec!["another word"])),
        DataType::Binary => Arc::new(BinaryArray::from_vec(vec![b"other bytes"])),
        DataType::Float64 => Arc::new(Float64Array::from(vec![0.123_456])),
        DataType::Int64 => Arc::new(Int64Array::from(vec![987_654])),
        DataType::Int16 => Arc::new(Int16Array::from(vec![99])),
        DataType::Boolean => Arc::new(BooleanArray::from(vec![true])),
        DataType::Timestamp(..) => {
            Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC"))
        }
        DataType::List(item) => {
            let offsets = OffsetBuffer::from_lengths([1]);
            Arc::new(ListArray::new(
                item.clone(),
                offsets,
                some_cell(item.data_type()),
                None,
            ))
        }
        DataType::Struct(members) => {
            let columns = members
                .iter()
                .map(|member| some_cell(member.data_type()))
                .collect();
            Arc::new(StructArray::new(members.clone(), columns, None))
        }
        other => panic!("no cell of {other}"),
    }
}

/// Returns `column` with a changed cell in `row`: null if it had a value and is nullable, else a
/// value.
pub fn changed(column: &ArrayRef, row: usize, nullable: bool) -> ArrayRef {
    let cell = match column.is_valid(row) && nullable {
        true => new_null_array(column.data_type(), 1),
        false => some_cell(column.data_type()),
    };
    let changed = with_cell(column, row, &cell);
    assert_ne!(&changed, column);
    changed
}

/// Changes the cell of row `n` in column `n`, in a file of Arrow's writer. Returns the rows that
/// `verify` reports for each column.
async fn found_in_each_column(sealed: bool) -> BTreeMap<String, Vec<i64>> {
    let lab = Lab::new(1, 260, sealed).await;
    let report = lab.verify().await;
    assert_eq!((report.bad, report.ok), (0, 260), "{:#?}", report.problems);
    let path = lab.segments().await.remove(0);
    let before = read(&path).unwrap();
    // By Arrow's writer without a change: no false alarm.
    lab.replace(&path, &before).await;
    let report = lab.verify().await;
    assert_eq!(report.bad, 0, "{:#?}", report.problems);
    let fields = before.schema();
    let columns = fields.fields().iter().zip(before.columns()).enumerate();
    let columns = columns
        .map(|(row, (field, column))| changed(column, row, field.is_nullable()))
        .collect();
    let path = lab.segments().await.remove(0);
    lab.replace(
        &path,
        &RecordBatch::try_new(before.schema(), columns).unwrap(),
    )
    .await;
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for problem in lab
        .verify()
        .await
        .problems
        .into_iter()
        .filter(|problem| problem.ordinal >= 0)
    {
        // Cells are computed from a blob with the right hash; nothing else gives that of another.
        let repair = match problem.message.contains("which has the right hash") {
            true => "gristmill repair",
            false => "restore the file from a backup of the lake",
        };
        assert_eq!(
            (problem.table.as_deref(), problem.repair.as_deref()),
            (Some("grains"), Some(repair))
        );
        assert!(problem.source.starts_with("grains/part-"), "{problem:?}");
        found
            .entry(problem.field.unwrap_or_default())
            .or_default()
            .push(problem.ordinal);
    }
    found
}

/// Returns the columns that don't follow from the blob.
pub fn kept() -> Vec<&'static str> {
    SystemColumn::ALL
        .iter()
        .filter(|column| !column.is_derived())
        .map(|column| column.name())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_changed_cell_of_each_column_is_reported_with_row_and_column() {
    let found = found_in_each_column(false).await;
    assert_eq!(kept(), ["source_id", "ingested_at", "supersedes"]);
    for (row, field) in grains_schema().fields().iter().enumerate() {
        let rows = found.get(field.name());
        match field.name().as_str() {
            name if kept().contains(&name) => assert_eq!(rows, None, "{name}"),
            // A hash doesn't show whether the blob or the address was changed; the envelope covers
            // a blob that isn't its own.
            "content_address" | "blob" | "envelope" => {
                let all: Vec<i64> = found.values().flatten().copied().collect();
                assert!(
                    all.contains(&(row as i64)),
                    "{field:?} of row {row}: {found:#?}"
                );
            }
            name => assert_eq!(rows, Some(&vec![row as i64]), "{name}: {found:#?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_changed_cell_of_each_column_of_an_encrypted_lake_is_reported() {
    let found = found_in_each_column(true).await;
    for (row, field) in grains_schema().fields().iter().enumerate() {
        let all: Vec<i64> = found.values().flatten().copied().collect();
        let is_found = all.contains(&(row as i64));
        assert_eq!(
            is_found,
            !kept().contains(&field.name().as_str()),
            "{field:?} of row {row}: {found:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grain_matches_its_stored_row_and_no_row_with_another_cell() {
    let lab = Lab::new(1, 120, false).await;
    let path = lab.segments().await.remove(0);
    let reader = SegmentReader::open(std::fs::read(&path).unwrap().into()).unwrap();
    let rows = reader
        .read(0..1, None, 1_000)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let blobs: Vec<Vec<u8>> = rows
        .column_by_name("blob")
        .unwrap()
        .as_binary::<i32>()
        .iter()
        .flatten()
        .map(Vec::from)
        .collect();
    let matches = |batch: &RecordBatch| {
        let mut stored =
            StoredRows::of(batch).expect("the columns of a segment are those of the table");
        let all = blobs.iter().enumerate().all(|(row, blob)| {
            let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
            let grain = Grain::decode(&payload, DecodeMode::Strict).unwrap();
            stored.matches(
                row,
                &ContentAddress::of(blob),
                blob.len(),
                &grain,
                &RowMetadata::default(),
            )
        });
        all && stored.finish()
    };
    assert!(matches(&rows));
    for (place, field) in grains_schema().fields().iter().enumerate() {
        let mut columns = rows.columns().to_vec();
        columns[place] = changed(&columns[place], place % 120, field.is_nullable());
        let other = RecordBatch::try_new(rows.schema(), columns).unwrap();
        let is_free = kept().contains(&field.name().as_str()) || field.name() == "blob";
        assert_eq!(matches(&other), is_free, "{}", field.name());
    }
}

/// A small generator of positions that is the same in every run.
fn places(seed: u64, below: usize) -> impl Iterator<Item = usize> {
    let mut state = seed;
    std::iter::from_fn(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 33) as usize % below)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_a_column_is_reported_or_changes_no_row() {
    let lab = Lab::new(1, 120, false).await;
    let path = lab.segments().await.remove(0);
    let bytes = std::fs::read(&path).unwrap();
    let before = read(&path).unwrap();
    let footer =
        u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let mut changes = 0;
    for place in places(7, 8 * (bytes.len() - footer - 8)).take(48) {
        let mut flipped = bytes.clone();
        flipped[place / 8] ^= 1 << (place % 8);
        std::fs::write(&path, &flipped).unwrap();
        let seen = std::panic::catch_unwind(|| read(&path));
        let same = seen.is_ok_and(|read| read.is_ok_and(|rows| derived(&rows) == derived(&before)));
        let report = lab.verify().await;
        changes += usize::from(!same);
        // The digest of the file detects every flip; these are detected without it.
        let is_found = report.problems.iter().any(|problem| problem.ordinal >= 0);
        assert!(
            same || is_found,
            "bit {place} changes rows and isn't found: {:#?}",
            report.problems
        );
    }
    assert!(changes > 10, "{changes} flips changed rows");
}

/// Returns the columns that follow from the blob.
fn derived(rows: &RecordBatch) -> RecordBatch {
    let places: Vec<usize> = (0..rows.num_columns())
        .filter(|place| !kept().contains(&rows.schema_ref().field(*place).name().as_str()))
        .collect();
    rows.project(&places).unwrap()
}

/// Clears all bits of the Bloom filters in a Parquet file.
fn clear_filters(file: &mut [u8]) {
    // The rest of a filter's header, after its size as a number of Thrift's compact protocol.
    const HEAD: [u8; 13] = [0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0];
    let ends: Vec<usize> = file
        .windows(HEAD.len())
        .enumerate()
        .filter(|(_, window)| *window == HEAD)
        .map(|(at, _)| at)
        .collect();
    assert!(!ends.is_empty());
    for end in ends {
        let begin = file[..end].iter().rposition(|byte| *byte == 0x15).unwrap() + 1;
        let digits = file[begin..end].iter().rev();
        let size = digits.fold(0, |size, digit| (size << 7) | usize::from(digit & 0x7f)) / 2;
        file[end + HEAD.len()..][..size].fill(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bloom_filters_without_values_of_their_rows_are_reported() {
    let lab = Lab::new(1, 60, false).await;
    assert_eq!(lab.verify().await.bad, 0);
    let path = lab.segments().await.remove(0);
    let mut file = std::fs::read(&path).unwrap();
    clear_filters(&mut file);
    std::fs::write(&path, file).unwrap();
    let report = lab.verify().await;
    let lacking = |problem: &&Problem| problem.message.contains("Bloom filter lacks values");
    let found: Vec<_> = report.problems.iter().filter(lacking).collect();
    let first = found.first().unwrap();
    assert_eq!(first.field.as_deref(), Some("content_address"));
    assert_eq!((first.rows, first.ordinal), (Some(60), 0));
}

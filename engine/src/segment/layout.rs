//! The layout of the lake's Parquet files: sort order, page sizes, encodings and statistics.
//!
//! The rows of a segment are sorted, so that the rows of a person are on few pages; pages are
//! small, so that a look-up decompresses little. Text that rarely repeats isn't tried as a
//! dictionary. Neither are timestamps, whose neighbours differ by little: they are delta-encoded.
//! Columns that are often filtered on have page statistics; long text and blobs have none, which
//! would only copy personal data into the footer.

use gristmill_schemas::columns::{SystemColumn, column_type, grains_schema};
use gristmill_schemas::grain::{Field, FieldKind};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

/// Rows of a row group, which is the unit that one core encodes at a time.
pub const ROW_GROUP_ROWS: usize = 65_536;

/// Maximum number of rows of a page.
const PAGE_ROWS: usize = 4_096;

/// A page is closed when it has so many bytes before compression.
const PAGE_BYTES: usize = 256 << 10;

/// The same for blobs: an answer of twenty grains decompresses twenty of these pages.
const BLOB_PAGE_BYTES: usize = 64 << 10;

/// Columns besides the blob whose values rarely repeat, for which building a dictionary would be
/// wasted.
const UNREPEATED: &[Field] = &[
    Field::Content,
    Field::ContentBlocks,
    Field::Input,
    Field::Stdout,
    Field::Stderr,
    Field::Code,
    Field::Error,
    Field::ThinkingContent,
    Field::Conclusion,
    Field::Context,
    Field::History,
    Field::AgreedContent,
    Field::Description,
    Field::TokenUsage,
    Field::ToolCallId,
    Field::ParentMessageId,
    Field::PriorConsent,
];

/// Delta-encoded columns: timestamps, and numbers that are close to each other.
fn differences() -> impl Iterator<Item = &'static str> {
    let instants = Field::ALL
        .iter()
        .filter(|field| field.kind() == FieldKind::Timestamp && column_type(**field).is_some());
    instants.map(|field| field.name()).chain([
        SystemColumn::BlobSize.name(),
        SystemColumn::IngestedAt.name(),
    ])
}

/// Columns that are small after dictionary encoding: compressing them costs more than it saves.
fn terse() -> impl Iterator<Item = &'static str> {
    let is_terse = |kind| {
        matches!(
            kind,
            FieldKind::Bool
                | FieldKind::Byte
                | FieldKind::Count
                | FieldKind::Int
                | FieldKind::Float
                | FieldKind::UnitFloat
        )
    };
    let fields = Field::ALL
        .iter()
        .filter(move |field| is_terse(field.kind()) && column_type(**field).is_some());
    let identity = [
        SystemColumn::Type,
        SystemColumn::TypeByte,
        SystemColumn::Flags,
        SystemColumn::Sensitivity,
        SystemColumn::Encoding,
        SystemColumn::Signature,
        SystemColumn::SourceId,
        SystemColumn::IngestedAt,
    ];
    fields
        .map(|field| field.name())
        .chain(identity.map(SystemColumn::name))
}

/// The sort order of the rows in a segment.
const SORT_ORDER: [Field; 4] = [
    Field::Namespace,
    Field::UserId,
    Field::Subject,
    Field::CreatedAt,
];

/// Columns that are often filtered on.
const FILTERED: &[Field] = &[
    Field::Namespace,
    Field::UserId,
    Field::Subject,
    Field::CreatedAt,
    Field::TimestampMs,
    Field::SessionId,
    Field::RunId,
    Field::Relation,
    Field::SubjectDid,
    Field::ToolName,
    Field::GoalState,
    Field::Role,
];

/// Columns that are looked up by equality.
const LOOKED_UP: [&str; 4] = [
    SystemColumn::ContentAddress.name(),
    Field::UserId.name(),
    Field::Subject.name(),
    Field::SessionId.name(),
];

fn column(name: &str) -> ColumnPath {
    ColumnPath::from(name)
}

fn common() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("gristmill ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap_or_default()))
        .set_statistics_enabled(EnabledStatistics::None)
}

/// Returns the properties of segments.
pub fn grains_properties() -> WriterProperties {
    let mut builder = common()
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_column_data_page_size_limit(column(SystemColumn::Blob.name()), BLOB_PAGE_BYTES)
        .set_sorting_columns(sorting_columns());
    let unrepeated = UNREPEATED.iter().map(|field| field.name());
    for name in [
        SystemColumn::ContentAddress.name(),
        SystemColumn::Blob.name(),
    ]
    .into_iter()
    .chain(unrepeated)
    {
        builder = builder.set_column_dictionary_enabled(column(name), false);
    }
    for name in differences() {
        builder = builder.set_column_dictionary_enabled(column(name), false);
        builder = builder.set_column_encoding(column(name), Encoding::DELTA_BINARY_PACKED);
    }
    for name in terse() {
        builder = builder.set_column_compression(column(name), Compression::UNCOMPRESSED);
    }
    let identity = [
        SystemColumn::TypeByte.name(),
        SystemColumn::Sensitivity.name(),
    ];
    for name in FILTERED.iter().map(|field| field.name()).chain(identity) {
        builder = builder.set_column_statistics_enabled(column(name), EnabledStatistics::Page);
    }
    for name in LOOKED_UP {
        builder = builder.set_column_bloom_filter_enabled(column(name), true);
    }
    builder.build()
}

/// Returns the properties of files with the rows of `grains` in any order.
pub fn unsorted_grains_properties() -> WriterProperties {
    grains_properties()
        .into_builder()
        .set_sorting_columns(None)
        .build()
}

/// Columns of the small tables with addresses of grains. They hardly repeat, and compression saves
/// half of their bytes, but takes most of the time in which `state` is read.
const ADDRESSES: [&str; 2] = ["content_address", "value"];

/// Returns the properties of the small tables' files.
pub fn records_properties() -> WriterProperties {
    let mut builder = common();
    for name in ADDRESSES {
        builder = builder
            .set_column_dictionary_enabled(column(name), false)
            .set_column_compression(column(name), Compression::UNCOMPRESSED);
    }
    builder.build()
}

/// Returns the leaves of the schema by which rows are sorted, nulls first.
fn sorting_columns() -> Option<Vec<SortingColumn>> {
    let leaves = parquet::arrow::ArrowSchemaConverter::new()
        .convert(&grains_schema())
        .ok()?;
    let place = |field: &Field| {
        leaves
            .columns()
            .iter()
            .position(|leaf| leaf.path().string() == field.name())
    };
    SORT_ORDER
        .iter()
        .map(|field| {
            Some(SortingColumn {
                column_idx: place(field)? as i32,
                descending: false,
                nulls_first: true,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_columns_that_are_looked_up_have_bloom_filters() {
        let properties = grains_properties();
        let leaves = parquet::arrow::ArrowSchemaConverter::new()
            .convert(&grains_schema())
            .unwrap();
        let filtered = leaves.columns().iter().filter_map(|leaf| {
            let filter = properties.bloom_filter_properties(leaf.path())?;
            Some((leaf.path().string(), filter.ndv()))
        });
        let mut expected = LOOKED_UP.map(|name| (name.to_owned(), ROW_GROUP_ROWS as u64));
        expected.sort();
        let mut filtered: Vec<_> = filtered.collect();
        filtered.sort();
        assert_eq!(filtered, expected);
    }

    #[test]
    fn timestamps_are_delta_encoded_and_small_columns_uncompressed() {
        let properties = grains_properties();
        let created = column(Field::CreatedAt.name());
        assert_eq!(
            properties.encoding(&created),
            Some(Encoding::DELTA_BINARY_PACKED)
        );
        assert!(!properties.dictionary_enabled(&created));
        let zstd =
            |name: &str| matches!(properties.compression(&column(name)), Compression::ZSTD(_));
        assert!(
            [
                "blob",
                "content",
                "created_at",
                "content_address",
                "subject"
            ]
            .into_iter()
            .all(zstd)
        );
        assert!(
            !["type", "source_id", "confidence", "is_error"]
                .into_iter()
                .any(zstd)
        );
        let leaves = parquet::arrow::ArrowSchemaConverter::new()
            .convert(&grains_schema())
            .unwrap();
        let paths: Vec<String> = leaves
            .columns()
            .iter()
            .map(|leaf| leaf.path().string())
            .collect();
        for name in differences().chain(terse()) {
            assert!(paths.iter().any(|path| path == name), "{name} is no leaf");
        }
    }
}

//! The schema of the table `grains`.
//!
//! The system columns ([`SystemColumn`]) come first, followed by one column per field of the
//! specification with the field's name and a type that follows from its [`FieldKind`]. Fields of
//! the index layer have no column because their values in a blob are not trusted. Values that no
//! column can hold remain available in `blob`.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field as ArrowField, Fields, Schema, SchemaRef, TimeUnit};

use crate::grain::{Field, FieldAccess, FieldKind};

/// The name of the table.
pub const GRAINS: &str = "grains";

macro_rules! system_columns {
    ($($(#[$meta:meta])* $variant:ident $name:literal: $type:expr, $nullable:literal;)*) => {
        /// A column that the engine fills from metadata of a grain, not from a field.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum SystemColumn {
            $($(#[$meta])* $variant,)*
        }

        impl SystemColumn {
            /// All system columns in the order of the schema.
            pub const ALL: &[SystemColumn] = &[$(SystemColumn::$variant),*];

            /// Returns the name of the column.
            pub const fn name(self) -> &'static str {
                match self { $(SystemColumn::$variant => $name,)* }
            }

            fn arrow_field(self) -> ArrowField {
                match self {
                    $(SystemColumn::$variant => ArrowField::new($name, $type, $nullable),)*
                }
            }
        }
    };
}

// Each line: variant, column name, Arrow type, nullable.
system_columns! {
    /// SHA-256 of the blob, as 64 lowercase hex digits.
    ContentAddress "content_address": DataType::Utf8, false;
    /// The name of the type in version 1.3; for an unknown type byte, the payload's `type`.
    Type "type": DataType::Utf8, false;
    /// The header's type byte.
    TypeByte "type_byte": DataType::Int16, false;
    /// The header's flags byte.
    Flags "flags": DataType::Int16, false;
    /// The header's sensitivity: 0 public, 1 internal, 2 pii, 3 phi.
    Sensitivity "sensitivity": DataType::Int16, false;
    /// The actual encoding of the payload, `msgpack` or `cbor`; null if it is encrypted.
    Encoding "encoding": DataType::Utf8, true;
    /// The bytes of the blob, of which the address is the hash.
    Blob "blob": DataType::Binary, false;
    /// The length of the blob in bytes.
    BlobSize "blob_size": DataType::Int64, false;
    /// The COSE_Sign1 envelope without the blob: the number of bytes before the blob (four bytes,
    /// big-endian), the bytes before it, and the bytes after it.
    Envelope "envelope": DataType::Binary, true;
    /// `none`, `valid`, `invalid` or `unverifiable`.
    Signature "signature": DataType::Utf8, false;
    /// The signer's DID, as declared in the envelope.
    SignerDid "signer_did": DataType::Utf8, true;
    /// The BLAKE3 of the source that the grain was read from.
    SourceId "source_id": DataType::Utf8, true;
    /// The start of the run that ingested the grain.
    IngestedAt "ingested_at": timestamp_type(), false;
    /// The grains that this one superseded when it was written.
    Supersedes "supersedes": list(DataType::Utf8), true;
    /// The anomalies found when the grain was read.
    Marks "marks": list(DataType::Utf8), true;
}

impl SystemColumn {
    /// Returns true if the cell is a function of the delivered bytes. The source, the time of
    /// ingestion and the superseded grains are not.
    pub const fn is_derived(self) -> bool {
        !matches!(
            self,
            SystemColumn::SourceId | SystemColumn::IngestedAt | SystemColumn::Supersedes
        )
    }
}

/// Returns the Arrow type of instants in all tables.
pub(super) fn timestamp_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

pub(super) fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(ArrowField::new("element", item, true)))
}

fn members(members: &[(&str, DataType)]) -> Fields {
    members
        .iter()
        .map(|(name, kind)| ArrowField::new(*name, kind.clone(), true))
        .collect()
}

/// Returns the members of struct columns, in the order of the specification; empty for other kinds.
pub(super) fn struct_members(kind: FieldKind) -> Fields {
    use DataType::{Float64, Int64, Utf8};
    match kind {
        FieldKind::ContentRefs => members(&[
            ("uri", Utf8),
            ("modality", Utf8),
            ("mime_type", Utf8),
            ("size_bytes", Int64),
            ("checksum", Utf8),
            ("metadata", Utf8),
            ("citation_type", Utf8),
            ("identifier", Utf8),
            ("retrieved_at", timestamp_type()),
            ("content_hash", Utf8),
            ("citation_role", Utf8),
        ]),
        FieldKind::EmbeddingRefs => members(&[
            ("vector_id", Utf8),
            ("model", Utf8),
            ("dimensions", Int64),
            ("modality_source", Utf8),
            ("distance_metric", Utf8),
            ("chunk_index", Int64),
            ("chunk_text", Utf8),
            ("chunk_strategy", Utf8),
            ("chunk_overlap", Int64),
        ]),
        FieldKind::RelatedTo => {
            members(&[("hash", Utf8), ("relation_type", Utf8), ("weight", Float64)])
        }
        FieldKind::ProvenanceChain => {
            members(&[("source_hash", Utf8), ("method", Utf8), ("weight", Float64)])
        }
        FieldKind::InvalidationPolicy => members(&[
            ("mode", Utf8),
            ("authorized", list(Utf8)),
            ("threshold", Int64),
            ("locked_until", timestamp_type()),
            ("fallback_mode", Utf8),
            ("scope", Utf8),
            ("protection_reason", Utf8),
        ]),
        FieldKind::RetentionPolicy => members(&[
            ("minimum_retention_years", Int64),
            ("regulation", Utf8),
            ("deletion_requires", Utf8),
        ]),
        _ => Fields::empty(),
    }
}

/// Returns the Arrow type of the column of `field`; `None` for fields without a column.
pub fn column_type(field: Field) -> Option<DataType> {
    if field == Field::Type || field.access() == FieldAccess::Index {
        return None;
    }
    let kind = field.kind();
    Some(match kind {
        FieldKind::Text
        | FieldKind::TextOrMap
        | FieldKind::Any
        | FieldKind::Map
        | FieldKind::MapList
        | FieldKind::AnyList => DataType::Utf8,
        FieldKind::UnitFloat | FieldKind::Float => DataType::Float64,
        FieldKind::Int | FieldKind::Count | FieldKind::Byte => DataType::Int64,
        FieldKind::Bool => DataType::Boolean,
        FieldKind::Timestamp => timestamp_type(),
        FieldKind::TextList | FieldKind::CitationList => list(DataType::Utf8),
        FieldKind::ByteList => list(DataType::Int64),
        FieldKind::ContentRefs
        | FieldKind::EmbeddingRefs
        | FieldKind::RelatedTo
        | FieldKind::ProvenanceChain => list(DataType::Struct(struct_members(kind))),
        FieldKind::InvalidationPolicy | FieldKind::RetentionPolicy => {
            DataType::Struct(struct_members(kind))
        }
    })
}

/// Returns the schema of the table `grains`.
pub fn grains_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let identity = SystemColumn::ALL.iter().map(|column| column.arrow_field());
        let fields = Field::ALL.iter();
        let fields = fields
            .filter_map(|field| Some(ArrowField::new(field.name(), column_type(*field)?, true)));
        Arc::new(Schema::new(identity.chain(fields).collect::<Vec<_>>()))
    });
    Arc::clone(&SCHEMA)
}

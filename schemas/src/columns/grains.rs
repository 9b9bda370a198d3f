//! The columns of `grains`: what SQL sees of a grain.
//!
//! First what the engine knows about a grain ([`IdentityColumn`]), then one column per field of the
//! specification under the field's own name, typed by the field's [`Kind`]. Fields of the index
//! layer have no column: what a blob says about them isn't to be trusted. A field that no column
//! can hold is in `blob`.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field as ArrowField, Fields, Schema, SchemaRef, TimeUnit};

use crate::grain::{Access, Field, Kind};

/// The name of the table.
pub const GRAINS: &str = "grains";

macro_rules! identity {
    ($($variant:ident $name:literal $kind:expr, $nullable:literal, $doc:literal;)*) => {
        /// A column that the engine fills from what it knows about a grain.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum IdentityColumn {
            $(#[doc = $doc] $variant,)*
        }

        impl IdentityColumn {
            /// The columns in their order.
            pub const ALL: &[IdentityColumn] = &[$(IdentityColumn::$variant),*];

            /// The column's name.
            pub const fn name(self) -> &'static str {
                match self { $(IdentityColumn::$variant => $name,)* }
            }

            /// True if the cell follows from the grain's bytes. Where and when a grain came in, and
            /// what it was allowed to supersede, doesn't.
            pub const fn is_derived(self) -> bool {
                !matches!(self, IdentityColumn::SourceId | IdentityColumn::IngestedAt | IdentityColumn::Supersedes)
            }

            fn arrow_field(self) -> ArrowField {
                match self { $(IdentityColumn::$variant => ArrowField::new($name, $kind, $nullable),)* }
            }
        }
    };
}

identity! {
    ContentAddress "content_address" DataType::Utf8, false, "SHA-256 of the blob, 64 lowercase hex \
        digits.";
    Type "type" DataType::Utf8, false, "The type's name in version 1.3, for an unknown byte the \
                                        payload's own word.";
    TypeByte "type_byte" DataType::Int16, false, "The header's type byte.";
    Flags "flags" DataType::Int16, false, "The header's flags byte.";
    Sensitivity "sensitivity" DataType::Int16, false, "The header's sensitivity: 0 public, 1 \
                                                       internal, 2 pii, 3 phi.";
    Encoding "encoding" DataType::Utf8, true, "`msgpack` or `cbor`, as the payload really is; null \
                                               if it is encrypted.";
    Blob "blob" DataType::Binary, false, "The exact bytes that the address is the hash of.";
    BlobSize "blob_size" DataType::Int64, false, "How many bytes the blob has.";
    Envelope "envelope" DataType::Binary, true, "The COSE_Sign1 around the blob without the blob: \
                                                 four bytes (big-endian) that say how many of the \
                                                 rest stand before it, then the rest.";
    Signature "signature" DataType::Utf8, false, "`none`, `valid`, `invalid` or `unverifiable`.";
    SignerDid "signer_did" DataType::Utf8, true, "Who signed, as the envelope claims.";
    SourceId "source_id" DataType::Utf8, true, "The BLAKE3 of the source that the grain was read \
                                                from.";
    IngestedAt "ingested_at" instant(), false, "When the run began that brought the grain in.";
    Supersedes "supersedes" list(DataType::Utf8), true, "The grains that this one superseded when \
                                                         it was written.";
    Marks "marks" list(DataType::Utf8), true, "What was odd about the grain when it was read.";
}

/// Instants in every table.
pub(super) fn instant() -> DataType {
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

/// The members of the structs in the columns of compacted and policy fields, in the order of the
/// specification.
pub(super) fn struct_members(kind: Kind) -> Fields {
    use DataType::{Float64, Int64, Utf8};
    match kind {
        Kind::ContentRefs => members(&[
            ("uri", Utf8),
            ("modality", Utf8),
            ("mime_type", Utf8),
            ("size_bytes", Int64),
            ("checksum", Utf8),
            ("metadata", Utf8),
            ("citation_type", Utf8),
            ("identifier", Utf8),
            ("retrieved_at", instant()),
            ("content_hash", Utf8),
            ("citation_role", Utf8),
        ]),
        Kind::EmbeddingRefs => members(&[
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
        Kind::RelatedTo => members(&[("hash", Utf8), ("relation_type", Utf8), ("weight", Float64)]),
        Kind::ProvenanceChain => {
            members(&[("source_hash", Utf8), ("method", Utf8), ("weight", Float64)])
        }
        Kind::InvalidationPolicy => members(&[
            ("mode", Utf8),
            ("authorized", list(Utf8)),
            ("threshold", Int64),
            ("locked_until", instant()),
            ("fallback_mode", Utf8),
            ("scope", Utf8),
            ("protection_reason", Utf8),
        ]),
        Kind::RetentionPolicy => members(&[
            ("minimum_retention_years", Int64),
            ("regulation", Utf8),
            ("deletion_requires", Utf8),
        ]),
        _ => Fields::empty(),
    }
}

/// The Arrow type of `field`'s column; `None` for fields without one.
pub fn column_of(field: Field) -> Option<DataType> {
    if field == Field::Type || field.access() == Access::Index {
        return None;
    }
    let kind = field.kind();
    Some(match kind {
        Kind::Text | Kind::TextOrMap | Kind::Any | Kind::Map | Kind::MapList | Kind::AnyList => {
            DataType::Utf8
        }
        Kind::UnitFloat | Kind::Float => DataType::Float64,
        Kind::Int | Kind::Count | Kind::Byte => DataType::Int64,
        Kind::Bool => DataType::Boolean,
        Kind::Instant => instant(),
        Kind::TextList | Kind::CitationList => list(DataType::Utf8),
        Kind::ByteList => list(DataType::Int64),
        Kind::ContentRefs | Kind::EmbeddingRefs | Kind::RelatedTo | Kind::ProvenanceChain => {
            list(DataType::Struct(struct_members(kind)))
        }
        Kind::InvalidationPolicy | Kind::RetentionPolicy => DataType::Struct(struct_members(kind)),
    })
}

/// The schema of `grains`.
pub fn grains_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let identity = IdentityColumn::ALL
            .iter()
            .map(|column| column.arrow_field());
        let fields = Field::ALL.iter();
        let fields = fields
            .filter_map(|field| Some(ArrowField::new(field.name(), column_of(*field)?, true)));
        Arc::new(Schema::new(identity.chain(fields).collect::<Vec<_>>()))
    });
    Arc::clone(&SCHEMA)
}

//! The sidecar indexes of segments: derived, immutable, checksummed, rebuildable.
//!
//! | module | question |
//! |---|---|
//! | [`hexastore`] | which rows state a subject, relation, object? |
//! | [`fulltext`] | which grains contain these words, ranked by BM25? |
//! | [`vectors`] | which grains are nearest to a vector? |
//! | [`lifecycle_mask`] | which rows are superseded, expired, contradicted or retracted? |
//! | [`word_filter`] | which words don't occur in a segment? |
//! | [`domain_fields`] | which rows have a field of a domain profile? |
//! | `watchlist` | which grains must be scanned more closely, because they have one of some words? |
//! | `builder` | which sidecars do the rows of a segment have? |
//! | `segment_builder` | how is a new segment written, with its sidecars? |
//! | `sidecar_cache` | how does a query open a sidecar, and which are open? |
//! | `partial_index` | how is a lake searched of which some segments have no usable full text? |
//! | `sidecar_status` | which sidecars exist, and are they intact and of these rows? |
//! | `fast_columns` | which address, type, encoding and namespace has a row? |
//! | `subject_filter` | which segments of a lake in an object store don't have a subject? |
//! | `sidecar_compare` | is a sidecar equal to one rebuilt from the rows? |
//! | `reindex` | how are missing or damaged sidecars rebuilt? |
//!
//! A missing or damaged sidecar makes a query slower, never wrong: the look-up returns `None`, and
//! the query reads the segment instead.

mod builder;
pub mod domain_fields;
mod fast_columns;
pub mod fulltext;
pub mod hexastore;
pub mod lifecycle_mask;
mod partial_index;
mod reindex;
mod segment_builder;
mod sidecar_cache;
mod sidecar_compare;
mod sidecar_status;
mod subject_filter;
pub mod vectors;
mod watchlist;
pub mod word_filter;

pub(crate) use builder::RowObserver;
pub use builder::{IndexBuilder, IndexKinds, IndexPart};
pub use fast_columns::FastColumns;
pub(crate) use lifecycle_mask::{LIFECYCLE_FILE, differing_masks, refresh_after, refresh_masks};
pub use partial_index::PartialTextIndex;
pub(crate) use reindex::rebuild;
pub use reindex::{ReindexReport, SegmentIndexing, index_segment, reindex, reindex_by};
pub(crate) use segment_builder::SegmentBuilder;
pub use sidecar_cache::SidecarCache;
pub(crate) use sidecar_compare::differing_sidecars;
pub(crate) use sidecar_status::{CheckedSidecar, states_of, vector_files};
pub use sidecar_status::{SidecarCondition, SidecarState, sidecar_states};
pub use subject_filter::SubjectFilters;
pub(crate) use subject_filter::refresh_subjects;
pub(crate) use watchlist::Watchlist;

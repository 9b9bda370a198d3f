//! The sidecar indexes of segments: derived, immutable, checked, rebuildable.
//!
//! | module | what it answers |
//! |---|---|
//! | [`hexastore`] | which rows state this subject, relation, object? |
//! | [`fulltext`] | which grains of the lake have these words, and how well do they fit? |
//! | [`vectors`] | which grains are near to a vector? |
//! | [`words`] | which words are in no grain of the segment? |
//! | `watchlist` | has a grain one of some words? |
//! | `builder` | how do a segment's rows become its sidecars, while it is written or later? |
//! | `sidecar_cache` | which sidecars of the lake are open, and what if one can't be opened? |
//! | `usable` | what has the words of the lake, if some segments have no full text that can be used? |
//! | `condition` | which sidecars are there, and are they whole and of these rows? |
//! | `facts` | what is asked of nearly every row that is found? |
//! | `rebuilt` | does a sidecar say what one says that is made again? |
//! | `reindex` | how is a sidecar that is missing or damaged made again? |
//!
//! A sidecar that is missing or damaged makes a query slower, never wrong: whoever asks gets
//! nothing and reads the segment.

mod builder;
pub mod fulltext;
pub mod hexastore;
mod partial_index;
mod reindex;
mod row_metadata;
mod segment_builder;
mod sidecar_cache;
mod sidecar_compare;
mod sidecar_status;
pub mod vectors;
mod watchlist;
pub mod word_filter;

pub(crate) use builder::RowObserver;
pub use builder::{IndexBuilder, IndexKinds, IndexPart};
pub use partial_index::PartialTextIndex;
pub(crate) use reindex::rebuild;
pub use reindex::{ReindexReport, reindex};
pub use row_metadata::RowMetadata;
pub(crate) use segment_builder::SegmentBuilder;
pub use sidecar_cache::SidecarCache;
pub(crate) use sidecar_compare::differing_sidecars;
pub(crate) use sidecar_status::{CheckedSidecar, states_of, vector_files};
pub use sidecar_status::{SidecarCondition, SidecarState, sidecar_states};
pub(crate) use watchlist::Watchlist;

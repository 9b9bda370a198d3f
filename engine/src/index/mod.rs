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
//! | `sidecars` | which sidecars of the lake are open, and what if one can't be opened? |
//! | `usable` | what has the words of the lake, if some segments have no full text that can be used? |
//! | `condition` | which sidecars are there, and are they whole and of these rows? |
//! | `facts` | what is asked of nearly every row that is found? |
//! | `rebuilt` | does a sidecar say what one says that is made again? |
//! | `reindex` | how is a sidecar that is missing or damaged made again? |
//!
//! A sidecar that is missing or damaged makes a query slower, never wrong: whoever asks gets
//! nothing and reads the segment.

mod builder;
mod condition;
mod facts;
pub mod fulltext;
pub mod hexastore;
mod rebuilt;
mod reindex;
mod sidecars;
mod usable;
pub mod vectors;
mod watchlist;
pub mod words;

pub use builder::{IndexBuilder, IndexKinds, IndexPart, SidecarFile};
pub(crate) use builder::{Watch, addresses_of, publish};
pub use condition::{Condition, SidecarState, sidecar_states};
pub(crate) use condition::{Found as FoundSidecar, states_of, vector_files};
pub use facts::RowFacts;
pub(crate) use rebuilt::differing_sidecars;
pub(crate) use reindex::rebuild;
pub use reindex::{ReindexReport, reindex};
pub use sidecars::{Sidecar, Sidecars, open_sidecar};
pub use usable::UsableText;
pub(crate) use watchlist::Watchlist;

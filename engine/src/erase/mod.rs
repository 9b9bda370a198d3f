//! Erasure with proof, and disclosure: one selector for both.
//!
//! | module | what it answers |
//! |---|---|
//! | `request` | whom and what does a request name? |
//! | `variations`, `patterns`, `phone` | in which other ways may an identifier be written? |
//! | `matcher`, `place` | does this grain name one of these people, and where? |
//! | `sifter` | which grains needn't be decoded to tell that they don't? |
//! | `reason` | why was a grain found, and why may it have to stay? |
//! | `glance` | what does a row show by itself? |
//! | `sessions`, `withdrawn` | what do sessions and withdrawn consents bring in? |
//! | `rows`, `survey`, `rejects` | what in the lake is a request about? |
//! | `plan` | what would an erasure do? |
//! | `run`, `journal` | in which order is it done, and how is a killed one finished? |
//! | `by_key` | what goes with the keys that it is sealed with? |
//! | `rewrite`, `state`, `sources` | how are rows removed from each table? |
//! | `needles`, `identifier_search`, `needle_forms`, `normalized`, `decoded`, `absence` | is anything left in any byte of the lake? |
//! | `merkle`, `certificate` | how is that proven to others? |
//! | `disclose` | what is handed out to a person who asks? |

mod absence;
mod by_key;
mod certificate;
mod decoded;
mod disclose;
mod glance;
mod identifier_search;
mod journal;
mod matcher;
mod merkle;
mod needle_forms;
mod needles;
mod normalized;
mod patterns;
mod phone;
mod place;
mod plan;
mod reason;
pub(crate) mod rejects;
mod request;
pub(crate) mod rewrite;
pub(crate) mod rows;
mod run;
mod sessions;
mod sifter;
mod sources;
mod state;
mod survey;
mod tombstone_copy;
mod variations;
mod withdrawn;

pub use crate::text::fold::Folding;
pub use absence::Absence;
pub use certificate::{Certificate, Ground, Inclusion, Verified, verify};
pub use disclose::{Disclosed, Event, disclose};
pub use identifier_search::IdentifierSearch;
pub use journal::ERASURES;
pub(crate) use journal::Journal;
pub use matcher::{Hits, Matcher, NOBODY, PersonNumber};
pub use plan::{Exclusion, Plan, Selected, Spelling};
pub use reason::{Bar, Judge, Reason, Reasons};
pub use request::{Extent, Person, Request, names_nobody};
pub use run::{Erased, Order, erase, plan, plan_disclosure};
pub use survey::{Found, FoundReject, Survey};
pub(crate) use tombstone_copy::{tombstones_from_bytes, tombstones_path, tombstones_to_bytes};
pub use variations::{UnknownVariation, Variation, Variations};

//! Erasure with proof, and disclosure. Both use the same selection.
//!
//! | module | what it answers |
//! |---|---|
//! | `request` | whom and what does a request name? |
//! | `variations`, `patterns`, `phone` | in which other ways may an identifier be written? |
//! | `matcher`, `field_roles` | does this grain name one of these people, and where? |
//! | `payload_prefilter` | which grains needn't be decoded to tell that they don't? |
//! | `reason` | why was a grain found, and why may it have to stay? |
//! | `row_findings` | what does a row show by itself? |
//! | `sessions`, `withdrawn` | what do sessions and withdrawn consents bring in? |
//! | `survey`, `rejects` | what in the lake is a request about? |
//! | `plan` | what would an erasure do? |
//! | `run`, `journal` | in which order is it done, and how is a killed one finished? |
//! | `crypto_shred` | what goes with the keys that it is sealed with? |
//! | `rewrite`, `state`, `sources` | how are rows removed from each table? |
//! | `pattern_search`, `identifier_search`, `gapped_patterns`, `normalized`, `decoded`, `byte_search` | is anything left in any byte of the lake? |
//! | `merkle`, `certificate` | how is that proven to others? |
//! | `disclose` | what is handed out to a person who asks? |

mod byte_search;
mod certificate;
mod crypto_shred;
mod decoded;
mod disclose;
mod field_roles;
mod gapped_patterns;
mod identifier_search;
mod journal;
mod matcher;
mod merkle;
mod normalized;
mod pattern_search;
mod patterns;
mod payload_prefilter;
mod phone;
mod plan;
mod reason;
mod rejects;
mod request;
mod rewrite;
mod row_findings;
mod run;
mod sources;
mod state;
mod survey;
mod tombstone_copy;
mod variations;

pub use crate::text::fold::Folding;
pub use byte_search::ByteSearchResult;
pub use certificate::{Certificate, CertificateCheck, InclusionProof, RequestOrigin, verify};
pub use disclose::{Disclosed, DisclosedEvent, disclose};
pub use identifier_search::IdentifierSearch;
pub(crate) use journal::Journal;
pub use matcher::{Hits, IdentifierMatcher, NO_PERSON, PersonNumber};
pub use plan::{ErasurePlan, Exclusion, SelectedCounts, Spelling};
pub use reason::{Exemption, ExemptionRules, Reason, Reasons};
pub use request::{Person, SelectionOptions, SubjectRequest, is_blank_identifier};
pub use run::{ErasureOptions, ErasureReport, erase, plan, plan_disclosure};
pub use survey::{FoundGrain, FoundReject, Survey};
pub(crate) use tombstone_copy::{tombstones_from_bytes, tombstones_path, tombstones_to_bytes};
pub use variations::{UnknownVariation, Variation, Variations};

//! Erasure with proof, and disclosure. Both use the same selection.
//!
//! | module | contents |
//! |---|---|
//! | `request` | the people, sessions, consents and addresses of a request |
//! | `people_file` | the people in the file of `--subjects` |
//! | `variations`, `patterns`, `phone` | how an identifier may be written |
//! | `matcher`, `field_roles` | does a grain name one of the people, and in which field? |
//! | `payload_prefilter` | excludes payloads without decoding them |
//! | `reason` | why a grain was found, and why it may have to stay |
//! | `row_findings`, `rejects` | scanning rows and rejects |
//! | `survey` | everything in the lake that a request selects |
//! | `plan` | what an erasure would do |
//! | `run`, `journal` | executing an erasure, and resuming an interrupted one |
//! | `unfinished` | erasures that were begun and not finished |
//! | `resume` | erasing addresses, and resuming such erasures without their request |
//! | `rewrite`, `state`, `sources` | removing rows from each table |
//! | `crypto_shred` | erasing by destroying keys |
//! | `byte_search`, `pattern_search`, `identifier_search`, `gapped_patterns`, `normalized`, `decoded`, `page_values`, `compressed_grains` | proving that nothing is left in any byte of the lake |
//! | `worker_jobs`, `search_files`, `address_text` | having segments and files read by other processes |
//! | `legal_acts` | names of holds and reasons of exports that name a person and stay |
//! | `merkle`, `certificate`, `tombstone_copy` | what an erasure leaves as evidence |
//! | `disclose` | exporting what the lake contains about a person |
//! | `pseudonyms` | replacing what identifies people by keyed tokens |

mod address_text;
mod byte_search;
mod certificate;
mod compressed_grains;
mod crypto_shred;
mod decoded;
mod disclose;
mod field_roles;
mod gapped_patterns;
mod identifier_search;
mod journal;
mod legal_acts;
mod matcher;
mod merkle;
mod normalized;
mod page_values;
mod pattern_search;
mod patterns;
mod payload_prefilter;
mod people_file;
mod phone;
mod plan;
mod pseudonyms;
mod reason;
mod rejects;
mod request;
mod resume;
mod rewrite;
mod row_findings;
mod run;
mod search_files;
mod sources;
mod state;
mod survey;
mod tombstone_copy;
mod unfinished;
mod variations;
mod worker_jobs;

pub use crate::text::fold::Folding;
pub use byte_search::ByteSearchResult;
pub(crate) use certificate::SELF_REPORTED;
pub use certificate::{Certificate, CertificateCheck, InclusionProof, RequestOrigin, verify};
pub use disclose::{Disclosed, DisclosedEvent, Recording, disclose};
pub use identifier_search::IdentifierSearch;
pub(crate) use journal::Journal;
pub use journal::keyed_hash;
pub use legal_acts::RetainedTexts;
pub use matcher::{Hits, IdentifierMatcher, NO_PERSON, PersonNumber};
pub use people_file::UnsearchedCells;
pub use plan::{ErasurePlan, Exclusion, SelectedCounts, Spelling};
pub use pseudonyms::{Pseudonymizer, pseudonym_key};
pub use reason::{Exemption, ExemptionRules, Reason, Reasons};
pub use request::{
    Person, RetentionSelection, SelectionOptions, SubjectRequest, is_blank_identifier,
};
pub use resume::{check_erasable, erase_addresses, resume_erasures};
pub(crate) use rewrite::written_without;
pub(crate) use run::is_interrupted;
pub use run::{ErasureOptions, ErasureReport, erase, erase_by, plan, plan_by, plan_disclosure};
pub use search_files::{SearchJob, SearchedFiles, search_files};
pub use survey::{FoundGrain, FoundReject, Survey, SurveyJob, SurveyedSegments, survey_segments};
pub(crate) use tombstone_copy::{tombstones_from_bytes, tombstones_path, tombstones_to_bytes};
pub(crate) use unfinished::journals_in;
pub use unfinished::{rows_to_erase, unfinished_erasures};
pub use variations::{UnknownVariation, Variation, Variations};
pub use worker_jobs::ErasureWorkers;

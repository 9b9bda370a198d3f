//! Erasure with proof, and disclosure: one selector for both.
//!
//! | module | what it answers |
//! |---|---|
//! | `request` | whom and what does a request name? |
//! | `fold` | which spellings are the same? |
//! | `matcher` | does this grain name one of these people, and where? |
//! | `reason` | why was a grain found, and why may it have to stay? |
//! | `rows`, `survey`, `rejects` | what in the lake is a request about? |
//! | `plan` | what would an erasure do? |

mod fold;
mod matcher;
mod plan;
mod reason;
mod rejects;
mod request;
mod rows;
mod survey;

pub use fold::Folding;
pub use matcher::{Hits, Matcher, NOBODY, PersonNumber};
pub use plan::{Exclusion, Plan, Selected, Spelling};
pub use reason::{Bar, Judge, Reason, Reasons};
pub use request::{Extent, Person, Request};
pub use survey::{Found, FoundReject, Survey};

//! The lake's tables as Arrow schemas, and the projection of a grain into a row of `grains`.
//!
//! | module | what it answers |
//! |---|---|
//! | `grains` | which columns has the table `grains`, and where does each come from? |
//! | `project` | what is the row of this grain? |
//! | `matches` | is a stored row that of this grain? |
//! | `cell` | how does one value of a payload become a cell of its column? |
//! | `envelope` | how is a signature's envelope kept, and put around its blob again? |
//! | `sealed` | what of a row stands open in an encrypted lake, and what is in its envelope? |
//! | `records` | which columns have `state`, `rejects`, `sources`, `audit` and `erased`? |

mod cell;
mod envelope;
mod grains;
mod matches;
mod project;
mod records;
mod sealed;

pub use cell::write_canonical_json;
pub use envelope::delivered_bytes;
pub use grains::{GRAINS, IdentityColumn, column_of, grains_schema};
pub use matches::StoredRows;
pub use project::{
    GrainColumns, PROJECTION_VERSION, RowIdentity, RowKeys, SignatureColumn, split_sort_key,
    write_sealed_sort_key, write_sort_key,
};
pub use records::{
    AuditRow, LifecycleEvent, REJECTS, RejectRow, SOURCES, STATE, SourceOutcome, SourceRow,
    StateRow, audit_batch, audit_schema, erased_schema, rejects_batch, rejects_schema,
    sources_batch, sources_schema, state_batch, state_schema,
};
pub use sealed::{Clear, SEALED_MAGIC, TOKENS, is_sealed, stands_open};

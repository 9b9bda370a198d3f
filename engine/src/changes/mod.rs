//! Change bundles: what was added to a lake, closed and erased since an earlier version, as JSON
//! Lines; and their application to another lake, so that the two are kept in step.
//!
//! | module | contents |
//! |---|---|
//! | `position` | how far a lake is: the versions of its tables |
//! | `bundle` | the lines of a bundle, and reading them |
//! | `export` | writing a bundle |
//! | `migrated` | writing a bundle of all that a migration converted |
//! | `apply` | applying a bundle, in steps that can be repeated |
//! | `tombstones` | erasing what was erased according to a bundle |
//! | `events` | adding lifecycle events that the lake doesn't have |
//!
//! A bundle is applied as it is: its events were judged by the lake that they come from (§23), and
//! its erasures were decided there. Only a lake that is trusted like the own one may be followed.

mod apply;
mod bundle;
mod events;
mod export;
mod migrated;
mod position;
mod tombstones;

pub(crate) use apply::APPLIED;
pub use apply::{AppliedChanges, ChangeOptions, apply_changes};
pub use export::{ExportedChanges, export_changes};
pub(crate) use migrated::MigratedChanges;
pub use position::{InvalidPosition, LakePosition};

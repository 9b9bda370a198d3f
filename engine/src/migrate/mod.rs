//! Migration: a copy of a lake whose grains are encoded in another form, with their links rewritten
//! to the new addresses.
//!
//! | module | contents |
//! |---|---|
//! | `form` | the encoding, type names and compression of a grain |
//! | `grain` | analysing and converting one grain |
//! | `links` | the addresses in a grain's values |
//! | `work` | the work file: a database with every grain, its links and its new address |
//! | `address_map` | the file of old and new addresses |
//! | `run` | the phases of a migration |
//!
//! An address is the hash of a grain's bytes, its links included. So a grain is converted after
//! those that it links to, and one that can't be converted keeps its bytes, and with it all that it
//! links to, transitively: no link of the new lake leads nowhere that didn't before.

mod address_map;
mod form;
mod grain;
mod links;
mod run;
mod work;

pub use form::{TargetForm, TypeNames};
pub use grain::MigrationSigner;
pub use run::{MigrateOptions, MigrateReport, migrate};

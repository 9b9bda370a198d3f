//! The whole, through its front doors: conformance, command line, bad input, recovery, other
//! engines. One file per promise.
//!
//! One binary for all of them: each would link the whole engine again, which costs minutes and
//! gigabytes.

mod apply;
mod bad_input;
mod batches;
mod cal;
mod cal_changed;
mod canonical_conformance;
mod claims;
mod cmf;
mod command_line;
mod concurrency;
mod damage;
mod datasets;
mod embedders;
mod encryption;
mod erasure;
mod erasure_kill;
mod erasure_places;
mod erasure_reach;
mod exact;
mod exchanges_changed;
mod exchanges_round_trip;
mod interop;
mod kill;
mod lifecycle;
mod maintenance;
mod namespaces;
mod object_store;
#[cfg(unix)]
mod outputs;
mod pitfalls;
mod safe_output;
mod safe_sql;
mod scan;
mod scan_commands;
mod sidecars;
mod sources;
mod spool;
mod sql;
mod transcripts;

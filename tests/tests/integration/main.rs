//! Integration tests over the public surface and the binary: conformance, command line, bad input,
//! recovery, other engines. One file per topic.
//!
//! All files are one test binary, because each binary links the whole engine, which costs minutes
//! and gigabytes. Only the tests of distributed execution are another one, so that this isn't
//! compiled again with their feature.

mod apply;
mod bad_input;
mod batches;
mod bitemporal;
mod cal;
mod cal_grammar;
mod cal_mutations;
mod changes;
mod claims;
mod cold_start;
mod command_line;
mod concurrency;
mod conformance;
mod conformance_expectations;
mod conformance_pins;
mod conformance_shapes;
mod content;
mod damage;
mod datasets;
mod delegation;
mod demo_findings;
mod device_profiles;
mod did_web;
mod disclosed_copies;
mod doc_commands;
mod doc_scripts;
mod embedders;
mod encryption;
mod erasure;
mod erasure_kill;
mod erasure_places;
mod erasure_reach;
mod exact;
mod exchange_mutations;
mod exchanges_round_trip;
mod export;
mod export_rules;
mod flight;
mod footers;
mod goals;
mod holds;
mod http;
mod interop;
mod isolation;
mod kept_vectors;
mod kill;
mod labels;
mod lake_folder;
mod least_addresses;
mod lifecycle;
mod lost_files;
mod maintenance;
mod mcp;
mod memory_limit;
mod migrate;
mod namespaces;
#[cfg(unix)]
mod night;
mod object_cache;
mod object_costs;
mod object_faults;
mod object_server;
mod object_store;
#[cfg(unix)]
mod outputs;
mod pages;
mod pitfalls;
mod postgres;
mod profile_values;
mod retention;
mod safe_output;
mod safe_sql;
mod same_answers;
mod scan;
mod scan_commands;
mod search;
mod sidecars;
mod sources;
mod spool;
mod sql;
mod sql_reference;
mod terminal;
mod transcript_samples;
mod transcripts;
mod trust;
mod verify;

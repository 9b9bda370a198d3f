//! Fuzzes an index manifest.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gristmill_fuzz::read_manifest(bytes));

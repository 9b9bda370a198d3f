//! Fuzzes a single grain, bare or in an envelope.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gristmill_fuzz::read_grain(bytes));

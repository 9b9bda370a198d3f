//! Fuzzes a request to a provider and its response, as JSON or as a stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gristmill_fuzz::read_exchange(bytes));

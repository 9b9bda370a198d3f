//! Fuzzes a container with its grains.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gristmill_fuzz::read_container(bytes));

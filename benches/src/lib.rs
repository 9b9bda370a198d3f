//! This crate has no library; the benchmarks are in `benches/`.

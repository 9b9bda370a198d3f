//! Regression tests for bugs of other implementations of the specification. `docs/pitfalls.md`
//! lists each bug with its test; those of the codec alone are in `schemas/tests` and in the
//! conformance cases.

mod containers;
mod fields;
mod ingest;

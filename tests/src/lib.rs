//! What the tests of the public surface share: the conformance runner and the places of the case files.

pub mod conformance;
pub mod paths;

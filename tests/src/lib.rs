//! What the tests of the public surface share: the conformance runner, small lakes, the data sets, the places of the case files.

pub mod conformance;
pub mod datasets;
pub mod fixture;
pub mod paths;
pub mod sqllogic;

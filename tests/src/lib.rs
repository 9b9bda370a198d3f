//! What the tests of the public surface share: the conformance runner, the binary and its killing,
//! small lakes, the data sets, the places of the case files.

pub mod answers;
pub mod binary;
pub mod bitflips;
pub mod conformance;
pub mod damage;
pub mod datasets;
pub mod exact;
pub mod faults;
pub mod fixture;
pub mod grains;
pub mod kill;
pub mod lake;
pub mod paths;
pub mod sqllogic;

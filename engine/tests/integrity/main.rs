//! What protects the answers of a lake: rows are what their blobs say, sidecars are of their
//! segments, and both can be repaired.

mod lab;
mod repair;
mod rows;
mod sidecars;

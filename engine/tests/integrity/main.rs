//! Integrity of the lake: rows equal the projection of their blobs, sidecars belong to their
//! segments, and both can be repaired.

mod checkpoints;
mod deduplication;
mod disclosure;
mod lab;
mod repair;
mod rows;
mod sidecars;

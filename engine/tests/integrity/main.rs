//! Integrity of the lake: rows equal the projection of their blobs, sidecars belong to their
//! segments, each grain is in one row, all of this can be repaired, and other processes may do the work.

mod checkpoints;
mod deduplication;
mod disclosure;
mod doubled_rows;
mod ingest_workers;
mod lab;
mod repair;
mod rows;
mod sidecars;
mod workers;

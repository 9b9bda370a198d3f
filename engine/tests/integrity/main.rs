//! Integrity of the lake: rows equal the projection of their blobs, sidecars belong to their
//! segments, each grain is in one row, all of this can be repaired, other processes may do the
//! work, refused commits leave no files, and erasures find people in any encoding.

mod checkpoints;
mod concurrent_commits;
mod deduplication;
mod disclosure;
mod doubled_rows;
mod erasure_workers;
mod erasures;
mod ingest_workers;
mod lab;
mod lost_rows;
mod migration;
mod refused_commits;
mod repair;
mod rolled_back;
mod rows;
mod sidecars;
mod statistics;
mod unreferenced;
mod workers;

//! engine

pub mod hash;

//! Provider wire formats.

pub mod residual;

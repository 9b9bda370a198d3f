//! The `.mg` container and the framed stream (§11).
//!
//! ```text
//! header 16 │ offsets 4·n │ grain region │ manifest (flag bit 4) │ SHA-256 32
//! ```
//!
//! The specification leaves three questions open. This crate reads and writes containers as
//! follows:

mod frames;
mod layout;
mod manifest;
mod read;
mod region;
#[cfg(feature = "sign")]
mod verify;
mod write;

pub use frames::{FRAME_END, GrainFrame, MAX_FRAME_LENGTH, frame_prefix, next_frame, write_frame};
pub use layout::{
    CONTAINER_HEADER_LENGTH, Codec, ContainerFlags, ContainerHeader, FOOTER_LENGTH, MAGIC,
    MAX_CONTAINER_LENGTH,
};
pub use manifest::{IndexState, Manifest, VerificationStatus};
pub use read::{Container, ContainerAnomaly, ContainerLimits};
pub use write::{ContainerOptions, ContainerWriter};

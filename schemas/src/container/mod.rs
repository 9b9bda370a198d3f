//! The `.mg` container and the framed stream (§11).
//!
//! ```text
//! header 16 │ offsets 4·n │ grain region │ manifest (flag bit 4) │ SHA-256 32
//! ```
//!
//! The specification leaves three questions open. This crate reads and writes containers as
//! follows:
//!
//! - *Offsets* count from the start of the file if the region isn't compressed, and from the start
//!   of the decompressed region if it is. A reader accepts both in either case: the first offset,
//!   16 + 4·n or 0, shows which it is.
//! - *The end of the last grain* isn't recorded. It is the end of the region. Where a manifest
//!   follows an uncompressed region, the encoding of the last grain states its length; that of an
//!   encrypted grain doesn't, and it ends where the first complete manifest starts.
//! - *lz4* is the LZ4 frame format. If flag bit 2 and the codec byte disagree, the first bytes of
//!   the region decide.
//!
//! | module | question |
//! |---|---|
//! | `layout` | what is in the header? |
//! | `region` | where do the grains begin and end, and how are they compressed? |
//! | `read` | where is each grain of a container? |
//! | `manifest` | which lifecycle states does a container carry? |
//! | `verify` | do the grains keep what the flags guarantee? |
//! | `write` | what are the bytes of a new container? |
//! | `frames` | where does each grain of a stream begin and end? |

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

//! The `.mg` container and the framed stream (§11).
//!
//! ```text
//! header 16 │ offsets 4·n │ grain region │ manifest (flag bit 4) │ SHA-256 32
//! ```
//!
//! The specification leaves three things open; this is how we read and write them:
//!
//! * **Offsets** count from the start of the file when the region isn't compressed, and from the
//!   start of the decompressed region when it is. A reader tells by the first offset: 16 + 4·n or
//!   0, in either case.
//! * **The end of the last grain** isn't recorded. It is the end of the region; where a manifest
//!   follows an uncompressed region, the last grain's own bytes say where they end; if it is
//!   encrypted they don't, and it ends where the first whole manifest begins.
//! * **lz4** means the lz4 frame format. Flag bit 2 and the codec byte may disagree in files of
//!   others: the first bytes of the region decide.
//!
//! | module | what it answers |
//! |---|---|
//! | `layout` | what do the first sixteen bytes say? |
//! | `read` | where does each grain lie? |
//! | `manifest` | what state of the index layer travels along? |
//! | `write` | what are the bytes of a new container? |
//! | `frames` | where does each grain of a stream begin and end? |

mod frames;
mod layout;
mod manifest;
mod read;
mod write;

pub use frames::{FRAME_END, Frame, MAX_FRAME_LENGTH, frame_head, next_frame, write_frame};
pub use layout::{
    CONTAINER_HEADER_LENGTH, Codec, ContainerFlags, ContainerHeader, FOOTER_LENGTH, MAGIC,
    MAX_CONTAINER_LENGTH,
};
pub use manifest::{IndexState, Manifest, VerificationStatus};
pub use read::{Container, ContainerLimits, Oddity};
pub use write::{ContainerOptions, ContainerWriter};

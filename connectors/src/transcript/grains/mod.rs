//! Files of grains or of canonical messages, one per line.
//!
//! | module | question |
//! |---|---|
//! | [`message_lines`] | which messages are in lines of canonical messages, CMF messages or events? |
//! | `grain_lines` | which grains are in lines of grains? |

pub(crate) mod grain_lines;
pub mod message_lines;

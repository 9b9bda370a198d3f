//! Transcripts: recorded conversations in the many shapes that they are kept in, as messages and as
//! grains.
//!
//! ```text
//! bytes ── lines ──▶ traffic ──▶ nodes ──▶ tree ──▶ messages, grains
//!                    (one line)  (a message at its place in a conversation)
//! ```
//!
//! | module | what it answers |
//! |---|---|
//! | [`mod@line`] | where are the lines, and what is wrong with those that can't be read? |
//! | [`traffic`] | which messages does one exchange tell of, and where in their conversation do they stand? |
//! | [`tree`] | which of the many times that a message was seen counts, and what is its time? |
//! | [`read`] | how are the lines of a file read in two passes, on several threads? |
//! | `first_pass` | what is taken down in the first of them? |
//! | `guess` | what can be made of a message before all are seen? |
//! | [`said`] | which messages are in files that hold messages, not traffic? |
//! | [`kind`] | what kind of transcript are these bytes? |
//! | [`foreign`] | which formats are recognised and not read? |
//! | [`recast`] | how do batch files, bare bodies, archives and cassettes become exchange lines? |
//! | [`claude_code`], [`codex`], [`mcp`] | which messages are in the logs of agents? |
//! | [`memory`] | which facts, with which history, are in the exports of memory systems? |
//! | [`sqlite`] | how is the canonical schema read and written? |
//! | `carried` | how do grains that come as JSON stay what they are? |
//! | [`told`] | what do all these tell, in which parts? |
//! | [`grains`] | which grains are all these messages, each once, each after what it refers to? |
//! | [`spool`] | how does a transcript go where grains go? |
//! | [`convert`] | how does one kind become another? |
//! | [`check`] | does traffic survive the round trip? |
//!
//! Requests resend their whole history, so nearly every message is seen many times. A first pass
//! over the input takes down where each message stands, when it was first seen, and which sight of
//! it tells most; a second one makes each message once, from that sight and with that time. What
//! the first one can guess, it makes itself; the second one checks that. So the result depends on
//! what was recorded, not on the order in which it is read nor on the number of threads.
//!
//! What doesn't live here: what providers' fields mean ([`crate::wire`]), and what a grain is (the
//! schemas).

pub(crate) mod carried;
#[cfg(test)]
mod cases;
pub mod check;
pub mod claude_code;
pub mod codex;
pub mod convert;
pub(crate) mod entry;
pub(crate) mod first_pass;
pub mod foreign;
pub mod grains;
pub(crate) mod guess;
pub mod kind;
pub mod line;
pub mod mcp;
pub mod memory;
pub mod read;
pub mod recast;
pub mod said;
pub mod spool;
pub mod sqlite;
pub(crate) mod talk;
pub mod told;
pub mod traffic;
pub mod tree;

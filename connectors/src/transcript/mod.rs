//! Transcripts: recorded conversations in many formats, as messages and as grains.
//!
//! ```text
//!         ┌─ exchange ──▶ sighting_index ──▶ messages ─────────┐
//! bytes ──┤                                                    ├──▶ grain_output ──▶ frame_spool
//!         └─ agent_logs, memory, grains, sqlite ──▶ parsed ────┘
//! ```
//!
//! Traffic of providers resends earlier messages with every request, so it is read in two passes
//! that deduplicate it ([`exchange`]). All other kinds are parsed in one ([`parse`]).
//!
//! | module | question |
//! |---|---|
//! | [`kind`] | which kinds of transcripts are supported? |
//! | [`detect`] | of which kind is a file? |
//! | [`content_folder`] | where are embedded images and documents written? |
//! | [`options`] | how is a transcript read? |
//! | [`exchange`] | which messages are in recorded requests and responses? |
//! | [`agent_logs`] | which messages are in the logs of agents? |
//! | [`memory`] | which facts, with which history, are in the exports of memory systems? |
//! | [`grains`] | which messages and grains are in lines of them? |
//! | [`changes`] | which lines of a bundle of changes between lakes are grains? |
//! | [`sqlite`] | how is the canonical schema read and written? |
//! | [`mod@parse`] | which of these readers parses a kind? |
//! | [`parsed`] | what is the result of parsing? |
//! | [`grain_output`] | which grains are all these messages, each once, each after what it refers to? |
//! | [`frame_spool`] | how is a transcript ingested like a file of grains? |
//! | [`mod@convert`] | how is one kind converted to another format? |
//!
//! Shared parts, which depend on none of the readers:
//!
//! | module | question |
//! |---|---|
//! | [`mod@line`] | where are the lines of a file, and which faults do they have? |
//! | `entries` | what are the entries of a file that is either lines or one document? |
//! | `document_items` | which entries has a document, as they are written? |
//! | `parallel` | how are lines processed on several threads, with results in order? |
//! | [`sighting_index`] | which of many sightings of a message is preferred, and what is its time? |
//! | `conversation_builder` | which ids do the messages of a conversation get? |
//! | `message_placer` | at which position is a message that has an id already? |
//! | `message_json` | how is a message encoded with the metadata of its response? |
//!
//! What doesn't belong here: the meaning of providers' fields ([`crate::wire`]), and the encoding
//! of grains (the schemas).

pub mod agent_logs;
pub mod changes;
pub mod content_folder;
pub(crate) mod conversation_builder;
pub mod convert;
pub mod detect;
pub(crate) mod document_items;
pub(crate) mod entries;
pub mod exchange;
pub mod frame_spool;
pub mod grain_output;
pub mod grains;
pub mod kind;
pub mod line;
pub mod memory;
pub(crate) mod message_json;
pub(crate) mod message_placer;
pub mod options;
pub(crate) mod parallel;
pub mod parse;
pub mod parsed;
pub mod sighting_index;
pub mod sqlite;
#[cfg(test)]
mod tests;

//! Provider wire formats: converts requests, responses, streams and errors of LLM providers to
//! canonical messages and back.
//!
//! ```text
//!                 read                               write
//!   wire JSON ───────────▶ canonical messages ───────────────▶ wire JSON
//!        │                       │    ▲                            ▲
//!        └── minus projection ──▶ provider_raw ── residual ────────┘
//! ```
//!
//! An [`adapter`] reads a body into canonical messages and writes canonical messages as a body.
//! What it writes for a body that it has just read is the *projection*. The difference between the
//! projection and the original is the *residual*; it is stored in `provider_raw`, and writing
//! applies it, so that the round trip is lossless for every body.
//!
//! | module | question |
//! |---|---|
//! | [`adapter`] | What must an adapter of a provider do? Defines the contract. |
//! | [`registry`] | Which adapter handles an endpoint? |
//! | [`body_codec`] | How is a whole body read and written without loss? |
//! | [`message_reader`], [`message_writer`] | Which services do adapters share: ids, positions, warnings; units, dropped blocks? |
//! | [`conversation`], [`read_warning`] | What is known of a conversation before a body, and what wasn't understood in one? |
//! | `tracked_calls` | Which call of a conversation does a result belong to? |
//! | [`residual`], [`unit_path`], [`provider_raw`] | How is a residual computed, where does it belong in a body, how is it stored? |
//! | [`response_defaults`] | Which members does every response of an endpoint contain, so that residuals needn't? |
//! | [`anthropic`], [`openai_chat`], [`openai_responses`], [`openrouter`], [`gemini`], [`ollama`], [`bedrock_converse`] | One provider dialect each. |
//! | [`usage`], [`json_access`], [`image`] | Helpers of all adapters: token counts, JSON members, images. |
//! | [`framing`] | How are the bytes of a stream split into events: SSE, NDJSON, AWS event stream? |
//! | [`error`] | Of which class is a failure, and is it worth a retry? |
//! | [`exchange`] | What does a line of exchange JSONL contain? |
//! | [`provider_detection`] | Which provider answered: by name, address or bodies? |
//! | [`standalone_body`] | Is a JSON object without an exchange around it a request or a response? |
//! | [`round_trip`] | Does a recorded exchange survive reading and writing? |
//! | [`gateway`] | How does a gateway validate what clients send, and render what they receive? |
//!
//! # Example
//!
//! A request of one provider, read into canonical messages, written for the same provider and for
//! another one:
//!
//! ```
//! use gristmill_connectors::wire::conversation::{Conversation, ReadContext};
//! use gristmill_connectors::wire::message_writer::WriteOptions;
//! use gristmill_connectors::wire::{body_codec, registry};
//! use gristmill_schemas::json::Json;
//! use gristmill_schemas::message::Timestamp;
//! use gristmill_schemas::message::tool_ids::ToolIdMap;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let openai = registry::by_key("openai/chat").ok_or("no such adapter")?;
//! let anthropic = registry::by_key("anthropic/messages").ok_or("no such adapter")?;
//! let body = Json::parse(br#"{"messages": [{"role": "user", "content": "hi"}], "seed": 7}"#)?;
//!
//! let context = ReadContext::at(Timestamp::from_seconds(0));
//! let read = body_codec::read_request(openai, &body, &mut Conversation::new(""), &context)?;
//! let write = |adapter| {
//!     let (ids, options) = (&mut ToolIdMap::new(), WriteOptions::default());
//!     body_codec::write_request(adapter, &read.request, ids, options).json
//! };
//!
//! // The residual restores `seed`, which has no canonical form.
//! assert_eq!(write(openai), body);
//! assert_eq!(write(anthropic).get("seed"), None);
//! # Ok(())
//! # }
//! ```
//!
//! # The contract in short
//!
//! * An adapter is a stateless value. It does no I/O except through [`message_writer::Workspace`],
//!   reads no clock and generates no ids.
//! * It splits a body into *units* (the parts that become one canonical message each) and an
//!   *envelope* (the rest), and reports the [`unit_path`] of each unit on reading and on writing.
//! * Reading ignores what the canonical model can't hold; the residual keeps it. Reading fails only
//!   for a body of another dialect.
//! * Writing is deterministic. Stored residuals are differences from what an adapter writes, so a
//!   change to that output is a change of format.
//! * Apart from the tables of [`provider_detection`], [`standalone_body`] and `registry/detect.rs`,
//!   only the module of a provider contains its field names.
//!
//! # Adding a provider
//!
//! For an endpoint that uses OpenAI's chat dialect, one line in the table `CHAT` of
//! `registry/endpoints.rs` is enough, and its hosts in [`provider_detection`]. If its responses
//! have defaults of their own, it is a static there instead, and an entry of
//! [`registry::adapters`]. For another dialect:
//!
//! 1. Create `wire/NAME/mod.rs` with `read.rs` (wire to canonical), `write.rs` (canonical to wire)
//!    and `fold.rs` (stream to body). [`ollama`] is the smallest complete example; it has the
//!    fold in `mod.rs`.
//! 2. Implement [`adapter::Adapter`] for a static value, and [`error::ErrorFormat`] for its error
//!    bodies. `read_request` calls [`message_reader::MessageReader::begin_unit`] before the
//!    messages of each unit; `write_request` returns the path of each unit.
//! 3. Add `pub mod NAME;` below, and the static value to the lists of `registry/endpoints.rs`. If
//!    bodies that stand alone are to be recognised, extend [`registry::detect_request`] and
//!    [`registry::detect_response`].
//! 4. Add hosts, aliases, ends of URL paths and distinctive members to the tables of
//!    [`provider_detection`], new members of requests to `REQUEST_MEMBERS` of [`standalone_body`],
//!    and a model in the URL path to `model_from_path` of [`exchange`].
//! 5. Add cases (`name`, `line`, `expect`) to a file in `tests/cases/wire/`; a new file also needs
//!    a test in `transcript/tests.rs`. Add unusual bodies to `wire/tests.rs`: every adapter must
//!    return them value for value. The residual should be small; [`round_trip::RoundTripSizes`]
//!    measures it.
//! 6. Add the token counts of the provider to the table of `docs/transcripts.md`.

pub mod adapter;
pub mod anthropic;
pub mod bedrock_converse;
pub mod body_codec;
pub mod conversation;
pub mod error;
pub mod exchange;
pub mod framing;
pub mod gateway;
pub mod gemini;
pub mod image;
pub mod json_access;
pub mod message_reader;
pub mod message_writer;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod openrouter;
pub mod provider_detection;
pub mod provider_raw;
pub mod read_warning;
pub mod registry;
pub mod residual;
pub mod response_defaults;
pub mod round_trip;
pub mod standalone_body;
#[cfg(test)]
mod tests;
mod tracked_calls;
pub mod unit_path;
pub mod usage;

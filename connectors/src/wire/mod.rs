//! Provider wire formats: a provider's requests, responses, streams and errors to canonical
//! messages and back.
//!
//! ```text
//!                 read                               write
//!   wire JSON ───────────▶ canonical messages ───────────────▶ wire JSON
//!        │                       │    ▲                            ▲
//!        └── minus projection ──▶ provider_raw ── residual ────────┘
//! ```
//!
//! | module | what it answers |
//! |---|---|
//! | [`adapter`] | what must a provider's adapter do? The contract, in prose. |
//! | [`transfer`] | how is the round trip lossless, whatever the adapter forgets? |
//! | [`read`], [`mod@write`] | what the frame does for an adapter: ids, positions, warnings; units, drops |
//! | [`residual`], [`place`], [`raw`] | the difference, where in the wire it belongs, how it travels |
//! | [`usual`] | what every answer of an endpoint carries, so that no residual has to |
//! | [`anthropic`], [`openai_chat`], [`openai_responses`], [`openrouter`], [`gemini`], [`ollama`], [`bedrock_converse`] | one provider dialect each |
//! | [`usage`] | which tokens are input, cached, written to a cache, output? |
//! | [`members`], [`image`] | small looks into JSON, and at images, that all of them take |
//! | [`dialect`] | which adapter speaks for which endpoint? |
//! | [`bare`] | is an object that comes alone a request or a response? |
//! | [`provider`] | whose is an exchange, by its line, its address or its bodies? |
//! | [`framing`] | bytes of a stream to its events: SSE, NDJSON, AWS event stream |
//! | [`error`] | what kind of failure is this, and is it worth another try? |
//! | [`gateway`] | strict translation of what clients send and receive |
//! | [`exchange`], [`round_trip`] | one recorded request and response, and whether they survive the round trip |
//!
//! Invariants: an adapter does no I/O but through [`write::Workspace`], holds no state, mints no
//! ids; nothing outside its own file knows a provider's field names; adding a provider adds one
//! file and one line in [`dialect`].

pub mod adapter;
pub mod anthropic;
pub mod bare;
pub mod bedrock_converse;
pub mod dialect;
pub mod error;
pub mod exchange;
pub mod framing;
pub mod gateway;
pub mod gemini;
pub mod image;
pub mod members;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod openrouter;
pub mod place;
pub mod provider;
pub mod raw;
pub mod read;
pub mod residual;
pub mod round_trip;
#[cfg(test)]
mod tests;
pub mod transfer;
pub mod usage;
pub mod usual;
pub mod write;

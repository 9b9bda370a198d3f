//! The data formats of gristmill as pure functions over bytes: no I/O, no threads, no clock.
//!
//! The central format is the *grain* of the Open Memory Specification (OMS) 1.3: an immutable,
//! content-addressed record of an agent's memory. A grain is encoded to one canonical blob, and the
//! SHA-256 of the blob is its address:
//!
//! ```
//! use gristmill_schemas::address::ContentAddress;
//! use gristmill_schemas::grain::{
//!     DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Field, Grain, Payload, encode_json,
//! };
//! use gristmill_schemas::json::Json;
//!
//! let json = br#"{
//!     "type": "belief", "subject": "alice", "relation": "prefers", "object": "dark mode",
//!     "confidence": 0.9, "source_type": "user_explicit", "created_at": 1768471200000
//! }"#;
//! let grain = Json::parse(json)?;
//!
//! // Encode: the same fields always yield the same blob and the same address.
//! let encoded = encode_json(&grain, EncodeOptions::default())?;
//! assert_eq!(encoded.address, ContentAddress::of(&encoded.blob));
//!
//! // Decode: borrows from the blob and checks the schema of the type.
//! let payload = Payload::open(&encoded.blob, DEFAULT_PAYLOAD_LIMIT)?;
//! let decoded = Grain::decode(&payload, DecodeMode::Strict)?;
//! assert_eq!(decoded.text(Field::Subject), Some("alice"));
//! assert!(decoded.marks().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | question |
//! |---|---|
//! | [`address`] | what is the address of a blob, and does a blob match an address? |
//! | [`grain`] | what does a blob contain, and what is the blob of a grain? |
//! | [`container`] | how are many grains stored in one file or stream? |
//! | [`sign`] | who signed a grain, and is the signature valid? |
//! | [`lifecycle`] | what is the state of a grain after its lifecycle events? |
//! | [`columns`] | which Arrow schemas do the lake's tables have, and what is the row of a grain? |
//! | [`message`] | what is a message between people, models and tools, independent of the provider? |
//! | [`cmf`] | what is a message of the Common Message Format, and what may policies see of it? |
//! | [`identifier`] | is a text a decentralized identifier? |
//! | [`json`] | how is JSON kept with its spelling and order? |
//! | `compression` | how are zstd and lz4 decompressed within a limit? |
//! | `nfc` | is a text in Unicode normalization form C? |
//! | [`error`] | which error occurred, where, and with which code of the specification? |
//!
//! Section numbers (§) refer to the Open Memory Specification 1.3, in [`cmf`] to the CMF
//! specification, in [`message`] to the canonical message format 1.1.
//!
//! # Cargo features
//!
//! All are enabled by default.
//!
//! | feature | enables |
//! |---|---|
//! | `cmf` | the module [`cmf`] |
//! | `columns` | the module [`columns`]; enables `sign` |
//! | `sign` | the module [`sign`], and the verification of containers |

// Input must never end the process: functions that can fail return an error.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod address;
#[cfg(feature = "cmf")]
pub mod cmf;
#[cfg(feature = "columns")]
pub mod columns;
mod compression;
pub mod container;
pub mod error;
pub mod grain;
pub mod identifier;
pub mod json;
pub mod lifecycle;
pub mod message;
mod nfc;
#[cfg(feature = "sign")]
pub mod sign;

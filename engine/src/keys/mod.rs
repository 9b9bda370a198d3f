//! Keys: a keyring outside the lake.
//!
//! A keyring is one file: a master secret, from which keys for single purposes are derived, and named signing keys. Secrets
//! are sealed with AES-256-GCM under a key that Argon2id makes of a passphrase; public halves can be read without it.

mod keyring;

pub use keyring::{KeyEntry, Keyring, PublicKey, Secret};
pub(crate) use keyring::{random, seal, unseal};

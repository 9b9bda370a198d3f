//! Keys: a keyring outside the lake, and the sealing of grains with its keys.
//!
//! A keyring is one file with a master secret, from which keys for single purposes are derived, and
//! named signing keys. Secrets are sealed with AES-256-GCM under a key that Argon2id derives from a
//! passphrase; public keys can be read without it.
//!
//! | module | contents |
//! |---|---|
//! | `keyring` | the master secret and the signing keys |
//! | `sealing` | encryption of secrets and records with AES-256-GCM |
//! | `store` | the interface of a store of people's keys |
//! | `people` | the store in a file next to the keyring |
//! | `lock` | concurrent changes by several processes |
//! | `lake_keys` | sealing and opening grains, and blind tokens |
//! | `message_key` | keys of single exchanges between processes |
//! | `rows` | from rows of a sealed segment to readable rows, and back |
//! | `trusted_keys` | public keys of DIDs that don't contain their key |
//! | `tombstones` | keyed hashes that identify erased grains |

mod keyring;
mod lake_keys;
mod lock;
mod message_key;
mod people;
mod rows;
mod sealing;
mod store;
mod tombstones;
mod trusted_keys;

pub use keyring::{KeyEntry, Keyring, PublicKey};
pub use lake_keys::{ENVELOPE, LakeKeys, Unsealed, key_of};
pub use message_key::MessageKey;
pub use people::FileKeys;
pub use rows::ErasedRows;
pub(crate) use rows::write_sort_key;
pub use sealing::Secret;
pub(crate) use sealing::{random, seal, unseal};
pub use store::{Decide, KeyChange, KeyDisposition, KeyId, KeyStatus, KeyStore, PersonKey};
pub(crate) use tombstones::Tombstone;
pub use tombstones::TombstoneSet;
pub use trusted_keys::{TrustStore, TrustedFirst, TrustedKey, read_key_file};

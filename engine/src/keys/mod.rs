//! Keys: a keyring outside the lake, and what is sealed with it inside.
//!
//! A keyring is one file: a master secret, from which keys for single purposes are derived, and
//! named signing keys. Secrets are sealed with AES-256-GCM under a key that Argon2id makes of a
//! passphrase; public halves can be read without it.
//!
//! | module | what it answers |
//! |---|---|
//! | `keyring` | where are the master secret and the signing keys? |
//! | `store` | what must a keeper of people's keys do? |
//! | `people` | how are they kept in a file beside the keyring? |
//! | `lock` | how do several processes change them without losing anything? |
//! | `lake_keys` | how is a grain sealed, opened, and found while it is sealed? |
//! | `rows` | how do rows of a sealed segment become rows that can be read? |
//! | `tombstones` | by which keyed hashes are erased grains recognised? |

mod keyring;
mod lake_keys;
mod lock;
mod people;
mod rows;
mod store;
mod tombstones;

pub use keyring::{KeyEntry, Keyring, PublicKey, Secret};
pub(crate) use keyring::{random, seal, unseal};
pub use lake_keys::{ENVELOPE, LakeKeys, Unsealed, key_of};
pub use people::FileKeys;
pub use rows::ErasedRows;
pub(crate) use rows::write_sort_key;
pub use store::{Decide, KeyChange, KeyDisposition, KeyId, KeyStatus, KeyStore, PersonKey};
pub(crate) use tombstones::Tombstone;
pub use tombstones::TombstoneSet;

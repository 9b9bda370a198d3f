//! Where the keys of people are kept: a trait, so that a key service can take the place of the file.

use std::fmt;

use super::Secret;
use crate::error::Result;

/// What tells one person's keys from another's: a keyed hash of the user id, so that a store learns no names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 16]);

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "KeyId({self})")
    }
}

/// Why a key is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was destroyed to erase what it sealed.
    Destroyed,
    /// Another took its place, and nothing that counts is sealed with it.
    Retired,
}

/// A person's key of one generation.
#[derive(Debug, Clone)]
pub struct PersonKey {
    /// Whose.
    pub id: KeyId,
    /// The generation, from 1.
    pub generation: u32,
    /// What the key is derived with, or why there is none any more.
    pub salt: std::result::Result<Secret, Ending>,
}

/// A keeper of keys, outside the lake. All that it adds or ends is durable when it returns.
pub trait KeyStore: fmt::Debug + Send + Sync {
    /// What to call it in messages.
    fn name(&self) -> String;

    /// The secret for one purpose, always the same.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key).
    fn derive(&self, purpose: &str) -> Result<Secret>;

    /// The keys of all people, ended ones too.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key).
    fn load(&self) -> Result<Vec<PersonKey>>;

    /// A key to seal with for each of `ids`: the newest that it has, or a new one. With `renew` it is a new one in any case.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key), [`EngineError::File`](crate::error::EngineError::File).
    fn make(&self, ids: &[KeyId], renew: bool) -> Result<Vec<PersonKey>>;

    /// Removes the secrets of `keys` for good; that they were there, and how they ended, stays known.
    ///
    /// # Errors
    /// As [`KeyStore::make`].
    fn end(&self, keys: &[(KeyId, u32)], ending: Ending) -> Result<()>;
}

//! The interface of a store of people's keys, so that a key management service can replace the
//! file.

use std::collections::HashMap;
use std::fmt;

use super::Secret;
use crate::error::Result;

/// Identifies the keys of one person: a keyed hash of the user id, so that a store contains no
/// names.
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

/// Why a key is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDisposition {
    /// It was destroyed to erase what it sealed (crypto-shredding).
    Destroyed,
    /// It was replaced by a newer key, and nothing is sealed with it any more.
    Retired,
}

/// One generation of a person's key.
#[derive(Debug, Clone)]
pub struct PersonKey {
    /// Identifies the person.
    pub id: KeyId,
    /// The generation, from 1.
    pub generation: u32,
    /// The salt from which the key is derived, or why it is unusable.
    pub salt: std::result::Result<Secret, KeyDisposition>,
}

/// The state of a key, without its secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyStatus {
    /// Identifies the person.
    pub id: KeyId,
    /// The generation, from 1.
    pub generation: u32,
    /// Why it is unusable; `None` if it is usable.
    pub ending: Option<KeyDisposition>,
}

/// One step of an atomic update of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// Returns this key, which stays as it is.
    Read(KeyId, u32),
    /// Adds a key of this generation, with a new random salt, and returns it.
    Add(KeyId, u32),
    /// Destroys the secret of this key. The store keeps the key's id and its disposition, also of a
    /// key that it never had. A destroyed key stays destroyed.
    End(KeyId, u32, KeyDisposition),
}

/// Decides on the changes of an update from the current keys of a store.
pub type Decide<'d> = dyn FnMut(&[KeyStatus]) -> Vec<KeyChange> + 'd;

/// A store of keys, outside the lake. All changes are durable when a method returns.
///
/// Several processes use one store at the same time. Every change goes through
/// [`KeyStore::update`], which reads, decides and writes atomically; keys from an earlier
/// [`KeyStore::load`] must not decide anything.
pub trait KeyStore: fmt::Debug + Send + Sync {
    /// Returns its name for messages.
    fn name(&self) -> String;

    /// Derives the secret for one purpose. The result never changes.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key).
    fn derive(&self, purpose: &str) -> Result<Secret>;

    /// Loads the keys of all people, including unusable ones.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key).
    fn load(&self) -> Result<Vec<PersonKey>>;

    /// Applies the changes that `decide` returns for the current keys of the store: all or none of
    /// them, and atomically. Returns the keys that were read or added, in the order of the changes.
    /// A store with optimistic concurrency calls `decide` again after a conflict.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key),
    /// [`EngineError::File`](crate::error::EngineError::File).
    fn update(&self, decide: &mut Decide<'_>) -> Result<Vec<PersonKey>>;

    /// Returns a key to seal with for each of `ids`: the newest one of the store, or a new one.
    /// With `renew`, always a new one.
    ///
    /// # Errors
    /// As [`KeyStore::update`].
    fn make(&self, ids: &[KeyId], renew: bool) -> Result<Vec<PersonKey>> {
        self.update(&mut |current| {
            let mut newest: HashMap<KeyId, KeyStatus> = HashMap::with_capacity(current.len());
            for key in current {
                let known = newest.entry(key.id).or_insert(*key);
                if known.generation < key.generation {
                    *known = *key;
                }
            }
            let change = |id: &KeyId| match newest.get(id) {
                Some(key) if key.ending.is_none() && !renew => KeyChange::Read(*id, key.generation),
                known => KeyChange::Add(*id, known.map_or(0, |key| key.generation) + 1),
            };
            ids.iter().map(change).collect()
        })
    }

    /// Destroys the secrets of `keys`; the store keeps their ids and `ending`.
    ///
    /// # Errors
    /// As [`KeyStore::update`].
    fn end(&self, keys: &[(KeyId, u32)], ending: KeyDisposition) -> Result<()> {
        let end = |key: &(KeyId, u32)| KeyChange::End(key.0, key.1, ending);
        self.update(&mut |_| keys.iter().map(end).collect())
            .map(drop)
    }
}

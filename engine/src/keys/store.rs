//! Where the keys of people are kept: a trait, so that a key service can take the place of the
//! file.

use std::collections::HashMap;
use std::fmt;

use super::Secret;
use crate::error::Result;

/// What tells one person's keys from another's: a keyed hash of the user id, so that a store learns
/// no names.
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
pub enum KeyDisposition {
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
    pub salt: std::result::Result<Secret, KeyDisposition>,
}

/// A key of a store without its secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyStatus {
    /// Whose.
    pub id: KeyId,
    /// The generation, from 1.
    pub generation: u32,
    /// Why it can't be used any more; `None` if it can.
    pub ending: Option<KeyDisposition>,
}

/// One step of an update of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// Returns this key, which stays as it is.
    Read(KeyId, u32),
    /// Adds a key of this generation, with a new random salt, and returns it.
    Add(KeyId, u32),
    /// Removes the secret of this key permanently. That it was there, and how it ended, stays
    /// known; a key that the store never had becomes known as ended, too. One that was destroyed
    /// stays destroyed.
    End(KeyId, u32, KeyDisposition),
}

/// Decides on the changes of an update from the keys that a store has at that moment.
pub type Decide<'d> = dyn FnMut(&[KeyStatus]) -> Vec<KeyChange> + 'd;

/// A keeper of keys, outside the lake. All that it adds or ends is durable when it returns.
///
/// Several processes use one store at once. Whatever changes it goes through [`KeyStore::update`],
/// which reads, decides and writes as one step: what a process has in memory from an earlier
/// [`KeyStore::load`] decides nothing.
pub trait KeyStore: fmt::Debug + Send + Sync {
    /// Returns what to call it in messages.
    fn name(&self) -> String;

    /// Returns the secret for one purpose, always the same.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key).
    fn derive(&self, purpose: &str) -> Result<Secret>;

    /// Returns the keys of all people, ended ones too.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key).
    fn load(&self) -> Result<Vec<PersonKey>>;

    /// Makes the changes that `decide` returns for the keys that the store has now, all or none of
    /// them, without any other change in between. Returns the keys that were read or added, in the
    /// order of the changes. A store that detects a conflict only afterwards calls `decide` again
    /// with what it then has.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key),
    /// [`EngineError::File`](crate::error::EngineError::File).
    fn update(&self, decide: &mut Decide<'_>) -> Result<Vec<PersonKey>>;

    /// Returns a key to seal with for each of `ids`: the newest that the store has, or a new one.
    /// With `renew` it is a new one in any case.
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

    /// Removes the secrets of `keys` permanently; that they were there, and how they ended, stays
    /// known.
    ///
    /// # Errors
    /// As [`KeyStore::update`].
    fn end(&self, keys: &[(KeyId, u32)], ending: KeyDisposition) -> Result<()> {
        let end = |key: &(KeyId, u32)| KeyChange::End(key.0, key.1, ending);
        self.update(&mut |_| keys.iter().map(end).collect())
            .map(drop)
    }
}

//! The keys of one lake: envelopes of grains, blind tokens, and the sealed cells of the small
//! tables.
//!
//! ```text
//! index key    HKDF-SHA256(master, "gristmill/lake/index/1" lake)
//! key id       HMAC-SHA256(index key, "user" user_id)[..16]       grains without a user have one of their own
//! person key   HKDF-SHA256(salt of the person, HKDF(master, "gristmill/lake/people/1" lake), key id, generation)
//! grain key    HKDF-Expand-SHA256(person key, content address)
//! envelope     "GMS1" · key id 16 · generation 4 · nonce 12 · AES-256-GCM(clear text), bound to all before it and the address
//! token        "~" hex(HMAC-SHA256(index key, "token" field text)[..16])
//! ```
//!
//! The salt makes a key destructible: a key that can be derived from the master secret alone can't
//! be destroyed. Each grain has its own key, so that the number of grains isn't limited by the
//! cipher. Tokens of equal texts are equal within a field of a lake.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SEALED_MAGIC;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::Secret;
use super::sealing::{seal_bound, unseal_bound};
use super::store::{KeyDisposition, KeyId, KeyStore, PersonKey};
use super::tombstones::TombstoneSet;
use crate::error::{EngineError, Result};

/// The open keys of one lake. Clones share the cache.
#[derive(Clone)]
pub struct LakeKeys {
    store: Arc<dyn KeyStore>,
    index: Hmac<Sha256>,
    people: Secret,
    check: String,
    cache: Arc<RwLock<KeyCache>>,
    /// Grains that stay erased even if their keys exist.
    tombstones: TombstoneSet,
}

/// Keys by person and generation.
type KeyCache = HashMap<KeyId, BTreeMap<u32, std::result::Result<Secret, KeyDisposition>>>;

impl fmt::Debug for LakeKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LakeKeys({})", self.store.name())
    }
}

/// The content of an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsealed {
    /// The clear text.
    Clear(Vec<u8>),
    /// Its key was destroyed, so the content is erased.
    Erased,
}

/// Bytes of an envelope before the nonce: magic, key id, generation.
const HEAD: usize = 24;

/// Number of bytes by which an envelope exceeds its content.
pub const ENVELOPE: usize = HEAD + 12 + 16;

/// Takes the place of the address for cells that belong to no grain.
const NO_ADDRESS: [u8; 32] = [0; 32];

impl LakeKeys {
    /// Loads the keys that `store` has, for the lake named `lake`.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub fn open(store: impl Into<Arc<dyn KeyStore>>, lake: &str) -> Result<LakeKeys> {
        let store = store.into();
        let secret = |purpose: &str| store.derive(&format!("gristmill/lake/{purpose}/1\n{lake}"));
        let index = Hmac::<Sha256>::new_from_slice(&*secret("index")?);
        let index = index.map_err(|_| EngineError::Key("a key has the wrong length".to_owned()))?;
        let check = hex::encode(index.clone().chain_update(b"check").finalize().into_bytes());
        let (people, cache, tombstones) =
            (secret("people")?, Arc::default(), TombstoneSet::default());
        let keys = LakeKeys {
            index,
            people,
            check,
            cache,
            tombstones,
            store,
        };
        keys.cache_keys(keys.store.load()?)?;
        Ok(keys)
    }

    /// Returns whether the store has no key of any person, for any lake.
    pub(crate) fn is_empty(&self) -> bool {
        self.cache
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    /// Returns the same keys with the grains in `tombstones` erased, even if their keys are back
    /// from an old copy of the keyring.
    pub(crate) fn with_tombstones(&self, tombstones: TombstoneSet) -> LakeKeys {
        LakeKeys {
            tombstones,
            ..self.clone()
        }
    }

    /// Returns whether the grain `address` stays erased even if its key exists. Costs one short
    /// hash if anything was erased, else nothing.
    pub(crate) fn has_tombstone(&self, address: &ContentAddress) -> bool {
        !self.tombstones.is_empty() && self.tombstones.contains(address)
    }

    /// Returns the store of the keys.
    pub(crate) fn store(&self) -> Arc<dyn KeyStore> {
        Arc::clone(&self.store)
    }

    /// Returns the key check value, which identifies the keys of this lake and reveals nothing
    /// else.
    pub fn check(&self) -> &str {
        &self.check
    }

    /// Returns the key id of `user`; `None` stands for grains without a user.
    pub fn id_of(&self, user: Option<&str>) -> KeyId {
        let mac = self.index.clone();
        let mac = match user {
            Some(user) => mac.chain_update(b"user\x01").chain_update(user.as_bytes()),
            None => mac.chain_update(b"user\x00"),
        };
        KeyId(half(mac))
    }

    /// Returns the blind token of `text` in the column `field`.
    pub fn token(&self, field: &str, text: &str) -> String {
        let mac = self
            .index
            .clone()
            .chain_update(b"token\x00")
            .chain_update(field.as_bytes());
        format!(
            "~{}",
            hex::encode(half(
                mac.chain_update(b"\x00").chain_update(text.as_bytes())
            ))
        )
    }

    /// Creates keys for those of `users` who have no usable key.
    ///
    /// # Errors
    /// [`EngineError::Key`], [`EngineError::File`] if they can't be made durable.
    pub fn prepare<'u>(&self, users: impl IntoIterator<Item = Option<&'u str>>) -> Result<()> {
        let ids: HashSet<KeyId> = users.into_iter().map(|user| self.id_of(user)).collect();
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<KeyId> = ids
            .into_iter()
            .filter(|id| newest(&cache, id).is_none())
            .collect();
        drop(cache);
        if missing.is_empty() {
            Ok(())
        } else {
            self.cache_keys(self.store.make(&missing, false)?)
        }
    }

    /// Creates new keys for `ids`, which seal everything from now on.
    ///
    /// # Errors
    /// As [`LakeKeys::prepare`].
    pub fn renew(&self, ids: &[KeyId]) -> Result<()> {
        self.cache_keys(self.store.make(ids, true)?)
    }

    /// Destroys the secrets of `keys`.
    ///
    /// # Errors
    /// As [`LakeKeys::prepare`].
    pub fn end(&self, keys: &[(KeyId, u32)], ending: KeyDisposition) -> Result<()> {
        self.store.end(keys, ending)?;
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        for (id, generation) in keys {
            cache
                .entry(*id)
                .or_default()
                .insert(*generation, Err(ending));
        }
        Ok(())
    }

    /// Returns all usable keys by person and generation, ascending.
    pub fn usable(&self) -> Vec<(KeyId, u32)> {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let keys = cache.iter().flat_map(|(id, keys)| {
            keys.iter()
                .map(move |(generation, key)| (*id, *generation, key))
        });
        let mut usable: Vec<_> = keys
            .filter(|key| key.2.is_ok())
            .map(|key| (key.0, key.1))
            .collect();
        usable.sort_unstable();
        usable
    }

    /// Seals `clear`, the bytes of the grain `address` of `user`, which must be
    /// [prepared](LakeKeys::prepare).
    ///
    /// # Errors
    /// [`EngineError::Key`] if there is no key.
    pub fn seal(
        &self,
        user: Option<&str>,
        address: &ContentAddress,
        clear: &[u8],
    ) -> Result<Vec<u8>> {
        self.seal_with(self.id_of(user), address.as_bytes(), clear)
    }

    fn seal_with(&self, id: KeyId, address: &[u8; 32], clear: &[u8]) -> Result<Vec<u8>> {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let (generation, key) = newest(&cache, &id)
            .ok_or_else(|| EngineError::Key(format!("there is no key {id} to seal with")))?;
        let mut out = Vec::with_capacity(ENVELOPE + clear.len());
        out.extend(SEALED_MAGIC);
        out.extend(id.0);
        out.extend(generation.to_be_bytes());
        let sealed = seal_bound(
            &grain_key(key, address)?,
            &[&out, &address[..]].concat(),
            clear,
        )?;
        out.extend(sealed);
        Ok(out)
    }

    /// Opens the envelope of the grain `address`.
    ///
    /// # Errors
    /// [`EngineError::Key`] if its key is unknown or was replaced, or the envelope was changed.
    pub fn unseal(&self, address: &ContentAddress, envelope: &[u8]) -> Result<Unsealed> {
        if self.has_tombstone(address) {
            return Ok(Unsealed::Erased);
        }
        self.unseal_with(address.as_bytes(), envelope)
    }

    fn unseal_with(&self, address: &[u8; 32], envelope: &[u8]) -> Result<Unsealed> {
        let Some((id, generation)) = key_of(envelope) else {
            return Err(EngineError::Key(
                "what should be an envelope isn't one".to_owned(),
            ));
        };
        if let Some(opened) = self.try_unseal(id, generation, address, envelope) {
            return opened;
        }
        // Another process may have created the key.
        self.cache_keys(self.store.load()?)?;
        self.try_unseal(id, generation, address, envelope)
            .unwrap_or_else(|| {
                Err(EngineError::Key(format!(
                    "`{}` has no key {id} of generation {generation}: is its file of people's keys \
                 complete?",
                    self.store.name()
                )))
            })
    }

    fn try_unseal(
        &self,
        id: KeyId,
        generation: u32,
        address: &[u8; 32],
        envelope: &[u8],
    ) -> Option<Result<Unsealed>> {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        Some(match cache.get(&id)?.get(&generation)? {
            Err(KeyDisposition::Destroyed) => Ok(Unsealed::Erased),
            Err(KeyDisposition::Retired) => Err(EngineError::Key(format!(
                "the key {id} of generation {generation} was replaced; this version of the lake \
                 can't be read any more"
            ))),
            Ok(key) => unseal_with(key, address, envelope).map(Unsealed::Clear),
        })
    }

    /// Returns whether the grain `address` was erased from the lake, or the key of its `envelope`
    /// was destroyed.
    pub(crate) fn is_erased(&self, address: Option<&ContentAddress>, envelope: &[u8]) -> bool {
        if address.is_some_and(|address| self.has_tombstone(address)) {
            return true;
        }
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let key = key_of(envelope).and_then(|(id, generation)| cache.get(&id)?.get(&generation));
        matches!(key, Some(Err(KeyDisposition::Destroyed)))
    }

    /// Returns whether `envelope` is sealed with an older key than its person's newest.
    pub(crate) fn is_outdated(&self, envelope: &[u8]) -> bool {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        key_of(envelope).is_some_and(|(id, generation)| {
            newest(&cache, &id).is_some_and(|(newest, _)| newest > generation)
        })
    }

    /// Seals a cell of a small table, which belongs to no person.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub(crate) fn seal_cell(&self, clear: &[u8]) -> Result<Vec<u8>> {
        self.prepare([None])?;
        self.seal_with(self.id_of(None), &NO_ADDRESS, clear)
    }

    /// Opens a cell of a small table; a cell whose key was destroyed is empty.
    ///
    /// # Errors
    /// As [`LakeKeys::unseal`].
    pub(crate) fn unseal_cell(&self, envelope: &[u8]) -> Result<Vec<u8>> {
        match self.unseal_with(&NO_ADDRESS, envelope)? {
            Unsealed::Clear(clear) => Ok(clear),
            Unsealed::Erased => Ok(Vec::new()),
        }
    }

    fn cache_keys(&self, keys: Vec<PersonKey>) -> Result<()> {
        let mut fresh = Vec::with_capacity(keys.len());
        for PersonKey {
            id,
            generation,
            salt,
        } in keys
        {
            let key = match salt {
                Ok(salt) => Ok(self.person_key(id, generation, &salt)?),
                Err(ending) => Err(ending),
            };
            fresh.push((id, generation, key));
        }
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        for (id, generation, key) in fresh {
            cache.entry(id).or_default().insert(generation, key);
        }
        Ok(())
    }

    fn person_key(&self, id: KeyId, generation: u32, salt: &Secret) -> Result<Secret> {
        let info = [b"person".as_slice(), &id.0, &generation.to_be_bytes()].concat();
        let mut key = Secret::default();
        let derived = Hkdf::<Sha256>::new(Some(&**salt), &*self.people).expand(&info, &mut *key);
        derived.map_err(|_| EngineError::Key("a key can't be derived".to_owned()))?;
        Ok(key)
    }
}

/// Reads the id and generation of the key of `envelope`.
pub fn key_of(envelope: &[u8]) -> Option<(KeyId, u32)> {
    let rest = envelope.strip_prefix(&SEALED_MAGIC)?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (generation, _) = rest.split_first_chunk::<4>()?;
    Some((KeyId(*id), u32::from_be_bytes(*generation)))
}

fn newest<'h>(cache: &'h KeyCache, id: &KeyId) -> Option<(u32, &'h Secret)> {
    let (generation, key) = cache.get(id)?.last_key_value()?;
    Some((*generation, key.as_ref().ok()?))
}

/// Decrypts the `envelope` of the grain `address` with the key of its person.
fn unseal_with(person: &Secret, address: &[u8; 32], envelope: &[u8]) -> Result<Vec<u8>> {
    let key = grain_key(person, address)?;
    let (head, sealed) = envelope.split_at_checked(HEAD).unwrap_or_default();
    unseal_bound(&key, &[head, &address[..]].concat(), sealed).ok_or_else(|| {
        EngineError::Key(format!(
            "the envelope of {} was changed or damaged",
            hex::encode(address)
        ))
    })
}

fn grain_key(person: &Secret, address: &[u8; 32]) -> Result<Secret> {
    let fault = || EngineError::Key("a key can't be derived".to_owned());
    let mut key = Zeroizing::new([0; 32]);
    let hkdf = Hkdf::<Sha256>::from_prk(&**person).map_err(|_| fault())?;
    hkdf.expand(address, &mut *key).map_err(|_| fault())?;
    Ok(key)
}

fn half(mac: Hmac<Sha256>) -> [u8; 16] {
    let whole: [u8; 32] = mac.finalize().into_bytes().into();
    let mut half = [0; 16];
    half.copy_from_slice(&whole[..16]);
    half
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{FileKeys, Keyring};

    fn keys(folder: &std::path::Path, lake: &str) -> LakeKeys {
        let keyring = Keyring::open_or_create(&folder.join("keyring.json"), "p").unwrap();
        LakeKeys::open(
            Arc::new(FileKeys::next_to(keyring).unwrap()) as Arc<dyn KeyStore>,
            lake,
        )
        .unwrap()
    }

    #[test]
    fn an_envelope_opens_for_its_grain_with_its_key_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, address) = (keys(folder.path(), "lake"), ContentAddress::of(b"a"));
        assert!(mine.seal(Some("ann"), &address, b"clear").is_err());
        mine.prepare([Some("ann"), Some("bob")]).unwrap();
        let sealed = mine.seal(Some("ann"), &address, b"clear").unwrap();
        assert_eq!(sealed.len(), b"clear".len() + ENVELOPE);
        let clear = Unsealed::Clear(b"clear".to_vec());
        assert_eq!(mine.unseal(&address, &sealed).unwrap(), clear);
        assert_eq!(
            keys(folder.path(), "lake")
                .unseal(&address, &sealed)
                .unwrap(),
            clear
        );
        assert!(mine.unseal(&ContentAddress::of(b"b"), &sealed).is_err());
        assert!(
            keys(folder.path(), "other lake")
                .unseal(&address, &sealed)
                .is_err()
        );
        for at in [0, 5, 22, 30, 40] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(mine.unseal(&address, &changed).is_err(), "byte {at}");
        }
        assert_ne!(mine.seal(Some("ann"), &address, b"clear").unwrap(), sealed);
    }

    #[test]
    fn destroying_a_key_erases_the_envelopes_of_one_person_only() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, address) = (keys(folder.path(), "lake"), ContentAddress::of(b"a"));
        mine.prepare([Some("ann"), Some("bob"), None]).unwrap();
        let sealed = |user| mine.seal(user, &address, b"clear").unwrap();
        let [ann, bob, nobody] = [Some("ann"), Some("bob"), None].map(sealed);
        mine.end(&[(mine.id_of(Some("ann")), 1)], KeyDisposition::Destroyed)
            .unwrap();
        for keys in [&mine, &keys(folder.path(), "lake")] {
            assert_eq!(keys.unseal(&address, &ann).unwrap(), Unsealed::Erased);
            assert!(keys.is_erased(None, &ann) && !keys.is_erased(None, &bob));
            assert!(
                [&bob, &nobody]
                    .iter()
                    .all(|other| keys.unseal(&address, other).unwrap() != Unsealed::Erased)
            );
        }
        mine.prepare([Some("ann")]).unwrap();
        assert_eq!(mine.unseal(&address, &ann).unwrap(), Unsealed::Erased);
    }

    #[test]
    fn tokens_are_equal_for_equal_texts_of_a_field_and_a_lake() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, other) = (
            keys(folder.path(), "lake"),
            keys(folder.path(), "other lake"),
        );
        assert_eq!(
            mine.token("user_id", "ann"),
            keys(folder.path(), "lake").token("user_id", "ann")
        );
        assert_ne!(mine.token("user_id", "ann"), mine.token("subject", "ann"));
        assert_ne!(mine.token("user_id", "ann"), other.token("user_id", "ann"));
        assert_ne!(mine.id_of(Some("")), mine.id_of(None));
    }
}

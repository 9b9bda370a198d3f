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
//! The salt is what makes a key destructible: what can be derived again from the master alone is
//! never gone. A grain has a key of its own, so that no number of grains wears a key out. Tokens
//! represent equal texts in the same field of the same lake.

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
use super::keyring::{seal_bound, unseal_bound};
use super::store::{KeyDisposition, KeyId, KeyStore, PersonKey};
use super::tombstones::TombstoneSet;
use crate::error::{EngineError, Result};

/// The keys of one lake, open. Clones share what they hold.
#[derive(Clone)]
pub struct LakeKeys {
    store: Arc<dyn KeyStore>,
    index: Hmac<Sha256>,
    people: Secret,
    check: String,
    held: Arc<RwLock<Held>>,
    /// Grains that stay erased whatever keys there are.
    hidden: TombstoneSet,
}

/// Keys by person and generation.
type Held = HashMap<KeyId, BTreeMap<u32, std::result::Result<Secret, KeyDisposition>>>;

impl fmt::Debug for LakeKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LakeKeys({})", self.store.name())
    }
}

/// What became of an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsealed {
    /// It was opened.
    Clear(Vec<u8>),
    /// Its key was destroyed: what is in it is erased.
    Erased,
}

/// Bytes before the nonce: magic, key id, generation.
const HEAD: usize = 24;

/// Number of bytes an envelope is longer than what is in it, so that a lake's description can tell.
pub const ENVELOPE: usize = HEAD + 12 + 16;

/// Stands where an address would, for cells that belong to no grain.
const NO_ADDRESS: [u8; 32] = [0; 32];

impl LakeKeys {
    /// Returns the keys that `store` keeps of the lake named `lake`.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub fn open(store: impl Into<Arc<dyn KeyStore>>, lake: &str) -> Result<LakeKeys> {
        let store = store.into();
        let secret = |purpose: &str| store.derive(&format!("gristmill/lake/{purpose}/1\n{lake}"));
        let index = Hmac::<Sha256>::new_from_slice(&*secret("index")?);
        let index = index.map_err(|_| EngineError::Key("a key has the wrong length".to_owned()))?;
        let check = hex::encode(index.clone().chain_update(b"check").finalize().into_bytes());
        let (people, held, hidden) = (secret("people")?, Arc::default(), TombstoneSet::default());
        let keys = LakeKeys {
            index,
            people,
            check,
            held,
            hidden,
            store,
        };
        keys.hold(keys.store.load()?)?;
        Ok(keys)
    }

    /// Returns whether the store has no key of anyone, of whatever lake.
    pub(crate) fn is_empty(&self) -> bool {
        self.held
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    /// Returns the same keys, for which the grains in `hidden` are erased even where their keys are
    /// back, from an old copy of the keyring.
    pub(crate) fn hiding(&self, hidden: TombstoneSet) -> LakeKeys {
        LakeKeys {
            hidden,
            ..self.clone()
        }
    }

    /// Returns whether the grain called `address` stays erased whatever keys there are. Costs one
    /// short hash, and nothing if nothing was erased.
    pub fn hides(&self, address: &ContentAddress) -> bool {
        !self.hidden.is_empty() && self.hidden.contains(address)
    }

    /// Returns the store that the keys came from.
    pub(crate) fn store(&self) -> Arc<dyn KeyStore> {
        Arc::clone(&self.store)
    }

    /// Returns what tells this lake's keys from all others, and nothing else.
    pub fn check(&self) -> &str {
        &self.check
    }

    /// Returns the name of the keys of `user`; of grains without one if it is `None`.
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

    /// Makes keys for those of `users` who have none to seal with.
    ///
    /// # Errors
    /// [`EngineError::Key`], [`EngineError::File`] if they can't be made durable.
    pub fn prepare<'u>(&self, users: impl IntoIterator<Item = Option<&'u str>>) -> Result<()> {
        let ids: HashSet<KeyId> = users.into_iter().map(|user| self.id_of(user)).collect();
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<KeyId> = ids
            .into_iter()
            .filter(|id| newest(&held, id).is_none())
            .collect();
        drop(held);
        if missing.is_empty() {
            Ok(())
        } else {
            self.hold(self.store.make(&missing, false)?)
        }
    }

    /// Makes new keys for `ids`, with which is sealed from now on.
    ///
    /// # Errors
    /// As [`LakeKeys::prepare`].
    pub fn renew(&self, ids: &[KeyId]) -> Result<()> {
        self.hold(self.store.make(ids, true)?)
    }

    /// Removes the secrets of `keys` permanently.
    ///
    /// # Errors
    /// As [`LakeKeys::prepare`].
    pub fn end(&self, keys: &[(KeyId, u32)], ending: KeyDisposition) -> Result<()> {
        self.store.end(keys, ending)?;
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        for (id, generation) in keys {
            held.entry(*id)
                .or_default()
                .insert(*generation, Err(ending));
        }
        Ok(())
    }

    /// Returns all keys that can be used, by person and generation, ascending.
    pub fn alive(&self) -> Vec<(KeyId, u32)> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let keys = held.iter().flat_map(|(id, keys)| {
            keys.iter()
                .map(move |(generation, key)| (*id, *generation, key))
        });
        let mut alive: Vec<_> = keys
            .filter(|key| key.2.is_ok())
            .map(|key| (key.0, key.1))
            .collect();
        alive.sort_unstable();
        alive
    }

    /// Seals `clear`, the bytes of the grain called `address` of `user`, who must have been
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
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let (generation, key) = newest(&held, &id)
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

    /// Opens the envelope of the grain called `address`.
    ///
    /// # Errors
    /// [`EngineError::Key`] if there is no key for it, its key was replaced, or it was changed.
    pub fn unseal(&self, address: &ContentAddress, envelope: &[u8]) -> Result<Unsealed> {
        if self.hides(address) {
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
        // Another process may have made the key since.
        self.hold(self.store.load()?)?;
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
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        Some(match held.get(&id)?.get(&generation)? {
            Err(KeyDisposition::Destroyed) => Ok(Unsealed::Erased),
            Err(KeyDisposition::Retired) => Err(EngineError::Key(format!(
                "the key {id} of generation {generation} was replaced; this version of the lake \
                 can't be read any more"
            ))),
            Ok(key) => grain_key(key, address).and_then(|key| {
                let (head, sealed) = envelope.split_at_checked(HEAD).unwrap_or_default();
                let clear = unseal_bound(&key, &[head, &address[..]].concat(), sealed);
                clear.map(Unsealed::Clear).ok_or_else(|| {
                    EngineError::Key(format!(
                        "the envelope of {} was changed or damaged",
                        hex::encode(address)
                    ))
                })
            }),
        })
    }

    /// Returns whether the grain called `address` was erased from the lake, or the key of its
    /// `envelope` was destroyed.
    pub fn is_erased(&self, address: Option<&ContentAddress>, envelope: &[u8]) -> bool {
        if address.is_some_and(|address| self.hides(address)) {
            return true;
        }
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let key = key_of(envelope).and_then(|(id, generation)| held.get(&id)?.get(&generation));
        matches!(key, Some(Err(KeyDisposition::Destroyed)))
    }

    /// Returns whether `envelope` is sealed with an older key than one that its person has now.
    pub fn is_outdated(&self, envelope: &[u8]) -> bool {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        key_of(envelope).is_some_and(|(id, generation)| {
            newest(&held, &id).is_some_and(|(newest, _)| newest > generation)
        })
    }

    /// Seals the cell of a small table, which belongs to no person.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub fn seal_cell(&self, clear: &[u8]) -> Result<Vec<u8>> {
        self.prepare([None])?;
        self.seal_with(self.id_of(None), &NO_ADDRESS, clear)
    }

    /// Opens the cell of a small table; one whose key was destroyed is empty.
    ///
    /// # Errors
    /// As [`LakeKeys::unseal`].
    pub fn unseal_cell(&self, envelope: &[u8]) -> Result<Vec<u8>> {
        match self.unseal_with(&NO_ADDRESS, envelope)? {
            Unsealed::Clear(clear) => Ok(clear),
            Unsealed::Erased => Ok(Vec::new()),
        }
    }

    fn hold(&self, keys: Vec<PersonKey>) -> Result<()> {
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
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        for (id, generation, key) in fresh {
            held.entry(id).or_default().insert(generation, key);
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

/// Returns the name and generation of the key that `envelope` says it is sealed with.
pub fn key_of(envelope: &[u8]) -> Option<(KeyId, u32)> {
    let rest = envelope.strip_prefix(&SEALED_MAGIC)?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (generation, _) = rest.split_first_chunk::<4>()?;
    Some((KeyId(*id), u32::from_be_bytes(*generation)))
}

fn newest<'h>(held: &'h Held, id: &KeyId) -> Option<(u32, &'h Secret)> {
    let (generation, key) = held.get(id)?.last_key_value()?;
    Some((*generation, key.as_ref().ok()?))
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
    fn destroying_a_key_takes_one_person_s_envelopes_and_no_other_s() {
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

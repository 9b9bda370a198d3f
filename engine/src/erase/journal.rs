//! The journal of an erasure in progress. The next run of the same request resumes from it, and its
//! certificate covers both runs. The journal is sealed, because it contains addresses that are
//! about to be erased.

use std::collections::BTreeMap;

use gristmill_schemas::address::ContentAddress;
use hmac::{Hmac, KeyInit, Mac};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::crypto_shred::ShredPlan;
use crate::error::{Context, EngineError, Result};
use crate::file_digest::FileDigest;
use crate::keys::{Secret, seal, unseal};
use crate::lake::{ERASURES, Lake};

/// A grain or reject to be erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalEntry {
    /// The type byte; `None` for a reject.
    pub(super) type_byte: Option<u8>,
    /// Size of its blob in bytes.
    pub(super) size: u32,
    /// Whether it is erased by destroying its key.
    #[serde(default)]
    pub(super) by_key: bool,
}

/// An erasure in progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Journal {
    /// Identifier of the erasure and of its certificate.
    pub(super) id: String,
    /// When it began, in microseconds since 1970.
    pub(super) started: i64,
    /// Versions of the tables before the erasure.
    pub(super) before: BTreeMap<String, u64>,
    /// Rows of the tables before the erasure.
    pub(super) rows_before: BTreeMap<String, u64>,
    /// What is to be erased, by address in hex.
    pub(super) items: BTreeMap<String, JournalEntry>,
    /// Number of lifecycle events that were removed or blanked.
    pub(super) events: u64,
    /// Bytes of rewritten segments.
    pub(super) bytes_rewritten: u64,
    /// Bytes of these that were copied unchanged.
    #[serde(default)]
    pub(super) bytes_copied: u64,
    /// People of the request of whom something was found.
    pub(super) people: Vec<u32>,
    /// Spellings of identifiers that the byte search looks for.
    pub(super) spellings: Vec<String>,
    /// Keys to destroy: ids in hex, and generations.
    #[serde(default)]
    pub(super) keys: Vec<(String, u32)>,
}

impl Journal {
    /// Adds the keys of `shred_plan`.
    pub(super) fn note_keys(&mut self, shred_plan: &ShredPlan) {
        let keys = shred_plan
            .keys
            .iter()
            .map(|(id, generation)| (id.to_string(), *generation));
        self.keys.extend(keys);
        self.keys.sort_unstable();
        self.keys.dedup();
    }

    /// Returns the method of the erasure, as stated in the certificate.
    pub(super) fn method(&self) -> String {
        let has = |by_key: bool| self.items.values().any(|item| item.by_key == by_key);
        match (has(false), self.keys.is_empty()) {
            (true, false) => "rewritten,key_destroyed".to_owned(),
            (false, false) => "key_destroyed".to_owned(),
            _ => "rewritten".to_owned(),
        }
    }

    /// Returns the addresses of all items.
    pub(super) fn addresses(&self) -> Vec<ContentAddress> {
        self.items
            .keys()
            .filter_map(|text| text.parse().ok())
            .collect()
    }

    /// Returns the addresses of the items whose rows are removed by rewriting.
    pub(super) fn rewritten(&self) -> Vec<ContentAddress> {
        let items = self.items.iter().filter(|(_, item)| !item.by_key);
        items.filter_map(|(text, _)| text.parse().ok()).collect()
    }

    /// Loads the journal of the request with the keyed hash `digest`, if there is one.
    pub(super) async fn load(lake: &Lake, digest: &str, key: &Secret) -> Result<Option<Journal>> {
        let path = path(digest);
        let sealed = match lake.location().store().get(&path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found
                .file("can't read", &path)?
                .bytes()
                .await
                .file("can't read", &path)?,
        };
        let damaged =
            || EngineError::Key(format!("`{path}` can't be opened with the keyring's key"));
        // Earlier versions wrote no checksum.
        let sealed = checked(&sealed).unwrap_or(&sealed);
        let clear = unseal(key, sealed).ok_or_else(damaged)?;
        serde_json::from_slice(&clear)
            .map(Some)
            .file("can't read", &path)
    }

    /// Writes the journal, replacing the previous one atomically.
    pub(super) async fn store(&self, lake: &Lake, digest: &str, key: &Secret) -> Result<()> {
        let path = path(digest);
        let mut sealed = seal(key, &serde_json::to_vec(self).file("can't write", &path)?)?;
        let digest = FileDigest::of(&sealed);
        sealed.extend(digest.as_bytes());
        lake.location()
            .store()
            .put(&path, PutPayload::from(sealed))
            .await
            .file("can't write", &path)?;
        Ok(())
    }

    /// Returns whether `bytes` are an undamaged journal. The content isn't checked, which would
    /// need the operator's key.
    pub(crate) fn is_sound(bytes: &[u8]) -> bool {
        checked(bytes).is_some()
    }

    /// Removes the journal.
    pub(super) async fn remove(lake: &Lake, digest: &str) -> Result<()> {
        lake.location().delete(&path(digest)).await
    }
}

/// Returns the sealed part of a journal's bytes, if its checksum matches.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (sealed, digest) = bytes.split_last_chunk::<32>()?;
    (FileDigest::of(sealed).as_bytes() == digest).then_some(sealed)
}

fn path(digest: &str) -> Path {
    Path::from(format!(
        "{ERASURES}/{}.journal",
        digest.get(..32).unwrap_or(digest)
    ))
}

/// Returns the HMAC-SHA256 of `message` in hex.
pub(super) fn keyed_hash(key: &Secret, message: &[u8]) -> String {
    hex::encode(keyed_digest(key, message))
}

/// Returns the HMAC-SHA256 of `message`.
pub(super) fn keyed_digest(key: &Secret, message: &[u8]) -> [u8; 32] {
    // HMAC accepts keys of any length.
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(&**key) else {
        return [0; 32];
    };
    mac.chain_update(message).finalize().into_bytes().into()
}

//! The journal of an erasure in progress. The next run of the same request resumes from it, and its
//! certificate covers both runs. The journal is sealed, because it contains addresses that are
//! about to be erased.
//!
//! In a folder, one process at a time erases (`Lake::location().lock_erasures()`). In an object
//! store, the next run can't find out whether the one before was killed or still runs, so it takes
//! over the journal under an id of its own, and with it the right to replace it: each run replaces
//! only what it read or wrote itself. A run whose journal was taken over ends with a conflict
//! before its next step; no two runs write the same certificate.

use std::collections::BTreeMap;

use gristmill_schemas::address::ContentAddress;
use hmac::{Hmac, KeyInit, Mac};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutPayload};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::crypto_shred::ShredPlan;
use super::request::SubjectRequest;
use crate::error::{Context, EngineError, Result};
use crate::file_digest::FileDigest;
use crate::keys::{Secret, seal, unseal};
use crate::lake::{ERASURES, Lake, read_with_version, replace_version};

/// The ending of the names of journals.
pub(super) const JOURNAL: &str = ".journal";

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
    /// The person that a grain was found by; `None` for rejects and in earlier journals.
    #[serde(default)]
    pub(super) person: Option<u32>,
}

/// An erasure in progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Journal {
    /// Identifier of the erasure and of its certificate.
    pub(super) id: String,
    /// Identifiers of earlier runs whose journal this run took over. Rows of `erased` have them.
    #[serde(default)]
    pub(super) resumed: Vec<String>,
    /// When it began, in microseconds since 1970.
    pub(super) started: i64,
    /// Versions of the tables before the erasure.
    pub(super) before: BTreeMap<String, u64>,
    /// Rows of the tables before the erasure.
    pub(super) rows_before: BTreeMap<String, u64>,
    /// What is to be erased and refused from then on, by address in hex. Rejects whose bytes relate
    /// to nobody are only in `rejects`: the same bytes of other sources stay.
    pub(super) items: BTreeMap<String, JournalEntry>,
    /// Numbers of rejects to be erased, by the SHA-256 of their bytes in hex: several may have the
    /// same bytes, or none, or those of a grain.
    #[serde(default)]
    pub(super) rejects: BTreeMap<String, u64>,
    /// Number of lifecycle events that were removed or blanked, and of rows of `sources` that were
    /// blanked, without those of `planned_events`.
    pub(super) events: u64,
    /// The same by table, of commits that were begun. After a kill it isn't known whether they
    /// were made.
    #[serde(default)]
    pub(super) planned_events: BTreeMap<String, u64>,
    /// Bytes of rewritten segments.
    pub(super) bytes_rewritten: u64,
    /// Bytes of these that were copied unchanged.
    #[serde(default)]
    pub(super) bytes_copied: u64,
    /// People of the request of whom something is erased.
    pub(super) people: Vec<u32>,
    /// Those of them of whom rejects are erased.
    #[serde(default)]
    pub(super) people_of_rejects: Vec<u32>,
    /// Spellings of identifiers that the byte search looks for.
    pub(super) spellings: Vec<String>,
    /// Keys to destroy: ids in hex, and generations.
    #[serde(default)]
    pub(super) keys: Vec<(String, u32)>,
}

/// Returns a new identifier of an erasure.
pub(super) fn new_id() -> String {
    ulid::Ulid::generate().to_string().to_ascii_lowercase()
}

impl Journal {
    /// Gives the journal of an earlier run, which may still run, a new identifier.
    pub(super) fn take_over(&mut self) {
        self.resumed.push(std::mem::replace(&mut self.id, new_id()));
    }

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

    /// Adds `count` events that the next commit to `table` removes or blanks. A run that resumes
    /// finds those again whose commit wasn't made.
    fn plan_events(&mut self, table: &str, count: u64) {
        let planned = self.planned_events.entry(table.to_owned()).or_default();
        *planned = count.max(*planned);
    }

    /// Counts planned events as erased, once their commits were made. Returns whether there were
    /// any.
    pub(super) fn settle_events(&mut self) -> bool {
        let planned: u64 = std::mem::take(&mut self.planned_events).values().sum();
        self.events += planned;
        planned > 0
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

    /// Returns the addresses of the grains among the items.
    pub(super) fn grains(&self) -> Vec<ContentAddress> {
        let grains = self
            .items
            .iter()
            .filter(|(_, item)| item.type_byte.is_some());
        grains.filter_map(|(text, _)| text.parse().ok()).collect()
    }

    /// Returns the addresses of the items whose rows are removed by rewriting.
    pub(super) fn rewritten(&self) -> Vec<ContentAddress> {
        let items = self.items.iter().filter(|(_, item)| !item.by_key);
        items.filter_map(|(text, _)| text.parse().ok()).collect()
    }

    /// Returns `request` with the addresses of what is removed by rewriting, if keys are destroyed:
    /// without these, what was selected by its session, or as derived, can't be found any more.
    pub(super) fn widened(&self, request: &SubjectRequest) -> Option<SubjectRequest> {
        let widen = || SubjectRequest {
            addresses: [request.addresses.clone(), self.rewritten()].concat(),
            ..request.clone()
        };
        (!self.keys.is_empty()).then(widen)
    }

    /// Loads the journal of the request with the keyed hash `digest`, if there is one.
    pub(super) async fn load(lake: &Lake, digest: &str, key: &Secret) -> Result<Option<Journal>> {
        let (_, journal) = JournalFile::open(lake, digest, key).await?;
        Ok(journal)
    }

    fn from_sealed(sealed: &[u8], key: &Secret, path: &Path) -> Result<Journal> {
        let damaged =
            || EngineError::Key(format!("`{path}` can't be opened with the keyring's key"));
        // Earlier versions wrote no checksum.
        let sealed = checked(sealed).unwrap_or(sealed);
        let clear = unseal(key, sealed).ok_or_else(damaged)?;
        serde_json::from_slice(&clear).file("can't read", path)
    }

    fn to_sealed(&self, key: &Secret, path: &Path) -> Result<Vec<u8>> {
        let mut sealed = seal(key, &serde_json::to_vec(self).file("can't write", path)?)?;
        let digest = FileDigest::of(&sealed);
        sealed.extend(digest.as_bytes());
        Ok(sealed)
    }

    /// Returns whether `bytes` are an undamaged journal. The content isn't checked, which would
    /// need the operator's key.
    pub(crate) fn is_sound(bytes: &[u8]) -> bool {
        checked(bytes).is_some()
    }
}

/// The file of a journal, as this process last read or wrote it.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: Path,
    /// How it is replaced if no other process has changed it.
    mode: PutMode,
}

impl JournalFile {
    /// Opens the file of the request with the keyed hash `digest`. Returns the journal in it, too,
    /// if there is one.
    pub(super) async fn open(
        lake: &Lake,
        digest: &str,
        key: &Secret,
    ) -> Result<(JournalFile, Option<Journal>)> {
        let path = path(digest);
        let (sealed, mode) = read_with_version(lake.location(), &path).await?;
        let journal = sealed.map(|sealed| Journal::from_sealed(&sealed, key, &path));
        let journal = journal.transpose()?;
        Ok((JournalFile { path, mode }, journal))
    }

    /// Returns the path of the file, from the lake's root.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `journal`, replacing the previous one atomically.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if another process has taken it over; errors of the store.
    pub(super) async fn store(
        &mut self,
        lake: &Lake,
        journal: &Journal,
        key: &Secret,
    ) -> Result<()> {
        let sealed = journal.to_sealed(key, &self.path)?;
        if !lake.location().is_remote() {
            let store = lake.location().store();
            let put = store.put(&self.path, PutPayload::from(sealed)).await;
            return put.map(drop).file("can't write", &self.path);
        }
        if self.replace(lake, &sealed).await? {
            return Ok(());
        }
        let (found, mode) = read_with_version(lake.location(), &self.path).await?;
        self.mode = mode;
        let is_stored = match found {
            // The response to this process's own request was lost.
            Some(bytes) => *bytes == *sealed,
            // The run before has finished, and removed what it had been.
            None => self.replace(lake, &sealed).await?,
        };
        match is_stored {
            true => Ok(()),
            false => Err(EngineError::Conflict(
                "another process runs the same erasure and has taken it over from this one"
                    .to_owned(),
            )),
        }
    }

    /// Replaces the file, unless another process has changed it.
    async fn replace(&mut self, lake: &Lake, sealed: &[u8]) -> Result<bool> {
        let (location, mode) = (lake.location(), self.mode.clone());
        let replaced = replace_version(location, &self.path, sealed.to_vec(), mode).await?;
        match replaced {
            None => Ok(false),
            Some(mode) => {
                self.mode = mode;
                Ok(true)
            }
        }
    }

    /// Removes the file if it contains the journal `id`. Object stores can't delete on a condition:
    /// a process that takes over between the check and the removal writes it again with its next
    /// step.
    pub(super) async fn remove(&self, lake: &Lake, id: &str, key: &Secret) -> Result<()> {
        let (found, _) = read_with_version(lake.location(), &self.path).await?;
        let own = |sealed: &[u8]| {
            let journal = Journal::from_sealed(sealed, key, &self.path);
            journal.is_ok_and(|journal| journal.id == id)
        };
        match found.is_some_and(|sealed| own(sealed.as_ref())) {
            true => lake.location().delete(&self.path).await,
            false => Ok(()),
        }
    }
}

/// A journal in which a commit of events is noted before it is made, so that the certificate
/// counts them also if the process is killed right after it.
pub(super) struct EventNotes<'r> {
    pub(super) journal: &'r mut Journal,
    pub(super) file: &'r mut JournalFile,
    pub(super) key: &'r Secret,
}

impl EventNotes<'_> {
    /// Notes that the next commit to `table` removes or blanks `count` events.
    ///
    /// # Errors
    /// As [`JournalFile::store`].
    pub(super) async fn note(&mut self, lake: &Lake, table: &str, count: u64) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        self.journal.plan_events(table, count);
        self.file.store(lake, self.journal, self.key).await
    }
}

/// Returns the sealed part of a journal's bytes, if its checksum matches.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (sealed, digest) = bytes.split_last_chunk::<32>()?;
    (FileDigest::of(sealed).as_bytes() == digest).then_some(sealed)
}

fn path(digest: &str) -> Path {
    Path::from(format!(
        "{ERASURES}/{}{JOURNAL}",
        digest.get(..32).unwrap_or(digest)
    ))
}

/// Returns the HMAC-SHA256 of `message` in hex.
pub fn keyed_hash(key: &Secret, message: &[u8]) -> String {
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

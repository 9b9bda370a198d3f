//! Verifying erasures and the audit log: its chain, the versions of tables that it recorded,
//! certificates with their files, and the tombstones in `erased`.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use gristmill_schemas::columns::AuditRow;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::lost_rows;
use super::report::Problem;
use super::tables::{TablesCheck, problem};
use crate::erase::{
    Journal, SELF_REPORTED, tombstones_from_bytes, tombstones_path, verify as verify_certificate,
};
use crate::error::Result;
use crate::file_digest::FileDigest;
use crate::keys::Tombstone;
use crate::lake::{
    ADOPTED, AUDIT, AuditVerdict, ENCRYPTION, ERASED, ERASURES, FIRST_WITH_HEADS, Lake, RESUMED,
};

/// The remedy for a damaged certificate.
const FROM_BACKUP: &str =
    "restore the file from a backup of the lake, or from the copy that `erase --certificate` wrote";

/// The remedy for lost tombstones.
const REPAIR: &str = "gristmill repair";

/// The remedy for tombstones that no erasure wrote.
const RESTORE_TOMBSTONES: &str =
    "restore the table `erased` from a backup of the lake, and don't run `compact` before";

/// The files of an erasure, and the keys of their digests in the details of the audit entry.
const FILES: [(&str, &str); 3] = [
    ("cose", "certificate_blake3"),
    ("leaves", "leaves_blake3"),
    ("tombstones", "tombstones_blake3"),
];

/// Checks the audit log's chain, the files in `erasures/`, `encryption.json`, and the tombstones of
/// `lake`. Returns the number of checked certificates.
///
/// # Errors
/// Errors of reading a file that aren't damage.
pub(super) async fn check(lake: &Lake, check: &mut TablesCheck<'_>) -> Result<u64> {
    if let Err(error) = lake.check_encryption().await {
        match error.is_environment() {
            true => return Err(error),
            false => check.found(problem("", ENCRYPTION, &error.to_string(), FROM_BACKUP)),
        }
    }
    let entries = check_audit_log(lake, check).await?;
    let erasures: Vec<RecordedErasure> = entries.iter().filter_map(RecordedErasure::of).collect();
    let tombstones = match lake.tombstones_by_erasure().await {
        Ok(tombstones) => Some(StoredTombstones(tombstones)),
        Err(error) if error.is_environment() => return Err(error),
        Err(error) => {
            check.found(problem(ERASED, ERASED, &error.to_string(), REPAIR));
            None
        }
    };
    for erasure in &erasures {
        erasure.check(lake, tombstones.as_ref(), check).await?;
    }
    let excused = adopted_erasures(&entries);
    let excused: HashSet<String> = excused.chain(resumed_erasures(&entries)).collect();
    journals(lake, &excused, check).await?;
    Ok(erasures.len() as u64)
}

/// Checks the audit log. Returns its entries, or none if they can't be read.
async fn check_audit_log(lake: &Lake, check: &mut TablesCheck<'_>) -> Result<Vec<AuditRow>> {
    let entries = match lake.audit_entries().await {
        Ok(entries) => entries,
        Err(error) if error.is_environment() => return Err(error),
        // The unreadable data file was found by its digest.
        Err(error) => {
            check.found(problem(AUDIT, AUDIT, &error.to_string(), FROM_BACKUP));
            Vec::new()
        }
    };
    if let Some(first) = AuditVerdict::of(&entries).first_problem {
        check.found(problem(AUDIT, AUDIT, &first, FROM_BACKUP));
    }
    for cause in lake.unrecorded(&entries).await? {
        check.found(problem(AUDIT, ERASURES, &cause, FROM_BACKUP));
    }
    lost_rows::check(lake, &entries, check).await?;
    let (format, least) = (lake.grains.format_version(), check.stated.least_format());
    if format < least {
        check.found(lost_rows::format_set_back(least, format));
    }
    // Logs of earlier formats are rewritten by the upgrade.
    if format >= FIRST_WITH_HEADS {
        check_stated_versions(lake, &entries, check).await?;
    }
    Ok(entries)
}

/// Compares the tables with what `entries` of the audit log and commits to other tables state of
/// them, unless something is wrong already: a table that its own log or head shows to be damaged
/// differs from both.
async fn check_stated_versions(
    lake: &Lake,
    entries: &[AuditRow],
    check: &mut TablesCheck<'_>,
) -> Result<()> {
    if check.findings.bad_count() == 0 {
        for (table, cause) in lake.rolled_back_tables(entries).await? {
            lost_rows::report(check, table, &cause, None);
        }
    }
    if check.findings.bad_count() == 0 {
        let stated = std::mem::take(&mut check.stated);
        for (table, cause) in stated.differences(lake.location(), entries).await? {
            lost_rows::report(check, table, &cause, None);
        }
    }
    Ok(())
}

/// Returns the digests of the copies of tombstones that the audit log has, by their erasures.
pub(crate) fn tombstone_digests(entries: &[AuditRow]) -> HashMap<String, Vec<FileDigest>> {
    let mut digests: HashMap<String, Vec<FileDigest>> = HashMap::new();
    for erasure in entries.iter().filter_map(RecordedErasure::of) {
        let digest = erasure.digests.get("tombstones").copied();
        digests.entry(erasure.id).or_default().extend(digest);
    }
    digests
}

/// The tombstones in the table, by their erasures.
struct StoredTombstones(HashMap<String, HashSet<Tombstone>>);

impl StoredTombstones {
    /// Returns the tombstones of the erasure `id`.
    fn of(&self, id: &str) -> Option<&HashSet<Tombstone>> {
        self.0.get(id)
    }

    /// Returns true if the table has `tombstone`, which is probably of the erasure `id`. Another
    /// one has it if the grain was erased before.
    fn contains(&self, id: &str, tombstone: &Tombstone) -> bool {
        let is_in = |set: &HashSet<Tombstone>| set.contains(tombstone);
        self.of(id).is_some_and(is_in) || self.0.values().any(is_in)
    }
}

/// An erasure with an entry in the audit log.
struct RecordedErasure {
    id: String,
    /// The digests of its files, by their endings.
    digests: BTreeMap<&'static str, FileDigest>,
}

impl RecordedErasure {
    fn of(entry: &AuditRow) -> Option<RecordedErasure> {
        if entry.action != "erase" {
            return None;
        }
        let details: serde_json::Value = serde_json::from_str(&entry.details).ok()?;
        let digest = |key: &str| details.get(key)?.as_str()?.parse().ok();
        let digests = FILES
            .iter()
            .filter_map(|(ending, key)| Some((*ending, digest(key)?)))
            .collect();
        Some(RecordedErasure {
            id: details.get("id")?.as_str()?.to_owned(),
            digests,
        })
    }

    async fn check(
        &self,
        lake: &Lake,
        tombstones: Option<&StoredTombstones>,
        check: &mut TablesCheck<'_>,
    ) -> Result<()> {
        let files = self.sound_files(lake, check).await?;
        if let Some(certificate) = files.get("cose") {
            let leaves = files.get("leaves").map(|leaves| &**leaves);
            self.check_certificate(lake, certificate, leaves, check);
        }
        if let Some((bytes, tombstones)) = files.get("tombstones").zip(tombstones) {
            self.check_tombstones(bytes, tombstones, check);
        }
        Ok(())
    }

    /// Verifies `certificate`, with the digests of what was erased if their file is sound.
    fn check_certificate(
        &self,
        lake: &Lake,
        certificate: &[u8],
        leaves: Option<&[u8]>,
        check: &mut TablesCheck<'_>,
    ) {
        let verified = verify_certificate(certificate, None, leaves, &[]);
        // Remains that an erasure itself reports are no damage.
        let wrong = |problem: &&String| !problem.starts_with(SELF_REPORTED);
        if let Some(cause) = verified.problems.iter().find(wrong) {
            check.found(self.problem(if leaves.is_some() { "leaves" } else { "cose" }, cause));
        }
        let found = verified.certificate;
        if found.is_some_and(|found| found.id != self.id || !found.is_of(lake)) {
            let cause = "it is the certificate of another erasure, or of another lake";
            check.found(self.problem("cose", cause));
        }
    }

    /// Returns the files of the erasure, by their endings, that have the digests in the audit log.
    async fn sound_files(
        &self,
        lake: &Lake,
        check: &mut TablesCheck<'_>,
    ) -> Result<BTreeMap<&'static str, Bytes>> {
        let mut sound = BTreeMap::new();
        for (ending, _) in FILES {
            let expected = self.digests.get(ending);
            match lake.location().read_small(&self.path(ending)).await? {
                // Earlier versions wrote no copy of the tombstones.
                None if ending == "tombstones" && expected.is_none() => {}
                None => {
                    let cause = "it is missing, and the audit log has the erasure";
                    check.found(self.problem(ending, cause));
                }
                Some(bytes) if expected.is_some_and(|digest| FileDigest::of(&bytes) != *digest) => {
                    let cause = "its bytes don't have the digest in the audit log";
                    check.found(self.problem(ending, cause));
                }
                Some(bytes) => _ = sound.insert(ending, bytes),
            }
        }
        Ok(sound)
    }

    /// Checks that all tombstones of the copy in `bytes` are in the table, and that the table has
    /// no others of the erasure.
    fn check_tombstones(
        &self,
        bytes: &[u8],
        tombstones: &StoredTombstones,
        check: &mut TablesCheck<'_>,
    ) {
        let copied = match tombstones_from_bytes(bytes, &self.path("tombstones")) {
            Ok(copied) => copied,
            Err(error) => return check.found(self.problem("tombstones", &error.to_string())),
        };
        let lost = copied
            .iter()
            .filter(|copied| !tombstones.contains(&self.id, copied))
            .count();
        if lost > 0 {
            let id = &self.id;
            let cause = format!(
                "{lost} tombstones of the erasure {id} are missing: its grains could come back"
            );
            check.found(Problem {
                rows: Some(lost as u64),
                ..problem(ERASED, ERASED, &cause, REPAIR)
            });
        }
        let copied: HashSet<Tombstone> = copied.into_iter().collect();
        let own = tombstones.of(&self.id);
        let added = own.map_or(0, |own| own.difference(&copied).count());
        if added > 0 {
            let id = &self.id;
            let cause = format!(
                "{added} tombstones of the erasure {id} aren't in the copy that it wrote: grains \
                 that weren't erased are refused, or hidden if they are encrypted"
            );
            check.found(Problem {
                rows: Some(added as u64),
                ..problem(ERASED, ERASED, &cause, RESTORE_TOMBSTONES)
            });
        }
    }

    fn path(&self, ending: &str) -> Path {
        match ending {
            "tombstones" => tombstones_path(&self.id),
            _ => Path::from(format!("{ERASURES}/{}.{ending}", self.id)),
        }
    }

    fn problem(&self, ending: &str, cause: &str) -> Problem {
        problem("", self.path(ending).as_ref(), cause, FROM_BACKUP)
    }
}

/// Returns the names of those of `files` with the `ending`, without it.
fn stems_of(files: &[ObjectMeta], ending: &str) -> HashSet<String> {
    files
        .iter()
        .filter_map(|file| file.location.filename()?.strip_suffix(ending))
        .map(str::to_owned)
        .collect()
}

/// Returns the names of erasures of other lakes, whose tombstones were adopted from them.
fn adopted_erasures(entries: &[AuditRow]) -> impl Iterator<Item = String> {
    details_of(entries, ADOPTED, "erasures")
}

/// Returns the names of runs of erasures whose journals later runs took over, which certified them.
fn resumed_erasures(entries: &[AuditRow]) -> impl Iterator<Item = String> {
    details_of(entries, "erase", RESUMED)
}

/// Returns the texts in the lists under `key` in the details of the entries of `action`.
fn details_of(entries: &[AuditRow], action: &str, key: &str) -> impl Iterator<Item = String> {
    let entries = entries.iter().filter(move |entry| entry.action == action);
    let texts = entries.filter_map(move |entry| {
        let mut details: serde_json::Value = serde_json::from_str(&entry.details).ok()?;
        serde_json::from_value::<Vec<String>>(details.get_mut(key)?.take()).ok()
    });
    texts.flatten()
}

/// Checks the journals of erasures that were killed, and that each such erasure still has one.
/// Erasures that are `excused` have none.
async fn journals(
    lake: &Lake,
    excused: &HashSet<String>,
    check: &mut TablesCheck<'_>,
) -> Result<()> {
    let files = lake.location().list(ERASURES).await?;
    let journals = check_journals(lake, &files, check).await?;
    let certified = stems_of(&files, ".cose");
    let Ok(begun) = lake.erasure_ids().await else {
        return Ok(());
    };
    let unfinished: Vec<_> = begun
        .difference(&certified)
        .filter(|id| !excused.contains(*id))
        .collect();
    if unfinished.len() > journals {
        for id in unfinished {
            let cause =
                format!("the erasure {id} has tombstones, but neither a certificate nor a journal");
            check.found(problem("", ERASURES, &cause, FROM_BACKUP));
        }
    }
    Ok(())
}

/// Checks the checksums of the journals among `files`. Returns how many there are.
async fn check_journals(
    lake: &Lake,
    files: &[ObjectMeta],
    check: &mut TablesCheck<'_>,
) -> Result<usize> {
    let mut journals = 0;
    for file in files {
        let path = &file.location;
        if !path.as_ref().ends_with(".journal") {
            continue;
        }
        journals += 1;
        let Some(bytes) = lake.location().read_small(path).await? else {
            continue;
        };
        if lake.grains.format_version() >= FIRST_WITH_HEADS && !Journal::is_sound(&bytes) {
            let cause =
                "its checksum isn't that of its content: the erasure can't be finished from it";
            check.found(problem("", path.as_ref(), cause, FROM_BACKUP));
        }
    }
    Ok(journals)
}

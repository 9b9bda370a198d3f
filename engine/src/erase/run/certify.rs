//! Writes the certificate of an erasure, the files next to it, and the audit entry.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use gristmill_connectors::storage::RemovedVersions;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};

use super::{Run, table_rows, table_versions};
use crate::erase::certificate::{
    Certificate, ErasureScope, FORMAT, KEY_REMINDER, Proofs, Pseudonyms, REMINDER, SearchExtent,
    TableVersions, VERSIONS_REMINDER, leaves, tree,
};
use crate::erase::journal::keyed_hash;
use crate::erase::request::Person;
use crate::erase::survey::{Survey, type_name};
use crate::erase::variations::Variation;
use crate::erase::{tombstones_path, tombstones_to_bytes};
use crate::error::{Context, Result};
use crate::file_digest::FileDigest;
use crate::lake::{ERASURES, Lake, Purged, RESUMED};
use crate::text::fold::Folding;

/// Maximal number of people whose pseudonyms a certificate lists one by one.
const MAX_LISTED_PSEUDONYMS: usize = 10_000;

/// Returns the sentence about earlier versions of objects that were removed.
fn removed_reminder(removed: RemovedVersions) -> String {
    format!(
        " Earlier versions of the lake's objects were removed from the object store: {} of them, \
         {} bytes.",
        removed.versions, removed.bytes
    )
}

impl Run<'_> {
    /// Signs the certificate and writes it, after its leaves and the copy of the tombstones.
    /// `versions` were removed from the object store. Returns the certificate and the signer's DID.
    pub(super) async fn certify(
        &self,
        survey: &Survey,
        removed: Purged,
        proofs: &Proofs,
        versions: Option<RemovedVersions>,
    ) -> Result<(Certificate, String)> {
        let now = Utc::now();
        let erased = self.journal.addresses();
        let leaves = leaves(&erased, &self.key);
        let scope = self.scope(removed)?;
        let mut certificate = self.certificate(survey, scope, proofs, &leaves, now)?;
        match versions {
            Some(removed) => certificate.reminder.push_str(&removed_reminder(removed)),
            None if self.lake.location().states_versions().await? => {
                certificate.reminder.push_str(VERSIONS_REMINDER);
            }
            None => {}
        }
        let key = self
            .options
            .keyring
            .signing_key(&self.options.signing_key)?;
        let signed = certificate.sign(&key, now.timestamp_micros())?;
        self.put(&leaves_path(&self.journal.id), leaves.concat())
            .await?;
        let tombstones = tombstones_to_bytes(self.lake.tombstones_of(&erased).await?);
        self.put(&tombstones_path(&self.journal.id), tombstones)
            .await?;
        // The last of the three: if it is there, the others are.
        self.put(&certificate_path(&self.journal.id), signed)
            .await?;
        let signer = gristmill_schemas::sign::did_from_key(&key.verifying_key());
        Ok((certificate, signer))
    }

    async fn put(&self, path: &Path, bytes: Vec<u8>) -> Result<()> {
        let store = self.lake.location().store();
        let put = store.put(path, PutPayload::from(bytes)).await;
        put.map(drop).file("can't write", path)
    }

    fn certificate(
        &self,
        survey: &Survey,
        scope: ErasureScope,
        proofs: &Proofs,
        leaves: &[[u8; 32]],
        now: DateTime<Utc>,
    ) -> Result<Certificate> {
        let journal = &self.journal;
        let key_name = |(id, generation): &(String, u32)| format!("{id}/{generation}");
        Ok(Certificate {
            format: FORMAT.to_owned(),
            id: journal.id.clone(),
            lake: Some(self.lake.audit.id()).filter(|id| !id.is_empty()),
            request: self.options.origin.clone(),
            selector: self.pseudonyms()?,
            began_at: date_time(journal.started),
            ended_at: date_time(now.timestamp_micros()),
            method: journal.method(),
            keys_destroyed: journal.keys.iter().map(key_name).collect(),
            search: Some(self.search_extent(survey)),
            scope,
            exceptions: exception_counts(survey, proofs),
            unsearchable: survey.unsearchable,
            snapshots: self.snapshots(),
            proofs: proofs.clone(),
            merkle: tree(leaves),
            reminder: match journal.keys.is_empty() {
                true => REMINDER.to_owned(),
                false => format!("{REMINDER}{KEY_REMINDER}"),
            },
        })
    }

    fn search_extent(&self, survey: &Survey) -> SearchExtent {
        let request = self.request;
        let off = Variation::ALL.iter();
        let off = off.filter(|class| !survey.variations.contains(**class));
        let extent = request.extent;
        let optional = [
            ("text_mentions", extent.text_mentions),
            ("derived", extent.derived),
            ("related", extent.related),
            ("initials", extent.initials),
        ];
        let only_counted = optional.into_iter().filter(|(_, selected)| !selected);
        SearchExtent {
            identifiers: request
                .people
                .iter()
                .map(|person| person.identifiers.len())
                .sum(),
            too_short_for_text: survey.non_distinctive.len(),
            exact: request.folding == Folding::Exact,
            variations_off: off.map(|class| class.name().to_owned()).collect(),
            only_counted: only_counted.map(|(name, _)| name.to_owned()).collect(),
        }
    }

    /// Returns the versions of the tables before and after.
    fn snapshots(&self) -> BTreeMap<String, TableVersions> {
        let after = table_versions(self.lake);
        let of_table = |(table, before): (&String, &u64)| {
            let after = after.get(table).copied().unwrap_or_default();
            let versions = TableVersions {
                before: *before,
                after,
            };
            (table.clone(), versions)
        };
        self.journal.before.iter().map(of_table).collect()
    }

    fn scope(&self, removed: Purged) -> Result<ErasureScope> {
        let mut scope = ErasureScope {
            events: self.journal.events,
            people: self.journal.people.len() as u64,
            rows_before: self.journal.rows_before.clone(),
            rows_after: table_rows(self.lake)?,
            bytes_rewritten: self.journal.bytes_rewritten,
            bytes_copied: self.journal.bytes_copied,
            files_removed: removed.files,
            ..ErasureScope::default()
        };
        self.count_items(&mut scope);
        Ok(scope)
    }

    /// Counts the grains and rejects of the journal in `scope`.
    fn count_items(&self, scope: &mut ErasureScope) {
        for entry in self.journal.items.values() {
            match entry.type_byte {
                Some(byte) => {
                    scope.grains += 1;
                    scope.bytes += u64::from(entry.size);
                    *scope.grains_by_type.entry(type_name(byte)).or_default() += 1;
                }
                None => scope.rejects += 1,
            }
        }
        // Journals of earlier versions have no numbers.
        let noted: u64 = self.journal.rejects.values().sum();
        scope.rejects = scope.rejects.max(noted);
    }

    fn pseudonyms(&self) -> Result<Pseudonyms> {
        let people = &self.request.people;
        let pseudonym = |person: &Person| -> Result<String> {
            let whole = serde_json::to_vec(&(&person.identifiers, &person.sessions))
                .file("can't write", "a pseudonym")?;
            Ok(keyed_hash(&self.key, &whole))
        };
        let listed = if people.len() <= MAX_LISTED_PSEUDONYMS {
            people.as_slice()
        } else {
            &[]
        };
        let pseudonyms = listed.iter().map(pseudonym);
        let mut pseudonyms = pseudonyms.collect::<Result<Vec<_>>>()?;
        // The people are in the order of their identifiers, of which nothing is revealed.
        pseudonyms.sort_unstable();
        Ok(Pseudonyms {
            people: people.len(),
            request: self.digest.clone(),
            pseudonyms,
        })
    }

    /// Records the erasure in the audit log and removes the journal.
    pub(super) async fn finish(&mut self, certificate: &Certificate) -> Result<()> {
        record(self.lake, certificate, &self.journal.resumed).await?;
        let (lake, id) = (&*self.lake, &self.journal.id);
        self.journal_file.remove(lake, id, &self.key).await
    }
}

/// Records the erasure of `certificate` in the audit log of `lake`, unless it has it. The erasure
/// took over the journals of the runs `resumed`.
pub(super) async fn record(
    lake: &mut Lake,
    certificate: &Certificate,
    resumed: &[String],
) -> Result<()> {
    let (id, scope) = (&certificate.id, &certificate.scope);
    let mut details = serde_json::json!({
        "id": id,
        "request": certificate.selector.request,
        "people": certificate.selector.people,
        "grains": scope.grains,
        "rejects": scope.rejects,
        "events": scope.events,
        "proven": certificate.proofs.hold(),
        "keys_destroyed": certificate.keys_destroyed.len(),
        "certificate_blake3": digest_of(lake, &certificate_path(id)).await?,
        "leaves_blake3": digest_of(lake, &leaves_path(id)).await?,
        "tombstones_blake3": digest_of(lake, &tombstones_path(id)).await?,
        "version": lake.grains.version(),
    });
    if !resumed.is_empty()
        && let Some(details) = details.as_object_mut()
    {
        details.insert(RESUMED.to_owned(), resumed.into());
    }
    lake.record_unless_present("erase", details).await
}

async fn digest_of(lake: &Lake, path: &Path) -> Result<FileDigest> {
    Ok(FileDigest::of(&lake.location().read(path).await?))
}

pub(super) fn certificate_path(id: &str) -> Path {
    Path::from(format!("{ERASURES}/{id}.cose"))
}

fn leaves_path(id: &str) -> Path {
    Path::from(format!("{ERASURES}/{id}.leaves"))
}

/// The name in the certificate for rows with texts of legal acts, which stay.
const LEGAL_ACT: &str = "legal_act";

/// Counts what was found and stays, by the name of the exemption.
fn exception_counts(survey: &Survey, proofs: &Proofs) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let grains = survey.grains.iter().map(|found| &found.exemption);
    let rejects = survey.rejects.iter().map(|found| &found.exemption);
    for exemption in grains.chain(rejects).flatten() {
        *counts.entry(exemption.name().to_owned()).or_default() += 1;
    }
    for texts in &proofs.byte_search.retained_texts {
        *counts.entry(LEGAL_ACT.to_owned()).or_default() += texts.rows;
    }
    counts
}

/// Formats microseconds since 1970 as an RFC 3339 date-time in whole seconds.
fn date_time(micros: i64) -> String {
    let instant = DateTime::from_timestamp_micros(micros).unwrap_or_default();
    instant.to_rfc3339_opts(SecondsFormat::Secs, true)
}

//! Erasures that have a certificate and still their journal: the process was killed before it
//! recorded the erasure in the audit log, or before it removed the journal. In an object store it
//! may still run.
//!
//! Such an erasure isn't certified again: the audit log has the digest of its certificate, or gets
//! it now.

use std::time::Instant;

use object_store::path::Path;

use super::certify::{certificate_path, record};
use super::{ErasurePlan, ErasureReport};
use crate::erase::certificate::{Certificate, CertificateCheck, SELF_REPORTED, verify};
use crate::erase::journal::Journal;
use crate::error::{EngineError, Result};
use crate::file_digest::FileDigest;
use crate::lake::{FROM_BACKUP, Lake, Purged};

/// An erasure with a certificate and an entry in the audit log.
pub(super) struct FinishedErasure {
    certificate: Certificate,
    path: Path,
    signer: String,
}

impl FinishedErasure {
    /// Returns the erasure of `journal` if it has a certificate, which is recorded in the audit log
    /// unless it was. One that isn't recorded must be signed by `signer`: its name, the id of the
    /// erasure, is known to everyone who can read the lake.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if its certificate isn't the one in the audit log; errors of the
    /// store.
    pub(super) async fn of(
        lake: &mut Lake,
        journal: &Journal,
        signer: &str,
    ) -> Result<Option<FinishedErasure>> {
        let entries = lake.recorded("erase").await?;
        let own = |details: &&serde_json::Value| details["id"] == journal.id.as_str();
        let entry = entries.iter().find(own);
        let path = certificate_path(&journal.id);
        let signed = lake.location().read_small(&path).await?.unwrap_or_default();
        let expected = entry.is_none().then_some(signer);
        let check = verify(&signed, expected, None, &[]);
        let is_sound = match entry {
            Some(details) => details["certificate_blake3"] == FileDigest::of(&signed).to_string(),
            None => is_of(&check, &journal.id, lake),
        };
        match (check.certificate, check.signer) {
            (Some(certificate), Some(signer)) if is_sound => {
                if entry.is_none() {
                    record(lake, &certificate, &journal.resumed).await?;
                }
                Ok(Some(FinishedErasure {
                    certificate,
                    path,
                    signer,
                }))
            }
            _ if entry.is_none() => Ok(None),
            _ => Err(EngineError::Damaged {
                what: path.to_string(),
                cause: "it isn't the certificate in the audit log".to_owned(),
                remedy: FROM_BACKUP,
            }),
        }
    }

    /// Returns whether all its proofs hold.
    pub(super) fn is_proven(&self) -> bool {
        self.certificate.proofs.hold()
    }

    /// Returns its report; `plan` is that of the run that found it finished.
    pub(super) fn into_report(self, plan: ErasurePlan, started: Instant) -> ErasureReport {
        ErasureReport {
            proven: self.is_proven(),
            id: self.certificate.id,
            plan,
            scope: self.certificate.scope,
            proofs: self.certificate.proofs,
            certificate: self.path.to_string(),
            signer: self.signer,
            resumed: true,
            removed: Purged::default(),
            removed_versions: None,
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

/// Returns whether `check` is that of an intact certificate of the erasure `id` of `lake`, whether
/// its proofs hold or not.
fn is_of(check: &CertificateCheck, id: &str, lake: &Lake) -> bool {
    let of_erasure = |certificate: &Certificate| certificate.id == id && certificate.is_of(lake);
    check.certificate.as_ref().is_some_and(of_erasure)
        && check
            .problems
            .iter()
            .all(|problem| problem.starts_with(SELF_REPORTED))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;
    use std::sync::Arc;

    use gristmill_connectors::source::discover;
    use gristmill_schemas::address::ContentAddress;
    use gristmill_schemas::columns::{LifecycleEvent, RejectRow, StateRow};
    use gristmill_schemas::container::write_frame;
    use gristmill_schemas::grain::{EncodeOptions, encode_json};
    use gristmill_schemas::json::Json;
    use object_store::{ObjectStoreExt, PutPayload};

    use super::super::certify::certificate_path;
    use super::super::planning::surveyed;
    use super::super::{ErasureOptions, Run, erase, new_journal, thread_pool};
    use crate::erase::certificate::{PSEUDONYMS, RequestOrigin, verify};
    use crate::erase::crypto_shred::{self, ShredPlan};
    use crate::erase::journal::{Journal, JournalFile, keyed_hash};
    use crate::erase::matcher::IdentifierMatcher;
    use crate::erase::reason::Exemption;
    use crate::erase::request::{Person, SubjectRequest};
    use crate::erase::resume_erasures;
    use crate::erase::survey::Survey;
    use crate::ingest::{IngestOptions, IngestProgress, ingest};
    use crate::keys::{FileKeys, Keyring};
    use crate::lake::{Change, Lake, MANIFEST};

    const USER: &str = "ada-4711-k9";

    fn keyring(folder: &Path) -> Keyring {
        Keyring::open_or_create(&folder.join("keyring.json"), "for tests").unwrap()
    }

    fn options(folder: &Path, destroy_keys: bool) -> ErasureOptions {
        let mut keyring = keyring(folder);
        keyring.generate("erasure").unwrap();
        ErasureOptions {
            origin: RequestOrigin::default(),
            keyring,
            signing_key: "erasure".to_owned(),
            exclusive: true,
            destroy_keys,
            purge_versions: false,
            threads: 1,
        }
    }

    /// The members of a grain of the user, and of one that belongs to the user by its session.
    const OWN: &str = r#""user_id":"ada-4711-k9","session_id":"s-1","content":"hello""#;
    const OF_SESSION: &str = r#""session_id":"s-1","content":"well""#;

    /// Returns a lake in `folder` with events of these members, and their addresses.
    async fn lake_of(
        folder: &Path,
        is_sealed: bool,
        events: &[&str],
    ) -> (Lake, Vec<ContentAddress>) {
        let place = folder.join("lake").display().to_string();
        let mut lake = Lake::open_or_create(&place).await.unwrap();
        if is_sealed {
            let keys = FileKeys::next_to(keyring(folder)).unwrap();
            lake.enable_encryption(Box::new(keys)).await.unwrap();
        }
        let (mut frames, mut addresses) = (Vec::new(), Vec::new());
        for members in events {
            let json =
                format!(r#"{{"type":"event","role":"user","created_at":1767225600000,{members}}}"#);
            let json = Json::parse(json.as_bytes()).unwrap();
            let grain = encode_json(&json, EncodeOptions::default()).unwrap();
            write_frame(&grain.blob, &mut frames).unwrap();
            addresses.push(grain.address);
        }
        let path = folder.join("a.frames");
        std::fs::write(&path, frames).unwrap();
        let sources = discover(&[path.display().to_string()]).await.unwrap();
        let progress = Arc::new(IngestProgress::default());
        let ingested = ingest(&mut lake, sources, &IngestOptions::default(), progress).await;
        ingested.unwrap();
        (lake, addresses)
    }

    /// Begins an erasure as a process does that is killed after it has written the journal.
    async fn interrupt(
        lake: &mut Lake,
        request: &SubjectRequest,
        options: &ErasureOptions,
    ) -> Journal {
        begin(lake, request, options).await.0.journal
    }

    /// Begins an erasure, and writes the journal. Returns what it would remove next, too.
    async fn begin<'a>(
        lake: &'a mut Lake,
        request: &'a SubjectRequest,
        options: &'a ErasureOptions,
    ) -> (Run<'a>, Survey) {
        let (_, survey) = surveyed(lake, request, 1, None).await.unwrap();
        let shred_plan = match options.destroy_keys {
            true => crypto_shred::plan(lake, &survey).await.unwrap(),
            false => ShredPlan::default(),
        };
        let key = options.keyring.derive(PSEUDONYMS).unwrap();
        let digest = keyed_hash(&key, request.canonical().unwrap().as_bytes());
        let (journal_file, _) = JournalFile::open(lake, &digest, &key).await.unwrap();
        let journal = new_journal(lake).unwrap();
        let mut run = Run {
            lake,
            request,
            options,
            key,
            digest,
            journal,
            journal_file,
            pool: thread_pool(1).unwrap(),
            scanned: HashMap::new(),
            workers: None,
        };
        run.journal.note_keys(&shred_plan);
        run.note_selected(&survey, &shred_plan);
        run.store_journal().await.unwrap();
        (run, survey)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_certificate_that_somebody_else_signed_finishes_no_erasure() {
        let [own, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let request = SubjectRequest::of_person([USER]);
        let foreign = options(other.path(), false);
        let (mut lake, _) = lake_of(other.path(), false, &[OWN]).await;
        let erased = erase(&mut lake, &request, &foreign).await.unwrap();
        let path = erased.certificate.as_str().into();
        let signed = lake.location().read(&path).await.unwrap();
        let mut forged = verify(&signed, None, None, &[]).certificate.unwrap();

        let options = options(own.path(), false);
        let (mut lake, _) = lake_of(own.path(), false, &[OWN]).await;
        let id = interrupt(&mut lake, &request, &options).await.id;
        (forged.id, forged.lake) = (id.clone(), None);
        let key = foreign.keyring.signing_key("erasure").unwrap();
        let path = certificate_path(&id);
        let put = PutPayload::from(forged.sign(&key, 0).unwrap());
        lake.location().store().put(&path, put).await.unwrap();
        let report = erase(&mut lake, &request, &options).await.unwrap();
        assert_eq!((report.id, report.scope.grains), (id, 1));
        let signed = lake.location().read(&path).await.unwrap();
        let check = verify(&signed, Some(&report.signer), None, &[]);
        assert!(check.valid, "{:?}", check.problems);
    }

    /// Adds a claim of a manifest about the grain `address` that was denied.
    async fn deny_claim(lake: &mut Lake, address: &ContentAddress) {
        let claim = format!(r#"{{"content_address":"{address}","event":"expired","value":null}}"#);
        let row = RejectRow {
            source_id: "0".repeat(64),
            source: "a.mg".to_owned(),
            ordinal: -1,
            offset: None,
            error_code: "ERR_INVALIDATION_DENIED".to_owned(),
            field: Some(MANIFEST.to_owned()),
            message: "denied".to_owned(),
            bytes: claim.into_bytes(),
            truncated: false,
            rejected_at: 0,
        };
        let change = Change::of_new_rows(lake.write_rejects(&[&row]).await.unwrap());
        lake.rejects.commit(change, "test", 0).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_erasure_of_an_address_is_resumed_also_if_it_erases_a_reject() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path(), false);
        let (mut lake, addresses) = lake_of(folder.path(), false, &[OWN]).await;
        deny_claim(&mut lake, &addresses[0]).await;
        let request = SubjectRequest {
            addresses,
            ..SubjectRequest::default()
        };
        let journal = interrupt(&mut lake, &request, &options).await;
        assert_eq!(journal.items.len(), 2);
        let reports = resume_erasures(&mut lake, &options).await.unwrap();
        let [report] = reports.as_slice() else {
            panic!("{reports:?}")
        };
        assert!(report.resumed && report.proven, "{:?}", report.proofs);
        assert_eq!((report.scope.grains, report.scope.rejects), (1, 1));
    }

    async fn hold(lake: &mut Lake, address: &ContentAddress) {
        let held = StateRow {
            content_address: address.to_string(),
            event: LifecycleEvent::Held,
            value: Some("case-1".to_owned()),
            at: 1,
            actor: Some("court".to_owned()),
            reason: Some("order".to_owned()),
            source_id: None,
        };
        let file = lake.write_events(&[held]).await.unwrap();
        let change = Change::of_new_rows(file);
        lake.state.commit(change, "test", 0).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hold_that_is_placed_after_an_interruption_binds_the_next_run() {
        for is_sealed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let mut options = options(folder.path(), is_sealed);
            let (mut lake, addresses) = lake_of(folder.path(), is_sealed, &[OWN]).await;
            let request = SubjectRequest::of_person([USER]);
            interrupt(&mut lake, &request, &options).await;
            hold(&mut lake, &addresses[0]).await;
            if is_sealed {
                let refused = erase(&mut lake, &request, &options).await;
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains("hold: 1"), "{refused}");
            }
            options.destroy_keys = false;
            let report = erase(&mut lake, &request, &options).await.unwrap();
            assert!(report.resumed && report.proven, "{:?}", report.proofs);
            assert_eq!((report.scope.grains, report.scope.people), (0, 0));
            let (_, survey) = surveyed(&mut lake, &request, 1, None).await.unwrap();
            let [kept] = survey.grains.as_slice() else {
                panic!("sealed: {is_sealed}, {:?}", survey.grains)
            };
            assert_eq!(kept.address, addresses[0]);
            assert!(matches!(kept.exemption, Some(Exemption::Hold { .. })));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn events_count_if_the_run_is_interrupted_right_after_their_commit() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path(), false);
        let (mut lake, addresses) = lake_of(folder.path(), false, &[OWN]).await;
        let verified = |reason: &str| StateRow {
            content_address: addresses[0].to_string(),
            event: LifecycleEvent::Verification,
            value: Some("verified".to_owned()),
            at: 1,
            actor: None,
            reason: Some(reason.to_owned()),
            source_id: None,
        };
        let events = [verified("first"), verified("second")];
        let file = lake.write_events(&events).await.unwrap();
        let change = Change::of_new_rows(file);
        lake.state.commit(change, "test", 0).await.unwrap();
        let request = SubjectRequest::of_person([USER]);
        let (mut run, survey) = begin(&mut lake, &request, &options).await;
        let erased = run.journal.addresses().into_iter().collect();
        let matcher = IdentifierMatcher::new(&request);
        run.remove_events(&survey, &erased, &matcher).await.unwrap();
        drop(run);
        lake.refresh().await.unwrap();
        assert_eq!(lake.state.files().unwrap().len(), 0);
        let report = erase(&mut lake, &request, &options).await.unwrap();
        assert!(report.resumed && report.proven, "{:?}", report.proofs);
        assert_eq!((report.scope.grains, report.scope.events), (1, 2));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_segment_that_is_replaced_after_the_last_survey_is_surveyed_again() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path(), false);
        let kept = r#""user_id":"ada-4711-k9","session_id":"s-2","content":"again""#;
        let of_ben = r#""user_id":"ben-0815-x2","session_id":"s-3","content":"hi""#;
        let (mut lake, addresses) = lake_of(folder.path(), false, &[OWN, kept, of_ben]).await;
        hold(&mut lake, &addresses[1]).await;
        let place = folder.path().join("lake").display().to_string();
        let mut other = Lake::open_or_create(&place).await.unwrap();
        let request = SubjectRequest::of_person([USER]);
        let (mut run, survey) = begin(&mut lake, &request, &options).await;
        run.remove(survey).await.unwrap();
        let survey = run.survey_again().await.unwrap();
        assert!(survey.selects_nothing() && run.has_files_of(&survey).unwrap());
        // Another process rewrites the segment of the grain that stays.
        let of_ben = SubjectRequest::of_person(["ben-0815-x2"]);
        erase(&mut other, &of_ben, &options).await.unwrap();
        run.lake.refresh().await.unwrap();
        assert!(!run.has_files_of(&survey).unwrap());
        let last = run.survey_until_clean().await.unwrap();
        assert!(run.has_files_of(&last.survey).unwrap());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn people_count_once_if_a_resumed_request_names_them_in_another_order() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path(), false);
        let (mut lake, _) = lake_of(folder.path(), false, &[OWN]).await;
        let [ada, ben] = [USER, "ben-0815-x2"].map(|user| SubjectRequest::of_person([user]).people);
        let request = |people: &[&[Person]]| SubjectRequest {
            people: people.concat(),
            ..SubjectRequest::default()
        };
        interrupt(&mut lake, &request(&[&ada, &ben]), &options).await;
        let again = request(&[&ben, &ada, &ben]);
        let report = erase(&mut lake, &again, &options).await.unwrap();
        assert!(report.resumed && report.proven, "{:?}", report.proofs);
        assert_eq!((report.scope.people, report.plan.people), (1, 2));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_person_of_whom_a_hold_keeps_one_grain_counts_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path(), false);
        let other = r#""user_id":"ada-4711-k9","session_id":"s-2","content":"again""#;
        let (mut lake, addresses) = lake_of(folder.path(), false, &[OWN, other]).await;
        let request = SubjectRequest::of_person([USER]);
        interrupt(&mut lake, &request, &options).await;
        hold(&mut lake, &addresses[0]).await;
        let report = erase(&mut lake, &request, &options).await.unwrap();
        assert!(report.resumed && report.proven, "{:?}", report.proofs);
        assert_eq!((report.scope.grains, report.scope.people), (1, 1));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_only_a_session_selects_is_erased_though_its_key_was_destroyed_before() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path(), true);
        let (mut lake, _) = lake_of(folder.path(), true, &[OWN, OF_SESSION]).await;
        let request = SubjectRequest::of_person([USER]);
        let journal = interrupt(&mut lake, &request, &options).await;
        assert_eq!((journal.items.len(), journal.keys.len()), (2, 1));
        // The process is killed before it rewrites the segment.
        let addresses = journal.addresses();
        let added = lake.add_tombstones(&addresses, &journal.id, 0).await;
        assert_eq!(added.unwrap(), 2);
        crypto_shred::destroy(&lake, &journal.keys).unwrap();
        let report = erase(&mut lake, &request, &options).await.unwrap();
        assert!(report.resumed && report.proven, "{:?}", report.proofs);
        assert_eq!(report.scope.grains, 2);
        assert_eq!(report.proofs.lookup.checked, 1);
    }
}

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
    /// unless it was.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if its certificate isn't the one in the audit log; errors of the
    /// store.
    pub(super) async fn of(lake: &mut Lake, journal: &Journal) -> Result<Option<FinishedErasure>> {
        let entries = lake.recorded("erase").await?;
        let own = |details: &&serde_json::Value| details["id"] == journal.id.as_str();
        let entry = entries.iter().find(own);
        let path = certificate_path(&journal.id);
        let signed = lake.location().read_small(&path).await?.unwrap_or_default();
        let check = verify(&signed, None, None, &[]);
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

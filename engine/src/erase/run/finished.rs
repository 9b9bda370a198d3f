//! Erasures that are finished but for their journal: the process was killed between the entry in
//! the audit log and the removal of the journal.
//!
//! Such an erasure isn't certified again: the audit log has the digest of its certificate.

use std::time::Instant;

use object_store::path::Path;

use super::certify::certificate_path;
use super::{ErasurePlan, ErasureReport};
use crate::erase::certificate::{Certificate, verify};
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
    /// Returns the erasure of `journal` if the audit log has its entry.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if its certificate isn't the one in the audit log; errors of the
    /// store.
    pub(super) async fn of(lake: &mut Lake, journal: &Journal) -> Result<Option<FinishedErasure>> {
        let entries = lake.recorded("erase").await?;
        let own = |details: &&serde_json::Value| details["id"] == journal.id.as_str();
        let Some(details) = entries.iter().find(own) else {
            return Ok(None);
        };
        let path = certificate_path(&journal.id);
        let signed = lake.location().read(&path).await?;
        let check = verify(&signed, None, None, &[]);
        let is_recorded = details["certificate_blake3"] == FileDigest::of(&signed).to_string();
        match (check.certificate, check.signer) {
            (Some(certificate), Some(signer)) if is_recorded => Ok(Some(FinishedErasure {
                certificate,
                path,
                signer,
            })),
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

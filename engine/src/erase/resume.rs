//! Erasing grains by their addresses, on behalf of another lake that erased them. The list of the
//! addresses isn't kept anywhere: an interrupted erasure is resumed from its journal alone.

use std::collections::HashSet;

use gristmill_schemas::address::ContentAddress;

use super::certificate::PSEUDONYMS;
use super::journal::{JOURNAL, Journal, keyed_hash};
use super::request::SubjectRequest;
use super::run::{ErasureOptions, ErasureReport, erase, plan};
use crate::error::{EngineError, Result};
use crate::lake::{ERASURES, Lake};

/// Checks that all of `addresses` may be erased; changes nothing.
///
/// # Errors
/// [`EngineError::Policy`] if one of them must stay; as [`plan`].
pub async fn check_erasable(
    lake: &mut Lake,
    addresses: &[ContentAddress],
    threads: usize,
) -> Result<()> {
    let (_, survey) = plan(lake, &request_of(addresses.to_vec()), threads).await?;
    let requested: HashSet<&ContentAddress> = addresses.iter().collect();
    let must_stay = survey.grains.iter().find_map(|found| {
        let exemption = found.exemption.as_ref()?;
        requested
            .contains(&found.address)
            .then_some((found.address, exemption.name()))
    });
    match must_stay {
        None => Ok(()),
        Some((address, reason)) => Err(EngineError::Policy(format!(
            "{address}, which the other lake erased, must stay in this one ({reason}). Lift what \
             protects it, or erase it with `gristmill erase --addresses FILE --approve …`, and \
             apply the changes again"
        ))),
    }
}

/// Erases the grains `addresses`.
///
/// # Errors
/// As [`erase`].
pub async fn erase_addresses(
    lake: &mut Lake,
    addresses: Vec<ContentAddress>,
    options: &ErasureOptions,
) -> Result<ErasureReport> {
    erase(lake, &request_of(addresses), options).await
}

/// Resumes erasures of addresses that were interrupted, those that this keyring began. Returns
/// their reports.
///
/// # Errors
/// As [`erase`].
pub async fn resume_erasures(
    lake: &mut Lake,
    options: &ErasureOptions,
) -> Result<Vec<ErasureReport>> {
    let key = options.keyring.derive(PSEUDONYMS)?;
    let mut reports = Vec::new();
    for file in lake.location().list(ERASURES).await? {
        let name = file.location.filename().unwrap_or_default();
        let Some(digest) = name.strip_suffix(JOURNAL) else {
            continue;
        };
        // A journal of another keyring is resumed with that one.
        let Ok(Some(journal)) = Journal::load(lake, digest, &key).await else {
            continue;
        };
        // Rejects that name the grains are erased with them, and weren't requested.
        for addresses in [journal.grains(), journal.addresses()] {
            let request = request_of(addresses);
            if keyed_hash(&key, request.canonical()?.as_bytes()).starts_with(digest) {
                reports.push(erase(lake, &request, options).await?);
                break;
            }
        }
    }
    Ok(reports)
}

fn request_of(addresses: Vec<ContentAddress>) -> SubjectRequest {
    SubjectRequest {
        addresses,
        ..SubjectRequest::default()
    }
}

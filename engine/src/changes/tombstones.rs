//! Erasing what was erased according to a bundle.
//!
//! Tombstones don't reveal addresses, so the lake's own grains are compared with them: one keyed
//! hash per grain. The tombstones are added first, so that no other writer brings such a grain
//! meanwhile.

use std::collections::HashSet;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;

use super::bundle::{Bundle, ChangeLine, ErasedLine};
use crate::erase::{
    ErasureOptions, ErasureReport, check_erasable, erase_addresses, resume_erasures,
};
use crate::error::{Context, EngineError, Result};
use crate::keys::{Tombstone, TombstoneSet};
use crate::lake::{ErasedRow, Lake, LakeFile, address_at, texts};

/// What erasures of a bundle did.
#[derive(Debug, Default)]
pub(super) struct AppliedErasures {
    /// Tombstones that the lake didn't have.
    pub(super) tombstones: u64,
    /// Grains that were erased.
    pub(super) grains: u64,
    /// The certificates.
    pub(super) certificates: Vec<String>,
}

/// Adds the tombstones of `bundle`, and erases the grains of the lake that they name.
///
/// # Errors
/// [`EngineError::Request`] if there are such grains and no `options`; as [`check_erasable`] and
/// [`erase_addresses`].
pub(super) async fn erase_of(
    lake: &mut Lake,
    bundle: &Bundle,
    options: Option<&ErasureOptions>,
) -> Result<AppliedErasures> {
    let mut applied = AppliedErasures::default();
    if let Some(options) = options {
        for report in resume_erasures(lake, options).await? {
            applied.add(&report)?;
        }
    }
    let rows = rows_of(bundle)?;
    if rows.is_empty() {
        return Ok(applied);
    }
    let erased: TombstoneSet = rows.iter().map(|row| row.tombstone).collect();
    lake.refresh().await?;
    lake.reveal_erased(true);
    let found = grains_of(lake, &erased).await;
    lake.reveal_erased(false);
    let found = found?;
    if options.is_none() && !found.is_empty() {
        return Err(EngineError::Request(format!(
            "{} grains were erased from the other lake and are in this one: their erasure is \
             certified, so name a key of the keyring with --signing-key (`gristmill keys generate \
             NAME` makes one)",
            found.len()
        )));
    }
    let found: Vec<ContentAddress> = found.into_iter().collect();
    if let Some(options) = options.filter(|_| !found.is_empty()) {
        check_erasable(lake, &found, options.threads).await?;
    }
    applied.tombstones = lake.adopt_tombstones(&bundle.header.lake, rows).await?;
    if let Some(options) = options.filter(|_| !found.is_empty()) {
        let report = erase_addresses(lake, found, options).await?;
        applied.add(&report)?;
    }
    Ok(applied)
}

impl AppliedErasures {
    fn add(&mut self, report: &ErasureReport) -> Result<()> {
        self.grains += report.scope.grains;
        self.certificates.push(report.certificate.clone());
        match report.proven {
            true => Ok(()),
            false => Err(EngineError::NotAbsent(format!(
                "the erasure {} was carried out but isn't proven: {} occurrences remain. Apply the \
                 changes again with --exclusive when no other process writes to the lake",
                report.id, report.proofs.byte_search.remnants
            ))),
        }
    }
}

fn rows_of(bundle: &Bundle) -> Result<Vec<ErasedRow>> {
    let mut rows = Vec::new();
    bundle.each(|line| {
        if let ChangeLine::Erased(line) = line {
            rows.push(row_of(line)?);
        }
        Ok(())
    })?;
    Ok(rows)
}

fn row_of(line: ErasedLine) -> Result<ErasedRow> {
    let digest = |text: &str| {
        let mut digest = [0; 32];
        let decoded = hex::decode_to_slice(text, &mut digest);
        decoded
            .file("can't read the tombstone", text)
            .map(|()| digest)
    };
    Ok(ErasedRow {
        tombstone: Tombstone {
            key: digest(&line.key)?,
            token: digest(&line.token)?,
        },
        erasure_id: line.erasure_id,
        at: line.at,
    })
}

/// Returns the grains of the lake of which `erased` has tombstones. Reads one column of all
/// segments.
async fn grains_of(lake: &Lake, erased: &TombstoneSet) -> Result<HashSet<ContentAddress>> {
    let mut found = HashSet::new();
    let column = SystemColumn::ContentAddress.name();
    for segment in lake.segments()? {
        let path = lake.grains.path_of(&segment.file.name);
        let (file, erased) = (LakeFile::open(lake, &path).await?, erased.clone());
        let search = move || {
            file.map_batches(Some(&[column]), |_, batch| {
                let addresses = texts(batch, column);
                let all = (0..batch.num_rows()).filter_map(|row| address_at(addresses, row));
                Ok(all
                    .filter(|address| erased.contains(address))
                    .collect::<Vec<_>>())
            })
        };
        let searched = tokio::task::spawn_blocking(search).await;
        found.extend(searched.file("can't read", &path)??.into_iter().flatten());
    }
    Ok(found)
}

//! A file as rows of `grains`, without a lake: proven and projected as in an ingest, but not
//! stored.

use std::sync::Arc;

use arrow::array::RecordBatch;
use chrono::Utc;
use gristmill_connectors::source::{Source, SourceKind, SpoolOptions};
use gristmill_schemas::columns::GrainBatchBuilder;
use gristmill_schemas::container::ContainerLimits;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode};
use gristmill_schemas::sign::{DidKeyResolver, KeyResolver};

use super::admission::{Admission, AdmissionUnit};
use super::admit::Admitter;
use super::morsel::{AdmittedSource, Morsel, MorselReader, NextMorsel};
use super::prove::{ProofOptions, prove};
use super::proven_batch::RowRef;
use super::refused_lines::RefusedLines;
use super::write::{RowContext, project};
use crate::error::{Context, EngineError, Result};

/// Maximum number of grains of a part.
const PART_GRAINS: usize = 4_096;

/// Maximum size of a part's opened payloads in bytes. Compressed grains can exceed it; an ingest
/// accepts them nevertheless.
const PART_BYTES: u64 = 512 << 20;

/// A file whose grains are read as rows, in parts that can be read in parallel and repeatedly.
#[derive(Debug)]
pub struct FileScan {
    uri: String,
    morsels: Vec<Morsel>,
    damage: Option<GrainError>,
    mode: DecodeMode,
    /// Microseconds since 1970.
    now: i64,
}

/// The rows of one part of a file.
#[derive(Debug)]
pub struct ScannedPart {
    /// The valid grains, in the order of the file.
    pub rows: RecordBatch,
    /// The number of rejected grains.
    pub refused: u64,
    /// Why the first of them was rejected.
    pub first_refusal: Option<GrainError>,
}

impl FileScan {
    /// Opens `source`. The kind is detected if it is `None`.
    ///
    /// # Errors
    /// [`EngineError::Refused`] if the file as a whole is damaged or unsupported;
    /// [`EngineError::Connector`].
    pub async fn open(
        source: Source,
        kind: Option<SourceKind>,
        mode: DecodeMode,
    ) -> Result<FileScan> {
        let now = Utc::now().timestamp_micros();
        let uri = source.uri.clone();
        let (admitted, refused) = admit_alone(source, kind, now).await?;
        warn_about_lines(&uri, &refused);
        let mut reader = MorselReader::new(admitted, 0);
        let (mut morsels, mut damage) = (Vec::new(), None);
        loop {
            match reader.next(PART_GRAINS) {
                NextMorsel::Morsel(morsel) => morsels.push(morsel),
                NextMorsel::Damage { error, .. } => damage = Some(error),
                NextMorsel::End => break,
            }
        }
        Ok(FileScan {
            uri,
            morsels,
            damage,
            mode,
            now,
        })
    }

    /// Returns where the file was read from.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        self.morsels.len()
    }

    /// Returns the number of grains that the file claims to contain.
    pub fn grains(&self) -> u64 {
        self.morsels.iter().map(|morsel| morsel.len() as u64).sum()
    }

    /// Returns the damage that hides everything after the last part.
    pub fn damage(&self) -> Option<&GrainError> {
        self.damage.as_ref()
    }

    /// Proves and projects part `at`.
    ///
    /// # Errors
    /// [`EngineError::File`] if the rows can't be projected. Rejected grains are counted.
    pub fn part(&self, at: usize) -> Result<Option<ScannedPart>> {
        let Some(morsel) = self.morsels.get(at) else {
            return Ok(None);
        };
        let resolver: &dyn KeyResolver = &DidKeyResolver;
        let proof = ProofOptions {
            mode: self.mode,
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            resolver,
            now: self.now,
            keys: None,
            profile: None,
        };
        let mut proven = prove(morsel.clone(), proof);
        let opened: u64 = proven.rows.iter().map(|row| u64::from(row.opened)).sum();
        if opened > PART_BYTES {
            let message = format!(
                "{opened} bytes in {} grains are too many for one part",
                proven.rows.len()
            );
            return Err(message).file("can't read without a lake", &self.uri);
        }
        let refused = proven.rejects.len() as u64;
        let first_refusal = proven.rejects.drain(..).next().map(|refusal| refusal.error);
        let places: Vec<RowRef> = (0..proven.rows.len() as u32)
            .map(|row| RowRef { morsel: 0, row })
            .collect();
        let context = RowContext {
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            now: self.now,
            keys: None,
        };
        let rows = project(
            &[proven],
            &places,
            context,
            &mut GrainBatchBuilder::with_capacity(0, 0),
        )
        .file("can't read", &self.uri)?;
        Ok(Some(ScannedPart {
            rows,
            refused,
            first_refusal,
        }))
    }
}

/// Admits `source` without a lake. Returns it with its lines that can't be read.
///
/// # Errors
/// As [`FileScan::open`].
async fn admit_alone(
    source: Source,
    kind: Option<SourceKind>,
    now: i64,
) -> Result<(Arc<AdmittedSource>, RefusedLines)> {
    let source_uri = source.uri.clone();
    let admitter = Admitter {
        ledger: Arc::default(),
        retried: Arc::default(),
        rejected_sources: Arc::default(),
        again: false,
        kind,
        limits: ContainerLimits::default(),
        threads: 0,
        spool: SpoolOptions::default(),
        content: None,
        are_bundles: false,
        now,
    };
    let unit = AdmissionUnit::Unlinked(vec![source]);
    let error = match admitter.admit(unit).await?.pop() {
        Some(Admission::Accepted {
            source, refused, ..
        }) => return Ok((Arc::from(source), refused)),
        Some(Admission::Unreadable { cause, .. }) => return Err(cause.into()),
        Some(Admission::Rejected { error, .. }) => error,
        Some(Admission::Unsupported { reason, .. }) => GrainError::corrupt(0, reason),
        Some(Admission::AlreadyIngested(_)) | None => {
            GrainError::corrupt(0, "there is nothing to read")
        }
    };
    Err(EngineError::Refused { source_uri, error })
}

/// Logs the number of rejected lines of a transcript, and the first reason.
fn warn_about_lines(uri: &str, refused: &RefusedLines) {
    if let Some(first) = refused.first() {
        let rejected = refused.len();
        let first = first.to_string();
        tracing::warn!(file = uri, rejected, first, "lines rejected");
    }
}

//! Admission: is this source known, whole, and of a kind that we read?

use std::sync::Arc;

use gristmill_connectors::source::{Source, SourceBytes, SourceKind, fetch};
use gristmill_connectors::transcript::line::LineFault;
use gristmill_connectors::transcript::read::ReadOptions;
use gristmill_connectors::transcript::spool::frames_of;
use gristmill_schemas::columns::RejectRow;
use gristmill_schemas::container::{Container, ContainerLimits, FOOTER_LENGTH};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::message::Timestamp;
use sha2::{Digest, Sha256};

use super::morsel::{Admitted, Beside, Content};
use crate::error::{Context, Result};
use crate::lake::{Ledger, Progress};

/// What became of a source at the door.
pub(super) enum Admission {
    /// It goes in, from its grain `next` on.
    Granted {
        /// The source.
        source: Arc<Admitted>,
        /// The first grain that the lake hasn't taken in.
        next: u64,
    },
    /// The lake has taken in all of it before.
    Known {
        /// Its bytes.
        length: u64,
    },
    /// It is of no kind that we read.
    OfNoKind {
        /// Where it was read from.
        uri: String,
        /// Its bytes.
        length: u64,
    },
    /// It as a whole is refused.
    Refused {
        /// What goes to `rejects`.
        reject: Box<RejectRow>,
        /// Why.
        error: GrainError,
        /// Its bytes.
        length: u64,
    },
}

/// What admission needs to know.
#[derive(Debug, Clone)]
pub(super) struct Door {
    pub(super) ledger: Arc<Ledger>,
    /// The kind that the user named, instead of detection.
    pub(super) kind: Option<SourceKind>,
    pub(super) limits: ContainerLimits,
    /// Threads that read transcripts; 0 for one per core.
    pub(super) threads: usize,
    /// When the run began, in microseconds since 1970.
    pub(super) now: i64,
}

/// Bytes of a refused source that go to `rejects`.
const REJECT_BYTES: usize = 1 << 20;

/// Bytes that are hashed at a time, so that both hashes find them in the cache.
const HASH_CHUNK: usize = 256 << 10;

impl Door {
    /// Fetches `source` and decides.
    pub(super) async fn admit(self, source: Source) -> Result<Admission> {
        let bytes = fetch(&source).await?;
        tokio::task::spawn_blocking(move || self.judge(source, bytes)).await.file("can't read", "a source")?
    }

    fn judge(&self, source: Source, bytes: SourceBytes) -> Result<Admission> {
        let uri = source.uri;
        let length = bytes.len() as u64;
        let Some(kind) = self.kind.or_else(|| SourceKind::detect(&bytes, &uri)) else {
            return Ok(Admission::OfNoKind { uri, length });
        };
        let digests = Digests::of(&bytes, kind);
        bytes.release(0..bytes.len());
        let next = match self.ledger.progress(&digests.id) {
            Some(Progress::Complete) => return Ok(Admission::Known { length }),
            Some(Progress::Next(next)) => next,
            None => 0,
        };
        let mut beside = Beside::default();
        let content = match kind {
            SourceKind::Container => match self.open(bytes, &digests) {
                Ok(container) => Content::Container(container),
                Err((error, bytes)) => return Ok(self.refuse(uri, digests.id, error, &bytes)),
            },
            SourceKind::Frames => Content::Frames(bytes),
            SourceKind::Blob => Content::Blob(bytes),
            SourceKind::Transcript(kind) => {
                let fallback = Timestamp::from_millis(source.modified.unwrap_or(0));
                let options = ReadOptions { fallback, threads: self.threads, ..ReadOptions::default() };
                let spooled = frames_of(&bytes, kind, options)?;
                let refuse = |fault: &LineFault| self.refused_line(&uri, &digests.id, fault, &bytes);
                let refused = spooled.faults.iter().map(refuse).collect();
                beside = Beside { refused, supersessions: spooled.supersessions, states: spooled.states };
                Content::Frames(spooled.frames)
            }
        };
        let admitted = Admitted { id: digests.id, uri, content, beside };
        Ok(Admission::Granted { source: Arc::new(admitted), next })
    }

    fn refused_line(&self, uri: &str, id: &str, fault: &LineFault, bytes: &[u8]) -> RejectRow {
        let line = bytes.get(fault.range.clone()).unwrap_or_default();
        RejectRow {
            source_id: id.to_owned(),
            source: uri.to_owned(),
            // Lines are counted from 1, ordinals from 0.
            ordinal: fault.number as i64 - 1,
            offset: Some(fault.range.start as i64),
            error_code: fault.code.name().to_owned(),
            field: None,
            message: fault.to_string(),
            bytes: line.get(..REJECT_BYTES.min(line.len())).unwrap_or_default().to_vec(),
            truncated: line.len() > REJECT_BYTES,
            rejected_at: self.now,
        }
    }

    /// Opens a container and checks its footer.
    fn open(&self, bytes: SourceBytes, digests: &Digests) -> Result<Container<SourceBytes>, (GrainError, Arc<[u8]>)> {
        let head: Arc<[u8]> = bytes.get(..REJECT_BYTES.min(bytes.len())).unwrap_or_default().into();
        let length = bytes.len();
        let container = Container::open(bytes, self.limits).map_err(|error| (error, Arc::clone(&head)))?;
        if Some(*container.footer()) != digests.footer {
            return Err((footer_differs(length), head));
        }
        Ok(container)
    }

    fn refuse(&self, uri: String, id: String, error: GrainError, head: &[u8]) -> Admission {
        let reject = RejectRow {
            source_id: id,
            source: uri,
            ordinal: -1,
            offset: error.offset.map(|offset| offset as i64),
            error_code: error.code.name().to_owned(),
            field: error.field.as_deref().map(str::to_owned),
            message: error.message.to_string(),
            bytes: head.to_vec(),
            truncated: head.len() == REJECT_BYTES,
            rejected_at: self.now,
        };
        let length = head.len() as u64;
        Admission::Refused { reject: Box::new(reject), error, length }
    }
}

/// What is wrong with a container of `length` bytes whose footer isn't the hash of what stands before it.
pub(crate) fn footer_differs(length: usize) -> GrainError {
    let message = "the file's bytes don't hash to its footer: it was changed or damaged";
    GrainError::new(ErrorCode::Integrity, message).at(length - FOOTER_LENGTH)
}

/// The hashes of a source.
struct Digests {
    /// BLAKE3 of all bytes, in hex.
    id: String,
    /// SHA-256 of all bytes before a container's footer.
    footer: Option<[u8; FOOTER_LENGTH]>,
}

impl Digests {
    /// Reads every byte once for both.
    fn of(bytes: &[u8], kind: SourceKind) -> Digests {
        let body = bytes.len().saturating_sub(FOOTER_LENGTH);
        let with_footer = kind == SourceKind::Container && bytes.len() >= FOOTER_LENGTH;
        let (mut id, mut footer) = (blake3::Hasher::new(), Sha256::new());
        for (number, chunk) in bytes.chunks(HASH_CHUNK).enumerate() {
            id.update(chunk);
            if with_footer {
                let before_footer = body.saturating_sub(number * HASH_CHUNK).min(chunk.len());
                footer.update(&chunk[..before_footer]);
            }
        }
        let footer = with_footer.then(|| footer.finalize().into());
        Digests { id: id.finalize().to_hex().to_string(), footer }
    }
}

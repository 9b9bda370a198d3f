//! Admission: decides whether a source is ingested, skipped or rejected, and opens it.
//!
//! A source is fetched, its kind detected and its digest looked up in the ledger of the lake. The
//! structure and footer of a container are checked here, and a transcript becomes frames.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::join_all;
use gristmill_connectors::ConnectorError;
use gristmill_connectors::source::{
    Source, SourceBytes, SourceKind, SourceLocation, SpoolOptions, fetch_with,
};
use gristmill_connectors::transcript::content_folder::ContentFolder;
use gristmill_connectors::transcript::frame_spool::{
    FrameSpool, SpooledTranscript, spool_linked_file, spool_transcript,
};
use gristmill_connectors::transcript::grain_output::GrainCounts;
use gristmill_connectors::transcript::grain_output::linker::MessageLinker;
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_connectors::transcript::line::FaultCode;
use gristmill_connectors::transcript::options::{LinkedFile, ReadOptions};
use gristmill_connectors::transcript::sighting_index::SightingIndex;
use gristmill_schemas::container::{Container, ContainerLimits, FOOTER_LENGTH};
use gristmill_schemas::error::{ErrorCode, GrainError};

use super::admission::{Admission, AdmissionUnit, RetryMode};
use super::digests::SourceDigests;
use super::file_times::FileTimes;
use super::linked_sources::{FoundMessages, ReadSlot};
use super::morsel::{AdmittedSource, SourceContent, TranscriptExtras};
use super::refused_lines::RefusedLines;
use super::sources::SourceInfo;
use crate::error::{Context, Result};
use crate::lake::{
    Ledger, MAX_SOURCE_BYTES, ReadPosition, RejectBytes, RejectContext, RejectPosition,
    RejectReason, WHOLE_SOURCE,
};

/// Admits sources. It contains what admission depends on, and is cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Admitter {
    pub(super) ledger: Arc<Ledger>,
    /// Sources that are read again although the lake contains them, if they hold grains.
    pub(super) retried: Arc<HashSet<String>>,
    /// Sources with rows in `rejects`.
    pub(super) rejected_sources: Arc<HashSet<String>>,
    /// True if all sources are read again, whether or not the lake contains them.
    pub(super) again: bool,
    /// The kind that the user named, instead of detection.
    pub(super) kind: Option<SourceKind>,
    pub(super) limits: ContainerLimits,
    /// Threads that read transcripts; 0 for one per core.
    pub(super) threads: usize,
    /// How input that isn't a file is kept.
    pub(super) spool: SpoolOptions,
    /// Where embedded content of transcripts is written.
    pub(super) content: Option<Arc<ContentFolder>>,
    /// True if the sources are bundles of changes that are applied.
    pub(super) are_bundles: bool,
    /// When the run began, in microseconds since 1970.
    pub(super) now: i64,
}

impl Admitter {
    /// Fetches the sources of `unit` and decides on each.
    ///
    /// # Errors
    /// [`EngineError::Connector`](crate::error::EngineError::Connector) if a linked source can't be
    /// read: the files after it depend on it.
    pub(super) async fn admit(self, unit: AdmissionUnit) -> Result<Vec<Admission>> {
        let sources = match unit {
            AdmissionUnit::Linked(source, slot) => {
                return Ok(vec![self.admit_linked(source, *slot).await?]);
            }
            AdmissionUnit::Unlinked(sources) => sources,
        };
        let fetched = join_all(sources.iter().map(|source| fetch_with(source, self.spool))).await;
        let decide = move || self.decide_each(sources.into_iter().zip(fetched).collect());
        tokio::task::spawn_blocking(decide)
            .await
            .file("can't read", "a source")?
    }

    async fn admit_linked(self, source: Source, slot: ReadSlot) -> Result<Admission> {
        let bytes = fetch_with(&source, self.spool).await;
        let ReadSlot {
            kind,
            digests,
            times,
            messages,
            tree,
            file,
            linker,
            next,
        } = slot;
        // If the file before failed, the run fails too, and the empty linker has no effect.
        let mut linker = linker.await.unwrap_or_default();
        let bytes = bytes?;
        let decide = move || {
            let linked = LinkedSource {
                source,
                bytes,
                kind,
                digests,
                times,
                messages,
                tree: &tree,
                file,
                is_last: next.is_none(),
            };
            let admission = self.decide_linked(linked, &mut linker);
            // The receiver is gone if the run has failed.
            next.into_iter()
                .for_each(|next| _ = next.send(std::mem::take(&mut linker)));
            admission
        };
        tokio::task::spawn_blocking(decide)
            .await
            .file("can't read", "a source")?
    }

    /// Returns the kind of a source: the one that the user named, or the detected one.
    pub(super) fn kind_of(&self, bytes: &[u8], uri: &str) -> Option<SourceKind> {
        self.kind.or_else(|| SourceKind::detect(bytes, uri))
    }

    fn decide_each(
        &self,
        fetched: Vec<(Source, Result<SourceBytes, ConnectorError>)>,
    ) -> Result<Vec<Admission>> {
        let with_kinds = fetched.iter().map(|(source, bytes)| {
            let bytes = bytes.as_ref().ok()?;
            Some((bytes, self.kind_of(bytes, &source.uri)))
        });
        let digests = SourceDigests::of_each(&with_kinds.collect::<Vec<_>>(), self.threads);
        let decide = |((source, bytes), digests): ((Source, Result<SourceBytes, _>), _)| {
            let bytes = match bytes {
                Ok(bytes) => bytes,
                Err(ConnectorError::NotRead { reason, .. }) => {
                    return Ok(Admission::Unsupported {
                        info: SourceInfo::of_file(source.uri),
                        reason: reason.to_owned(),
                    });
                }
                Err(cause) => return Ok(unreadable(source, cause)),
            };
            match digests {
                Some((Some(kind), digests)) => self.decide(source, bytes, kind, digests),
                Some((None, digests)) => Ok(self.without_kind(source.uri, &bytes, digests)),
                None => {
                    let digests = SourceDigests::of(&bytes, self.threads);
                    Ok(self.without_kind(source.uri, &bytes, digests))
                }
            }
        };
        fetched.into_iter().zip(digests).map(decide).collect()
    }

    /// Decides on a source whose kind can't be detected. The lake may contain it, if the user named
    /// the kind in an earlier run.
    fn without_kind(&self, uri: String, bytes: &SourceBytes, digests: SourceDigests) -> Admission {
        let reason = SourceKind::explain_unsupported(bytes, &uri);
        let entry = self.ledger.entry(&digests.id);
        let kind = entry.and_then(|entry| entry.kind);
        let info = SourceInfo {
            uri,
            id: Some(digests.id),
            kind,
            size: bytes.len() as u64,
        };
        match entry.is_some_and(|entry| entry.progress == ReadPosition::Complete) && !self.again {
            true => Admission::AlreadyIngested(info),
            false => Admission::Unsupported {
                info: SourceInfo { kind: None, ..info },
                reason,
            },
        }
    }

    /// Returns the first grain to read of a source of `kind`, and whether it is read again. `None`
    /// if the lake contains all of it.
    pub(super) fn resume_point(&self, id: &str, kind: SourceKind) -> Option<(u64, RetryMode)> {
        let Some(entry) = self.ledger.entry(id) else {
            // A source that brought no grain has no entry, but may have rows in `rejects`.
            let retry = match self.rejected_sources.contains(id) {
                true => RetryMode::Restart,
                false => RetryMode::No,
            };
            return Some((0, retry));
        };
        let same_kind = entry.kind.is_none_or(|known| known == kind);
        match entry.progress {
            ReadPosition::Complete if same_kind && self.again => Some((0, RetryMode::KeepProgress)),
            ReadPosition::Complete if self.again => Some((0, RetryMode::Restart)),
            ReadPosition::Complete if !same_kind && self.kind.is_some() => {
                Some((0, RetryMode::Restart))
            }
            ReadPosition::Complete if holds_grains(kind) && self.retried.contains(id) => {
                Some((0, RetryMode::KeepProgress))
            }
            ReadPosition::Complete => None,
            ReadPosition::Next(next) if same_kind && next > 0 && !self.again => {
                Some((next, RetryMode::No))
            }
            ReadPosition::Next(_) => Some((0, RetryMode::Restart)),
        }
    }

    fn decide(
        &self,
        source: Source,
        bytes: SourceBytes,
        kind: SourceKind,
        digests: SourceDigests,
    ) -> Result<Admission> {
        warn_of_write_ahead_log(&source, kind);
        let info = SourceInfo {
            uri: source.uri.clone(),
            id: Some(digests.id.clone()),
            kind: Some(kind),
            size: bytes.len() as u64,
        };
        let Some((first, retry)) = self.resume_point(&digests.id, kind) else {
            return Ok(Admission::AlreadyIngested(info));
        };
        let content = match kind {
            SourceKind::Container => match self.open_container(bytes, &digests) {
                Ok(container) => SourceContent::Container(container),
                Err((error, bytes)) => return Ok(self.reject_container(info, error, &bytes)),
            },
            SourceKind::Frames => SourceContent::Frames(bytes),
            SourceKind::Blob => SourceContent::Blob(bytes),
            SourceKind::Transcript(kind) => {
                let times = FileTimes::of(&source, &bytes, &self.ledger);
                let options = times.in_options(self.options());
                let spooled = spool_transcript(&bytes, kind, options)?;
                return Ok(self.accept_transcript(
                    info,
                    spooled,
                    (bytes, times),
                    (first, retry),
                    FoundMessages::default(),
                ));
            }
        };
        let source = Box::new(AdmittedSource::new(
            info,
            content,
            TranscriptExtras::default(),
        ));
        Ok(Admission::Accepted {
            source,
            refused: RefusedLines::default(),
            first,
            retry,
        })
    }

    /// Decides on a file that is read together with others. A file that the lake contains brings
    /// only what waited for it; one that was begun starts again, because the order of its grains
    /// depends on the other files.
    fn decide_linked(
        &self,
        linked: LinkedSource<'_>,
        linker: &mut MessageLinker,
    ) -> Result<Admission> {
        let LinkedSource {
            source,
            bytes,
            kind,
            digests,
            times,
            messages,
            tree,
            file,
            is_last,
        } = linked;
        let options = ReadOptions {
            linked: Some(LinkedFile { index: tree, file }),
            ..times.in_options(self.options())
        };
        let source_kind = SourceKind::Transcript(kind);
        let resume = self.resume_point(&digests.id, source_kind);
        linker.is_ingested = resume.is_none();
        let spooled = spool_linked_file(&bytes, kind, options, linker, is_last)?;
        let info = SourceInfo {
            uri: source.uri,
            id: Some(digests.id),
            kind: Some(source_kind),
            size: bytes.len() as u64,
        };
        if linker.is_ingested && spooled.grains == 0 {
            return Ok(Admission::AlreadyIngested(info));
        }
        let retry = resume.map_or(RetryMode::No, |(_, retry)| retry);
        let file = (bytes, times);
        Ok(self.accept_transcript(info, spooled, file, (0, retry), messages))
    }

    /// Accepts a transcript whose grains were made of a file with these bytes and times. One
    /// without grains and rejects is unsupported, unless it has `messages` whose grains other files
    /// bring.
    fn accept_transcript(
        &self,
        info: SourceInfo,
        spooled: SpooledTranscript,
        (bytes, times): (SourceBytes, FileTimes),
        (first, retry): (u64, RetryMode),
        messages: FoundMessages,
    ) -> Admission {
        if let Some(reason) = unsupported_reason(&info, &spooled, messages.any) {
            return Admission::Unsupported { info, reason };
        }
        let SpooledTranscript {
            frames,
            counts,
            faults,
            supersessions,
            states,
            ..
        } = spooled;
        let has_file_time = messages.dated_by_file || may_have_file_time(info.kind, &counts);
        let file_prefixes = match has_file_time {
            true => times.to_record(&bytes, &self.ledger),
            false => Vec::new(),
        };
        let extras = TranscriptExtras {
            counts,
            supersessions,
            states,
            file_prefixes,
        };
        let content = match frames {
            FrameSpool::Open(frames) => SourceContent::Frames(frames),
            FrameSpool::Sealed(frames) => SourceContent::SealedFrames(frames),
        };
        let source = Box::new(AdmittedSource {
            has_messages: messages.any,
            ..AdmittedSource::new(info, content, extras)
        });
        Admission::Accepted {
            source,
            refused: RefusedLines::new(faults, bytes),
            first,
            retry,
        }
    }

    fn options(&self) -> ReadOptions<'_> {
        let sealed = self.spool.in_memory.is_some();
        ReadOptions {
            threads: self.threads,
            sealed,
            content: self.content.as_deref(),
            is_bundle: self.are_bundles,
            ..ReadOptions::default()
        }
    }

    /// Opens a container and compares its footer with the hash of its body.
    ///
    /// # Errors
    /// The reason to reject the container, and the beginning of its bytes.
    fn open_container(
        &self,
        bytes: SourceBytes,
        digests: &SourceDigests,
    ) -> Result<Container<SourceBytes>, (GrainError, Arc<[u8]>)> {
        let head: Arc<[u8]> = bytes
            .get(..MAX_SOURCE_BYTES.min(bytes.len()))
            .unwrap_or_default()
            .into();
        let length = bytes.len();
        let container =
            Container::open(bytes, self.limits).map_err(|error| (error, Arc::clone(&head)))?;
        if Some(*container.footer()) != digests.footer {
            return Err((footer_differs(length), head));
        }
        Ok(container)
    }

    /// Rejects a container that begins with `head`.
    fn reject_container(&self, info: SourceInfo, error: GrainError, head: &[u8]) -> Admission {
        let context = RejectContext {
            source_id: info.id.as_deref().unwrap_or_default(),
            source: &info.uri,
            rejected_at: self.now,
        };
        let position = RejectPosition {
            ordinal: WHOLE_SOURCE,
            offset: error.offset,
        };
        let reason = RejectReason {
            message: error.message.to_string(),
            ..RejectReason::of(&error)
        };
        let reject = context.row(position, reason, RejectBytes::head(head, info.size));
        Admission::Rejected {
            info,
            reject: Box::new(reject),
            error,
        }
    }
}

/// Warns if a SQLite database has a write-ahead log, which isn't read: it may have rows that the
/// database doesn't have yet.
fn warn_of_write_ahead_log(source: &Source, kind: SourceKind) {
    let (SourceLocation::File(path), SourceKind::Transcript(TranscriptKind::Sqlite)) =
        (&source.location, kind)
    else {
        return;
    };
    let mut log = path.clone().into_os_string();
    log.push("-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        tracing::warn!(
            "the rows that only the write-ahead log `{}-wal` has aren't read; to take them in, \
             close the database, or let its program run `PRAGMA wal_checkpoint(TRUNCATE)`, and \
             ingest it again",
            source.uri
        );
    }
}

fn unreadable(source: Source, cause: ConnectorError) -> Admission {
    let info = SourceInfo {
        size: source.length.unwrap_or_default(),
        ..SourceInfo::of_file(source.uri)
    };
    Admission::Unreadable { info, cause }
}

/// A fetched file that is read together with others.
struct LinkedSource<'a> {
    source: Source,
    bytes: SourceBytes,
    kind: TranscriptKind,
    digests: SourceDigests,
    times: FileTimes,
    /// What the first pass found in it.
    messages: FoundMessages,
    /// What the first pass found in all linked files.
    tree: &'a SightingIndex,
    /// The number of this file among them.
    file: u32,
    is_last: bool,
}

/// Returns why a transcript without grains is unsupported. `None` if it has grains or messages, or
/// if parts of it are rejected.
fn unsupported_reason(
    info: &SourceInfo,
    spooled: &SpooledTranscript,
    has_messages: bool,
) -> Option<String> {
    if spooled.grains > 0 || has_messages {
        return None;
    }
    match spooled.faults.as_slice() {
        [] => {
            let kind = info.kind.map_or("a transcript", SourceKind::name);
            Some(format!(
                "read as `{kind}`, and nothing in it is a message or a grain; name another kind \
                 with `--kind`"
            ))
        }
        [only] if only.code == FaultCode::NotUnderstood => Some(only.message.to_string()),
        _ => None,
    }
}

/// Returns true if a transcript of `kind` may have grains with the time of its file. Of exchanges
/// that no adapter reads, and of facts, that isn't counted.
fn may_have_file_time(kind: Option<SourceKind>, counts: &GrainCounts) -> bool {
    let is_grain = kind.is_some_and(holds_grains);
    let uncounted = counts.opaque_exchanges + counts.other_grains;
    counts.dated_by_file > 0 || !is_grain && uncounted > 0
}

/// Returns true if sources of `kind` hold grains, which are the same however often they are read.
/// The messages of a transcript depend on all of its lines: reading it again could make other
/// grains of what the lake contains already.
fn holds_grains(kind: SourceKind) -> bool {
    matches!(
        kind,
        SourceKind::Container
            | SourceKind::Frames
            | SourceKind::Blob
            | SourceKind::Transcript(TranscriptKind::GrainLines)
    )
}

/// Returns the error of a container of `length` bytes whose footer isn't the hash of its body.
pub(crate) fn footer_differs(length: usize) -> GrainError {
    let message = "the file's bytes don't hash to its footer: it was changed or damaged";
    GrainError::new(ErrorCode::Integrity, message).at(length - FOOTER_LENGTH)
}

//! Admission: is this source known, whole, and of a kind that we read?

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::join_all;
use gristmill_connectors::ConnectorError;
use gristmill_connectors::source::{Source, SourceBytes, SourceKind, SpoolOptions, fetch_with};
use gristmill_connectors::transcript::grains::Linker;
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_connectors::transcript::line::LineFault;
use gristmill_connectors::transcript::read::{ReadOptions, Together};
use gristmill_connectors::transcript::spool::{FrameSpool, Spooled, frames_of, frames_together};
use gristmill_connectors::transcript::tree::Tree;
use gristmill_schemas::columns::RejectRow;
use gristmill_schemas::container::{Container, ContainerLimits, FOOTER_LENGTH};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::message::Timestamp;

use super::digests::Digests;
use super::morsel::{Admitted, Beside, Content};
use super::together::Turn;
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
        /// True if the lake knows it, and it is read once more because something of it was refused.
        again: bool,
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
    /// The system or the store doesn't let it be read.
    Unreadable {
        /// Why.
        cause: ConnectorError,
        /// Its bytes, as far as they are known.
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

/// Who comes to the door at a time.
pub(super) enum Arrival {
    /// A source that is read together with others, in its turn.
    InTurn(Source, Turn),
    /// Sources that have nothing to do with each other, and are hashed together.
    Beside(Vec<Source>),
}

/// How `sources` come to the door: in their order, those without a turn `together` at a time.
pub(super) fn arrivals(sources: Vec<(Source, Option<Turn>)>, together: usize) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for (source, turn) in sources {
        match (turn, arrivals.last_mut()) {
            (Some(turn), _) => arrivals.push(Arrival::InTurn(source, turn)),
            (None, Some(Arrival::Beside(others))) if others.len() < together => others.push(source),
            (None, _) => arrivals.push(Arrival::Beside(vec![source])),
        }
    }
    arrivals
}

/// What admission needs to know.
#[derive(Debug, Clone)]
pub(super) struct Door {
    pub(super) ledger: Arc<Ledger>,
    /// Sources that are read once more although the lake knows them, if they hold grains.
    pub(super) retried: Arc<HashSet<String>>,
    /// The kind that the user named, instead of detection.
    pub(super) kind: Option<SourceKind>,
    pub(super) limits: ContainerLimits,
    /// Threads that read transcripts; 0 for one per core.
    pub(super) threads: usize,
    /// How input that is no file is kept.
    pub(super) spool: SpoolOptions,
    /// When the run began, in microseconds since 1970.
    pub(super) now: i64,
}

/// Bytes of a refused source that go to `rejects`.
const REJECT_BYTES: usize = 1 << 20;

impl Door {
    /// Fetches who comes and decides on each.
    pub(super) async fn admit(self, arrival: Arrival) -> Result<Vec<Admission>> {
        let sources = match arrival {
            Arrival::InTurn(source, turn) => return Ok(vec![self.admit_in_turn(source, turn).await?]),
            Arrival::Beside(sources) => sources,
        };
        let fetched = join_all(sources.iter().map(|source| fetch_with(source, self.spool))).await;
        let judge = move || self.judge_each(sources.into_iter().zip(fetched).collect());
        tokio::task::spawn_blocking(judge).await.file("can't read", "a source")?
    }

    async fn admit_in_turn(self, source: Source, turn: Turn) -> Result<Admission> {
        let bytes = fetch_with(&source, self.spool).await;
        let Turn { kind, digests, tree, file, linker, next } = turn;
        // If the file before failed there is no run any more that could miss what it had to tell.
        let mut linker = linker.await.unwrap_or_default();
        let bytes = bytes?;
        let judge = move || {
            let linked = self.judge_linked(source, bytes, (kind, digests), (&tree, file), &mut linker, next.is_none());
            // The next one may be gone with the run.
            next.into_iter().for_each(|next| _ = next.send(std::mem::take(&mut linker)));
            linked
        };
        tokio::task::spawn_blocking(judge).await.file("can't read", "a source")?
    }

    /// The kind of a source: the one that the user named, else the one that it shows.
    pub(super) fn kind_of(&self, bytes: &[u8], uri: &str) -> Option<SourceKind> {
        self.kind.or_else(|| SourceKind::detect(bytes, uri))
    }

    fn judge_each(&self, fetched: Vec<(Source, Result<SourceBytes, ConnectorError>)>) -> Result<Vec<Admission>> {
        let of_a_kind = fetched.iter().map(|(source, bytes)| {
            let bytes = bytes.as_ref().ok()?;
            Some((bytes, self.kind_of(bytes, &source.uri)?))
        });
        let digests = Digests::of_each(&of_a_kind.collect::<Vec<_>>(), self.threads);
        let judge = |((source, bytes), digests): ((Source, Result<SourceBytes, _>), Option<_>)| match (bytes, digests) {
            (Err(cause), _) => Ok(Admission::Unreadable { cause, length: source.length.unwrap_or_default() }),
            (Ok(bytes), None) => Ok(Admission::OfNoKind { uri: source.uri, length: bytes.len() as u64 }),
            (Ok(bytes), Some((kind, digests))) => self.judge(source, bytes, kind, digests),
        };
        fetched.into_iter().zip(digests).map(judge).collect()
    }

    fn judge(&self, source: Source, bytes: SourceBytes, kind: SourceKind, digests: Digests) -> Result<Admission> {
        let uri = source.uri;
        let length = bytes.len() as u64;
        let (next, again) = match self.ledger.progress(&digests.id) {
            Some(Progress::Complete) if holds_grains(kind) && self.retried.contains(&digests.id) => (0, true),
            Some(Progress::Complete) => return Ok(Admission::Known { length }),
            Some(Progress::Next(next)) => (next, false),
            None => (0, false),
        };
        let content = match kind {
            SourceKind::Container => match self.open(bytes, &digests) {
                Ok(container) => Content::Container(container),
                Err((error, bytes)) => return Ok(self.refuse(uri, digests.id, error, &bytes, length)),
            },
            SourceKind::Frames => Content::Frames(bytes),
            SourceKind::Blob => Content::Blob(bytes),
            SourceKind::Transcript(kind) => {
                let spooled = frames_of(&bytes, kind, self.options(source.modified))?;
                return Ok(Admission::Granted { source: self.grant(uri, digests.id, spooled, &bytes), next, again });
            }
        };
        let admitted = Admitted { id: digests.id, uri, content, beside: Beside::default() };
        Ok(Admission::Granted { source: Arc::new(admitted), next, again })
    }

    /// [`Door::judge`] of a file that is read together with others. One that is known has nothing new to say but what waited for it; one
    /// that was begun begins again, because which of its grains come first depends on the others.
    fn judge_linked(
        &self,
        source: Source,
        bytes: SourceBytes,
        (kind, digests): (TranscriptKind, Digests),
        (tree, file): (&Tree, u32),
        linker: &mut Linker,
        last: bool,
    ) -> Result<Admission> {
        let options = ReadOptions { together: Some(Together { tree, file }), ..self.options(source.modified) };
        linker.quiet = self.ledger.progress(&digests.id) == Some(Progress::Complete);
        let spooled = frames_together(&bytes, kind, options, linker, last)?;
        if linker.quiet && spooled.grains == 0 {
            return Ok(Admission::Known { length: bytes.len() as u64 });
        }
        let source = self.grant(source.uri, digests.id, spooled, &bytes);
        Ok(Admission::Granted { source, next: 0, again: false })
    }

    fn options(&self, modified: Option<i64>) -> ReadOptions<'static> {
        let fallback = Timestamp::from_millis(modified.unwrap_or(0));
        let sealed = self.spool.in_memory.is_some();
        ReadOptions { fallback, threads: self.threads, sealed, ..ReadOptions::default() }
    }

    /// A transcript whose grains are there.
    fn grant(&self, uri: String, id: String, spooled: Spooled, bytes: &[u8]) -> Arc<Admitted> {
        let refused = spooled.faults.iter().map(|fault| self.refused_line(&uri, &id, fault, bytes)).collect();
        let Spooled { frames, counts, supersessions, states, .. } = spooled;
        let beside = Beside { refused, counts, supersessions, states };
        let content = match frames {
            FrameSpool::Open(frames) => Content::Frames(frames),
            FrameSpool::Sealed(frames) => Content::SealedFrames(frames),
        };
        Arc::new(Admitted { id, uri, content, beside })
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

    /// A container of `length` bytes that can't be read, of which `head` is kept.
    fn refuse(&self, uri: String, id: String, error: GrainError, head: &[u8], length: u64) -> Admission {
        let reject = RejectRow {
            source_id: id,
            source: uri,
            ordinal: -1,
            offset: error.offset.map(|offset| offset as i64),
            error_code: error.code.name().to_owned(),
            field: error.field.as_deref().map(str::to_owned),
            message: error.message.to_string(),
            bytes: head.to_vec(),
            truncated: (head.len() as u64) < length,
            rejected_at: self.now,
        };
        Admission::Refused { reject: Box::new(reject), error, length }
    }
}

/// True if sources of `kind` hold grains, which are what they are however often they are read. What a transcript says depends on all of its
/// lines: another reading may make other grains of what the lake has already.
fn holds_grains(kind: SourceKind) -> bool {
    matches!(
        kind,
        SourceKind::Container
            | SourceKind::Frames
            | SourceKind::Blob
            | SourceKind::Transcript(TranscriptKind::GrainLines)
    )
}

/// What is wrong with a container of `length` bytes whose footer isn't the hash of what stands before it.
pub(crate) fn footer_differs(length: usize) -> GrainError {
    let message = "the file's bytes don't hash to its footer: it was changed or damaged";
    GrainError::new(ErrorCode::Integrity, message).at(length - FOOTER_LENGTH)
}

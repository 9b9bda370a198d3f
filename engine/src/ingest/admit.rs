//! Admission: is this source known, whole, and of a kind that we read?

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::join_all;
use gristmill_connectors::ConnectorError;
use gristmill_connectors::source::{Source, SourceBytes, SourceKind, SpoolOptions, fetch_with};
use gristmill_connectors::transcript::grains::Linker;
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_connectors::transcript::line::{FaultCode, LineFault};
use gristmill_connectors::transcript::read::{ReadOptions, Together};
use gristmill_connectors::transcript::spool::{FrameSpool, Spooled, frames_of, frames_together};
use gristmill_connectors::transcript::tree::Tree;
use gristmill_schemas::columns::RejectRow;
use gristmill_schemas::container::{Container, ContainerLimits, FOOTER_LENGTH};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::message::{TimeSource, Timestamp};

use super::digests::Digests;
use super::morsel::{Admitted, Beside, Content};
use super::sources::Listing;
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
        /// How the lake knows it already, if it is read once more.
        again: Again,
    },
    /// The lake has taken in all of it before.
    Known(Listing),
    /// It is of no kind that is read, or nothing in it is of the kind that it was read as.
    NotUnderstood {
        /// The source.
        listing: Listing,
        /// Why, for people.
        reason: String,
    },
    /// The system or the store doesn't let it be read.
    Unreadable {
        /// The source.
        listing: Listing,
        /// Why.
        cause: ConnectorError,
    },
    /// It as a whole is refused.
    Refused {
        /// The source.
        listing: Listing,
        /// What goes to `rejects`.
        reject: Box<RejectRow>,
        /// Why.
        error: GrainError,
    },
}

/// Whether a source is read once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// The lake doesn't know it, or goes on with it.
    No,
    /// It was read before, as another kind or without a result: what isn't refused any more leaves
    /// `rejects`.
    Anew,
    /// The lake has taken it in as this kind, and goes on knowing it: if the run is killed, it is
    /// as if there hadn't been one.
    Known,
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
    /// Sources of which something stands in `rejects`.
    pub(super) refused: Arc<HashSet<String>>,
    /// All sources are read once more, whatever the lake knows of them.
    pub(super) again: bool,
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
            Arrival::InTurn(source, turn) => {
                return Ok(vec![self.admit_in_turn(source, turn).await?]);
            }
            Arrival::Beside(sources) => sources,
        };
        let fetched = join_all(sources.iter().map(|source| fetch_with(source, self.spool))).await;
        let judge = move || self.judge_each(sources.into_iter().zip(fetched).collect());
        tokio::task::spawn_blocking(judge)
            .await
            .file("can't read", "a source")?
    }

    async fn admit_in_turn(self, source: Source, turn: Turn) -> Result<Admission> {
        let bytes = fetch_with(&source, self.spool).await;
        let Turn {
            kind,
            digests,
            understood,
            tree,
            file,
            linker,
            next,
        } = turn;
        // If the file before failed there is no run any more that could miss what it had to tell.
        let mut linker = linker.await.unwrap_or_default();
        let bytes = bytes?;
        let judge = move || {
            let kind = (kind, digests, understood);
            let linked = self.judge_linked(
                source,
                bytes,
                kind,
                (&tree, file),
                &mut linker,
                next.is_none(),
            );
            // The next one may be gone with the run.
            next.into_iter()
                .for_each(|next| _ = next.send(std::mem::take(&mut linker)));
            linked
        };
        tokio::task::spawn_blocking(judge)
            .await
            .file("can't read", "a source")?
    }

    /// The kind of a source: the one that the user named, else the one that it shows.
    pub(super) fn kind_of(&self, bytes: &[u8], uri: &str) -> Option<SourceKind> {
        self.kind.or_else(|| SourceKind::detect(bytes, uri))
    }

    fn judge_each(
        &self,
        fetched: Vec<(Source, Result<SourceBytes, ConnectorError>)>,
    ) -> Result<Vec<Admission>> {
        let with_kinds = fetched.iter().map(|(source, bytes)| {
            let bytes = bytes.as_ref().ok()?;
            Some((bytes, self.kind_of(bytes, &source.uri)))
        });
        let digests = Digests::of_each(&with_kinds.collect::<Vec<_>>(), self.threads);
        let judge =
            |((source, bytes), digests): ((Source, Result<SourceBytes, _>), Option<_>)| match (
                bytes, digests,
            ) {
                (Err(cause), _) => {
                    let listing = Listing {
                        size: source.length.unwrap_or_default(),
                        ..Listing::of_file(source.uri)
                    };
                    Ok(Admission::Unreadable { listing, cause })
                }
                (Ok(bytes), Some((Some(kind), digests))) => {
                    self.judge(source, bytes, kind, digests)
                }
                (Ok(bytes), Some((None, digests))) => {
                    Ok(self.without_kind(source.uri, &bytes, digests))
                }
                (Ok(bytes), None) => {
                    Ok(self.without_kind(source.uri, &bytes, Digests::of(&bytes, self.threads)))
                }
            };
        fetched.into_iter().zip(digests).map(judge).collect()
    }

    /// A source that shows no kind. The lake may know it all the same: somebody named its kind
    /// then.
    fn without_kind(&self, uri: String, bytes: &SourceBytes, digests: Digests) -> Admission {
        let reason = SourceKind::why_not(bytes, &uri);
        let taken = self.ledger.taken(&digests.id);
        let kind = taken.and_then(|taken| taken.kind);
        let listing = Listing {
            uri,
            id: Some(digests.id),
            kind,
            size: bytes.len() as u64,
        };
        match taken.is_some_and(|taken| taken.progress == Progress::Complete) && !self.again {
            true => Admission::Known(listing),
            false => Admission::NotUnderstood {
                listing: Listing {
                    kind: None,
                    ..listing
                },
                reason,
            },
        }
    }

    /// From which grain on a source of `kind` is read, and whether it is read once more; `None` if
    /// the lake has all of it.
    pub(super) fn approach(&self, id: &str, kind: SourceKind) -> Option<(u64, Again)> {
        let Some(taken) = self.ledger.taken(id) else {
            // One that brought nothing is open, but something of it may stand in `rejects`.
            return Some((
                0,
                if self.refused.contains(id) {
                    Again::Anew
                } else {
                    Again::No
                },
            ));
        };
        let same_kind = taken.kind.is_none_or(|known| known == kind);
        match taken.progress {
            Progress::Complete if same_kind && self.again => Some((0, Again::Known)),
            Progress::Complete if self.again => Some((0, Again::Anew)),
            Progress::Complete if !same_kind && self.kind.is_some() => Some((0, Again::Anew)),
            Progress::Complete if holds_grains(kind) && self.retried.contains(id) => {
                Some((0, Again::Known))
            }
            Progress::Complete => None,
            Progress::Next(next) if same_kind && next > 0 && !self.again => Some((next, Again::No)),
            Progress::Next(_) => Some((0, Again::Anew)),
        }
    }

    fn judge(
        &self,
        source: Source,
        bytes: SourceBytes,
        kind: SourceKind,
        digests: Digests,
    ) -> Result<Admission> {
        let listing = Listing {
            uri: source.uri,
            id: Some(digests.id.clone()),
            kind: Some(kind),
            size: bytes.len() as u64,
        };
        let Some((next, again)) = self.approach(&digests.id, kind) else {
            return Ok(Admission::Known(listing));
        };
        let content = match kind {
            SourceKind::Container => match self.open(bytes, &digests) {
                Ok(container) => Content::Container(container),
                Err((error, bytes)) => return Ok(self.refuse(listing, error, &bytes)),
            },
            SourceKind::Frames => Content::Frames(bytes),
            SourceKind::Blob => Content::Blob(bytes),
            SourceKind::Transcript(kind) => {
                let spooled = frames_of(&bytes, kind, self.options(source.modified))?;
                return Ok(self.transcript(listing, spooled, &bytes, (next, again), false));
            }
        };
        let source = Arc::new(Admitted::alone(listing, content, Beside::default()));
        Ok(Admission::Granted {
            source,
            next,
            again,
        })
    }

    /// A transcript whose grains are there. One that brings nothing, refusals included, isn't
    /// understood, unless its reader `understood` it and other files bring its grains.
    fn transcript(
        &self,
        listing: Listing,
        spooled: Spooled,
        bytes: &[u8],
        (next, again): (u64, Again),
        understood: bool,
    ) -> Admission {
        if let Some(reason) = reason_of(&listing, &spooled, understood) {
            return Admission::NotUnderstood { listing, reason };
        }
        let (id, uri) = (listing.id.as_deref().unwrap_or_default(), &listing.uri);
        let refused = spooled
            .faults
            .iter()
            .map(|fault| self.refused_line(uri, id, fault, bytes))
            .collect();
        let Spooled {
            frames,
            counts,
            supersessions,
            states,
            ..
        } = spooled;
        let beside = Beside {
            refused,
            counts,
            supersessions,
            states,
        };
        let content = match frames {
            FrameSpool::Open(frames) => Content::Frames(frames),
            FrameSpool::Sealed(frames) => Content::SealedFrames(frames),
        };
        let admitted = Admitted::alone(listing, content, beside);
        Admission::Granted {
            source: Arc::new(Admitted {
                understood,
                ..admitted
            }),
            next,
            again,
        }
    }

    /// [`Door::judge`] of a file that is read together with others. One that is known has nothing
    /// new to say but what waited for it; one that was begun begins again, because which of its
    /// grains come first depends on the others.
    fn judge_linked(
        &self,
        source: Source,
        bytes: SourceBytes,
        (kind, digests, understood): (TranscriptKind, Digests, bool),
        (tree, file): (&Tree, u32),
        linker: &mut Linker,
        last: bool,
    ) -> Result<Admission> {
        let options = ReadOptions {
            together: Some(Together { tree, file }),
            ..self.options(source.modified)
        };
        let kind_of_source = SourceKind::Transcript(kind);
        let approach = self.approach(&digests.id, kind_of_source);
        linker.quiet = approach.is_none();
        let spooled = frames_together(&bytes, kind, options, linker, last)?;
        let size = bytes.len() as u64;
        let listing = Listing {
            uri: source.uri,
            id: Some(digests.id),
            kind: Some(kind_of_source),
            size,
        };
        if linker.quiet && spooled.grains == 0 {
            return Ok(Admission::Known(listing));
        }
        let again = approach.map_or(Again::No, |(_, again)| again);
        Ok(self.transcript(listing, spooled, &bytes, (0, again), understood))
    }

    fn options(&self, modified: Option<i64>) -> ReadOptions<'static> {
        let fallback = Timestamp::from_millis(modified.unwrap_or(0)).given_by(TimeSource::File);
        let sealed = self.spool.in_memory.is_some();
        ReadOptions {
            fallback,
            threads: self.threads,
            sealed,
            ..ReadOptions::default()
        }
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
            bytes: line
                .get(..REJECT_BYTES.min(line.len()))
                .unwrap_or_default()
                .to_vec(),
            truncated: line.len() > REJECT_BYTES,
            rejected_at: self.now,
        }
    }

    /// Opens a container and checks its footer.
    fn open(
        &self,
        bytes: SourceBytes,
        digests: &Digests,
    ) -> Result<Container<SourceBytes>, (GrainError, Arc<[u8]>)> {
        let head: Arc<[u8]> = bytes
            .get(..REJECT_BYTES.min(bytes.len()))
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

    /// A container that can't be read, of which `head` is kept.
    fn refuse(&self, listing: Listing, error: GrainError, head: &[u8]) -> Admission {
        let reject = RejectRow {
            source_id: listing.id.clone().unwrap_or_default(),
            source: listing.uri.clone(),
            ordinal: -1,
            offset: error.offset.map(|offset| offset as i64),
            error_code: error.code.name().to_owned(),
            field: error.field.as_deref().map(str::to_owned),
            message: error.message.to_string(),
            bytes: head.to_vec(),
            truncated: (head.len() as u64) < listing.size,
            rejected_at: self.now,
        };
        Admission::Refused {
            listing,
            reject: Box::new(reject),
            error,
        }
    }
}

/// Why a transcript that brings nothing isn't understood; `None` if it brings something, or if
/// something of it is refused.
fn reason_of(listing: &Listing, spooled: &Spooled, understood: bool) -> Option<String> {
    if spooled.grains > 0 || understood {
        return None;
    }
    match spooled.faults.as_slice() {
        [] => {
            let kind = listing.kind.map_or("a transcript", SourceKind::name);
            Some(format!(
                "read as `{kind}`, and nothing in it is a message or a grain; name another kind \
                 with `--kind`"
            ))
        }
        [only] if only.code == FaultCode::NotUnderstood => Some(only.message.clone()),
        _ => None,
    }
}

/// True if sources of `kind` hold grains, which are what they are however often they are read. What
/// a transcript says depends on all of its lines: another reading may make other grains of what the
/// lake has already.
fn holds_grains(kind: SourceKind) -> bool {
    matches!(
        kind,
        SourceKind::Container
            | SourceKind::Frames
            | SourceKind::Blob
            | SourceKind::Transcript(TranscriptKind::GrainLines)
    )
}

/// What is wrong with a container of `length` bytes whose footer isn't the hash of what stands
/// before it.
pub(crate) fn footer_differs(length: usize) -> GrainError {
    let message = "the file's bytes don't hash to its footer: it was changed or damaged";
    GrainError::new(ErrorCode::Integrity, message).at(length - FOOTER_LENGTH)
}

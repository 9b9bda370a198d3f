//! Files of traffic that are read together, so that a conversation which is spread over them is
//! stored once.
//!
//! Requests resend their whole history, and a client may well record each in a file of its own. A
//! first pass over all such files of a run notes where each message stands and when it was first
//! seen; then the files are read in the order of their beginnings, and what links messages travels
//! from one to the next. So neither the order of the files nor their number changes an address.
//!
//! Files that the lake has taken in already are part of this if there is at least one that it
//! hasn't: their messages keep the addresses that they got then, and what is new follows them.
//! Sharing ends where it would take more memory than the run may use: what comes then is read
//! together among itself. Only local files are read twice; objects in stores and standard input
//! stand alone.

use std::sync::Arc;

use futures::{StreamExt, stream};
use gristmill_connectors::source::{Location, Source, SourceKind, fetch};
use gristmill_connectors::transcript::grains::{Linker, survey};
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_connectors::transcript::read::ReadOptions;
use gristmill_connectors::transcript::tree::{PLACE_BYTES, Tree};
use gristmill_schemas::message::{TimeSource, Timestamp};
use tokio::sync::oneshot;

use super::admit::Door;
use super::digests::Digests;
use crate::error::{Context, Result};

/// Files that are looked at ahead of the one whose sights are put together.
const AHEAD: usize = 4;

/// The share of a run's memory that what is known of messages may take.
const MEMORY_SHARE: usize = 4;

/// One source's part in reading files together.
pub(super) struct Turn {
    pub(super) kind: TranscriptKind,
    pub(super) digests: Digests,
    /// True if the first pass saw a message in it.
    pub(super) understood: bool,
    /// What the first pass saw in all files that are read together.
    pub(super) tree: Arc<Tree>,
    /// Which of them this one is.
    pub(super) file: u32,
    /// Gets what links messages from the file before, once that is read.
    pub(super) linker: oneshot::Receiver<Linker>,
    /// Hands it on; nobody wants it after the last.
    pub(super) next: Option<oneshot::Sender<Linker>>,
}

/// A file of traffic.
struct Candidate {
    index: usize,
    kind: TranscriptKind,
    digests: Digests,
    is_new: bool,
}

/// A file of a group.
struct Member {
    candidate: Candidate,
    /// When its first message was said.
    begins: Timestamp,
    /// Its number in the group.
    number: u32,
    /// True if there is a message in it.
    understood: bool,
}

/// Files that are read together.
#[derive(Default)]
struct Group {
    tree: Tree,
    files: Vec<Member>,
}

/// Puts `sources` in the order in which they are read, each with its turn if it is read together
/// with others.
pub(super) async fn arrange(
    sources: Vec<Source>,
    door: &Door,
    memory: usize,
) -> Result<Vec<(Source, Option<Turn>)>> {
    let traffic = traffic(&sources, door).await?;
    let candidates = if traffic.len() < 2 {
        Vec::new()
    } else {
        candidates(traffic, &sources, door).await?
    };
    if !candidates.iter().any(|candidate| candidate.is_new) {
        return Ok(sources.into_iter().map(|source| (source, None)).collect());
    }
    let groups = groups(
        candidates,
        &sources,
        door,
        memory / MEMORY_SHARE / PLACE_BYTES,
    )
    .await?;
    Ok(in_order(sources, groups))
}

/// The local files of `sources` that hold traffic, by their places, and its kind.
async fn traffic(sources: &[Source], door: &Door) -> Result<Vec<(usize, TranscriptKind)>> {
    let local = sources
        .iter()
        .enumerate()
        .filter(|(_, source)| matches!(source.location, Location::File(_)));
    let looks = local.map(|(index, source)| look(index, source.clone(), door.clone()));
    let mut looks = stream::iter(looks).buffered(AHEAD);
    let mut found = Vec::new();
    while let Some(traffic) = looks.next().await {
        found.extend(traffic?);
    }
    Ok(found)
}

async fn look(index: usize, source: Source, door: Door) -> Result<Option<(usize, TranscriptKind)>> {
    // One that can't be read is told of where it is taken in.
    let Ok(bytes) = fetch(&source).await else {
        return Ok(None);
    };
    let look = move || match door.kind_of(&bytes, &source.uri) {
        Some(SourceKind::Transcript(kind)) if kind.is_traffic() => Some((index, kind)),
        _ => None,
    };
    tokio::task::spawn_blocking(look)
        .await
        .file("can't read", "a source")
}

/// Which files of traffic the lake knows.
async fn candidates(
    traffic: Vec<(usize, TranscriptKind)>,
    sources: &[Source],
    door: &Door,
) -> Result<Vec<Candidate>> {
    let known = traffic.into_iter().filter_map(|(index, kind)| {
        let source = sources.get(index)?.clone();
        Some(identify(index, kind, source, door.clone()))
    });
    let mut known = stream::iter(known).buffered(AHEAD);
    let mut candidates = Vec::new();
    while let Some(candidate) = known.next().await {
        candidates.push(candidate?);
    }
    Ok(candidates)
}

async fn identify(
    index: usize,
    kind: TranscriptKind,
    source: Source,
    door: Door,
) -> Result<Candidate> {
    let bytes = fetch(&source).await?;
    let identify = move || {
        let digests = Digests::of(&bytes, door.threads);
        let is_new = door
            .approach(&digests.id, SourceKind::Transcript(kind))
            .is_some();
        Candidate {
            index,
            kind,
            digests,
            is_new,
        }
    };
    tokio::task::spawn_blocking(identify)
        .await
        .file("can't read", "a source")
}

/// The first pass, and which files are read together: as many as `places` messages allow.
async fn groups(
    candidates: Vec<Candidate>,
    sources: &[Source],
    door: &Door,
    places: usize,
) -> Result<Vec<Group>> {
    // Numbers are given before the pass, so that files can be read side by side; they need only
    // differ within a group.
    let scans = candidates
        .into_iter()
        .enumerate()
        .filter_map(|(number, candidate)| {
            let source = sources.get(candidate.index)?.clone();
            Some(scan(candidate, source, door.threads, number as u32))
        });
    let mut scans = stream::iter(scans).buffered(AHEAD);
    let (mut groups, mut group) = (Vec::new(), Group::default());
    while let Some(scanned) = scans.next().await {
        let (candidate, tree, number) = scanned?;
        if !group.files.is_empty() && group.tree.len() + tree.len() > places {
            groups.push(std::mem::take(&mut group));
        }
        let begins = tree.begins().unwrap_or(Timestamp::from_micros(i64::MAX));
        let understood = !tree.is_empty();
        group.tree.merge(tree);
        group.files.push(Member {
            candidate,
            begins,
            number,
            understood,
        });
    }
    groups.push(group);
    Ok(groups)
}

async fn scan(
    candidate: Candidate,
    source: Source,
    threads: usize,
    number: u32,
) -> Result<(Candidate, Tree, u32)> {
    let bytes = fetch(&source).await?;
    let scan = move || {
        let fallback =
            Timestamp::from_millis(source.modified.unwrap_or(0)).given_by(TimeSource::File);
        let options = ReadOptions {
            fallback,
            threads,
            ..ReadOptions::default()
        };
        let tree = survey(&bytes, candidate.kind, options, number);
        bytes.release(0..bytes.len());
        (candidate, tree, number)
    };
    tokio::task::spawn_blocking(scan)
        .await
        .file("can't read", "a source")
}

/// The sources, those of each group in the order of their beginnings at the places that the group
/// has.
fn in_order(sources: Vec<Source>, groups: Vec<Group>) -> Vec<(Source, Option<Turn>)> {
    let mut left: Vec<Option<Source>> = sources.into_iter().map(Some).collect();
    let mut at: Vec<Option<(Source, Option<Turn>)>> = left.iter().map(|_| None).collect();
    for Group { tree, mut files } in groups {
        let tree = Arc::new(tree);
        let mut places: Vec<usize> = files.iter().map(|member| member.candidate.index).collect();
        places.sort_unstable();
        files.sort_by(|left, right| {
            let (one, two) = (&left.candidate.digests.id, &right.candidate.digests.id);
            (left.begins, one).cmp(&(right.begins, two))
        });
        let (first, mut linker) = oneshot::channel();
        // Nobody has read anything yet; whoever doesn't come for it doesn't need it.
        let _ = first.send(Linker::default());
        let last = files.len().saturating_sub(1);
        for (
            place,
            Member {
                candidate,
                number: file,
                understood,
                ..
            },
        ) in files.into_iter().enumerate()
        {
            let Some(source) = left.get_mut(candidate.index).and_then(Option::take) else {
                continue;
            };
            let (next, following) = oneshot::channel();
            let mine = std::mem::replace(&mut linker, following);
            let Candidate { kind, digests, .. } = candidate;
            let next = (place != last).then_some(next);
            let turn = Turn {
                kind,
                digests,
                understood,
                tree: Arc::clone(&tree),
                file,
                linker: mine,
                next,
            };
            if let Some(slot) = places.get(place).and_then(|place| at.get_mut(*place)) {
                *slot = Some((source, Some(turn)));
            }
        }
    }
    let rest = left
        .into_iter()
        .map(|source| source.map(|source| (source, None)));
    at.into_iter()
        .zip(rest)
        .filter_map(|(turned, alone)| turned.or(alone))
        .collect()
}

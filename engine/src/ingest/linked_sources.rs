//! Linked sources: files of API traffic that are read together, so that a conversation which is
//! spread over them is stored once.
//!
//! Requests resend their whole history, and a client may record each request in a file of its own.
//! A first pass over all such files of a run records where each message occurs and when it was
//! first seen. Then the files are read in the order of their first messages, and the
//! [`MessageLinker`] with the links between messages is handed from each file to the next. So
//! neither the order of the files nor their number changes an address.
//!
//! If at least one file is new, files that the lake contains take part: their messages keep their
//! addresses, and new messages follow them. A group ends where its index would exceed its part of
//! the run's memory; the files after it form another group. Only local files are read twice, those
//! that are compressed among them; objects in stores and standard input are never linked.

use std::sync::Arc;

use futures::{StreamExt, stream};
use gristmill_connectors::source::{Source, SourceKind, SourceLocation, fetch_with};
use gristmill_connectors::transcript::grain_output::index_sightings;
use gristmill_connectors::transcript::grain_output::linker::MessageLinker;
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_connectors::transcript::options::ReadOptions;
use gristmill_connectors::transcript::sighting_index::{INDEX_ENTRY_BYTES, SightingIndex};
use gristmill_schemas::message::Timestamp;
use tokio::sync::oneshot;

use super::admit::Admitter;
use super::digests::SourceDigests;
use super::file_times::FileTimes;
use crate::error::{Context, Result};

/// Files that are prefetched during a pass.
const AHEAD: usize = 4;

/// The index of messages may take this part of the run's memory: one in so many.
const MEMORY_SHARE: usize = 4;

/// The place of a source in the sequence of linked files.
pub(super) struct ReadSlot {
    pub(super) kind: TranscriptKind,
    pub(super) digests: SourceDigests,
    pub(super) times: FileTimes,
    /// What the first pass found in it.
    pub(super) messages: FoundMessages,
    /// The messages that the first pass found in all files of the group.
    pub(super) tree: Arc<SightingIndex>,
    /// The number of this file in `tree`.
    pub(super) file: u32,
    /// Receives the links from the file before, once that has been read.
    pub(super) linker: oneshot::Receiver<MessageLinker>,
    /// Sends the links to the next file; `None` for the last one.
    pub(super) next: Option<oneshot::Sender<MessageLinker>>,
}

/// What the first pass found in a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FoundMessages {
    /// True if there are messages.
    pub(super) any: bool,
    /// True if some of them have the time of the file.
    pub(super) dated_by_file: bool,
}

/// A file of traffic.
struct TrafficFile {
    /// Its index among the sources of the run.
    index: usize,
    kind: TranscriptKind,
    digests: SourceDigests,
    is_new: bool,
}

/// A file of a group.
struct LinkedFile {
    file: TrafficFile,
    /// The time of its first message.
    begins: Timestamp,
    /// Its number in the index of messages.
    number: u32,
    times: FileTimes,
    messages: FoundMessages,
}

/// Files that are read together.
#[derive(Default)]
struct LinkGroup {
    tree: SightingIndex,
    files: Vec<LinkedFile>,
}

/// Returns `sources` in the order in which they are read, each with its slot if it is linked.
/// `memory` is that of the run, in bytes.
///
/// # Errors
/// If a thread of a pass fails.
pub(super) async fn arrange(
    sources: Vec<Source>,
    admitter: &Admitter,
    memory: usize,
) -> Result<Vec<(Source, Option<ReadSlot>)>> {
    let traffic = find_traffic(&sources, admitter).await?;
    let files = match traffic.len() {
        0 | 1 => Vec::new(),
        _ => identify_all(traffic, &sources, admitter).await?,
    };
    if !files.iter().any(|file| file.is_new) {
        return Ok(sources.into_iter().map(|source| (source, None)).collect());
    }
    let max_messages = memory / MEMORY_SHARE / INDEX_ENTRY_BYTES;
    let groups = group(files, &sources, admitter, max_messages).await?;
    Ok(in_order(sources, groups))
}

/// Returns the indexes and kinds of the local files that hold traffic.
async fn find_traffic(
    sources: &[Source],
    admitter: &Admitter,
) -> Result<Vec<(usize, TranscriptKind)>> {
    let local = sources
        .iter()
        .enumerate()
        .filter(|(_, source)| matches!(source.location, SourceLocation::File(_)));
    let kinds = local.map(|(index, source)| traffic_kind(index, source.clone(), admitter.clone()));
    let mut kinds = stream::iter(kinds).buffered(AHEAD);
    let mut found = Vec::new();
    while let Some(traffic) = kinds.next().await {
        found.extend(traffic?);
    }
    Ok(found)
}

async fn traffic_kind(
    index: usize,
    source: Source,
    admitter: Admitter,
) -> Result<Option<(usize, TranscriptKind)>> {
    // An unreadable file is reported when it is admitted.
    let Ok(bytes) = fetch_with(&source, admitter.spool).await else {
        return Ok(None);
    };
    let detect = move || match admitter.kind_of(&bytes, &source.uri) {
        Some(SourceKind::Transcript(kind)) if kind.is_traffic() => Some((index, kind)),
        _ => None,
    };
    tokio::task::spawn_blocking(detect)
        .await
        .file("can't read", "a source")
}

/// Computes the digests of the files of traffic, and whether the lake contains them. A file that
/// was removed meanwhile, such as by a rotation of logs, isn't linked.
async fn identify_all(
    traffic: Vec<(usize, TranscriptKind)>,
    sources: &[Source],
    admitter: &Admitter,
) -> Result<Vec<TrafficFile>> {
    let files = traffic.into_iter().filter_map(|(index, kind)| {
        let source = sources.get(index)?.clone();
        Some(identify(index, kind, source, admitter.clone()))
    });
    let mut files = stream::iter(files).buffered(AHEAD);
    let mut identified = Vec::new();
    while let Some(file) = files.next().await {
        identified.extend(file?);
    }
    Ok(identified)
}

async fn identify(
    index: usize,
    kind: TranscriptKind,
    source: Source,
    admitter: Admitter,
) -> Result<Option<TrafficFile>> {
    let Ok(bytes) = fetch_with(&source, admitter.spool).await else {
        return Ok(None);
    };
    let identify = move || {
        let digests = SourceDigests::of(&bytes, admitter.threads);
        let is_new = admitter
            .resume_point(&digests.id, SourceKind::Transcript(kind))
            .is_some();
        Some(TrafficFile {
            index,
            kind,
            digests,
            is_new,
        })
    };
    tokio::task::spawn_blocking(identify)
        .await
        .file("can't read", "a source")
}

/// Runs the first pass, and groups the files so that each group has at most `max_messages`, or one
/// file. A file that was removed meanwhile is in none.
async fn group(
    files: Vec<TrafficFile>,
    sources: &[Source],
    admitter: &Admitter,
    max_messages: usize,
) -> Result<Vec<LinkGroup>> {
    // Numbers need only differ within a group. They are assigned before the pass, so that files can
    // be scanned in parallel.
    let scans = files.into_iter().enumerate().filter_map(|(number, file)| {
        let source = sources.get(file.index)?.clone();
        Some(scan(file, source, admitter.clone(), number as u32))
    });
    let mut scans = stream::iter(scans).buffered(AHEAD);
    let (mut groups, mut group) = (Vec::new(), LinkGroup::default());
    while let Some(scanned) = scans.next().await {
        let Some((file, times, tree, number)) = scanned? else {
            continue;
        };
        if !group.files.is_empty() && group.tree.len() + tree.len() > max_messages {
            groups.push(std::mem::take(&mut group));
        }
        let begins = tree.earliest().unwrap_or(Timestamp::from_micros(i64::MAX));
        let messages = FoundMessages {
            any: !tree.is_empty(),
            dated_by_file: tree.has_file_times(),
        };
        group.tree.merge(tree);
        group.files.push(LinkedFile {
            file,
            begins,
            number,
            times,
            messages,
        });
    }
    groups.push(group);
    Ok(groups)
}

async fn scan(
    file: TrafficFile,
    source: Source,
    admitter: Admitter,
    number: u32,
) -> Result<Option<(TrafficFile, FileTimes, SightingIndex, u32)>> {
    let Ok(bytes) = fetch_with(&source, admitter.spool).await else {
        return Ok(None);
    };
    let scan = move || {
        let times = FileTimes::of(&source, &bytes, &admitter.ledger);
        let options = ReadOptions {
            threads: admitter.threads,
            ..times.in_options(ReadOptions::default())
        };
        let tree = index_sightings(&bytes, file.kind, options, number);
        bytes.release(0..bytes.len());
        Some((file, times, tree, number))
    };
    tokio::task::spawn_blocking(scan)
        .await
        .file("can't read", "a source")
}

/// Returns the sources with their slots. The files of each group take the places that the group
/// has among the sources, in the order of their first messages.
fn in_order(sources: Vec<Source>, groups: Vec<LinkGroup>) -> Vec<(Source, Option<ReadSlot>)> {
    let mut unlinked: Vec<Option<Source>> = sources.into_iter().map(Some).collect();
    let mut linked: Vec<Option<(Source, ReadSlot)>> = unlinked.iter().map(|_| None).collect();
    for group in groups {
        let mut places: Vec<usize> = group.files.iter().map(|linked| linked.file.index).collect();
        places.sort_unstable();
        for (place, (index, slot)) in places.into_iter().zip(slots(group)) {
            let source = unlinked.get_mut(index).and_then(Option::take);
            if let (Some(source), Some(target)) = (source, linked.get_mut(place)) {
                *target = Some((source, slot));
            }
        }
    }
    linked
        .into_iter()
        .zip(unlinked)
        .filter_map(|(linked, unlinked)| match linked {
            Some((source, slot)) => Some((source, Some(slot))),
            None => Some((unlinked?, None)),
        })
        .collect()
}

/// Returns the slots of a group in the order in which they are read, each with the index of its
/// source, chained by the channels that hand on the links.
fn slots(group: LinkGroup) -> impl Iterator<Item = (usize, ReadSlot)> {
    let LinkGroup { tree, mut files } = group;
    let tree = Arc::new(tree);
    files.sort_by(|left, right| {
        let (one, two) = (&left.file.digests.id, &right.file.digests.id);
        (left.begins, one).cmp(&(right.begins, two))
    });
    let (first, mut linker) = oneshot::channel();
    // Nothing has been linked yet. A receiver that was dropped doesn't need it.
    let _ = first.send(MessageLinker::default());
    let last = files.len().saturating_sub(1);
    files.into_iter().enumerate().map(move |(place, linked)| {
        let TrafficFile {
            index,
            kind,
            digests,
            ..
        } = linked.file;
        let (next, following) = oneshot::channel();
        let slot = ReadSlot {
            kind,
            digests,
            times: linked.times,
            messages: linked.messages,
            tree: Arc::clone(&tree),
            file: linked.number,
            linker: std::mem::replace(&mut linker, following),
            next: (place != last).then_some(next),
        };
        (index, slot)
    })
}

#[cfg(test)]
mod tests {
    use gristmill_connectors::source::SpoolOptions;
    use gristmill_schemas::container::ContainerLimits;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_that_is_removed_between_the_passes_is_not_linked() {
        let folder = tempfile::tempdir().unwrap();
        let sources = ["kept.jsonl", "gone.jsonl"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, "{}\n").unwrap();
            Source {
                uri: name.to_owned(),
                location: SourceLocation::File(path),
                length: None,
                time: None,
            }
        });
        let admitter = Admitter {
            ledger: Arc::default(),
            retried: Arc::default(),
            rejected_sources: Arc::default(),
            again: false,
            kind: None,
            limits: ContainerLimits::default(),
            threads: 1,
            spool: SpoolOptions::default(),
            content: None,
            are_bundles: false,
            now: 0,
        };
        let traffic = || (0..2).map(|index| (index, TranscriptKind::Exchanges));
        let found = identify_all(traffic().collect(), &sources, &admitter).await;
        let found = found.unwrap();
        assert_eq!(found.len(), 2);
        std::fs::remove_file(folder.path().join("gone.jsonl")).unwrap();
        let groups = group(found, &sources, &admitter, 100).await.unwrap();
        let linked = groups.iter().flat_map(|group| &group.files);
        let linked: Vec<usize> = linked.map(|linked| linked.file.index).collect();
        assert_eq!(linked, [0]);
        let found = identify_all(traffic().collect(), &sources, &admitter).await;
        assert_eq!(found.unwrap().len(), 1);
    }
}

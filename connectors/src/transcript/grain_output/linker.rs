//! Linking of messages to their parents: a message can be encoded only when the address of its
//! parent is known.

use std::collections::{HashMap, HashSet};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::message::grains::EncodedDraft;
use gristmill_schemas::message::ids::MessagePosition;

use super::{GrainCounts, GrainOutput};
use crate::transcript::line::Line;

/// A message whose grains need the address of its parent.
pub(super) struct PendingMessage {
    pub(super) position: MessagePosition,
    pub(super) parent: Option<MessagePosition>,
    pub(super) line: Line,
    /// Its grains without links, or why they can't be encoded.
    pub(super) draft: Result<EncodedDraft, GrainError>,
    /// True if the lake contains the file in which it was found.
    pub(super) is_ingested: bool,
}

/// Gives messages their addresses, parents first, and emits their grains. A message whose parent
/// wasn't added yet waits for it.
#[derive(Default)]
pub struct MessageLinker {
    /// True while a file is read whose grains the lake already contains. Nothing is emitted or
    /// counted then.
    pub is_ingested: bool,
    /// By the digest of the position; `None` if the message can't be encoded.
    addresses: HashMap<[u8; 32], Option<ContentAddress>>,
    /// The actions of tool calls, by call id.
    calls: HashMap<String, ContentAddress>,
    /// By the digest of the position of the parent.
    pending: HashMap<[u8; 32], Vec<PendingMessage>>,
    pub(super) counts: GrainCounts,
}

impl MessageLinker {
    /// Returns the counts and resets them.
    pub(super) fn take_counts(&mut self) -> GrainCounts {
        std::mem::take(&mut self.counts)
    }

    /// Ends a file. A pending message may be emitted with a later file, in which its byte range has
    /// no meaning.
    pub(super) fn end_file(&mut self) {
        self.pending
            .values_mut()
            .flatten()
            .for_each(|message| message.line.range = 0..0);
    }

    /// Ends the last file. Messages that are still pending follow one that disappeared from its
    /// file after the first pass; they are linked without a parent.
    pub(super) fn finish(&mut self, emit: &mut dyn FnMut(GrainOutput<'_>)) {
        let mut pending: Vec<PendingMessage> = std::mem::take(&mut self.pending)
            .into_values()
            .flatten()
            .collect();
        pending.sort_by_key(|message| message.position);
        let known: HashSet<MessagePosition> =
            pending.iter().map(|message| message.position).collect();
        for message in pending {
            if let Some(parent) = message.parent.filter(|parent| !known.contains(parent)) {
                self.addresses.entry(*parent.digest()).or_insert(None);
            }
            self.add(message, emit);
        }
    }

    /// Makes a message pending until its parent is linked.
    fn hold(&mut self, message: PendingMessage, parent: MessagePosition) {
        let waiting = self.pending.entry(*parent.digest()).or_default();
        waiting.push(message);
    }

    /// Links a message and all pending ones that follow it, or makes it pending. A message whose
    /// position is linked already is dropped.
    pub(super) fn add(&mut self, message: PendingMessage, emit: &mut dyn FnMut(GrainOutput<'_>)) {
        let mut ready = vec![message];
        while let Some(message) = ready.pop() {
            let digest = *message.position.digest();
            if self.addresses.contains_key(&digest) {
                continue;
            }
            let parent = match message.parent {
                None => None,
                Some(parent) => match self.addresses.get(parent.digest()) {
                    Some(address) => *address,
                    None => {
                        self.hold(message, parent);
                        continue;
                    }
                },
            };
            let address = self.link(message, parent, emit);
            self.addresses.insert(digest, address);
            // Reversed, because `ready` is a stack: they are emitted in the order of their arrival.
            ready.extend(self.pending.remove(&digest).into_iter().flatten().rev());
        }
    }

    /// Encodes a message and emits its grains; returns the address of its event.
    fn link(
        &mut self,
        message: PendingMessage,
        parent: Option<ContentAddress>,
        emit: &mut dyn FnMut(GrainOutput<'_>),
    ) -> Option<ContentAddress> {
        let PendingMessage {
            line,
            draft,
            is_ingested,
            ..
        } = message;
        // What waited for a message of this file came with it: the lake contains it if it contains
        // both files. An interrupted run may have left the first one only.
        let is_ingested = is_ingested && self.is_ingested;
        let linked = draft.and_then(|draft| draft.link(parent, |id| self.calls.get(id).copied()));
        let grains = match linked {
            Ok(grains) => grains,
            Err(_) if is_ingested => return None,
            Err(error) => {
                emit(GrainOutput::Fault(line.grain_fault(&error)));
                return None;
            }
        };
        self.calls.extend(grains.calls);
        let address = grains.event.address;
        if !is_ingested {
            self.counts.messages += 1;
            self.counts.orphan_results += grains.orphans as u64;
            self.counts.unknown_parts += grains.unknown as u64;
            self.counts.raw_arguments += grains.raw_arguments as u64;
            self.counts.count_time_source(grains.time_source);
            emit(GrainOutput::Message(&line, grains.event));
            grains
                .parts
                .into_iter()
                .for_each(|part| emit(GrainOutput::Message(&line, part)));
        }
        Some(address)
    }
}

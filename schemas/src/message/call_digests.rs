//! The digests of the tool calls of a conversation, in a map whose copies share their entries: one
//! is kept for each message that another one may follow.

use std::sync::Arc;

/// The hash of the id of a call. It can't be chosen, so that all ways to an entry are short.
type IdHash = [u8; 32];

/// The number of children of a node: one for each half of a byte.
const FANOUT: usize = 16;

/// The number of halves of bytes of a hash.
const MAX_LEVELS: usize = 2 * size_of::<IdHash>();

type CallNodes = [Option<Arc<CallNode>>; FANOUT];

/// A map from the ids of calls to their digests: a trie over the hashes of the ids. A copy takes
/// constant time; an insertion copies only nodes on the way to the entry that other maps share.
#[derive(Debug, Clone, Default)]
pub(super) struct CallDigests {
    root: Option<Arc<CallNode>>,
}

#[derive(Debug, Clone)]
enum CallNode {
    Entry { id: IdHash, digest: [u8; 32] },
    Inner(CallNodes),
}

impl CallDigests {
    /// Returns the digest of the call `id`.
    pub(super) fn get(&self, id: &str) -> Option<&[u8; 32]> {
        let id = hash_of(id);
        let mut node = self.root.as_deref()?;
        for level in 0..MAX_LEVELS {
            match node {
                CallNode::Entry { .. } => break,
                CallNode::Inner(children) => node = children.get(half(&id, level))?.as_deref()?,
            }
        }
        match node {
            CallNode::Entry { id: known, digest } => (*known == id).then_some(digest),
            CallNode::Inner(_) => None,
        }
    }

    /// Sets the digest of the call `id`.
    pub(super) fn insert(&mut self, id: &str, digest: [u8; 32]) {
        let id = hash_of(id);
        let mut slot = &mut self.root;
        for level in 0..MAX_LEVELS {
            let Some(node) = slot else {
                break;
            };
            if let CallNode::Entry { id: known, .. } = &**node {
                if *known == id {
                    *node = Arc::new(CallNode::Entry { id, digest });
                    return;
                }
                let mut children = CallNodes::default();
                if let Some(child) = children.get_mut(half(known, level)) {
                    *child = Some(Arc::clone(node));
                }
                *node = Arc::new(CallNode::Inner(children));
            }
            let CallNode::Inner(children) = Arc::make_mut(node) else {
                return;
            };
            let Some(child) = children.get_mut(half(&id, level)) else {
                return;
            };
            slot = child;
        }
        *slot = Some(Arc::new(CallNode::Entry { id, digest }));
    }
}

fn hash_of(id: &str) -> IdHash {
    *blake3::hash(id.as_bytes()).as_bytes()
}

/// Returns half a byte of a hash: its number `level`.
fn half(id: &IdHash, level: usize) -> usize {
    let byte = id.get(level / 2).copied().unwrap_or_default();
    usize::from(if level.is_multiple_of(2) {
        byte >> 4
    } else {
        byte & 15
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> [u8; 32] {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    #[test]
    fn copies_are_independent_and_take_constant_time() {
        // If a copy takes linear time, this takes minutes.
        const CALLS: usize = 100_000;
        let mut digests = CallDigests::default();
        let mut copies = Vec::new();
        for number in 0..CALLS {
            copies.push(digests.clone());
            digests.insert(&number.to_string(), digest(number));
        }
        for (number, copy) in copies.iter().enumerate() {
            let id = number.to_string();
            assert_eq!(digests.get(&id), Some(&digest(number)));
            assert_eq!(copy.get(&id), None);
            let before = number.checked_sub(1);
            let found = before.and_then(|before| copy.get(&before.to_string()));
            assert_eq!(found.copied(), before.map(digest));
        }
        let mut other = copies.swap_remove(CALLS / 2);
        other.insert("7", digest(0));
        assert_eq!(other.get("7"), Some(&digest(0)));
        assert_eq!(digests.get("7"), Some(&digest(7)));
        assert_eq!(digests.get("x"), None);
    }
}

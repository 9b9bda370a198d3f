//! The Merkle tree over the erased addresses (RFC 6962 §2.1, SHA-256).

use sha2::{Digest, Sha256};

/// The hash of a node.
pub type MerkleHash = [u8; 32];

/// Returns the hash of a leaf (RFC 6962 §2.1).
pub fn leaf_hash(leaf: &[u8]) -> MerkleHash {
    Sha256::new()
        .chain_update([0])
        .chain_update(leaf)
        .finalize()
        .into()
}

fn node_hash(left: &MerkleHash, right: &MerkleHash) -> MerkleHash {
    Sha256::new()
        .chain_update([1])
        .chain_update(left)
        .chain_update(right)
        .finalize()
        .into()
}

/// Returns the root of the tree over `leaves`, which are hashed. O(n).
pub fn root(leaves: &[MerkleHash]) -> MerkleHash {
    match leaves {
        [] => Sha256::digest([]).into(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(half(leaves.len()));
            node_hash(&root(left), &root(right))
        }
    }
}

/// Returns the inclusion path of leaf `index`, from the leaf upwards; `None` beyond the last leaf.
pub fn inclusion(leaves: &[MerkleHash], index: usize) -> Option<Vec<MerkleHash>> {
    if index >= leaves.len() {
        return None;
    }
    if leaves.len() == 1 {
        return Some(Vec::new());
    }
    let (left, right) = leaves.split_at(half(leaves.len()));
    let (mut path, sibling) = match index.checked_sub(left.len()) {
        None => (inclusion(left, index)?, root(right)),
        Some(index) => (inclusion(right, index)?, root(left)),
    };
    path.push(sibling);
    Some(path)
}

/// Returns the root that follows from the inclusion path `path` of the hashed `leaf` at `index` of
/// a tree of `size` leaves (RFC 9162 §2.1.3.2); `None` if the path has the wrong length.
pub fn root_from(
    leaf: MerkleHash,
    index: u64,
    size: u64,
    path: &[MerkleHash],
) -> Option<MerkleHash> {
    if index >= size {
        return None;
    }
    let (mut number, mut last, mut hash) = (index, size - 1, leaf);
    for sibling in path {
        if last == 0 {
            return None;
        }
        if number & 1 == 1 || number == last {
            hash = node_hash(sibling, &hash);
            while number & 1 == 0 && number != 0 {
                number >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        number >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(hash)
}

/// Returns the largest power of two below `count`, which is at least 2.
fn half(count: usize) -> usize {
    count.next_power_of_two() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(count: usize) -> Vec<MerkleHash> {
        (0..count)
            .map(|number| leaf_hash(&number.to_be_bytes()))
            .collect()
    }

    #[test]
    fn roots_match_known_values() {
        assert_eq!(
            hex::encode(root(&[])),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let empty_leaf = leaf_hash(&[]);
        assert_eq!(
            hex::encode(root(&[empty_leaf])),
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
        );
    }

    #[test]
    fn inclusion_proofs_hold_for_every_leaf_and_no_other() {
        for count in 1..40 {
            let leaves = leaves(count);
            let top = root(&leaves);
            for (index, leaf) in leaves.iter().enumerate() {
                let path = inclusion(&leaves, index).unwrap();
                assert_eq!(
                    root_from(*leaf, index as u64, count as u64, &path),
                    Some(top),
                    "{index} of {count}"
                );
                assert_ne!(
                    root_from(leaf_hash(b"other"), index as u64, count as u64, &path),
                    Some(top)
                );
                if count > 1 {
                    assert_eq!(
                        root_from(*leaf, index as u64, count as u64, &path[1..]),
                        None
                    );
                }
            }
            assert_eq!(inclusion(&leaves, count), None);
        }
    }
}

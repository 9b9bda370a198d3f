//! A set of hashes that is asked far more often than it answers yes: which values can't be among those that are looked for?

/// A Bloom filter whose bits of one value stand in one word, so that asking costs one look at memory. It grows with what it holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sieve {
    /// A power of two of words, or none.
    bits: Vec<u64>,
    hashes: Vec<u64>,
}

/// Bits for each value, at least: with three of them set, one other value in a hundred seems to be there.
const SPARSENESS: usize = 16;

/// Words at least.
const LEAST: usize = 1 << 10;

impl Sieve {
    /// Adds `value`.
    pub(crate) fn add(&mut self, value: u64) {
        let hash = mixed(value);
        self.hashes.push(hash);
        if self.hashes.len() * SPARSENESS > self.bits.len() * 64 {
            self.bits = vec![0; (self.hashes.len() * SPARSENESS / 64).next_power_of_two().max(LEAST)];
            let hashes = std::mem::take(&mut self.hashes);
            hashes.iter().for_each(|hash| self.set(*hash));
            self.hashes = hashes;
        } else {
            self.set(hash);
        }
    }

    fn set(&mut self, hash: u64) {
        let (word, bits) = self.place(hash);
        if let Some(word) = self.bits.get_mut(word) {
            *word |= bits;
        }
    }

    /// The word of `hash` and its bits there.
    fn place(&self, hash: u64) -> (usize, u64) {
        let word = (hash >> 40) as usize & self.bits.len().wrapping_sub(1);
        (word, 1 << (hash >> 22 & 63) | 1 << (hash >> 28 & 63) | 1 << (hash >> 34 & 63))
    }

    /// False if `value` wasn't added.
    pub(crate) fn may_have(&self, value: u64) -> bool {
        let (word, bits) = self.place(mixed(value));
        self.bits.get(word).is_some_and(|word| word & bits == bits)
    }
}

/// A hash whose upper two thirds are good: they depend on all bits of `value`.
fn mixed(value: u64) -> u64 {
    (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_there_and_little_else() {
        let mut sieve = Sieve::default();
        assert!(!sieve.may_have(0));
        (0..200_000).for_each(|value| sieve.add(value * 3));
        assert!((0..200_000).all(|value| sieve.may_have(value * 3)));
        let others = (0..200_000).filter(|value| sieve.may_have(value * 3 + 1)).count();
        assert!(others < 4_000, "{others}");
    }
}

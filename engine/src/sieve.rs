//! A set of hashes that is asked far more often than it answers yes: which values can't be among
//! those that are looked for?

/// Two looks at memory: at one bit in little of it, which tells nearly all that aren't there, then
/// at three bits of one word, which tells nearly all others. Both grow with what the set holds; the
/// little memory only as long as it may stay in the cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sieve {
    /// A power of two of words, or none: one bit for each value.
    gate: Vec<u64>,
    /// A power of two of words, or none: three bits for each value in one of them, as in a Bloom
    /// filter.
    bits: Vec<u64>,
    hashes: Vec<u64>,
}

/// Bits for each value, at least: with three of them set, one other value in a hundred seems to be
/// there.
const SPARSENESS: usize = 16;

/// Words at least.
const LEAST: usize = 1 << 10;

/// Bits of the gate for each value, at least: three others in a hundred pass. Words that it has at
/// most: half a mebibyte.
const GATE_SPARSENESS: usize = 32;
const GATE_MOST: usize = 1 << 16;

impl Sieve {
    /// Adds `value`.
    pub(crate) fn add(&mut self, value: u64) {
        let hash = mixed(value);
        self.hashes.push(hash);
        if self.hashes.len() * SPARSENESS > self.bits.len() * 64 {
            let words = |sparseness: usize| {
                (self.hashes.len() * sparseness / 64)
                    .next_power_of_two()
                    .max(LEAST)
            };
            self.gate = vec![0; words(GATE_SPARSENESS).min(GATE_MOST)];
            self.bits = vec![0; words(SPARSENESS)];
            let hashes = std::mem::take(&mut self.hashes);
            hashes.iter().for_each(|hash| self.set(*hash));
            self.hashes = hashes;
        } else {
            self.set(hash);
        }
    }

    fn set(&mut self, hash: u64) {
        for (place, words) in [
            (gate_place(hash, self.gate.len()), &mut self.gate),
            (place(hash, self.bits.len()), &mut self.bits),
        ] {
            if let Some(word) = words.get_mut(place.0) {
                *word |= place.1;
            }
        }
    }

    /// False if `value` wasn't added.
    #[inline]
    pub(crate) fn may_have(&self, value: u64) -> bool {
        let hash = mixed(value);
        has(&self.gate, gate_place(hash, self.gate.len()))
            && has(&self.bits, place(hash, self.bits.len()))
    }
}

/// True if the word at the place has all of its bits.
#[inline]
fn has(words: &[u64], (word, bits): (usize, u64)) -> bool {
    words.get(word).is_some_and(|word| word & bits == bits)
}

/// The word of `hash` among `words` words of a gate, and its bit there.
#[inline]
fn gate_place(hash: u64, words: usize) -> (usize, u64) {
    (
        (hash >> 46) as usize & words.wrapping_sub(1),
        1 << (hash >> 40 & 63),
    )
}

/// The word of `hash` among `words` words, and its bits there.
#[inline]
fn place(hash: u64, words: usize) -> (usize, u64) {
    let word = (hash >> 40) as usize & words.wrapping_sub(1);
    (
        word,
        1 << (hash >> 22 & 63) | 1 << (hash >> 28 & 63) | 1 << (hash >> 34 & 63),
    )
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
        let others = (0..200_000)
            .filter(|value| sieve.may_have(value * 3 + 1))
            .count();
        assert!(others < 4_000, "{others}");
    }
}

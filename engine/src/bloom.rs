//! A Bloom filter for hot loops that look up far more absent values than present ones.
//!
//! A look-up makes at most two memory accesses: to one bit of a small array, which rejects nearly
//! all absent values and stays in the cache, and then to three bits of one word of a larger array,
//! which rejects nearly all others. Both grow with the number of values.

/// A set of values that may report absent values as present, but never the reverse.
#[derive(Debug, Clone, Default)]
pub(crate) struct BloomFilter {
    /// One bit per value: no words, or a power of two.
    first: Vec<u64>,
    /// Three bits per value in one word: no words, or a power of two.
    second: Vec<u64>,
    /// The hashes of all values, for growing.
    hashes: Vec<u64>,
}

/// Minimum number of bits per value in the second array. With three bits set, 1 % of absent values
/// pass.
const SECOND_BITS: usize = 16;

/// Minimum number of words of an array.
const MIN_WORDS: usize = 1 << 10;

/// Minimum number of bits per value in the first array: 3 % of absent values pass.
const FIRST_BITS: usize = 32;

/// Maximum number of words of the first array: 512 KiB, which fit into the cache.
const MAX_FIRST_WORDS: usize = 1 << 16;

impl BloomFilter {
    /// Inserts `value`. Grows by rehashing: amortised O(1).
    pub(crate) fn insert(&mut self, value: u64) {
        let hash = mixed(value);
        self.hashes.push(hash);
        if self.hashes.len() * SECOND_BITS > self.second.len() * 64 {
            let words = |bits: usize| {
                (self.hashes.len() * bits / 64)
                    .next_power_of_two()
                    .max(MIN_WORDS)
            };
            self.first = vec![0; words(FIRST_BITS).min(MAX_FIRST_WORDS)];
            self.second = vec![0; words(SECOND_BITS)];
            let hashes = std::mem::take(&mut self.hashes);
            hashes.iter().for_each(|hash| self.set(*hash));
            self.hashes = hashes;
        } else {
            self.set(hash);
        }
    }

    fn set(&mut self, hash: u64) {
        for ((word, bits), words) in [
            (first_bit(hash, self.first.len()), &mut self.first),
            (second_bits(hash, self.second.len()), &mut self.second),
        ] {
            if let Some(word) = words.get_mut(word) {
                *word |= bits;
            }
        }
    }

    /// Returns false if `value` wasn't inserted.
    #[inline]
    pub(crate) fn may_contain(&self, value: u64) -> bool {
        let hash = mixed(value);
        has(&self.first, first_bit(hash, self.first.len()))
            && has(&self.second, second_bits(hash, self.second.len()))
    }
}

/// Returns true if the word at index `word` has all of `bits`.
#[inline]
fn has(words: &[u64], (word, bits): (usize, u64)) -> bool {
    words.get(word).is_some_and(|word| word & bits == bits)
}

/// Returns the index of the word of `hash` in the first array of `words` words, and its bit.
#[inline]
fn first_bit(hash: u64, words: usize) -> (usize, u64) {
    (
        (hash >> 46) as usize & words.wrapping_sub(1),
        1 << (hash >> 40 & 63),
    )
}

/// Returns the index of the word of `hash` in the second array of `words` words, and its bits.
#[inline]
fn second_bits(hash: u64, words: usize) -> (usize, u64) {
    let word = (hash >> 40) as usize & words.wrapping_sub(1);
    (
        word,
        1 << (hash >> 22 & 63) | 1 << (hash >> 28 & 63) | 1 << (hash >> 34 & 63),
    )
}

/// Returns a hash whose upper two thirds depend on all bits of `value`.
fn mixed(value: u64) -> u64 {
    (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_values_are_contained_and_few_others() {
        let mut filter = BloomFilter::default();
        assert!(!filter.may_contain(0));
        (0..200_000).for_each(|value| filter.insert(value * 3));
        assert!((0..200_000).all(|value| filter.may_contain(value * 3)));
        let others = (0..200_000)
            .filter(|value| filter.may_contain(value * 3 + 1))
            .count();
        assert!(others < 4_000, "{others}");
    }
}

//! Fast random choices for texts.

/// A sequence of random numbers (SplitMix64), for choices of which a text has many.
#[derive(Debug, Clone)]
pub(super) struct Draws(u64);

impl Draws {
    /// Returns the sequence of a seed.
    pub(super) const fn new(seed: u64) -> Self {
        Draws(seed)
    }

    /// Returns the sequence that belongs to `name` and `number`, the same for the same two.
    pub(super) fn of(number: u64, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut draws = Draws(hash ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        draws.next();
        draws
    }

    /// Returns the next number.
    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which isn't 0.
    pub(super) const fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }

    /// Returns a number from `first` to `last`.
    pub(super) const fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// Returns a number below `end`, which isn't 0, with about the frequencies of Zipf's law: each
    /// power of two is as likely as the one before.
    pub(super) fn skewed(&mut self, end: usize) -> usize {
        let bits = usize::BITS - end.leading_zeros();
        let level = self.below(bits as usize);
        let rank = (1 << level) + (self.next() as usize & ((1 << level) - 1)) - 1;
        if rank < end { rank } else { self.below(end) }
    }

    /// Picks an item, all with the same frequency.
    pub(super) fn even<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        items.get(self.below(items.len().max(1))).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_numbers_cover_the_range_and_small_ones_are_frequent() {
        let mut draws = Draws::new(1);
        let mut counts = [0_u32; 100];
        for _ in 0..100_000 {
            counts[draws.skewed(100)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 0));
        assert!(
            counts[0] > 10 * counts[50] && counts[0] < 50_000,
            "{counts:?}"
        );
    }
}

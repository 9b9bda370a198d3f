//! Random choices of a generator, which a seed decides.

use rand::prelude::*;
use rand::rngs::StdRng;

/// Random choices.
pub(super) struct Dice(StdRng);

impl Dice {
    /// Returns the choices of the statement `number` of a run with `seed`.
    pub(super) fn of(seed: u64, number: usize) -> Dice {
        let number = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Dice(StdRng::seed_from_u64(seed ^ number))
    }

    /// Returns a number below `end`, which is at least 1.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// Returns true once in `count` times.
    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Returns one of `items`.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        &items[self.below(items.len())]
    }

    /// Returns one of some texts.
    pub(super) fn word<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len())]
    }

    /// Returns one of `words`, or nothing three times in four.
    pub(super) fn rarely<'w>(&mut self, words: &[&'w str]) -> &'w str {
        match self.one_in(4) {
            true => self.word(words),
            false => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_and_the_number_decide_all_choices() {
        let choices = |seed, number| {
            let mut dice = Dice::of(seed, number);
            (0..20).map(|_| dice.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(choices(1, 2), choices(1, 2));
        assert_ne!(choices(1, 2), choices(1, 3));
        assert_ne!(choices(1, 2), choices(2, 2));
    }
}

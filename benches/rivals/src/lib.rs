//! What the comparisons share: numbers, words and clocks. Everything is made from a seed.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A generator of numbers that are the same in every run.
pub fn numbers(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// A number below `count`, small ones oftener: about as words are used in a language.
pub fn skewed(random: &mut StdRng, count: usize) -> usize {
    let place: f64 = random.random();
    ((count as f64).powf(place) as usize)
        .saturating_sub(1)
        .min(count - 1)
}

/// How long `work` takes, in seconds, and what it answers.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = Instant::now();
    let answer = work();
    (started.elapsed().as_secs_f64(), answer)
}

/// What a piece of work took. On a machine that does other things too, the processor time says
/// more.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Seconds on the clock.
    pub wall: f64,
    /// Seconds of all cores together.
    pub processor: f64,
}

impl Spent {
    /// How much of both `other` is, as `1.23 of its time, 1.20 of its processor time`.
    pub fn of(self, other: Spent) -> String {
        let (wall, processor) = (self.wall / other.wall, self.processor / other.processor);
        format!("{wall:.2} of its time, {processor:.2} of its processor time")
    }
}

impl std::fmt::Display for Spent {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{:.2} s ({:.2} s of processor time)",
            self.wall, self.processor
        )
    }
}

/// What `work` takes, all of its threads together, and what it answers.
pub fn worked<T>(work: impl FnOnce() -> T) -> (Spent, T) {
    let before = processor_seconds();
    let (wall, answer) = timed(work);
    (
        Spent {
            wall,
            processor: processor_seconds() - before,
        },
        answer,
    )
}

/// Processor time of this process so far, in hundredths of a second; 0 where the system doesn't
/// tell it so.
fn processor_seconds() -> f64 {
    let told = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program stands in brackets and may have spaces: the numbers behind it are the
    // 3rd and those that follow.
    let numbers = told.rsplit_once(')').map_or("", |(_, numbers)| numbers);
    let ticks = numbers
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|number| number.parse::<u64>().ok())
        .sum::<u64>();
    ticks as f64 / 100.0
}

/// Asks two sides the same `questions` in turns of [`TURN`], so that both have the same share of a
/// machine that does other things too; answers the questions per second of each, and what each
/// answered.
///
/// # Errors
/// The first of either side.
pub fn in_turns<Q, A, E>(
    questions: &[Q],
    mut one: impl FnMut(&Q) -> Result<A, E>,
    mut other: impl FnMut(&Q) -> Result<A, E>,
) -> Result<[(f64, Vec<A>); 2], E> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    let mut spent = [0.0; 2];
    for turn in questions.chunks(TURN) {
        for (side, seconds) in spent.iter_mut().enumerate() {
            let (took, asked) = timed(|| {
                turn.iter().try_for_each(|question| {
                    match side {
                        0 => ones.push(one(question)?),
                        _ => others.push(other(question)?),
                    }
                    Ok(())
                })
            });
            asked?;
            *seconds += took;
        }
    }
    let rate = |seconds: f64| questions.len() as f64 / seconds;
    Ok([(rate(spent[0]), ones), (rate(spent[1]), others)])
}

/// Questions that one side is asked before the other has its turn.
const TURN: usize = 50;

/// The first argument as a number, or `usual`.
pub fn count_or(usual: usize) -> usize {
    std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(usual)
}

//! Shared code of the comparisons: seeded random numbers, skewed distributions and timers.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Returns a random number generator with a fixed seed.
pub fn seeded_rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Returns a number below `count`. Small numbers are more frequent, with a distribution similar to
/// that of words in a language.
pub fn skewed(random: &mut StdRng, count: usize) -> usize {
    let exponent: f64 = random.random();
    ((count as f64).powf(exponent) as usize)
        .saturating_sub(1)
        .min(count - 1)
}

/// Returns the wall-clock time of `work` in seconds, and its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = Instant::now();
    let answer = work();
    (started.elapsed().as_secs_f64(), answer)
}

/// The time that a piece of work took. On a shared machine CPU time is the more reliable of the
/// two.
#[derive(Debug, Clone, Copy)]
pub struct WorkTime {
    /// Wall-clock time in seconds.
    pub wall: f64,
    /// CPU time of all threads in seconds.
    pub cpu: f64,
}

impl WorkTime {
    /// Returns the ratios to `other`, as `1.23 of its time, 1.20 of its CPU time`.
    pub fn ratio_to(self, other: WorkTime) -> String {
        let (wall, cpu) = (self.wall / other.wall, self.cpu / other.cpu);
        format!("{wall:.2} of its time, {cpu:.2} of its CPU time")
    }
}

impl std::fmt::Display for WorkTime {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:.2} s ({:.2} s of CPU time)", self.wall, self.cpu)
    }
}

/// Returns the wall-clock and CPU time of `work`, and its result.
pub fn measured<T>(work: impl FnOnce() -> T) -> (WorkTime, T) {
    let before = cpu_seconds();
    let (wall, result) = timed(work);
    (
        WorkTime {
            wall,
            cpu: cpu_seconds() - before,
        },
        result,
    )
}

/// Returns the CPU time of this process in seconds, with a resolution of 10 ms; 0 if the system
/// doesn't provide `/proc/self/stat`.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in parentheses and may contain spaces; fields 3 and up follow it.
    let numbers = stat.rsplit_once(')').map_or("", |(_, numbers)| numbers);
    let ticks = numbers
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|number| number.parse::<u64>().ok())
        .sum::<u64>();
    ticks as f64 / 100.0
}

/// Runs the same `queries` on two systems, alternating after [`BATCH`] queries, so that other load
/// on the machine affects both equally. Returns the queries per second and the results of each.
///
/// # Errors
/// The first error of either system.
pub fn alternating<Q, A, E>(
    queries: &[Q],
    mut one: impl FnMut(&Q) -> Result<A, E>,
    mut other: impl FnMut(&Q) -> Result<A, E>,
) -> Result<[(f64, Vec<A>); 2], E> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    let mut elapsed = [0.0; 2];
    for batch in queries.chunks(BATCH) {
        for (side, seconds) in elapsed.iter_mut().enumerate() {
            let (took, outcome) = timed(|| {
                batch.iter().try_for_each(|query| {
                    match side {
                        0 => ones.push(one(query)?),
                        _ => others.push(other(query)?),
                    }
                    Ok(())
                })
            });
            outcome?;
            *seconds += took;
        }
    }
    let rate = |seconds: f64| queries.len() as f64 / seconds;
    Ok([(rate(elapsed[0]), ones), (rate(elapsed[1]), others)])
}

/// The number of queries that one system runs before the other.
const BATCH: usize = 50;

/// Returns the first argument as a number, or `default`.
pub fn count_or(default: usize) -> usize {
    std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(default)
}

//! Which texts go through a model together, and on which core.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::index::vectors::embed::Fault;

/// Numbers that the tokens of one batch have in the widest layer at most, if it isn't one text alone. A batch has a few such things in
/// memory at a time, of four bytes a number; larger batches fall out of a core's cache and are slower.
const NUMBERS: usize = 1 << 19;

/// `texts` in batches, in their order, for a model whose widest layer has `width` numbers for each token.
pub(super) fn batches<'a>(texts: &'a [&'a [u32]], width: usize) -> Vec<&'a [&'a [u32]]> {
    let limit = NUMBERS / width.max(1);
    let mut batches = Vec::new();
    let (mut start, mut tokens) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        if at > start && tokens + text.len() > limit {
            batches.push(&texts[start..at]);
            (start, tokens) = (at, 0);
        }
        tokens += text.len();
    }
    batches.extend((start < texts.len()).then(|| &texts[start..]));
    batches
}

/// A pool of one thread for each core. What the model does in parallel by itself stays on the batch's own thread: in a pool of many
/// threads, one that waits for a part of its batch would begin another batch inside of it, and so on.
#[derive(Debug)]
pub(super) struct Workers {
    pools: Vec<ThreadPool>,
}

impl Workers {
    /// As many as rayon has threads.
    pub(super) fn start() -> Result<Workers, Fault> {
        let count = 0..rayon::current_num_threads();
        let pools = count.map(|_| ThreadPoolBuilder::new().num_threads(1).build()).collect::<Result<_, _>>()?;
        Ok(Workers { pools })
    }

    /// What `work` makes of each of `batches`, in their order.
    pub(super) fn each<T: Send, B: Sync, E: Send + Into<Fault>>(
        &self,
        batches: &[B],
        work: impl Fn(&B) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, Fault> {
        let next = AtomicUsize::new(0);
        let made: Mutex<Vec<(usize, Result<T, E>)>> = Mutex::new(Vec::with_capacity(batches.len()));
        let take = || {
            while let Some((at, batch)) = take_next(&next, batches) {
                let result = work(batch);
                made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, result));
            }
        };
        std::thread::scope(|scope| {
            for pool in self.pools.iter().take(batches.len()) {
                scope.spawn(|| pool.install(take));
            }
        });
        let mut made = made.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        made.sort_unstable_by_key(|(at, _)| *at);
        made.into_iter().map(|(_, result)| result.map_err(Into::into)).collect()
    }
}

fn take_next<'a, B>(next: &AtomicUsize, batches: &'a [B]) -> Option<(usize, &'a B)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, batches.get(at)?))
}

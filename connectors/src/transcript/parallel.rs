//! Parallel work on chunks of lines with results in the order of the input.

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use memchr::memchr3_iter;

use super::line::Line;

/// Size of a chunk of lines, in bytes.
const CHUNK_BYTES: usize = 4 << 20;

/// Maximum number of lines of a chunk: the results of very short lines are larger than the lines.
const CHUNK_LINES: usize = 1 << 16;

/// Splits `lines` into chunks of about [`CHUNK_BYTES`], or of [`CHUNK_LINES`].
pub(super) fn chunk_lines(lines: &[Line]) -> Vec<&[Line]> {
    let mut chunks = Vec::new();
    let (mut start, mut length) = (0, 0);
    for (index, line) in lines.iter().enumerate() {
        length += line.range.len();
        if length >= CHUNK_BYTES || index + 1 - start == CHUNK_LINES {
            chunks.push(&lines[start..=index]);
            (start, length) = (index + 1, 0);
        }
    }
    if start < lines.len() {
        chunks.push(&lines[start..]);
    }
    chunks
}

/// Size of a line from which its values are estimated, in bytes.
const LONG_LINE_BYTES: usize = 1 << 20;

/// Number of values from which a line is read while no other such line is.
const MANY_VALUES: usize = 1 << 17;

/// Held while a line with many values is read.
static MANY_VALUES_READ: Mutex<()> = Mutex::new(());

/// Waits for other chunks with a line of very many values, if `chunk` has one. The tree of such a
/// line takes up to fifty times its bytes, and each thread would have one at the same time. To be
/// held while the chunk is worked on.
pub(super) fn wait_if_many_values(bytes: &[u8], chunk: &[Line]) -> Option<MutexGuard<'static, ()>> {
    let has_many = |line: &Line| {
        let text = bytes.get(line.range.clone()).unwrap_or_default();
        // One of these is before each value but the first.
        let mut marks = memchr3_iter(b',', b'[', b':', text);
        text.len() >= LONG_LINE_BYTES && marks.nth(MANY_VALUES).is_some()
    };
    let is_large = chunk.iter().any(has_many);
    is_large.then(|| {
        MANY_VALUES_READ
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    })
}

/// Lines, and bytes of lines, that are found before they are worked on: at most so many of each.
const ROUND_LINES: usize = 1 << 20;
const ROUND_BYTES: usize = 256 << 20;

/// Runs `work` on chunks of `lines` as [`map_ordered`] does, and passes the results to `take` in
/// the order of the lines. Holds the lines of a round only, whatever the size of the input.
pub(super) fn map_lines<T: Send>(
    lines: impl Iterator<Item = Line>,
    threads: usize,
    work: &(dyn Fn(&[Line]) -> T + Sync),
    take: &mut dyn FnMut(T),
) {
    let mut lines = lines;
    loop {
        let (mut round, mut bytes) = (Vec::new(), 0);
        while round.len() < ROUND_LINES
            && bytes < ROUND_BYTES
            && let Some(line) = lines.next()
        {
            bytes += line.range.len();
            round.push(line);
        }
        if round.is_empty() {
            return;
        }
        let work = |chunk: &&[Line]| work(chunk);
        map_ordered(&chunk_lines(&round), threads, &work, &mut |_, part| {
            take(part)
        });
    }
}

/// Runs `work` on each item, on `threads` threads, and passes the results to `take` on the calling
/// thread, in the order of the items and while other items are still worked on.
///
/// Results are buffered for at most two items per thread. A panic of `work` is resumed on the
/// calling thread.
pub(super) fn map_ordered<'p, P: Sync, T: Send>(
    items: &'p [P],
    threads: usize,
    work: &(dyn Fn(&'p P) -> T + Sync),
    take: &mut dyn FnMut(&'p P, T),
) {
    let threads = threads.clamp(1, items.len().max(1));
    if threads == 1 {
        return items.iter().for_each(|item| take(item, work(item)));
    }
    thread::scope(|scope| {
        let start = |first: usize| {
            let (sender, results) = mpsc::sync_channel(1);
            // A failed send means that the receiver was dropped: the remaining work is not needed.
            let run = move || {
                items
                    .iter()
                    .skip(first)
                    .step_by(threads)
                    .all(|item| sender.send(work(item)).is_ok())
            };
            (scope.spawn(run), results)
        };
        let (running, results): (Vec<_>, Vec<_>) = (0..threads).map(start).unzip();
        for (item, results) in items.iter().zip(results.iter().cycle()) {
            // The sender of a thread that panicked is gone; the panic is resumed below.
            let Ok(result) = results.recv() else { break };
            take(item, result);
        }
        drop(results);
        for thread in running {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: u64) -> Vec<Line> {
        (0..count)
            .map(|number| Line {
                number,
                range: 0..0,
            })
            .collect()
    }

    #[test]
    fn results_are_in_input_order_for_any_number_of_threads() {
        let lines = numbered(40);
        let chunks: Vec<&[Line]> = lines.chunks(3).collect();
        for threads in [1, 2, 3, 50] {
            let mut results = Vec::new();
            let work = |chunk: &&[Line]| {
                // The first chunks take longest.
                thread::sleep(std::time::Duration::from_millis(2 - chunk[0].number / 20));
                chunk.iter().map(|line| line.number).collect::<Vec<_>>()
            };
            map_ordered(&chunks, threads, &work, &mut |chunk, numbers| {
                assert_eq!(chunk[0].number, numbers[0]);
                results.extend(numbers);
            });
            assert!(results.into_iter().eq(0..40), "{threads}");
        }
        map_ordered(&[(); 0], 4, &|_| (), &mut |_, ()| {
            panic!("called without an item")
        });
    }

    #[test]
    fn chunks_of_short_lines_have_a_bounded_number_of_lines() {
        let lines = numbered(2 * CHUNK_LINES as u64 + 1);
        let lengths: Vec<usize> = chunk_lines(&lines)
            .iter()
            .map(|chunk| chunk.len())
            .collect();
        assert_eq!(lengths, [CHUNK_LINES, CHUNK_LINES, 1]);
    }

    #[test]
    fn lines_of_many_values_are_read_one_after_the_other() {
        let waits = |text: &str| {
            let line = Line {
                number: 1,
                range: 0..text.len(),
            };
            wait_if_many_values(text.as_bytes(), &[line]).is_some()
        };
        assert!(waits(&format!("[{}0]", "0,".repeat(LONG_LINE_BYTES))));
        assert!(!waits(&format!("[{}0]", "0,".repeat(1000))));
        assert!(!waits(&format!(
            "[\"{}\"]",
            "ab, ".repeat(LONG_LINE_BYTES / 40)
        )));
        assert!(!waits(&format!(
            "[\"{}\"]",
            "a".repeat(2 * LONG_LINE_BYTES)
        )));
    }

    #[test]
    fn lines_of_several_rounds_are_worked_on_in_order() {
        let line = |number| Line {
            number,
            range: 0..ROUND_BYTES / 3,
        };
        for (lines, expected) in [
            ((0..20).map(line).collect(), 20),
            (numbered(ROUND_LINES as u64 + 3), ROUND_LINES as u64 + 3),
            (numbered(0), 0),
        ] {
            let mut found = Vec::new();
            let numbers = |chunk: &[Line]| chunk.iter().map(|line| line.number).collect::<Vec<_>>();
            map_lines(lines.into_iter(), 2, &numbers, &mut |part| {
                found.extend(part)
            });
            assert!(found.into_iter().eq(0..expected));
        }
    }

    #[test]
    #[should_panic(expected = "chunk 3")]
    fn a_panic_of_a_worker_is_resumed() {
        let lines = numbered(9);
        let chunks: Vec<&[Line]> = lines.chunks(1).collect();
        let work = |chunk: &&[Line]| assert_ne!(chunk[0].number, 3, "chunk 3");
        map_ordered(&chunks, 2, &work, &mut |_, ()| {});
    }
}

//! Finds byte strings at every stride-th position of the searched bytes.

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ops::Range;

use super::window::{MAX_WINDOW, WindowClass, bytes_at, low_bytes, wide_at};
use crate::bloom::BloomFilter;

/// Finds byte strings that are longer than a window of a few bytes. Each is filed under the windows
/// at `stride` consecutive offsets, one of which is at a multiple of the stride wherever the string
/// occurs. So only every `stride`-th position of the searched bytes is examined.
#[derive(Debug, Default)]
pub(super) struct StridedFinder<C> {
    /// The byte strings, concatenated.
    patterns: Vec<u8>,
    /// The number and the end of each.
    ends: Vec<(u32, usize)>,
    stride: usize,
    /// Length of a window in bytes, at most eight.
    width: usize,
    /// Sorted by bytes, and then as [`StridedFinder::verify_candidate`] searches them.
    windows: Vec<Window>,
    /// Bloom filters for windows below eight bytes: of the eight bytes that end with the window,
    /// and of the windows alone, for patterns with fewer bytes before them.
    wide: BloomFilter,
    leading: BloomFilter,
    /// Bloom filters of the windows of each class. The class that nearly all searched bytes belong
    /// to has the smaller filter, which stays in the cache.
    filters: [BloomFilter; 2],
    class: PhantomData<C>,
}

/// A window of a pattern.
#[derive(Debug, Clone, Copy)]
struct Window {
    bytes: u64,
    /// Its offset in the pattern.
    offset: u32,
    /// Length of the pattern in bytes.
    length: u32,
    /// Index of the pattern in [`StridedFinder::ends`].
    pattern: u32,
}

/// Maximal number of windows, unless there are more patterns; each takes 24 bytes.
const MAX_WINDOWS: usize = 4 << 20;

/// Number of buckets in the table of window frequencies.
const FREQUENCY_BUCKETS: usize = 1 << 16;

/// Returns the bucket of `window` in [`StridedFinder::window_frequencies`].
fn frequency_bucket(window: u64) -> usize {
    (window.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % FREQUENCY_BUCKETS
}

impl<C: WindowClass + Default> StridedFinder<C> {
    /// Compiles `patterns`, which have numbers and at least `width` bytes.
    pub(super) fn new(
        patterns: impl IntoIterator<Item = (u32, Vec<u8>)>,
        width: usize,
    ) -> StridedFinder<C> {
        let mut finder = StridedFinder {
            width,
            ..StridedFinder::default()
        };
        let mut shortest = usize::MAX;
        for (number, pattern) in patterns {
            shortest = shortest.min(pattern.len());
            finder.patterns.extend(pattern);
            finder.ends.push((number, finder.patterns.len()));
        }
        if finder.ends.is_empty() {
            return finder;
        }
        finder.stride = (shortest + 1 - width)
            .min(MAX_WINDOWS / finder.ends.len())
            .max(1);
        let frequencies = finder.window_frequencies();
        for pattern in 0..finder.ends.len() as u32 {
            finder.add_windows(pattern, &frequencies);
        }
        finder.sort_windows();
        finder
    }

    /// Returns true if there are no patterns.
    pub(super) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Adds the windows of `pattern` at the offsets of one stride.
    fn add_windows(&mut self, pattern: u32, frequencies: &[u32]) {
        let length = self.text(pattern).len() as u32;
        let first = self.rarest_offset(pattern, frequencies);
        for offset in first..first + self.stride {
            let text = self.text(pattern);
            let Some(bytes) = bytes_at(text, offset, self.width) else {
                continue;
            };
            match wide_at(text, offset, self.width) {
                _ if self.width == MAX_WINDOW => {}
                Some(wide) => self.wide.insert(wide),
                None => self.leading.insert(bytes),
            }
            self.filters[usize::from(C::of(bytes))].insert(bytes);
            self.windows.push(Window {
                bytes,
                offset: offset as u32,
                length,
                pattern,
            });
        }
    }

    fn sort_windows(&mut self) {
        let mut windows = std::mem::take(&mut self.windows);
        windows.sort_unstable_by(|left, right| {
            let key = |it: &Window| (it.bytes, it.offset, it.length);
            key(left)
                .cmp(&key(right))
                .then_with(|| self.text(left.pattern).cmp(self.text(right.pattern)))
        });
        self.windows = windows;
    }

    /// Counts the patterns that contain each window, by [`frequency_bucket`].
    fn window_frequencies(&self) -> Vec<u32> {
        let mut frequencies = vec![0; FREQUENCY_BUCKETS];
        for pattern in 0..self.ends.len() as u32 {
            let text = self.text(pattern);
            let windows = (0..text.len()).map_while(|offset| bytes_at(text, offset, self.width));
            windows.for_each(|window| frequencies[frequency_bucket(window)] += 1);
        }
        frequencies
    }

    /// Returns the offset of the consecutive windows of a pattern that the fewest patterns share.
    /// Of ten thousand names many begin alike, and so do names in the searched bytes that aren't
    /// searched for.
    fn rarest_offset(&self, pattern: u32, frequencies: &[u32]) -> usize {
        let text = self.text(pattern);
        let frequency_at = |offset: usize| {
            bytes_at(text, offset, self.width).map_or(0, |it| frequencies[frequency_bucket(it)])
        };
        let most = |first: &usize| (*first..first + self.stride).map(frequency_at).max();
        let last = (text.len() + 1).saturating_sub(self.width + self.stride);
        (0..=last).rev().min_by_key(most).unwrap_or_default()
    }

    /// Returns the bytes of a pattern.
    fn text(&self, pattern: u32) -> &[u8] {
        let end = |pattern: usize| self.ends.get(pattern).map_or(0, |(_, end)| *end);
        let start = (pattern as usize).checked_sub(1).map_or(0, end);
        self.patterns
            .get(start..end(pattern as usize))
            .unwrap_or_default()
    }

    /// Calls `note` for every occurrence of a pattern in `bytes`, with the pattern's number.
    pub(super) fn find(&self, bytes: &[u8], mut note: impl FnMut(u32, Range<usize>)) {
        if self.windows.is_empty() {
            return;
        }
        let mut at = 0;
        while let Some((place, window)) = self.next_candidate(bytes, at) {
            if self.wide_window_may_match(bytes, place, window) {
                self.verify_candidate(bytes, place, window, &mut note);
            }
            at = place + self.stride;
        }
    }

    /// Returns the first position from `at` on, in steps of the stride, whose window passes the
    /// Bloom filter, with that window.
    ///
    /// A separate function, so that the registers are available to the loop over all bytes.
    #[inline(never)]
    fn next_candidate(&self, bytes: &[u8], mut at: usize) -> Option<(usize, u64)> {
        let (stride, mask) = (self.stride, low_bytes(self.width));
        let [likely, rare] = &self.filters;
        // The class of the next window is unpredictable: select without a branch.
        let may_match =
            |window| select_unpredictable(C::of(window), rare, likely).may_contain(window);
        while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
            let window = u64::from_le_bytes(*eight) & mask;
            if may_match(window) {
                return Some((at, window));
            }
            at += stride;
        }
        while let Some(window) = bytes_at(bytes, at, self.width) {
            if may_match(window) {
                return Some((at, window));
            }
            at += stride;
        }
        None
    }

    /// Returns whether a pattern may have the bytes that `bytes` have up to the end of `window`,
    /// which is at `at`.
    fn wide_window_may_match(&self, bytes: &[u8], at: usize, window: u64) -> bool {
        self.width == MAX_WINDOW
            || wide_at(bytes, at, self.width).is_some_and(|wide| self.wide.may_contain(wide))
            || self.leading.may_contain(window)
    }

    /// Calls `note` for the patterns that occur around the position `at` of `bytes`, where `window`
    /// is.
    ///
    /// Thousands of identifiers may begin alike. Patterns of one length that have the window at the
    /// same offset are sorted by their bytes, so that the bytes at hand are found by binary search.
    fn verify_candidate(
        &self,
        bytes: &[u8],
        at: usize,
        window: u64,
        note: &mut impl FnMut(u32, Range<usize>),
    ) {
        let first = self.windows.partition_point(|known| known.bytes < window);
        let mut rest = self.windows.get(first..).unwrap_or_default();
        while let Some(Window { offset, length, .. }) =
            rest.first().copied().filter(|known| known.bytes == window)
        {
            let end = rest.partition_point(|known| {
                (known.bytes, known.offset, known.length) <= (window, offset, length)
            });
            let (candidates, others) = rest.split_at(end);
            rest = others;
            let Some(start) = at.checked_sub(offset as usize) else {
                continue;
            };
            let Some(found) = bytes.get(start..start + length as usize) else {
                continue;
            };
            let place = candidates.partition_point(|known| self.text(known.pattern) < found);
            let same = candidates
                .iter()
                .skip(place)
                .take_while(|known| self.text(known.pattern) == found);
            for (number, _) in same.filter_map(|known| self.ends.get(known.pattern as usize)) {
                note(*number, start..start + found.len());
            }
        }
    }
}

//! Windows of a few bytes, and their division into two classes.

/// Minimal length of a window in bytes.
pub(super) const MIN_WINDOW: usize = 4;

/// Maximal length of a window in bytes: the longer, the fewer texts share it. Where a narrower
/// window is found, this many bytes up to its end are compared too, if the pattern has them.
pub(super) const MAX_WINDOW: usize = 8;

/// Minimal stride, for patterns that have room for a window and a stride.
pub(super) const MIN_STRIDE: usize = 3;

/// Length of a pattern that has room for a window and a stride.
pub(super) const LONG_PATTERN: usize = MIN_WINDOW + MIN_STRIDE - 1;

/// Divides windows into two classes.
pub(super) trait WindowClass {
    /// Returns the class of `window`.
    fn of(window: u64) -> bool;
}

/// A single class.
#[derive(Debug, Default)]
pub(super) struct AnyBytes;

impl WindowClass for AnyBytes {
    fn of(_: u64) -> bool {
        false
    }
}

/// Windows with at most one byte that isn't ASCII, as those of grains and texts mostly are. One in
/// thirty windows of digests is in this class.
#[derive(Debug, Default)]
pub(super) struct NearlyAscii;

impl WindowClass for NearlyAscii {
    fn of(window: u64) -> bool {
        let beyond = window & 0x8080_8080_8080_8080;
        beyond & beyond.wrapping_sub(1) == 0
    }
}

/// Windows of lower-case hex digits, and few others: the upper half of each byte is 3 or 6.
#[derive(Debug, Default)]
pub(super) struct Hex;

impl WindowClass for Hex {
    fn of(window: u64) -> bool {
        window & 0xa0a0_a0a0_a0a0_a0a0 == 0x2020_2020_2020_2020
            && (window ^ window >> 2) & 0x1010_1010_1010_1010 == 0x1010_1010_1010_1010
    }
}

/// Returns the `width` (at most eight) bytes at `at`, if there are so many.
pub(super) fn bytes_at(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let rest = bytes.get(at..)?;
    let eight = match rest.first_chunk() {
        Some(eight) => *eight,
        None => {
            let mut eight = [0; 8];
            eight
                .get_mut(..rest.len())
                .filter(|_| rest.len() >= width)?
                .copy_from_slice(rest);
            eight
        }
    };
    Some(u64::from_le_bytes(eight) & low_bytes(width))
}

/// Returns a mask of the lowest `width` bytes, at most eight.
pub(super) fn low_bytes(width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width)
}

/// Returns the [`MAX_WINDOW`] bytes that end with the window of `width` bytes at `at`, if there are
/// so many.
pub(super) fn wide_at(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    bytes_at(bytes, (at + width).checked_sub(MAX_WINDOW)?, MAX_WINDOW)
}

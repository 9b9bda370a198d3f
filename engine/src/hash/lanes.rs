//! The lanes: schedules the blocks of messages, and pads the messages.
//!
//! Safe and portable code. The instructions of the CPU are behind [`Compressor`].

use super::Digest;

/// The input of one step of SHA-256.
pub(super) type Block = [u8; 64];

/// The eight words of the hash of a message so far, in the order that its [`Compressor`] prefers.
///
/// Aligned, so that no state lies across two cache lines.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct State(pub(super) [u32; 8]);

/// The compression function of SHA-256 (FIPS 180-4, section 6.2.2) for several messages at once.
pub(super) trait Compressor: Copy {
    /// The state before the first block.
    const INITIAL: State;

    /// Compresses `blocks[i]` into `states[i]`.
    fn compress<const N: usize>(self, states: &mut [State; N], blocks: &[&Block; N]);

    /// Returns the hash of a message after its last block.
    fn digest(self, state: &State) -> Digest;

    /// Prefetches a cache line. The address need not be valid.
    fn prefetch(self, address: *const u8);
}

/// Messages hashed in parallel: the fewest that hide the latency of the rounds.
const LANES: usize = 3;

/// Number of messages by which prefetching is ahead of hashing. Eight take about a microsecond.
const PREFETCH_MESSAGES: usize = 8;

/// Number of blocks of a message that are prefetched: a page. From there the CPU's own prefetcher
/// has seen the stream.
const PREFETCH_BLOCKS: usize = 64;

/// The most that padding adds after a message's last byte, length left out: a one bit, then zeros.
const PADDING: [u8; 128] = {
    let mut padding = [0; 128];
    padding[0] = 0x80;
    padding
};

/// Hashes message after message: `digests[i]` becomes the hash of `message(i)`.
///
/// Inlined, so that the caller's target features hold for the copies in [`Lane::start`] too.
#[inline(always)]
pub(super) fn hash_each<'m, C: Compressor>(
    compressor: C,
    digests: &mut [Digest],
    message: impl Fn(usize) -> &'m [u8],
) {
    let count = digests.len();
    let message = |number| if number < count { message(number) } else { &[] };
    let mut lanes = Lanes::new(compressor);
    let mut active = count.min(LANES);
    let mut next = active;
    for number in 0..active {
        lanes.start(number, number, message);
    }
    while let Some((lane, steps)) = lanes.first_to_end(active) {
        match active {
            1 => lanes.advance::<1>(steps),
            2 => lanes.advance::<2>(steps),
            _ => lanes.advance::<LANES>(steps),
        }
        lanes.finish(lane, digests);
        if next < count {
            lanes.start(lane, next, message);
            next += 1;
        } else {
            active -= 1;
            lanes.swap(lane, active);
        }
    }
}

/// All lanes. Those in use come first.
struct Lanes<'m, C> {
    compressor: C,
    states: [State; LANES],
    lanes: [Lane<'m>; LANES],
}

impl<'m, C: Compressor> Lanes<'m, C> {
    #[inline(always)]
    fn new(compressor: C) -> Self {
        Self {
            compressor,
            states: [C::INITIAL; LANES],
            lanes: [Lane::EMPTY; LANES],
        }
    }

    /// Starts the next message in a lane, with the message that it prefetches.
    #[inline(always)]
    fn start(&mut self, lane: usize, number: usize, message: impl Fn(usize) -> &'m [u8]) {
        let ahead = message(number + PREFETCH_MESSAGES);
        self.compressor.prefetch(ahead.as_ptr_range().end);
        self.states[lane] = C::INITIAL;
        self.lanes[lane].start(number, message(number), ahead);
    }

    /// Returns the lane whose message ends first, and in how many blocks. Nothing if no lane is
    /// active.
    #[inline(always)]
    fn first_to_end(&self, active: usize) -> Option<(usize, usize)> {
        self.lanes[..active]
            .iter()
            .map(Lane::blocks_left)
            .enumerate()
            .min_by_key(|&(_, blocks)| blocks)
    }

    /// Advances the first `N` lanes by `steps` blocks each.
    #[inline(always)]
    #[expect(
        clippy::expect_used,
        reason = "what is expected is asserted when this is compiled"
    )]
    fn advance<const N: usize>(&mut self, steps: usize) {
        const { assert!(N <= LANES) };
        let states = self
            .states
            .first_chunk_mut::<N>()
            .expect("N is at most LANES");
        let lanes = self
            .lanes
            .first_chunk_mut::<N>()
            .expect("N is at most LANES");
        for _ in 0..steps {
            for lane in lanes.iter() {
                self.compressor.prefetch(lane.line_ahead());
            }
            self.compressor
                .compress(states, &lanes.each_ref().map(Lane::block));
            for lane in lanes.iter_mut() {
                lane.at += 1;
            }
        }
    }

    /// Writes the digest of a message whose blocks are all hashed.
    #[inline(always)]
    fn finish(&self, lane: usize, digests: &mut [Digest]) {
        digests[self.lanes[lane].number] = self.compressor.digest(&self.states[lane]);
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.states.swap(a, b);
        self.lanes.swap(a, b);
    }
}

/// A message in progress.
struct Lane<'m> {
    /// Index of the message in the list.
    number: usize,
    /// The whole blocks of the message, in the caller's memory.
    body: &'m [Block],
    /// Blocks 1 and 2 hold the tail: the bytes after the body, and the padding. What is in 0 and 3
    /// has no meaning. They are there so that copies of fixed size fit whatever the message's
    /// length.
    tail: [Block; 4],
    /// Index of the next block in body and tail.
    at: usize,
    /// Number of blocks of body and tail.
    end: usize,
    /// The blocks to prefetch, which belong to a later message.
    ahead: &'m [Block],
}

impl<'m> Lane<'m> {
    const EMPTY: Self = Self {
        number: 0,
        body: &[],
        tail: [[0; 64]; 4],
        at: 0,
        end: 0,
        ahead: &[],
    };

    /// Starts a message and pads it (FIPS 180-4, section 5.1.1): a one bit, zeros, and the length
    /// in bits in the last eight bytes of a block.
    #[inline(always)]
    fn start(&mut self, number: usize, message: &'m [u8], ahead: &'m [u8]) {
        let (body, rest) = message.as_chunks();
        let (rest, tail_blocks) = (rest.len(), if rest.len() < 56 { 1 } else { 2 });
        let tail = self.tail.as_flattened_mut();
        match message.last_chunk::<64>() {
            // The rest then begins at block 1.
            Some(last) => tail[rest..][..64].copy_from_slice(last),
            None => tail[64..][..rest].copy_from_slice(message),
        }
        tail[64 + rest..][..128].copy_from_slice(&PADDING);
        let bits = (message.len() as u64) << 3;
        tail[64 * tail_blocks + 56..][..8].copy_from_slice(&bits.to_be_bytes());

        let (ahead, _) = ahead.as_chunks();
        let ahead = &ahead[..ahead.len().min(PREFETCH_BLOCKS)];
        (self.number, self.body, self.at, self.end, self.ahead) =
            (number, body, 0, body.len() + tail_blocks, ahead);
    }

    #[inline(always)]
    fn blocks_left(&self) -> usize {
        self.end - self.at
    }

    /// Returns the next block, which is meaningless in a lane that has ended.
    #[inline(always)]
    fn block(&self) -> &Block {
        let tail = &self.tail[1 + (self.at.wrapping_sub(self.body.len()) & 1)];
        self.body.get(self.at).unwrap_or(tail)
    }

    /// Returns the address to prefetch while the next block is hashed.
    #[inline(always)]
    fn line_ahead(&self) -> *const u8 {
        self.ahead
            .as_ptr()
            .wrapping_add(self.at.min(self.ahead.len()))
            .cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4, section 5.1.1, to the letter.
    fn padded(message: &[u8]) -> Vec<u8> {
        let mut padded = message.to_vec();
        padded.push(0x80);
        while padded.len() % 64 != 56 {
            padded.push(0);
        }
        padded.extend(8u64.strict_mul(message.len() as u64).to_be_bytes());
        padded
    }

    fn blocks(lane: &mut Lane) -> Vec<u8> {
        let mut blocks = Vec::new();
        while lane.blocks_left() > 0 {
            blocks.extend(lane.block());
            lane.at += 1;
        }
        blocks
    }

    #[test]
    fn a_lane_yields_its_message_padded_whatever_was_in_it_before() {
        let bytes: Vec<u8> = (0..=255).cycle().take(300).collect();
        for before in [0, 55, 63, 64, 127, 300] {
            for length in 0..bytes.len() {
                let mut lane = Lane::EMPTY;
                lane.start(0, &bytes[..before], &[]);
                blocks(&mut lane);
                lane.start(1, &bytes[..length], &[]);
                assert_eq!(
                    blocks(&mut lane),
                    padded(&bytes[..length]),
                    "{length} bytes after {before}"
                );
            }
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_length_of_a_message_over_four_gibibytes_is_written_whole() {
        let length = (4 << 30) + 3; // never read but for its last page
        let message = memmap2::MmapMut::map_anon(length).unwrap();
        let mut lane = Lane::EMPTY;
        lane.start(0, &message, &[]);
        assert_eq!(lane.end, (64 << 20) + 1);
        lane.at = lane.end - 1;
        assert_eq!(lane.block()[56..], (8 * length as u64).to_be_bytes());
    }

    #[test]
    fn what_is_prefetched_never_lies_beyond_the_first_page_of_the_message_ahead() {
        let ahead = [0; 10_000];
        for (length, furthest) in [
            (0, 0),
            (63, 0),
            (64, 64),
            (1_000, 960),
            (4_096, 4_096),
            (10_000, 4_096),
        ] {
            let mut lane = Lane::EMPTY;
            lane.start(0, &[], &ahead[..length]);
            lane.at = 1_000_000;
            assert_eq!(
                lane.line_ahead().addr() - ahead.as_ptr().addr(),
                furthest,
                "{length} bytes"
            );
        }
    }
}

//! One order of statements in packed blocks, with random access to single statements.

use super::{TermIds, TripleOrder};

/// Number of statements per block.
pub(super) const BLOCK: usize = 128;

/// Length of a block's header in bytes: the first statement's three parts, the minimum of the
/// second part, third part and row, four bit widths, four zero bytes, and the start of its packed
/// bytes.
pub(super) const HEAD: usize = 12 + 12 + 4 + 4 + 8;

/// Bytes after the last block, so that every value can be read as part of eight bytes.
const SLACK: usize = 8;

/// Headers and packed blocks of one order.
#[derive(Debug, Default)]
pub(super) struct PackedOrder {
    pub(super) heads: Vec<u8>,
    pub(super) blocks: Vec<u8>,
}

/// Packs `entries`, which are sorted in `order`. One pass.
pub(super) fn pack(entries: &[TermIds], order: TripleOrder) -> PackedOrder {
    let mut packed = PackedOrder::default();
    for block in entries.chunks(BLOCK) {
        pack_block(block, order, &mut packed);
    }
    packed.blocks.extend([0; SLACK]);
    packed
}

fn pack_block(block: &[TermIds], order: TripleOrder, packed: &mut PackedOrder) {
    let [first, second, third] = order.roles().map(|role| role as usize);
    let places = [first, second, third, ROW];
    let least = places.map(|place| {
        block
            .iter()
            .map(|entry| entry[place])
            .min()
            .unwrap_or_default()
    });
    let most = places.map(|place| {
        block
            .iter()
            .map(|entry| entry[place])
            .max()
            .unwrap_or_default()
    });
    let head = block.first().copied().unwrap_or_default();
    for value in [
        head[first],
        head[second],
        head[third],
        least[1],
        least[2],
        least[3],
    ] {
        packed.heads.extend(value.to_le_bytes());
    }
    let widths: [u8; 4] =
        std::array::from_fn(|at| (u32::BITS - (most[at] - least[at]).leading_zeros()) as u8);
    packed.heads.extend(widths);
    packed.heads.extend([0; 4]);
    packed
        .heads
        .extend((packed.blocks.len() as u64).to_le_bytes());
    for at in 0..4 {
        pack_values(
            block.iter().map(|entry| entry[places[at]] - least[at]),
            widths[at],
            &mut packed.blocks,
        );
    }
}

/// Index of the row in [`TermIds`].
const ROW: usize = 3;

fn pack_values(values: impl Iterator<Item = u32>, width: u8, out: &mut Vec<u8>) {
    let (mut pending, mut bits) = (0_u64, 0);
    for value in values {
        pending |= u64::from(value) << bits;
        bits += u32::from(width);
        while bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(pending as u8);
    }
}

/// One order of an open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderBlocks<'b> {
    /// Number of statements.
    pub(super) count: usize,
    pub(super) heads: &'b [u8],
    pub(super) blocks: &'b [u8],
}

/// The parsed header of a block.
struct BlockHeader {
    first: [u32; 3],
    least: [u32; 4],
    widths: [u8; 4],
    /// Start of the values of each part.
    starts: [usize; 4],
}

impl OrderBlocks<'_> {
    /// Returns the statement at `place`: its parts, the most significant first, and its row.
    pub(super) fn get(&self, place: usize) -> Option<TermIds> {
        let head = self.head(place / BLOCK)?;
        Some(std::array::from_fn(|part| {
            self.value(&head, part, place % BLOCK)
        }))
    }

    /// Returns the row of the statement at `place`.
    pub(super) fn row(&self, place: usize) -> Option<u32> {
        Some(self.value(&self.head(place / BLOCK)?, ROW, place % BLOCK))
    }

    /// Appends the rows of the statements in `places` to `rows`.
    pub(super) fn rows(&self, places: std::ops::Range<usize>, rows: &mut Vec<u32>) {
        let mut place = places.start;
        while place < places.end {
            let Some(head) = self.head(place / BLOCK) else {
                return;
            };
            let end = places.end.min((place / BLOCK + 1) * BLOCK);
            rows.extend((place..end).map(|place| self.value(&head, ROW, place % BLOCK)));
            place = end;
        }
    }

    /// Returns the number of statements before those that begin with `prefix`; with `after`, also
    /// counts the latter. Two binary searches: over the headers, and in one block.
    pub(super) fn bound(&self, prefix: &[u32], after: bool) -> usize {
        let is_before = |parts: &[u32]| is_before(parts, prefix, after);
        let blocks = self.heads.len() / HEAD;
        let begun = partition_point(blocks, |block| {
            self.first(block).is_some_and(|first| is_before(&first))
        });
        let Some(block) = begun.checked_sub(1) else {
            return 0;
        };
        let Some(head) = self.head(block) else {
            return 0;
        };
        let length = self.length_of(block);
        let inside = partition_point(length, |place| {
            is_before(&std::array::from_fn::<u32, 3, _>(|part| {
                self.value(&head, part, place)
            }))
        });
        block * BLOCK + inside
    }

    fn length_of(&self, block: usize) -> usize {
        self.count.saturating_sub(block * BLOCK).min(BLOCK)
    }

    fn first(&self, block: usize) -> Option<[u32; 3]> {
        let head = self.heads.get(block * HEAD..)?;
        Some(std::array::from_fn(|part| read_u32(head, 4 * part)))
    }

    fn head(&self, block: usize) -> Option<BlockHeader> {
        let head = self.heads.get(block * HEAD..(block + 1) * HEAD)?;
        let first: [u32; 3] = std::array::from_fn(|part| read_u32(head, 4 * part));
        let least = [
            first[0],
            read_u32(head, 12),
            read_u32(head, 16),
            read_u32(head, 20),
        ];
        let widths = *head.get(24..)?.first_chunk::<4>()?;
        let start = u64::from_le_bytes(*head.get(32..)?.first_chunk()?) as usize;
        Some(BlockHeader {
            first,
            least,
            widths,
            starts: starts_of(widths, start, self.length_of(block)),
        })
    }

    /// Returns the value of `part` at `place` of the block with `head`.
    fn value(&self, head: &BlockHeader, part: usize, place: usize) -> u32 {
        let width = u32::from(head.widths[part]);
        if width == 0 {
            return if part == 0 {
                head.first[0]
            } else {
                head.least[part]
            };
        }
        let bit = place * width as usize;
        let bytes = self
            .blocks
            .get(head.starts[part].saturating_add(bit / 8)..)
            .and_then(|rest| rest.first_chunk());
        let word = u64::from_le_bytes(bytes.copied().unwrap_or_default()) >> (bit % 8);
        let mask = u64::MAX >> (u64::BITS - width.min(u32::BITS));
        head.least[part].wrapping_add((word & mask) as u32)
    }
}

/// Returns the first of `0..count` for which `is_before` doesn't hold.
pub(super) fn partition_point(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Returns the integer at `at`; 0 beyond the end, which doesn't occur in a checked file.
fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// Returns the start of the values of each part, of which the first begin at `start`, in a block of
/// `length` statements.
fn starts_of(widths: [u8; 4], mut start: usize, length: usize) -> [usize; 4] {
    widths.map(|width| {
        let own = start;
        start = start.saturating_add((usize::from(width) * length).div_ceil(8));
        own
    })
}

/// Returns whether `parts` are ordered before `prefix`; parts that begin with it are if `after`.
fn is_before(parts: &[u32], prefix: &[u32], after: bool) -> bool {
    let mut pairs = parts.iter().zip(prefix);
    match pairs.find(|(part, wanted)| part != wanted) {
        Some((part, wanted)) => part < wanted,
        None => after,
    }
}

//! An open hexastore: which rows match a pattern, and how many.

use std::error::Error;
use std::ops::Range;

use gristmill_connectors::source::SourceBytes;

use super::blocks::{BLOCK, HEAD, OrderBlocks, partition_point};
use super::{CHECKSUM, HEADER, HEXASTORE_FILE, MAGIC, TripleOrder, TriplePattern};
use crate::segment::Sidecar;

/// Why a hexastore can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hexastore is damaged: {0}")]
pub struct DamagedHexastore(&'static str);

/// The hexastore of one segment, borrowing its file's bytes.
#[derive(Debug)]
pub struct Hexastore {
    bytes: SourceBytes,
    rows: u64,
    terms: usize,
    /// Byte range of the terms.
    text: Range<usize>,
    triples: StatementSet,
    partial: StatementSet,
}

/// Triples, or partial statements.
#[derive(Debug)]
struct StatementSet {
    count: usize,
    /// Byte ranges of the headers and the packed blocks, by order.
    orders: [(Range<usize>, Range<usize>); 6],
}

/// A statement that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement<'h> {
    /// The subject.
    pub subject: &'h str,
    /// The relation.
    pub relation: &'h str,
    /// The object.
    pub object: &'h str,
    /// The row that states it.
    pub row: u32,
}

/// The triples that match a pattern: a range of one order.
#[derive(Debug, Clone)]
pub struct Matches<'h> {
    store: &'h Hexastore,
    order: TripleOrder,
    places: Range<usize>,
}

impl Hexastore {
    /// Opens the hexastore in `bytes` and verifies its checksum. Reads every byte.
    ///
    /// # Errors
    /// [`DamagedHexastore`] if it isn't intact.
    pub fn open(bytes: SourceBytes) -> Result<Hexastore, DamagedHexastore> {
        let layout = HexastoreLayout::checked(&bytes)?;
        // The check has read every page; a look-up needs few.
        bytes.release(0..bytes.len());
        let HexastoreLayout {
            rows,
            terms,
            text,
            triples,
            partial,
            ..
        } = layout;
        Ok(Hexastore {
            bytes,
            rows,
            terms,
            text,
            triples,
            partial,
        })
    }

    /// Returns the number of rows of the segment that it was built from.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of triples there are.
    pub fn len(&self) -> usize {
        self.triples.count
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.triples.count == 0
    }

    /// Returns the number of distinct subjects, relations and objects there are together.
    pub fn terms(&self) -> usize {
        self.terms
    }

    /// Returns the triples that match `pattern`. O(log n); the number of matches is known without
    /// reading them.
    pub fn find(&self, pattern: &TriplePattern<'_>) -> Matches<'_> {
        let order = TripleOrder::of(pattern);
        Matches {
            store: self,
            order,
            places: self.places(&self.triples, order, pattern),
        }
    }

    /// Returns the rows whose columns have the values of `pattern`, ascending, including rows of
    /// partial statements. O(log n + m log m) for m rows.
    pub fn rows_with(&self, pattern: &TriplePattern<'_>) -> Vec<u32> {
        let order = TripleOrder::of(pattern);
        let mut rows = Vec::new();
        for store in [&self.triples, &self.partial] {
            let places = self.places(store, order, pattern);
            rows.reserve(places.len());
            self.blocks(store, order).rows(places, &mut rows);
        }
        rows.sort_unstable();
        rows
    }

    /// Returns the statements of the rows of [`Hexastore::rows_with`], each with its row,
    /// unordered; a part that isn't stated is `None`. Each row occurs once.
    pub fn statements_with(
        &self,
        pattern: &TriplePattern<'_>,
    ) -> impl Iterator<Item = (u32, [Option<&str>; 3])> {
        let order = TripleOrder::of(pattern);
        [&self.triples, &self.partial]
            .into_iter()
            .flat_map(move |store| {
                let blocks = self.blocks(store, order);
                self.places(store, order, pattern).map(move |place| {
                    let entry = blocks.get(place).unwrap_or_default();
                    let mut parts = [None; 3];
                    for (role, number) in order.roles().into_iter().zip(entry) {
                        parts[role as usize] =
                            ((number as usize) < self.terms).then(|| self.term(number));
                    }
                    (entry[3], parts)
                })
            })
    }

    /// Returns the number of rows of [`Hexastore::rows_with`]. O(log n).
    pub fn count_with(&self, pattern: &TriplePattern<'_>) -> usize {
        let order = TripleOrder::of(pattern);
        [&self.triples, &self.partial]
            .into_iter()
            .map(|store| self.places(store, order, pattern).len())
            .sum()
    }

    fn places(
        &self,
        store: &StatementSet,
        order: TripleOrder,
        pattern: &TriplePattern<'_>,
    ) -> Range<usize> {
        let parts = pattern.parts();
        let mut prefix = [0; 3];
        let mut known = 0;
        for part in order
            .roles()
            .into_iter()
            .map_while(|role| parts[role as usize])
        {
            let Some(number) = self.number_of(part) else {
                return 0..0;
            };
            prefix[known] = number;
            known += 1;
        }
        let (blocks, prefix) = (self.blocks(store, order), &prefix[..known]);
        if prefix.is_empty() {
            0..store.count
        } else {
            blocks.bound(prefix, false)..blocks.bound(prefix, true)
        }
    }

    fn blocks(&self, store: &StatementSet, order: TripleOrder) -> OrderBlocks<'_> {
        let (heads, blocks) = &store.orders[order as usize];
        let part = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        OrderBlocks {
            count: store.count,
            heads: part(heads),
            blocks: part(blocks),
        }
    }

    /// Returns the id of `term`, if a statement contains it.
    fn number_of(&self, term: &str) -> Option<u32> {
        let place = partition_point(self.terms, |number| {
            self.term_bytes(number) < term.as_bytes()
        });
        (place < self.terms && self.term_bytes(place) == term.as_bytes()).then_some(place as u32)
    }

    fn term(&self, number: u32) -> &str {
        std::str::from_utf8(self.term_bytes(number as usize)).unwrap_or_default()
    }

    fn term_bytes(&self, number: usize) -> &[u8] {
        term_at(&self.bytes, self.text.start, number)
    }
}

/// The terms of an intact hexastore, which are all bytes between the first and the last.
#[derive(Debug)]
pub(crate) struct HexastoreTerms<'h> {
    bytes: &'h [u8],
    count: usize,
    text: Range<usize>,
}

impl<'h> HexastoreTerms<'h> {
    /// Returns the terms of the hexastore in `bytes`, and verifies its checksum. `None` if it isn't
    /// intact, or if some bytes between its terms belong to none. Reads every byte.
    pub(crate) fn of(bytes: &'h [u8]) -> Option<HexastoreTerms<'h>> {
        let layout = HexastoreLayout::checked(bytes).ok()?;
        let (count, text) = (layout.terms, layout.text);
        let last = count.checked_sub(1).map_or(0, |last| end_of(bytes, last));
        let ascends = (1..count).all(|number| end_of(bytes, number - 1) <= end_of(bytes, number));
        (ascends && last == text.len()).then_some(HexastoreTerms { bytes, count, text })
    }

    /// Returns the number of terms.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the byte range of all terms together.
    pub(crate) fn range(&self) -> Range<usize> {
        self.text.clone()
    }

    /// Returns the term `number`; an empty one from [`HexastoreTerms::count`] on.
    pub(crate) fn get(&self, number: usize) -> &'h [u8] {
        match number < self.count {
            true => term_at(self.bytes, self.text.start, number),
            false => &[],
        }
    }
}

/// Returns the term `number` of the hexastore in `bytes`, whose terms begin at `start`.
fn term_at(bytes: &[u8], start: usize, number: usize) -> &[u8] {
    let from = number
        .checked_sub(1)
        .map_or(0, |before| end_of(bytes, before));
    bytes
        .get(start + from..start + end_of(bytes, number))
        .unwrap_or_default()
}

/// Returns where the term `number` ends, from the start of the first.
fn end_of(bytes: &[u8], number: usize) -> usize {
    read_u40(bytes, HEADER + 5 * number)
}

impl<'h> Matches<'h> {
    /// Returns the exact number of matches.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Iterates over the triples, sorted by the parts that the pattern leaves open. Reads lazily.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Statement<'h>> + use<'h> {
        let (store, order) = (self.store, self.order);
        let blocks = store.blocks(&store.triples, order);
        self.places.clone().map(move |place| {
            let entry = blocks.get(place).unwrap_or_default();
            let mut parts = [""; 3];
            for (role, number) in order.roles().into_iter().zip(entry) {
                parts[role as usize] = store.term(number);
            }
            let [subject, relation, object] = parts;
            Statement {
                subject,
                relation,
                object,
                row: entry[3],
            }
        })
    }

    /// Iterates over the rows of the triples, in the order of [`Matches::iter`].
    pub fn rows(&self) -> impl ExactSizeIterator<Item = u32> + use<'h> {
        let blocks = self.store.blocks(&self.store.triples, self.order);
        self.places
            .clone()
            .map(move |place| blocks.row(place).unwrap_or_default())
    }
}

/// Byte ranges of the parts of the file, computed from its header.
struct HexastoreLayout {
    rows: u64,
    terms: usize,
    text: Range<usize>,
    triples: StatementSet,
    partial: StatementSet,
    end: usize,
}

impl HexastoreLayout {
    /// Returns the layout of the file `bytes`, whose checksum it verifies.
    fn checked(bytes: &[u8]) -> Result<HexastoreLayout, DamagedHexastore> {
        if bytes.len() < HEADER + CHECKSUM {
            return Err(DamagedHexastore("shorter than its header"));
        }
        if !bytes.starts_with(MAGIC) {
            return Err(DamagedHexastore("other magic"));
        }
        let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
        if blake3::hash(content).as_bytes() != checksum {
            return Err(DamagedHexastore("checksum differs"));
        }
        let layout = HexastoreLayout::of(content).ok_or(DamagedHexastore("impossible counts"))?;
        match layout.end == content.len() {
            true => Ok(layout),
            false => Err(DamagedHexastore("cut or grown")),
        }
    }

    /// Returns `None` if the counts in the header are impossible.
    fn of(content: &[u8]) -> Option<HexastoreLayout> {
        let number = |at: usize| Some(u64::from_le_bytes(*content.get(8 * at..)?.first_chunk()?));
        let size = |at: usize| usize::try_from(number(at)?).ok();
        let (terms, bytes) = (size(2)?, size(3)?);
        let start = HEADER.checked_add(terms.checked_mul(5)?)?;
        let mut end = start.checked_add(bytes)?;
        let text = start..end;
        let mut store = |count: usize, first: usize| {
            let mut orders: [(Range<usize>, Range<usize>); 6] = Default::default();
            for (at, order) in orders.iter_mut().enumerate() {
                let heads = end..end.checked_add(count.div_ceil(BLOCK).checked_mul(HEAD)?)?;
                let blocks = heads.end..heads.end.checked_add(size(first + at)?)?;
                end = blocks.end;
                *order = (heads, blocks);
            }
            Some(StatementSet { count, orders })
        };
        let triples = store(size(4)?, 6)?;
        let partial = store(size(5)?, 12)?;
        Some(HexastoreLayout {
            rows: number(1)?,
            terms,
            text,
            triples,
            partial,
            end,
        })
    }
}

/// Returns the integer of five bytes at `at`; 0 beyond the end.
fn read_u40(bytes: &[u8], at: usize) -> usize {
    let mut word = [0; 8];
    if let Some(found) = bytes.get(at..).and_then(|rest| rest.first_chunk::<5>()) {
        word[..5].copy_from_slice(found);
    }
    u64::from_le_bytes(word) as usize
}

impl Sidecar for Hexastore {
    const FILE: &'static str = HEXASTORE_FILE;
    const NAME: &'static str = "hexastore";

    fn check(bytes: SourceBytes) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Hexastore::open(bytes)?)
    }

    fn segment_rows(&self) -> u64 {
        self.rows()
    }
}

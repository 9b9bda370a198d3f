//! The hexastore of a segment: its statements in all six orders (SPO, SOP, PSO, POS, OSP, OPS).
//!
//! Every row of the segment with a subject, a relation and an object is a *triple*; a row with only
//! one or two of them is a *partial* statement. Both kinds are stored in all six orders, so that
//! the rows that match any pattern are contiguous: two binary searches find the first and the last,
//! and their distance is the exact count. The parts are the values of the columns `subject`,
//! `relation` and `object` (a map object is its canonical JSON). Partial statements answer filters
//! on single columns; only triples answer patterns.
//!
//! ```text
//! "GMHEXA01"   magic                                                    8
//! rows         rows of the segment                                      u64
//! t, b         terms, and bytes of all terms                            u64 × 2
//! n, m         triples, and partial statements                          u64 × 2
//! packed       bytes of the packed blocks of each order                 u64 × 12
//! ends         where each term ends                                     u40 × t
//! terms        the distinct parts, ascending by their bytes             b
//! orders       of the triples, then of the partial statements: the blocks' heads, then the packed blocks
//! checksum     BLAKE3 of all before                                     32
//! ```
//!
//! An order is divided into blocks of 128 statements. A block's header has its first statement, and
//! the minimum of each part and the bit width of the offsets from it. The offsets are packed part
//! by part, so that each part can be read without the others. Integers are little-endian. The id of
//! a term is its index; the id after the last means "not stated".
//!
//! | module | contents |
//! |---|---|
//! | `build` | from columns to the file, on all cores |
//! | `blocks` | packing, reading and searching one order |
//! | `read` | which rows match a pattern, and how many? |

mod blocks;
mod build;
mod read;
#[cfg(test)]
mod tests;

pub use build::{StatementColumns, build};
pub(crate) use read::HexastoreTerms;
pub use read::{DamagedHexastore, Hexastore, Matches, Statement};

/// Name of the sidecar file.
pub(crate) const HEXASTORE_FILE: &str = "hexastore.bin";

const MAGIC: &[u8; 8] = b"GMHEXA01";

/// Length of the header in bytes.
const HEADER: usize = 8 * (1 + 5 + 12);

const CHECKSUM: usize = 32;

/// A position in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TripleRole {
    /// The column `subject`.
    Subject = 0,
    /// The column `relation`, which is the predicate of RDF.
    Relation = 1,
    /// The column `object`.
    Object = 2,
}

/// A triple pattern: the known parts of statements; `None` matches anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TriplePattern<'p> {
    /// The subject.
    pub subject: Option<&'p str>,
    /// The relation.
    pub relation: Option<&'p str>,
    /// The object.
    pub object: Option<&'p str>,
}

impl<'p> TriplePattern<'p> {
    /// Returns the known parts, in the order subject, relation, object.
    pub fn parts(&self) -> [Option<&'p str>; 3] {
        [self.subject, self.relation, self.object]
    }
}

impl<'p> From<[Option<&'p str>; 3]> for TriplePattern<'p> {
    fn from([subject, relation, object]: [Option<&'p str>; 3]) -> Self {
        TriplePattern {
            subject,
            relation,
            object,
        }
    }
}

/// A sort order of statements; P stands for the relation (predicate).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TripleOrder {
    /// Subject, relation (predicate), object.
    Spo = 0,
    /// Subject, object, relation.
    Sop = 1,
    /// Relation, subject, object.
    Pso = 2,
    /// Relation, object, subject.
    Pos = 3,
    /// Object, subject, relation.
    Osp = 4,
    /// Object, relation, subject.
    Ops = 5,
}

impl TripleOrder {
    /// All six, in the order of the file.
    pub const ALL: [TripleOrder; 6] = [
        TripleOrder::Spo,
        TripleOrder::Sop,
        TripleOrder::Pso,
        TripleOrder::Pos,
        TripleOrder::Osp,
        TripleOrder::Ops,
    ];

    /// Returns the roles, the most significant first.
    pub const fn roles(self) -> [TripleRole; 3] {
        use TripleRole::{Object, Relation, Subject};
        match self {
            TripleOrder::Spo => [Subject, Relation, Object],
            TripleOrder::Sop => [Subject, Object, Relation],
            TripleOrder::Pso => [Relation, Subject, Object],
            TripleOrder::Pos => [Relation, Object, Subject],
            TripleOrder::Osp => [Object, Subject, Relation],
            TripleOrder::Ops => [Object, Relation, Subject],
        }
    }

    /// Returns an order in which the statements that `pattern` matches are contiguous.
    pub const fn of(pattern: &TriplePattern<'_>) -> TripleOrder {
        match (
            pattern.subject.is_some(),
            pattern.relation.is_some(),
            pattern.object.is_some(),
        ) {
            (true, false, true) => TripleOrder::Sop,
            (true, _, _) | (false, false, false) => TripleOrder::Spo,
            (false, true, false) => TripleOrder::Pso,
            (false, true, true) => TripleOrder::Pos,
            (false, false, true) => TripleOrder::Osp,
        }
    }
}

/// A statement as term ids by role, and its row.
type TermIds = [u32; 4];

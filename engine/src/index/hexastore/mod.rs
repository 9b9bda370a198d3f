//! The hexastore of a segment: who says what of whom, found by any of the three.
//!
//! Every row of the segment that states a subject, a relation and an object is a *triple*; one that
//! states only one or two of them is a *partial* statement. Both kinds are kept in all six orders,
//! so that whatever part of a statement is known, the rows that state it are neighbours: a binary
//! search finds the first and the last, and their distance is the exact count. The parts are those
//! of the columns `subject`, `relation` and `object` (a map object is its canonical JSON). Partial
//! statements answer filters on single columns; only triples answer patterns.
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
//! An order is cut into blocks of 128 statements. A block's head has its first statement, the least
//! value of each part and how many bits the distances from that need; these are packed part by
//! part, so that each can be read without the others. Integers are little-endian. A term's number
//! is its place; the number behind the last says "not stated".
//!
//! | module | what it answers |
//! |---|---|
//! | `build` | how do columns become the file, on all cores? |
//! | `blocks` | how is one order packed, read and searched? |
//! | `read` | which rows match a pattern, and how many? |

mod blocks;
mod build;
mod read;
#[cfg(test)]
mod tests;

pub use build::{StatementColumns, build};
pub use read::{DamagedHexastore, Hexastore, Matches, Statement};

/// The file's name among the sidecars.
pub const HEXASTORE_FILE: &str = "hexastore.bin";

const MAGIC: &[u8; 8] = b"GMHEXA01";

/// Bytes before the terms' ends.
const HEADER: usize = 8 * (1 + 5 + 12);

const CHECKSUM: usize = 32;

/// A place in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Whom it is about.
    Subject = 0,
    /// What is said.
    Relation = 1,
    /// Of whom or what.
    Object = 2,
}

/// What is known of the statements that are looked for; `None` stands for anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pattern<'p> {
    /// The subject.
    pub subject: Option<&'p str>,
    /// The relation.
    pub relation: Option<&'p str>,
    /// The object.
    pub object: Option<&'p str>,
}

impl<'p> Pattern<'p> {
    /// The known parts, by role.
    pub fn parts(&self) -> [Option<&'p str>; 3] {
        [self.subject, self.relation, self.object]
    }
}

impl<'p> From<[Option<&'p str>; 3]> for Pattern<'p> {
    fn from([subject, relation, object]: [Option<&'p str>; 3]) -> Self {
        Pattern {
            subject,
            relation,
            object,
        }
    }
}

/// An order of statements: which role decides first, second and third.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Subject, relation, object.
    Sro = 0,
    /// Subject, object, relation.
    Sor = 1,
    /// Relation, subject, object.
    Rso = 2,
    /// Relation, object, subject.
    Ros = 3,
    /// Object, subject, relation.
    Osr = 4,
    /// Object, relation, subject.
    Ors = 5,
}

impl Order {
    /// All six, as they stand in the file.
    pub const ALL: [Order; 6] = [
        Order::Sro,
        Order::Sor,
        Order::Rso,
        Order::Ros,
        Order::Osr,
        Order::Ors,
    ];

    /// The roles, the most significant first.
    pub const fn roles(self) -> [Role; 3] {
        use Role::{Object, Relation, Subject};
        match self {
            Order::Sro => [Subject, Relation, Object],
            Order::Sor => [Subject, Object, Relation],
            Order::Rso => [Relation, Subject, Object],
            Order::Ros => [Relation, Object, Subject],
            Order::Osr => [Object, Subject, Relation],
            Order::Ors => [Object, Relation, Subject],
        }
    }

    /// An order in which the statements that `pattern` matches are neighbours.
    pub const fn of(pattern: &Pattern<'_>) -> Order {
        match (
            pattern.subject.is_some(),
            pattern.relation.is_some(),
            pattern.object.is_some(),
        ) {
            (true, false, true) => Order::Sor,
            (true, _, _) | (false, false, false) => Order::Sro,
            (false, true, false) => Order::Rso,
            (false, true, true) => Order::Ros,
            (false, false, true) => Order::Osr,
        }
    }
}

/// A statement as numbers of terms by role, and its row.
type Entry = [u32; 4];

//! Columns to the file: terms numbered on all cores, statements sorted by counting.

use std::hash::BuildHasher;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::compute::concat;
use arrow::error::ArrowError;
use gristmill_schemas::grain::Field;
use hashbrown::{DefaultHashBuilder, HashTable};
use rayon::prelude::*;

use super::blocks::{Packed, pack};
use super::{Entry, HEADER, MAGIC, Order, Role};

/// The columns that statements come from, for some rows of a segment.
#[derive(Debug, Clone)]
pub struct StatementColumns([StringArray; 3]);

impl StatementColumns {
    /// The names of the columns, by role.
    pub const NAMES: [&str; 3] = [Field::Subject.name(), Field::Relation.name(), Field::Object.name()];

    /// The columns of `batch`, which has the schema of `grains` or part of it; shared, not copied. `None` if one is missing.
    pub fn of(batch: &RecordBatch) -> Option<StatementColumns> {
        let column = |name| batch.column_by_name(name)?.as_string_opt::<i32>().cloned();
        let [subject, relation, object] = Self::NAMES;
        Some(StatementColumns([column(subject)?, column(relation)?, column(object)?]))
    }

    /// The rows of `parts`, one after another.
    ///
    /// # Errors
    /// [`ArrowError`] if there are none, or if they hold more text than one array can.
    pub fn concat(parts: &[StatementColumns]) -> Result<StatementColumns, ArrowError> {
        let column = |at: usize| {
            let pieces: Vec<&dyn Array> =
                parts.iter().filter_map(|part| part.0.get(at)).map(|piece| piece as _).collect();
            Ok::<_, ArrowError>(concat(&pieces)?.as_string::<i32>().clone())
        };
        Ok(StatementColumns([column(0)?, column(1)?, column(2)?]))
    }

    fn rows(&self) -> usize {
        self.0[0].len()
    }
}

/// The part of a statement that isn't stated, before terms have their final numbers.
const UNSTATED: u32 = u32::MAX;

/// The bytes of the hexastore of a segment whose rows are those of `columns`, one after another. O(n log t) for the terms,
/// O(n) for the orders, on all cores of the pool that it is called in.
pub fn build(columns: &[StatementColumns]) -> Vec<u8> {
    let mut first = 0;
    let mut numbered = Vec::with_capacity(columns.len());
    for part in columns {
        numbered.push((first, part));
        first += part.rows();
    }
    let locals: Vec<Local<'_>> = numbered.into_par_iter().map(|(first, part)| Local::of(part, first)).collect();
    let terms = merge(&locals);
    let entries: Vec<Vec<Entry>> = locals.into_par_iter().map(|local| local.renumbered(&terms)).collect();
    let unstated = terms.len() as u32;
    let (triples, partial): (Vec<_>, Vec<_>) =
        entries.concat().into_iter().partition(|entry| entry[..3].iter().all(|part| *part != unstated));
    let counts = [triples.len(), partial.len()];
    let (triples, partial) = rayon::join(|| orders(triples, unstated), || orders(partial, unstated));
    write(first, &terms, counts, &[triples, partial])
}

/// The statements of some rows, with terms numbered among themselves.
struct Local<'c> {
    /// Ascending.
    terms: Vec<&'c str>,
    entries: Vec<Entry>,
}

impl<'c> Local<'c> {
    fn of(columns: &'c StatementColumns, first_row: usize) -> Local<'c> {
        let mut numbers = Numbers::default();
        let mut entries = Vec::new();
        for row in 0..columns.rows() {
            let parts = columns.0.each_ref().map(|column| column.is_valid(row).then(|| column.value(row)));
            if parts.iter().any(Option::is_some) {
                let [s, r, o] = parts.map(|part| part.map_or(UNSTATED, |term| numbers.of(term)));
                entries.push([s, r, o, (first_row + row) as u32]);
            }
        }
        let mut order: Vec<u32> = (0..numbers.terms.len() as u32).collect();
        order.sort_unstable_by_key(|number| numbers.term(*number));
        let mut places = vec![0; order.len()];
        for (place, number) in order.iter().enumerate() {
            places[*number as usize] = place as u32;
        }
        let mut local = Local { terms: order.iter().map(|number| numbers.term(*number)).collect(), entries };
        local.renumber(&places, UNSTATED);
        local
    }

    fn renumber(&mut self, numbers: &[u32], unstated: u32) {
        for part in self.entries.iter_mut().flat_map(|entry| &mut entry[..3]) {
            *part = numbers.get(*part as usize).copied().unwrap_or(unstated);
        }
    }

    /// The statements, with the numbers of `terms`, which has all of the local ones.
    fn renumbered(mut self, terms: &[&str]) -> Vec<Entry> {
        let mut place = 0;
        let numbers: Vec<u32> = self
            .terms
            .iter()
            .map(|term| {
                place += terms.get(place..).unwrap_or_default().partition_point(|other| other < term).min(terms.len());
                place as u32
            })
            .collect();
        self.renumber(&numbers, terms.len() as u32);
        self.entries
    }
}

/// Numbers for terms in the order in which they come.
#[derive(Default)]
struct Numbers<'c> {
    terms: Vec<&'c str>,
    table: HashTable<u32>,
    /// Seeded at random: nobody can choose terms that collide.
    hasher: DefaultHashBuilder,
}

impl<'c> Numbers<'c> {
    fn of(&mut self, term: &'c str) -> u32 {
        let Numbers { terms, table, hasher } = self;
        let term_of = |number: &u32| terms.get(*number as usize).copied().unwrap_or_default();
        let hash = hasher.hash_one(term);
        if let Some(number) = table.find(hash, |number| term_of(number) == term) {
            return *number;
        }
        let number = terms.len() as u32;
        table.insert_unique(hash, number, |number| hasher.hash_one(term_of(number)));
        terms.push(term);
        number
    }

    fn term(&self, number: u32) -> &'c str {
        self.terms.get(number as usize).copied().unwrap_or_default()
    }
}

/// All terms once, ascending.
fn merge<'c>(locals: &[Local<'c>]) -> Vec<&'c str> {
    let mut terms: Vec<&str> = locals.iter().flat_map(|local| local.terms.iter().copied()).collect();
    // A merge sort, to which the parts are sorted runs.
    terms.par_sort();
    terms.dedup();
    terms
}

/// All six orders of `entries`, which are in the order of their rows. Sorting by one part keeps the order of the others, so
/// each order is one counting sort away from another.
fn orders(entries: Vec<Entry>, unstated: u32) -> [Packed; 6] {
    use Role::{Object, Relation, Subject};
    let by = |entries: &[Entry], role: Role| sorted(entries, role as usize, unstated);
    let sro = by(&by(&by(&entries, Object), Relation), Subject);
    drop(entries);
    let ((rso, ors, sor), (osr, ros, packed)) = rayon::join(
        || {
            let rso = by(&sro, Relation);
            let ors = by(&rso, Object);
            let sor = by(&ors, Subject);
            (pack(&rso, Order::Rso), pack(&ors, Order::Ors), pack(&sor, Order::Sor))
        },
        || {
            let osr = by(&sro, Object);
            let ros = by(&osr, Relation);
            (pack(&osr, Order::Osr), pack(&ros, Order::Ros), pack(&sro, Order::Sro))
        },
    );
    [packed, sor, rso, ros, osr, ors]
}

/// Bits that one pass of the counting sort looks at.
const DIGIT: u32 = 11;

/// `entries` by the part `place`, whose values are at most `most`; equal ones keep their order.
fn sorted(entries: &[Entry], place: usize, most: u32) -> Vec<Entry> {
    let mut from = entries.to_vec();
    let mut to = vec![Entry::default(); from.len()];
    let bits = u32::BITS - most.leading_zeros();
    for shift in (0..bits).step_by(DIGIT as usize) {
        let digit = |entry: &Entry| (entry[place] >> shift) as usize & ((1 << DIGIT) - 1);
        let mut ends = [0_usize; 1 << DIGIT];
        from.iter().for_each(|entry| ends[digit(entry)] += 1);
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        for entry in &from {
            let next = &mut ends[digit(entry)];
            to[*next] = *entry;
            *next += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    from
}

fn write(rows: usize, terms: &[&str], counts: [usize; 2], stores: &[[Packed; 6]; 2]) -> Vec<u8> {
    let bytes: usize = terms.iter().map(|term| term.len()).sum();
    let packed = stores.iter().flatten();
    let size: usize = packed.clone().map(|order| order.heads.len() + order.blocks.len()).sum();
    let mut out = Vec::with_capacity(HEADER + 5 * terms.len() + bytes + size + super::CHECKSUM);
    out.extend(MAGIC);
    for number in [rows, terms.len(), bytes, counts[0], counts[1]] {
        out.extend((number as u64).to_le_bytes());
    }
    packed.clone().for_each(|order| out.extend((order.blocks.len() as u64).to_le_bytes()));
    let mut end = 0_u64;
    for term in terms {
        end += term.len() as u64;
        out.extend(&end.to_le_bytes()[..5]);
    }
    terms.iter().for_each(|term| out.extend(term.as_bytes()));
    for order in packed {
        out.extend(&order.heads);
        out.extend(&order.blocks);
    }
    let checksum = blake3::hash(&out);
    out.extend(checksum.as_bytes());
    out
}

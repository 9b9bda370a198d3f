//! Builds the file from columns: numbers terms on all cores, and sorts statements by counting.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::compute::concat;
use arrow::error::ArrowError;
use gristmill_schemas::grain::Field;
use hashbrown::{DefaultHashBuilder, HashTable};
use rayon::prelude::*;

use super::blocks::{PackedOrder, pack};
use super::{HEADER, MAGIC, TermIds, TripleOrder, TripleRole};

/// The columns of statements, for some rows of a segment.
#[derive(Debug, Clone)]
pub struct StatementColumns([StringArray; 3]);

impl StatementColumns {
    /// The names of the columns, by role.
    pub const NAMES: [&str; 3] = [
        Field::Subject.name(),
        Field::Relation.name(),
        Field::Object.name(),
    ];

    /// Returns the columns of `batch`, which has some or all columns of `grains`, without copying.
    /// Returns `None` if one is missing.
    pub fn of(batch: &RecordBatch) -> Option<StatementColumns> {
        let column = |name| batch.column_by_name(name)?.as_string_opt::<i32>().cloned();
        let [subject, relation, object] = Self::NAMES;
        Some(StatementColumns([
            column(subject)?,
            column(relation)?,
            column(object)?,
        ]))
    }

    /// Returns the rows of `parts`, concatenated.
    ///
    /// # Errors
    /// [`ArrowError`] if there are none, or if they hold more text than one array can.
    pub fn concat(parts: &[StatementColumns]) -> Result<StatementColumns, ArrowError> {
        let column = |at: usize| {
            let pieces: Vec<&dyn Array> = parts
                .iter()
                .filter_map(|part| part.0.get(at))
                .map(|piece| piece as _)
                .collect();
            Ok::<_, ArrowError>(concat(&pieces)?.as_string::<i32>().clone())
        };
        Ok(StatementColumns([column(0)?, column(1)?, column(2)?]))
    }

    /// Returns the parts of the statement in a row.
    fn parts(&self, row: usize) -> [Option<&str>; 3] {
        self.0
            .each_ref()
            .map(|column| column.is_valid(row).then(|| column.value(row)))
    }

    fn rows(&self) -> usize {
        self.0[0].len()
    }
}

/// Local id of a part that isn't stated.
const UNSTATED: u32 = u32::MAX;

/// Returns the bytes of the hexastore of a segment whose rows are those of `columns`, concatenated.
/// O(n + t log t) for n rows and t distinct terms, on all threads of the current pool.
pub fn build(columns: &[StatementColumns]) -> Vec<u8> {
    let mut first = 0;
    let mut numbered = Vec::with_capacity(columns.len());
    for part in columns {
        numbered.push((first, part));
        first += part.rows();
    }
    // Seeded at random, so that nobody can choose colliding terms.
    let hasher = DefaultHashBuilder::default();
    let locals: Vec<LocalTerms<'_>> = numbered
        .into_par_iter()
        .map(|(first, part)| LocalTerms::of(part, first, &hasher))
        .collect();
    let GlobalTerms { terms, numbers } = merge(&locals);
    let statements: Vec<Statements> = locals
        .into_par_iter()
        .map(|local| local.renumbered(&numbers))
        .collect();
    let all = |kind: fn(&Statements) -> &[TermIds]| {
        statements.iter().map(kind).collect::<Vec<_>>().concat()
    };
    let (triples, partial) = (all(|part| &part.triples), all(|part| &part.partial));
    drop(statements);
    let counts = [triples.len(), partial.len()];
    let (triples, partial) = rayon::join(|| orders(triples), || orders(partial));
    write(first, &terms, counts, &[triples, partial])
}

/// The statements of some rows, with local term ids.
struct LocalTerms<'c> {
    terms: TermInterner<'c>,
    /// For each term its id in its shard, once it is assigned.
    in_shard: Vec<AtomicU32>,
    entries: Vec<TermIds>,
}

/// The statements of some rows, with final term ids.
#[derive(Default)]
struct Statements {
    triples: Vec<TermIds>,
    partial: Vec<TermIds>,
}

impl<'c> LocalTerms<'c> {
    fn of(
        columns: &'c StatementColumns,
        first_row: usize,
        hasher: &DefaultHashBuilder,
    ) -> LocalTerms<'c> {
        let mut terms = TermInterner::default();
        let mut entries = Vec::new();
        for row in 0..columns.rows() {
            let parts = columns.parts(row);
            if parts.iter().any(Option::is_some) {
                let [s, r, o] = parts.map(|part| {
                    part.map_or(UNSTATED, |term| terms.of(term, hasher.hash_one(term)))
                });
                entries.push([s, r, o, (first_row + row) as u32]);
            }
        }
        terms.table = HashTable::new();
        let in_shard = terms.terms.iter().map(|_| AtomicU32::default()).collect();
        LocalTerms {
            terms,
            in_shard,
            entries,
        }
    }

    /// Returns the statements with final term ids.
    fn renumbered(self, numbers: &GlobalIds) -> Statements {
        let final_number =
            |(hash, place): (&u64, AtomicU32)| numbers.number(*hash, place.into_inner());
        let own: Vec<u32> = self
            .terms
            .hashes
            .iter()
            .zip(self.in_shard)
            .map(final_number)
            .collect();
        let mut statements = Statements::default();
        for mut entry in self.entries {
            for part in &mut entry[..3] {
                *part = own.get(*part as usize).copied().unwrap_or(numbers.unstated);
            }
            let stated = entry[..3].iter().all(|part| *part != numbers.unstated);
            if stated {
                &mut statements.triples
            } else {
                &mut statements.partial
            }
            .push(entry);
        }
        statements
    }
}

/// Assigns ids to terms, in the order of their first occurrence.
#[derive(Default)]
struct TermInterner<'c> {
    terms: Vec<&'c str>,
    hashes: Vec<u64>,
    table: HashTable<u32>,
}

impl<'c> TermInterner<'c> {
    fn of(&mut self, term: &'c str, hash: u64) -> u32 {
        let TermInterner {
            terms,
            hashes,
            table,
        } = self;
        let is_it = |number: &u32| {
            terms
                .get(*number as usize)
                .is_some_and(|other| *other == term)
        };
        if let Some(number) = table.find(hash, is_it) {
            return *number;
        }
        let number = terms.len() as u32;
        table.insert_unique(hash, number, |number| {
            hashes.get(*number as usize).copied().unwrap_or_default()
        });
        terms.push(term);
        hashes.push(hash);
        number
    }
}

/// Number of shards into which terms are split by hash, so that duplicates are found on all cores.
const SHARDS: usize = 32;

fn shard_of(hash: u64) -> usize {
    // The hash table uses the lowest and the highest bits.
    (hash >> 32) as usize % SHARDS
}

/// All distinct terms, ascending, and their ids.
struct GlobalTerms<'c> {
    terms: Vec<&'c str>,
    numbers: GlobalIds,
}

/// Final ids of terms.
struct GlobalIds {
    /// By shard, then by id in the shard.
    shards: Vec<Vec<u32>>,
    /// The id of a part that isn't stated: the number of terms.
    unstated: u32,
}

impl GlobalIds {
    /// Returns the id of the term with `hash` and the id `place` in its shard.
    fn number(&self, hash: u64, place: u32) -> u32 {
        let shard = self.shards.get(shard_of(hash));
        shard
            .and_then(|shard| shard.get(place as usize))
            .copied()
            .unwrap_or(self.unstated)
    }
}

/// Merges the terms of all parts. Most terms occur in many parts, so strings are compared only to
/// sort the distinct ones.
fn merge<'c>(locals: &[LocalTerms<'c>]) -> GlobalTerms<'c> {
    let shards: Vec<Vec<&str>> = (0..SHARDS)
        .into_par_iter()
        .map(|shard| distinct(locals, shard))
        .collect();
    let mut places: Vec<(&str, u32, u32)> = Vec::with_capacity(shards.iter().map(Vec::len).sum());
    for (shard, terms) in (0..).zip(&shards) {
        places.extend(
            (0..)
                .zip(terms)
                .map(|(number, term)| (*term, shard, number)),
        );
    }
    places.par_sort_unstable();
    let mut numbers: Vec<Vec<u32>> = shards.iter().map(|terms| vec![0; terms.len()]).collect();
    for (last, (_, shard, number)) in (0..).zip(&places) {
        if let Some(place) = numbers
            .get_mut(*shard as usize)
            .and_then(|shard| shard.get_mut(*number as usize))
        {
            *place = last;
        }
    }
    let terms: Vec<&str> = places.into_iter().map(|(term, ..)| term).collect();
    let unstated = terms.len() as u32;
    GlobalTerms {
        terms,
        numbers: GlobalIds {
            shards: numbers,
            unstated,
        },
    }
}

/// Returns the distinct terms of one shard, and stores their ids in the parts.
fn distinct<'c>(locals: &[LocalTerms<'c>], shard: usize) -> Vec<&'c str> {
    let mut numbers = TermInterner::default();
    for local in locals {
        for (at, hash) in local
            .terms
            .hashes
            .iter()
            .enumerate()
            .filter(|(_, hash)| shard_of(**hash) == shard)
        {
            if let (Some(term), Some(place)) = (local.terms.terms.get(at), local.in_shard.get(at)) {
                place.store(numbers.of(term, *hash), Ordering::Relaxed);
            }
        }
    }
    numbers.terms
}

/// Returns all six orders of `entries`, which are in the order of their rows. Sorting by one part
/// keeps the order of the others, so each order is one counting sort away from another.
fn orders(mut entries: Vec<TermIds>) -> [PackedOrder; 6] {
    use TripleRole::{Object, Relation, Subject};
    let mut spare = Vec::new();
    [Object, Relation, Subject]
        .into_iter()
        .for_each(|role| sort(&mut entries, role, &mut spare));
    let mut others = entries.clone();
    let ((pso, ops, sop), (spo, osp, pos)) = rayon::join(
        || {
            let mut next = |role, order| packed_by(&mut others, role, order, &mut spare);
            (
                next(Relation, TripleOrder::Pso),
                next(Object, TripleOrder::Ops),
                next(Subject, TripleOrder::Sop),
            )
        },
        || {
            let spo = pack(&entries, TripleOrder::Spo);
            let mut spare = Vec::new();
            let mut next = |role, order| packed_by(&mut entries, role, order, &mut spare);
            (
                spo,
                next(Object, TripleOrder::Osp),
                next(Relation, TripleOrder::Pos),
            )
        },
    );
    [spo, sop, pso, pos, osp, ops]
}

fn packed_by(
    entries: &mut Vec<TermIds>,
    role: TripleRole,
    order: TripleOrder,
    spare: &mut Vec<TermIds>,
) -> PackedOrder {
    sort(entries, role, spare);
    pack(entries, order)
}

/// Maximal number of bits that one pass of the counting sort uses.
const DIGIT: u32 = 11;

/// Sorts `entries` by the part of `role`, stably. `spare` is reused memory. Only the bits in which
/// the parts differ are used: relations, which are few and neighbours among the terms, take one
/// pass.
fn sort(entries: &mut Vec<TermIds>, role: TripleRole, spare: &mut Vec<TermIds>) {
    let part = role as usize;
    let least = entries
        .iter()
        .map(|entry| entry[part])
        .min()
        .unwrap_or_default();
    let most = entries
        .iter()
        .map(|entry| entry[part])
        .max()
        .unwrap_or_default();
    let bits = u32::BITS - (most - least).leading_zeros();
    let width = bits.div_ceil(bits.div_ceil(DIGIT).max(1)).max(1);
    spare.resize(entries.len(), TermIds::default());
    for shift in (0..bits).step_by(width as usize) {
        let digit =
            |entry: &TermIds| ((entry[part] - least) >> shift) as usize & ((1 << width) - 1);
        let mut ends = [0_usize; 1 << DIGIT];
        entries.iter().for_each(|entry| ends[digit(entry)] += 1);
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        for entry in entries.iter() {
            let next = &mut ends[digit(entry)];
            spare[*next] = *entry;
            *next += 1;
        }
        std::mem::swap(entries, spare);
    }
}

fn write(
    rows: usize,
    terms: &[&str],
    counts: [usize; 2],
    stores: &[[PackedOrder; 6]; 2],
) -> Vec<u8> {
    let bytes: usize = terms.iter().map(|term| term.len()).sum();
    let packed = stores.iter().flatten();
    let size: usize = packed
        .clone()
        .map(|order| order.heads.len() + order.blocks.len())
        .sum();
    let mut out = Vec::with_capacity(HEADER + 5 * terms.len() + bytes + size + super::CHECKSUM);
    out.extend(MAGIC);
    for number in [rows, terms.len(), bytes, counts[0], counts[1]] {
        out.extend((number as u64).to_le_bytes());
    }
    packed
        .clone()
        .for_each(|order| out.extend((order.blocks.len() as u64).to_le_bytes()));
    write_terms(terms, &mut out);
    for order in packed {
        out.extend(&order.heads);
        out.extend(&order.blocks);
    }
    let checksum = blake3::hash(&out);
    out.extend(checksum.as_bytes());
    out
}

/// Appends the ends of the terms, then the terms.
fn write_terms(terms: &[&str], out: &mut Vec<u8>) {
    let mut end = 0_u64;
    for term in terms {
        end += term.len() as u64;
        out.extend(&end.to_le_bytes()[..5]);
    }
    terms.iter().for_each(|term| out.extend(term.as_bytes()));
}

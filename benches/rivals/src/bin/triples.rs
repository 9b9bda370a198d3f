//! `triples [COUNT]`: build and all eight patterns of the hexastore beside oxigraph in memory
//! (10,000,000 triples unless said).
//!
//! The same triples: names of people, 24 relations, texts. Ours builds the segment's file from
//! columns on all cores; oxigraph takes quads by its bulk loader into its store in memory; its
//! store on disk is not compared. Then both are asked 20,000 times for each pattern, on one thread,
//! and the first 100 triples of each answer are read. Ours keeps a triple that is stated twice
//! twice.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use gristmill_engine::index::hexastore::{Hexastore, StatementColumns, TriplePattern, build};
use gristmill_rivals::{count_or, numbers, skewed, timed, worked};
use oxigraph::model::{GraphNameRef, Literal, NamedNode, Quad};
use oxigraph::store::Store;
use rand::RngExt;

// What the command line of gristmill uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SUBJECTS: usize = 600_000;
const RELATIONS: usize = 24;
const OBJECTS: usize = 200_000;

/// Patterns of each kind that are asked.
const QUERIES: usize = 20_000;

/// Triples of an answer that are read.
const READ: usize = 100;

/// Rows of a row group, as segments have them.
const PART: usize = 65_536;

type Triple = [String; 3];

fn triples(count: usize) -> Vec<Triple> {
    let mut random = numbers(1);
    (0..count)
        .map(|_| {
            let subject = random.random_range(0..SUBJECTS);
            let (relation, object) = (skewed(&mut random, RELATIONS), skewed(&mut random, OBJECTS));
            [
                format!("person:{subject:07}"),
                format!("mg:relation_{relation}"),
                format!("object number {object}"),
            ]
        })
        .collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = count_or(10_000_000);
    let triples = triples(count);
    let mut random = numbers(2);
    let asked: Vec<&Triple> = (0..QUERIES)
        .filter_map(|_| triples.get(random.random_range(0..count)))
        .collect();

    let columns = columns(&triples)?;
    let (own, bytes) = worked(|| build(&columns));
    let size = bytes.len();
    drop(columns);
    println!(
        "hexastore: {count} triples built in {own}, {} bytes each",
        size / count
    );
    let (opened, store) = timed(|| Hexastore::open(bytes.into()));
    let store = store?;
    println!("hexastore: opened, all bytes checked, in {opened:.2} s");
    let ours = patterns(&asked, |known| {
        let part = |at: usize| known.1[at].then(|| known.0[at].as_str());
        let found = store.find(&TriplePattern {
            subject: part(0),
            relation: part(1),
            object: part(2),
        });
        found
            .iter()
            .take(READ)
            .map(|triple| black_box(triple.subject.len() + triple.object.len()).min(1))
            .sum()
    });
    drop(store);

    let quads = triples.iter().map(quad);
    let rival = Store::new()?;
    let (other, loaded) = worked(|| {
        let mut loader = rival.bulk_loader();
        loader.load_quads(quads)?;
        loader.commit()
    });
    loaded?;
    println!(
        "oxigraph: {count} triples built in {other}; ours takes {}",
        own.of(other)
    );
    let theirs = patterns(&asked, |known| {
        let quad = quad(known.0);
        let found = rival.quads_for_pattern(
            known.1[0].then(|| quad.subject.as_ref()),
            known.1[1].then(|| quad.predicate.as_ref()),
            known.1[2].then(|| quad.object.as_ref()),
            Some(GraphNameRef::DefaultGraph),
        );
        found
            .take(READ)
            .map(|quad| usize::from(black_box(quad).is_ok()))
            .sum()
    });
    println!("pattern   ours/s   oxigraph/s   ratio   triples read by each");
    for ((name, ours, found), (_, theirs, others)) in ours.into_iter().zip(theirs) {
        println!(
            "{name}   {ours:>9.0}   {theirs:>9.0}   {:>6.1}   {found} {others}",
            ours / theirs
        );
    }
    Ok(())
}

/// The triples as segments have them. A hexastore keeps each row, so triples that are stated twice
/// are found twice.
fn columns(triples: &[Triple]) -> Result<Vec<StatementColumns>, Box<dyn std::error::Error>> {
    let part = |part: &[Triple]| {
        let column = |at: usize| {
            Arc::new(StringArray::from_iter_values(
                part.iter().map(|triple| &triple[at]),
            )) as ArrayRef
        };
        let named = StatementColumns::NAMES
            .into_iter()
            .enumerate()
            .map(|(at, name)| (name, column(at)));
        StatementColumns::of(&RecordBatch::try_from_iter(named)?)
            .ok_or_else(|| "columns are missing".into())
    };
    triples.chunks(PART).map(part).collect()
}

fn quad([subject, relation, object]: &Triple) -> Quad {
    Quad::new(
        NamedNode::new_unchecked(subject),
        NamedNode::new_unchecked(relation),
        Literal::new_simple_literal(object),
        oxigraph::model::GraphName::DefaultGraph,
    )
}

/// For each of the eight patterns: its name, questions per second, and triples that were read.
fn patterns(
    asked: &[&Triple],
    ask: impl Fn((&Triple, [bool; 3])) -> usize,
) -> Vec<(String, f64, usize)> {
    (0..8_u8)
        .map(|mask| {
            let known = [mask & 4 > 0, mask & 2 > 0, mask & 1 > 0];
            let name: String = "sro"
                .chars()
                .zip(known)
                .map(|(letter, known)| if known { letter } else { '?' })
                .collect();
            let (seconds, found) = timed(|| {
                asked
                    .iter()
                    .map(|triple| ask((triple, known)))
                    .sum::<usize>()
            });
            (name, asked.len() as f64 / seconds, found)
        })
        .collect()
}

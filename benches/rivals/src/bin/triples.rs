//! `triples [COUNT]`: compares the hexastore with oxigraph's store in memory: build time, and
//! queries of all eight patterns. COUNT is the number of triples (default 10,000,000).
//!
//! Both get the same triples: names of people, 24 relations, texts. The hexastore builds the file
//! of a segment from columns on all cores; oxigraph's bulk loader takes quads. Its store on disk
//! isn't compared. Then both run 20,000 queries per pattern on one thread and read the first 100
//! triples of each result. The hexastore keeps duplicate triples.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use gristmill_engine::index::hexastore::{Hexastore, StatementColumns, TriplePattern, build};
use gristmill_rivals::{count_or, measured, seeded_rng, skewed, timed};
use oxigraph::model::{GraphNameRef, Literal, NamedNode, Quad};
use oxigraph::store::Store;
use rand::RngExt;

// The allocator of gristmill's command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SUBJECTS: usize = 600_000;
const RELATIONS: usize = 24;
const OBJECTS: usize = 200_000;

/// The number of queries per pattern.
const QUERIES: usize = 20_000;

/// The number of triples of a result that are read.
const READ: usize = 100;

/// The number of rows of a row group of a segment.
const PART: usize = 65_536;

type Triple = [String; 3];

fn triples(count: usize) -> Vec<Triple> {
    let mut random = seeded_rng(1);
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
    let mut random = seeded_rng(2);
    let queries: Vec<&Triple> = (0..QUERIES)
        .filter_map(|_| triples.get(random.random_range(0..count)))
        .collect();

    let columns = columns(&triples)?;
    let (own, bytes) = measured(|| build(&columns));
    let size = bytes.len();
    drop(columns);
    println!(
        "hexastore: {count} triples built in {own}, {} bytes each",
        size / count
    );
    let (opened, store) = timed(|| Hexastore::open(bytes.into()));
    let store = store?;
    println!("hexastore: opened and verified in {opened:.2} s");
    let ours = patterns(&queries, |known| {
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
    let (other, loaded) = measured(|| {
        let mut loader = rival.bulk_loader();
        loader.load_quads(quads)?;
        loader.commit()
    });
    loaded?;
    println!(
        "oxigraph: {count} triples built in {other}; ours takes {}",
        own.ratio_to(other)
    );
    let theirs = patterns(&queries, |known| {
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

/// Returns the triples as columns of row groups. A hexastore keeps all rows, so duplicates are
/// found as often as they occur.
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

/// Runs the queries of all eight patterns; returns the name of each, queries per second, and the
/// number of triples read.
fn patterns(
    queries: &[&Triple],
    query: impl Fn((&Triple, [bool; 3])) -> usize,
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
                queries
                    .iter()
                    .map(|triple| query((triple, known)))
                    .sum::<usize>()
            });
            (name, queries.len() as f64 / seconds, found)
        })
        .collect()
}

//! `text [COUNT]`: compares the full-text index with tantivy alone and SQLite's FTS5. COUNT is the
//! number of grains (default 200,000) of about 500 bytes.
//!
//! All index the same words with positions and without stored texts. Ours reads encoded grains,
//! tokenises by Unicode's word boundaries and builds the file of a segment; tantivy gets plain
//! texts, uses its default tokeniser and keeps its index in memory; both use all cores. FTS5 uses
//! one core and one transaction, without a journal. Then each returns the ten best results of the
//! same queries on one thread, parsing included.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use gristmill_engine::index::fulltext::{
    LakeTextIndex, SegmentTextIndex, TextPiece, TextPieceBuilder, TextQuery, pack,
};
use gristmill_rivals::{WorkTime, alternating, count_or, measured, seeded_rng, skewed, timed};
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use rand::RngExt;
use rayon::prelude::*;
use rusqlite::Connection;
use tantivy::collector::TopDocs;
use tantivy::query::QueryParser;
use tantivy::schema::{IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{Index, TantivyDocument};

// The allocator of gristmill's command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The size of the vocabulary.
const WORDS: usize = 60_000;
/// The number of words of a text.
const LENGTH: usize = 75;
const PART: usize = 65_536;
/// The number of queries for phrases and disjunctions. The other queries are faster and run twenty
/// times as often.
const QUERIES: usize = 2_000;
/// The number of queries that SQLite runs.
const FEW: usize = 100;
const BEST: usize = 10;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let texts = texts(count_or(200_000));
    let megabytes = texts.iter().map(String::len).sum::<usize>() as f64 / 1e6;
    println!(
        "{} texts, {megabytes:.0} MB, {} threads",
        texts.len(),
        rayon::current_num_threads()
    );

    let blobs: Result<Vec<Vec<u8>>, AnyError> = texts
        .par_iter()
        .enumerate()
        .map(|(at, text)| blob(text, at))
        .collect();
    let batches = batches(&blobs?)?;
    let (own, packed) = measured(|| {
        let pieces: Result<Vec<TextPiece>, AnyError> = batches.par_iter().map(piece).collect();
        Ok::<_, AnyError>(pack(&pieces?))
    });
    let packed = packed?.concat();
    println!(
        "ours: {own}, {:.0} MB/s, {:.0} MB",
        megabytes / own.wall,
        packed.len() as f64 / 1e6
    );
    let ours = LakeTextIndex::new(&[Arc::new(SegmentTextIndex::open(packed.into())?)])?;

    let (index, field, theirs) = tantivy_alone(&texts)?;
    println!(
        "tantivy alone: {theirs}, {:.0} MB/s; ours takes {}",
        megabytes / theirs.wall,
        own.ratio_to(theirs)
    );
    let reader = index.reader()?;
    let searcher = reader.searcher();
    let parser = QueryParser::for_index(&index, vec![field]);

    let folder = tempfile::tempdir()?;
    let connection = Connection::open(folder.path().join("fts.db"))?;
    let (sqlite, filled) = measured(|| fill(&connection, &texts));
    filled?;
    println!("SQLite FTS5: {sqlite}; ours takes {}", own.ratio_to(sqlite));

    println!("query      ours/s   tantivy/s   ratio   FTS5/s   ratio");
    for kind in [Kind::One, Kind::Both, Kind::Any, Kind::Phrase] {
        let queries = kind.queries(&texts);
        let [(ours, _), (theirs, _)] = alternating(
            &queries,
            |query| {
                found(
                    query,
                    ours.search(&TextQuery::parse(&query.ours)?, BEST)?.1.len(),
                )
            },
            |query| {
                let parsed = parser.parse_query(&query.tantivy)?;
                found(
                    query,
                    searcher
                        .search(&parsed, &TopDocs::with_limit(BEST).order_by_score())?
                        .len(),
                )
            },
        )?;
        // SQLite is slower by orders of magnitude, so it runs fewer queries.
        let few = queries.get(..FEW).unwrap_or_default();
        let mut statement = connection
            .prepare("SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 10")?;
        let (seconds, answered) = timed(|| {
            few.iter().try_for_each(|query| {
                let mut rows = statement.query([&query.sqlite])?;
                let mut count = 0;
                while rows.next()?.is_some() {
                    count += 1;
                }
                found(query, count).map(drop)
            })
        });
        answered?;
        let sqlite = few.len() as f64 / seconds;
        let name = format!("{kind:?}");
        println!(
            "{name:<8} {ours:>8.0}   {theirs:>8.0}   {:>5.2}   {sqlite:>6.0}   {:>5.1}",
            ours / theirs,
            ours / sqlite
        );
    }
    Ok(())
}

fn texts(count: usize) -> Vec<String> {
    let mut random = seeded_rng(3);
    let word = |number: usize| {
        format!(
            "{}{}",
            ["ta", "ri", "mo", "ken", "sul"][number % 5],
            base(number)
        )
    };
    let text = |_| {
        let words: Vec<String> = (0..LENGTH)
            .map(|_| word(skewed(&mut random, WORDS)))
            .collect();
        words.join(" ")
    };
    (0..count).map(text).collect()
}

/// Returns a number as letters.
fn base(mut number: usize) -> String {
    let mut letters = String::new();
    while number > 0 {
        letters.push(char::from(b'a' + (number % 20) as u8));
        number /= 20;
    }
    letters
}

fn blob(text: &str, number: usize) -> Result<Vec<u8>, AnyError> {
    let json = format!(
        r#"{{"type":"event","content":"{text}","created_at":{}}}"#,
        1_768_477_800_000_u64 + number as u64
    );
    Ok(encode_json(&Json::parse(json.as_bytes())?, EncodeOptions::default())?.blob)
}

fn batches(blobs: &[Vec<u8>]) -> Result<Vec<RecordBatch>, AnyError> {
    let batch = |part: &[Vec<u8>]| {
        let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(part));
        Ok(RecordBatch::try_from_iter([(TextPiece::COLUMN, column)])?)
    };
    blobs.chunks(PART).map(batch).collect()
}

/// Builds the part of the index for a row group, as ingest does.
fn piece(batch: &RecordBatch) -> Result<TextPiece, AnyError> {
    let mut piece = TextPieceBuilder::new()?;
    piece.add(batch)?;
    piece.finish()
}

/// Builds an index with tantivy: default tokeniser, positions, no stored texts.
fn tantivy_alone(texts: &[String]) -> Result<(Index, tantivy::schema::Field, WorkTime), AnyError> {
    let indexing =
        TextFieldIndexing::default().set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let mut schema = Schema::builder();
    let field = schema.add_text_field(
        "text",
        TextOptions::default().set_indexing_options(indexing),
    );
    let index = Index::create_in_ram(schema.build());
    let (spent, made) = measured(|| {
        let mut writer = index.writer_with_num_threads(rayon::current_num_threads(), 512 << 20)?;
        for text in texts {
            let mut document = TantivyDocument::default();
            document.add_text(field, text);
            writer.add_document(document)?;
        }
        writer.commit()?;
        writer.wait_merging_threads()
    });
    made?;
    Ok((index, field, spent))
}

fn fill(connection: &Connection, texts: &[String]) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; CREATE VIRTUAL TABLE texts USING \
         fts5(body, content = ''); BEGIN",
    )?;
    let mut insert = connection.prepare("INSERT INTO texts (rowid, body) VALUES (?, ?)")?;
    for (row, text) in texts.iter().enumerate() {
        insert.execute((row as i64, text))?;
    }
    connection.execute_batch("COMMIT")
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    One,
    Both,
    Any,
    Phrase,
}

/// One query in the language of each system.
struct QueryTexts {
    ours: String,
    tantivy: String,
    sqlite: String,
}

impl Kind {
    /// Returns queries for words that occur in the texts.
    fn queries(self, texts: &[String]) -> Vec<QueryTexts> {
        let mut random = seeded_rng(4);
        let query = |_| {
            let text = &texts[random.random_range(0..texts.len())];
            let words: Vec<&str> = text.split(' ').collect();
            let at = random.random_range(0..words.len() - 2);
            let (one, two, three) = (words[at], words[at + 1], words[at + 2]);
            match self {
                Kind::One => QueryTexts {
                    ours: one.into(),
                    tantivy: one.into(),
                    sqlite: one.into(),
                },
                Kind::Both => QueryTexts {
                    ours: format!("{one} {three}"),
                    tantivy: format!("{one} AND {three}"),
                    sqlite: format!("{one} AND {three}"),
                },
                Kind::Any => {
                    let any = format!("{one} OR {two} OR {three}");
                    QueryTexts {
                        ours: any.clone(),
                        tantivy: any.clone(),
                        sqlite: any,
                    }
                }
                Kind::Phrase => {
                    let phrase = format!("\"{one} {two}\"");
                    QueryTexts {
                        ours: phrase.clone(),
                        tantivy: phrase.clone(),
                        sqlite: phrase,
                    }
                }
            }
        };
        let count = if matches!(self, Kind::One | Kind::Both) {
            20 * QUERIES
        } else {
            QUERIES
        };
        (0..count).map(query).collect()
    }
}

/// Returns the number of results, or an error if there are none: every query matches a text.
fn found(query: &QueryTexts, count: usize) -> Result<usize, AnyError> {
    if count == 0 {
        Err(format!("nothing for {}", query.ours).into())
    } else {
        Ok(count)
    }
}

//! `text [COUNT]`: full text of COUNT grains (200,000) of about 500 bytes: ours beside tantivy
//! alone and SQLite's FTS5.
//!
//! The same words, with their places, and nothing stored. Ours reads them out of encoded grains, by
//! Unicode's rules for words, and builds the segment's file; tantivy gets the texts as they are,
//! with its own rules, and keeps its index in memory; both work on all cores. FTS5 works on one, in
//! one transaction, without a journal and without storing the texts. Then each is asked for the
//! best ten, on one thread, in its own language, parsing included.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use gristmill_engine::index::fulltext::{
    LakeTextIndex, SegmentTextIndex, TextPiece, TextPieceBuilder, TextQuery, pack,
};
use gristmill_rivals::{Spent, count_or, in_turns, numbers, skewed, timed, worked};
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use rand::RngExt;
use rayon::prelude::*;
use rusqlite::Connection;
use tantivy::collector::TopDocs;
use tantivy::query::QueryParser;
use tantivy::schema::{IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{Index, TantivyDocument};

// What the command line of gristmill uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Words of the language.
const WORDS: usize = 60_000;
/// Words of a text.
const LENGTH: usize = 75;
const PART: usize = 65_536;
/// Queries for phrases and for one of several words; twenty times as many of the others, which are
/// answered sooner.
const QUERIES: usize = 2_000;
/// Queries that SQLite is asked.
const FEW: usize = 100;
const BEST: usize = 10;

type Fault = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Fault> {
    let texts = texts(count_or(200_000));
    let megabytes = texts.iter().map(String::len).sum::<usize>() as f64 / 1e6;
    println!(
        "{} texts, {megabytes:.0} MB, {} threads",
        texts.len(),
        rayon::current_num_threads()
    );

    let blobs: Result<Vec<Vec<u8>>, Fault> = texts
        .par_iter()
        .enumerate()
        .map(|(at, text)| blob(text, at))
        .collect();
    let batches = batches(&blobs?)?;
    let (own, packed) = worked(|| {
        let pieces: Result<Vec<TextPiece>, Fault> = batches.par_iter().map(piece).collect();
        Ok::<_, Fault>(pack(&pieces?))
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
        own.of(theirs)
    );
    let reader = index.reader()?;
    let searcher = reader.searcher();
    let parser = QueryParser::for_index(&index, vec![field]);

    let folder = tempfile::tempdir()?;
    let connection = Connection::open(folder.path().join("fts.db"))?;
    let (sqlite, filled) = worked(|| fill(&connection, &texts));
    filled?;
    println!("SQLite FTS5: {sqlite}; ours takes {}", own.of(sqlite));

    println!("query      ours/s   tantivy/s   ratio   FTS5/s   ratio");
    for kind in [Kind::One, Kind::Both, Kind::Any, Kind::Phrase] {
        let asked = kind.queries(&texts);
        let [(ours, _), (theirs, _)] = in_turns(
            &asked,
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
        // SQLite is slower by orders: it is asked less.
        let few = asked.get(..FEW).unwrap_or_default();
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
    let mut random = numbers(3);
    let word = |place: usize| {
        format!(
            "{}{}",
            ["ta", "ri", "mo", "ken", "sul"][place % 5],
            base(place)
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

/// A number in letters.
fn base(mut number: usize) -> String {
    let mut letters = String::new();
    while number > 0 {
        letters.push(char::from(b'a' + (number % 20) as u8));
        number /= 20;
    }
    letters
}

fn blob(text: &str, number: usize) -> Result<Vec<u8>, Fault> {
    let json = format!(
        r#"{{"type":"event","content":"{text}","created_at":{}}}"#,
        1_768_477_800_000_u64 + number as u64
    );
    Ok(encode_json(&Json::parse(json.as_bytes())?, EncodeOptions::default())?.blob)
}

fn batches(blobs: &[Vec<u8>]) -> Result<Vec<RecordBatch>, Fault> {
    let batch = |part: &[Vec<u8>]| {
        let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(part));
        Ok(RecordBatch::try_from_iter([(TextPiece::COLUMN, column)])?)
    };
    blobs.chunks(PART).map(batch).collect()
}

/// What a segment's row group is made into while it is written.
fn piece(batch: &RecordBatch) -> Result<TextPiece, Fault> {
    let mut piece = TextPieceBuilder::new()?;
    piece.add(batch)?;
    piece.finish()
}

/// The same texts in an index of tantivy's own: its default words, their places, nothing stored.
fn tantivy_alone(texts: &[String]) -> Result<(Index, tantivy::schema::Field, Spent), Fault> {
    let indexing =
        TextFieldIndexing::default().set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let mut schema = Schema::builder();
    let field = schema.add_text_field(
        "text",
        TextOptions::default().set_indexing_options(indexing),
    );
    let index = Index::create_in_ram(schema.build());
    let (spent, made) = worked(|| {
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

/// One query in each one's language.
struct Asked {
    ours: String,
    tantivy: String,
    sqlite: String,
}

impl Kind {
    /// Queries of words that stand in the texts.
    fn queries(self, texts: &[String]) -> Vec<Asked> {
        let mut random = numbers(4);
        let ask = |_| {
            let text = &texts[random.random_range(0..texts.len())];
            let words: Vec<&str> = text.split(' ').collect();
            let at = random.random_range(0..words.len() - 2);
            let (one, two, three) = (words[at], words[at + 1], words[at + 2]);
            match self {
                Kind::One => Asked {
                    ours: one.into(),
                    tantivy: one.into(),
                    sqlite: one.into(),
                },
                Kind::Both => Asked {
                    ours: format!("{one} {three}"),
                    tantivy: format!("{one} AND {three}"),
                    sqlite: format!("{one} AND {three}"),
                },
                Kind::Any => {
                    let any = format!("{one} OR {two} OR {three}");
                    Asked {
                        ours: any.clone(),
                        tantivy: any.clone(),
                        sqlite: any,
                    }
                }
                Kind::Phrase => {
                    let phrase = format!("\"{one} {two}\"");
                    Asked {
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
        (0..count).map(ask).collect()
    }
}

/// How many were found: every query is for words that stand in a text.
fn found(query: &Asked, count: usize) -> Result<usize, Fault> {
    if count == 0 {
        Err(format!("nothing for {}", query.ours).into())
    } else {
        Ok(count)
    }
}

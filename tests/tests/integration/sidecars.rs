//! Sidecars: answers are the same with intact, missing and damaged ones; EXPLAIN shows which were
//! used.
//!
//! Above 500 lines: all tests share one lake.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use gristmill_connectors::generate::Corpus;
use gristmill_connectors::source::discover;
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::index::vectors::embed::{EmbedError, Embedder};
use gristmill_engine::index::vectors::{VectorSource, index_vectors};
use gristmill_engine::index::{IndexKinds, SidecarCache, reindex};
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::lake::Lake;
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_queries::sql::{DataFusionError, SqlOptions, lake_context};
use gristmill_tests::grains::frames;
use gristmill_tests::lake::patient_session;

/// A lake of three segments, each from one source.
async fn lake(folder: &Path) -> Lake {
    lake_of(folder, 3).await
}

async fn lake_of(folder: &Path, sources: u64) -> Lake {
    let mut lake = Lake::open_or_create(&folder.join("lake").display().to_string())
        .await
        .unwrap();
    let corpus = Corpus {
        seed: 5,
        people: 40,
    };
    for number in 0..sources {
        let blobs: Vec<_> = corpus
            .block(number)
            .unwrap()
            .grains
            .into_iter()
            .map(|grain| grain.blob)
            .collect();
        let path = folder.join(format!("{number}.frames"));
        std::fs::write(&path, frames(&blobs)).unwrap();
        let sources = discover(&[path.display().to_string()]).await.unwrap();
        let options = IngestOptions {
            threads: 2,
            ..IngestOptions::default()
        };
        ingest(
            &mut lake,
            sources,
            &options,
            Arc::new(IngestProgress::default()),
        )
        .await
        .unwrap();
    }
    lake
}

#[tokio::test(flavor = "multi_thread")]
async fn the_full_text_of_a_merged_segment_has_one_piece_for_each_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = lake_of(folder.path(), 5).await;
    let options = CompactOptions {
        threads: 2,
        ..CompactOptions::default()
    };
    let report = compact(&mut lake, &options, Arc::new(WorkProgress::default()))
        .await
        .unwrap();
    assert_eq!((report.segments_before, report.segments_after), (5, 1));
    let segments = lake.segments().unwrap();
    let text = SidecarCache::of(&lake)
        .text(lake.location(), &segments[0])
        .await
        .unwrap();
    assert!(report.rows > 8_192, "fewer rows than are merged at a time");
    assert!(text.has_piece(0, report.rows as u32));
}

/// Returns the rows of `query` as text.
async fn rows(lake: &Lake, query: &str) -> Vec<String> {
    let context = lake_context(
        lake,
        &SqlOptions {
            threads: 2,
            ..SqlOptions::default()
        },
    )
    .await
    .unwrap();
    let mut rows = Vec::new();
    for batch in context.sql(query).await.unwrap().collect().await.unwrap() {
        for row in 0..batch.num_rows() {
            let cells = batch
                .columns()
                .iter()
                .map(|column| array_value_to_string(column, row).unwrap());
            rows.push(cells.collect::<Vec<_>>().join(" | "));
        }
    }
    rows
}

async fn explained(lake: &Lake, query: &str) -> String {
    rows(lake, &format!("EXPLAIN {query}")).await.join("\n")
}

/// Reopens the lake, without open sidecars.
async fn reopened(folder: &Path) -> Lake {
    Lake::open(&folder.join("lake").display().to_string())
        .await
        .unwrap()
}

fn sidecars(folder: &Path, name: &str) -> Vec<PathBuf> {
    let segments = std::fs::read_dir(folder.join("lake/index")).unwrap();
    let mut files: Vec<_> = segments
        .map(|segment| segment.unwrap().path().join(name))
        .filter(|path| path.exists())
        .collect();
    files.sort();
    files
}

/// Returns queries with filters that sidecars answer, made from the lake's content.
async fn queries(lake: &Lake) -> Vec<String> {
    let triple = rows(
        lake,
        "SELECT subject, relation, object FROM triples ORDER BY object DESC, subject LIMIT 1",
    )
    .await;
    let parts: Vec<String> = triple[0]
        .split(" | ")
        .map(|part| part.replace('\'', "''"))
        .collect();
    let (subject, relation, object) = (&parts[0], &parts[1], &parts[2]);
    let addresses = rows(
        lake,
        "SELECT content_address FROM grains ORDER BY 1 LIMIT 40",
    )
    .await
    .join("', '");
    let columns = "content_address, type, subject, relation, object";
    vec![
        format!("SELECT {columns} FROM grains WHERE subject = '{subject}' ORDER BY 1"),
        format!("SELECT {columns} FROM grains WHERE object = '{object}' ORDER BY 1"),
        format!("SELECT {columns} FROM beliefs WHERE relation = '{relation}' AND subject = \
                 '{subject}' ORDER BY 1"),
        format!(
            "SELECT {columns} FROM grains WHERE subject IN ('{subject}', 'nobody') AND importance \
             > 0.2 ORDER BY 1"
        ),
        format!("SELECT {columns} FROM grains WHERE subject = 'nobody' ORDER BY 1"),
        format!("SELECT {columns} FROM grains WHERE subject = 'nobody' AND subject = '{subject}'"),
        format!("SELECT count(*) FROM grains WHERE relation = '{relation}'"),
        format!("SELECT {columns} FROM grains WHERE content_address IN ('{addresses}') ORDER BY 1"),
        format!(
            "SELECT {columns} FROM grains WHERE content_address IN ('{addresses}') AND subject = \
             '{subject}' ORDER BY 1"
        ),
        format!("SELECT address, object FROM pattern('{subject}', NULL, NULL) ORDER BY 1"),
        format!("SELECT count(*) FROM pattern('{subject}', '{relation}', '{object}')"),
        format!("SELECT count(*) FROM pattern(NULL, NULL, '{object}')"),
        "SELECT count(*) FROM pattern(NULL, NULL, NULL)".to_owned(),
        // A grain with a subject and nothing else must be found too.
        "SELECT subject, count(*) FROM grains WHERE subject IS NOT NULL AND relation IS NULL GROUP \
         BY 1 ORDER BY 1"
            .to_owned(),
        "SELECT content_address, round(score, 6), snippet, matched_fields, type, created_at FROM \
         search('pre* OR project', 40)"
            .to_owned(),
        "SELECT count(*), max(score) <= 1 FROM search('a', 10000) WHERE type = 'belief'".to_owned(),
        "SELECT subject FROM search('nothing-has-this-word')".to_owned(),
        format!("SELECT count(*) FROM triples a JOIN triples b ON a.object = b.subject WHERE \
                 a.subject = '{subject}'"),
    ]
}

async fn answers(lake: &Lake, queries: &[String]) -> Vec<Vec<String>> {
    let mut answers = Vec::new();
    for query in queries {
        answers.push(rows(lake, query).await);
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_do_not_depend_on_sidecars() {
    let folder = tempfile::tempdir().unwrap();
    let whole = lake(folder.path()).await;
    let queries = queries(&whole).await;
    let expected = answers(&whole, &queries).await;
    assert!(
        expected[0].len() > 1 && expected[7].len() == 40,
        "{:?}",
        &expected[0]
    );
    assert!(expected[4].is_empty() && expected[5].is_empty());
    assert!(
        expected[14].len() == 40 && expected[16].is_empty(),
        "{:?}",
        expected[14]
    );

    let explained_whole = explained(&whole, &queries[0]).await;
    assert!(
        explained_whole.contains("index=hexastore(subject)"),
        "{explained_whole}"
    );
    assert!(!explained_whole.contains("read whole"), "{explained_whole}");
    let by_address = explained(&whole, &queries[8]).await;
    assert!(
        by_address.contains("hexastore(subject) and addresses(content_address)"),
        "{by_address}"
    );

    // One sidecar is missing, one is damaged, one belongs to another segment.
    let files = sidecars(folder.path(), "hexastore.bin");
    assert_eq!(files.len(), 3);
    std::fs::remove_file(&files[0]).unwrap();
    let mut bytes = std::fs::read(&files[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&files[1], bytes).unwrap();
    let texts = sidecars(folder.path(), "fulltext.bin");
    std::fs::remove_file(&texts[2]).unwrap();
    std::fs::write(&texts[0], b"nothing").unwrap();
    let hurt = reopened(folder.path()).await;
    assert_eq!(answers(&hurt, &queries).await, expected);
    assert!(explained(&hurt, &queries[0]).await.contains("2 read whole"));

    for name in ["hexastore.bin", "addresses.bin", "fulltext.bin"] {
        for file in sidecars(folder.path(), name) {
            std::fs::remove_file(file).unwrap();
        }
    }
    let bare = reopened(folder.path()).await;
    assert_eq!(answers(&bare, &queries).await, expected);
    assert!(explained(&bare, &queries[0]).await.contains("3 read whole"));

    let report = reindex(&bare, IndexKinds::ALL, false).await.unwrap();
    assert_eq!((report.rebuilt, report.whole), (3, 0));
    assert_eq!(answers(&bare, &queries).await, expected);
    assert!(!explained(&bare, &queries[0]).await.contains("read whole"));
    assert_eq!(
        reindex(&bare, IndexKinds::ALL, false).await.unwrap().whole,
        3
    );
}

/// Returns CAL statements that sidecars answer, made from the lake's content.
async fn statements(lake: &Lake) -> Vec<String> {
    let cells = |query: &'static str| async move { rows(lake, query).await };
    let subjects =
        cells("SELECT subject FROM beliefs GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 3").await;
    let texts = cells(
        "SELECT content FROM events WHERE content LIKE '% % %' ORDER BY content_address LIMIT 6",
    )
    .await;
    let old = cells("SELECT content_address FROM supersessions ORDER BY 1 LIMIT 1").await;
    let mut statements = vec![
        "RECALL WHERE query = \"nothing-has-this-word\"".to_owned(),
        "RECALL WHERE query = \"-- !\"".to_owned(),
        "RECALL WHERE query = \"prefers\" | COUNT".to_owned(),
        "RECALL beliefs WHERE query = \"PREFERS\" AND score >= 0.3 | LIMIT 50".to_owned(),
        "RECALL events WHERE query = \"the\" | ORDER BY time DESC | LIMIT 7".to_owned(),
    ];
    for subject in &subjects {
        statements.push(format!("RECALL WHERE subject = {subject:?} | LIMIT 100"));
        statements.push(format!(
            "RECALL beliefs WHERE subject = {subject:?} WITH superseded | LIMIT 100"
        ));
        statements.push(format!(
            "RECALL WHERE subject = {subject:?} AND query = \"prefers\""
        ));
    }
    for text in &texts {
        let words: Vec<&str> = text
            .split(' ')
            .filter(|word| word.chars().all(char::is_alphanumeric))
            .take(3)
            .collect();
        for several in 1..=words.len() {
            statements.push(format!(
                "RECALL WHERE query = {:?} | LIMIT 100",
                words[..several].join(" ")
            ));
        }
    }
    statements.extend(
        old.iter()
            .map(|address| format!("HISTORY sha256:{address}")),
    );
    statements
}

/// Returns the answers to `statements`, without duration and amount read.
async fn told(lake: &Lake, statements: &[String]) -> Vec<String> {
    let context = lake_context(
        lake,
        &SqlOptions {
            threads: 2,
            ..SqlOptions::default()
        },
    )
    .await
    .unwrap();
    let executor = Executor::new(context, patient_session(1_800_000_000_000));
    let mut told = Vec::new();
    for statement in statements {
        let answer = executor
            .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
            .await;
        let answer = answer.unwrap_or_else(|error| panic!("{statement}: {error}"));
        told.push(format!("{:?}", answer.answer));
    }
    told
}

async fn plan(lake: &Lake, statement: &str) -> String {
    let context = lake_context(lake, &SqlOptions::default()).await.unwrap();
    let executor = Executor::new(context, patient_session(1_800_000_000_000));
    let text = format!("EXPLAIN {statement}");
    let answer = executor
        .run_text(text.as_bytes(), &Bindings::new(), Options::default())
        .await
        .unwrap();
    answer.answer.plan.unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cal_answers_do_not_depend_on_sidecars_and_explain_names_those_used() {
    let folder = tempfile::tempdir().unwrap();
    let whole = lake(folder.path()).await;
    let statements = statements(&whole).await;
    let expected = told(&whole, &statements).await;
    let found = expected
        .iter()
        .filter(|answer| !answer.contains("results: []"))
        .count();
    assert!(
        statements.len() > 20 && found > 15,
        "{found} of {}",
        statements.len()
    );

    let search = "RECALL WHERE query = \"prefers\"";
    let explained = plan(&whole, search).await;
    assert!(
        explained.contains("index=fulltext(prefers)") && !explained.contains("read whole"),
        "{explained}"
    );
    let explained = plan(
        &whole,
        "RECALL beliefs WHERE subject = \"nobody\" AND query = \"tea\"",
    )
    .await;
    assert!(
        explained.contains("index=fulltext(tea) and hexastore(subject): 0 of"),
        "{explained}"
    );

    let texts = sidecars(folder.path(), "fulltext.bin");
    std::fs::remove_file(&texts[0]).unwrap();
    std::fs::write(&texts[2], b"nothing").unwrap();
    let hurt = reopened(folder.path()).await;
    assert_eq!(told(&hurt, &statements).await, expected);
    let explained = plan(&hurt, search).await;
    assert!(explained.contains("2 read whole"), "{explained}");

    std::fs::remove_dir_all(folder.path().join("lake/index")).unwrap();
    let bare = reopened(folder.path()).await;
    assert_eq!(told(&bare, &statements).await, expected);
    assert!(plan(&bare, search).await.contains("3 read whole"));
}

/// An embedder with one dimension per letter: its frequency in the text.
#[derive(Debug)]
struct Letters;

impl Embedder for Letters {
    fn model(&self) -> &str {
        "letters"
    }

    fn dimensions(&self) -> usize {
        26
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let counts = |text: &String| {
            let mut counts = vec![0.0; 26];
            for letter in text
                .to_ascii_lowercase()
                .bytes()
                .filter(u8::is_ascii_lowercase)
            {
                counts[usize::from(letter - b'a')] += 1.0;
            }
            counts
        };
        Ok(texts.iter().map(counts).collect())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vector_and_hybrid_searches_are_complete_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(folder.path()).await;
    let report = index_vectors(&lake, &VectorSource::Embedder(Arc::new(Letters)), false)
        .await
        .unwrap();
    assert_eq!((report.segments, report.unfit), (3, 0));
    let options = SqlOptions {
        threads: 2,
        embedder: Some(Arc::new(Letters)),
        ..SqlOptions::default()
    };
    let ask = async |lake: &Lake, query: &str| {
        let context = lake_context(lake, &options).await.unwrap();
        let batches = context.sql(query).await?.collect().await?;
        let cells = batches.iter().flat_map(|batch| {
            let cell = |row: usize, column: usize| {
                array_value_to_string(batch.column(column), row).unwrap()
            };
            (0..batch.num_rows()).map(move |row| {
                (0..batch.num_columns())
                    .map(|at| cell(row, at))
                    .collect::<Vec<_>>()
            })
        });
        Ok::<_, DataFusionError>(cells.collect::<Vec<_>>())
    };
    let texts = "SELECT content FROM events WHERE length(content) > 60 AND subject IS NULL ORDER \
                 BY content_address LIMIT 8";
    let texts = ask(&lake, texts).await.unwrap();
    assert_eq!(texts.len(), 8);
    for text in texts.iter().map(|row| &row[0]) {
        let quoted = text.replace('\'', "''");
        let found = ask(
            &lake,
            &format!("SELECT score FROM vector_search('{quoted}', 5)"),
        )
        .await
        .unwrap();
        assert!(
            found.len() == 5 && found[0][0].parse::<f64>().unwrap() > 0.999,
            "{text}: {found:?}"
        );
        let words: Vec<&str> = text
            .split(' ')
            .filter(|word| word.len() > 4 && word.chars().all(char::is_alphanumeric))
            .take(8)
            .collect();
        let hybrid = format!(
            "SELECT content, score FROM hybrid_search('{}', 5)",
            words.join(" ")
        );
        let found = ask(&lake, &hybrid).await.unwrap();
        let has_all = |content: &String| {
            let content = content.to_lowercase();
            words
                .iter()
                .all(|word| content.contains(&word.to_lowercase()))
        };
        assert!(
            found.len() == 5 && found.iter().any(|row| has_all(&row[0])),
            "{words:?}: {found:?}"
        );
    }
    let indexes = "SELECT index, state, count(*) FROM indexes GROUP BY 1, 2 ORDER BY 1";
    let indexes: Vec<String> = ask(&lake, indexes)
        .await
        .unwrap()
        .iter()
        .map(|row| row.join(" "))
        .collect();
    assert_eq!(
        indexes,
        [
            "addresses fresh 3",
            "fulltext fresh 3",
            "hexastore fresh 3",
            "lifecycle fresh 3",
            "vectors:letters fresh 3",
            "words fresh 3"
        ]
    );

    let file = std::fs::read_dir(folder.path().join("lake/index")).unwrap();
    let file = file.flat_map(|segment| std::fs::read_dir(segment.unwrap().path()).unwrap());
    let file = file
        .map(|file| file.unwrap().path())
        .find(|path| path.to_string_lossy().contains("vectors-"))
        .unwrap();
    std::fs::remove_file(file).unwrap();
    let hurt = reopened(folder.path()).await;
    let refused = ask(&hurt, "SELECT score FROM vector_search('anything', 5)")
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("has none of the model `letters`"),
        "{refused}"
    );
    let missing = ask(&hurt, "SELECT index FROM indexes WHERE state = 'missing'")
        .await
        .unwrap();
    assert_eq!(missing, [["vectors:letters"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_totals_and_pages_are_exact_for_any_limit() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(folder.path()).await;
    // The expected answer, row by row.
    let beliefs = "SELECT relation, subject, confidence, content_address FROM grains
                   WHERE type = 'belief' AND content_address NOT IN (SELECT content_address FROM supersessions)";
    let beliefs: Vec<Vec<String>> = rows(&lake, beliefs)
        .await
        .iter()
        .map(|row| row.split(" | ").map(str::to_owned).collect::<Vec<_>>())
        .filter(|row| row.len() == 4)
        .collect();
    let context = lake_context(
        &lake,
        &SqlOptions {
            threads: 2,
            ..SqlOptions::default()
        },
    )
    .await
    .unwrap();
    let executor = Executor::new(context, patient_session(1_800_000_000_000));
    let ask = async |text: String| {
        let answer = executor
            .run_text(text.as_bytes(), &Bindings::new(), Options::default())
            .await;
        answer
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .answer
    };
    let mut relations: Vec<&String> = beliefs.iter().map(|row| &row[0]).collect();
    relations.sort();
    relations.dedup();
    assert!(relations.len() > 3);
    for relation in relations {
        for least in [0.0, 0.5, 0.9] {
            let fits =
                |row: &&Vec<String>| row[0] == *relation && row[2].parse::<f64>().unwrap() >= least;
            let expected = beliefs.iter().filter(fits).count() as u64;
            let query =
                format!("RECALL beliefs WHERE relation = {relation:?} AND confidence >= {least:?}");
            let counted = ask(format!("{query} | COUNT")).await;
            assert_eq!(counted.value.unwrap().as_u64(), Some(expected), "{query}");
            for limit in [1_u64, 7, 1000] {
                let answer = ask(format!("{query} | LIMIT {limit}")).await;
                let page = (answer.total, answer.results.len() as u64);
                assert_eq!(
                    page,
                    (expected, expected.min(limit)),
                    "{query} LIMIT {limit}"
                );
            }
            let skipped = ask(format!("{query} | OFFSET 3 | LIMIT 1000")).await;
            assert_eq!(
                skipped.results.len() as u64,
                expected.saturating_sub(3).min(1000),
                "{query}"
            );
            let mut subjects: Vec<&String> =
                beliefs.iter().filter(fits).map(|row| &row[1]).collect();
            subjects.sort();
            subjects.dedup();
            let told = ask(format!("{query} | SUBJECTS")).await.value.unwrap();
            assert_eq!(
                told.as_array().unwrap().len(),
                subjects.len().min(1000),
                "{query}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reindexed_sidecars_equal_those_of_ingest() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(folder.path()).await;
    let files = |name| {
        sidecars(folder.path(), name)
            .into_iter()
            .map(|path| std::fs::read(path).unwrap())
    };
    let before: Vec<_> = files("hexastore.bin")
        .chain(files("addresses.bin"))
        .collect();
    reindex(&lake, IndexKinds::ALL, true).await.unwrap();
    let after: Vec<_> = files("hexastore.bin")
        .chain(files("addresses.bin"))
        .collect();
    assert!(before == after && before.len() == 6);
}

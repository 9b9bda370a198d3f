//! Sidecars: answers are the same with intact, missing and damaged ones; EXPLAIN shows which were
//! used.

mod cal_answers;
mod domain_fields;
mod join_lookup;
mod vectors;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use gristmill_connectors::generate::Corpus;
use gristmill_connectors::source::discover;
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::index::{IndexKinds, SidecarCache, reindex};
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::lake::Lake;
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::sql::{SessionContext, SqlOptions, lake_context};
use gristmill_tests::grains::frames;

/// A lake of three segments, each from one source.
async fn lake(folder: &Path) -> Lake {
    lake_of(folder, 3).await
}

async fn lake_of(folder: &Path, sources: u64) -> Lake {
    let mut lake = Lake::open_or_create(&folder.join("lake").display().to_string())
        .await
        .unwrap();
    let corpus = Corpus::new(5, 40);
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

/// Returns a context over `lake` with two threads.
async fn context(lake: &Lake) -> SessionContext {
    let options = SqlOptions {
        threads: 2,
        ..SqlOptions::default()
    };
    lake_context(lake, &options).await.unwrap()
}

/// Returns the rows of `query` as text.
async fn rows(lake: &Lake, query: &str) -> Vec<String> {
    let context = context(lake).await;
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

//! Searches by vectors are complete, or refused if vectors are missing.

use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use gristmill_engine::index::vectors::embed::{EmbedError, Embedder};
use gristmill_engine::index::vectors::{VectorSource, index_vectors};
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{DataFusionError, SqlOptions, lake_context};

use super::{lake, reopened};

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
            "fields fresh 3",
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

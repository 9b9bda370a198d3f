//! Exact answers for any LIMIT. `cargo run --release --bin exact` runs the same over lakes of
//! millions of grains.

use gristmill_queries::exec::Executor;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_tests::binary::gristmill;
use gristmill_tests::exact::{Corpus, answered};
use gristmill_tests::lake::patient_session;

#[tokio::test(flavor = "multi_thread")]
async fn counts_aggregates_and_pages_equal_a_pass_over_every_grain() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (files, lake) = (place("corpus"), place("lake"));
    let generate = [
        "generate",
        &files,
        "--grains",
        "6000",
        "--file-grains",
        "2000",
        "--people",
        "100",
        "--quiet",
    ];
    gristmill().args(generate).assert().success();
    for number in 0..3 {
        // One segment per file.
        gristmill()
            .args([
                "--lake",
                &lake,
                "--quiet",
                "ingest",
                &format!("{files}/corpus-{number:05}.mg"),
            ])
            .assert()
            .success();
    }
    let corpus = Corpus::read(files.as_ref()).unwrap();
    assert_eq!(corpus.len(), 6_000);
    let lake = gristmill_engine::lake::Lake::open(&lake).await.unwrap();
    let context = lake_context(&lake, &SqlOptions::default()).await.unwrap();
    let executor = Executor::new(context.clone(), patient_session(1_800_000_000_000));
    for question in corpus.questions(60, 20_261_122) {
        let got = answered(&context, &executor, &question).await.unwrap();
        assert_eq!(got, question.wanted, "{}", question.text);
    }
}

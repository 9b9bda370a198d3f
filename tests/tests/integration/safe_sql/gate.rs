//! The gate: statements that read run, statements that modify or access files are refused.

use std::fs;

use gristmill_queries::sql::{
    FileAccess, SqlOptions, bare_context, execute, lake_context, statements,
};
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::TestLake;

use super::SqlFolder;

/// Statements that write or read files, alone and nested; OUT is a file to write, IN one to read.
const OF_FILES: [&str; 8] = [
    "COPY (SELECT 1 AS n) TO 'OUT' STORED AS CSV",
    "COPY grains TO 'OUT' STORED AS PARQUET",
    "EXPLAIN COPY (SELECT 1 AS n) TO 'OUT' STORED AS CSV",
    "EXPLAIN ANALYZE COPY (SELECT 1 AS n) TO 'OUT' STORED AS CSV",
    "COPY (WITH a AS (SELECT 1 AS n) SELECT * FROM a) TO 'OUT' STORED AS CSV",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'IN' OPTIONS ('format.has_header' 'true')",
    "CREATE EXTERNAL TABLE IF NOT EXISTS t STORED AS CSV LOCATION 'IN'",
    "CREATE UNBOUNDED EXTERNAL TABLE t (n INT) STORED AS CSV LOCATION 'IN'",
];

/// Statements that are always refused, and the word by which the message names them.
const REFUSED: [(&str, &str); 23] = [
    ("DROP TABLE grains", "DROP TABLE"),
    ("DROP TABLE IF EXISTS nothing", "DROP TABLE"),
    ("DROP VIEW beliefs", "DROP VIEW"),
    ("DROP SCHEMA public CASCADE", "DROP SCHEMA"),
    ("CREATE TABLE t AS SELECT 1 AS n", "CREATE TABLE"),
    ("CREATE TABLE t (n INT)", "CREATE TABLE"),
    (
        "CREATE OR REPLACE TABLE grains AS SELECT 1 AS n",
        "CREATE TABLE",
    ),
    ("CREATE VIEW v AS SELECT * FROM grains", "CREATE VIEW"),
    (
        "CREATE OR REPLACE VIEW current AS SELECT * FROM grains",
        "CREATE VIEW",
    ),
    (
        "CREATE OR REPLACE EXTERNAL TABLE grains STORED AS CSV LOCATION 'IN'",
        "EXTERNAL TABLE",
    ),
    ("CREATE SCHEMA s", "CREATE SCHEMA"),
    ("CREATE DATABASE d", "CREATE DATABASE"),
    ("INSERT INTO grains SELECT * FROM grains", "INSERT"),
    ("EXPLAIN INSERT INTO grains SELECT * FROM grains", "INSERT"),
    ("INSERT INTO grains VALUES (1)", "INSERT"),
    ("PREPARE p AS INSERT INTO nothing VALUES (1)", "INSERT"),
    ("DELETE FROM grains", "DELETE"),
    ("UPDATE grains SET type = 'x'", "UPDATE"),
    ("UPDATE grains SET nothing = 1", "UPDATE"),
    (
        "SET datafusion.runtime.memory_limit = '100G'",
        "datafusion.runtime.memory_limit",
    ),
    (
        "SET datafusion.catalog.location = '/etc'",
        "datafusion.catalog.location",
    ),
    (
        "RESET datafusion.runtime.memory_limit",
        "datafusion.runtime.memory_limit",
    ),
    ("START TRANSACTION", "BEGIN"),
];

/// Statements that only read.
const READING: [&str; 10] = [
    "SELECT count(*) FROM grains",
    "SHOW TABLES",
    "DESCRIBE grains",
    "EXPLAIN SELECT * FROM grains",
    "EXPLAIN ANALYZE SELECT * FROM grains",
    "SET datafusion.execution.batch_size = 1024",
    "SHOW datafusion.execution.batch_size",
    "PREPARE p(BIGINT) AS SELECT $1 + 1; EXECUTE p(1); DEALLOCATE p",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
    "VALUES (1), (2)",
];

#[test]
fn sql_accesses_files_only_with_permission() {
    let folder = SqlFolder::with_lake();
    fs::write(folder.at("in.csv"), "n\n1\n").unwrap();
    let (out, input) = (folder.at("out.csv"), folder.at("in.csv"));
    for statement in OF_FILES {
        let statement = statement
            .replace("OUT", out.to_str().unwrap())
            .replace("IN'", &format!("{}'", input.display()));
        let (code, shown, err) = folder.sql(&statement);
        assert_eq!((code, shown.as_str()), (1, ""), "{statement}: {err}");
        assert!(err.contains("--allow-files"), "{statement}: {err}");
        assert!(!out.exists(), "{statement}");
        let (code, _, err) = folder.run(&["sql", "--allow-files", &statement]);
        assert_eq!(code, 0, "{statement}: {err}");
        if out.is_dir() {
            fs::remove_dir_all(&out).unwrap()
        } else {
            let _ = fs::remove_file(&out);
        }
    }
    let prepared = format!(
        "PREPARE p AS COPY (SELECT 1 AS n) TO '{}' STORED AS CSV; EXECUTE p",
        out.display()
    );
    assert_eq!(folder.sql(&prepared).0, 1);
    assert!(!out.exists());
    let both = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'; SELECT n FROM t",
        input.display()
    );
    let (code, shown, err) = folder.run(&["sql", "--allow-files", "--format", "csv", &both]);
    assert_eq!((code, shown.as_str()), (0, "n\n1\n"), "{err}");
    // Reading containers and transcripts is always allowed.
    let (code, shown, err) = folder.sql("SELECT count(*) AS n FROM mg_file('in.frames')");
    assert_eq!((code, shown.as_str()), (0, "n\n5\n"), "{err}");
}

#[test]
fn modifying_statements_are_refused_with_the_reason() {
    let folder = SqlFolder::with_lake();
    for (statement, named) in REFUSED {
        for more in [None, Some("--allow-files")] {
            let script = format!("{statement}; SELECT 1");
            let words: Vec<&str> = ["sql"]
                .into_iter()
                .chain(more)
                .chain([script.as_str()])
                .collect();
            let (code, out, err) = folder.run(&words);
            assert_eq!((code, out.as_str()), (1, ""), "{statement}: {err}");
            assert!(
                err.contains(named)
                    && (err.contains("is refused")
                        || err.contains(
                            "can't be \
                    changed"
                        )),
                "{statement}: {err}"
            );
        }
    }
}

#[test]
fn reading_statements_are_run() {
    let folder = SqlFolder::with_lake();
    for statement in READING {
        let (code, _, err) = folder.sql(statement);
        assert_eq!(code, 0, "{statement}: {err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_session_accesses_no_file() {
    let mut folder = TestLake::new().await;
    let blob = grain(r#"{"type":"event","content":"word","created_at":1}"#).blob;
    folder.ingest(&[("in.frames", &frames(&[blob]))]).await;
    let file = folder.folder().join("out.csv");
    let context = lake_context(&folder.lake, &SqlOptions::default())
        .await
        .unwrap();
    let copy = format!("COPY (SELECT 1 AS n) TO '{}' STORED AS CSV", file.display());
    // Behind the gate no file system is registered.
    let around = context.sql(&copy).await.unwrap().collect().await;
    assert!(around.is_err() && !file.exists(), "{around:?}");
    for query in [
        copy.as_str(),
        "SELECT * FROM mg_file('x.mg')",
        "SELECT * FROM transcript_file('x.jsonl')",
    ] {
        let statement = statements(query).unwrap().remove(0);
        let error = execute(&context, statement)
            .await
            .err()
            .expect(query)
            .to_string();
        assert!(error.contains("file"), "{query}: {error}");
    }
    let bare = bare_context(&SqlOptions {
        files: FileAccess::ReadAndWrite,
        ..SqlOptions::default()
    })
    .unwrap();
    bare.sql(&copy).await.unwrap().collect().await.unwrap();
    assert!(file.exists());
}

//! Which SQL statements run, where files may be accessed, and the messages of failing statements.

use std::fs;
use std::path::PathBuf;

use gristmill_queries::sql::{
    FileAccess, SqlOptions, bare_context, execute, lake_context, statements,
};
use gristmill_tests::binary::{Ended, ended, gristmill};
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::TestLake;

/// A folder with a lake of a few events.
struct SqlFolder {
    folder: tempfile::TempDir,
}

impl SqlFolder {
    fn empty() -> SqlFolder {
        SqlFolder {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn with_lake() -> SqlFolder {
        let folder = SqlFolder::empty();
        let event = |at: usize| {
            grain(&format!(
                r#"{{"type":"event","content":"word {at}","user_id":"u-{at}","created_at":{at}}}"#
            ))
            .blob
        };
        fs::write(
            folder.at("in.frames"),
            frames(&(1..=5).map(event).collect::<Vec<_>>()),
        )
        .unwrap();
        assert_eq!(folder.run(&["ingest", "in.frames"]).0, 0);
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Ended {
        ended(gristmill().current_dir(self.folder.path()).args(words))
    }

    fn sql(&self, query: &str) -> Ended {
        self.run(&["sql", "--format", "csv", query])
    }
}

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
const REFUSED: [(&str, &str); 20] = [
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
    ("DELETE FROM grains", "DELETE"),
    ("UPDATE grains SET type = 'x'", "UPDATE"),
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

#[test]
fn a_missing_lake_is_named_and_statements_without_tables_run() {
    let folder = SqlFolder::empty();
    let blob = grain(r#"{"type":"event","content":"word","created_at":1}"#).blob;
    fs::write(folder.at("in.frames"), frames(&[blob])).unwrap();
    for query in [
        "SELECT * FROM grains",
        "SELECT * FROM beliefs",
        "SELECT * FROM usage",
        "SELECT * FROM segments",
        "DESCRIBE grains",
        "SELECT * FROM search('word')",
        "SELECT * FROM vector_search('word', 1)",
        "SELECT * FROM history('00')",
        "SELECT * FROM thread('s')",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM audit)",
    ] {
        for (words, named) in [
            (vec!["sql", query], "`lake`"),
            (vec!["--lake", "elsewhere", "sql", query], "`elsewhere`"),
        ] {
            let (code, out, err) = folder.run(&words);
            assert_eq!((code, out.as_str()), (1, ""), "{query}: {err}");
            assert!(
                err.contains("no lake at")
                    && err.contains(named)
                    && err.contains("gristmill ingest"),
                "{query}: {err}"
            );
        }
    }
    for (query, answer) in [
        ("SELECT 1 AS n", "n\n1\n"),
        (
            "SELECT content FROM mg_file('in.frames')",
            "content\nword\n",
        ),
        (
            "WITH grains AS (SELECT 7 AS n) SELECT n FROM grains",
            "n\n7\n",
        ),
    ] {
        let (code, out, err) = folder.sql(query);
        assert_eq!((code, out.as_str()), (0, answer), "{query}: {err}");
    }
    assert!(!folder.at("lake").exists());
}

#[test]
fn a_failing_statement_names_the_cause_and_suggests_a_correction() {
    let folder = SqlFolder::with_lake();
    for (query, parts, absent) in [
        (
            "SELEKT 1",
            vec!["syntax error", "SELEKT", "Line: 1, Column: 1"],
            "ParserError",
        ),
        (
            "SELECT 'a",
            vec!["syntax error", "Unterminated"],
            "TokenizerError",
        ),
        (
            "SELECT contnt FROM grains",
            vec!["no column `contnt`", "did you mean `content`"],
            "valence",
        ),
        (
            "SELECT g.contnt FROM grains g",
            vec!["no column `g.contnt`", "`content`"],
            "valence",
        ),
        (
            "SELECT xyzxyzxyz FROM grains",
            vec!["no column `xyzxyzxyz`", "DESCRIBE"],
            "valence",
        ),
        (
            "SELECT x FROM (SELECT 1 AS a, 2 AS b)",
            vec!["no column `x`", "a, b"],
            "Schema error",
        ),
        (
            "SELECT * FROM grainz",
            vec!["no table `grainz`", "`grains`", "SHOW TABLES"],
            "datafusion.public",
        ),
        (
            "SELECT * FROM belief",
            vec!["no table `belief`", "`beliefs`"],
            "datafusion.public",
        ),
        (
            "SELECT * FROM grains JOIN segmnts ON true",
            vec!["no table `segmnts`", "`segments`"],
            "datafusion.public",
        ),
    ] {
        let (code, out, err) = folder.sql(query);
        assert_eq!((code, out.as_str()), (1, ""), "{query}");
        assert!(
            parts.iter().all(|part| err.contains(part)) && !err.contains(absent),
            "{query}: {err}"
        );
        assert!(err.len() < 400, "{query}: {err}");
    }
}

#[test]
fn describe_has_the_meaning_of_each_column() {
    let folder = SqlFolder::with_lake();
    for query in [
        "DESCRIBE tool_calls",
        "DESCRIBE \"tool_calls\"",
        "DESCRIBE public.TOOL_CALLS",
    ] {
        let (code, out, err) = folder.run(&["sql", "--format", "jsonl", query]);
        assert_eq!(code, 0, "{query}: {err}");
        let rows = out.lines().map(|line| serde_json::from_str(line).unwrap());
        let rows: Vec<serde_json::Value> = rows.collect();
        assert!(rows.iter().any(|row| row["column_name"] == "latency_ms"));
        for row in &rows {
            assert!(row["description"].is_string(), "{query}: {row}");
        }
    }
    let (code, _, err) = folder.run(&["sql", "DESCRIBE tool_cals"]);
    assert!(code != 0 && err.contains("tool_calls"), "{err}");
}

#[test]
fn the_list_of_tables_is_sorted() {
    let folder = SqlFolder::with_lake();
    let (_, out, _) = folder.run(&["sql", "--format", "jsonl", "SHOW TABLES"]);
    let names: Vec<String> = out
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            format!(
                "{} {}",
                row["table_schema"].as_str().unwrap(),
                row["table_name"].as_str().unwrap()
            )
        })
        .collect();
    assert!(names.len() > 20 && names.is_sorted(), "{names:?}");
}

#[test]
fn text_functions_accept_bytes() {
    let folder = SqlFolder::with_lake();
    let query = "SELECT octet_length(blob) = blob_size AS a, length(blob) = blob_size AS b,
                        encode(sha256(blob), 'hex') = content_address AS c,
                        encode(digest(blob, 'sha256'), 'hex') = content_address AS d,
                        length(md5(blob)) AS e, encode(substr(blob, 1, 2), 'hex') = substr(encode(blob, 'hex'), 1, 4) AS f,
                        octet_length(substring(blob FROM 3)) = blob_size - 2 AS g, octet_length(substr(blob, 0, 3)) AS h,
                        octet_length(substr(blob, 100000)) AS i, length(content) AS j, substr(content, 1, 4) AS k,
                        octet_length('é') AS l, length('é') AS m, substring('abc' FROM 2 FOR 1) AS n, length(NULL) AS o
                 FROM grains LIMIT 1";
    let (code, out, err) = folder.sql(query);
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        out.lines().nth(1),
        Some("true,true,true,true,32,true,true,2,0,6,word,2,1,b,"),
        "{out}"
    );
}

#[test]
fn exceeding_the_memory_limit_names_the_option() {
    let folder = SqlFolder::with_lake();
    let query = "SELECT array_agg(value) FROM generate_series(1, 16000000)";
    let (code, _, err) = folder.run(&["--memory", "128M", "sql", query]);
    assert_eq!(code, 1);
    assert!(
        err.contains("exceeds the memory limit in an aggregate")
            && err.contains("raise --memory")
            && err.lines().count() == 1,
        "{err}"
    );
}

#[test]
fn a_condition_that_cannot_be_evaluated_is_no_damage() {
    let folder = SqlFolder::with_lake();
    let (code, _, err) = folder.sql("SELECT user_id FROM grains WHERE CAST(content AS INT) > 0");
    assert!(
        code == 1 && err.contains("can't be evaluated: CastError(") && !err.contains("damaged"),
        "{err}"
    );
}

#[test]
fn a_cal_file_runs_no_statement_if_one_does_not_parse() {
    let folder = SqlFolder::with_lake();
    fs::write(
        folder.at("three.cal"),
        "-- the first; with a semicolon in a comment\nRECALL events | COUNT;\nLET $a = RECALL \
         events; ASSEMBLE c FROM a: $a FORMAT text;\nDEFINE TEMPLATE t ELEMENT { ; \
         {{grain.content}} } ;\nASSEMBLE c FROM a: (RECALL events LIMIT 1) FORMAT TEMPLATE t",
    )
    .unwrap();
    let (code, out, err) = folder.run(&["cal", "--format", "jsonl", "--file", "three.cal"]);
    assert_eq!(code, 0, "{err}");
    let answers: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 4, "{out}");
    assert_eq!(answers[0]["value"], 5);
    assert!(
        answers[3]["formatted_context"]["text"]
            .as_str()
            .unwrap()
            .contains("; word"),
        "{}",
        answers[3]
    );
    let trees = folder
        .run(&["cal", "--format", "jsonl", "--parse", "--file", "three.cal"])
        .1;
    assert_eq!(trees.lines().count(), 4, "{trees}");
    for (text, cause) in [
        ("RECALL events; RECALL nothings;", "2 |"),
        ("RECALL events RECALL events", "semicolon"),
        ("RECALL events;\nRECALL events | LIMIT 0", "2 |"),
    ] {
        fs::write(
            folder.at("wrong.cal"),
            text.replace("; RECALL", ";\nRECALL"),
        )
        .unwrap();
        let (code, out, err) = folder.run(&["cal", "--format", "table", "--file", "wrong.cal"]);
        assert_eq!((code, out.as_str()), (1, ""), "{text}: {err}");
        assert!(err.contains(cause), "{text}: {err}");
    }
}

#[test]
fn a_search_ranks_only_grains_that_pass_the_conditions() {
    let folder = SqlFolder::empty();
    let event = |at: usize| {
        let words = "word ".repeat(1 + at % 7);
        let role = if at % 10 == 3 { "assistant" } else { "user" };
        grain(&format!(
            r#"{{"type":"event","role":"{role}","content":"{words} and {at}","created_at":{at}}}"#
        ))
        .blob
    };
    fs::write(
        folder.at("in.frames"),
        frames(&(1..=200).map(event).collect::<Vec<_>>()),
    )
    .unwrap();
    assert_eq!(folder.run(&["ingest", "in.frames"]).0, 0);
    assert_eq!(folder.run(&["reindex", "--embed"]).0, 0);
    for (function, every) in [
        ("search", 200),
        ("vector_search", 200),
        ("hybrid_search", 200),
    ] {
        for condition in [
            "role = 'assistant'",
            "created_at IS NULL",
            "role = 'assistant' AND score > 0.1",
            "array_length(matched_fields) > 5",
        ] {
            for k in [1, 4, 50] {
                let query = |k: usize| {
                    format!("SELECT content_address FROM {function}('word', {k}) WHERE {condition}")
                };
                let (code, found, err) = folder.sql(&query(k));
                assert_eq!(code, 0, "{condition}: {err}");
                let all = folder.sql(&query(every)).1;
                let expected: Vec<&str> = all.lines().take(k + 1).collect();
                // Scores of a hybrid search depend on ranks, and so on `k`.
                match function {
                    "hybrid_search" => {
                        assert_eq!(found.lines().count(), expected.len(), "{condition} {k}")
                    }
                    _ => assert_eq!(
                        found.lines().collect::<Vec<_>>(),
                        expected,
                        "{function} {condition} {k}"
                    ),
                }
            }
        }
    }
    let best = "SELECT s.role FROM search('word', 3) s JOIN (SELECT 1 AS one) ON true WHERE s.role \
                = 'assistant'";
    assert_eq!(folder.sql(best).1.lines().count(), 4);
}

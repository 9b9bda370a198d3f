//! Messages of failing statements name the cause and the remedy.

use std::fs;

use gristmill_tests::grains::{frames, grain};

use super::SqlFolder;

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
        "SELECT * FROM sources",
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
                    && err.contains("gristmill ingest")
                    && err.contains("GRISTMILL_LAKE"),
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
            "SELECT tags FROM grains",
            vec!["no column `tags`", "did you mean `structural_tags`"],
            "valence",
        ),
        (
            "SELECT sum(content) FROM grains",
            vec!["no function takes these arguments: sum(Utf8)", "CAST("],
            "bug",
        ),
        (
            "SELECT type, count(*) FROM grains",
            vec!["the column `grains.type`", "GROUP BY"],
            "wildcard",
        ),
        (
            "SELECT * FROM calls",
            vec!["no table `calls`", "`tool_calls`"],
            "datafusion.public",
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
        code == 1 && err.contains("can't be evaluated: Cannot cast") && !err.contains("damaged"),
        "{err}"
    );
}

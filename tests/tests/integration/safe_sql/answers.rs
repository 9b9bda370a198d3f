//! Answers: descriptions, lists of tables, functions over bytes, files of CAL, searches.

use std::fs;

use gristmill_tests::grains::{frames, grain};

use super::SqlFolder;

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

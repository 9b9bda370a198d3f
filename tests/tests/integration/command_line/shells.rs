//! Commands of the `sql` and `cal` shells in pipes, files and arguments.

use gristmill_tests::grains::{belief, plain};

use super::{folder, run};

#[test]
fn commands_of_the_sql_shell_work_in_pipes_files_and_arguments() {
    let here = folder();
    let script = "\\dt\n\\x\nSELECT 2 AS two;\n\\timing\nSELECT 3 AS three;\n\\?\n\\q\nSELEKT";
    std::fs::write(here.path().join("script.sql"), script).unwrap();
    let table = ["sql", "--format", "table"];
    for (last, input) in [
        (&[][..], script),
        (&["--file", "script.sql"], ""),
        (&[script], ""),
    ] {
        let answer = run(here.path(), &[&table[..], last].concat(), input);
        assert_eq!(answer.code, 0, "{last:?}: {}", answer.err);
        for part in [" name ", "two  2\n", "three  3\n"] {
            assert!(answer.out.contains(part), "{last:?}: {}", answer.out);
        }
        for part in ["records are on", "timing is on", " ms\n", "\\df [TEXT]"] {
            assert!(answer.err.contains(part), "{last:?}: {}", answer.err);
        }
    }
    for (script, cause) in [
        ("SELECT 1;\n\\d\nSELECT\nFROM;", "Line: 4"),
        (
            "SELECT 1;\n\\what",
            "line 2: unknown shell command `\\what`",
        ),
    ] {
        let answer = run(here.path(), &["sql"], script);
        assert_eq!((answer.code, answer.out.as_str()), (1, ""), "{script}");
        assert!(answer.err.contains(cause), "{script}: {}", answer.err);
    }
}

#[test]
fn tables_and_functions_are_listed_with_what_they_are() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let answer = run(
        here.path(),
        &["sql", "--format", "jsonl"],
        "\\dt\n\\df cost_u\n\\df abs\n",
    );
    assert_eq!(answer.code, 0, "{}", answer.err);
    for part in [
        r#"{"name":"usage","kind":"view","description":"Tokens and cost of each model and day."}"#,
        r#"{"name":"cost_usd","kind":"scalar","usage":"cost_usd(model_id, token_usage"#,
        "cost in US dollars by the price table",
        r#"{"name":"abs","kind":"scalar","usage":"abs(numeric_expression)","description":"#,
    ] {
        assert!(answer.out.contains(part), "{part}: {}", answer.out);
    }
}

#[test]
fn commands_of_the_cal_shell_work_in_pipes() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1), belief(2)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let words = ["cal", "--format", "table"];
    let script = "RECALL beliefs;\n\\timing\n\\x\nRECALL beliefs LIMIT 1;\n\\d belief\n\\q\nRECOLL";
    let answer = run(here.path(), &words, script);
    assert_eq!(answer.code, 0, "{}", answer.err);
    for part in [" address ", "── ", "confidence"] {
        assert!(answer.out.contains(part), "{part}: {}", answer.out);
    }
    for part in ["timing is off", "records are on", "1 of 2 grains\n"] {
        assert!(answer.err.contains(part), "{part}: {}", answer.err);
    }
    let answer = run(here.path(), &words, "RECALL beliefs;\n\\x\nRECOLL");
    assert_eq!((answer.code, answer.out.as_str()), (1, ""));
    assert!(answer.err.contains("\n3 | RECOLL"), "{}", answer.err);
}

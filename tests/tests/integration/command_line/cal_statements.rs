//! `cal`: hostile statements, templates, aliases and additions.

use gristmill_schemas::json::Json;
use gristmill_tests::grains::{belief, plain};

use super::{folder, member, run};

#[test]
fn hostile_statements_fail_with_their_code_before_anything_is_read() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1), belief(2)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let values = vec!["\"a\""; 1000].join(",");
    let filled = |head: &str, piece: &str| {
        head.to_owned() + &piece.repeat((8192 - head.len()) / piece.len())
    };
    let bomb = format!(
        "DEFINE TEMPLATE t ELEMENT {{ {} }}",
        "{{#grain.type}}".repeat(200)
    );
    let statements: [(Vec<u8>, &str); 12] = [
        (filled("", "(").into(), "CAL-E013"),
        (filled("EXPLAIN ", "(").into(), "CAL-E013"),
        (
            filled("RECALL WHERE subject IN ", "(RECALL WHERE subject IN ").into(),
            "CAL-E007",
        ),
        (
            format!("RECALL WHERE subject IN ({values})").into(),
            "CAL-E011",
        ),
        (
            filled("ASSEMBLE FROM (RECALL)", ",(RECALL)").into(),
            "CAL-E032",
        ),
        ("RECALL ABOUT \"a\u{202e}b\"".into(), "CAL-E071"),
        (
            "RECALL WHERE query = \"\u{2066}tea\u{2069}\"".into(),
            "CAL-E071",
        ),
        (
            b"RECALL WHERE subject = \"\xed\xa0\x80\"".to_vec(),
            "CAL-E070",
        ),
        (b"\xff\xfe".to_vec(), "CAL-E070"),
        (vec![b'x'; 1 << 20], "CAL-E001"),
        (bomb.into(), "CAL-E093"),
        (filled("DEFINE TEMPLATE t ELEMENT ", "{").into(), "CAL-E094"),
    ];
    for (statement, code) in statements {
        let answer = run(here.path(), &["cal", "--format", "json"], statement.clone());
        let shown = String::from_utf8_lossy(&statement[..statement.len().min(60)]).into_owned();
        let object = Json::parse(answer.out.as_bytes()).unwrap();
        let error = object
            .get("error")
            .unwrap_or_else(|| panic!("{shown}: {}", answer.out));
        assert_eq!((answer.code, member(error, "code")), (1, code), "{shown}");
        assert!(
            answer.out.len() < 20_000 && answer.err.len() < 20_000,
            "{shown}"
        );
    }
    // Searches for punctuation only and for a word of maximal length are valid.
    for statement in [
        "RECALL WHERE query = \"-- !!\"".to_owned(),
        format!("RECALL WHERE query = \"{}\"", "w".repeat(900)),
    ] {
        let answer = run(here.path(), &["cal", "--format", "json"], statement);
        let total = Json::parse(answer.out.as_bytes())
            .unwrap()
            .get("total")
            .and_then(Json::as_u64);
        assert_eq!((answer.code, total), (0, Some(0)), "{}", answer.err);
    }
}

#[test]
fn a_single_cal_run_warns_that_its_template_is_lost() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let define = "DEFINE TEMPLATE t ELEMENT { {{grain.object}} };";
    for words in [&["cal", define][..], &["cal", "--format", "json", define]] {
        let answer = run(here.path(), words, "");
        assert_eq!(answer.code, 0, "{}", answer.err);
        assert!(
            answer.err.contains("duration of a session"),
            "{words:?}: {}",
            answer.err
        );
    }
    let other = run(here.path(), &["cal", "DESCRIBE templates"], "");
    assert!(
        !other.err.contains("duration of a session"),
        "{}",
        other.err
    );
}

#[test]
fn cal_aliases_apply_to_parameters() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let count = [
        "--format",
        "json",
        "--param",
        "t=fact",
        "RECALL WHERE type = $t | COUNT",
    ];
    let with_aliases = run(
        here.path(),
        &[&["cal", "--aliases"][..], &count].concat(),
        "",
    );
    let value = Json::parse(with_aliases.out.as_bytes())
        .unwrap()
        .get("value")
        .and_then(Json::as_u64);
    assert_eq!(
        (with_aliases.code, value),
        (0, Some(1)),
        "{}",
        with_aliases.err
    );
    let without = run(here.path(), &[&["cal"][..], &count].concat(), "");
    assert!(
        without.code == 1 && without.out.contains("CAL-E003"),
        "{}",
        without.out
    );
}

#[test]
fn an_added_observation_is_attributed_to_the_agent_of_the_command() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let add = r#"ADD observation SET subject = "door" SET relation = "is" SET object = "open" REASON "seen""#;
    let added = run(
        here.path(),
        &["cal", "--allow-writes", "--agent", "camera-2", add],
        "",
    );
    assert_eq!(added.code, 0, "{}", added.err);
    let query = [
        "sql",
        "--format",
        "csv",
        "SELECT observer_id FROM observations",
    ];
    assert_eq!(run(here.path(), &query, "").out, "observer_id\ncamera-2\n");
}

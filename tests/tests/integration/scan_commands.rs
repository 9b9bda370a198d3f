//! `scan` at the command line: tests of packs, report formats, exit codes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;

use gristmill_queries::packs::{NAMES, shipped};
use gristmill_tests::binary;
use gristmill_tests::grains::{frames, grain};
use serde_json::Value;

struct ScanFolder {
    folder: tempfile::TempDir,
}

/// A user's own pack, with a rule of each kind.
const HOUSE: &str = r#"
id = "house"
title = "House rules"
version = "1.0.0"
regulation = "House rules of 2026"

[[rule]]
id = "cards"
title = "Card numbers stay in the payment system"
severity = "error"
norm = "§4"
where = "array_has(personal_data, 'payment_card')"
evidence = ["personal_data_in"]
message = "a card number in {personal_data_in}"

[[test]]
rule = "cards"
expect = "fail"
grains = '''[{"type": "event", "content": "4111 1111 1111 1111"}]'''

[[test]]
rule = "cards"
expect = "pass"
grains = '''[{"type": "event", "content": "card tok_91f"}]'''

[[rule]]
id = "weather"
title = "Nobody talks about the weather"
severity = "note"
norm = "§5"
sql = "SELECT content_address, content FROM scanned WHERE content LIKE '%weather%'"
message = "{content}"

[[test]]
rule = "weather"
expect = "fail"
grains = '''[{"type": "event", "content": "nice weather"}]'''

[[test]]
rule = "weather"
expect = "pass"
grains = '''[{"type": "event", "content": "nice"}]'''

[[rule]]
id = "doubt"
title = "Beliefs are held with some confidence"
severity = "warning"
norm = "§6"
cal = 'RECALL beliefs WHERE confidence < 0.2'
message = "{subject} with {confidence}"

[[test]]
rule = "doubt"
expect = "fail"
grains = '''[{"type": "belief", "subject": "s", "relation": "r", "object": "o", "confidence": 0.1}]'''

[[test]]
rule = "doubt"
expect = "pass"
grains = '''[{"type": "belief", "subject": "s", "relation": "r", "object": "o", "confidence": 0.3}]'''

[[rule]]
id = "mail"
title = "Nobody sends mail"
severity = "warning"
norm = "§7"
kinds = ["tool_call"]
rego = """
package house
import rego.v1
violation contains {"tool": input.name} if input.name == "mail"
"""
message = "{tool} was called"

[[test]]
rule = "mail"
expect = "fail"
grains = '''[{"type": "action", "action_phase": "call", "tool_name": "mail", "input": {"to": "x"}, "session_id": "s"}]'''

[[test]]
rule = "mail"
expect = "pass"
grains = '''[{"type": "action", "action_phase": "call", "tool_name": "look", "input": {"to": "x"}, "session_id": "s"}]'''
"#;

impl ScanFolder {
    /// A lake with a finding for every rule of the pack except the last.
    fn new() -> ScanFolder {
        let folder = ScanFolder {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(folder.path("house.toml"), HOUSE).unwrap();
        let grains = [
            r#"{"type": "event", "role": "user", "content": "my card is 4111 1111 1111 1111", "created_at": 1735689600000}"#,
            r#"{"type": "event", "role": "user", "content": "nice weather", "created_at": 1735689600001}"#,
            r#"{"type": "belief", "subject": "s", "relation": "r", "object": "o", "confidence": 0.1, "created_at": 1735689600002}"#,
        ];
        std::fs::write(
            folder.path("in.frames"),
            frames(&grains.map(|text| grain(text).blob)),
        )
        .unwrap();
        assert_eq!(folder.code(&["ingest", "in.frames"]), 0);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        binary::gristmill()
            .current_dir(self.folder.path())
            .args(arguments)
            .output()
            .unwrap()
    }

    fn code(&self, arguments: &[&str]) -> i32 {
        let output = self.run(arguments);
        let code = output.status.code().unwrap();
        if code == 1 {
            eprintln!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        code
    }

    fn text(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.run(arguments).stdout).unwrap()
    }
}

#[test]
fn a_table_of_findings_comes_with_the_command_that_shows_the_grain_of_its_first_example() {
    let folder = ScanFolder::new();
    let scan = folder.run(&["scan", "--pack", "house.toml", "--format", "table"]);
    let notes = String::from_utf8(scan.stderr).unwrap();
    let (_, query) = notes
        .split_once("`gristmill sql --records \"")
        .expect(&notes);
    let (query, _) = query.split_once("\"`").expect(&notes);
    // Errors come first: a card number.
    let grain = folder.text(&["sql", "--records", query]);
    assert!(grain.contains("4111 1111 1111 1111"), "{query}: {grain}");
}

#[test]
fn packs_are_tested_on_their_examples() {
    let folder = ScanFolder::new();
    for pack in ["gdpr", "eu-ai-act", "integrity", "./house.toml"] {
        assert_eq!(folder.code(&["scan", "--test", pack]), 0, "{pack}");
    }
    std::fs::write(
        folder.path("wrong.toml"),
        HOUSE.replace("confidence < 0.2", "confidence < 0.05"),
    )
    .unwrap();
    let output = folder.run(&["scan", "--test", "./wrong.toml"]);
    let printed = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains("house/doubt"), "{printed}");
    for (name, rule, message) in [
        ("no-pack.toml", "id = 7".to_owned(), "no-pack.toml"),
        (
            "no-cal.toml",
            HOUSE.replace("RECALL beliefs WHERE", "RECALL beliefs WHERE WHERE"),
            "house/doubt",
        ),
        (
            "pipeline.toml",
            HOUSE.replace("confidence < 0.2'", "confidence < 0.2 | LIMIT 5'"),
            "pipeline",
        ),
        (
            "no-column.toml",
            HOUSE.replace("{subject} with", "{person} with"),
            "person",
        ),
    ] {
        std::fs::write(folder.path(name), rule).unwrap();
        let output = folder.run(&["scan", "--test", &format!("./{name}")]);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {printed}");
        assert!(printed.contains(message), "{name}: {printed}");
    }
    assert_eq!(folder.code(&["scan", "--test", "no-such-pack"]), 1);
}

#[test]
fn results_of_examples_are_json_where_it_is_requested() {
    let folder = ScanFolder::new();
    let wrong = HOUSE.replace("confidence < 0.2", "confidence < 0.05");
    std::fs::write(folder.path("wrong.toml"), wrong).unwrap();
    let test = ["scan", "--test", "./house.toml", "--test", "./wrong.toml"];
    let text = folder.text(&test);
    assert!(text.starts_with("ok    house/cards"), "{text}");
    let mut array = None;
    let json = &["--format", "json"][..];
    for words in [[json, &test].concat(), [&test[..], json].concat()] {
        let output = folder.run(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(results.len(), text.matches(" [[test]] ").count());
        let failed = results.iter().filter(|result| result["passed"] == false);
        let rules: BTreeSet<&str> = failed
            .filter_map(|result| result["rule"].as_str())
            .collect();
        assert_eq!(rules, BTreeSet::from(["house/doubt"]), "{words:?}");
        array = Some(results);
    }
    let lines = folder.text(&[&test[..], &["--format", "jsonl"]].concat());
    let lines = lines.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>().unwrap();
    assert_eq!(Some(lines), array);
    for words in [
        [&test[..], &["--format", "sarif"]].concat(),
        [&["--format", "csv"][..], &test].concat(),
    ] {
        let output = folder.run(&words);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    }
    // Formats of a file that examples don't have are those of scans and other results.
    for configured in ["[scan]\nformat = \"html\"\n", "format = \"csv\"\n"] {
        std::fs::write(folder.path("gristmill.toml"), configured).unwrap();
        assert_eq!(folder.text(&test), text, "{configured}");
        let output = folder.run(&[&test[..], &["--format", "sarif"]].concat());
        assert_eq!(output.status.code(), Some(1), "{configured}");
    }
}

#[test]
fn every_output_format_has_the_same_findings() {
    let folder = ScanFolder::new();
    let scan = ["scan", "--pack", "./house.toml", "--quiet"];
    let with = |more: &[&'static str]| [&scan[..], more].concat();
    let lines = folder.text(&with(&["--format", "jsonl"]));
    let findings: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line.get("rule").is_some_and(Value::is_string))
        .collect();
    let mut rules: Vec<&str> = findings
        .iter()
        .filter_map(|finding| finding["rule"].as_str())
        .collect();
    rules.sort_unstable();
    assert_eq!(
        rules,
        ["house/cards", "house/doubt", "house/weather"],
        "{lines}"
    );
    let json: Value = serde_json::from_str(&folder.text(&with(&["--format", "json"]))).unwrap();
    let sarif: Value = serde_json::from_str(&folder.text(&with(&["--format", "sarif"]))).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for rule in rules {
        assert!(json.to_string().contains(rule), "{rule}");
        assert!(
            results.iter().any(|result| result["ruleId"] == rule),
            "{rule}"
        );
    }
    assert_eq!(folder.code(&with(&["--output", "report.html"])), 2);
    let page = std::fs::read_to_string(folder.path("report.html")).unwrap();
    assert!(
        page.contains("s with 0.1")
            && page.contains("Card numbers stay")
            && !page.contains("4111 1111")
    );
    assert!(!folder.text(&with(&["--format", "table"])).is_empty());
}

#[test]
fn single_rules_are_scanned_and_their_last_scan_is_continued() {
    let folder = ScanFolder::new();
    let scan = ["scan", "--pack", "./house.toml", "--format", "jsonl"];
    let findings = |more: &[&'static str]| {
        let lines = folder.text(&[&scan[..], more].concat());
        let parsed = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        parsed.collect::<Vec<Value>>()
    };
    let cards = findings(&["--rule", "house/cards"]);
    assert_eq!(cards.len(), 1, "{cards:?}");
    assert_eq!(cards[0]["rule"], "house/cards");
    assert_eq!(cards[0]["evidence"]["created_at"], "2025-01-01T00:00:00Z");
    // Nothing is new for this rule, everything for the others and for the whole pack.
    assert_eq!(
        findings(&["--rule", "house/cards", "--since", "last"]).len(),
        0
    );
    assert_eq!(
        findings(&["--rule", "house/weather", "--since", "last"]).len(),
        1
    );
    assert_eq!(findings(&["--since", "last"]).len(), 3);
    let unknown = folder.run(&[&scan[..], &["--rule", "cards"]].concat());
    let message = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(1), "{message}");
    assert!(message.contains("Did you mean house/cards?"), "{message}");
}

#[test]
fn the_exit_code_depends_on_fail_on() {
    let folder = ScanFolder::new();
    let scan =
        |more: &[&'static str]| folder.code(&[&["scan", "--pack", "./house.toml"], more].concat());
    assert_eq!(scan(&[]), 2);
    assert_eq!(scan(&["--fail-on", "note"]), 2);
    assert_eq!(scan(&["--fail-on", "error"]), 2);
    std::fs::write(
        folder.path("mild.toml"),
        HOUSE.replace("severity = \"error\"", "severity = \"note\""),
    )
    .unwrap();
    assert_eq!(
        folder.code(&["scan", "--pack", "./mild.toml", "--fail-on", "error"]),
        0
    );
    assert_eq!(
        folder.code(&["scan", "--pack", "./mild.toml", "--fail-on", "warning"]),
        2
    );
    // Grains scanned with the same rules aren't scanned again.
    assert_eq!(scan(&["--since", "last"]), 0);
    assert_eq!(scan(&["--since", "yesterday"]), 1);
    assert_eq!(folder.code(&["--lake", "nowhere", "scan"]), 1);
}

/// The words of a command line, of which double quotes keep some together.
fn words_of(command: &str) -> Vec<&str> {
    let parts = command.split('"').enumerate();
    parts
        .flat_map(|(number, part)| match number % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        })
        .collect()
}

#[test]
fn the_commands_that_remedies_of_the_shipped_packs_name_exist() {
    let packs = NAMES.iter().map(|name| shipped(name).unwrap());
    let remedies: String = packs
        .flat_map(|pack| pack.rules)
        .map(|rule| rule.remediation + "\n")
        .collect();
    let quoted = remedies
        .lines()
        .flat_map(|text| text.split('`').skip(1).step_by(2));
    let commands: BTreeSet<Vec<&str>> = quoted
        .map(words_of)
        .filter(|words| words.first() == Some(&"gristmill"))
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for words in commands {
        // Help is printed if the commands and options before it are right.
        let ended = binary::gristmill().args(&words[1..]).arg("--help").output();
        let ended = ended.unwrap();
        let message = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{words:?}: {message}");
    }
}

//! Kills of operations in bulk.

use std::path::Path;

use super::{closed_by_absent, content, kill_again_and_again, must};

#[test]
fn a_killed_apply_commits_whole_batches_and_the_next_run_completes_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pristine = at("pristine");
    let belief = |number: usize, object: &str| {
        format!(
            r#"{{"type": "belief", "subject": "s{number}", "relation": "is", "object": "{object}", "confidence": 1.0, "created_at": 1767225600000}}"#
        )
    };
    let put: Vec<String> = (0..400)
        .map(|number| format!(r#"{{"op": "put", "grain": {}}}"#, belief(number, "old")))
        .collect();
    std::fs::write(at("put.jsonl"), put.join("\n")).unwrap();
    must(
        &pristine,
        &[
            "apply",
            &at("put.jsonl").display().to_string(),
            "--out",
            &at("answers").display().to_string(),
        ],
    );
    let answers = std::fs::read_to_string(at("answers")).unwrap();
    let addresses = answers.lines().map(|line| {
        let answer: serde_json::Value = serde_json::from_str(line).unwrap();
        answer["content_address"].as_str().unwrap().to_owned()
    });
    let operations = addresses
        .enumerate()
        .map(|(number, address)| match number % 4 {
            0 => {
                let why = if number % 8 == 0 {
                    r#""reason": "outdated", "#
                } else {
                    ""
                };
                format!(
                    r#"{{"op": "supersede", "address": "{address}", {why}"grain": {}}}"#,
                    belief(number, "new")
                )
            }
            1 => format!(r#"{{"op": "contradict", "address": "{address}", "reason": "wrong"}}"#),
            2 => format!(r#"{{"op": "verify", "address": "{address}", "status": "verified"}}"#),
            _ => format!(r#"{{"op": "put", "grain": {}}}"#, belief(number, "another")),
        });
    std::fs::write(at("ops.jsonl"), operations.collect::<Vec<_>>().join("\n")).unwrap();
    let (before, ops) = (content(&pristine), at("ops.jsonl").display().to_string());
    assert_eq!((before.grains.len(), before.states.len()), (400, 0));
    let half = |lake: &Path| {
        let found = content(lake);
        assert!(
            matches!(
                (found.grains.len(), found.states.len()),
                (400 | 600, 0 | 200)
            ),
            "a batch is done or not"
        );
        assert!(
            before
                .grains
                .keys()
                .all(|address| found.grains.contains_key(address)),
            "nothing is lost"
        );
        assert_eq!(closed_by_absent(lake), 0);
    };
    kill_again_and_again(&pristine, &["apply", &ops], half, |lake| {
        let found = content(lake);
        assert_eq!((found.grains.len(), found.states.len()), (600, 200));
    });
}

//! Paths of sources that name a person are found and erased like other texts.

use std::path::Path;

use gristmill_tests::binary::{ended, gristmill};
use gristmill_tests::grains::{grain, plain};

#[test]
fn source_paths_that_name_a_person_are_disclosed_and_blanked_by_erasure() {
    for encrypted in [false, true] {
        let here = tempfile::tempdir().unwrap();
        let keys = here.path().join("keyring.json");
        let lab = |words: &[&str]| {
            let mut command = gristmill();
            command
                .current_dir(here.path())
                .env("GRISTMILL_KEYRING", &keys)
                .env("GRISTMILL_PASSPHRASE", "for tests");
            ended(command.args(words))
        };
        let held = grain(
            r#"{"type":"belief","subject":"walk","relation":"is","object":"long","confidence":0.5,"created_at":1767225600000,"user_id":"quokka-user-77"}"#,
        );
        std::fs::create_dir_all(here.path().join("of/quokka-user-77")).unwrap();
        std::fs::write(
            here.path().join("of/quokka-user-77/a.mg"),
            plain(&[held.blob]),
        )
        .unwrap();
        std::fs::write(here.path().join("of/quokka-user-77/notes.txt"), "nothing").unwrap();
        let mut ingest = vec!["ingest", "of"];
        ingest.extend(encrypted.then_some("--encrypt"));
        let (code, out, err) = lab(&ingest);
        assert_eq!(code, 2, "{out}{err}");
        let count = "SELECT count(source) AS named, count(*) AS n FROM sources";
        assert_eq!(
            lab(&["sql", count, "--format", "csv"]).1.trim(),
            "named,n\n2,2"
        );
        assert_eq!(
            stored(&here.path().join("lake/sources"), b"quokka-user-77"),
            !encrypted
        );
        let (_, _, err) = lab(&[
            "report-subject",
            "--user",
            "quokka-user-77",
            "--out",
            "held.jsonl",
        ]);
        let disclosed = std::fs::read_to_string(here.path().join("held.jsonl")).unwrap_or_default();
        assert_eq!(
            disclosed.matches("\"table\":\"sources\"").count(),
            2,
            "{disclosed}{err}"
        );
        assert_eq!(lab(&["keys", "generate", "erasure"]).0, 0);
        let erase = [
            "erase",
            "--user",
            "quokka-user-77",
            "--execute",
            "--exclusive",
            "--format",
            "json",
        ];
        let (code, out, err) = lab(&erase);
        let report: serde_json::Value = serde_json::from_str(&out).unwrap_or_default();
        assert_eq!(
            (code, report["proven"].as_bool()),
            (0, Some(true)),
            "{out}{err}"
        );
        assert_eq!(
            lab(&["sql", count, "--format", "csv"]).1.trim(),
            "named,n\n0,2"
        );
        assert!(!stored(
            &here.path().join("lake/sources"),
            b"quokka-user-77"
        ));
    }
}

/// Returns true if a file below `folder` contains `needle`, in raw bytes or decoded pages.
fn stored(folder: &Path, needle: &[u8]) -> bool {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read(&path)
                .unwrap()
                .windows(needle.len())
                .any(|window| window == needle)
            {
                return true;
            }
        }
    }
    false
}

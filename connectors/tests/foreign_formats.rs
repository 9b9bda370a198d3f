//! Logs and exports of other programs, in small files of our own: none is taken for a kind that is
//! read, and each is refused by name.

use std::fs;
use std::path::Path;

use gristmill_connectors::transcript::detect::foreign_formats::FOREIGN_FORMATS;
use gristmill_connectors::transcript::kind::TranscriptKind;

/// The samples: a file for each format, whose first line is the name in messages and whose rest is
/// the sample.
fn samples() -> Vec<(String, String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let sample = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let (name, sample) = text.split_once('\n').unwrap();
        (
            path.file_name().unwrap().to_string_lossy().into_owned(),
            name.to_owned(),
            sample.as_bytes().to_vec(),
        )
    };
    files.into_iter().map(sample).collect()
}

#[test]
fn every_sample_is_refused_by_the_name_of_its_format() {
    for (file, name, sample) in samples() {
        assert_eq!(
            TranscriptKind::detect(&sample, "a.jsonl"),
            None,
            "{file} is taken for a kind that is read"
        );
        let reason = TranscriptKind::why_not(&sample, "a.jsonl");
        assert!(reason.contains(&name), "{file}: {reason}");
    }
}

#[test]
fn every_format_has_a_sample() {
    let samples = samples();
    let lacks = |name: &&str| !samples.iter().any(|(_, sample, _)| sample == name);
    let missing: Vec<&str> = FOREIGN_FORMATS
        .iter()
        .map(|format| format.name)
        .filter(lacks)
        .collect();
    assert!(
        missing.is_empty(),
        "formats without a sample in tests/foreign: {missing:?}"
    );
}

#[test]
fn a_document_is_refused_as_its_lines_are_and_so_is_a_list_of_it() {
    for (file, name, sample) in samples() {
        let lines: Vec<&[u8]> = sample
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .collect();
        if !lines.iter().all(|line| line.starts_with(b"{")) {
            continue;
        }
        let list = [b"[\n", lines.join(&b",\n"[..]).as_slice(), b"\n]"].concat();
        assert_eq!(
            TranscriptKind::detect(&list, "a.json"),
            None,
            "{file} as a list"
        );
        assert!(
            TranscriptKind::why_not(&list, "a.json").contains(&name),
            "{file} as a list"
        );
    }
}

#[test]
fn a_history_with_single_items_of_a_known_log_is_not_read_as_that_log() {
    // A chat in which only the reasoning has the shape of an item of Codex.
    let turns = (0..6).map(|turn| {
        format!(
            "{{\"role\": \"user\", \"content\": \"question {turn}\", \"model_id\": \"m\"}}\n\
             {{\"type\": \"reasoning\", \"summary\": [{{\"type\": \"summary_text\", \"text\": \"so\"}}]}}\n\
             {{\"role\": \"assistant\", \"content\": \"answer {turn}\", \"model_id\": \"m\"}}\n"
        )
    });
    let history: String = turns.collect();
    let found = TranscriptKind::detect(history.as_bytes(), "history.jsonl");
    assert_ne!(found, Some(TranscriptKind::Codex));
}

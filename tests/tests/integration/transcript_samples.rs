//! One invented sample of every kind of transcript (`tests/cases/transcripts`): its kind is
//! detected and every line of it is understood.

use gristmill_tests::paths::workspace;
use gristmill_tests::sandbox::Sandbox;

/// The samples, and how many grains each gives.
const SAMPLES: [(&str, &str, u64); 16] = [
    ("exchanges.jsonl", "exchanges", 2),
    ("batch.jsonl", "batch", 1),
    ("bodies.jsonl", "bodies", 1),
    ("har.har", "har", 2),
    ("cassette.yaml", "cassette", 2),
    ("claude-code.jsonl", "claude-code", 5),
    ("codex.jsonl", "codex", 1),
    ("mcp.jsonl", "mcp", 6),
    ("messages.jsonl", "messages", 1),
    ("cmf.jsonl", "cmf", 1),
    ("grains.jsonl", "grains", 1),
    ("mem0.json", "mem0", 1),
    ("mem0-history.jsonl", "mem0", 2),
    ("letta.af", "letta", 2),
    ("zep.jsonl", "zep", 2),
    ("langgraph.jsonl", "langgraph", 1),
];

#[test]
fn every_sample_is_detected_and_understood() {
    let sandbox = Sandbox::new();
    for (file, kind, grains) in SAMPLES {
        let path = workspace().join("tests/cases/transcripts").join(file);
        let report = sandbox.run(file, 0, &["ingest", path.to_str().unwrap()]);
        let count = |name: &str| report[name].as_u64();
        assert_eq!(
            (count("files"), count("grains_read"), count("rejected")),
            (Some(1), Some(grains), Some(0)),
            "{file}: {report}"
        );
        let sources = sandbox.sql(file, "SELECT kind, outcome FROM sources");
        assert_eq!(
            (sources[0]["kind"].as_str(), sources[0]["outcome"].as_str()),
            (Some(kind), Some("ingested")),
            "{file}"
        );
    }
}

#[test]
fn every_kind_of_transcript_but_databases_has_a_sample() {
    use gristmill_connectors::transcript::kind::TranscriptKind;

    for kind in TranscriptKind::ALL {
        let has_sample = SAMPLES.iter().any(|(_, name, _)| *name == kind.name());
        assert_eq!(has_sample, kind.name() != "sqlite", "{}", kind.name());
    }
}

//! Ingest by executors: the lake has the rows that one process makes of the same sources.

use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

use super::processes::{Cluster, ended, started, text};

/// What is equal however sources are read, by query.
pub const ROWS: [&str; 5] = [
    "SELECT content_address, type, source_id, length(blob) FROM grains ORDER BY 1",
    "SELECT content_address, event, value, source_id FROM state ORDER BY 1, 2, 3, 4",
    "SELECT source, ordinal, error_code, length(bytes) FROM rejects ORDER BY 1, 2",
    "SELECT source, kind, outcome, grains, duplicates, rejected FROM sources ORDER BY 1, 2, 3",
    "SELECT content_address FROM current ORDER BY 1",
];

/// Makes sources with `grains` grains and their lifecycle state, each grain in two files, and
/// returns their folders.
pub fn sources(sandbox: &Sandbox, grains: &str) -> [&'static str; 2] {
    for (folder, kind, file_grains) in [("mg", "mg", "500"), ("frames", "frames", "900")] {
        let made = [
            "generate",
            folder,
            "--kind",
            kind,
            "--grains",
            grains,
            "--file-grains",
            file_grains,
            "--people",
            "40",
        ];
        let made = sandbox.output("none", &made);
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
    std::fs::write(sandbox.path("mg/broken.mg"), b"no container").unwrap();
    ["mg", "frames"]
}

/// Ingests `sources` into `lake` and returns the report without times, names and versions.
fn ingested(sandbox: &Sandbox, lake: &str, sources: [&str; 2], on: &[&str]) -> Value {
    let words = [&["ingest", "--format", "json"], &sources[..], on].concat();
    let output = ended(started(sandbox.command(lake, &words)));
    let errors = text(&output.stderr);
    // Something is refused.
    assert_eq!(output.status.code(), Some(2), "{errors}");
    let mut report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    for name in ["seconds", "grains_per_second", "version", "run_id"] {
        report.as_object_mut().unwrap().remove(name);
    }
    report
}

#[test]
fn two_executors_ingest_what_one_process_ingests() {
    let sandbox = Sandbox::new();
    let sources = sources(&sandbox, "4000");
    let local = ingested(&sandbox, "other", sources, &[]);
    assert!(local["duplicates"].as_u64() >= Some(4_000), "{local}");
    let cluster = Cluster::start();
    let on = ["--cluster", &cluster.address];
    assert_eq!(ingested(&sandbox, "lake", sources, &on), local);
    for rows in ROWS {
        assert_eq!(
            sandbox.sql("lake", rows),
            sandbox.sql("other", rows),
            "{rows}"
        );
    }
    let verified = sandbox.output("lake", &["verify", "--sidecars"]);
    assert!(verified.status.success(), "{}", text(&verified.stderr));
    let again = ingested(&sandbox, "lake", sources, &on);
    assert_eq!(again["grains_written"], 0, "{again}");
    for option in [&["--dry-run"][..], &["--on-error", "fail"], &["--encrypt"]] {
        let words = [&["ingest", "mg"], option, &on].concat();
        let refused = sandbox.output("lake", &words);
        assert_eq!(refused.status.code(), Some(1), "{option:?}");
        assert!(text(&refused.stderr).contains("--cluster"), "{option:?}");
    }
}

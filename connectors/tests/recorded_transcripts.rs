//! Recorded traffic and logs of agents, if they are available: all are read, and the grains are
//! independent of the order of lines and the number of threads.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gristmill_connectors::transcript::exchange::round_trip_report::check_round_trip;
use gristmill_connectors::transcript::grain_output::{
    GrainOutput, grains_of_exchanges, grains_of_transcript,
};
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_connectors::transcript::options::ReadOptions;
use gristmill_connectors::transcript::parse::parse;
use gristmill_connectors::wire::adapter::Adapter;
use gristmill_connectors::wire::registry;
use gristmill_connectors::wire::standalone_body::detect_standalone_body;
use gristmill_schemas::json::Json;

/// Returns a folder of unpublished test data: in `$GRISTMILL_SHARED`, else next to the checkout.
fn shared(path: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let folder = std::env::var_os("GRISTMILL_SHARED")
        .map_or_else(beside, PathBuf::from)
        .join(path);
    if !folder.is_dir() {
        eprintln!(
            "skipped: `{path}` is not in `../shared` (set GRISTMILL_SHARED to the folder that has \
             it)"
        );
        return None;
    }
    Some(folder)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn all_lines(folder: &Path) -> Vec<Vec<u8>> {
    let texts = files(folder)
        .into_iter()
        .map(|file| fs::read(file).unwrap());
    texts
        .flat_map(|text| {
            text.split(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn addresses(lines: &[Vec<u8>], threads: usize) -> BTreeSet<String> {
    let mut addresses = BTreeSet::new();
    let options = ReadOptions {
        threads,
        ..ReadOptions::default()
    };
    grains_of_exchanges(&lines.join(&b'\n'), options, &mut |output| match output {
        GrainOutput::Message(_, grain) => {
            assert!(addresses.insert(grain.address.to_string()), "emitted twice")
        }
        other => panic!("{other:?}"),
    });
    addresses
}

#[test]
fn every_recorded_exchange_is_written_back_unchanged_or_is_opaque() {
    let Some(folder) = shared("transcripts/exchanges") else {
        return;
    };
    let report = check_round_trip(&all_lines(&folder).join(&b'\n'), ReadOptions::default());
    assert!(
        report.faults.is_empty() && report.differences.is_empty(),
        "{:?}",
        report.differences
    );
    let sum = |of: fn(
        &gristmill_connectors::transcript::exchange::round_trip_report::EndpointReport,
    ) -> u64|
     -> u64 { report.endpoints.iter().map(of).sum() };
    println!(
        "{} equal, {} opaque",
        sum(|endpoint| endpoint.equal),
        sum(|endpoint| endpoint.opaque)
    );
    assert!(sum(|endpoint| endpoint.equal) > sum(|endpoint| endpoint.opaque));
}

#[test]
fn grains_of_recorded_traffic_are_independent_of_order_and_threads() {
    let Some(folder) = shared("transcripts/exchanges") else {
        return;
    };
    let lines = all_lines(&folder);
    let expected = addresses(&lines, 1);
    let mut other = lines;
    other.reverse();
    other.rotate_left(100);
    assert!(!expected.is_empty() && addresses(&other, 2) == expected);
}

/// Files of another kind than the others in their folder: a configuration, conversations as request
/// bodies, a database of checkpoints and its rows.
const OTHERS: [&str; 4] = [
    "integrations__openclaw-2.json",
    "conversations.json",
    "checkpoints.sqlite",
    "rows.jsonl",
];

#[test]
fn logs_of_agents_are_detected_and_read() {
    let Some(folder) = shared("transcripts/agentlogs") else {
        return;
    };
    for (kind, sub) in [
        (TranscriptKind::ClaudeCode, "claude-code"),
        (TranscriptKind::Codex, "codex-exec-json"),
        (TranscriptKind::Batch, "batch-jsonl"),
        (TranscriptKind::Mcp, "mcp"),
        (TranscriptKind::Mem0, "mem0"),
        (TranscriptKind::Letta, "letta"),
        (TranscriptKind::Zep, "zep"),
        (TranscriptKind::LangGraph, "langgraph"),
    ] {
        for file in files(&folder.join(sub)) {
            let bytes = fs::read(&file).unwrap();
            let found = TranscriptKind::detect(&bytes, "a.jsonl");
            if OTHERS.iter().any(|name| file.ends_with(name)) {
                assert_ne!(found, Some(kind), "{}", file.display());
                continue;
            }
            assert_eq!(found, Some(kind), "{}", file.display());
            let (mut grains, mut faults) = (0, 0);
            grains_of_transcript(
                &bytes,
                kind,
                ReadOptions::default(),
                &mut |output| match output {
                    GrainOutput::Message(..) | GrainOutput::Standalone(_) => grains += 1,
                    GrainOutput::Fault(_) => faults += 1,
                },
            );
            assert!(
                grains > 0 && faults == 0,
                "{}: {grains} grains, {faults} faults",
                file.display()
            );
        }
    }
}

#[test]
fn a_database_of_checkpoints_has_the_messages_of_its_snapshots() {
    let Some(folder) = shared("transcripts/agentlogs/langgraph") else {
        return;
    };
    let messages = |name: &str, kind| {
        let bytes = fs::read(folder.join(name)).unwrap();
        assert_eq!(TranscriptKind::detect(&bytes, name), Some(kind));
        let mut messages = Vec::new();
        parse(&bytes, kind, ReadOptions::default(), &mut |part| {
            assert!(part.faults.is_empty(), "{:?}", part.faults);
            messages.extend(part.messages.into_iter().map(|placed| {
                (
                    placed.message.role,
                    placed.message.content.len(),
                    placed.position.depth(),
                )
            }));
        });
        messages.sort();
        messages
    };
    let database = messages("checkpoints.sqlite", TranscriptKind::Sqlite);
    assert!(!database.is_empty());
    assert_eq!(
        database,
        messages("history.jsonl", TranscriptKind::LangGraph)
    );
}

/// Formats of the samples that are named when they are refused, each with a word of the name; of
/// the others only their refusal is specified.
const NAMED: [(&str, &str); 21] = [
    ("aider", "Aider"),
    ("atif", "ATIF"),
    ("autogen", "AutoGen"),
    ("continue", "Continue"),
    ("gemini-cli", "Gemini CLI"),
    ("google-ai-studio", "AI Studio"),
    ("grok-export", "Grok"),
    ("hermes", ""),
    ("langfuse", "Langfuse"),
    ("memos", "MemOS"),
    ("opencode", "OpenCode"),
    ("openhands", "OpenHands"),
    ("openinference", "OpenInference"),
    ("otel-otlp", "OTLP"),
    ("otel-spans", "spans"),
    ("vercel-ai", "Vercel"),
    ("vscode-copilot", "Copilot"),
    ("mcp-memory-service", "mcp-memory-service"),
    ("memory-dumps", "dump of"),
    ("cline", "messages without"),
    ("mini-swe-agent", ""),
];

#[test]
fn no_sample_of_another_format_is_taken_for_a_kind_that_is_read() {
    let Some(folder) = shared("transcripts/formats") else {
        return;
    };
    let mut seen = 0;
    let mut wrong = Vec::new();
    for sub in files(&folder).into_iter().filter(|path| path.is_dir()) {
        let format = sub.file_name().unwrap().to_string_lossy().into_owned();
        for file in files(&sub) {
            seen += 1;
            let (bytes, name) = (
                fs::read(&file).unwrap(),
                file.to_string_lossy().into_owned(),
            );
            match TranscriptKind::detect(&bytes, &name) {
                // A database is looked into when it is read: nothing comes out of these, and the
                // fault states why.
                Some(TranscriptKind::Sqlite) => {
                    let (mut grains, mut faults) = (0, 0);
                    grains_of_transcript(
                        &bytes,
                        TranscriptKind::Sqlite,
                        ReadOptions::default(),
                        &mut |output| match output {
                            GrainOutput::Fault(_) => faults += 1,
                            GrainOutput::Message(..) | GrainOutput::Standalone(_) => grains += 1,
                        },
                    );
                    if (grains, faults) != (0, 1) {
                        wrong.push(format!("{name}: {grains} grains and {faults} faults"));
                    }
                }
                Some(kind) => wrong.push(format!("{name}: taken for {}", kind.name())),
                None => {
                    let reason = TranscriptKind::why_not(&bytes, &name);
                    let word = NAMED
                        .iter()
                        .find(|(known, _)| *known == format)
                        .map_or("", |(_, word)| word);
                    if !reason.contains(word) {
                        wrong.push(format!("{name}: {reason}"));
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {seen} files:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(seen, 95);
}

#[test]
fn recorded_bodies_are_understood_without_their_exchange() {
    let Some(folder) = shared("transcripts/exchanges") else {
        return;
    };
    let mut lost = Vec::new();
    let mut bodies = 0;
    for line in all_lines(&folder) {
        let Ok(json) = Json::parse(&line) else {
            continue;
        };
        for (half, is_known) in [
            (
                "request",
                registry::detect_request as fn(&Json) -> Option<&'static dyn Adapter>,
            ),
            ("response", registry::detect_response),
        ] {
            let Some(body) = json.get(half).filter(|body| is_known(body).is_some()) else {
                continue;
            };
            bodies += 1;
            if detect_standalone_body(body).is_none() {
                let members: Vec<_> = body
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(key, _)| key)
                    .collect();
                let text = |key: &str| {
                    json.get(key)
                        .and_then(Json::as_str)
                        .unwrap_or_default()
                        .to_owned()
                };
                lost.push(format!(
                    "{}/{} {half} {members:?}",
                    text("provider"),
                    text("endpoint")
                ));
            }
        }
    }
    // Embeddings, speech and moderations have an `input`, too, and are no conversations.
    lost.retain(|body| {
        !["embed", "speech", "moderations"]
            .iter()
            .any(|end| body.contains(end))
    });
    assert!(
        lost.is_empty(),
        "{} of {bodies}:\n{}",
        lost.len(),
        lost.join("\n")
    );
}

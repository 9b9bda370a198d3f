//! Recorded traffic and logs of agents, where they are at hand: nothing fails, and neither order nor threads change a grain.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gristmill_connectors::transcript::check::check_round_trip;
use gristmill_connectors::transcript::grains::{GrainOutput, grains_of, read_grains};
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_connectors::transcript::read::ReadOptions;
use gristmill_connectors::transcript::told::told;

/// A folder of the material that isn't ours to commit: below `$GRISTMILL_SHARED`, else beside the checkout.
fn shared(path: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let folder = std::env::var_os("GRISTMILL_SHARED").map_or_else(beside, PathBuf::from).join(path);
    if !folder.is_dir() {
        eprintln!("skipped: `{path}` is not in `../shared` (set GRISTMILL_SHARED to the folder that has it)");
        return None;
    }
    Some(folder)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn all_lines(folder: &Path) -> Vec<Vec<u8>> {
    let texts = files(folder).into_iter().map(|file| fs::read(file).unwrap());
    texts.flat_map(|text| text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>()).collect()
}

fn addresses(lines: &[Vec<u8>], threads: usize) -> BTreeSet<String> {
    let mut addresses = BTreeSet::new();
    let options = ReadOptions { threads, ..ReadOptions::default() };
    read_grains(&lines.join(&b'\n'), options, &mut |output| match output {
        GrainOutput::Grain(_, grain) => assert!(addresses.insert(grain.address.to_string()), "made twice"),
        other => panic!("{other:?}"),
    });
    addresses
}

#[test]
fn every_recorded_exchange_comes_back_or_is_kept_whole() {
    let Some(folder) = shared("transcripts/exchanges") else { return };
    let report = check_round_trip(&all_lines(&folder).join(&b'\n'), ReadOptions::default());
    assert!(report.faults.is_empty() && report.differences.is_empty(), "{:?}", report.differences);
    let sum = |of: fn(&gristmill_connectors::transcript::check::EndpointReport) -> u64| -> u64 {
        report.endpoints.iter().map(of).sum()
    };
    println!("{} equal, {} kept whole", sum(|endpoint| endpoint.equal), sum(|endpoint| endpoint.opaque));
    assert!(sum(|endpoint| endpoint.equal) > sum(|endpoint| endpoint.opaque));
}

#[test]
fn recorded_traffic_gives_the_same_grains_in_any_order_on_any_number_of_threads() {
    let Some(folder) = shared("transcripts/exchanges") else { return };
    let lines = all_lines(&folder);
    let expected = addresses(&lines, 1);
    let mut other = lines;
    other.reverse();
    other.rotate_left(100);
    assert!(!expected.is_empty() && addresses(&other, 2) == expected);
}

/// Files that are none of the kind of the others of their folder: a configuration, conversations as bodies of requests, a database of
/// checkpoints and its rows.
const OTHERS: [&str; 4] = ["integrations__openclaw-2.json", "conversations.json", "checkpoints.sqlite", "rows.jsonl"];

#[test]
fn logs_of_agents_are_told_apart_and_read() {
    let Some(folder) = shared("transcripts/agentlogs") else { return };
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
            grains_of(&bytes, kind, ReadOptions::default(), &mut |output| match output {
                GrainOutput::Grain(..) | GrainOutput::Made(_) => grains += 1,
                GrainOutput::Fault(_) => faults += 1,
            });
            assert!(grains > 0 && faults == 0, "{}: {grains} grains, {faults} faults", file.display());
        }
    }
}

#[test]
fn a_database_of_checkpoints_tells_what_its_snapshots_tell() {
    let Some(folder) = shared("transcripts/agentlogs/langgraph") else { return };
    let messages = |name: &str, kind| {
        let bytes = fs::read(folder.join(name)).unwrap();
        assert_eq!(TranscriptKind::detect(&bytes, name), Some(kind));
        let mut messages = Vec::new();
        told(&bytes, kind, ReadOptions::default(), &mut |part| {
            assert!(part.faults.is_empty(), "{:?}", part.faults);
            messages.extend(
                part.said
                    .into_iter()
                    .map(|said| (said.message.role, said.message.content.len(), said.position.depth())),
            );
        });
        messages.sort();
        messages
    };
    let database = messages("checkpoints.sqlite", TranscriptKind::Sqlite);
    assert!(!database.is_empty());
    assert_eq!(database, messages("history.jsonl", TranscriptKind::LangGraph));
}

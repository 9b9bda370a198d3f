//! A killed ingest, compaction, repair or apply leaves the lake at a committed version, and a rerun
//! ends with the result of an undisturbed run.
//!
//! The environment variable `GRISTMILL_KILLS` is the number of kills, if there are to be more.

#![cfg(unix)]

mod apply;
mod ingest;
mod maintenance;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use arrow::array::{Array, AsArray, RecordBatch};
use futures::TryStreamExt;
use gristmill_engine::lake::{Lake, Table};
use gristmill_tests::binary;
use gristmill_tests::kill::{copy_folder, kill_after, kills, share};

/// Small batches, for many commits and so many moments for a kill.
const SMALL_BATCHES: [&str; 2] = ["--commit-every", "1M"];

fn command(lake: &Path, arguments: &[&str]) -> Command {
    let mut command = binary::program();
    command
        .arg("--lake")
        .arg(lake)
        .args(["--quiet", "--format", "json"])
        .args(arguments);
    if arguments.first() == Some(&"ingest") {
        command.args(SMALL_BATCHES);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn must(lake: &Path, arguments: &[&str]) {
    let output = command(lake, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let code = output.status.code();
    assert!(
        matches!(code, Some(0 | 2)),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Generates `grains` grains of `people` people in the folder `corpus`, `file_grains` in each file.
fn generate(corpus: &Path, grains: usize, file_grains: usize, people: usize) {
    let [grains, file_grains, people] = [grains, file_grains, people].map(|n| n.to_string());
    must(
        &corpus.with_file_name("none"),
        &[
            "generate",
            &corpus.display().to_string(),
            "--grains",
            &grains,
            "--file-grains",
            &file_grains,
            "--people",
            &people,
        ],
    );
}

/// Content of a lake, independent of time and order of ingest.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    grains: BTreeMap<String, Vec<u8>>,
    states: Vec<(String, String, String)>,
    rejects: Vec<(String, String, String)>,
}

fn content(lake: &Path) -> Content {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let lake = Lake::open(lake.to_str().unwrap()).await.unwrap();
        let batches: Vec<RecordBatch> = lake
            .scan(Some(&["content_address", "blob"]))
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        let mut grains = BTreeMap::new();
        for batch in &batches {
            let (addresses, blobs) = (
                batch.column(0).as_string::<i32>(),
                batch.column(1).as_binary::<i32>(),
            );
            for (address, blob) in addresses.iter().zip(blobs) {
                let known = grains.insert(address.unwrap().to_owned(), blob.unwrap().to_vec());
                assert!(known.is_none(), "{address:?} is in the lake twice");
            }
        }
        Content {
            grains,
            states: triples(&lake.state, ["content_address", "event", "value"]).await,
            rejects: triples(&lake.rejects, ["source_id", "error_code", "message"]).await,
        }
    })
}

async fn triples(table: &Table, columns: [&str; 3]) -> Vec<(String, String, String)> {
    let mut rows = Vec::new();
    for batch in table.read_columns(&columns).await.unwrap() {
        let cell = |name: &str, row: usize| {
            let texts = batch.column_by_name(name).unwrap().as_string::<i32>();
            if texts.is_valid(row) {
                texts.value(row).to_owned()
            } else {
                String::new()
            }
        };
        let row = |row| {
            (
                cell(columns[0], row),
                cell(columns[1], row),
                cell(columns[2], row),
            )
        };
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows.sort();
    rows
}

/// Returns the number of supersessions whose successor isn't in the lake.
fn closed_by_absent(lake: &Path) -> usize {
    let found = content(lake);
    let is_absent = |(_, event, value): &&(String, String, String)| {
        event == "superseded" && !value.is_empty() && !found.grains.contains_key(value)
    };
    found.states.iter().filter(is_absent).count()
}

/// Returns true if the chain of the audit log is valid.
fn audit_holds(lake: &Path) -> bool {
    command(lake, &["audit", "verify"]).status().unwrap().code() == Some(0)
}

/// Kills the command at many moments over copies of the lake `pristine`. After each kill `left`
/// checks the lake; then the command runs to its end, and `done` checks it.
fn kill_again_and_again(
    pristine: &Path,
    arguments: &[&str],
    left: impl Fn(&Path),
    done: impl Fn(&Path),
) {
    let lake = pristine.with_file_name("killed");
    copy_folder(pristine, &lake).unwrap();
    let started = Instant::now();
    must(&lake, arguments);
    let mut whole_run = started.elapsed();
    done(&lake);
    std::fs::remove_dir_all(&lake).unwrap();
    let (mut killed, mut runs) = (0, 0);
    while killed < kills() {
        runs += 1;
        assert!(runs < 20 * kills() + 100, "{killed} kills in {runs} runs");
        copy_folder(pristine, &lake).unwrap();
        let started = Instant::now();
        let child = command(&lake, arguments).spawn().unwrap();
        match kill_after(child, whole_run.mul_f64(share(runs))).unwrap() {
            true => killed += 1,
            // The first run was slower, for example because the machine was busy.
            false => whole_run = whole_run.min(started.elapsed()),
        }
        assert!(audit_holds(&lake), "run {runs}");
        left(&lake);
        must(&lake, arguments);
        assert!(audit_holds(&lake), "run {runs}");
        done(&lake);
        std::fs::remove_dir_all(&lake).unwrap();
    }
}

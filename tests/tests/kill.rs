//! An ingest that is killed at any moment leaves the lake at a committed version, and going on from there ends where an
//! undisturbed run ends.
//!
//! Kills [`KILLS`] times; the environment variable `GRISTMILL_KILLS` asks for another number.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray, RecordBatch};
use futures::TryStreamExt;
use gristmill_engine::lake::{Lake, Table};
use gristmill_tests::binary;
use sha2::{Digest, Sha256};

/// Kills, unless the environment says otherwise.
const KILLS: usize = 20;

/// Small batches: many commits, so many places to be killed at.
const MEMORY: &str = "4M";

fn command(lake: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary::path());
    command.arg("--lake").arg(lake).args(["--quiet", "--format", "json", "--memory", MEMORY]).args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn must(lake: &Path, arguments: &[&str]) {
    let output = command(lake, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 2)), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Waits for so long; true if the process was still running then, and is killed now.
fn kill_after(mut child: Child, delay: Duration) -> bool {
    let deadline = Instant::now() + delay;
    while Instant::now() < deadline {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // SIGKILL: nothing of the process runs any more.
    let was_running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    was_running
}

/// A number between 0 and 1, different for each run.
fn share(run: usize) -> f64 {
    let digest = Sha256::digest(run.to_le_bytes());
    f64::from(u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]])) / f64::from(u32::MAX)
}

/// What a lake holds, but for when and in which order it came in.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    grains: BTreeMap<String, Vec<u8>>,
    states: Vec<(String, String, String)>,
    rejects: Vec<(String, String, String)>,
}

fn content(lake: &Path) -> Content {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let lake = Lake::open(lake.to_str().unwrap()).await.unwrap();
        let batches: Vec<RecordBatch> =
            lake.scan(Some(&["content_address", "blob"])).unwrap().try_collect().await.unwrap();
        let mut grains = BTreeMap::new();
        for batch in &batches {
            let (addresses, blobs) = (batch.column(0).as_string::<i32>(), batch.column(1).as_binary::<i32>());
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
            if texts.is_valid(row) { texts.value(row).to_owned() } else { String::new() }
        };
        let row = |row| (cell(columns[0], row), cell(columns[1], row), cell(columns[2], row));
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows.sort();
    rows
}

#[test]
fn an_ingest_that_is_killed_again_and_again_ends_with_the_rows_of_an_undisturbed_one() {
    let kills: usize = std::env::var("GRISTMILL_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let corpus = at("corpus").display().to_string();
    must(&at("none"), &["generate", &corpus, "--grains", "12000", "--file-grains", "4000", "--people", "100"]);
    // A file that ends too early gives rejects.
    let whole = std::fs::read(at("corpus").join("corpus-00002.mg")).unwrap();
    std::fs::write(at("corpus").join("cut.mg"), &whole[..whole.len() / 2]).unwrap();

    let started = Instant::now();
    must(&at("undisturbed"), &["ingest", &corpus]);
    let whole_run = started.elapsed();
    let expected = content(&at("undisturbed"));
    assert_eq!(expected.grains.len(), 12_000);
    assert!(!expected.states.is_empty() && !expected.rejects.is_empty());

    let mut killed = 0;
    let (mut round, mut runs) = (0, 0);
    while killed < kills {
        let lake = at(&format!("killed-{round}"));
        round += 1;
        // A lake is killed until a run comes through; then another one begins.
        loop {
            runs += 1;
            assert!(runs < 20 * kills + 100, "{killed} kills in {runs} runs");
            let ingest = command(&lake, &["ingest", &corpus]).spawn().unwrap();
            let was_running = kill_after(ingest, whole_run.mul_f64(share(runs)));
            killed += usize::from(was_running);
            if lake.join("grains/_delta_log/00000000000000000000.json").exists() {
                check_committed(&lake, &expected);
            }
            if !was_running || killed >= kills {
                break;
            }
        }
        must(&lake, &["ingest", &corpus]);
        assert_eq!(content(&lake), expected, "{lake:?} after {killed} kills");
        must(&lake, &["gc", "--older-than", "0s"]);
        let left = std::fs::read_dir(lake.join("_scratch")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "gc leaves nothing of the killed runs");
        assert_eq!(content(&lake), expected, "{lake:?} after gc");
        std::fs::remove_dir_all(&lake).unwrap();
    }
}

/// The lake opens, every file that its log names is there, and it holds nothing that it shouldn't.
fn check_committed(lake: &Path, expected: &Content) {
    let found = content(lake);
    assert!(found.grains.iter().all(|(address, blob)| expected.grains.get(address) == Some(blob)));
    let is_part = |part: &[(String, String, String)], whole: &[(String, String, String)]| {
        part.len() <= whole.len() && part.iter().all(|row| whole.binary_search(row).is_ok())
    };
    assert!(is_part(&found.states, &expected.states), "states come in once");
    assert!(is_part(&found.rejects, &expected.rejects), "rejects come in once");
}

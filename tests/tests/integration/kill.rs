//! A killed ingest, compaction, repair or apply leaves the lake at a committed version, and a rerun
//! ends with the result of an undisturbed run.
//!
//! The environment variable `GRISTMILL_KILLS` asks for more kills.
//!
//! Above 500 lines: one file for all kills of commands other than erasures.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use arrow::array::{Array, AsArray, RecordBatch};
use futures::TryStreamExt;
use gristmill_engine::lake::{Lake, Table};
use gristmill_engine::segment::SegmentReader;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{ContainerOptions, IndexState, Manifest, VerificationStatus};
use gristmill_schemas::grain::HEADER_LENGTH;
use gristmill_tests::binary;
use gristmill_tests::grains::{belief, container, frames};
use gristmill_tests::kill::{copy_folder, kill_after, kills, share};

/// Small batches, for many commits and so many moments for a kill.
const SMALL_BATCHES: [&str; 2] = ["--commit-every", "1M"];

fn command(lake: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary::path());
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

#[test]
fn a_repeatedly_killed_ingest_ends_with_the_rows_of_an_undisturbed_one() {
    let kills = kills();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let corpus = at("corpus").display().to_string();
    must(
        &at("none"),
        &[
            "generate",
            &corpus,
            "--grains",
            "12000",
            "--file-grains",
            "4000",
            "--people",
            "100",
        ],
    );
    // A truncated file gives rejects.
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
        // Runs over one lake are killed until one completes; then the next lake begins.
        loop {
            runs += 1;
            assert!(runs < 20 * kills + 100, "{killed} kills in {runs} runs");
            let ingest = command(&lake, &["ingest", &corpus]).spawn().unwrap();
            let was_running = kill_after(ingest, whole_run.mul_f64(share(runs))).unwrap();
            killed += usize::from(was_running);
            if lake
                .join("grains/_delta_log/00000000000000000000.json")
                .exists()
            {
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

/// Checks that the lake opens, has every file of its log, and has nothing unexpected.
fn check_committed(lake: &Path, expected: &Content) {
    let found = content(lake);
    assert!(
        found
            .grains
            .iter()
            .all(|(address, blob)| expected.grains.get(address) == Some(blob))
    );
    let is_part = |part: &[(String, String, String)], whole: &[(String, String, String)]| {
        part.len() <= whole.len() && part.iter().all(|row| whole.binary_search(row).is_ok())
    };
    assert!(
        is_part(&found.states, &expected.states),
        "states come in once"
    );
    assert!(
        is_part(&found.rejects, &expected.rejects),
        "rejects come in once"
    );
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
    let whole_run = started.elapsed();
    done(&lake);
    std::fs::remove_dir_all(&lake).unwrap();
    let (mut killed, mut runs) = (0, 0);
    while killed < kills() {
        runs += 1;
        assert!(runs < 20 * kills() + 100, "{killed} kills in {runs} runs");
        copy_folder(pristine, &lake).unwrap();
        let child = command(&lake, arguments).spawn().unwrap();
        killed += usize::from(kill_after(child, whole_run.mul_f64(share(runs))).unwrap());
        assert!(audit_holds(&lake), "run {runs}");
        left(&lake);
        must(&lake, arguments);
        assert!(audit_holds(&lake), "run {runs}");
        done(&lake);
        std::fs::remove_dir_all(&lake).unwrap();
    }
}

#[test]
fn a_killed_compaction_loses_and_duplicates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let corpus = at("corpus").display().to_string();
    let pristine = at("pristine");
    must(
        &at("none"),
        &[
            "generate",
            &corpus,
            "--grains",
            "6000",
            "--file-grains",
            "500",
            "--people",
            "50",
        ],
    );
    for number in 0..12 {
        let file = at("corpus").join(format!("corpus-{number:05}.mg"));
        must(&pristine, &["ingest", &file.display().to_string()]);
    }
    let expected = content(&pristine);
    assert_eq!(expected.grains.len(), 6_000);
    let same = |lake: &Path| assert_eq!(content(lake), expected);
    kill_again_and_again(&pristine, &["compact"], same, |lake| {
        same(lake);
        must(lake, &["gc", "--older-than", "0s", "--retention", "0s"]);
        same(lake);
    });
}

/// Makes the column `name` of every segment undecodable.
fn damage_column(lake: &Path, name: &str) {
    for entry in std::fs::read_dir(lake.join("grains")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "parquet") {
            let mut bytes = std::fs::read(&path).unwrap();
            let reader = SegmentReader::open(bytes.clone().into()).unwrap();
            let (start, length) = reader.column_range(0, name).unwrap();
            bytes[start as usize..(start + length) as usize].fill(0xff);
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

#[test]
fn a_killed_repair_ends_with_the_rows_before_the_damage() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let corpus = at("corpus").display().to_string();
    let pristine = at("pristine");
    must(
        &at("none"),
        &[
            "generate",
            &corpus,
            "--grains",
            "1200",
            "--file-grains",
            "400",
            "--people",
            "20",
        ],
    );
    for number in 0..3 {
        let file = at("corpus").join(format!("corpus-{number:05}.mg"));
        must(&pristine, &["ingest", &file.display().to_string()]);
    }
    let code = |lake: &Path, arguments: &[&str]| command(lake, arguments).status().unwrap().code();
    let subjects = |lake: &Path| {
        let query = "SELECT content_address, subject, relation FROM grains ORDER BY 1";
        // A query needs more memory to sort than the batches of the other commands.
        let mut sql = Command::new(binary::path());
        let output = sql
            .arg("--lake")
            .arg(lake)
            .args(["--quiet", "--format", "json", "sql", query])
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    };
    let (expected, rows) = (content(&pristine), subjects(&pristine));
    assert_eq!(code(&pristine, &["verify"]), Some(0));
    damage_column(&pristine, "subject");
    assert_eq!(code(&pristine, &["verify"]), Some(2));
    assert_eq!(code(&pristine, &["repair", "--dry-run"]), Some(0));
    assert_eq!(code(&pristine, &["verify"]), Some(2));
    let same = |lake: &Path| assert_eq!(content(lake), expected);
    kill_again_and_again(&pristine, &["repair"], same, |lake| {
        same(lake);
        assert_eq!(subjects(lake), rows);
        assert_eq!(code(lake, &["verify"]), Some(0));
    });
    // Columns that follow from no blob can't be repaired.
    damage_column(&pristine, "ingested_at");
    assert_eq!(code(&pristine, &["repair"]), Some(2));
    same(&pristine);
}

/// Maximal number of kills per lake.
const RETRY_KILLS: usize = 3;

#[test]
fn a_killed_retry_of_rejects_loses_and_duplicates_nothing() {
    let kills = kills();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // A third of the grains have an entry that canonical form omits, and some are invalid.
    let grain = |number: usize| match number {
        number if number % 4_000 == 1 => vec![1, 0],
        number if number.is_multiple_of(3) => with_a_null(belief(number)),
        number => belief(number),
    };
    let file = at("mixed.frames").display().to_string();
    std::fs::write(&file, frames(&(0..16_000).map(grain).collect::<Vec<_>>())).unwrap();
    let (pristine, undisturbed) = (at("pristine"), at("undisturbed"));
    must(&pristine, &["ingest", &file]);
    copy_folder(&pristine, &undisturbed).unwrap();
    let retry = ["ingest", "--lenient", "--retry-refused", &file];
    let started = Instant::now();
    must(&undisturbed, &retry);
    let whole_run = started.elapsed();
    let (refused, expected) = (content(&pristine), content(&undisturbed));
    assert_eq!((expected.grains.len(), expected.rejects.len()), (15_996, 4));
    assert!(
        refused.rejects.len() > 5_000 && refused.grains.len() + refused.rejects.len() == 16_000
    );
    let (mut killed, mut runs) = (0, 0);
    while killed < kills {
        let lake = at(&format!("killed-{runs}"));
        copy_folder(&pristine, &lake).unwrap();
        // A killed retry starts at the first grain again, so the number of kills per lake is
        // limited.
        for _ in 0..RETRY_KILLS {
            runs += 1;
            let was_running = kill_after(
                command(&lake, &retry).spawn().unwrap(),
                whole_run.mul_f64(share(runs)),
            )
            .unwrap();
            killed += usize::from(was_running);
            let left = content(&lake);
            assert!(
                left.grains.len() >= refused.grains.len()
                    && left.rejects.len() >= expected.rejects.len()
            );
            if !was_running {
                break;
            }
        }
        must(&lake, &retry);
        assert!(content(&lake) == expected, "after {runs} runs");
    }
}

/// Returns `blob` with an additional null entry.
fn with_a_null(mut blob: Vec<u8>) -> Vec<u8> {
    let entries = &mut blob[HEADER_LENGTH];
    assert!((0x80..0x8f).contains(entries), "a short map");
    *entries += 1;
    blob.extend(b"\xa2zz\xc0");
    blob
}

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

#[test]
fn a_killed_ingest_of_claims_closes_no_grain_by_an_absent_one_and_loses_no_claim() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let old: Vec<Vec<u8>> = (0..400).map(belief).collect();
    let file = at("old.frames").display().to_string();
    std::fs::write(&file, frames(&old)).unwrap();
    let pristine = at("pristine");
    must(&pristine, &["ingest", &file]);
    // Each new grain supersedes an old one and is verified by the manifest.
    let new: Vec<Vec<u8>> = (400..800).map(belief).collect();
    let address = |blob: &Vec<u8>| ContentAddress::of(blob);
    let superseded = old.iter().zip(&new).map(|(old, new)| {
        (
            address(old),
            IndexState {
                superseded_by: Some(address(new)),
                ..IndexState::default()
            },
        )
    });
    let verified = Some(VerificationStatus::Verified);
    let states = new.iter().map(|new| {
        (
            address(new),
            IndexState {
                verification_status: verified,
                ..IndexState::default()
            },
        )
    });
    let manifest = Manifest {
        entries: superseded.chain(states).collect(),
    };
    let claims = at("claims.mg").display().to_string();
    std::fs::write(
        &claims,
        container(&new, ContainerOptions::default(), Some(&manifest)),
    )
    .unwrap();
    let left = |lake: &Path| {
        let found = content(lake);
        assert!(matches!(found.grains.len(), 400 | 800));
        assert_eq!(closed_by_absent(lake), 0);
    };
    kill_again_and_again(&pristine, &["ingest", &claims], left, |lake| {
        let found = content(lake);
        assert_eq!(
            (
                found.grains.len(),
                found.states.len(),
                closed_by_absent(lake)
            ),
            (800, 800, 0)
        );
    });
}

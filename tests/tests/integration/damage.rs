//! Damage to tables (data files, logs, heads, certificates) and its detection by `verify` and on
//! opening a lake.

use std::path::{Path, PathBuf};

use gristmill_engine::error::EngineError;
use gristmill_engine::lake::{Lake, TABLES};
use gristmill_engine::repair::{RepairOptions, repair};
use gristmill_engine::verify::Problem;
use gristmill_tests::bitflips::Target;
use gristmill_tests::damage::{Damage, SampleLake, files_below};
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::TestLake;
use gristmill_tests::sandbox::Sandbox;

fn newest(folder: &Path, ending: &str) -> PathBuf {
    let files = files_below(folder)
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(ending));
    files
        .max()
        .unwrap_or_else(|| panic!("no {ending} below {}", folder.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_lake_verifies_and_every_table_is_covered() {
    let sample = SampleLake::plain().await;
    let report = sample.verify().await.unwrap();
    assert_eq!(report.bad, 0, "{:?}", report.problems);
    let coverage = report.coverage.unwrap();
    assert_eq!(
        coverage
            .tables
            .iter()
            .map(|table| table.table.as_ref())
            .collect::<Vec<_>>(),
        TABLES
    );
    for table in &coverage.tables {
        assert!(
            table.complete && table.log_entries > 1 && table.without_digest == 0,
            "{table:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_data_file_of_any_table_is_found_and_named() {
    let sample = SampleLake::plain().await;
    for table in TABLES {
        let file = newest(&sample.lake.join(table), ".parquet");
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let middle = std::fs::metadata(&file).unwrap().len() / 2;
        for damage in [
            Damage::Flip {
                byte: middle,
                bit: 3,
            },
            Damage::Truncate { length: middle },
            Damage::Delete,
        ] {
            let undo = damage.inflict(&file);
            let report = sample.verify().await.unwrap();
            let named = |problem: &Problem| {
                problem.table.as_deref() == Some(table)
                    && problem.source.contains(&name)
                    && problem.repair.is_some()
            };
            assert!(
                report.bad > 0 && report.problems.iter().any(named),
                "{table} {damage:?}: {:?}",
                report.problems
            );
            if !matches!(damage, Damage::Flip { .. }) {
                let opened = Lake::open(&sample.lake.display().to_string()).await;
                assert!(
                    matches!(opened, Err(EngineError::Damaged { .. })),
                    "{table} {damage:?}"
                );
            }
            undo.undo();
        }
    }
    assert_eq!(sample.verify().await.unwrap().bad, 0);
}

/// Returns true for the data file of a segment.
fn is_segment(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("part-") && name.ends_with(".parquet"))
}

/// Overwrites all pages of a Parquet file and leaves its footer and its size as they are.
fn overwrite_pages(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let tail = bytes.len() - 8;
    let footer = u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize;
    bytes[4..tail - footer].fill(0x5a);
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_read_a_damaged_file_end_with_2_and_name_it_and_the_remedy() {
    let sample = SampleLake::plain().await;
    let files = files_below(&sample.lake.join("grains"));
    files
        .iter()
        .filter(|file| is_segment(file))
        .for_each(|file| overwrite_pages(file));
    let folder = tempfile::tempdir().unwrap();
    for command in [
        "sql SELECT\tsum(length(blob))\tFROM\tgrains",
        "cal RECALL\tbeliefs",
        "compact",
        "scan --pack gdpr",
        "report-subject --user kim-4004 --out held.jsonl",
        "erase --user kim-4004 --plan",
        "export all.mg",
    ] {
        let words = command.split(' ').map(|word| word.replace('\t', " "));
        let ended = gristmill_tests::binary::gristmill()
            .current_dir(folder.path())
            .arg("--lake")
            .arg(&sample.lake)
            .args(words)
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{command}: {message}");
        for part in ["`grains/part-", "gristmill verify"] {
            assert!(message.contains(part), "{command}: {message}");
        }
    }
}

#[test]
fn commands_that_read_references_in_a_damaged_file_end_with_2_and_verify_reports_it_too() {
    let sandbox = Sandbox::new();
    let event = grain(
        r#"{"type":"event","role":"user","content":"see","created_at":1,
            "content_refs":[{"uri":"a.png","modality":"image"}]}"#,
    );
    std::fs::write(sandbox.path("in.frames"), frames(&[event.blob])).unwrap();
    sandbox.run("lake", 0, &["ingest", "in.frames"]);
    let grains = sandbox.path("lake").join("grains");
    let files = files_below(&grains).into_iter();
    files
        .filter(|file| is_segment(file))
        .for_each(|file| overwrite_pages(&file));
    let described = sandbox.output("lake", &["describe", "--references"]);
    let message = String::from_utf8_lossy(&described.stderr);
    assert_eq!(described.status.code(), Some(2), "{message}");
    assert!(message.contains("gristmill verify"), "{message}");
    let report = sandbox.run("lake", 2, &["verify", "--content", "."]);
    assert!(report["bad"].as_u64() > Some(0), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lost_its_end_is_found_and_the_lake_is_not_opened() {
    let sample = SampleLake::plain().await;
    let last = |table: &str| newest(&sample.lake.join(table).join("_delta_log"), ".json");
    for table in TABLES {
        let undo = Damage::Delete.inflict(&last(table));
        let report = sample.verify().await.unwrap();
        assert!(
            report
                .problems
                .iter()
                .any(|problem| problem.table.as_deref() == Some(table)),
            "{table}: {:?}",
            report.problems
        );
        let error = Lake::open(&sample.lake.display().to_string())
            .await
            .unwrap_err();
        assert!(
            !error.is_environment() && error.to_string().contains(table),
            "{table}: {error}"
        );
        let mut lake = Lake::open_unchecked(&sample.lake.display().to_string())
            .await
            .unwrap();
        assert!(lake.verify_audit(&[]).await.unwrap().bad > 0, "{table}");
        undo.undo();
    }
    let undone: Vec<_> = TABLES
        .iter()
        .map(|table| Damage::Delete.inflict(&last(table)))
        .collect();
    assert!(sample.verify().await.unwrap().bad >= TABLES.len() as u64);
    undone
        .into_iter()
        .for_each(gristmill_tests::damage::Undo::undo);
    assert!(Lake::open(&sample.lake.display().to_string()).await.is_ok());
}

/// Runs the program over `lake` and returns its exit code, output and messages.
fn run(lake: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = gristmill_tests::binary::gristmill();
    let ended = command.arg("--lake").arg(lake).args(words).output();
    let ended = ended.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let output = text(&ended.stdout) + &text(&ended.stderr);
    (ended.status.code(), output)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_in_the_middle_of_a_log_is_named_with_a_remedy_that_helps() {
    let mut lake = TestLake::new().await;
    for number in 0..3 {
        let text =
            format!(r#"{{"type":"event","content":"number {number}","created_at":1700000000000}}"#);
        let file = frames(&[grain(&text).blob]);
        lake.ingest(&[("one.frames", &file)]).await;
    }
    let lake = lake.folder().join("lake");
    let entry = lake.join("grains/_delta_log/00000000000000000002.json");
    for damage in [Damage::Delete, Damage::Flip { byte: 0, bit: 1 }] {
        let undo = damage.inflict(&entry);
        for words in [&["sql", "SELECT count(*) FROM grains"][..], &["verify"]] {
            let (code, output) = run(&lake, words);
            assert_eq!(code, Some(2), "{damage:?} {words:?}: {output}");
            assert!(output.contains("0000000000000000000"), "{output}");
            assert!(
                output.contains("restore this file from a backup"),
                "{output}"
            );
            // What the lost entry had can't be accepted as lost: the rest can't be read.
            let offers = words[0] == "sql" && output.contains("accept-logs");
            assert!(!offers, "{output}");
        }
        undo.undo();
    }
    // New heads don't help against the digest in a later entry, either.
    let whole = std::fs::read_to_string(&entry).unwrap();
    std::fs::write(&entry, whole.replacen('{', "{ ", 1)).unwrap();
    let (_, found) = run(&lake, &["verify"]);
    assert!(found.contains("restore this file") && !found.contains("accept-logs"));
    std::fs::write(&entry, whole).unwrap();
    assert_eq!(run(&lake, &["verify"]).0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn repair_lists_damaged_files_of_tables_whose_rows_are_nowhere_else() {
    let sample = SampleLake::plain().await;
    for table in ["state", "rejects", "sources", "audit"] {
        let file = newest(&sample.lake.join(table), ".parquet");
        let middle = std::fs::metadata(&file).unwrap().len() / 2;
        let undo = Damage::Flip {
            byte: middle,
            bit: 3,
        }
        .inflict(&file);
        let (code, output) = run(&sample.lake, &["repair", "--dry-run"]);
        assert_eq!(code, Some(2), "{table}: {output}");
        let name = file.file_name().unwrap().to_string_lossy();
        assert!(output.contains(&*name), "{table}: {output}");
        undo.undo();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_changed_log_entry_and_changed_heads_are_found() {
    let sample = SampleLake::plain().await;
    let mut files: Vec<PathBuf> = TABLES
        .iter()
        .flat_map(|table| files_below(&sample.lake.join(table).join("_delta_log")))
        .collect();
    files.push(sample.lake.join("heads.json"));
    assert!(
        files
            .iter()
            .any(|file| file.to_string_lossy().ends_with("checkpoint.parquet"))
    );
    for file in files {
        let length = std::fs::metadata(&file).unwrap().len();
        for byte in [1, length / 2, length - 1] {
            let undo = Damage::Flip { byte, bit: 0 }.inflict(&file);
            let report = sample.verify().await.unwrap();
            assert!(report.bad > 0, "byte {byte} of {}", file.display());
            undo.undo();
        }
    }
    let undo = Damage::Delete.inflict(&sample.lake.join("heads.json"));
    assert!(sample.verify().await.unwrap().bad > 0);
    let error = Lake::open(&sample.lake.display().to_string())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("heads.json"), "{error}");
    undo.undo();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_ahead_of_its_head_is_sound_and_the_next_commit_catches_up() {
    let sample = SampleLake::plain().await;
    let heads = sample.lake.join("heads.json");
    let before = std::fs::read(&heads).unwrap();
    sample.ingest_one_more("after").await;
    std::fs::write(&heads, before).unwrap();
    assert_eq!(sample.verify().await.unwrap().bad, 0);
    assert!(Lake::open(&sample.lake.display().to_string()).await.is_ok());
    sample.ingest_one_more("and after that").await;
    let report = sample.verify().await.unwrap();
    assert_eq!(report.bad, 0, "{:?}", report.problems);
    let undo = Damage::Delete.inflict(&newest(&sample.lake.join("grains/_delta_log"), ".json"));
    assert!(sample.verify().await.unwrap().bad > 0);
    undo.undo();
}

#[tokio::test(flavor = "multi_thread")]
async fn ingest_refuses_a_lake_with_changed_tombstones() {
    let sample = SampleLake::plain().await;
    let file = newest(&sample.lake.join("erased"), ".parquet");
    let middle = std::fs::metadata(&file).unwrap().len() / 2;
    let undo = Damage::Flip {
        byte: middle,
        bit: 1,
    }
    .inflict(&file);
    let error = sample.try_ingest_erased().await.unwrap_err();
    assert!(matches!(error, EngineError::Damaged { .. }), "{error}");
    undo.undo();
    assert_eq!(sample.try_ingest_erased().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_and_tombstone_of_an_erasure_is_checked() {
    let sample = SampleLake::plain().await;
    let erasures = files_below(&sample.lake.join("erasures"));
    for ending in ["cose", "leaves", "tombstones"] {
        let files: Vec<_> = erasures
            .iter()
            .filter(|path| path.extension().is_some_and(|own| own == ending))
            .collect();
        assert_eq!(files.len(), 2, "{erasures:?}");
        let middle = std::fs::metadata(files[0]).unwrap().len() / 2;
        let name = files[0].file_name().unwrap().to_string_lossy().into_owned();
        let swap = Damage::Swap(files[1].clone());
        for damage in [
            Damage::Flip {
                byte: middle,
                bit: 2,
            },
            Damage::Truncate { length: middle },
            Damage::Delete,
            swap,
        ] {
            let undo = damage.inflict(files[0]);
            let problems = sample.verify().await.unwrap().problems;
            assert!(
                problems
                    .iter()
                    .any(|problem| problem.source.contains(&name)),
                "{name} {damage:?}: {problems:?}"
            );
            undo.undo();
        }
    }
    assert_eq!(sample.verify().await.unwrap().bad, 0);
}

/// The program `bitflips` flips two thousand bits, see `docs/reliability.md`.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_flipped_bits_are_found_or_change_no_answer() {
    let mut target = Target::new(SampleLake::plain().await).await;
    target.flip_bits(60, 27).await;
    target.cut_logs().await;
    assert!(
        target.outcome.failures.is_empty(),
        "{}\n{:#?}",
        target.outcome,
        target.outcome.failures
    );
    let mut target = Target::new(SampleLake::encrypted().await).await;
    target.flip_bits(40, 27).await;
    assert!(
        target.outcome.failures.is_empty(),
        "{}\n{:#?}",
        target.outcome,
        target.outcome.failures
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_of_format_1_is_read_as_it_is_and_upgraded_by_the_next_command_that_writes() {
    let sample = SampleLake::of_format_1().await;
    assert_eq!(sample.open().await.unwrap().grains.format_version(), 1);
    let report = sample.verify().await.unwrap();
    assert_eq!(report.bad, 0, "{:?}", report.problems);
    assert!(
        report
            .coverage
            .unwrap()
            .tables
            .iter()
            .all(|table| table.files == 0)
    );
    assert!(!sample.lake.join("heads.json").exists());
    let rejects = newest(&sample.lake.join("rejects"), ".parquet");
    sample.ingest_one_more("upgrades").await;
    assert_eq!(sample.open().await.unwrap().grains.format_version(), 2);
    let report = sample.verify().await.unwrap();
    assert_eq!(report.bad, 0, "{:?}", report.problems);
    for table in report
        .coverage
        .unwrap()
        .tables
        .iter()
        .filter(|table| table.table != "grains")
    {
        assert_eq!(table.without_digest, 0, "{table:?}");
    }
    for table in ["grains", "state", "rejects", "audit"] {
        let undo = Damage::Delete.inflict(&newest(
            &sample.lake.join(table).join("_delta_log"),
            ".json",
        ));
        assert!(
            sample.verify().await.unwrap().bad > 0 && sample.open().await.is_err(),
            "{table}"
        );
        undo.undo();
    }
    let middle = std::fs::metadata(&rejects).unwrap().len() / 2;
    let undo = Damage::Flip {
        byte: middle,
        bit: 4,
    }
    .inflict(&rejects);
    assert!(sample.verify().await.unwrap().bad > 0);
    undo.undo();
    // A lake of format 2 without heads isn't mistaken for one of format 1.
    let undo = Damage::Delete.inflict(&sample.lake.join("heads.json"));
    assert!(sample.open().await.is_err());
    undo.undo();
    sample.ingest_one_more("goes on").await;
    assert_eq!(sample.verify().await.unwrap().bad, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn repair_restores_tombstones_from_copies_and_accepts_shortened_logs_on_request() {
    let sample = SampleLake::plain().await;
    let progress = || std::sync::Arc::new(gristmill_engine::progress::WorkProgress::default());
    let unchecked = async || {
        Lake::open_unchecked(&sample.lake.display().to_string())
            .await
            .unwrap()
    };
    // A data file of tombstones.
    let file = newest(&sample.lake.join("erased"), ".parquet");
    let middle = std::fs::metadata(&file).unwrap().len() / 2;
    let _ = Damage::Flip {
        byte: middle,
        bit: 1,
    }
    .inflict(&file);
    let report = repair(
        &mut unchecked().await,
        &RepairOptions::default(),
        progress(),
    )
    .await
    .unwrap();
    assert!(
        report.unrepaired == 0 && report.repairs.iter().any(|done| done.table == "erased"),
        "{report:?}"
    );
    let found = sample.verify().await.unwrap();
    assert_eq!(found.bad, 0, "{:?}", found.problems);
    assert_eq!(sample.try_ingest_erased().await.unwrap(), 0);
    // The log of tombstones loses its end: refused, then accepted, and the tombstones are restored.
    for entry in [1, 2] {
        let _ = (
            entry,
            Damage::Delete.inflict(&newest(&sample.lake.join("erased/_delta_log"), ".json")),
        );
    }
    assert!(sample.open().await.is_err());
    let refused = repair(
        &mut unchecked().await,
        &RepairOptions::default(),
        progress(),
    )
    .await;
    assert!(
        matches!(refused, Err(EngineError::Damaged { .. })),
        "{refused:?}"
    );
    let options = RepairOptions {
        accept_logs: true,
        ..RepairOptions::default()
    };
    let report = repair(&mut unchecked().await, &options, progress())
        .await
        .unwrap();
    assert!(report.repaired > 0, "{report:?}");
    assert_eq!(sample.try_ingest_erased().await.unwrap(), 0);
    let found = sample.verify().await.unwrap();
    assert_eq!(found.bad, 0, "{:?}", found.problems);
}

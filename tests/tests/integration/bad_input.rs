//! Bad input: it is stored in `rejects` with its bytes, position and code; valid input around it is
//! ingested; nothing crashes or hangs.

use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::{IngestOptions, OnError};
use gristmill_schemas::container::{Codec, ContainerOptions, FOOTER_LENGTH};
use gristmill_schemas::grain::{DecodeMode, EncodeOptions};
use gristmill_tests::datasets;
use gristmill_tests::grains::{belief, container, frames, grain_with, plain};
use gristmill_tests::lake::TestLake;
use gristmill_tests::paths::workspace;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

/// Returns `file` with the correct footer for its bytes.
fn with_right_footer(mut file: Vec<u8>) -> Vec<u8> {
    let body = file.len() - FOOTER_LENGTH;
    let footer = Sha256::digest(&file[..body]);
    file[body..].copy_from_slice(&footer);
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_grain_of_the_data_sets_is_rejected_with_its_code_and_the_others_are_ingested()
{
    let sets = datasets::make().unwrap();
    let damaged = sets.iter().find(|set| set.name == "damaged.mg").unwrap();
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&[("damaged.mg", &damaged.bytes)]).await;
    assert_eq!(
        (report.grains_read, report.grains_written),
        (report.rejected + 60, 60)
    );
    let codes = lake.reject_codes().await;
    for code in [
        "ERR_CORRUPT",
        "ERR_EMPTY",
        "ERR_FLOAT_INVALID",
        "ERR_INTEGRITY",
        "ERR_NOT_MAP",
        "ERR_NO_TYPE",
        "ERR_RANGE",
        "ERR_SCHEMA",
        "ERR_SENSITIVITY_MISMATCH",
        "ERR_SIGNED_MISMATCH",
        "ERR_TOO_SHORT",
        "ERR_UNKNOWN_TYPE",
        "ERR_VERSION",
    ] {
        assert!(codes.iter().any(|found| found == code), "{code} is missing");
    }
    let told: u64 = report.rejects_by_code.values().sum();
    assert_eq!((report.rejected, codes.len() as u64), (told, told));
    // Each reject has its bytes and its offset.
    for row in lake
        .rows("SELECT \"offset\", encode(bytes, 'hex'), message FROM rejects")
        .await
    {
        let bytes = hex_bytes(&row[1]);
        assert!(
            damaged
                .bytes
                .windows(bytes.len())
                .any(|window| window == bytes),
            "{row:?}"
        );
        assert!(
            row[0].parse::<usize>().unwrap() <= damaged.bytes.len() && row[2].starts_with("ERR_"),
            "{row:?}"
        );
    }
}

fn hex_bytes(digits: &str) -> Vec<u8> {
    hex::decode(digits).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lenient_retry_ingests_rejected_grains_once_and_removes_their_rejects() {
    let cases = std::fs::read(workspace().join("tests/cases/oms/oms-negative.json")).unwrap();
    let cases: serde_json::Value = serde_json::from_slice(&cases).unwrap();
    let canonical = cases["vectors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case["strictness"] == "canonical");
    let odd: Vec<Vec<u8>> = canonical
        .filter_map(|case| hex::decode(case["hex"].as_str()?).ok())
        .collect();
    assert!(odd.len() > 10);
    let good: Vec<Vec<u8>> = (0..3).map(belief).collect();
    let never = vec![1, 0];
    let mixed = frames(&[&good[..2], &odd[..], std::slice::from_ref(&never)].concat());
    let (contained, whole) = (
        plain(&[odd[0].clone(), good[2].clone(), never]),
        frames(&good),
    );
    let said = b"{\"model\":\"gpt-4o\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}\n\
                 {\"model\":";
    let files: [(&str, &[u8]); 4] = [
        ("a.frames", &mixed),
        ("b.mg", &contained),
        ("c.frames", &whole),
        ("d.jsonl", said),
    ];
    let count = "SELECT count(*), count(DISTINCT source_id) FROM rejects";
    let mut lake = TestLake::new().await;
    let strict = lake.ingest(&files).await;
    assert_eq!(
        (strict.files, strict.grains_written, strict.rejected),
        (4, 4, odd.len() as u64 + 4)
    );
    assert!(strict.readable_rejects > 10 && strict.readable_rejects <= odd.len() as u64 + 1);
    // Without `--retry-refused` nothing changes.
    let lenient = IngestOptions {
        mode: DecodeMode::Lenient,
        ..IngestOptions::default()
    };
    let again = lake.try_ingest(&files, &lenient).await.unwrap();
    assert_eq!((again.files, again.known, again.rejected), (0, 4, 0));
    // A dry run reports the same and changes nothing.
    let retry = IngestOptions {
        retry_refused: true,
        ..lenient
    };
    let dry = IngestOptions {
        dry_run: true,
        ..retry.clone()
    };
    let pretended = lake.try_ingest(&files, &dry).await.unwrap();
    assert_eq!(
        lake.rows(count).await,
        [[(odd.len() + 4).to_string(), "3".to_owned()]]
    );
    // Neither the file without rejects nor the transcript is read again.
    let retried = lake.try_ingest(&files, &retry).await.unwrap();
    assert_eq!(
        (retried.files, retried.known, retried.readable_rejects),
        (2, 2, 0)
    );
    assert_eq!(retried.resolved_rejects, strict.readable_rejects);
    assert_eq!(
        (retried.grains_written, retried.duplicates),
        (pretended.grains_written, pretended.duplicates)
    );
    let left = strict.rejected - strict.readable_rejects;
    assert_eq!(lake.rows(count).await, [[left.to_string(), "3".to_owned()]]);
    assert_eq!(
        retried.rejected,
        left - 1,
        "the transcript's line isn't among them"
    );
    // A second retry changes nothing.
    let before = lake
        .rows("SELECT content_address FROM grains ORDER BY 1")
        .await;
    let last = lake.try_ingest(&files, &retry).await.unwrap();
    assert_eq!(
        (last.grains_written, last.resolved_rejects, last.rejected),
        (0, 0, retried.rejected)
    );
    assert_eq!(lake.rows(count).await, [[left.to_string(), "3".to_owned()]]);
    assert_eq!(
        lake.rows("SELECT content_address FROM grains ORDER BY 1")
            .await,
        before
    );
    // A strict retry removes nothing.
    let strictly = IngestOptions {
        mode: DecodeMode::Strict,
        ..retry
    };
    assert_eq!(
        lake.try_ingest(&files, &strictly).await.unwrap().rejected,
        strict.rejected - 1
    );
    assert_eq!(lake.rows(count).await, [[left.to_string(), "3".to_owned()]]);
    // A run without a retry skips all files as known.
    assert_eq!(lake.ingest(&files).await.known, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_damaged_as_a_whole_is_one_reject_and_the_next_file_is_ingested() {
    let grains: Vec<_> = (0..20).map(belief).collect();
    let good = plain(&grains);
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut lying = good.clone();
    lying[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut counted = good.clone();
    counted[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut custom = good.clone();
    custom[3] |= 1 << 3;
    let zeros = vec![vec![0; 24 << 20]];
    let zstd = container(
        &zeros,
        ContainerOptions {
            codec: Codec::Zstd,
            ..ContainerOptions::default()
        },
        None,
    );
    let lz4 = container(
        &zeros,
        ContainerOptions {
            codec: Codec::Lz4,
            ..ContainerOptions::default()
        },
        None,
    );
    let cut = &good[..good.len() - 10];
    let mut lake = TestLake::new().await;
    let files: [(&str, &[u8]); 10] = [
        ("0-flipped.mg", &flipped),
        ("1-lying.mg", &lying),
        ("2-counted.mg", &counted),
        ("3-custom.mg", &custom),
        ("4-zstd-bomb.mg", &zstd),
        ("5-lz4-bomb.mg", &lz4),
        ("6-cut.mg", cut),
        ("7-empty.mg", b""),
        (
            "8-other.mg",
            b"%PDF-1.7 and so on, long enough to be something",
        ),
        ("9-good.mg", &good),
    ];
    let report = lake.ingest(&files).await;
    let codes = lake.reject_codes().await;
    let expected = [
        "ERR_INTEGRITY",
        "ERR_CORRUPT",
        "ERR_CORRUPT",
        "ERR_UNSUPPORTED",
        "ERR_CORRUPT",
        "ERR_CORRUPT",
        "ERR_INTEGRITY",
        "ERR_CORRUPT",
        "ERR_CORRUPT",
    ];
    assert_eq!(codes, expected);
    assert_eq!(
        (report.files, report.grains_written, report.rejected),
        (10, 20, 9)
    );
    let places = lake
        .value("SELECT count(*) FROM rejects WHERE ordinal = -1 AND source LIKE '%.mg'")
        .await;
    assert_eq!(places, "9");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_grain_in_a_sound_container_rejects_only_that_grain() {
    for codec in [Codec::None, Codec::Zstd, Codec::Lz4] {
        let mut grains: Vec<_> = (0..50).map(belief).collect();
        let wrong = grains[17].len() - 3;
        grains[17][wrong] = 0xff;
        let mut lake = TestLake::new().await;
        let file = container(
            &grains,
            ContainerOptions {
                codec,
                ..ContainerOptions::default()
            },
            None,
        );
        let report = lake.ingest(&[("a.mg", &file)]).await;
        assert_eq!(
            (report.grains_read, report.grains_written, report.rejected),
            (50, 49, 1),
            "{codec:?}"
        );
        assert_eq!(lake.value("SELECT ordinal FROM rejects").await, "17");
        // The same file again adds no grain and no reject.
        let again = lake.ingest(&[("a.mg", &file)]).await;
        assert_eq!(
            (again.known, again.grains_written, again.rejected),
            (1, 0, 0)
        );
        assert_eq!(lake.reject_codes().await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_frames_is_read_up_to_its_damage() {
    let grains: Vec<_> = (0..30).map(belief).collect();
    let whole = frames(&grains);
    let cut = &whole[..whole.len() - 40];
    let mut lying = frames(&grains[..10]);
    lying.truncate(lying.len() - 4);
    lying.extend([0xff; 20]);
    let mut lake = TestLake::new().await;
    let report = lake
        .ingest(&[("0-cut.frames", cut), ("1-lying.frames", &lying)])
        .await;
    assert_eq!(
        (report.grains_written, report.duplicates, report.rejected),
        (29, 10, 2),
        "{report:?}"
    );
    assert_eq!(lake.reject_codes().await, ["ERR_CORRUPT", "ERR_CORRUPT"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_grains_that_decompress_to_large_ones_are_opened_a_few_at_a_time() {
    let text = "all work and no play ".repeat(100_000);
    let grains: Vec<_> = (0..40)
        .map(|number| {
            let json = format!(r#"{{"type":"event","content":"{text}","created_at":{number}}}"#);
            grain_with(
                &json,
                EncodeOptions {
                    compressed: true,
                    ..EncodeOptions::default()
                },
            )
            .blob
        })
        .collect();
    assert!(
        grains.iter().map(Vec::len).sum::<usize>() < 100_000,
        "compressed they are small"
    );
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&[("large.mg", &plain(&grains))]).await;
    assert_eq!((report.grains_written, report.rejected), (40, 0));
    let found = lake
        .value("SELECT count(*) FROM grains WHERE length(content) = 2100000")
        .await;
    assert_eq!(found, "40");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_error_fail_stops_at_the_first_reject() {
    let mut grains: Vec<_> = (0..5).map(belief).collect();
    grains[3][0] = 7;
    let mut lake = TestLake::new().await;
    let options = IngestOptions {
        on_error: OnError::Fail,
        ..IngestOptions::default()
    };
    let error = lake
        .try_ingest(&[("a.mg", &plain(&grains))], &options)
        .await
        .unwrap_err();
    assert!(
        matches!(error, EngineError::Refused { .. }) && error.to_string().contains("ERR_VERSION"),
        "{error}"
    );
    assert_eq!(lake.value("SELECT count(*) FROM grains").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_reports_the_same_and_writes_nothing() {
    let sets = datasets::make().unwrap();
    let files: Vec<_> = sets.iter().map(|set| (set.name, &*set.bytes)).collect();
    let mut lake = TestLake::new().await;
    let dry = lake
        .try_ingest(
            &files,
            &IngestOptions {
                dry_run: true,
                ..IngestOptions::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(lake.value("SELECT count(*) FROM grains").await, "0");
    assert!(lake.reject_codes().await.is_empty());
    let real = lake.ingest(&files).await;
    let told = |report: &gristmill_engine::ingest::IngestReport| {
        (
            report.files,
            report.grains_read,
            report.grains_written,
            report.duplicates,
            report.rejects_by_code.clone(),
        )
    };
    assert_eq!(told(&dry), told(&real));
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 16, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn every_grain_of_a_container_with_noise_in_it_is_in_the_lake_or_in_the_rejects(
        noise in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..40),
        repair in any::<bool>(),
    ) {
        let grains: Vec<_> = (0..30).map(belief).collect();
        let mut file = plain(&grains);
        let region = 16 + 4 * grains.len()..file.len() - FOOTER_LENGTH;
        for (at, byte) in noise {
            let at = region.start + at.index(region.len());
            file[at] = byte;
        }
        if repair {
            file = with_right_footer(file);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let report = runtime.block_on(async {
            let mut lake = TestLake::new().await;
            let report = lake.ingest(&[("noise.mg", &file)]).await;
            assert_eq!(lake.reject_codes().await.len() as u64, report.rejected);
            report
        });
        if report.grains_read > 0 {
            prop_assert_eq!(report.grains_written + report.duplicates + report.rejected, 30);
        } else {
            prop_assert_eq!(report.rejected, 1);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_truncated_while_it_is_read_ends_the_program_with_a_message() {
    use std::fs::File;
    use std::io::Write;
    use std::process::{Command, Stdio};

    use gristmill_tests::sandbox::Sandbox;

    let sandbox = Sandbox::new();
    let blobs: Vec<_> = (0..2_000).map(belief).collect();
    std::fs::write(sandbox.path("large.mgs"), frames(&blobs)).unwrap();
    let made = Command::new("mkfifo").arg(sandbox.path("pipe")).status();
    assert!(made.unwrap().success());
    // On one thread both sources are fetched together, the file first.
    let arguments = ["ingest", "large.mgs", "pipe", "--threads", "1"];
    let child = sandbox
        .command("lake", &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let open = |name| {
        File::options()
            .write(true)
            .open(sandbox.path(name))
            .unwrap()
    };
    // Opened as soon as the program reads from it.
    let mut pipe = open("pipe");
    open("large.mgs").set_len(0).unwrap();
    pipe.write_all(&frames(&[belief(1)])).unwrap();
    drop(pipe);
    let ended = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    assert!(errors.contains("has truncated it"), "{errors}");
}

//! Kills of a compaction and of a repair.

use std::path::{Path, PathBuf};

use gristmill_engine::segment::SegmentReader;
use gristmill_tests::binary;

use super::{command, content, generate, kill_again_and_again, must};

/// Returns a lake of generated grains in `folder`, with a segment for each file.
fn generated_lake(folder: &Path, grains: usize, file_grains: usize, people: usize) -> PathBuf {
    let (corpus, lake) = (folder.join("corpus"), folder.join("pristine"));
    generate(&corpus, grains, file_grains, people);
    for number in 0..grains / file_grains {
        let file = corpus.join(format!("corpus-{number:05}.mg"));
        must(&lake, &["ingest", &file.display().to_string()]);
    }
    lake
}

#[test]
fn a_killed_compaction_loses_and_duplicates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pristine = generated_lake(folder.path(), 6_000, 500, 50);
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
    let pristine = generated_lake(folder.path(), 1_200, 400, 20);
    let code = |lake: &Path, arguments: &[&str]| command(lake, arguments).status().unwrap().code();
    let subjects = |lake: &Path| {
        let query = "SELECT content_address, subject, relation FROM grains ORDER BY 1";
        // A query needs more memory to sort than the batches of the other commands.
        let mut sql = binary::program();
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

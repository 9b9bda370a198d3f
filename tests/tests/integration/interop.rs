//! Interoperability: Python's `deltalake` and `duckdb` read the same rows as our SQL.
//!
//! The Python with the packages `deltalake`, `duckdb` and `pyarrow` is named by `GRISTMILL_PYTHON`
//! (`.ci/run` makes one), else `python3` is tried. Where neither has the packages the test says so
//! and skips.

use std::process::Command;

use gristmill_tests::datasets;
use gristmill_tests::lake::TestLake;

/// Prints rows by table, grains by type with bytes of blobs, and the number of blobs whose hash
/// isn't their address.
const SCRIPT: &str = r#"
import hashlib, sys
import deltalake, duckdb

def table(name):
    return deltalake.DeltaTable(f"{sys.argv[1]}/{name}").to_pyarrow_dataset()

grains, state, rejects, audit = table("grains"), table("state"), table("rejects"), table("audit")
for name in ("grains", "state", "rejects", "audit"):
    print(name, duckdb.sql(f"SELECT count(*) FROM {name}").fetchall()[0][0])
for row in duckdb.sql("SELECT type, count(*), sum(blob_size), min(created_at)::VARCHAR FROM grains GROUP BY type ORDER BY type").fetchall():
    print(row[0], row[1], row[2])
print("tags", duckdb.sql("SELECT count(*) FROM grains WHERE len(structural_tags) > 0").fetchall()[0][0])
print("people", duckdb.sql("SELECT count(DISTINCT user_id) FROM grains").fetchall()[0][0])
wrong = 0
for address, blob in duckdb.sql("SELECT content_address, blob FROM grains").fetchall():
    wrong += hashlib.sha256(blob).hexdigest() != address
print("wrong", wrong)
"#;

/// Returns a Python with the packages, or `None` after printing the reason.
fn python() -> Option<String> {
    let named = std::env::var("GRISTMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    match Command::new(&named)
        .args(["-c", "import deltalake, duckdb, pyarrow"])
        .output()
    {
        Ok(output) if output.status.success() => Some(named),
        Ok(_) => {
            eprintln!(
                "skipped: `{named}` lacks deltalake, duckdb or pyarrow (GRISTMILL_PYTHON names \
                 another)"
            );
            None
        }
        Err(error) => {
            eprintln!("skipped: `{named}` can't be run: {error}");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_engine_reads_the_same_rows() {
    let Some(python) = python() else { return };
    let sets = datasets::make().unwrap();
    let files: Vec<_> = sets.iter().map(|set| (set.name, &*set.bytes)).collect();
    let mut lake = TestLake::new().await;
    lake.ingest(&files).await;
    let folder = lake.folder().join("lake");
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seen = String::from_utf8(output.stdout).unwrap();
    let mut expected = String::new();
    for table in ["grains", "state", "rejects", "audit"] {
        expected += &format!(
            "{table} {}\n",
            lake.value(&format!("SELECT count(*) FROM {table}")).await
        );
    }
    for row in lake
        .rows("SELECT type, count(*), sum(blob_size) FROM grains GROUP BY type ORDER BY type")
        .await
    {
        expected += &format!("{}\n", row.join(" "));
    }
    let tags = lake
        .value("SELECT count(*) FROM grains WHERE cardinality(structural_tags) > 0")
        .await;
    let people = lake
        .value("SELECT count(DISTINCT user_id) FROM grains")
        .await;
    expected += &format!("tags {tags}\npeople {people}\nwrong 0\n");
    assert_eq!(seen, expected);
}

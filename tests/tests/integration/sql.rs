//! SQL over a lake: every file of `tests/slt` against the lake of `tests/slt/people.json`.

use gristmill_queries::sql::{FileAccess, SessionContext, SqlOptions, bare_context, lake_context};
use gristmill_tests::fixture::Fixture;
use gristmill_tests::paths::workspace;
use gristmill_tests::sqllogic::LakeSession;

async fn context(fixture: &Fixture) -> SessionContext {
    lake_context(&fixture.lake, &reading_files())
        .await
        .expect("a context over the lake")
}

/// A session that may use `mg_file`, as `gristmill sql` may.
fn reading_files() -> SqlOptions {
    SqlOptions {
        files: FileAccess::Read,
        ..SqlOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sqllogic_file_passes() {
    let folder = workspace().join("tests/slt");
    let fixture = Fixture::load(&folder.join("people.json")).await;
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "slt"));
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let session = context(&fixture).await;
        let mut runner = sqllogictest::Runner::new(|| {
            let session = session.clone();
            async move { Ok(LakeSession::new(session)) }
        });
        for (key, address) in &fixture.addresses {
            runner.set_var(key.clone(), address.to_string());
        }
        runner.set_var(
            "FILE".to_owned(),
            fixture.folder().join("fixture.mg").display().to_string(),
        );
        // Files that use substitution enable it.
        runner
            .run_file_async(&file)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn querying_a_file_equals_querying_the_lake_that_ingested_it() {
    let fixture = Fixture::load(&workspace().join("tests/slt/people.json")).await;
    let columns = "content_address, type, blob, subject, object, created_at";
    let rows = async |context: &SessionContext, from: &str| {
        let query = format!("SELECT {columns} FROM {from} ORDER BY content_address");
        let batches = context.sql(&query).await.unwrap().collect().await.unwrap();
        arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
    };
    let lake = rows(&context(&fixture).await, "grains").await;
    let file = fixture.folder().join("fixture.mg");
    let bare = bare_context(&reading_files()).unwrap();
    let file = rows(&bare, &format!("mg_file('{}')", file.display())).await;
    assert_eq!(lake.num_rows(), fixture.addresses.len());
    assert_eq!(lake, file);
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_not_an_empty_table() {
    let fixture = Fixture::load(&workspace().join("tests/slt/people.json")).await;
    let path = fixture.folder().join("fixture.mg");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let query = format!("SELECT count(*) FROM mg_file('{}')", path.display());
    let asked = bare_context(&reading_files()).unwrap().sql(&query).await;
    let error = match asked {
        Ok(frame) => frame.collect().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("ERR_INTEGRITY"), "{error}");
}

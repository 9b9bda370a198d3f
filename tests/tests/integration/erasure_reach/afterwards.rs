//! A lake after an erasure: other writers, lost tombstones, a damaged audit log.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use gristmill_engine::erase::erase;
use gristmill_engine::error::EngineError;
use gristmill_engine::lake::{Change, DataFile, Lake};
use gristmill_tests::erasures::erasure_options;
use gristmill_tests::grains::{frames, grain};

use super::{alice, belief, erased, lake_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_continues_after_an_erasure_removed_its_log_version() {
    let mine = |number: usize| belief(&format!(r#""object": "{number}", "user_id": "alice-77""#));
    let (mut lake, _) = lake_of(&[mine(0), belief(r#""object": "x", "user_id": "bob-1""#)]).await;
    let mut writer = lake.lake.clone();
    for number in 1..3 {
        lake.ingest(&[(
            &format!("{number}.mgs"),
            &frames(&[grain(&mine(number)).blob]),
        )])
        .await;
    }
    assert!(erased(&mut lake, &alice()).await.proven);
    let folder = lake.folder().join("lake");
    let adds = |table: &str, name: &str| {
        std::fs::write(folder.join(table).join(name), "x").unwrap();
        let file = DataFile::untagged(name, 1, 1);
        Change {
            added: vec![file],
            changes_rows: true,
            ..Change::default()
        }
    };
    // A writer that may append after others does; one that must reload gets a conflict.
    writer
        .rejects
        .commit(adds("rejects", "part-b.parquet"), "test", 3)
        .await
        .unwrap();
    let told = writer
        .grains
        .commit(adds("grains", "part-a.parquet"), "test", 0)
        .await;
    assert!(matches!(told, Err(EngineError::Conflict(_))), "{told:?}");
    writer.grains.refresh().await.unwrap();
    lake.lake.refresh().await.unwrap();
    assert_eq!(
        writer.grains.files().unwrap(),
        lake.lake.grains.files().unwrap()
    );
}

/// Returns `content`, compressed with gzip.
fn gzip(content: &[u8]) -> Vec<u8> {
    let mut copy = GzEncoder::new(Vec::new(), Compression::best());
    copy.write_all(content).unwrap();
    copy.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_of_the_lake_is_searched_or_ends_an_erasure_before_it_begins() {
    let (mut lake, _) = lake_of(&[belief(r#""object": "x", "user_id": "alice-77""#)]).await;
    let (hers, other) = (gzip(b"said by alice-77"), gzip(b"said by bob-1"));
    let utf_16: Vec<u8> = "bob-1".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cut = other[..other.len() - 9].to_vec();
    let (mut expected, mut refused) = (Vec::new(), Vec::new());
    for folder in [
        "backup",
        "grains",
        "grains/_delta_log",
        "state",
        "audit",
        "erased",
        "erasures",
        "index",
        "_scratch",
    ] {
        let place = lake.folder().join("lake").join(folder);
        std::fs::create_dir_all(&place).unwrap();
        let lz4 = [&[4, 0x22, 0x4d, 0x18], &b"bob-1"[..]].concat();
        let text = b"bob-1: \xc3\xa9t\xc3\xa9, PAR1".to_vec();
        let write = |name: &str, content: Vec<u8>| {
            std::fs::write(place.join(name), content).unwrap();
            format!("{folder}/{name}")
        };
        let hers = write("hers.gz", hers.clone());
        write("other.gz", other.clone());
        write("notes.txt", text);
        // What can't be read to its end, or in an unknown form, may name her.
        let unreadable = [
            ("cut.gz", cut.clone()),
            ("late.gz", [b"text", &other[..]].concat()),
            ("twice.gz", gzip(&other)),
            ("notes.lz4", lz4),
            ("utf-16.txt", utf_16.clone()),
        ];
        let unreadable = unreadable.map(|(name, content)| write(name, content));
        // What no version of a table that it changes has is removed by an exclusive erasure.
        if !["grains", "state", "_scratch"].contains(&folder) {
            expected.push(hers);
            refused.extend(unreadable);
        }
    }
    // Names of files, also of empty ones; the certificate mustn't have them.
    let notes = lake.folder().join("lake/notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("alice-77.txt"), "").unwrap();
    expected.push("notes/…".to_owned());
    let options = erasure_options(&lake.folder().join("keyring.json"));
    let mut found = Vec::new();
    while let Err(error) = erase(&mut lake.lake, &alice(), &options).await {
        let EngineError::File { path, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(
            lake.value("SELECT count(*) FROM grains").await,
            "1",
            "{path}"
        );
        std::fs::remove_file(lake.folder().join("lake").join(&path)).unwrap();
        found.push(path);
    }
    found.sort();
    refused.sort();
    assert_eq!(found, refused);
    let certificate = erased(&mut lake, &alice()).await;
    let mut found = certificate.proofs.byte_search.remnant_files.clone();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert!(!certificate.proven);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_without_its_tombstones_is_refused() {
    let (mut lake, _) = lake_of(&[belief(r#""object": "x", "user_id": "alice-77""#)]).await;
    assert!(erased(&mut lake, &alice()).await.proven);
    let folder = lake.lake.location().name();
    std::fs::remove_dir_all(Path::new(&folder).join("erased")).unwrap();
    let error = Lake::open(&folder).await.unwrap_err().to_string();
    assert!(error.contains("has lost its table `erased`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_or_unreadable_audit_log_fails_verification() {
    let (mut lake, _) = lake_of(&[belief(r#""object": "x", "user_id": "alice-77""#)]).await;
    erased(&mut lake, &alice()).await;
    assert_eq!(lake.lake.verify_audit(&[]).await.unwrap().bad, 0);
    let audit = lake.folder().join("lake/audit");
    let aside = lake.folder().join("aside");
    let newest = |folder: &Path, ending: &str| {
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .max()
            .unwrap()
    };
    let uri = lake.folder().join("lake").display().to_string();
    let verdict = async || {
        gristmill_engine::lake::Lake::open_unchecked(&uri)
            .await
            .unwrap()
            .verify_audit(&[])
            .await
            .unwrap()
    };
    let commit = newest(&audit.join("_delta_log"), ".json");
    std::fs::rename(&commit, &aside).unwrap();
    let cut = verdict().await;
    assert!(
        cut.bad > 0 && cut.first_problem.as_ref().unwrap().contains("certificate"),
        "{cut:?}"
    );
    std::fs::rename(&aside, &commit).unwrap();
    assert_eq!(verdict().await.bad, 0);
    let file = newest(&audit, ".parquet");
    std::fs::rename(&file, &aside).unwrap();
    assert!(
        verdict()
            .await
            .first_problem
            .unwrap()
            .contains("can't be read")
    );
    std::fs::remove_dir_all(&audit).unwrap();
    let wiped = gristmill_engine::lake::Lake::open_unchecked(&uri).await;
    assert!(
        matches!(wiped, Err(EngineError::TableLost { table: "audit", .. })),
        "{wiped:?}"
    );
    // A lake of format 1 has no other evidence of the loss.
    std::fs::remove_file(lake.folder().join("lake/heads.json")).unwrap();
    let wiped = verdict().await;
    assert!(wiped.bad > 0 && wiped.entries == 0, "{wiped:?}");
}

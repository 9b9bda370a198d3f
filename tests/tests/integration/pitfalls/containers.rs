//! Containers and the positions of their grains.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    Codec, Container, ContainerLimits, ContainerOptions, IndexState, Manifest,
};
use gristmill_schemas::grain::EncodeOptions;
use gristmill_schemas::sign::{SigningKey, sign};
use gristmill_tests::grains::{belief, container, grain_with, plain};
use gristmill_tests::lake::TestLake;

#[tokio::test(flavor = "multi_thread")]
async fn offsets_may_count_from_the_file_or_from_the_region() {
    let grains: Vec<_> = (0..5).map(belief).collect();
    let absolute = plain(&grains);
    let mut relative = absolute.clone();
    let start = 16 + 4 * grains.len();
    for at in (16..start).step_by(4) {
        let offset = u32::from_be_bytes(relative[at..at + 4].try_into().unwrap()) - start as u32;
        relative[at..at + 4].copy_from_slice(&offset.to_be_bytes());
    }
    refoot(&mut relative);
    let mut lake = TestLake::new().await;
    let report = lake
        .ingest(&[("absolute.mg", &absolute), ("relative.mg", &relative)])
        .await;
    assert_eq!(
        (report.grains_written, report.duplicates, report.rejected),
        (5, 5, 0)
    );
}

/// Replaces the footer of `file` by the digest of its bytes.
fn refoot(file: &mut [u8]) {
    use sha2::Digest;
    let body = file.len() - 32;
    let footer = sha2::Sha256::digest(&file[..body]);
    file[body..].copy_from_slice(&footer);
}

#[tokio::test(flavor = "multi_thread")]
async fn last_grain_before_a_manifest_ends_where_its_bytes_end() {
    let grains: Vec<_> = (0..3).map(belief).collect();
    let address = ContentAddress::of(&grains[2]);
    let state = IndexState {
        superseded_by: Some(ContentAddress::of(&grains[0])),
        ..IndexState::default()
    };
    let manifest = Manifest {
        entries: [(address, state)].into(),
    };
    let file = container(&grains, ContainerOptions::default(), Some(&manifest));
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&[("a.mg", &file)]).await;
    assert_eq!((report.grains_written, report.rejected), (3, 0));
    assert_eq!(
        lake.value("SELECT value FROM state").await,
        ContentAddress::of(&grains[0]).to_string()
    );
    assert_eq!(lake.value("SELECT count(*) FROM current").await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn codec_byte_and_compressed_flag_may_disagree() {
    let grains: Vec<_> = (0..5).map(belief).collect();
    let mut lake = TestLake::new().await;
    for codec in [Codec::Zstd, Codec::Lz4] {
        let file = container(
            &grains,
            ContainerOptions {
                codec,
                ..ContainerOptions::default()
            },
            None,
        );
        let mut without_flag = file.clone();
        without_flag[3] &= !(1 << 2);
        refoot(&mut without_flag);
        let mut without_codec = file.clone();
        without_codec[9] = 0;
        refoot(&mut without_codec);
        for file in [file, without_flag, without_codec] {
            let opened = Container::open(&file[..], ContainerLimits::default()).unwrap();
            assert_eq!((opened.len(), opened.codec()), (5, codec));
            let report = lake.ingest(&[("a.mg", &file)]).await;
            assert_eq!((report.grains_read, report.rejected), (5, 0));
        }
    }
    assert_eq!(lake.value("SELECT count(*) FROM grains").await, "5");
}

#[test]
fn offsets_of_32_bits_limit_a_file_to_four_gibibytes() {
    use gristmill_schemas::container::ContainerWriter;
    let fits = vec![1 << 30; 3];
    assert!(ContainerWriter::new(std::io::sink(), ContainerOptions::default(), fits).is_ok());
    let beyond = vec![1 << 30; 4];
    assert!(ContainerWriter::new(std::io::sink(), ContainerOptions::default(), beyond).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_footer_refuses_the_file_even_if_every_grain_is_sound() {
    let mut file = plain(&[belief(1), belief(2)]);
    let last = file.len() - 1;
    file[last] ^= 1;
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&[("a.mg", &file)]).await;
    assert_eq!(
        (report.grains_written, lake.reject_codes().await),
        (0, vec!["ERR_INTEGRITY".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn error_in_a_wrapped_grain_has_its_byte_offset_in_the_file() {
    let text = r#"{"type":"belief","subject":"s","relation":"r","object":"o","confidence":0.5,"created_at":1}"#;
    let mut blob = grain_with(
        text,
        EncodeOptions {
            signed: true,
            ..EncodeOptions::default()
        },
    )
    .blob;
    // 2.5 in place of 0.5.
    let at = blob
        .windows(3)
        .position(|window| window == [0xcb, 0x3f, 0xe0])
        .unwrap();
    blob[at + 1..at + 3].copy_from_slice(&[0x40, 0x04]);
    let file = plain(&[sign(&blob, &SigningKey::from_seed(&[7; 32]), None, 0).unwrap()]);
    let place = file
        .windows(3)
        .position(|window| window == [0xcb, 0x40, 0x04])
        .unwrap();
    let mut lake = TestLake::new().await;
    lake.ingest(&[("a.mg", &file)]).await;
    let rows = lake
        .rows("SELECT error_code, \"offset\" FROM rejects")
        .await;
    assert_eq!(rows, [["ERR_RANGE".to_owned(), place.to_string()]]);
}

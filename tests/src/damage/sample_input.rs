//! The grains, frames and containers of which the sample lake is made.

use std::collections::HashSet;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    ContainerOptions, ContainerWriter, IndexState, Manifest, write_frame,
};
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;

pub(super) fn blob(person: &str, number: usize) -> Vec<u8> {
    let json = format!(
        r#"{{"type": "belief", "subject": "subject {number}", "relation": "prefers", "object": "tea number {number} of {person}",
            "user_id": "{person}", "confidence": 0.5, "importance": 0.{number}, "created_at": {}}}"#,
        1_767_225_600_000_u64 + 1_000 * number as u64
    );
    let json = Json::parse(json.as_bytes()).expect("JSON");
    encode_json(&json, EncodeOptions::default())
        .unwrap_or_else(|error| panic!("{error}"))
        .blob
}

pub(super) fn frames(blobs: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    blobs
        .iter()
        .for_each(|blob| write_frame(blob, &mut out).expect("a frame"));
    out.extend([0; 4]);
    out
}

/// A container whose manifest has the first grain superseded by the second.
pub(super) fn container(blobs: &[Vec<u8>], addresses: &[ContentAddress]) -> Vec<u8> {
    let own: HashSet<ContentAddress> = blobs.iter().map(|blob| ContentAddress::of(blob)).collect();
    let mut own = addresses.iter().filter(|address| own.contains(address));
    let mut manifest = Manifest::default();
    if let (Some(first), Some(second)) = (own.next(), own.next()) {
        let state = IndexState {
            superseded_by: Some(*second),
            ..IndexState::default()
        };
        manifest.entries.insert(*first, state);
    }
    container_of(blobs, &manifest)
}

pub(super) fn container_of(blobs: &[Vec<u8>], manifest: &Manifest) -> Vec<u8> {
    let options = ContainerOptions {
        with_manifest: true,
        ..ContainerOptions::default()
    };
    let lengths = blobs.iter().map(|blob| blob.len() as u32).collect();
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = ContainerWriter::new(&mut bytes, options, lengths).expect("a container");
    blobs
        .iter()
        .for_each(|blob| writer.push(blob).expect("a grain of the container"));
    writer.finish(Some(manifest)).expect("the container's end");
    bytes.into_inner()
}

/// A grain whose header has another type than its payload.
pub(super) fn wrong_blob(number: usize) -> Vec<u8> {
    let mut wrong = blob("mallory", number);
    wrong[2] = 2;
    wrong
}

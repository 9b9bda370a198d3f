//! A small lake from a JSON file with named grains and their lifecycle state.
//!
//! ```json
//! {"grains": [{"key": "old", "grain": {…}}, {"key": "new", "grain": {"derived_from": ["@old"], …}}],
//!  "state": [{"key": "old", "superseded_by": "@new"}]}
//! ```
//!
//! `@name` in any text value is the address of an earlier grain.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::lake::Lake;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    ContainerOptions, ContainerWriter, IndexState, Manifest, VerificationStatus,
};
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;

/// A lake in a temporary folder.
pub struct Fixture {
    /// The lake after ingest.
    pub lake: Lake,
    /// The address of each grain by its name.
    pub addresses: HashMap<String, ContentAddress>,
    folder: tempfile::TempDir,
}

impl Fixture {
    /// Creates the lake that `file` describes.
    pub async fn load(file: &Path) -> Fixture {
        let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let description =
            Json::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (container, addresses) = write_container(&description, folder.path());
        let uri = folder.path().join("lake").display().to_string();
        let mut lake = Lake::open_or_create(&uri).await.expect("a new lake");
        let sources = discover(&[container.display().to_string()])
            .await
            .expect("the container is there");
        let options = IngestOptions::default();
        let report = ingest(
            &mut lake,
            sources,
            &options,
            Arc::new(IngestProgress::default()),
        )
        .await;
        let report = report.expect("the container can be taken in");
        assert_eq!(
            report.rejected, 0,
            "a grain of the fixture was refused: {:?}",
            report.rejects_by_code
        );
        Fixture {
            lake,
            addresses,
            folder,
        }
    }

    /// The folder that holds the container and the lake.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn write_container(
    description: &Json<'_>,
    folder: &Path,
) -> (PathBuf, HashMap<String, ContentAddress>) {
    let mut addresses = HashMap::new();
    let mut blobs = Vec::new();
    for entry in description
        .get("grains")
        .and_then(Json::as_array)
        .expect("a list of grains")
    {
        let key = entry
            .get("key")
            .and_then(Json::as_str)
            .expect("a grain has a key");
        let text = named(
            &entry
                .get("grain")
                .expect("an entry has a grain")
                .to_string(),
            &addresses,
        );
        let json = Json::parse(text.as_bytes()).expect("names become addresses");
        let encoded = encode_json(&json, EncodeOptions::default())
            .unwrap_or_else(|error| panic!("{key}: {error}"));
        addresses.insert(key.to_owned(), encoded.address);
        blobs.push(encoded.blob);
    }
    let mut manifest = Manifest::default();
    for entry in description
        .get("state")
        .and_then(Json::as_array)
        .unwrap_or_default()
    {
        let key = entry
            .get("key")
            .and_then(Json::as_str)
            .expect("a state has a key");
        manifest
            .entries
            .insert(addresses[key], state(entry, &addresses));
    }
    let path = folder.join("fixture.mg");
    let lengths = blobs.iter().map(|blob| blob.len() as u32).collect();
    let options = ContainerOptions {
        with_manifest: true,
        ..ContainerOptions::default()
    };
    let file = fs::File::create(&path).expect("the folder can be written to");
    let mut writer = ContainerWriter::new(file, options, lengths).expect("a container");
    blobs
        .iter()
        .for_each(|blob| writer.push(blob).expect("the container can be written"));
    writer
        .finish(Some(&manifest))
        .expect("the container can be written");
    (path, addresses)
}

fn named(text: &str, addresses: &HashMap<String, ContentAddress>) -> String {
    let replace = |text: String, (key, address): (&String, &ContentAddress)| {
        text.replace(&format!("\"@{key}\""), &format!("\"{address}\""))
    };
    addresses.iter().fold(text.to_owned(), replace)
}

fn state(entry: &Json<'_>, addresses: &HashMap<String, ContentAddress>) -> IndexState {
    let text = |key: &str| entry.get(key).and_then(Json::as_str);
    IndexState {
        superseded_by: text("superseded_by").map(|name| addresses[name.trim_start_matches('@')]),
        verification_status: text("verification_status").and_then(VerificationStatus::from_name),
        system_valid_to: entry.get("system_valid_to").and_then(Json::as_i64),
        ..IndexState::default()
    }
}

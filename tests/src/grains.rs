//! Small grains and containers for tests.

use gristmill_schemas::container::{
    ContainerOptions, ContainerWriter, FRAME_END, Manifest, write_frame,
};
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, encode_json};
use gristmill_schemas::json::Json;

/// The grain that `text` (JSON with full names) describes.
///
/// # Panics
/// If it isn't one.
pub fn grain(text: &str) -> EncodedGrain {
    grain_with(text, EncodeOptions::default())
}

/// [`grain`] with options.
///
/// # Panics
/// If it isn't one.
pub fn grain_with(text: &str, options: EncodeOptions) -> EncodedGrain {
    let json = Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    encode_json(&json, options).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A belief, different for each `number`.
pub fn belief(number: usize) -> Vec<u8> {
    grain(&format!(
        r#"{{"type":"belief","subject":"subject {number}","relation":"is","object":"seen","confidence":0.5,"created_at":{number}}}"#
    ))
    .blob
}

/// A container of `grains` as they are.
///
/// # Panics
/// If it can't be written.
pub fn container(
    grains: &[Vec<u8>],
    options: ContainerOptions,
    manifest: Option<&Manifest>,
) -> Vec<u8> {
    let options = ContainerOptions {
        with_manifest: manifest.is_some(),
        ..options
    };
    let lengths = grains.iter().map(|grain| grain.len() as u32).collect();
    let mut writer = ContainerWriter::new(Vec::new(), options, lengths).expect("a small container");
    grains
        .iter()
        .for_each(|grain| writer.push(grain).expect("announced"));
    writer.finish(manifest).expect("a whole container")
}

/// An uncompressed container of `grains`.
pub fn plain(grains: &[Vec<u8>]) -> Vec<u8> {
    container(grains, ContainerOptions::default(), None)
}

/// A stream of frames of `grains`, with its end.
///
/// # Panics
/// If a grain is empty.
pub fn frames(grains: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    grains
        .iter()
        .for_each(|grain| write_frame(grain, &mut stream).expect("a grain"));
    stream.extend(FRAME_END);
    stream
}

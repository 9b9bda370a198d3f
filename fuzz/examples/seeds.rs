//! `cargo run --example seeds` writes the conformance cases as the initial corpus of the targets.

use std::fs;
use std::path::Path;

use gristmill_connectors::wire::registry::adapters;
use gristmill_fuzz::BETWEEN_BODIES;
use gristmill_schemas::container::{FRAME_END, write_frame};
use gristmill_schemas::json::Json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases = root.join("../tests/cases/oms");
    for target in ["blob", "container", "exchange", "frames", "manifest"] {
        fs::create_dir_all(root.join("corpus").join(target))?;
    }
    let mut blobs = Vec::new();
    for entry in fs::read_dir(&cases)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let bytes = fs::read(&path)?;
            collect(&Json::parse(&bytes)?, &mut blobs);
        }
    }
    for entry in fs::read_dir(cases.join("oms-mg"))? {
        let path = entry?.path();
        fs::copy(
            &path,
            root.join("corpus/container")
                .join(path.file_name().unwrap_or_default()),
        )?;
    }
    let mut stream = Vec::new();
    for (number, blob) in blobs.iter().enumerate() {
        let name = format!("case-{number:04}");
        fs::write(root.join("corpus/blob").join(&name), blob)?;
        // A payload without header is a map, as a manifest is.
        fs::write(
            root.join("corpus/manifest").join(&name),
            blob.get(9..).unwrap_or_default(),
        )?;
        let mut frame = Vec::new();
        if write_frame(blob, &mut frame).is_ok() {
            stream.extend(&frame);
            frame.extend(FRAME_END);
            fs::write(root.join("corpus/frames").join(&name), &frame)?;
        }
    }
    stream.extend(FRAME_END);
    fs::write(root.join("corpus/frames/all"), stream)?;
    let exchanges = exchanges(
        &root.join("../datasets/exchanges.jsonl"),
        &root.join("corpus/exchange"),
    )?;
    println!("{} blobs, {exchanges} exchanges", blobs.len());
    Ok(())
}

/// Writes every exchange of a file for every adapter; returns their number.
fn exchanges(file: &Path, folder: &Path) -> Result<usize, Box<dyn std::error::Error>> {
    let text = fs::read(file)?;
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let mut count = 0;
    for line in lines {
        let json = Json::parse(line)?;
        let request = json.get("request").map(Json::to_string).unwrap_or_default();
        let stream = json
            .get("response_sse")
            .and_then(Json::as_str)
            .map(str::to_owned);
        let response = stream
            .or_else(|| json.get("response").map(Json::to_string))
            .unwrap_or_default();
        for number in 0..adapters().count() as u8 {
            let bodies = [
                &[number],
                request.as_bytes(),
                &[BETWEEN_BODIES],
                response.as_bytes(),
            ]
            .concat();
            fs::write(
                folder.join(format!("exchange-{count:03}-{number:03}")),
                bodies,
            )?;
        }
        count += 1;
    }
    Ok(count)
}

/// Returns all strings below keys that end in `hex`, decoded.
fn collect(json: &Json<'_>, blobs: &mut Vec<Vec<u8>>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| collect(item, blobs)),
        Json::Object(members) => members
            .iter()
            .for_each(|(key, value)| match value.as_str() {
                Some(text) if key.ends_with("hex") => blobs.extend(bytes_of(text)),
                _ => collect(value, blobs),
            }),
        _ => {}
    }
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| {
        text.get(at..at + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    (0..text.len()).step_by(2).map(digit).collect()
}

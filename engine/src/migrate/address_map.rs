//! The file of old and new addresses: one JSON object per grain whose address changed, or that
//! keeps it for a reason.

use std::io::{BufRead, Write};
use std::path::Path;

use gristmill_schemas::address::ContentAddress;
use serde::{Deserialize, Serialize};

use super::form::GrainForm;
use super::work::{MigratedGrain, WorkFile};
use crate::error::{Context, Result};
use crate::export::Target;

/// Lines that are read at a time.
const CHUNK_LINES: usize = 4_096;

/// A line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MapLine {
    old: String,
    new: String,
    /// The form of the old grain, by which a later migration restores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<GrainForm>,
    /// Why the grain keeps its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
    /// `dropped` or `renewed`, if the old grain was signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    /// The address that the grain had before the migration that is undone, if it doesn't have it
    /// again.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_restored: Option<String>,
}

/// Writes the map of `work` to `path`.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(super) fn write_map(work: &WorkFile, path: &Path, overwrite: bool) -> Result<()> {
    let target = Target::at(path.to_owned(), overwrite)?;
    let mut out = target.begin()?;
    let mut lines = 0;
    work.each(|grain| {
        let Some(line) = line_of(grain) else {
            return Ok(());
        };
        let mut text = serde_json::to_string(&line).file("can't write", path.display())?;
        text.push('\n');
        lines += 1;
        target.fault(out.write_all(text.as_bytes()))
    })?;
    out.finish(lines).map(drop)
}

fn line_of(grain: MigratedGrain) -> Option<MapLine> {
    let not_restored = grain.expected.filter(|expected| *expected != grain.new);
    let is_listed = grain.old != grain.new || grain.kept.is_some() || not_restored.is_some();
    is_listed.then(|| MapLine {
        old: grain.old.to_string(),
        new: grain.new.to_string(),
        form: grain.form,
        kept: grain.kept,
        signature: grain.signature,
        not_restored: not_restored.map(|address| address.to_string()),
    })
}

/// Reads the map at `path`, which an earlier migration wrote, into `work`.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if it can't be read or isn't a map.
pub(super) fn read_map(work: &mut WorkFile, path: &Path) -> Result<()> {
    let shown = path.display();
    let file = std::fs::File::open(path).file("can't read", &shown)?;
    let mut origins = Vec::new();
    for line in std::io::BufReader::new(file).lines() {
        let line = line.file("can't read", &shown)?;
        let line: MapLine = serde_json::from_str(&line).file("can't read", &shown)?;
        let [old, new] = [&line.old, &line.new].map(|text| text.parse::<ContentAddress>());
        let (old, new) = (
            old.file("can't read", &shown)?,
            new.file("can't read", &shown)?,
        );
        // Grains that kept their bytes are what they were.
        if let Some(form) = line.form.filter(|_| old != new) {
            origins.push((new, old, form));
        }
        if origins.len() >= CHUNK_LINES {
            work.add_origins(&std::mem::take(&mut origins))?;
        }
    }
    work.add_origins(&origins)
}

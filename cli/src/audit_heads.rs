//! The file of heads of `audit verify`: one JSON object per line, only appended to.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use gristmill_engine::lake::AuditHead;

use crate::exit::Failure;

/// Reads the heads of the file `path`, in the order of its lines. A file that doesn't exist has
/// none.
///
/// # Errors
/// A failure with the number of the line if the file can't be read or a line isn't a head.
pub fn read(path: &Path) -> Result<Vec<AuditHead>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| Failure::reading(path, &error))?,
    };
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let heads = lines.map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            let cause = format!("line {number} isn't a head of an audit log: {error}");
            Failure::reading(path, &cause)
        })
    });
    heads.collect()
}

/// Appends `head` to the file `path`, which is created if it doesn't exist, and waits until it is
/// on the disk.
///
/// # Errors
/// A failure if the file can't be written.
pub fn append(path: &Path, head: &AuditHead) -> Result<(), Failure> {
    let write = || {
        let mut line = serde_json::to_string(head)?;
        line.push('\n');
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        // In one write, so that the lines of several runs don't mix.
        file.write_all(line.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error: std::io::Error| Failure::writing(path, &error))
}

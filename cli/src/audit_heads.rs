//! The file of heads of `audit verify`: one JSON object per line, only appended to.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use gristmill_engine::destination::real_path;
use gristmill_engine::lake::AuditHead;

use crate::exit::Failure;
use crate::log::note;

/// The heads of a file.
#[derive(Default)]
pub struct KnownHeads {
    /// In the order of their lines.
    pub heads: Vec<AuditHead>,
    /// The length of the complete lines in bytes, if there is more: a run that was killed leaves
    /// the beginning of a line.
    torn_at: Option<u64>,
}

/// Reads the file `path`, which isn't in the folder of `lake`. One that doesn't exist has no heads,
/// which is noted.
///
/// # Errors
/// A failure if the file is in that folder or can't be read, and one with the number of the line if
/// a line isn't a head.
pub fn read(path: &Path, lake: &str) -> Result<KnownHeads, Failure> {
    check_outside(path, Path::new(lake))?;
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            note(format_args!(
                "`{}` doesn't exist: it begins with the head of this run",
                path.display()
            ));
            return Ok(KnownHeads::default());
        }
        text => text.map_err(|error| Failure::reading(path, &error))?,
    };
    let length = text.rfind('\n').map_or(0, |end| end + 1);
    let lines = (1..).zip(text.get(..length).unwrap_or_default().lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let heads = lines.map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            let cause = format!("line {number} isn't a head of an audit log: {error}");
            Failure::reading(path, &cause)
        })
    });
    Ok(KnownHeads {
        heads: heads.collect::<Result<_, _>>()?,
        torn_at: (length < text.len()).then_some(length as u64),
    })
}

/// Checks that the file `path` isn't in the folder `lake`.
fn check_outside(path: &Path, lake: &Path) -> Result<(), Failure> {
    let file = real_path(path).map_err(|error| Failure::reading(path, &error))?;
    match lake.canonicalize() {
        Ok(lake) if file.starts_with(&lake) => Err(Failure::usage(format!(
            "`{}` is in the folder of the lake: who sets the lake back sets it back, too; name a \
             file elsewhere",
            path.display()
        ))),
        _ => Ok(()),
    }
}

impl KnownHeads {
    /// Writes `head` after these to the file `path`, which is created if it doesn't exist, and
    /// waits until it is on the disk.
    ///
    /// # Errors
    /// A failure if the file can't be written.
    pub fn append(&self, path: &Path, head: &AuditHead) -> Result<(), Failure> {
        let write = || {
            let mut line = serde_json::to_string(head)?;
            line.push('\n');
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            if let Some(length) = self.torn_at {
                file.set_len(length)?;
            }
            // In one write, so that the lines of several runs don't mix.
            file.write_all(line.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error: std::io::Error| Failure::writing(path, &error))
    }
}

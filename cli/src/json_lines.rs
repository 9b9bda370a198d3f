//! Writes results as JSON Lines while an operation runs.
//!
//! If the reader closes the pipe (`gristmill apply … | head`), the operation continues and further
//! results are dropped.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use gristmill_engine::error::EngineError;
use serde::Serialize;

/// Writer of JSON Lines to a file or to standard output.
pub struct JsonLinesWriter<'o> {
    out: BufWriter<Box<dyn Write + 'o>>,
    /// Name of the destination, for messages.
    place: String,
    closed: bool,
}

impl<'o> JsonLinesWriter<'o> {
    /// Creates a writer to standard output.
    pub fn to_stdout() -> JsonLinesWriter<'static> {
        JsonLinesWriter {
            out: BufWriter::new(Box::new(io::stdout())),
            place: "standard output".to_owned(),
            closed: false,
        }
    }

    /// Creates a writer to `out`, the file at `path`.
    pub fn to(path: &Path, out: impl Write + 'o) -> JsonLinesWriter<'o> {
        JsonLinesWriter {
            out: BufWriter::new(Box::new(out)),
            place: path.display().to_string(),
            closed: false,
        }
    }

    /// Writes a value as one line of JSON.
    pub fn write(&mut self, value: &impl Serialize) -> Result<(), EngineError> {
        if self.closed {
            return Ok(());
        }
        let line = serde_json::to_string(value)
            .map_err(|error| EngineError::Request(error.to_string()))?;
        let written = writeln!(self.out, "{line}");
        self.handle(written)
    }

    /// Writes buffered lines.
    pub fn finish(mut self) -> Result<(), EngineError> {
        let written = if self.closed {
            Ok(())
        } else {
            self.out.flush()
        };
        self.handle(written)
    }

    fn handle(&mut self, written: io::Result<()>) -> Result<(), EngineError> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => {
                let (what, path) = ("can't write", self.place.clone());
                return Err(EngineError::File {
                    what,
                    path,
                    cause: error.into(),
                });
            }
            Ok(()) => {}
        }
        Ok(())
    }
}

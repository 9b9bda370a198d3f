//! Results that are written line by line while the work goes on.
//!
//! A reader who goes away (`gristmill apply … | head`) doesn't stop the work: what it would have
//! read is dropped.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use gristmill_engine::error::EngineError;
use serde::Serialize;

/// JsonLinesWriter on their way to a file or to standard output.
pub struct JsonLinesWriter<'o> {
    out: BufWriter<Box<dyn Write + 'o>>,
    /// Where that is, for messages.
    place: String,
    closed: bool,
}

impl<'o> JsonLinesWriter<'o> {
    /// To standard output.
    pub fn to_stdout() -> JsonLinesWriter<'static> {
        JsonLinesWriter {
            out: BufWriter::new(Box::new(io::stdout())),
            place: "standard output".to_owned(),
            closed: false,
        }
    }

    /// To `out`, which is at `path`.
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
        self.went(written)
    }

    /// Writes what is held back.
    pub fn finish(mut self) -> Result<(), EngineError> {
        let written = if self.closed {
            Ok(())
        } else {
            self.out.flush()
        };
        self.went(written)
    }

    fn went(&mut self, written: io::Result<()>) -> Result<(), EngineError> {
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

//! Writes results as JSON Lines, or as one array, while an operation runs.
//!
//! If the reader closes the pipe (`gristmill apply … | head`), the operation continues and further
//! results are dropped.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use gristmill_engine::error::EngineError;
use serde::Serialize;

/// Writer of JSON Lines to a file, and of JSON Lines or one array to standard output.
pub struct JsonLinesWriter<'o> {
    out: BufWriter<Box<dyn Write + 'o>>,
    /// Name of the destination, for messages.
    place: String,
    closed: bool,
    layout: RecordLayout,
    is_empty: bool,
}

/// How results are written one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordLayout {
    /// One per line.
    Lines,
    /// As the items of one array, which is valid JSON also if there are none.
    Array,
}

impl<'o> JsonLinesWriter<'o> {
    /// Creates a writer to standard output.
    pub fn to_stdout(layout: RecordLayout) -> JsonLinesWriter<'static> {
        JsonLinesWriter {
            out: BufWriter::new(Box::new(io::stdout())),
            place: "standard output".to_owned(),
            closed: false,
            layout,
            is_empty: true,
        }
    }

    /// Creates a writer to `out`, the file at `path`.
    pub fn to(path: &Path, out: impl Write + 'o) -> JsonLinesWriter<'o> {
        JsonLinesWriter {
            out: BufWriter::new(Box::new(out)),
            place: path.display().to_string(),
            closed: false,
            layout: RecordLayout::Lines,
            is_empty: true,
        }
    }

    /// Writes a value as one line of JSON, or as an item of the array.
    pub fn write(&mut self, value: &impl Serialize) -> Result<(), EngineError> {
        if self.closed {
            return Ok(());
        }
        let line = serde_json::to_string(value)
            .map_err(|error| EngineError::Request(error.to_string()))?;
        let written = match (self.layout, self.is_empty) {
            (RecordLayout::Lines, _) => writeln!(self.out, "{line}"),
            (RecordLayout::Array, true) => write!(self.out, "[{line}"),
            (RecordLayout::Array, false) => write!(self.out, ",\n{line}"),
        };
        self.is_empty = false;
        self.handle(written)
    }

    /// Ends the array, and writes what is buffered.
    pub fn finish(mut self) -> Result<(), EngineError> {
        if self.closed {
            return Ok(());
        }
        let end = match (self.layout, self.is_empty) {
            (RecordLayout::Lines, _) => "",
            (RecordLayout::Array, true) => "[]\n",
            (RecordLayout::Array, false) => "]\n",
        };
        let written = self.out.write_all(end.as_bytes());
        let written = written.and_then(|()| self.out.flush());
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

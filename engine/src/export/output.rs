//! Destinations of an export: files that appear atomically, streams, standard output.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use tempfile::NamedTempFile;

use super::{ExportOptions, ExportedFile};
use crate::destination::{Destination, PendingFile, removable};
use crate::error::{Context, EngineError, Result};

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;

/// The destination of an export.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    path: PathBuf,
    overwrite: bool,
    destination: Destination,
}

impl Target {
    /// Returns the target of `options`.
    ///
    /// # Errors
    /// [`EngineError::File`] if it exists and may not be overwritten.
    pub(super) fn new(options: &ExportOptions) -> Result<Target> {
        Target::at(options.out.clone(), options.overwrite)
    }

    /// Returns the target `path`.
    ///
    /// # Errors
    /// As [`Target::new`].
    pub(crate) fn at(path: PathBuf, overwrite: bool) -> Result<Target> {
        let destination = Destination::of(&path).file("can't write", path.display())?;
        if !overwrite && destination.holds_content() {
            return Err("it exists; `--force` writes over it").file("can't write", path.display());
        }
        Ok(Target {
            path,
            overwrite,
            destination,
        })
    }

    /// Returns the destination with a number before the extension: `out.mg` becomes `out-00001.mg`.
    ///
    /// # Errors
    /// [`EngineError::File`] if the destination isn't a file, or the numbered file can't be
    /// written.
    pub(super) fn numbered(&self, number: usize) -> Result<Target> {
        if self.destination.is_stream() {
            let cause = "it would be several files, and this is none; name one";
            return Err(cause).file("can't write", self.path.display());
        }
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let ending = self
            .path
            .extension()
            .map(|ending| format!(".{}", ending.to_string_lossy()))
            .unwrap_or_default();
        Target::at(
            self.path
                .with_file_name(format!("{stem}-{number:05}{ending}")),
            self.overwrite,
        )
    }

    /// Creates a temporary file for the destination.
    pub(super) fn scratch(&self) -> Result<NamedTempFile> {
        let scratch = self.destination.scratch();
        scratch.file(
            "can't write in",
            self.destination.scratch_folder().display(),
        )
    }

    /// Creates a private temporary file for spooled data.
    pub(super) fn spool(&self) -> Result<NamedTempFile> {
        let folder = self.destination.scratch_folder();
        let made = removable(|| {
            tempfile::Builder::new()
                .prefix(".gristmill-export-")
                .tempfile_in(&folder)
        });
        made.file("can't write in", folder.display())
    }

    /// Begins to write the destination.
    pub(crate) fn begin(&self) -> Result<Output> {
        let file = self.fault(self.destination.clone().begin())?;
        Ok(Output {
            sink: BufWriter::with_capacity(BUFFER, CountingWriter { file, bytes: 0 }),
            target: self.clone(),
        })
    }

    /// Moves `file` to the destination.
    pub(super) fn put(&self, file: NamedTempFile) -> Result<()> {
        self.fault(self.destination.put(file, self.overwrite))
    }

    /// Adds the destination to an error.
    ///
    /// # Errors
    /// [`EngineError::OutputClosed`] if the destination is a stream that its reader closed;
    /// otherwise [`EngineError::File`].
    pub(crate) fn fault<T>(
        &self,
        result: Result<T, impl Into<Box<dyn Error + Send + Sync>>>,
    ) -> Result<T> {
        result.map_err(|cause| match cause.into() {
            cause if is_closed(&*cause) => EngineError::OutputClosed,
            cause => EngineError::File {
                what: "can't write",
                path: self.path.display().to_string(),
                cause,
            },
        })
    }

    /// Returns the report of the file.
    pub(super) fn written(&self, grains: u64, bytes: u64, states: u64) -> ExportedFile {
        ExportedFile {
            path: self.path.display().to_string(),
            grains,
            bytes,
            states,
        }
    }
}

/// Returns whether the cause of an error is a stream that its reader closed.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| {
        (*error).source()
    })
    .filter_map(|error| error.downcast_ref::<io::Error>())
    .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Content that is being written.
pub(crate) struct Output {
    sink: BufWriter<CountingWriter>,
    target: Target,
}

struct CountingWriter {
    file: PendingFile,
    bytes: u64,
}

impl Output {
    /// Returns the target.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Completes the content and moves it to the destination.
    pub(crate) fn finish(self, grains: u64) -> Result<ExportedFile> {
        let target = self.target;
        let written = target.fault(
            self.sink
                .into_inner()
                .map_err(io::IntoInnerError::into_error),
        )?;
        let bytes = written.bytes;
        target.fault(written.file.finish(target.overwrite))?;
        Ok(target.written(grains, bytes, 0))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

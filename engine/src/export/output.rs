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

/// The path that stands for standard output.
const STDOUT: &str = "-";

/// The destination of an export.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    path: PathBuf,
    overwrite: bool,
    /// `None` for standard output.
    destination: Option<Destination>,
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
        let destination = match path.as_os_str() == STDOUT {
            true => None,
            false => Some(Destination::of(&path).file("can't write", path.display())?),
        };
        if !overwrite && destination.as_ref().is_some_and(Destination::holds_content) {
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
        if self.destination.as_ref().is_none_or(Destination::is_stream) {
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
        match &self.destination {
            Some(destination) => destination
                .scratch()
                .file("can't write in", destination.folder().display()),
            None => {
                removable(NamedTempFile::new).file("can't write in", std::env::temp_dir().display())
            }
        }
    }

    /// Creates a private temporary file for spooled data, in the destination's folder, which has
    /// room for it.
    pub(super) fn spool(&self) -> Result<NamedTempFile> {
        let folder = match &self.destination {
            Some(destination) if !destination.is_stream() => destination.folder().to_owned(),
            _ => std::env::temp_dir(),
        };
        let made = removable(|| {
            tempfile::Builder::new()
                .prefix(".gristmill-export-")
                .tempfile_in(&folder)
        });
        made.file("can't write in", folder.display())
    }

    /// Begins to write the destination.
    pub(crate) fn begin(&self) -> Result<Output> {
        let place = match &self.destination {
            Some(destination) => OutputSink::File(self.fault(destination.clone().begin())?),
            None => OutputSink::Stdout(io::stdout()),
        };
        Ok(Output {
            sink: BufWriter::with_capacity(BUFFER, CountingWriter { place, bytes: 0 }),
            target: self.clone(),
        })
    }

    /// Moves `file` to the destination.
    pub(super) fn put(&self, file: NamedTempFile) -> Result<()> {
        self.fault(match &self.destination {
            Some(destination) => destination.put(file, self.overwrite),
            None => file
                .reopen()
                .and_then(|mut file| io::copy(&mut file, &mut io::stdout()))
                .map(|_| ()),
        })
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
    place: OutputSink,
    bytes: u64,
}

enum OutputSink {
    File(PendingFile),
    Stdout(io::Stdout),
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
        match written.place {
            OutputSink::File(file) => target.fault(file.finish(target.overwrite))?,
            OutputSink::Stdout(mut out) => target.fault(out.flush())?,
        }
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
        let written = match &mut self.place {
            OutputSink::File(file) => file.write(bytes)?,
            OutputSink::Stdout(out) => out.write(bytes)?,
        };
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.place {
            OutputSink::File(file) => file.flush(),
            OutputSink::Stdout(out) => out.flush(),
        }
    }
}

//! Where an export goes: files that appear all at once, streams, standard output.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use tempfile::NamedTempFile;

use super::{ExportOptions, ExportedFile};
use crate::destination::{Destination, PendingFile};
use crate::error::{Context, EngineError, Result};

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 20;

/// The name that represents standard output.
const STDOUT: &str = "-";

/// Where files of an export go.
#[derive(Debug, Clone)]
pub(super) struct Target {
    path: PathBuf,
    overwrite: bool,
    /// None for standard output.
    destination: Option<Destination>,
}

impl Target {
    /// Returns the target of `options`.
    ///
    /// # Errors
    /// [`EngineError::File`] if it exists and isn't to be written over.
    pub(super) fn new(options: &ExportOptions) -> Result<Target> {
        Target::at(options.out.clone(), options.overwrite)
    }

    fn at(path: PathBuf, overwrite: bool) -> Result<Target> {
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

    /// Returns the same place with a number before the name's ending: `out.mg` becomes
    /// `out-00001.mg`.
    ///
    /// # Errors
    /// [`EngineError::File`] if the target is no file, or that place can't be written.
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

    /// Returns a new file that isn't at its place yet.
    pub(super) fn scratch(&self) -> Result<NamedTempFile> {
        match &self.destination {
            Some(destination) => destination
                .scratch()
                .file("can't write in", destination.folder().display()),
            None => NamedTempFile::new().file("can't write in", std::env::temp_dir().display()),
        }
    }

    /// Returns a file for what waits to be written, beside the target where there is room for that
    /// too; nobody else reads it.
    pub(super) fn spool(&self) -> Result<NamedTempFile> {
        let folder = match &self.destination {
            Some(destination) if !destination.is_stream() => destination.folder().to_owned(),
            _ => std::env::temp_dir(),
        };
        let made = tempfile::Builder::new()
            .prefix(".gristmill-export-")
            .tempfile_in(&folder);
        made.file("can't write in", folder.display())
    }

    /// Begins the target's content.
    pub(super) fn begin(&self) -> Result<Output> {
        let place = match &self.destination {
            Some(destination) => OutputSink::File(self.fault(destination.clone().begin())?),
            None => OutputSink::Stdout(io::stdout()),
        };
        Ok(Output {
            sink: BufWriter::with_capacity(BUFFER, CountingWriter { place, bytes: 0 }),
            target: self.clone(),
        })
    }

    /// Makes `file` the target.
    pub(super) fn put(&self, file: NamedTempFile) -> Result<()> {
        self.fault(match &self.destination {
            Some(destination) => destination.put(file, self.overwrite),
            None => file
                .reopen()
                .and_then(|mut file| io::copy(&mut file, &mut io::stdout()))
                .map(|_| ()),
        })
    }

    /// Says of an error that it was about the target.
    ///
    /// # Errors
    /// [`EngineError::OutputClosed`] if the target is a stream whose reader went away; else
    /// [`EngineError::File`].
    pub(super) fn fault<T>(
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

    /// Returns what was written there.
    pub(super) fn written(&self, grains: u64, bytes: u64, states: u64) -> ExportedFile {
        ExportedFile {
            path: self.path.display().to_string(),
            grains,
            bytes,
            states,
        }
    }
}

/// Returns whether a stream was closed by its reader, whichever library tells so.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| {
        (*error).source()
    })
    .filter_map(|error| error.downcast_ref::<io::Error>())
    .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Content on its way to the target.
pub(super) struct Output {
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
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Puts the content at its place.
    pub(super) fn finish(self, grains: u64) -> Result<ExportedFile> {
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

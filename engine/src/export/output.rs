//! Files that appear all at once: written beside their place, then renamed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{ExportOptions, ExportedFile};
use crate::error::{Context, EngineError, Result};

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 20;

/// The name that stands for standard output.
const STDOUT: &str = "-";

/// Where files of an export go.
#[derive(Debug, Clone)]
pub(super) struct Target {
    path: PathBuf,
    overwrite: bool,
}

impl Target {
    /// The target of `options`.
    ///
    /// # Errors
    /// [`EngineError::File`] if it exists and isn't to be written over.
    pub(super) fn new(options: &ExportOptions) -> Result<Target> {
        let target = Target { path: options.out.clone(), overwrite: options.overwrite };
        target.refuse_existing(&target.path)?;
        Ok(target)
    }

    /// The same place with a number before the name's ending: `out.mg` becomes `out-00001.mg`.
    pub(super) fn numbered(&self, number: usize) -> Target {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let ending = self.path.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
        let path = self.path.with_file_name(format!("{stem}-{number:05}{ending}"));
        Target { path, overwrite: self.overwrite }
    }

    fn refuse_existing(&self, path: &Path) -> Result<()> {
        if self.is_stdout() || self.overwrite || !path.exists() {
            return Ok(());
        }
        let cause = "it exists; `--force` writes over it".into();
        Err(EngineError::File { what: "can't write", path: path.display().to_string(), cause })
    }

    /// True if the target is standard output.
    pub(super) fn is_stdout(&self) -> bool {
        self.path.as_os_str() == STDOUT
    }

    /// A new file that isn't at its place yet, in the folder of the target.
    pub(super) fn scratch(&self) -> Result<NamedTempFile> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let made = tempfile::Builder::new().prefix(".gristmill-export-").tempfile_in(folder);
        made.file("can't write in", folder.display())
    }

    /// Begins the target's content.
    pub(super) fn begin(&self) -> Result<Output> {
        let place = if self.is_stdout() { Place::Stdout(io::stdout()) } else { Place::File(self.scratch()?) };
        Ok(Output { sink: BufWriter::with_capacity(BUFFER, Counted { place, bytes: 0 }), target: self.clone() })
    }

    /// Makes `file` the target.
    pub(super) fn put(&self, file: NamedTempFile) -> Result<()> {
        make_ordinary(file.as_file()).file("can't write", self.path.display())?;
        let put = match self.overwrite {
            true => file.persist(&self.path),
            false => file.persist_noclobber(&self.path),
        };
        put.map(|_| ()).map_err(|error| error.error).file("can't write", self.path.display())
    }

    /// Says of an error that it was about the target.
    pub(super) fn fault<T>(&self, result: Result<T, impl Into<Box<dyn std::error::Error + Send + Sync>>>) -> Result<T> {
        result.file("can't write", self.path.display())
    }

    /// What was written there.
    pub(super) fn written(&self, grains: u64, bytes: u64, states: u64) -> ExportedFile {
        ExportedFile { path: self.path.display().to_string(), grains, bytes, states }
    }
}

/// Gives a temporary file, which is its owner's alone, the permissions of a file that people share.
fn make_ordinary(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    file.sync_data()
}

/// Content on its way to the target.
pub(super) struct Output {
    sink: BufWriter<Counted>,
    target: Target,
}

struct Counted {
    place: Place,
    bytes: u64,
}

enum Place {
    File(NamedTempFile),
    Stdout(io::Stdout),
}

impl Output {
    /// The target.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Puts the content at its place.
    pub(super) fn finish(self, grains: u64) -> Result<ExportedFile> {
        let target = self.target;
        let written = target.fault(self.sink.into_inner().map_err(io::IntoInnerError::into_error))?;
        let bytes = written.bytes;
        match written.place {
            Place::File(file) => target.put(file)?,
            Place::Stdout(mut out) => target.fault(out.flush())?,
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

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.place {
            Place::File(file) => file.write(bytes)?,
            Place::Stdout(out) => out.write(bytes)?,
        };
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.place {
            Place::File(file) => file.flush(),
            Place::Stdout(out) => out.flush(),
        }
    }
}

//! Where a result is written, so that a file is there whole or as it was: content goes beside its
//! place and is renamed.
//!
//! Links are followed: what they lead to is written, and they stay. What is no file (a pipe, a
//! terminal, a device) can't appear all at once: it is opened and written. New files have the
//! permissions that the user's mask leaves them, others keep theirs.
//!
//! What doesn't live here: the files of a lake, and what is written.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// Maximal number of links that are followed.
const LINKS: usize = 40;

/// How the names of files begin that aren't at their place yet.
const PREFIX: &str = ".gristmill-";

/// A place that was examined and not written yet.
#[derive(Debug, Clone)]
pub struct Destination {
    path: PathBuf,
    found: TargetKind,
}

/// What is there.
#[derive(Debug, Clone)]
enum TargetKind {
    Nothing,
    File(Permissions),
    /// A pipe, a terminal: what is written there is gone.
    Stream,
    /// A device that keeps what is written.
    Disk,
}

impl Destination {
    /// Returns the place that `path` names, behind all links.
    ///
    /// # Errors
    /// If `path` is a folder, or what is there can't be examined.
    pub fn of(path: &Path) -> io::Result<Destination> {
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Destination {
                    path: end_of_links(path)?,
                    found: TargetKind::Nothing,
                });
            }
            Err(error) => return Err(error),
        };
        if found.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A file that has lost its name, and only a link of the system leads to, can't be replaced
        // by another.
        Ok(
            match fs::canonicalize(path).ok().filter(|_| found.is_file()) {
                Some(path) => Destination {
                    path,
                    found: TargetKind::File(found.permissions()),
                },
                None if is_disk(&found) => Destination {
                    path: path.to_owned(),
                    found: TargetKind::Disk,
                },
                None => Destination {
                    path: path.to_owned(),
                    found: TargetKind::Stream,
                },
            },
        )
    }

    /// Returns whether there is something that would be gone if it were written over.
    pub fn holds_content(&self) -> bool {
        matches!(self.found, TargetKind::File(_) | TargetKind::Disk)
    }

    /// Returns whether it is no file, nor will be one: all content goes to this one place, as it
    /// comes.
    pub fn is_stream(&self) -> bool {
        matches!(self.found, TargetKind::Stream | TargetKind::Disk)
    }

    /// Returns the folder of the place.
    pub fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// Returns an empty file that [`put`](Destination::put) makes what is here.
    ///
    /// # Errors
    /// If none can be made in the [`folder`](Destination::folder), or in that for temporary files
    /// if this is a stream.
    pub fn scratch(&self) -> io::Result<NamedTempFile> {
        let mut builder = Builder::new();
        builder.prefix(PREFIX);
        if self.is_stream() {
            return builder.tempfile();
        }
        // Whoever may not read the finished file may not read it while it is written.
        #[cfg(unix)]
        builder.permissions(match &self.found {
            TargetKind::File(own) => owned(own),
            _ => std::os::unix::fs::PermissionsExt::from_mode(0o666),
        });
        builder.tempfile_in(self.folder())
    }

    /// Makes `file`, a [`scratch`](Destination::scratch), what is here.
    ///
    /// # Errors
    /// If it can't be; [`io::ErrorKind::AlreadyExists`] if there is a file by now that isn't to be
    /// overwritten.
    pub fn put(&self, file: NamedTempFile, overwrite: bool) -> io::Result<()> {
        if self.is_stream() {
            return io::copy(&mut file.reopen()?, &mut self.open()?).map(|_| ());
        }
        if let TargetKind::File(permissions) = &self.found {
            file.as_file().set_permissions(permissions.clone())?;
        }
        file.as_file().sync_data()?;
        let put = if overwrite {
            file.persist(&self.path)
        } else {
            file.persist_noclobber(&self.path)
        };
        put.map(|_| ()).map_err(|error| error.error)
    }

    /// Begins to write.
    ///
    /// # Errors
    /// Those of [`scratch`](Destination::scratch); if a stream can't be opened.
    pub fn begin(self) -> io::Result<PendingFile> {
        let content = if self.is_stream() {
            PendingContent::Stream(self.open()?)
        } else {
            PendingContent::Scratch(self.scratch()?)
        };
        Ok(PendingFile {
            destination: self,
            content,
        })
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(&self.path)
    }
}

/// PendingContent on its way. A file that isn't finished was never there.
#[derive(Debug)]
pub struct PendingFile {
    destination: Destination,
    content: PendingContent,
}

#[derive(Debug)]
enum PendingContent {
    Scratch(NamedTempFile),
    Stream(File),
}

impl PendingFile {
    /// Puts the content at its place.
    ///
    /// # Errors
    /// Those of [`Destination::put`].
    pub fn finish(self, overwrite: bool) -> io::Result<()> {
        match self.content {
            PendingContent::Scratch(file) => self.destination.put(file, overwrite),
            PendingContent::Stream(mut file) => file.flush(),
        }
    }

    fn file(&mut self) -> &mut File {
        match &mut self.content {
            PendingContent::Scratch(file) => file.as_file_mut(),
            PendingContent::Stream(file) => file,
        }
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Returns the folder in which the file at `path` lies.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Returns where a link leads whose end isn't there yet; `path` itself if it is none.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(end) = fs::read_link(&path) else {
            return Ok(path);
        };
        path = folder_of(&path).join(end);
    }
    Err(io::Error::other("too many links lead on from there"))
}

#[cfg(unix)]
fn is_disk(found: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_block_device(&found.file_type())
}

#[cfg(not(unix))]
fn is_disk(_: &Metadata) -> bool {
    false
}

/// Returns the permissions of a file, without those to run it as another user, and such that it
/// can be written.
#[cfg(unix)]
fn owned(permissions: &Permissions) -> Permissions {
    use std::os::unix::fs::PermissionsExt;
    Permissions::from_mode(permissions.mode() & 0o777 | 0o600)
}

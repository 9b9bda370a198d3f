//! Atomic output files: content is written to a temporary file next to the destination, which
//! replaces the destination when it is complete.
//!
//! Symbolic links are followed and stay; their target is written. A destination that isn't a file
//! (standard output as `-`, a pipe, a terminal, a device) is opened and written directly. New files
//! get the permissions of the user's umask, existing ones keep theirs.
//!
//! A process that is ended doesn't drop its temporary files: [`remove_unfinished`] removes them.
//!
//! The files of a lake are written by [`crate::lake`].

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gristmill_connectors::source::lake_of;
use tempfile::{Builder, NamedTempFile};

/// Maximal number of links that are followed.
const LINKS: usize = 40;

/// The path that stands for standard output.
pub const STDOUT: &str = "-";

/// Prefix of the names of temporary files.
const PREFIX: &str = ".gristmill-";

/// The temporary files that this process has created and that may still exist.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// What is added to the name of a temporary file for those that belong to it: a database has two
/// more.
const ENDINGS: [&str; 3] = ["", "-wal", "-shm"];

/// Removes the temporary files of this process, then calls `end`, which ends the process. Threads
/// that would create another one wait meanwhile.
pub fn remove_unfinished(end: impl FnOnce()) {
    let files = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    for path in files.iter() {
        for ending in ENDINGS {
            let mut name = path.clone().into_os_string();
            name.push(ending);
            // It may be complete and renamed. Otherwise nothing better can be done.
            let _gone = fs::remove_file(name);
        }
    }
    end();
}

/// Creates a temporary file by `create` that [`remove_unfinished`] removes.
pub(crate) fn removable(
    create: impl FnOnce() -> io::Result<NamedTempFile>,
) -> io::Result<NamedTempFile> {
    let mut files = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    files.retain(|path| path.exists());
    let file = create().map_err(without_temporary_name)?;
    files.push(file.path().to_owned());
    Ok(file)
}

/// Returns the error of creating a temporary file without its name, which the user hasn't chosen.
pub(crate) fn without_temporary_name(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path \"") {
        Some((cause, _)) => io::Error::new(error.kind(), cause),
        None => error,
    }
}

/// A destination that was inspected but not written yet.
#[derive(Debug, Clone)]
pub struct Destination {
    path: PathBuf,
    found: TargetKind,
}

/// What exists at the destination.
#[derive(Debug, Clone)]
enum TargetKind {
    StandardOutput,
    Nothing,
    File(Permissions),
    /// A pipe or a terminal.
    Stream,
    /// A block device.
    Disk,
}

impl Destination {
    /// Inspects the destination `path`, following all links; `-` is standard output.
    ///
    /// # Errors
    /// If `path` is a folder, is in a folder that doesn't exist, is among the files of a lake, or
    /// can't be inspected.
    pub fn of(path: &Path) -> io::Result<Destination> {
        if path.as_os_str() == STDOUT {
            return Ok(Destination {
                path: path.to_owned(),
                found: TargetKind::StandardOutput,
            });
        }
        if !path.is_dir() {
            check_outside_of_lakes(&std::path::absolute(path)?)?;
            check_outside_of_lakes(&real_path(path)?)?;
        }
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Destination::missing(end_of_links(path)?);
            }
            Err(error) => return Err(error),
        };
        if found.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Destination::existing(path, &found))
    }

    /// Returns the destination `path`, which doesn't exist.
    fn missing(path: PathBuf) -> io::Result<Destination> {
        let kind = io::ErrorKind::NotFound;
        match fs::metadata(folder_of(&path)) {
            Err(error) if error.kind() == kind => {
                Err(io::Error::new(kind, "its folder doesn't exist"))
            }
            _ => Ok(Destination {
                path,
                found: TargetKind::Nothing,
            }),
        }
    }

    /// Returns the destination `path`, which is no folder.
    fn existing(path: &Path, found: &Metadata) -> Destination {
        // A file that was unlinked and is only reachable by a system link (`/proc/self/fd`) can't
        // be replaced by another.
        match fs::canonicalize(path).ok().filter(|_| found.is_file()) {
            Some(path) => Destination {
                path,
                found: TargetKind::File(found.permissions()),
            },
            None if is_disk(found) => Destination {
                path: path.to_owned(),
                found: TargetKind::Disk,
            },
            None => Destination {
                path: path.to_owned(),
                found: TargetKind::Stream,
            },
        }
    }

    /// Returns whether there is content that overwriting would destroy.
    pub(crate) fn holds_content(&self) -> bool {
        matches!(self.found, TargetKind::File(_) | TargetKind::Disk)
    }

    /// Returns whether it isn't a file, so that content is written directly.
    pub fn is_stream(&self) -> bool {
        !matches!(self.found, TargetKind::Nothing | TargetKind::File(_))
    }

    /// Returns the folder for temporary files: that of the destination, which has room for it, or
    /// for a stream that of the system.
    pub(crate) fn scratch_folder(&self) -> PathBuf {
        match self.is_stream() {
            true => std::env::temp_dir(),
            false => folder_of(&self.path).to_owned(),
        }
    }

    /// Creates a temporary file that [`put`](Destination::put) moves to the destination.
    ///
    /// # Errors
    /// If it can't be created in the folder of the destination, or for a stream in that of the
    /// system's temporary files.
    pub fn scratch(&self) -> io::Result<NamedTempFile> {
        let mut builder = Builder::new();
        builder.prefix(PREFIX);
        // Users who may not read the finished file may not read the temporary one either.
        #[cfg(unix)]
        match &self.found {
            TargetKind::File(own) => {
                builder.permissions(owned(own));
            }
            TargetKind::Nothing => {
                builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            }
            // Of the user alone.
            _ => {}
        }
        removable(|| builder.tempfile_in(self.scratch_folder()))
    }

    /// Moves `file`, a [`scratch`](Destination::scratch) file, to the destination.
    ///
    /// # Errors
    /// If it can't be moved; [`io::ErrorKind::AlreadyExists`] if a file was created meanwhile that
    /// may not be overwritten.
    pub fn put(&self, file: NamedTempFile, overwrite: bool) -> io::Result<()> {
        if self.is_stream() {
            let mut stream = self.open()?;
            io::copy(&mut file.reopen()?, &mut stream)?;
            return stream.flush();
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

    fn open(&self) -> io::Result<DirectOutput> {
        Ok(match self.found {
            TargetKind::StandardOutput => DirectOutput::StandardOutput(io::stdout()),
            _ => DirectOutput::File(OpenOptions::new().write(true).open(&self.path)?),
        })
    }
}

/// Content that is being written. If it isn't finished, the destination is unchanged.
#[derive(Debug)]
pub struct PendingFile {
    destination: Destination,
    content: PendingContent,
}

#[derive(Debug)]
enum PendingContent {
    Scratch(NamedTempFile),
    Stream(DirectOutput),
}

/// A destination that is written directly.
#[derive(Debug)]
enum DirectOutput {
    StandardOutput(Stdout),
    File(File),
}

impl PendingFile {
    /// Completes the content and moves it to the destination.
    ///
    /// # Errors
    /// Those of [`Destination::put`].
    pub fn finish(self, overwrite: bool) -> io::Result<()> {
        match self.content {
            PendingContent::Scratch(file) => self.destination.put(file, overwrite),
            PendingContent::Stream(mut stream) => stream.flush(),
        }
    }

    /// Returns whether content is written directly, so that it can't be withdrawn.
    pub fn is_stream(&self) -> bool {
        matches!(self.content, PendingContent::Stream(_))
    }
}

impl DirectOutput {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            DirectOutput::StandardOutput(out) => out,
            DirectOutput::File(file) => file,
        }
    }
}

impl Write for DirectOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.content {
            PendingContent::Scratch(file) => file.write(bytes),
            PendingContent::Stream(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.content {
            PendingContent::Scratch(file) => file.flush(),
            PendingContent::Stream(stream) => stream.flush(),
        }
    }
}

/// Returns the folder of the file at `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Checks that `path` isn't among the files of a lake.
fn check_outside_of_lakes(path: &Path) -> io::Result<()> {
    let within = |lake: &Path| {
        let lake = lake.display();
        io::Error::other(format!("it is among the files of the lake `{lake}`"))
    };
    lake_of(path).map_or(Ok(()), |lake| Err(within(lake)))
}

/// Returns the path of the file to which `path` leads, without links, whether it exists or not. If
/// its folder doesn't exist, the path is absolute and may have links.
///
/// # Errors
/// If links lead in a circle.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let end = end_of_links(path)?;
    match (fs::canonicalize(folder_of(&end)), end.file_name()) {
        (Ok(folder), Some(name)) => Ok(folder.join(name)),
        _ => std::path::absolute(end),
    }
}

/// Follows a dangling link to its end; returns `path` itself if it isn't a link.
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

/// Returns the permissions of a file without set-uid and set-gid bits, and with write access for
/// the owner.
#[cfg(unix)]
fn owned(permissions: &Permissions) -> Permissions {
    use std::os::unix::fs::PermissionsExt;
    Permissions::from_mode(permissions.mode() & 0o777 | 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_among_the_files_of_a_lake() {
        let folder = tempfile::tempdir().unwrap();
        let lake = folder.path().join("lake");
        for table in ["grains", "state", "erasures"] {
            fs::create_dir_all(lake.join(table).join("_delta_log")).unwrap();
        }
        let refused = Destination::of(&lake.join("erasures/a.cose")).unwrap_err();
        assert!(
            refused.to_string().contains("files of the lake"),
            "{refused}"
        );
        assert!(Destination::of(&lake.join("page.html")).is_ok());
        assert!(Destination::of(&folder.path().join("a.cose")).is_ok());
        #[cfg(unix)]
        for (link, target) in [
            ("to_file", "lake/erasures/a"),
            ("to_folder", "lake/erasures"),
        ] {
            std::os::unix::fs::symlink(target, folder.path().join(link)).unwrap();
            let path = match link {
                "to_file" => folder.path().join(link),
                _ => folder.path().join(link).join("a.cose"),
            };
            let refused = Destination::of(&path).unwrap_err().to_string();
            assert!(refused.contains("files of the lake"), "{link}: {refused}");
        }
    }
}

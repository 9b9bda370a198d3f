//! Discovery: resolves paths, folders, patterns and URIs to a list of sources.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf, is_separator};

use glob::{MatchOptions, Pattern};
use walkdir::WalkDir;

use super::lakes::{MatchedLakes, is_lake, lake_of};
use super::location::{MATCHING, Source, SourceLocation, is_pattern};
#[cfg(feature = "object-store")]
use super::objects::resolve_objects;
use crate::ConnectorError;
use crate::storage::{has_scheme, without_password};

/// Resolves names to sources.
///
/// A name is a file, a folder (with everything in it except names that begin with a dot, links to
/// folders, and lakes), a pattern, the URI of an object, a prefix or a pattern of objects, or `-`
/// for standard input. The result is in the order of the names, and for one name in the order of
/// the paths; a source that several names denote occurs once. A part of a pattern matches names
/// that begin with a dot only if it begins with one, and no name of a lake or in one. A pattern
/// doesn't match names that aren't Unicode, which only their folder contains. A user and a password
/// in a URI have no effect and aren't part of the source's name.
///
/// # Errors
/// [`ConnectorError::NotFound`] for a name that denotes nothing, [`ConnectorError::OfLake`] for one
/// that denotes a lake or files of one, and errors of the file system or the store.
pub async fn discover(names: &[String]) -> Result<Vec<Source>, ConnectorError> {
    let mut sources = discover_all(names).await?;
    sources.retain(|source| !matches!(source.location, SourceLocation::NotRead { .. }));
    Ok(sources)
}

/// Resolves names as [`discover`] does, and returns the links to folders, pipes, sockets and
/// devices in the folders, too, for callers that account for every entry
/// ([`SourceLocation::NotRead`]).
///
/// # Errors
/// As [`discover`].
pub async fn discover_all(names: &[String]) -> Result<Vec<Source>, ConnectorError> {
    let mut sources: Vec<Source> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for name in names {
        let name = &*without_password(name);
        let found = match name {
            "-" => vec![stdin()],
            uri if has_scheme(uri) && !uri.starts_with("file://") => resolve_objects(uri).await?,
            path => files(local(path))?,
        };
        // An empty folder isn't an error.
        if found.is_empty() && !Path::new(local(name)).is_dir() {
            return Err(ConnectorError::NotFound(name.to_owned()));
        }
        sources.extend(
            found
                .into_iter()
                .filter(|source| seen.insert(identity(source))),
        );
    }
    Ok(sources)
}

/// Returns what identifies a source: of a local file its name in bytes, which may not be Unicode.
fn identity(source: &Source) -> PathBuf {
    match &source.location {
        SourceLocation::File(path) | SourceLocation::Stream(path) => path.clone(),
        _ => source.uri.clone().into(),
    }
}

fn stdin() -> Source {
    Source {
        location: SourceLocation::Stdin,
        uri: "-".to_owned(),
        length: None,
        time: None,
    }
}

/// Returns the local path of a path or `file://` URI.
fn local(name: &str) -> &str {
    name.strip_prefix("file://").unwrap_or(name)
}

/// Resolves a local path: a folder, a file, or a pattern of these.
fn files(path: &str) -> Result<Vec<Source>, ConnectorError> {
    let named = Path::new(path);
    if named.is_dir() {
        return folder(named);
    }
    // The name of a file may look like a pattern.
    if named.exists() {
        return Ok(vec![file(named)?]);
    }
    if is_pattern(path) {
        return matching_files(path);
    }
    Ok(Vec::new())
}

fn matching_files(path: &str) -> Result<Vec<Source>, ConnectorError> {
    let fault = |reason: String| ConnectorError::Pattern {
        pattern: path.to_owned(),
        reason,
    };
    // If the crate itself leaves hidden names out, it panics at a name that isn't Unicode.
    let options = MatchOptions {
        require_literal_leading_dot: false,
        ..MATCHING
    };
    let (mut found, mut lakes) = (Vec::new(), MatchedLakes::of(path));
    let walked = without_special_entries(path);
    for matched in glob::glob_with(&walked, options).map_err(|error| fault(error.to_string()))? {
        let (reached, is_whole) = match &matched {
            Ok(reached) => (reached.as_path(), true),
            Err(error) => (error.path(), false),
        };
        if is_hidden_from(path, reached, is_whole) || lakes.contain(reached) {
            continue;
        }
        let matched = matched.map_err(|error| fault(error.to_string()))?;
        if let Some(lake) = lakes.named_around(&matched) {
            return Err(of_lake(&matched, lake));
        }
        if matched.is_dir() {
            found.extend(folder(&matched)?);
        } else {
            found.push(file(&matched)?);
        }
    }
    Ok(found)
}

/// Returns the pattern with brackets around a dot that begins a part with special characters. The
/// crate matches such a part with `.` and `..`, too, and would walk the parent.
fn without_special_entries(pattern: &str) -> String {
    let parts = pattern.split_inclusive(is_separator);
    let bracketed = parts.map(|part| match part.strip_prefix('.') {
        Some(rest) if is_pattern(part) => format!("[.]{rest}"),
        _ => part.to_owned(),
    });
    bracketed.collect()
}

/// Returns true if a name in `path`, which `pattern` matches, begins with a dot and the part of the
/// pattern at its place doesn't: `**` matches no such name. The pattern may continue after the path
/// of a folder that can't be listed (`is_whole` is false).
fn is_hidden_from(pattern: &str, path: &Path, is_whole: bool) -> bool {
    let names: Vec<_> = names(path).collect();
    if !names.iter().any(|name| is_hidden(name)) {
        return false;
    }
    // How many of the names the parts so far may match.
    let mut reached = vec![false; names.len() + 1];
    reached[0] = true;
    let mut is_begin = false;
    for part in self::names(Path::new(pattern)) {
        advance(&mut reached, &part.to_string_lossy(), &names);
        is_begin |= reached[names.len()];
    }
    let is_shown = match is_whole {
        true => reached[names.len()],
        false => is_begin,
    };
    !is_shown
}

/// Returns the names in a path, of folders above, too. A `.` is none.
pub(super) fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    let components = path
        .components()
        .filter(|component| matches!(component, Component::Normal(_) | Component::ParentDir));
    components.map(Component::as_os_str)
}

/// Advances `reached`, the numbers of `names` that the parts before `part` match, over `part`.
fn advance(reached: &mut [bool], part: &str, names: &[&OsStr]) {
    if part == "**" {
        for (at, name) in names.iter().enumerate() {
            reached[at + 1] |= reached[at] && !is_hidden(name);
        }
        return;
    }
    let pattern = Pattern::new(part).ok();
    let matches = |name: &OsStr| {
        let is_written = part.starts_with('.') || !is_hidden(name);
        let name = name.to_string_lossy();
        is_written
            && pattern
                .as_ref()
                .is_some_and(|pattern| pattern.matches(&name))
    };
    for (at, &name) in names.iter().enumerate().rev() {
        reached[at + 1] = reached[at] && matches(name);
    }
    reached[0] = false;
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn of_lake(path: &Path, lake: &Path) -> ConnectorError {
    ConnectorError::OfLake {
        name: path.display().to_string(),
        lake: match lake.as_os_str().is_empty() {
            true => ".".to_owned(),
            false => lake.display().to_string(),
        },
    }
}

/// Lists the files of a folder and its subfolders, except hidden ones and lakes, and what isn't
/// read there.
fn folder(path: &Path) -> Result<Vec<Source>, ConnectorError> {
    if let Some(lake) = lake_of(path) {
        return Err(of_lake(path, lake));
    }
    let is_left_out = |entry: &walkdir::DirEntry| {
        let is_folder = entry.file_type().is_dir();
        is_hidden(entry.file_name()) || is_folder && is_lake(entry.path())
    };
    let walk = WalkDir::new(path).sort_by_file_name().into_iter();
    let mut found = Vec::new();
    for entry in walk.filter_entry(|entry| entry.depth() == 0 || !is_left_out(entry)) {
        match entry {
            Ok(entry) if is_file_or_link_to_one(&entry) => found.push(file(entry.path())?),
            Ok(entry) if entry.depth() == 0 || entry.file_type().is_dir() => {}
            Ok(entry) => found.push(not_read(entry.into_path())),
            // The rest of the folder is read; reading this source reports the error.
            Err(error) if error.depth() > 0 => {
                let unlisted = error.path().unwrap_or(path).to_path_buf();
                found.push(source_of(unlisted, SourceLocation::File));
            }
            Err(error) => {
                return Err(ConnectorError::Io {
                    what: "can't list",
                    path: path.to_path_buf(),
                    cause: error.into(),
                });
            }
        }
    }
    Ok(found)
}

/// Returns true for a file or a link to one. A broken link counts as a file, so that reading it
/// reports an error. Links to folders aren't followed: they may form a cycle.
fn is_file_or_link_to_one(entry: &walkdir::DirEntry) -> bool {
    let leads_to_file = || {
        entry
            .path()
            .metadata()
            .map_or(true, |target| target.is_file())
    };
    entry.file_type().is_file() || entry.path_is_symlink() && leads_to_file()
}

/// Returns the source of a link to a folder, a pipe, a socket or a device within a folder. Reading
/// one of the latter could wait forever.
fn not_read(path: PathBuf) -> Source {
    let reason = match path.is_dir() {
        true => "it is a link to a folder, and links may form a cycle; name the folder itself",
        false => "it is no file but a pipe, a socket or a device; name it itself to read it",
    };
    let location = SourceLocation::NotRead {
        path: path.clone(),
        reason,
    };
    Source {
        location,
        ..source_of(path, SourceLocation::File)
    }
}

/// Returns the source of a single file, pipe or device.
fn file(path: &Path) -> Result<Source, ConnectorError> {
    let inspected = path.metadata().or_else(|_| path.symlink_metadata());
    let metadata = inspected.map_err(ConnectorError::io("can't inspect", path))?;
    // Not all file systems record the creation.
    let times = [metadata.created(), metadata.modified()];
    let time = times.into_iter().flatten().min();
    let time = time.map(chrono::DateTime::<chrono::Utc>::from);
    let is_stream = !metadata.is_file() && !metadata.is_symlink();
    let location = match is_stream {
        true => SourceLocation::Stream,
        false => SourceLocation::File,
    };
    Ok(Source {
        length: metadata.is_file().then_some(metadata.len()),
        time: time.map(|instant| instant.timestamp_millis()),
        ..source_of(path.to_path_buf(), location)
    })
}

/// Returns the source at a local path, of which nothing else is known. Bytes of its name that
/// aren't Unicode are escaped, so that different names stay different.
fn source_of(path: PathBuf, location: fn(PathBuf) -> SourceLocation) -> Source {
    let mut uri = String::new();
    for part in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        uri.push_str(part.valid());
        part.invalid()
            .iter()
            .for_each(|byte| uri.push_str(&format!("\\x{byte:02x}")));
    }
    Source {
        location: location(path),
        uri,
        length: None,
        time: None,
    }
}

/// Rejects a URI, because this build has no object stores.
#[cfg(not(feature = "object-store"))]
async fn resolve_objects(uri: &str) -> Result<Vec<Source>, ConnectorError> {
    Err(ConnectorError::Uri {
        uri: uri.to_owned(),
        reason: "this build has no object stores (cargo feature `object-store`)".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sources: &[Source]) -> Vec<String> {
        sources
            .iter()
            .map(|source| source.uri.rsplit('/').next().unwrap_or_default().to_owned())
            .collect()
    }

    #[tokio::test]
    async fn folders_patterns_and_files_are_resolved_once_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.mg", "a.mg", ".hidden.mg", "c.txt"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/d.mg"), b"x").unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let found = discover(&[at("*.mg"), at(""), at("b.mg")]).await.unwrap();
        assert_eq!(names(&found), ["a.mg", "b.mg", "c.txt", "d.mg"]);
        let found = discover(&[at("**/*.mg")]).await.unwrap();
        assert_eq!(names(&found), ["a.mg", "b.mg", "d.mg"]);
        assert!(matches!(
            discover(&[at("*.none")]).await,
            Err(ConnectorError::NotFound(_))
        ));
        assert!(matches!(
            discover(&[at("none")]).await,
            Err(ConnectorError::NotFound(_))
        ));
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        assert!(discover(&[at("empty")]).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn no_error_has_the_password_in_a_uri() {
        for name in [
            "gopher://ada:secret@host/a.mg",
            "s3://key:secret@bucket/[.mg",
        ] {
            let error = discover_all(&[name.to_owned()]).await.unwrap_err();
            let (shown, debugged) = (error.to_string(), format!("{error:?}"));
            assert!(!shown.contains("secret"), "{shown}");
            assert!(!debugged.contains("secret"), "{debugged}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn names_that_differ_in_bytes_that_are_not_unicode_are_different_sources() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        for name in [b"M\xf6ller.jsonl", b"M\xfcller.jsonl"] {
            std::fs::write(folder.path().join(OsStr::from_bytes(name)), b"x").unwrap();
        }
        let found = discover(&[folder.path().display().to_string()]).await;
        assert_eq!(
            names(&found.unwrap()),
            ["M\\xf6ller.jsonl", "M\\xfcller.jsonl"]
        );
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn patterns_leave_out_hidden_names_and_names_that_are_not_unicode() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".cache")).unwrap();
        let hidden = b".cache/c.mg".as_slice();
        for name in [b"a.mg".as_slice(), b".b.mg", b"M\xf6ller.mg", hidden] {
            std::fs::write(folder.path().join(OsStr::from_bytes(name)), b"x").unwrap();
        }
        for (pattern, expected) in [
            ("*.mg", "a.mg"),
            (".*.mg", ".b.mg"),
            (".c*/*.mg", "c.mg"),
            ("**/*.mg", "a.mg"),
            (".cache/*.mg", "c.mg"),
        ] {
            let pattern = folder.path().join(pattern).display().to_string();
            let found = discover(&[pattern]).await.unwrap();
            assert_eq!(names(&found), [expected]);
        }
    }

    #[tokio::test]
    async fn a_pattern_matches_hidden_names_only_where_it_has_the_dot() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            "out.mg",
            "in/.cache/x/.cache/y.mg",
            "in/.cache/x/z.mg",
            "in/.other/.deep/w.mg",
            "in/.other/v.mg",
            "in/a/.cache/b.mg",
        ];
        for name in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"x").unwrap();
        }
        let cases: [(&str, &[&str]); 4] = [
            ("in/.cache/**/*.mg", &["z.mg"]),
            ("in/.*/**/*.mg", &["z.mg", "v.mg"]),
            ("in/**/.cache/*.mg", &["b.mg"]),
            ("in/../in/./.other/*.mg", &["v.mg"]),
        ];
        for (pattern, expected) in cases {
            let path = format!("{}/{pattern}", folder.path().display());
            let found = discover(&[path]).await.unwrap();
            assert_eq!(names(&found), expected, "{pattern}");
        }
        let hidden = |pattern: &str, path: &str| is_hidden_from(pattern, Path::new(path), true);
        assert!(!hidden("./.cache/**/*.mg", ".cache/a/b.mg"));
        assert!(hidden("./.cache/**/*.mg", ".cache/.a/b.mg"));
        let unlisted = |path: &str| is_hidden_from("x/**/.a/*.mg", Path::new(path), false);
        assert!(!unlisted("x/y/.a") && !unlisted("x") && unlisted("x/.b"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_to_files_are_followed_and_links_to_folders_are_not() {
        use std::os::unix::fs::symlink;
        let [folder, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        std::fs::write(elsewhere.path().join("a.mg"), b"x").unwrap();
        symlink(
            elsewhere.path().join("a.mg"),
            folder.path().join("linked.mg"),
        )
        .unwrap();
        symlink(folder.path(), folder.path().join("loop")).unwrap();
        symlink(
            elsewhere.path().join("gone.mg"),
            folder.path().join("broken.mg"),
        )
        .unwrap();
        let found = discover(&[folder.path().display().to_string()])
            .await
            .unwrap();
        assert_eq!(names(&found), ["broken.mg", "linked.mg"]);
        let all = discover_all(&[folder.path().display().to_string()]).await;
        let all = all.unwrap();
        assert_eq!(names(&all), ["broken.mg", "linked.mg", "loop"]);
        let read = crate::source::fetch(&all[2]).await;
        assert!(matches!(read, Err(ConnectorError::NotRead { .. })));
    }
}

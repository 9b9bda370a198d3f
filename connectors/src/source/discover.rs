//! From what the user names to a list of sources.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use walkdir::WalkDir;

use crate::ConnectorError;
use crate::storage::{Place, has_scheme, place_of};

/// Where a source is.
#[derive(Debug, Clone)]
pub enum Location {
    /// A local file.
    File(PathBuf),
    /// A pipe or a device, which can be read once.
    Stream(PathBuf),
    /// An object in a store.
    Object {
        /// The store.
        store: Arc<dyn ObjectStore>,
        /// The object.
        path: ObjectPath,
    },
    /// Standard input.
    Stdin,
}

/// One file, object or stream.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where it is.
    pub location: Location,
    /// What to call it: a path, a URI, or `-`.
    pub uri: String,
    /// How many bytes it has, where that is known beforehand.
    pub length: Option<u64>,
    /// When it was last changed, in milliseconds since 1970, where that is known.
    pub modified: Option<i64>,
}

/// `*` doesn't cross folders, `**` does.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// The sources that `named` stands for: files, folders with all that is in them (but for names that
/// begin with a dot, and links to folders), patterns, URIs of objects, prefixes and patterns of
/// objects, and `-`. In the order of the names, the sources of one name in the order of their
/// paths; a source that is named twice comes once.
///
/// # Errors
/// [`ConnectorError::NotFound`] for a name that stands for nothing, and whatever the system or a
/// store says.
pub async fn discover(named: &[String]) -> Result<Vec<Source>, ConnectorError> {
    let mut sources: Vec<Source> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for name in named {
        let found = match &**name {
            "-" => vec![Source {
                location: Location::Stdin,
                uri: "-".to_owned(),
                length: None,
                modified: None,
            }],
            uri if has_scheme(uri) && !uri.starts_with("file://") => objects(uri).await?,
            path => files(local(path))?,
        };
        // A folder that nothing was put into is no mistake; a name that stands for nothing is.
        if found.is_empty() && !Path::new(local(name)).is_dir() {
            return Err(ConnectorError::NotFound(name.clone()));
        }
        sources.extend(
            found
                .into_iter()
                .filter(|source| seen.insert(source.uri.clone())),
        );
    }
    Ok(sources)
}

/// The path that `name` is, or that its URI names.
fn local(name: &str) -> &str {
    name.strip_prefix("file://").unwrap_or(name)
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn files(path: &str) -> Result<Vec<Source>, ConnectorError> {
    let named = Path::new(path);
    if named.is_dir() {
        return folder(named);
    }
    // A file may have a name that looks like a pattern.
    if named.exists() || !is_pattern(path) {
        return if named.exists() {
            Ok(vec![file(named)?])
        } else {
            Ok(Vec::new())
        };
    }
    let fault = |reason: String| ConnectorError::Pattern {
        pattern: path.to_owned(),
        reason,
    };
    let mut found = Vec::new();
    for matched in glob::glob_with(path, MATCHING).map_err(|error| fault(error.to_string()))? {
        let matched = matched.map_err(|error| fault(error.to_string()))?;
        if matched.is_dir() {
            found.extend(folder(&matched)?);
        } else {
            found.push(file(&matched)?);
        }
    }
    Ok(found)
}

fn folder(path: &Path) -> Result<Vec<Source>, ConnectorError> {
    let hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
    let walk = WalkDir::new(path).sort_by_file_name().into_iter();
    let mut found = Vec::new();
    for entry in walk.filter_entry(|entry| entry.depth() == 0 || !hidden(entry.file_name())) {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(path).to_path_buf();
            ConnectorError::Io {
                what: "can't list",
                path,
                cause: error.into(),
            }
        })?;
        // A link to a file is one, also if the file is gone: whoever reads it tells. What a linked
        // folder holds belongs to that folder, and may lead back here.
        let leads_to_file = || {
            entry
                .path()
                .metadata()
                .map_or(true, |target| target.is_file())
        };
        if entry.file_type().is_file() || entry.path_is_symlink() && leads_to_file() {
            found.push(file(entry.path())?);
        }
    }
    Ok(found)
}

fn file(path: &Path) -> Result<Source, ConnectorError> {
    let inspected = path.metadata().or_else(|_| path.symlink_metadata());
    let metadata = inspected.map_err(ConnectorError::io("can't inspect", path))?;
    let modified = metadata
        .modified()
        .ok()
        .map(chrono::DateTime::<chrono::Utc>::from);
    let is_stream = !metadata.is_file() && !metadata.is_symlink();
    let location = if is_stream {
        Location::Stream
    } else {
        Location::File
    };
    Ok(Source {
        location: location(path.to_path_buf()),
        uri: path.display().to_string(),
        length: metadata.is_file().then_some(metadata.len()),
        modified: modified.map(|instant| instant.timestamp_millis()),
    })
}

async fn objects(uri: &str) -> Result<Vec<Source>, ConnectorError> {
    if is_pattern(uri) && !uri.starts_with("http") {
        return matching_objects(uri).await;
    }
    let place = place_of(uri)?;
    match place.store.head(&place.path).await {
        Ok(found) => return Ok(vec![object(&place, uri.to_owned(), found)]),
        Err(object_store::Error::NotFound { .. }) => {}
        Err(cause) => {
            return Err(ConnectorError::Store {
                what: "can't inspect",
                uri: uri.to_owned(),
                cause,
            });
        }
    }
    listed(&place, uri, |_| true).await
}

async fn matching_objects(uri: &str) -> Result<Vec<Source>, ConnectorError> {
    let literal = uri.split(['*', '?', '[']).next().unwrap_or(uri);
    let prefix = literal
        .rsplit_once('/')
        .map_or(literal, |(folder, _)| folder);
    let place = place_of(prefix)?;
    // The pattern of paths inside the store: what follows the folder, under the folder's own path.
    let rest = uri
        .get(prefix.len()..)
        .unwrap_or_default()
        .trim_start_matches('/');
    let inside = if place.path.as_ref().is_empty() {
        rest.to_owned()
    } else {
        format!("{}/{rest}", place.path)
    };
    let pattern = Pattern::new(&inside).map_err(|error| ConnectorError::Pattern {
        pattern: uri.to_owned(),
        reason: error.to_string(),
    })?;
    listed(&place, prefix, |path| {
        pattern.matches_with(path.as_ref(), MATCHING)
    })
    .await
}

async fn listed(
    place: &Place,
    uri: &str,
    wanted: impl Fn(&ObjectPath) -> bool,
) -> Result<Vec<Source>, ConnectorError> {
    let all: Vec<ObjectMeta> = place
        .store
        .list(Some(&place.path))
        .try_collect()
        .await
        .map_err(ConnectorError::store("can't list", uri))?;
    let mut found: Vec<_> = all
        .into_iter()
        .filter(|object| object.size > 0 && wanted(&object.location))
        .collect();
    found.sort_by(|left, right| left.location.cmp(&right.location));
    let uri_of = |path: &ObjectPath| {
        let below = path
            .as_ref()
            .strip_prefix(place.path.as_ref())
            .unwrap_or(path.as_ref());
        format!(
            "{}/{}",
            uri.trim_end_matches('/'),
            below.trim_start_matches('/')
        )
    };
    Ok(found
        .into_iter()
        .map(|meta| object(place, uri_of(&meta.location), meta))
        .collect())
}

fn object(place: &Place, uri: String, found: ObjectMeta) -> Source {
    Source {
        location: Location::Object {
            store: Arc::clone(&place.store),
            path: found.location,
        },
        uri,
        length: Some(found.size),
        modified: Some(found.last_modified.timestamp_millis()),
    }
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
    async fn folders_patterns_and_files_are_found_once_and_in_order() {
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
    }

    #[tokio::test]
    async fn objects_are_found_by_prefix_and_pattern() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        for name in ["in/b.mg", "in/a.mg", "in/c.txt"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        let store: Arc<dyn ObjectStore> =
            Arc::new(object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        let url = url::Url::parse("s3://bucket/in").unwrap();
        let place = Place {
            store,
            path: "in".into(),
            url,
        };
        let found = listed(&place, "s3://bucket/in", |path| {
            path.as_ref().ends_with(".mg")
        })
        .await
        .unwrap();
        let uris: Vec<_> = found.iter().map(|source| &*source.uri).collect();
        assert_eq!(uris, ["s3://bucket/in/a.mg", "s3://bucket/in/b.mg"]);
    }
}

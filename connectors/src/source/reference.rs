//! Sources as messages: how another process finds the source that this one has discovered.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::location::{Source, SourceLocation};
use crate::ConnectorError;
#[cfg(feature = "object-store")]
use crate::storage::resolve_uri;

/// A source by its name, for a process with the same files and stores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReference {
    /// The name of the source, as in [`Source::uri`].
    pub uri: String,
    /// The absolute path of a local file; `None` for an object, which its URI names.
    path: Option<String>,
    /// As [`Source::length`].
    pub length: Option<u64>,
    /// As [`Source::time`].
    time: Option<i64>,
}

impl SourceReference {
    /// Returns the reference of `source`. `None` if no other process can read it by its name:
    /// standard input, pipes, file names that aren't Unicode, and objects whose URIs need escapes.
    pub fn of(source: &Source) -> Option<SourceReference> {
        let path = match &source.location {
            SourceLocation::File(path) => {
                Some(std::path::absolute(path).ok()?.to_str()?.to_owned())
            }
            #[cfg(feature = "object-store")]
            SourceLocation::Object { path, .. } => {
                let found = resolve_uri(&source.uri).ok()?;
                if found.path != *path {
                    return None;
                }
                None
            }
            SourceLocation::Stream(_) | SourceLocation::Stdin | SourceLocation::NotRead { .. } => {
                return None;
            }
        };
        Some(SourceReference {
            uri: source.uri.clone(),
            path,
            length: source.length,
            time: source.time,
        })
    }

    /// Returns the source. It isn't opened.
    ///
    /// # Errors
    /// [`ConnectorError::Uri`] if this process has no store for the URI.
    pub fn resolve(&self) -> Result<Source, ConnectorError> {
        let location = match &self.path {
            Some(path) => SourceLocation::File(PathBuf::from(path)),
            None => object(&self.uri)?,
        };
        Ok(Source {
            location,
            uri: self.uri.clone(),
            length: self.length,
            time: self.time,
        })
    }
}

#[cfg(feature = "object-store")]
fn object(uri: &str) -> Result<SourceLocation, ConnectorError> {
    let found = resolve_uri(uri)?;
    Ok(SourceLocation::Object {
        store: found.store,
        path: found.path,
    })
}

#[cfg(not(feature = "object-store"))]
fn object(uri: &str) -> Result<SourceLocation, ConnectorError> {
    Err(ConnectorError::NotFound(uri.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(location: SourceLocation) -> Source {
        Source {
            location,
            uri: "in/a.frames".to_owned(),
            length: Some(7),
            time: Some(1_700_000_000_000),
        }
    }

    #[test]
    fn a_file_keeps_its_name_and_its_time_and_gets_an_absolute_path() {
        let file = source(SourceLocation::File("in/a.frames".into()));
        let sent = serde_norway::to_string(&SourceReference::of(&file).unwrap()).unwrap();
        let found: SourceReference = serde_norway::from_str(&sent).unwrap();
        let found = found.resolve().unwrap();
        assert_eq!(
            (&found.uri, found.length, found.time),
            (&file.uri, file.length, file.time)
        );
        let SourceLocation::File(path) = &found.location else {
            panic!("not a file: {found:?}");
        };
        assert_eq!(*path, std::path::absolute("in/a.frames").unwrap());
    }

    #[test]
    fn streams_have_no_reference() {
        let pipe = SourceLocation::Stream("in/pipe".into());
        assert_eq!(SourceReference::of(&source(SourceLocation::Stdin)), None);
        assert_eq!(SourceReference::of(&source(pipe)), None);
    }
}

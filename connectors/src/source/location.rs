//! The location of a source, and the syntax of patterns.

use std::path::PathBuf;
#[cfg(feature = "object-store")]
use std::sync::Arc;

use glob::MatchOptions;
#[cfg(feature = "object-store")]
use object_store::{ObjectStore, path::Path as ObjectPath};

/// The location of a source.
#[derive(Debug, Clone)]
pub enum SourceLocation {
    /// A local file.
    File(PathBuf),
    /// A pipe or a device, which can be read only once.
    Stream(PathBuf),
    /// An object in a store.
    #[cfg(feature = "object-store")]
    Object {
        /// The store.
        store: Arc<dyn ObjectStore>,
        /// The path of the object.
        path: ObjectPath,
    },
    /// Standard input.
    Stdin,
    /// An entry of a folder that is read only if it is named itself.
    NotRead {
        /// The path.
        path: PathBuf,
        /// What it is, and how it is read.
        reason: &'static str,
    },
}

/// One file, object or stream.
#[derive(Debug, Clone)]
pub struct Source {
    /// The location.
    pub location: SourceLocation,
    /// The name of the source: a path, a URI, or `-`.
    pub uri: String,
    /// The size in bytes, if it is known before reading.
    pub length: Option<u64>,
    /// The time of messages without one in it, in milliseconds since 1970: that of its creation or
    /// of its last modification, whichever is earlier. It stays the same while a log grows. `None`
    /// if neither is known.
    pub time: Option<i64>,
}

impl Source {
    /// Returns the absolute path or the URI, which stays the same while the content changes. `None`
    /// for a stream, and a path that isn't Unicode.
    pub fn place(&self) -> Option<String> {
        match &self.location {
            SourceLocation::File(path) => {
                let path = std::path::absolute(path).ok()?;
                Some(path.to_str()?.to_owned())
            }
            #[cfg(feature = "object-store")]
            SourceLocation::Object { .. } => Some(self.uri.clone()),
            SourceLocation::Stream(_) | SourceLocation::Stdin | SourceLocation::NotRead { .. } => {
                None
            }
        }
    }
}

/// `*` doesn't match `/`, `**` does.
pub(super) const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Returns true if `text` has the special characters of a pattern.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

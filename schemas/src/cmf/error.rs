//! Errors of parsing CMF, with the JSON path, the expected and the actual value.
//!
//! The path is a linked list on the stack of the parser, so parsing valid input allocates nothing
//! for it.

use std::fmt::Write as _;

use crate::json::write_string;

/// The maximum length in bytes of input quoted in an error.
const QUOTE_LIMIT_BYTES: usize = 80;

/// An error in a message, a part or an extension. Every variant has the JSON path
/// (`$.content[0].text`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CmfError {
    /// A required member is missing.
    #[error("{path}: expected {expected}, found nothing")]
    Missing {
        /// The path of the member.
        path: String,
        /// The expected type.
        expected: &'static str,
    },
    /// A value has the wrong JSON type.
    #[error("{path}: expected {expected}, found {found}")]
    WrongType {
        /// The path of the value.
        path: String,
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// A number is not a 64-bit integer.
    #[error("{path}: expected an integer of 64 bits, found {found}")]
    NotAnInteger {
        /// The path of the value.
        path: String,
        /// The number as written.
        found: String,
    },
    /// A string is not in a closed set of names.
    #[error("{path}: expected one of {}, found `{found}`", expected.join(", "))]
    UnknownName {
        /// The path of the value.
        path: String,
        /// The closed set.
        expected: &'static [&'static str],
        /// The actual string.
        found: String,
    },
    /// An object has an unknown member.
    #[error("{path}: expected only {}", expected.join(", "))]
    UnknownKey {
        /// The path, including the key.
        path: String,
        /// The allowed members.
        expected: &'static [&'static str],
    },
    /// A text is not base64 (standard alphabet, padded).
    #[error("{path}: expected base64, found `{found}`")]
    NotBase64 {
        /// The path of the value.
        path: String,
        /// The text as written.
        found: String,
    },
    /// A text is not an ISO 8601 time.
    #[error("{path}: expected an ISO 8601 time, found `{found}`")]
    NotATime {
        /// The path of the value.
        path: String,
        /// The text as written.
        found: String,
    },
    /// A resource has both text and bytes.
    #[error("{path}: expected content or blob, found both")]
    ContentAndBlob {
        /// The path of the resource.
        path: String,
    },
    /// The range of a reference ends before it starts.
    #[error("{path}: expected range_end of at least {start}, found {end}")]
    InvertedRange {
        /// The path of the reference.
        path: String,
        /// The `range_start`.
        start: i64,
        /// The `range_end`.
        end: i64,
    },
    /// An object has more than one of several exclusive members.
    #[error("{path}: expected at most one of {}, found more", expected.join(", "))]
    MoreThanOne {
        /// The path of the object.
        path: String,
        /// The exclusive members.
        expected: &'static [&'static str],
    },
    /// The HTTP extension has separate request and response headers, which this format does not
    /// support.
    #[error("{path}: expected `headers`, found the split form with `{found}`")]
    SplitHeaders {
        /// The path of the extension.
        path: String,
        /// The unsupported member.
        found: &'static str,
    },
    /// A list exceeds its limit.
    #[error("{path}: expected at most {limit} items, found {found}")]
    TooMany {
        /// The path of the list.
        path: String,
        /// The limit.
        limit: usize,
        /// The actual length.
        found: usize,
    },
    /// The nesting of objects exceeds the limit.
    #[error("{path}: expected at most {limit} levels of nesting, found more")]
    TooDeep {
        /// The path at which the limit was exceeded.
        path: String,
        /// The limit.
        limit: usize,
    },
}

impl CmfError {
    /// Returns the JSON path of the error; `$` is the parsed value.
    pub fn path(&self) -> &str {
        match self {
            CmfError::Missing { path, .. }
            | CmfError::WrongType { path, .. }
            | CmfError::NotAnInteger { path, .. }
            | CmfError::UnknownName { path, .. }
            | CmfError::UnknownKey { path, .. }
            | CmfError::NotBase64 { path, .. }
            | CmfError::NotATime { path, .. }
            | CmfError::ContentAndBlob { path }
            | CmfError::InvertedRange { path, .. }
            | CmfError::MoreThanOne { path, .. }
            | CmfError::SplitHeaders { path, .. }
            | CmfError::TooMany { path, .. }
            | CmfError::TooDeep { path, .. } => path,
        }
    }
}

/// Truncates `text` to [`QUOTE_LIMIT_BYTES`] for an error message.
pub(super) fn quoted(text: &str) -> String {
    let end = text.floor_char_boundary(QUOTE_LIMIT_BYTES);
    if end < text.len() {
        format!("{}…", &text[..end])
    } else {
        text.to_owned()
    }
}

/// The JSON path of a value during parsing: a segment and the path of its parent.
#[derive(Clone, Copy)]
pub(super) struct JsonPath<'p> {
    parent: Option<&'p JsonPath<'p>>,
    step: PathSegment<'p>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum PathSegment<'p> {
    Key(&'p str),
    Index(usize),
}

impl<'p> JsonPath<'p> {
    /// The path of the parsed value.
    pub(super) const ROOT: JsonPath<'static> = JsonPath {
        parent: None,
        step: PathSegment::Index(0),
        depth: 0,
    };

    /// Appends the member `key`.
    pub(super) fn key(&'p self, key: &'p str) -> JsonPath<'p> {
        JsonPath {
            parent: Some(self),
            step: PathSegment::Key(key),
            depth: self.depth + 1,
        }
    }

    /// Appends the item `index`.
    pub(super) fn index(&'p self, index: usize) -> JsonPath<'p> {
        JsonPath {
            parent: Some(self),
            step: PathSegment::Index(index),
            depth: self.depth + 1,
        }
    }

    /// Returns the number of segments from the root.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Formats the path for an error.
    pub(super) fn path(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        let Some(parent) = self.parent else {
            return out.push('$');
        };
        parent.write(out);
        match self.step {
            PathSegment::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
            PathSegment::Key(key) if is_plain(key) => {
                out.push('.');
                out.push_str(key);
            }
            PathSegment::Key(key) => {
                out.push('[');
                write_string(&quoted(key), out);
                out.push(']');
            }
        }
    }
}

/// Returns true for keys that are written after a dot, without quotes.
fn is_plain(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= QUOTE_LIMIT_BYTES
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_quotes_the_keys_that_need_it() {
        let root = JsonPath::ROOT;
        let content = root.key("content");
        let item = content.index(3);
        let odd = item.key("a.b\"");
        assert_eq!(root.path(), "$");
        assert_eq!(odd.path(), r#"$.content[3]["a.b\""]"#);
    }

    #[test]
    fn an_error_quotes_a_bounded_piece_of_the_input() {
        assert_eq!(quoted("short"), "short");
        let long = quoted(&"é".repeat(1000));
        assert_eq!(long.len(), QUOTE_LIMIT_BYTES + '…'.len_utf8());
    }
}

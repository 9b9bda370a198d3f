//! What is wrong with a message that isn't one: where, what was expected, what came.
//!
//! The place is a chain of steps on the stack of the reader, so reading a good message allocates
//! nothing for it.

use std::fmt::Write as _;

use crate::json::write_string;

/// The longest piece of input that an error quotes, in bytes.
const QUOTE_LIMIT_BYTES: usize = 80;

/// Why JSON isn't a message, a part or an extension of the format. Every variant names the JSON
/// path (`$.content[0].text`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CmfError {
    /// A member that must be there isn't.
    #[error("{path}: expected {expected}, came nothing")]
    Missing {
        /// Where the member should be.
        path: String,
        /// What should stand there.
        expected: &'static str,
    },
    /// A value of another JSON type.
    #[error("{path}: expected {expected}, came {found}")]
    WrongType {
        /// Where.
        path: String,
        /// The type that the format asks for.
        expected: &'static str,
        /// The type that came.
        found: &'static str,
    },
    /// A number that isn't an integer of 64 bits.
    #[error("{path}: expected an integer of 64 bits, came {found}")]
    NotAnInteger {
        /// Where.
        path: String,
        /// The number as it was written.
        found: String,
    },
    /// A string outside a closed set of names.
    #[error("{path}: expected one of {}, came `{found}`", expected.join(", "))]
    UnknownName {
        /// Where.
        path: String,
        /// The closed set.
        expected: &'static [&'static str],
        /// The string that came.
        found: String,
    },
    /// A member that the object may not have.
    #[error("{path}: expected only {}", expected.join(", "))]
    UnknownKey {
        /// Where, the key included.
        path: String,
        /// The members that the object may have.
        expected: &'static [&'static str],
    },
    /// Text that isn't base64 (standard alphabet, padded).
    #[error("{path}: expected base64, came `{found}`")]
    NotBase64 {
        /// Where.
        path: String,
        /// The text that came.
        found: String,
    },
    /// Text that isn't a time of ISO 8601.
    #[error("{path}: expected an ISO 8601 time, came `{found}`")]
    NotATime {
        /// Where.
        path: String,
        /// The text that came.
        found: String,
    },
    /// A resource that embeds both text and bytes.
    #[error("{path}: expected content or blob, came both")]
    ContentAndBlob {
        /// Where the resource is.
        path: String,
    },
    /// A reference whose range ends before it starts.
    #[error("{path}: expected range_end of at least {start}, came {end}")]
    InvertedRange {
        /// Where the reference is.
        path: String,
        /// Its `range_start`.
        start: i64,
        /// Its `range_end`.
        end: i64,
    },
    /// An object of which at most one of some members may be set.
    #[error("{path}: expected at most one of {}, came more", expected.join(", "))]
    MoreThanOne {
        /// Where the object is.
        path: String,
        /// The members of which one may be set.
        expected: &'static [&'static str],
    },
    /// The other shape of the HTTP extension, whose headers would be lost without a word.
    #[error("{path}: expected `headers`, came the split form with `{found}`")]
    SplitHeaders {
        /// Where the extension is.
        path: String,
        /// The member that gives the other shape away.
        found: &'static str,
    },
    /// A list beyond its limit.
    #[error("{path}: expected at most {limit} items, came {found}")]
    TooMany {
        /// Where the list is.
        path: String,
        /// The limit.
        limit: usize,
        /// The length that came.
        found: usize,
    },
    /// Objects nested beyond the limit.
    #[error("{path}: expected at most {limit} levels of nesting, came more")]
    TooDeep {
        /// Where the limit was passed.
        path: String,
        /// The limit.
        limit: usize,
    },
}

impl CmfError {
    /// The JSON path of the fault, `$` being the value that was parsed.
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

/// `text` as an error may quote it: at most [`QUOTE_LIMIT_BYTES`] of it.
pub(super) fn quoted(text: &str) -> String {
    let end = text.floor_char_boundary(QUOTE_LIMIT_BYTES);
    if end < text.len() {
        format!("{}…", &text[..end])
    } else {
        text.to_owned()
    }
}

/// Where the reader stands: a step and the place that it was taken from.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    step: Step<'p>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    /// The value that is parsed.
    pub(super) const ROOT: Place<'static> = Place {
        parent: None,
        step: Step::Index(0),
        depth: 0,
    };

    /// The member `key` of the object here.
    pub(super) fn key(&'p self, key: &'p str) -> Place<'p> {
        Place {
            parent: Some(self),
            step: Step::Key(key),
            depth: self.depth + 1,
        }
    }

    /// The item `index` of the array here.
    pub(super) fn index(&'p self, index: usize) -> Place<'p> {
        Place {
            parent: Some(self),
            step: Step::Index(index),
            depth: self.depth + 1,
        }
    }

    /// How many steps this is from the root.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// The JSON path, for an error.
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
            Step::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
            Step::Key(key) if is_plain(key) => {
                out.push('.');
                out.push_str(key);
            }
            Step::Key(key) => {
                out.push('[');
                write_string(&quoted(key), out);
                out.push(']');
            }
        }
    }
}

/// True for keys that a path shows behind a dot, without quotes.
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
        let root = Place::ROOT;
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

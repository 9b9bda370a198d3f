//! Residuals: the difference between a provider's JSON and what its adapter writes, as a compact
//! patch.
//!
//! After a provider's JSON has been read into canonical messages, the same adapter writes them
//! again; the difference between that *projection* and the original is everything that the
//! canonical model couldn't hold. It is stored in `provider_raw`, and writing to the same provider
//! applies it. So the round trip is lossless by construction, independent of the adapter; the
//! better the adapter, the smaller its residuals.
//!
//! ```text
//! apply(diff(a, b), a) == b      equal values, and numbers with the same spelling
//! ```
//!
//! The JSON form of a patch:
//!
//! | form | meaning |
//! |---|---|
//! | `{"=": T}` | the value becomes the template `T` |
//! | `{"j": "p"}` | the string contains JSON: format that JSON in the style `p` ([`json_text`]) |
//! | `{"+k": T, "-k": 0, "~k": P}` | members of an object are set, removed, patched; the others are kept |
//! | `[3, -1, P, [T]]` | items of an array: keep three, skip one, patch one (`{"~": P}` if `P` is an array), insert one; the rest is kept |
//!
//! A template is JSON in which an object with the only key `$` refers to a part of the projection,
//! so that a text that only moved or changed its wrapping isn't stored twice:
//!
//! | form | meaning |
//! |---|---|
//! | `{"$": "/content/0/text"}` | the value at that JSON pointer |
//! | `{"$": [["/content/0/text", 5, 9], "and"]}` | concatenated text: bytes 5 to 9 of that string, then `and` |
//! | `{"$": {…}}` | an escaped literal object with the only key `$` |
//!
//! | module | question |
//! |---|---|
//! | `diff`, `align` | how is a patch computed, and which items of two arrays correspond? |
//! | `reference_index` | which parts of the projection can a template refer to? |
//! | `apply` | how is a patch applied, within a limit on its output? |
//! | `codec` | what is the JSON form of a patch? |
//! | [`json_text`] | in which style is JSON inside a string formatted? |
//!
//! Nothing here depends on a provider.

mod align;
mod apply;
mod codec;
mod diff;
pub mod json_text;
mod reference_index;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use apply::{ApplyError, OUTPUT_LIMIT_BYTES, apply};
pub use codec::{PatchError, patch_from_json, patch_to_json};
pub use diff::diff;

use gristmill_schemas::json::Json;
use json_text::JsonStyle;

/// A patch that turns one JSON value into another.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch<'a> {
    /// Replaces the value.
    Replace(ValueTemplate<'a>),
    /// Formats the JSON inside the string in another style.
    Restyle(JsonStyle),
    /// Edits members of an object; each name occurs once.
    Members(Vec<(Cow<'a, str>, MemberEdit<'a>)>),
    /// Edits items of an array from the first on; items after the last edit are kept.
    Items(Vec<ArrayEdit<'a>>),
}

/// An edit of one member of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum MemberEdit<'a> {
    /// Sets or adds the member.
    Set(ValueTemplate<'a>),
    /// Removes the member.
    Remove,
    /// Patches the member.
    Change(Patch<'a>),
}

/// An edit at the current position in an array.
#[derive(Debug, Clone, PartialEq)]
pub enum ArrayEdit<'a> {
    /// Keeps a number of items.
    Keep(usize),
    /// Removes a number of items.
    Skip(usize),
    /// Patches the next item.
    Change(Patch<'a>),
    /// Inserts an item before the next one.
    Insert(ValueTemplate<'a>),
}

/// A value that may refer to parts of the projection.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueTemplate<'a> {
    /// A literal value.
    Literal(Json<'a>),
    /// The value at a JSON pointer.
    At(String),
    /// Concatenated pieces of text.
    Text(Vec<TextFragment<'a>>),
    /// An array of templates.
    Array(Vec<ValueTemplate<'a>>),
    /// An object of templates; each name occurs once.
    Object(Vec<(Cow<'a, str>, ValueTemplate<'a>)>),
}

/// A piece of text.
#[derive(Debug, Clone, PartialEq)]
pub enum TextFragment<'a> {
    /// Literal text.
    Literal(Cow<'a, str>),
    /// The bytes from `start` to `end` of the string at a JSON pointer.
    Slice {
        /// The JSON pointer of the string.
        pointer: String,
        /// The offset of the first byte.
        start: usize,
        /// The offset after the last byte.
        end: usize,
    },
}

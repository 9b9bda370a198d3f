//! Residuals: what an adapter's own writing leaves out, as a compact patch.
//!
//! After a provider's JSON has been read into canonical messages, the same adapter writes them
//! again; the difference between that *projection* and the original is all that the canonical model
//! couldn't hold. It travels in `provider_raw`, and writing back to the same provider applies it:
//! the round trip is equal by construction, whatever the adapter forgot, and a good adapter's
//! residual is small.
//!
//! ```text
//! apply(diff(a, b), a) == b      value for value, numbers to the letter
//! ```
//!
//! As JSON a patch is
//!
//! | form | meaning |
//! |---|---|
//! | `{"=": T}` | the value becomes the template `T` |
//! | `{"j": "p"}` | the string holds JSON: write that JSON again in the style `p` ([`json_text`]) |
//! | `{"+k": T, "-k": 0, "~k": P}` | members of an object are set, removed, patched; the others stay |
//! | `[3, -1, P, [T]]` | items of an array: keep three, skip one, patch one (`{"~": P}` if `P` is an array), insert one; the rest stays |
//!
//! A template is JSON in which an object with the one key `$` stands for a part of the projection,
//! so that a text which only moved or changed its wrapping isn't stored twice:
//!
//! | form | meaning |
//! |---|---|
//! | `{"$": "/content/0/text"}` | the value at that JSON pointer |
//! | `{"$": [["/content/0/text", 5, 9], "and"]}` | text in pieces: bytes 5 to 9 of the string there, then `and` |
//! | `{"$": {…}}` | the object itself, for one that has the one key `$` |
//!
//! What lives here: the patch, its making, its applying and its JSON. What doesn't: any knowledge
//! of providers.

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

/// What turns one JSON value into another.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch<'a> {
    /// The value becomes another.
    Replace(ValueTemplate<'a>),
    /// The string's JSON is written in another style.
    Restyle(JsonStyle),
    /// Members of an object change; each name once.
    Members(Vec<(Cow<'a, str>, MemberEdit<'a>)>),
    /// Items of an array change, from the first on; what the steps don't reach stays.
    Items(Vec<ArrayEdit<'a>>),
}

/// What becomes of a member.
#[derive(Debug, Clone, PartialEq)]
pub enum MemberEdit<'a> {
    /// It is there and is this.
    Set(ValueTemplate<'a>),
    /// It isn't there.
    Remove,
    /// It is patched.
    Change(Patch<'a>),
}

/// What becomes of the next items.
#[derive(Debug, Clone, PartialEq)]
pub enum ArrayEdit<'a> {
    /// So many stay.
    Keep(usize),
    /// So many go.
    Skip(usize),
    /// The next is patched.
    Change(Patch<'a>),
    /// This stands before the next.
    Insert(ValueTemplate<'a>),
}

/// A value in which parts of the projection stand by reference.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueTemplate<'a> {
    /// The value itself.
    Literal(Json<'a>),
    /// The value at a JSON pointer.
    At(String),
    /// Pieces of text, put together.
    Text(Vec<TextPiece<'a>>),
    /// An array of templates.
    Array(Vec<ValueTemplate<'a>>),
    /// An object of templates; each name once.
    Object(Vec<(Cow<'a, str>, ValueTemplate<'a>)>),
}

/// A piece of text.
#[derive(Debug, Clone, PartialEq)]
pub enum TextPiece<'a> {
    /// The text itself.
    Literal(Cow<'a, str>),
    /// The bytes from `start` to `end` of the string at a JSON pointer.
    Slice {
        /// Where the string is.
        pointer: String,
        /// The first byte.
        start: usize,
        /// The byte after the last.
        end: usize,
    },
}

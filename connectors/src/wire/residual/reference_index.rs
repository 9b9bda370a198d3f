//! The index of a projection: the texts and subtrees that a template can refer to.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::fmt::Write;
use std::hash::Hasher;

use gristmill_schemas::json::Json;
use memchr::memmem::Finder;
use rustc_hash::{FxHashMap, FxHasher};

use super::{TextFragment, ValueTemplate};

/// Shorter texts and subtrees are stored as literals: a reference is about as long.
const SHORTEST_REFERENCE_BYTES: usize = 24;
/// The most bytes of the projection that one diff searches for substrings.
const SEARCH_LIMIT_BYTES: usize = 8 << 20;

/// The strings, arrays and objects of one projection, by hash of their value.
pub(super) struct ReferenceIndex<'a> {
    /// Pointer and value of those that are long enough for a reference.
    known: FxHashMap<u64, (String, &'a Json<'a>)>,
    /// Pointer and text of the strings that are searched for substrings.
    long_strings: Vec<(String, &'a str)>,
    search_budget_bytes: usize,
}

impl<'a> ReferenceIndex<'a> {
    pub(super) fn of(root: &'a Json<'a>) -> Self {
        let mut index = ReferenceIndex {
            known: FxHashMap::default(),
            long_strings: Vec::new(),
            search_budget_bytes: SEARCH_LIMIT_BYTES,
        };
        index.add(root, &mut String::new());
        index
    }

    /// Adds a subtree; returns its hash and approximate length.
    fn add(&mut self, json: &'a Json<'a>, pointer: &mut String) -> (u64, usize) {
        let length = pointer.len();
        let (hash, size) = tree_hash(json, |key, child| {
            push_token(pointer, key);
            let result = self.add(child, pointer);
            pointer.truncate(length);
            result
        });
        let is_referable = match json {
            Json::String(text) if text.len() >= SHORTEST_REFERENCE_BYTES => {
                self.long_strings.push((pointer.clone(), text));
                true
            }
            Json::Array(_) | Json::Object(_) => size >= SHORTEST_REFERENCE_BYTES,
            _ => false,
        };
        if is_referable {
            self.known
                .entry(hash)
                .or_insert_with(|| (pointer.clone(), json));
        }
        (hash, size)
    }

    /// Returns `json` as a template that refers to the projection wherever that is shorter.
    pub(super) fn template<'b>(&mut self, json: &Json<'b>) -> ValueTemplate<'b> {
        match json {
            Json::String(text) => self.text(text, None),
            Json::Array(items) => match self.tree(json) {
                Some(template) => template,
                None => collapse(
                    json,
                    ValueTemplate::Array(items.iter().map(|item| self.template(item)).collect()),
                ),
            },
            Json::Object(object) => match self.tree(json) {
                Some(template) => template,
                None => {
                    let members = object
                        .members()
                        .iter()
                        .map(|(key, value)| (key.clone(), self.template(value)));
                    collapse(json, ValueTemplate::Object(members.collect()))
                }
            },
            scalar => ValueTemplate::Literal(scalar.clone()),
        }
    }

    /// Returns a reference to an identical subtree.
    fn tree<'b>(&self, json: &Json) -> Option<ValueTemplate<'b>> {
        let (hash, size) = hash_of(json);
        if size < SHORTEST_REFERENCE_BYTES {
            None
        } else {
            self.reference(hash, |found| found.is_identical(json))
        }
    }

    /// Returns a reference to the value with that hash, if `is_equal` confirms it.
    fn reference<'b>(
        &self,
        hash: u64,
        is_equal: impl FnOnce(&Json) -> bool,
    ) -> Option<ValueTemplate<'b>> {
        let (pointer, found) = self.known.get(&hash)?;
        is_equal(found).then(|| ValueTemplate::At(pointer.clone()))
    }

    /// Returns `text` as a template; `old` is the pointer and text of the string that it replaces.
    pub(super) fn text<'b>(
        &mut self,
        text: &Cow<'b, str>,
        old: Option<(&str, &str)>,
    ) -> ValueTemplate<'b> {
        let literal = || ValueTemplate::Literal(Json::String(text.clone()));
        if text.len() < SHORTEST_REFERENCE_BYTES {
            return literal();
        }
        let whole = self.reference(string_hash(text), |found| found.as_str() == Some(text));
        let spliced = || old.and_then(|(pointer, old)| splice(pointer, old, text));
        whole
            .or_else(spliced)
            .or_else(|| self.slice(text))
            .unwrap_or_else(literal)
    }

    /// Returns `text` as a substring of a longer string of the projection.
    fn slice<'b>(&mut self, text: &str) -> Option<ValueTemplate<'b>> {
        // Building a finder takes about as long as one search, so it is shared.
        let finder = LazyCell::new(|| Finder::new(text));
        for (pointer, long) in self
            .long_strings
            .iter()
            .filter(|(_, long)| long.len() > text.len())
        {
            self.search_budget_bytes = self.search_budget_bytes.checked_sub(long.len())?;
            if let Some(start) = finder.find(long.as_bytes()) {
                return Some(ValueTemplate::Text(vec![slice(
                    pointer,
                    start,
                    start + text.len(),
                )]));
            }
        }
        None
    }
}

/// Returns a literal for a template without references, else the template.
fn collapse<'b>(json: &Json<'b>, template: ValueTemplate<'b>) -> ValueTemplate<'b> {
    let plain = |template: &ValueTemplate| matches!(template, ValueTemplate::Literal(_));
    let all_plain = match &template {
        ValueTemplate::Array(items) => items.iter().all(plain),
        ValueTemplate::Object(members) => members.iter().all(|(_, value)| plain(value)),
        _ => false,
    };
    if all_plain {
        ValueTemplate::Literal(json.clone())
    } else {
        template
    }
}

/// Returns `new` as a prefix and a suffix of `old` with other text in between, if these are long
/// enough.
fn splice<'b>(pointer: &str, old: &str, new: &str) -> Option<ValueTemplate<'b>> {
    let (head, tail) = common_ends(old, new);
    if head + tail < SHORTEST_REFERENCE_BYTES * 2 {
        return None;
    }
    let middle = &new[head..new.len() - tail];
    let mut pieces = Vec::new();
    if head > 0 {
        pieces.push(slice(pointer, 0, head));
    }
    if !middle.is_empty() {
        pieces.push(TextFragment::Literal(Cow::Owned(middle.to_owned())));
    }
    if tail > 0 {
        pieces.push(slice(pointer, old.len() - tail, old.len()));
    }
    Some(ValueTemplate::Text(pieces))
}

/// Returns the lengths of the longest common prefix, and of the longest common suffix after it.
fn common_ends(old: &str, new: &str) -> (usize, usize) {
    let head = common_length(old.chars().zip(new.chars()));
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = common_length(old_rest.chars().rev().zip(new_rest.chars().rev()));
    (head, tail)
}

/// Returns the length in bytes of the equal characters at the start.
fn common_length(pairs: impl Iterator<Item = (char, char)>) -> usize {
    pairs
        .take_while(|(left, right)| left == right)
        .map(|(letter, _)| letter.len_utf8())
        .sum()
}

fn slice<'b>(pointer: &str, start: usize, end: usize) -> TextFragment<'b> {
    TextFragment::Slice {
        pointer: pointer.to_owned(),
        start,
        end,
    }
}

/// Appends one token to a JSON pointer (RFC 6901).
pub(super) fn push_token(pointer: &mut String, token: PointerToken) {
    pointer.push('/');
    match token {
        // Writing to a string can't fail.
        PointerToken::Index(index) => _ = write!(pointer, "{index}"),
        PointerToken::Key(key) if !key.bytes().any(|byte| matches!(byte, b'~' | b'/')) => {
            pointer.push_str(key)
        }
        PointerToken::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
    }
}

/// One token of a pointer.
#[derive(Clone, Copy)]
pub(super) enum PointerToken<'t> {
    Index(usize),
    Key(&'t str),
}

fn hash_of(json: &Json) -> (u64, usize) {
    tree_hash(json, |_, child| hash_of(child))
}

/// Returns a hash that is equal for identical trees, and the approximate length of the tree's JSON.
/// `child` returns the same for a child.
fn tree_hash<'a>(
    json: &'a Json<'a>,
    mut child: impl FnMut(PointerToken<'a>, &'a Json<'a>) -> (u64, usize),
) -> (u64, usize) {
    let mut size = 2;
    let hash = match json {
        Json::Null => mix(1, 0),
        Json::Bool(value) => mix(2, u64::from(*value)),
        Json::Number(number) => {
            size = number.as_str().len();
            text_hash(3, number.as_str())
        }
        Json::String(text) => {
            size += text.len();
            string_hash(text)
        }
        Json::Array(items) => {
            let hashes = items.iter().enumerate().map(|(index, item)| {
                let (hash, length) = child(PointerToken::Index(index), item);
                size += length;
                hash
            });
            hashes.fold(mix(5, items.len() as u64), mix)
        }
        Json::Object(object) => {
            // Hashes of members are summed because their order is irrelevant.
            let members = object.iter().map(|(key, value)| {
                let (hash, length) = child(PointerToken::Key(key), value);
                size += length + key.len() + 3;
                text_hash(hash, key)
            });
            mix(6, members.fold(0, u64::wrapping_add))
        }
    };
    (hash, size)
}

/// Returns the [`tree_hash`] of a string.
fn string_hash(text: &str) -> u64 {
    text_hash(4, text)
}

/// Returns a hash of a text, continued from `state`. The hash may be weak: values with equal hashes
/// are compared, so a collision makes a patch longer but never wrong.
fn text_hash(state: u64, text: &str) -> u64 {
    hashed(state, |hasher| hasher.write(text.as_bytes()))
}

fn mix(state: u64, value: u64) -> u64 {
    hashed(state, |hasher| hasher.write_u64(value))
}

fn hashed(state: u64, feed: impl FnOnce(&mut FxHasher)) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(state);
    feed(&mut hasher);
    hasher.finish()
}

//! Finding texts and trees of the projection that a template can refer to.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::fmt::Write;
use std::hash::Hasher;

use gristmill_schemas::json::Json;
use memchr::memmem::Finder;
use rustc_hash::{FxHashMap, FxHasher};

use super::{TextPiece, ValueTemplate};

/// Texts shorter than this are stored rather than referred to: a reference costs about as much.
const SHORTEST_REFERENCE_BYTES: usize = 24;
/// So many bytes of the projection are searched for pieces of texts in one diff.
const SEARCH_LIMIT_BYTES: usize = 8 << 20;

/// The strings, arrays and objects of one projection, by value.
pub(super) struct ReferenceIndex<'a> {
    /// Those that are worth a reference, by their hashes.
    known: FxHashMap<u64, (String, &'a Json<'a>)>,
    long_strings: Vec<(String, &'a str)>,
    search_budget_bytes: usize,
}

impl<'a> ReferenceIndex<'a> {
    pub(super) fn of(root: &'a Json<'a>) -> Self {
        let mut sources = ReferenceIndex {
            known: FxHashMap::default(),
            long_strings: Vec::new(),
            search_budget_bytes: SEARCH_LIMIT_BYTES,
        };
        sources.add(root, &mut String::new());
        sources
    }

    fn add(&mut self, json: &'a Json<'a>, pointer: &mut String) -> (u64, usize) {
        let length = pointer.len();
        let (hash, size) = tree_hash(json, |key, child| {
            push_token(pointer, key);
            let answer = self.add(child, pointer);
            pointer.truncate(length);
            answer
        });
        let is_worth_it = match json {
            Json::String(text) if text.len() >= SHORTEST_REFERENCE_BYTES => {
                self.long_strings.push((pointer.clone(), text));
                true
            }
            Json::Array(_) | Json::Object(_) => size >= SHORTEST_REFERENCE_BYTES,
            _ => false,
        };
        if is_worth_it {
            self.known
                .entry(hash)
                .or_insert_with(|| (pointer.clone(), json));
        }
        (hash, size)
    }

    /// `json` as a template that refers to the projection wherever that is shorter.
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

    fn tree<'b>(&self, json: &Json) -> Option<ValueTemplate<'b>> {
        let (hash, size) = hash_of(json);
        if size < SHORTEST_REFERENCE_BYTES {
            None
        } else {
            self.at(hash, |found| found.is_identical(json))
        }
    }

    /// A reference to what is known by `hash`, if it `is_it` indeed.
    fn at<'b>(&self, hash: u64, is_it: impl FnOnce(&Json) -> bool) -> Option<ValueTemplate<'b>> {
        let (pointer, found) = self.known.get(&hash)?;
        is_it(found).then(|| ValueTemplate::At(pointer.clone()))
    }

    /// `text` as a template; `old` is the string that stood in its place, with its pointer.
    pub(super) fn text<'b>(
        &mut self,
        text: &Cow<'b, str>,
        old: Option<(&str, &str)>,
    ) -> ValueTemplate<'b> {
        let literal = || ValueTemplate::Literal(Json::String(text.clone()));
        if text.len() < SHORTEST_REFERENCE_BYTES {
            return literal();
        }
        let whole = self.at(string_hash(text), |found| found.as_str() == Some(text));
        let spliced = || old.and_then(|(pointer, old)| splice(pointer, old, text));
        whole
            .or_else(spliced)
            .or_else(|| self.slice(text))
            .unwrap_or_else(literal)
    }

    /// `text` as a piece of a longer string of the projection.
    fn slice<'b>(&mut self, text: &str) -> Option<ValueTemplate<'b>> {
        // Getting ready to search takes about as long as searching, so it is done once for all.
        let sought = LazyCell::new(|| Finder::new(text));
        for (pointer, long) in self
            .long_strings
            .iter()
            .filter(|(_, long)| long.len() > text.len())
        {
            self.search_budget_bytes = self.search_budget_bytes.checked_sub(long.len())?;
            if let Some(start) = sought.find(long.as_bytes()) {
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

/// A template without references is the value itself.
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

/// `new` as the start and the end of `old` with something else between.
fn splice<'b>(pointer: &str, old: &str, new: &str) -> Option<ValueTemplate<'b>> {
    let same = |(left, right): &(char, char)| left == right;
    let head: usize = old
        .chars()
        .zip(new.chars())
        .take_while(same)
        .map(|(letter, _)| letter.len_utf8())
        .sum();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let backwards = old_rest.chars().rev().zip(new_rest.chars().rev());
    let tail: usize = backwards
        .take_while(same)
        .map(|(letter, _)| letter.len_utf8())
        .sum();
    if head + tail < SHORTEST_REFERENCE_BYTES * 2 {
        return None;
    }
    let middle = &new_rest[..new_rest.len() - tail];
    let mut pieces = Vec::new();
    if head > 0 {
        pieces.push(slice(pointer, 0, head));
    }
    if !middle.is_empty() {
        pieces.push(TextPiece::Literal(Cow::Owned(middle.to_owned())));
    }
    if tail > 0 {
        pieces.push(slice(pointer, old.len() - tail, old.len()));
    }
    Some(ValueTemplate::Text(pieces))
}

fn slice<'b>(pointer: &str, start: usize, end: usize) -> TextPiece<'b> {
    TextPiece::Slice {
        pointer: pointer.to_owned(),
        start,
        end,
    }
}

/// Appends one step to a JSON pointer (RFC 6901).
pub(super) fn push_token(pointer: &mut String, token: PointerToken) {
    pointer.push('/');
    match token {
        // Nothing fails that is written to a string.
        PointerToken::Index(index) => _ = write!(pointer, "{index}"),
        PointerToken::Key(key) if !key.bytes().any(|byte| matches!(byte, b'~' | b'/')) => {
            pointer.push_str(key)
        }
        PointerToken::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
    }
}

/// One step of a pointer.
#[derive(Clone, Copy)]
pub(super) enum PointerToken<'t> {
    Index(usize),
    Key(&'t str),
}

fn hash_of(json: &Json) -> (u64, usize) {
    tree_hash(json, |_, child| hash_of(child))
}

/// A hash that is equal for identical trees, and about how long the tree's JSON is.
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
            // The order of members doesn't count, so their hashes are summed.
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

/// The [`tree_hash`] of a string.
fn string_hash(text: &str) -> u64 {
    text_hash(4, text)
}

/// A hash of a text that goes on from another. Who makes two texts collide gets a longer patch,
/// never a wrong one: whatever is found by hash is compared.
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

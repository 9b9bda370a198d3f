//! Computation of patches.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

use super::align::align;
use super::json_text::JsonStyle;
use super::reference_index::{PointerToken, ReferenceIndex, push_token};
use super::{ArrayEdit, MemberEdit, Patch, ValueTemplate};

/// Returns the patch that turns `old` into `new`, or `None` if they are identical (equal values,
/// and numbers with the same spelling).
///
/// The time is linear in both values, except for arrays of different lengths: pairing their items
/// takes time proportional to the product of the lengths, up to a limit.
pub fn diff<'b>(old: &Json, new: &Json<'b>) -> Option<Patch<'b>> {
    let mut differ = Differ {
        root: old,
        references: None,
        pointer: String::new(),
    };
    differ.value(old, new)
}

/// The state of one diff.
struct Differ<'a> {
    /// The old value, which templates refer to.
    root: &'a Json<'a>,
    /// Built when the first value must be stored.
    references: Option<ReferenceIndex<'a>>,
    /// The JSON pointer of the value that is compared.
    pointer: String,
}

impl<'a> Differ<'a> {
    fn value<'b>(&mut self, old: &Json, new: &Json<'b>) -> Option<Patch<'b>> {
        match (old, new) {
            (Json::String(old), Json::String(new)) if old == new => None,
            (Json::String(old), Json::String(new)) => Some(self.text(old, new)),
            (Json::Object(old), Json::Object(new)) => self.object(old, new),
            (Json::Array(old), Json::Array(new)) => self.array(old, new),
            (old, new) if old.is_identical(new) => None,
            (_, new) => Some(Patch::Replace(self.template(new))),
        }
    }

    fn text<'b>(&mut self, old: &str, new: &Cow<'b, str>) -> Patch<'b> {
        if let Some(style) = restyled(old, new) {
            return Patch::Restyle(style);
        }
        let pointer = std::mem::take(&mut self.pointer);
        let template = self.references().text(new, Some((&pointer, old)));
        self.pointer = pointer;
        Patch::Replace(template)
    }

    fn object<'b>(&mut self, old: &Object, new: &Object<'b>) -> Option<Patch<'b>> {
        let mut edits = Vec::new();
        let (old_members, new_members) = (old.index(), new.index());
        for key in old.keys().filter(|key| new_members.get(key).is_none()) {
            edits.push((Cow::Owned(key.to_owned()), MemberEdit::Remove));
        }
        for (key, value) in new.members() {
            if let Some(edit) = self.member(key, old_members.get(key), value) {
                edits.push((key.clone(), edit));
            }
        }
        (!edits.is_empty()).then_some(Patch::Members(edits))
    }

    /// Returns the edit of the member `key`, or `None` if it is identical.
    fn member<'b>(
        &mut self,
        key: &str,
        old: Option<&Json>,
        new: &Json<'b>,
    ) -> Option<MemberEdit<'b>> {
        let Some(old) = old else {
            return Some(MemberEdit::Set(self.template(new)));
        };
        let patch = self.at(PointerToken::Key(key), |differ| differ.value(old, new))?;
        Some(match patch {
            Patch::Replace(template) => MemberEdit::Set(template),
            // `{"~": P}` of an item of an array is a patch of an array in it.
            _ if key.is_empty() => MemberEdit::Set(self.template(new)),
            patch => MemberEdit::Change(patch),
        })
    }

    fn array<'b>(&mut self, old: &[Json], new: &[Json<'b>]) -> Option<Patch<'b>> {
        let mut edits = ArrayEdits::default();
        let (mut old_at, mut new_at) = (0, 0);
        let end = (old.len(), new.len());
        for (left, right) in align(old, new).into_iter().chain([end]) {
            edits.skip(left - old_at);
            for item in &new[new_at..right] {
                edits.push(ArrayEdit::Insert(self.template(item)));
            }
            if let (Some(old), Some(new)) = (old.get(left), new.get(right)) {
                match self.at(PointerToken::Index(left), |differ| differ.value(old, new)) {
                    None => edits.keep(),
                    Some(patch) => edits.push(ArrayEdit::Change(patch)),
                }
            }
            (old_at, new_at) = (left + 1, right + 1);
        }
        edits.finish().map(Patch::Items)
    }

    fn template<'b>(&mut self, new: &Json<'b>) -> ValueTemplate<'b> {
        match new {
            // Too small for a reference: the index needn't be built.
            Json::Null | Json::Bool(_) | Json::Number(_) => ValueTemplate::Literal(new.clone()),
            Json::Array(items) if items.is_empty() => {
                ValueTemplate::Literal(Json::Array(Vec::new()))
            }
            _ => self.references().template(new),
        }
    }

    fn references(&mut self) -> &mut ReferenceIndex<'a> {
        self.references
            .get_or_insert_with(|| ReferenceIndex::of(self.root))
    }

    /// Calls `inside` with the pointer extended by `token`.
    fn at<T>(&mut self, token: PointerToken, inside: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.pointer.len();
        push_token(&mut self.pointer, token);
        let result = inside(self);
        self.pointer.truncate(length);
        result
    }
}

/// Returns a style in which the JSON inside `old` is formatted exactly as `new`, if there is one.
fn restyled(old: &str, new: &str) -> Option<JsonStyle> {
    let looks_like_json = |text: &str| text.starts_with(['{', '[']);
    if !looks_like_json(old) || !looks_like_json(new) {
        return None;
    }
    let (old, value) = (
        Json::parse(old.as_bytes()).ok()?,
        Json::parse(new.as_bytes()).ok()?,
    );
    // The order of members matters: the style is applied to the value of the old text.
    let style = JsonStyle::of(new, &value)?;
    (style.write(&old) == new).then_some(style)
}

/// Collects edits of an array. Consecutive kept items are one edit; trailing ones need none.
#[derive(Default)]
struct ArrayEdits<'b> {
    edits: Vec<ArrayEdit<'b>>,
}

impl<'b> ArrayEdits<'b> {
    fn push(&mut self, edit: ArrayEdit<'b>) {
        self.edits.push(edit);
    }

    fn keep(&mut self) {
        match self.edits.last_mut() {
            Some(ArrayEdit::Keep(count)) => *count += 1,
            _ => self.edits.push(ArrayEdit::Keep(1)),
        }
    }

    fn skip(&mut self, count: usize) {
        if count > 0 {
            self.edits.push(ArrayEdit::Skip(count));
        }
    }

    fn finish(mut self) -> Option<Vec<ArrayEdit<'b>>> {
        if let Some(ArrayEdit::Keep(_)) = self.edits.last() {
            self.edits.pop();
        }
        (!self.edits.is_empty()).then_some(self.edits)
    }
}

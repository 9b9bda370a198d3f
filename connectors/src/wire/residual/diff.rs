//! Making a patch.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

use super::align::align;
use super::json_text::JsonStyle;
use super::reference_index::{PointerToken, ReferenceIndex, push_token};
use super::{ArrayEdit, MemberEdit, Patch, ValueTemplate};

/// What turns `old` into `new`; `None` if they are identical already (value for value, numbers to
/// the letter).
///
/// Takes time linear in both, but for arrays whose lengths differ, whose items are paired (up to a
/// limit) at the cost of their product.
pub fn diff<'b>(old: &Json, new: &Json<'b>) -> Option<Patch<'b>> {
    let mut differ = Differ {
        root: old,
        sources: None,
        pointer: String::new(),
    };
    differ.value(old, new)
}

struct Differ<'a> {
    root: &'a Json<'a>,
    /// Built when the first value has to be stored.
    sources: Option<ReferenceIndex<'a>>,
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
        let template = self.sources().text(new, Some((&pointer, old)));
        self.pointer = pointer;
        Patch::Replace(template)
    }

    fn object<'b>(&mut self, old: &Object, new: &Object<'b>) -> Option<Patch<'b>> {
        let mut edits = Vec::new();
        let (before, after) = (old.lookup(), new.lookup());
        for key in old.keys().filter(|key| after.get(key).is_none()) {
            edits.push((Cow::Owned(key.to_owned()), MemberEdit::Remove));
        }
        for (key, value) in new.members() {
            let edit = match before.get(key) {
                None => MemberEdit::Set(self.template(value)),
                Some(old) => {
                    match self.at(PointerToken::Key(key), |differ| differ.value(old, value)) {
                        None => continue,
                        Some(Patch::Replace(template)) => MemberEdit::Set(template),
                        Some(patch) => MemberEdit::Change(patch),
                    }
                }
            };
            edits.push((key.clone(), edit));
        }
        (!edits.is_empty()).then_some(Patch::Members(edits))
    }

    fn array<'b>(&mut self, old: &[Json], new: &[Json<'b>]) -> Option<Patch<'b>> {
        let mut steps = ArrayEdits::default();
        let (mut old_at, mut new_at) = (0, 0);
        for (left, right) in align(old, new).into_iter().chain([(old.len(), new.len())]) {
            steps.skip(left - old_at);
            for item in &new[new_at..right] {
                steps.done.push(ArrayEdit::Insert(self.template(item)));
            }
            if let (Some(before), Some(after)) = (old.get(left), new.get(right)) {
                match self.at(PointerToken::Index(left), |differ| {
                    differ.value(before, after)
                }) {
                    None => steps.keep(),
                    Some(patch) => steps.done.push(ArrayEdit::Change(patch)),
                }
            }
            (old_at, new_at) = (left + 1, right + 1);
        }
        steps.finish().map(Patch::Items)
    }

    fn template<'b>(&mut self, new: &Json<'b>) -> ValueTemplate<'b> {
        match new {
            // What can't hold anything worth a reference needs no look at the projection.
            Json::Null | Json::Bool(_) | Json::Number(_) => ValueTemplate::Literal(new.clone()),
            Json::Array(items) if items.is_empty() => {
                ValueTemplate::Literal(Json::Array(Vec::new()))
            }
            _ => self.sources().template(new),
        }
    }

    fn sources(&mut self) -> &mut ReferenceIndex<'a> {
        self.sources
            .get_or_insert_with(|| ReferenceIndex::of(self.root))
    }

    fn at<T>(&mut self, token: PointerToken, inside: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.pointer.len();
        push_token(&mut self.pointer, token);
        let answer = inside(self);
        self.pointer.truncate(length);
        answer
    }
}

/// The style of `new`, if both texts spell the same JSON and a style writes it so.
fn restyled(old: &str, new: &str) -> Option<JsonStyle> {
    let looks_like_json = |text: &str| text.starts_with(['{', '[']);
    if !looks_like_json(old) || !looks_like_json(new) {
        return None;
    }
    let (old, value) = (
        Json::parse(old.as_bytes()).ok()?,
        Json::parse(new.as_bytes()).ok()?,
    );
    // Order counts here: the style is applied to what the old text spells.
    let style = JsonStyle::of(new, &value)?;
    (style.write(&old) == new).then_some(style)
}

/// Steps being gathered: what is kept or skipped in a row is one step, and the end needs none.
#[derive(Default)]
struct ArrayEdits<'b> {
    done: Vec<ArrayEdit<'b>>,
}

impl<'b> ArrayEdits<'b> {
    fn keep(&mut self) {
        match self.done.last_mut() {
            Some(ArrayEdit::Keep(count)) => *count += 1,
            _ => self.done.push(ArrayEdit::Keep(1)),
        }
    }

    fn skip(&mut self, count: usize) {
        if count > 0 {
            self.done.push(ArrayEdit::Skip(count));
        }
    }

    fn finish(mut self) -> Option<Vec<ArrayEdit<'b>>> {
        if let Some(ArrayEdit::Keep(_)) = self.done.last() {
            self.done.pop();
        }
        (!self.done.is_empty()).then_some(self.done)
    }
}

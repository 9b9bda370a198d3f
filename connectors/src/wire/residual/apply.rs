//! Application of patches.

use std::borrow::Cow;
use std::collections::HashMap;

use gristmill_schemas::json::{Json, Object};

use super::{ArrayEdit, MemberEdit, Patch, TextFragment, ValueTemplate};

/// The most bytes that a patch may copy from the value that it is applied to. Residuals stay far
/// below it; a patch that exceeds it was crafted.
pub const OUTPUT_LIMIT_BYTES: usize = 256 << 20;

/// Why a patch can't be applied to a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// It patches a value of another kind.
    #[error("the patch expects {expected}, the value is {found}")]
    Kind {
        /// The kind that the patch requires.
        expected: &'static str,
        /// The kind of the value.
        found: &'static str,
    },
    /// It refers to a member or text that doesn't exist.
    #[error("the patch refers to `{0}`, which doesn't exist")]
    Reference(String),
    /// It edits more items than the array has.
    #[error("the patch goes past the end of an array of {0} items")]
    PastEnd(usize),
    /// It copies more than [`OUTPUT_LIMIT_BYTES`].
    #[error("the patch copies more than {OUTPUT_LIMIT_BYTES} bytes")]
    TooLarge,
}

/// Applies `patch` to `old` and returns the new value.
///
/// # Errors
/// If the patch wasn't computed from this value.
pub fn apply<'a>(patch: &Patch<'a>, old: &Json<'a>) -> Result<Json<'a>, ApplyError> {
    let mut applier = Applier {
        root: old,
        budget_bytes: OUTPUT_LIMIT_BYTES,
    };
    applier.patch(patch, old)
}

struct Applier<'r, 'a> {
    root: &'r Json<'a>,
    budget_bytes: usize,
}

impl<'r, 'a> Applier<'r, 'a> {
    fn patch(&mut self, patch: &Patch<'a>, old: &Json<'a>) -> Result<Json<'a>, ApplyError> {
        match (patch, old) {
            (Patch::Replace(template), _) => self.template(template),
            (Patch::Restyle(style), Json::String(text)) => {
                let value = Json::parse(text.as_bytes())
                    .map_err(|_| kind_error("a string of JSON", old))?;
                Ok(Json::from(style.write(&value)))
            }
            (Patch::Members(edits), Json::Object(object)) => self.members(edits, object),
            (Patch::Items(steps), Json::Array(items)) => self.items(steps, items),
            (Patch::Restyle(_), _) => Err(kind_error("a string of JSON", old)),
            (Patch::Members(_), _) => Err(kind_error("an object", old)),
            (Patch::Items(_), _) => Err(kind_error("an array", old)),
        }
    }

    fn members(
        &mut self,
        edits: &[(Cow<'a, str>, MemberEdit<'a>)],
        old: &Object<'a>,
    ) -> Result<Json<'a>, ApplyError> {
        let by_key: HashMap<&str, &MemberEdit> =
            edits.iter().map(|(key, edit)| (&**key, edit)).collect();
        let mut new = Vec::with_capacity(old.len() + edits.len());
        for (key, value) in old.members() {
            let value = match by_key.get(&**key) {
                None => value.clone(),
                Some(MemberEdit::Remove) => continue,
                Some(MemberEdit::Set(template)) => self.template(template)?,
                Some(MemberEdit::Change(patch)) => self.patch(patch, value)?,
            };
            new.push((key.clone(), value));
        }
        self.add_members(edits, old, &mut new)?;
        Ok(Json::Object(new.into_iter().collect()))
    }

    /// Adds the members that `old` doesn't have.
    fn add_members(
        &mut self,
        edits: &[(Cow<'a, str>, MemberEdit<'a>)],
        old: &Object<'a>,
        new: &mut Vec<(Cow<'a, str>, Json<'a>)>,
    ) -> Result<(), ApplyError> {
        let old_members = old.index();
        let is_new = |key: &str| old_members.get(key).is_none();
        for (key, edit) in edits.iter().filter(|(key, _)| is_new(key)) {
            let MemberEdit::Set(template) = edit else {
                return Err(ApplyError::Reference(key.to_string()));
            };
            new.push((key.clone(), self.template(template)?));
        }
        Ok(())
    }

    fn items(&mut self, steps: &[ArrayEdit<'a>], old: &[Json<'a>]) -> Result<Json<'a>, ApplyError> {
        let (mut rest, mut new) = (old, Vec::with_capacity(old.len()));
        let past_end = || ApplyError::PastEnd(old.len());
        for step in steps {
            match step {
                ArrayEdit::Keep(count) => {
                    let (kept, after) = rest.split_at_checked(*count).ok_or_else(past_end)?;
                    new.extend(kept.iter().cloned());
                    rest = after;
                }
                ArrayEdit::Skip(count) => rest = rest.get(*count..).ok_or_else(past_end)?,
                ArrayEdit::Change(patch) => {
                    let (item, after) = rest.split_first().ok_or_else(past_end)?;
                    new.push(self.patch(patch, item)?);
                    rest = after;
                }
                ArrayEdit::Insert(template) => new.push(self.template(template)?),
            }
        }
        new.extend(rest.iter().cloned());
        Ok(Json::Array(new))
    }

    /// Returns a copy of the value that a pointer selects.
    fn copy_of(&mut self, pointer: &str) -> Result<Json<'a>, ApplyError> {
        let found = self.at(pointer)?;
        self.spend(found)?;
        Ok(found.clone())
    }

    fn template(&mut self, template: &ValueTemplate<'a>) -> Result<Json<'a>, ApplyError> {
        Ok(match template {
            ValueTemplate::Literal(json) => json.clone(),
            ValueTemplate::At(pointer) => self.copy_of(pointer)?,
            ValueTemplate::Text(pieces) => Json::from(self.text(pieces)?),
            ValueTemplate::Array(items) => Json::Array(
                items
                    .iter()
                    .map(|item| self.template(item))
                    .collect::<Result<_, _>>()?,
            ),
            ValueTemplate::Object(members) => {
                let members = members
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.template(value)?)));
                Json::Object(members.collect::<Result<_, ApplyError>>()?)
            }
        })
    }

    fn text(&mut self, pieces: &[TextFragment]) -> Result<String, ApplyError> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                TextFragment::Literal(literal) => text.push_str(literal),
                TextFragment::Slice {
                    pointer,
                    start,
                    end,
                } => text.push_str(self.slice(pointer, *start, *end)?),
            }
        }
        Ok(text)
    }

    fn slice(&mut self, pointer: &str, start: usize, end: usize) -> Result<&'r str, ApplyError> {
        let text = self.at(pointer)?.as_str();
        let slice = text
            .and_then(|text| text.get(start..end))
            .ok_or_else(|| ApplyError::Reference(format!("{pointer}[{start}..{end}]")))?;
        self.budget_bytes = self
            .budget_bytes
            .checked_sub(slice.len())
            .ok_or(ApplyError::TooLarge)?;
        Ok(slice)
    }

    fn at(&self, pointer: &str) -> Result<&'r Json<'a>, ApplyError> {
        lookup(self.root, pointer).ok_or_else(|| ApplyError::Reference(pointer.to_owned()))
    }

    /// Subtracts the nodes that a reference copies from the budget; the text of strings is
    /// borrowed.
    fn spend(&mut self, json: &Json) -> Result<(), ApplyError> {
        self.budget_bytes = self
            .budget_bytes
            .checked_sub(size_of::<Json>())
            .ok_or(ApplyError::TooLarge)?;
        match json {
            Json::Array(items) => items.iter().try_for_each(|item| self.spend(item)),
            Json::Object(object) => object.iter().try_for_each(|(_, value)| self.spend(value)),
            _ => Ok(()),
        }
    }
}

/// Returns the value at a JSON pointer (RFC 6901).
fn lookup<'r, 'a>(root: &'r Json<'a>, pointer: &str) -> Option<&'r Json<'a>> {
    if pointer.is_empty() {
        return Some(root);
    }
    let tokens = pointer.strip_prefix('/')?.split('/');
    tokens
        .map(|token| token.replace("~1", "/").replace("~0", "~"))
        .try_fold(root, |json, token| match json {
            Json::Array(items) => items.get(token.parse::<usize>().ok()?),
            json => json.get(&token),
        })
}

fn kind_error(expected: &'static str, found: &Json) -> ApplyError {
    ApplyError::Kind {
        expected,
        found: found.kind(),
    }
}

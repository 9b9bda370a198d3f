//! A JSON object that keeps the order of its members.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Json;
use super::parse::HASHED_FROM;

/// Members in the order in which they were written, each key once. Look-ups are linear: the objects of messages and grains are
/// small. Equality ignores the order.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Json<'a>)>,
}

impl<'a> Object<'a> {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wraps members whose keys are known to differ.
    pub(super) fn from_distinct(members: Vec<(Cow<'a, str>, Json<'a>)>) -> Self {
        Object { members }
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value of `key`, for change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json<'a>> {
        self.members.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// True if there is a member `key`, even a null one.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets `key`, in its place if it exists and at the end if it doesn't; answers the value that it replaces.
    pub fn insert(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Json<'a>>) -> Option<Json<'a>> {
        let key = key.into();
        match self.get_mut(&key) {
            Some(slot) => Some(std::mem::replace(slot, value.into())),
            None => {
                self.members.push((key, value.into()));
                None
            }
        }
    }

    /// Adds a member whose key is known to be new, without looking for it: a loop of [`Object::insert`] is quadratic.
    pub fn append_new(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Json<'a>>) {
        self.members.push((key.into(), value.into()));
    }

    /// Takes `key` out, keeping the order of the others.
    pub fn remove(&mut self, key: &str) -> Option<Json<'a>> {
        let at = self.members.iter().position(|(name, _)| name == key)?;
        Some(self.members.remove(at).1)
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json<'a>)> {
        self.members.iter().map(|(key, value)| (&**key, value))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.members.iter().map(|(key, _)| &**key)
    }

    /// The members in order, their values for change.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Json<'a>)> {
        self.members.iter_mut().map(|(key, value)| (&**key, value))
    }

    /// The same object borrowing all its text from `self`: the tree is copied, the text isn't.
    pub fn reborrow(&self) -> Object<'_> {
        let members = self.members.iter();
        Object { members: members.map(|(key, value)| (Cow::Borrowed(&**key), value.reborrow())).collect() }
    }

    /// The same object, owning all its text.
    pub fn into_owned(self) -> Object<'static> {
        let members = self.members.into_iter();
        Object { members: members.map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned())).collect() }
    }
}

impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if self.len() < HASHED_FROM {
            return self.iter().all(|(key, value)| other.get(key) == Some(value));
        }
        let by_key: HashMap<&str, &Json> = other.iter().collect();
        self.iter().all(|(key, value)| by_key.get(key) == Some(&value))
    }
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (Cow<'a, str>, Json<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<Json<'a>>> FromIterator<(K, V)> for Object<'a> {
    /// Later members replace earlier ones of the same key.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let mut object = Object::new();
        for (key, value) in members {
            object.insert(key, value);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_ignores_the_order_of_few_and_of_many_members() {
        for count in [3, 50_000] {
            let object = |keys: &mut dyn Iterator<Item = u64>| {
                let mut object = Object::new();
                keys.for_each(|key| object.append_new(key.to_string(), key));
                object
            };
            let (forwards, backwards) = (object(&mut (0..count)), object(&mut (0..count).rev()));
            assert!(forwards == backwards);
            let mut other = backwards.clone();
            other.insert("0", Json::Null);
            assert!(forwards != other);
            other.remove("0");
            other.append_new("x", 0_u64);
            assert!(forwards != other);
        }
    }
}

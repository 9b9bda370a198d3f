//! A JSON object that keeps the order of its members.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Json;
use super::parse::HASHED_FROM;

/// Members in the order in which they were written, each key once. Look-ups are linear: the objects
/// of messages and grains are small. Equality ignores the order.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Json<'a>)>,
}

impl<'a> Object<'a> {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// An object without members that has room for so many.
    pub fn with_capacity(members: usize) -> Self {
        Object {
            members: Vec::with_capacity(members),
        }
    }

    /// Wraps members whose keys are known to differ.
    pub fn from_distinct(members: Vec<(Cow<'a, str>, Json<'a>)>) -> Self {
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
        self.members
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The value of `key`, for change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json<'a>> {
        self.members
            .iter_mut()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// True if there is a member `key`, even a null one.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets `key`, in its place if it exists and at the end if it doesn't; answers the value that
    /// it replaces.
    pub fn insert(
        &mut self,
        key: impl Into<Cow<'a, str>>,
        value: impl Into<Json<'a>>,
    ) -> Option<Json<'a>> {
        let key = key.into();
        match self.get_mut(&key) {
            Some(slot) => Some(std::mem::replace(slot, value.into())),
            None => {
                self.members.push((key, value.into()));
                None
            }
        }
    }

    /// Adds a member whose key is known to be new, without looking for it: a loop of
    /// [`Object::insert`] is quadratic.
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

    /// The members in order, as they are held.
    pub fn members(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        &self.members
    }

    /// For many look-ups in a row: builds a hash table if the object is large, so that none of them
    /// is linear.
    pub fn lookup(&self) -> Lookup<'_, 'a> {
        let hashed = self.len() >= HASHED_FROM;
        let table = hashed.then(|| {
            self.members
                .iter()
                .map(|(key, value)| (&**key, value))
                .collect()
        });
        Lookup {
            object: self,
            table,
        }
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
        Object {
            members: members
                .map(|(key, value)| (Cow::Borrowed(&**key), value.reborrow()))
                .collect(),
        }
    }

    /// The same object, owning all its text.
    pub fn into_owned(self) -> Object<'static> {
        let members = self.members.into_iter();
        Object {
            members: members
                .map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned()))
                .collect(),
        }
    }
}

/// See [`Object::lookup`].
#[derive(Debug)]
pub struct Lookup<'o, 'a> {
    object: &'o Object<'a>,
    table: Option<HashMap<&'o str, &'o Json<'a>>>,
}

impl<'o, 'a> Lookup<'o, 'a> {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&'o Json<'a>> {
        match &self.table {
            Some(table) => table.get(key).copied(),
            None => self.object.get(key),
        }
    }
}

impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        let twins = other.lookup();
        self.iter()
            .all(|(key, value)| twins.get(key) == Some(value))
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
        let members = members.into_iter();
        let mut object = Object::with_capacity(members.size_hint().0);
        let mut places: HashMap<Cow<'a, str>, usize> = HashMap::new();
        for (key, value) in members {
            let (key, value) = (key.into(), value.into());
            if object.len() < HASHED_FROM {
                object.insert(key, value);
                continue;
            }
            if places.is_empty() {
                places = object
                    .members
                    .iter()
                    .enumerate()
                    .map(|(place, (key, _))| (key.clone(), place))
                    .collect();
            }
            match places.get(&key) {
                Some(&place) => object.members[place].1 = value,
                None => {
                    places.insert(key.clone(), object.len());
                    object.members.push((key, value));
                }
            }
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_objects_keep_each_key_once_and_compare_in_linear_time() {
        let members = |shift: u64| {
            (0..50_000u64).map(move |at| (((at + shift) % 40_000).to_string(), Json::from(at)))
        };
        let object: Object = members(0).collect();
        assert_eq!(object.len(), 40_000);
        assert_eq!(object.lookup().get("7"), Some(&Json::from(40_007u64)));
        let backwards = Object::from_distinct(object.members().iter().rev().cloned().collect());
        assert_eq!(object, backwards);
        assert!(object.is_identical(&backwards));
        assert_ne!(object, members(1).collect());
    }

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

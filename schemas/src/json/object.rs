//! A JSON object that keeps the order of its members.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Json;
use super::parse::HASH_INDEX_THRESHOLD;

/// Members in their original order, with unique keys. Lookups are linear, since the objects of
/// messages and grains are small. Equality ignores the order.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Json<'a>)>,
}

impl<'a> Object<'a> {
    /// Creates an empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty object with the given capacity.
    pub fn with_capacity(members: usize) -> Self {
        Object {
            members: Vec::with_capacity(members),
        }
    }

    /// Wraps members whose keys are known to be unique.
    pub fn from_unique_members(members: Vec<(Cow<'a, str>, Json<'a>)>) -> Self {
        Object { members }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the value of `key`. Linear in the number of members.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.members
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// Returns the value of `key`, mutably.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json<'a>> {
        self.members
            .iter_mut()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// Returns true if there is a member `key`, even a null one.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets `key`: replaces an existing member in place, else appends. Returns the replaced value.
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

    /// Appends a member whose key is known to be new, without a lookup; a loop of
    /// [`Object::insert`] is quadratic.
    pub fn push_unique(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Json<'a>>) {
        self.members.push((key.into(), value.into()));
    }

    /// Removes `key`, keeping the order of the other members.
    pub fn remove(&mut self, key: &str) -> Option<Json<'a>> {
        let at = self.members.iter().position(|(name, _)| name == key)?;
        Some(self.members.remove(at).1)
    }

    /// Returns the members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json<'a>)> {
        self.members.iter().map(|(key, value)| (&**key, value))
    }

    /// Returns the members in order as a slice.
    pub fn members(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        &self.members
    }

    /// Returns an index for repeated lookups: a hash table if the object is large, else a linear
    /// scan.
    pub fn index(&self) -> ObjectIndex<'_, 'a> {
        let hashed = self.len() >= HASH_INDEX_THRESHOLD;
        let table = hashed.then(|| {
            self.members
                .iter()
                .map(|(key, value)| (&**key, value))
                .collect()
        });
        ObjectIndex {
            object: self,
            table,
        }
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.members.iter().map(|(key, _)| &**key)
    }

    /// Returns the members in order, with mutable values.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Json<'a>)> {
        self.members.iter_mut().map(|(key, value)| (&**key, value))
    }

    /// Returns a copy of the object that borrows its text from `self`.
    pub fn reborrow(&self) -> Object<'_> {
        let members = self.members.iter();
        Object {
            members: members
                .map(|(key, value)| (Cow::Borrowed(&**key), value.reborrow()))
                .collect(),
        }
    }

    /// Returns the object with all its text owned.
    pub fn into_owned(self) -> Object<'static> {
        let members = self.members.into_iter();
        Object {
            members: members
                .map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned()))
                .collect(),
        }
    }
}

/// An index over the members of an object, see [`Object::index`].
#[derive(Debug)]
pub struct ObjectIndex<'o, 'a> {
    object: &'o Object<'a>,
    table: Option<HashMap<&'o str, &'o Json<'a>>>,
}

impl<'o, 'a> ObjectIndex<'o, 'a> {
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
        let index = other.index();
        self.iter()
            .all(|(key, value)| index.get(key) == Some(value))
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
    /// Collects members; a later member replaces an earlier one with the same key.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let members = members.into_iter();
        let mut object = Object::with_capacity(members.size_hint().0);
        let mut positions: HashMap<Cow<'a, str>, usize> = HashMap::new();
        for (key, value) in members {
            let (key, value) = (key.into(), value.into());
            if object.len() < HASH_INDEX_THRESHOLD {
                object.insert(key, value);
                continue;
            }
            if positions.is_empty() {
                positions = object
                    .members
                    .iter()
                    .enumerate()
                    .map(|(position, (key, _))| (key.clone(), position))
                    .collect();
            }
            match positions.get(&key) {
                Some(&position) => object.members[position].1 = value,
                None => {
                    positions.insert(key.clone(), object.len());
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
        assert_eq!(object.index().get("7"), Some(&Json::from(40_007u64)));
        let backwards =
            Object::from_unique_members(object.members().iter().rev().cloned().collect());
        assert_eq!(object, backwards);
        assert!(object.is_identical(&backwards));
        assert_ne!(object, members(1).collect());
    }

    #[test]
    fn equality_ignores_the_order_of_few_and_of_many_members() {
        for count in [3, 50_000] {
            let object = |keys: &mut dyn Iterator<Item = u64>| {
                let mut object = Object::new();
                keys.for_each(|key| object.push_unique(key.to_string(), key));
                object
            };
            let (forwards, backwards) = (object(&mut (0..count)), object(&mut (0..count).rev()));
            assert!(forwards == backwards);
            let mut other = backwards.clone();
            other.insert("0", Json::Null);
            assert!(forwards != other);
            other.remove("0");
            other.push_unique("x", 0_u64);
            assert!(forwards != other);
        }
    }
}

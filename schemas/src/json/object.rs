//! A JSON object that keeps the order of its members.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use super::Json;
use super::parse::HASH_INDEX_THRESHOLD;

/// Members in their original order, with unique keys. Lookups are linear in small objects, as those
/// of messages and grains are, and by hash in large ones that were parsed, collected or inserted
/// into. Equality ignores the order.
#[derive(Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Json<'a>)>,
    /// Set in large objects only, but not in all of them.
    positions: Option<Box<KeyPositions<'a>>>,
}

/// The positions of the members of a large object by their keys.
pub(super) struct KeyPositions<'a>(HashMap<Cow<'a, str>, usize>);

impl<'a> KeyPositions<'a> {
    /// Returns the positions of `members`.
    pub(super) fn of(members: &[(Cow<'a, str>, Json<'a>)]) -> Self {
        let keys = members.iter().enumerate();
        KeyPositions(keys.map(|(at, (key, _))| (key.clone(), at)).collect())
    }

    fn get(&self, key: &str) -> Option<usize> {
        self.0.get(key).copied()
    }

    /// Returns the position of `key`. If it has none, sets it to `next` and returns `None`.
    #[expect(
        clippy::ptr_arg,
        reason = "a borrowed key is cloned without a copy of its text"
    )]
    pub(super) fn get_or_insert(&mut self, key: &Cow<'a, str>, next: usize) -> Option<usize> {
        let known = self.get(key);
        if known.is_none() {
            self.0.insert(key.clone(), next);
        }
        known
    }

    /// Removes `key`, whose position is `removed`, and moves the members behind it.
    fn remove(&mut self, key: &str, removed: usize) {
        self.0.remove(key);
        let behind = self.0.values_mut().filter(|at| **at > removed);
        behind.for_each(|at| *at -= 1);
    }
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
            positions: None,
        }
    }

    /// Wraps members whose keys are known to be unique.
    pub fn from_unique_members(members: Vec<(Cow<'a, str>, Json<'a>)>) -> Self {
        Object {
            members,
            positions: None,
        }
    }

    /// As [`Object::from_unique_members`], for members whose positions are known if they are many.
    pub(super) fn from_indexed_members(
        members: Vec<(Cow<'a, str>, Json<'a>)>,
        positions: Option<KeyPositions<'a>>,
    ) -> Self {
        Object {
            members,
            positions: positions.map(Box::new),
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        let member = match &self.positions {
            None => self.members.iter().find(|(name, _)| name == key),
            Some(positions) => self.members.get(positions.get(key)?),
        };
        member.map(|(_, value)| value)
    }

    /// Returns the value of `key`, mutably.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Json<'a>> {
        let member = match &self.positions {
            None => self.members.iter_mut().find(|(name, _)| name == key),
            Some(positions) => self.members.get_mut(positions.get(key)?),
        };
        member.map(|(_, value)| value)
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
        if self.members.len() >= HASH_INDEX_THRESHOLD {
            return self.insert_by_hash(key, value.into());
        }
        match self.get_mut(&key) {
            Some(slot) => Some(std::mem::replace(slot, value.into())),
            None => {
                self.push_unique(key, value);
                None
            }
        }
    }

    /// As [`Object::insert`], in time that doesn't depend on the number of members, except the
    /// first time.
    fn insert_by_hash(&mut self, key: Cow<'a, str>, value: Json<'a>) -> Option<Json<'a>> {
        let members = &mut self.members;
        let positions = self
            .positions
            .get_or_insert_with(|| Box::new(KeyPositions::of(members)));
        let Some(at) = positions.get_or_insert(&key, members.len()) else {
            members.push((key, value));
            return None;
        };
        members
            .get_mut(at)
            .map(|(_, slot)| std::mem::replace(slot, value))
    }

    /// Appends a member whose key is known to be new, without a lookup.
    pub fn push_unique(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Json<'a>>) {
        let key = key.into();
        if let Some(positions) = &mut self.positions {
            positions.get_or_insert(&key, self.members.len());
        }
        self.members.push((key, value.into()));
    }

    /// Removes `key`, keeping the order of the other members. Linear in the number of members.
    pub fn remove(&mut self, key: &str) -> Option<Json<'a>> {
        let at = match &self.positions {
            None => self.members.iter().position(|(name, _)| name == key)?,
            Some(positions) => positions.get(key)?,
        };
        if let Some(positions) = &mut self.positions {
            positions.remove(key, at);
        }
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
        let hashed = self.positions.is_none() && self.len() >= HASH_INDEX_THRESHOLD;
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
        Object::from_unique_members(
            members
                .map(|(key, value)| (Cow::Borrowed(&**key), value.reborrow()))
                .collect(),
        )
    }

    /// Returns the object with all its text owned.
    pub fn into_owned(self) -> Object<'static> {
        let members = self.members.into_iter();
        Object::from_unique_members(
            members
                .map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned()))
                .collect(),
        )
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

impl Clone for Object<'_> {
    fn clone(&self) -> Self {
        Object::from_unique_members(self.members.clone())
    }
}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Object");
        shown.field("members", &self.members).finish()
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
        object.extend(members);
        object
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<Json<'a>>> Extend<(K, V)> for Object<'a> {
    /// Inserts members; each replaces an earlier one with the same key.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, members: I) {
        members.into_iter().for_each(|(key, value)| {
            self.insert(key, value);
        });
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

    #[test]
    fn a_large_object_finds_replaces_and_removes_its_members_in_constant_time() {
        // By linear look-ups this takes minutes.
        const KEYS: u64 = 200_000;
        let mut object = Object::new();
        for key in 0..KEYS {
            assert!(object.insert(key.to_string(), key).is_none());
        }
        for key in 0..KEYS {
            let replaced = object.insert(key.to_string(), key + 1);
            assert_eq!(replaced, Some(Json::from(key)));
        }
        object.push_unique("last", true);
        assert_eq!(object.remove("7"), Some(Json::from(8_u64)));
        assert!(!object.contains_key("7"));
        for key in (8..KEYS).chain(0..7) {
            let expected = Json::from(key + 1);
            assert_eq!(object.get(&key.to_string()), Some(&expected));
            assert_eq!(
                object.get_mut(&key.to_string()),
                Some(&mut expected.clone())
            );
        }
        assert_eq!(object.get("last"), Some(&Json::Bool(true)));
        let keys: Vec<&str> = object.keys().collect();
        assert_eq!(
            (keys.len(), keys[7], keys[keys.len() - 1]),
            (200_000, "8", "last")
        );
        assert_eq!(object.clone(), object);
    }

    #[test]
    fn the_positions_of_large_objects_take_no_room_in_other_values() {
        assert_eq!(size_of::<Json>(), 32);
    }
}

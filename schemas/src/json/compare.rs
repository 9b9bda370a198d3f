//! Comparison of JSON by spelling, and hashing of JSON by value.

use blake3::Hasher;

use super::{Json, Number, Object};

impl Json<'_> {
    /// Returns true if both values are equal *and* every number is spelled the same. The order of
    /// members is ignored.
    pub fn is_identical(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Number(left), Json::Number(right)) => left.as_str() == right.as_str(),
            (Json::Array(left), Json::Array(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|(left, right)| left.is_identical(right))
            }
            (Json::Object(left), Json::Object(right)) => left.is_identical(right),
            (Json::Number(_) | Json::Array(_) | Json::Object(_), _) => false,
            (left, right) => left == right,
        }
    }

    /// Updates `hasher` with the value: equal values, regardless of spelling and order, produce the
    /// same bytes, and different values different ones.
    pub fn hash_into(&self, hasher: &mut Hasher) {
        self.hash_into_without(&[], hasher);
    }

    /// As [`Json::hash_into`], without the members `excluded` of objects at any depth.
    pub fn hash_into_without(&self, excluded: &[&str], hasher: &mut Hasher) {
        let mut buffered = BufferedHasher::new(hasher);
        buffered.value(self, excluded);
        buffered.flush();
    }
}

impl Object<'_> {
    /// As [`Json::is_identical`].
    pub fn is_identical(&self, other: &Object) -> bool {
        if self.len() != other.len() {
            return false;
        }
        let index = other.index();
        self.iter().all(|(key, value)| {
            index
                .get(key)
                .is_some_and(|other| value.is_identical(other))
        })
    }

    /// As [`Json::hash_into`]: the members are hashed in the order of their keys.
    pub fn hash_into(&self, hasher: &mut Hasher) {
        let mut buffered = BufferedHasher::new(hasher);
        buffered.object(self, &[]);
        buffered.flush();
    }
}

/// Updates `hasher` with a string as [`Json::hash_into`] does with a string value.
pub fn hash_text(text: &str, hasher: &mut Hasher) {
    hasher.update(&tag(b's', text.len()));
    hasher.update(text.as_bytes());
}

/// Buffers updates of a hasher, which is much slower for many small updates than for one large one.
struct BufferedHasher<'h> {
    hasher: &'h mut Hasher,
    buffer: Vec<u8>,
}

/// The size of the buffer in bytes.
const BUFFER_BYTES: usize = 4096;

impl<'h> BufferedHasher<'h> {
    fn new(hasher: &'h mut Hasher) -> Self {
        BufferedHasher {
            hasher,
            buffer: Vec::with_capacity(BUFFER_BYTES),
        }
    }

    fn flush(&mut self) {
        self.hasher.update(&self.buffer);
        self.buffer.clear();
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush();
            if bytes.len() > BUFFER_BYTES {
                self.hasher.update(bytes);
                return;
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    fn value(&mut self, value: &Json, excluded: &[&str]) {
        match value {
            Json::Null => self.bytes(&tag(b'0', 0)),
            Json::Bool(value) => self.bytes(&tag(b'b', usize::from(*value))),
            Json::Number(number) => self.number(number),
            Json::String(text) => self.text(text),
            Json::Array(items) => {
                self.bytes(&tag(b'a', items.len()));
                items.iter().for_each(|item| self.value(item, excluded));
            }
            Json::Object(object) => self.object(object, excluded),
        }
    }

    fn object(&mut self, object: &Object, excluded: &[&str]) {
        let mut members: Vec<_> = object
            .iter()
            .filter(|(key, _)| !excluded.contains(key))
            .collect();
        self.bytes(&tag(b'o', members.len()));
        members.sort_unstable_by_key(|(key, _)| *key);
        for (key, value) in members {
            self.text(key);
            self.value(value, excluded);
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes(&tag(b's', text.len()));
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, number: &Number) {
        let (negative, digits, power) = number.decimal();
        self.bytes(&tag(if negative { b'-' } else { b'+' }, digits.len()));
        self.bytes(&digits);
        self.bytes(&power.to_le_bytes());
    }
}

/// Encodes a tag and a length, which delimit every value, so that different trees produce different
/// bytes.
fn tag(tag: u8, length: usize) -> [u8; 9] {
    let mut head = [tag; 9];
    head[1..].copy_from_slice(&(length as u64).to_le_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn digest(text: &str) -> blake3::Hash {
        let mut hasher = Hasher::new();
        json(text).hash_into(&mut hasher);
        hasher.finalize()
    }

    #[test]
    fn identity_distinguishes_spellings_of_numbers_and_equality_does_not() {
        let (left, right) = (
            json(r#"{"a":[1.0],"b":null}"#),
            json(r#"{"b":null,"a":[1]}"#),
        );
        assert!(left == right && !left.is_identical(&right));
        assert!(json(r#"{"b":1,"a":[2]}"#).is_identical(&json(r#"{"a":[2],"b":1}"#)));
        assert!(!json("[1]").is_identical(&json("[1,2]")));
        assert!(!json("1").is_identical(&json("\"1\"")));
    }

    #[test]
    fn equal_values_have_one_digest_and_different_ones_differ() {
        assert_eq!(
            digest(r#"{"a":1e2,"b":[true]}"#),
            digest(r#"{"b":[true],"a":100.0}"#)
        );
        for (left, right) in [
            ("[[1],2]", "[[1,2]]"),
            ("\"1\"", "1"),
            ("{}", "[]"),
            ("null", "false"),
            ("-1", "1"),
        ] {
            assert_ne!(digest(left), digest(right), "{left} {right}");
        }
    }
}

//! Two ways to compare JSON beside equality by value: to the letter, and by digest.

use blake3::Hasher;

use super::{Json, Number, Object};

impl Json<'_> {
    /// True if both are the same value *and* every number is spelled the same. Order of members
    /// doesn't count.
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

    /// Feeds the value to `hasher` so that equal values, whatever their spelling and order, feed
    /// the same bytes and different values different ones.
    pub fn feed(&self, hasher: &mut Hasher) {
        self.feed_without(&[], hasher);
    }

    /// [`Json::feed`] of the value without the members `left_out` of objects, however deep.
    pub fn feed_without(&self, left_out: &[&str], hasher: &mut Hasher) {
        let mut feed = Feed::new(hasher);
        feed.value(self, left_out);
        feed.flush();
    }
}

impl Object<'_> {
    /// [`Json::is_identical`] of the members.
    pub fn is_identical(&self, other: &Object) -> bool {
        if self.len() != other.len() {
            return false;
        }
        let twins = other.lookup();
        self.iter()
            .all(|(key, value)| twins.get(key).is_some_and(|twin| value.is_identical(twin)))
    }

    /// [`Json::feed`] of the object, its members in the order of their keys.
    pub fn feed(&self, hasher: &mut Hasher) {
        let mut feed = Feed::new(hasher);
        feed.object(self, &[]);
        feed.flush();
    }
}

/// Feeds a string as [`Json::feed`] feeds a string value.
pub fn feed_text(text: &str, hasher: &mut Hasher) {
    hasher.update(&tag(b's', text.len()));
    hasher.update(text.as_bytes());
}

/// Bytes on their way to a hasher, which takes many small pieces much more slowly than one large.
struct Feed<'h> {
    hasher: &'h mut Hasher,
    waiting: Vec<u8>,
}

/// So many bytes are fed at once.
const FED_AT_ONCE_BYTES: usize = 4096;

impl<'h> Feed<'h> {
    fn new(hasher: &'h mut Hasher) -> Self {
        Feed {
            hasher,
            waiting: Vec::with_capacity(FED_AT_ONCE_BYTES),
        }
    }

    fn flush(&mut self) {
        self.hasher.update(&self.waiting);
        self.waiting.clear();
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.waiting.len() + bytes.len() > FED_AT_ONCE_BYTES {
            self.flush();
            if bytes.len() > FED_AT_ONCE_BYTES {
                self.hasher.update(bytes);
                return;
            }
        }
        self.waiting.extend_from_slice(bytes);
    }

    fn value(&mut self, value: &Json, left_out: &[&str]) {
        match value {
            Json::Null => self.bytes(&tag(b'0', 0)),
            Json::Bool(value) => self.bytes(&tag(b'b', usize::from(*value))),
            Json::Number(number) => self.number(number),
            Json::String(text) => self.text(text),
            Json::Array(items) => {
                self.bytes(&tag(b'a', items.len()));
                items.iter().for_each(|item| self.value(item, left_out));
            }
            Json::Object(object) => self.object(object, left_out),
        }
    }

    fn object(&mut self, object: &Object, left_out: &[&str]) {
        let mut members: Vec<_> = object
            .iter()
            .filter(|(key, _)| !left_out.contains(key))
            .collect();
        self.bytes(&tag(b'o', members.len()));
        members.sort_unstable_by_key(|(key, _)| *key);
        for (key, value) in members {
            self.text(key);
            self.value(value, left_out);
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

/// A tag and a length delimit every value, so no two different trees feed the same bytes.
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
        json(text).feed(&mut hasher);
        hasher.finalize()
    }

    #[test]
    fn identity_minds_the_spelling_of_numbers_and_equality_does_not() {
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

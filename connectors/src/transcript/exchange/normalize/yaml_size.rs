//! The size of a YAML file whose aliases are resolved, against bombs: each alias is a copy of what
//! it refers to, so a few megabytes may denote terabytes.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// The approximate size of a value in bytes, besides its text.
const VALUE_BYTES: usize = 32;

/// Returns an error if `text` isn't YAML, or has more than `limit` bytes in memory.
pub(super) fn check(text: &str, limit: usize) -> Result<(), serde_norway::Error> {
    let left = Cell::new(limit);
    ValueSize(&left).deserialize(serde_norway::Deserializer::from_str(text))
}

/// Subtracts the size of a value from the bytes that are left.
#[derive(Clone, Copy)]
struct ValueSize<'l>(&'l Cell<usize>);

impl ValueSize<'_> {
    fn subtract<E: Error>(self, text_bytes: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(VALUE_BYTES + text_bytes);
        self.0.set(left.ok_or_else(|| {
            E::custom("too large: aliases that repeat large values, or too many values")
        })?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for ValueSize<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSize<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any YAML value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.subtract(0)
    }

    /// Visits the value of an empty document.
    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.subtract(0)
    }

    fn visit_bool<E: Error>(self, _value: bool) -> Result<(), E> {
        self.subtract(0)
    }

    fn visit_i64<E: Error>(self, _value: i64) -> Result<(), E> {
        self.subtract(0)
    }

    fn visit_u64<E: Error>(self, _value: u64) -> Result<(), E> {
        self.subtract(0)
    }

    fn visit_f64<E: Error>(self, _value: f64) -> Result<(), E> {
        self.subtract(0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.subtract(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.subtract::<A::Error>(0)?;
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.subtract::<A::Error>(0)?;
        while members.next_key_seed(self)?.is_some() {
            members.next_value_seed(self)?;
        }
        Ok(())
    }

    /// Visits a value with a tag.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let ((), value) = tagged.variant_seed(self)?;
        value.newtype_variant_seed(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_counts_with_its_text_and_an_alias_like_what_it_refers_to() {
        for (yaml, size) in [
            ("null", VALUE_BYTES),
            ("text", VALUE_BYTES + 4),
            ("[1, -1, 1.5, true]", 5 * VALUE_BYTES),
            ("a: b", 3 * VALUE_BYTES + 2),
            ("!tag text", 2 * VALUE_BYTES + 3 + 4),
            ("[&a text, *a, *a]", 4 * VALUE_BYTES + 3 * 4),
        ] {
            assert!(check(yaml, size).is_ok(), "{yaml}");
            assert!(check(yaml, size - 1).is_err(), "{yaml}");
        }
        assert!(check("[", 1_000).is_err());
    }
}

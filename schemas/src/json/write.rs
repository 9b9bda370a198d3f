//! Writers of [`Json`] as text.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{Json, Object};

impl Json<'_> {
    /// Appends the value to `out` as compact JSON, with numbers as written and members in their
    /// order.
    pub fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => out.push_str(number.as_str()),
            Json::String(text) => write_string(text, out),
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(object) => write_members(object.iter(), out, Json::write),
        }
    }

    /// Returns the number of bytes that [`Json::write`] appends, without those added by escapes.
    pub fn min_serialized_length(&self) -> usize {
        /// Brackets or quotes.
        const AROUND: usize = 2;
        match self {
            Json::Null => "null".len(),
            Json::Bool(value) => if *value { "true" } else { "false" }.len(),
            Json::Number(number) => number.as_str().len(),
            Json::String(text) => AROUND + text.len(),
            Json::Array(items) => {
                let commas = items.len().saturating_sub(1);
                AROUND + commas + items.iter().map(Json::min_serialized_length).sum::<usize>()
            }
            Json::Object(object) => {
                let member = |(key, value): (&str, &Json)| {
                    AROUND + key.len() + ":".len() + value.min_serialized_length()
                };
                let commas = object.len().saturating_sub(1);
                AROUND + commas + object.iter().map(member).sum::<usize>()
            }
        }
    }

    /// Appends the value to `out` as canonical JSON: compact, with members sorted by the bytes of
    /// their keys at every level.
    pub fn write_canonical(&self, out: &mut String) {
        match self {
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write_canonical(out);
                }
                out.push(']');
            }
            Json::Object(object) => {
                let mut members: Vec<_> = object.iter().collect();
                members.sort_unstable_by_key(|(key, _)| *key);
                write_members(members.into_iter(), out, Json::write_canonical);
            }
            scalar => scalar.write(out),
        }
    }

    /// As [`Json::write_canonical`], into a new string.
    pub fn to_canonical_string(&self) -> String {
        let mut out = String::new();
        self.write_canonical(&mut out);
        out
    }
}

fn write_members<'a, 'j: 'a>(
    members: impl Iterator<Item = (&'a str, &'a Json<'j>)>,
    out: &mut String,
    write: fn(&Json<'j>, &mut String),
) {
    out.push('{');
    for (at, (key, value)) in members.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(key, out);
        out.push(':');
        write(value, out);
    }
    out.push('}');
}

/// Appends `text` to `out` as a JSON string. Escapes only what JSON requires, so non-ASCII text
/// stays readable.
pub fn write_string(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some((plain, byte, after)) = split_at_escaped(rest) {
        out.push_str(plain);
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            byte => out.push_str(&format!("\\u{byte:04x}")),
        }
        rest = after;
    }
    out.push_str(rest);
    out.push('"');
}

/// Returns the first byte of `text` that must be escaped, with the text before and after it.
fn split_at_escaped(text: &str) -> Option<(&str, u8, &str)> {
    /// Bytes per block of the scan, which compiles to a few vector instructions.
    const BLOCK_BYTES: usize = 16;

    let (chunks, _) = text.as_bytes().as_chunks::<BLOCK_BYTES>();
    let plain = chunks.iter().take_while(|chunk| {
        !chunk
            .iter()
            .fold(false, |any, byte| any | must_be_escaped(*byte))
    });
    let passed = plain.count() * BLOCK_BYTES;
    let rest = text.as_bytes().get(passed..)?;
    let (found, byte) = rest
        .iter()
        .enumerate()
        .find(|(_, byte)| must_be_escaped(**byte))?;
    let (before, after) = text.split_at_checked(passed + found)?;
    Some((before, *byte, after.get(1..)?))
}

/// Returns true for control characters, quotation marks and backslashes.
#[inline]
const fn must_be_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

impl fmt::Display for Json<'_> {
    /// Writes compact JSON, as [`Json::write`] does.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        formatter.write_str(&out)
    }
}

impl Serialize for Json<'_> {
    /// Serializes to `serde_json` without change of the text, including numbers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => serializer.serialize_i64(value),
                (_, Some(value)) => serializer.serialize_u64(value),
                // Only raw JSON text preserves the spelling.
                _ => serde_json::value::RawValue::from_string(number.as_str().to_owned())
                    .map_err(serde::ser::Error::custom)?
                    .serialize(serializer),
            },
            Json::String(text) => serializer.serialize_str(text),
            Json::Array(items) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    sequence.serialize_element(item)?;
                }
                sequence.end()
            }
            Json::Object(object) => object.serialize(serializer),
        }
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let text = r#"{"z":-0.33660158358122172,"a":[1.0,1,18446744073709551617,1E+2],"é":"\"\\\n\t\u0001é😀","e":{},"n":null,"t":true}"#;
        assert_eq!(Json::parse(text.as_bytes()).unwrap().to_string(), text);
        assert_eq!(
            serde_json::to_string(&Json::parse(text.as_bytes()).unwrap()).unwrap(),
            text
        );
        let escapes = r#"\"\\\n\t\u0001"#.len() - "\"\\\n\t\u{1}".len();
        assert_eq!(
            Json::parse(text.as_bytes())
                .unwrap()
                .min_serialized_length()
                + escapes,
            text.len()
        );
    }

    #[test]
    fn canonical_text_sorts_members_at_every_level() {
        let value = Json::parse(br#"{"b":{"z":1,"a":2},"a":[{"d":1,"c":2}],"Z":0}"#).unwrap();
        assert_eq!(
            value.to_canonical_string(),
            r#"{"Z":0,"a":[{"c":2,"d":1}],"b":{"a":2,"z":1}}"#
        );
    }
}

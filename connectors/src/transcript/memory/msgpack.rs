//! MessagePack as LangGraph writes it in checkpoints: plain values, and Python objects as
//! extensions that name their class.
//!
//! The decoder rejects trailing bytes, text that isn't UTF-8 and the reserved byte `0xc1`, limits
//! the depth and the number of values, and allocates nothing by a declared length. The crate `rmpv`
//! would do except that it decodes `0xc1` as nil, so that damage would go unnoticed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::json::{DEFAULT_VALUE_LIMIT, Json, Number, Object};

/// Maximum depth of nested values.
const DEPTH_LIMIT: usize = 64;

/// Extension types of Python objects: `[module, class, arguments, …]`.
const OBJECT_TYPES: std::ops::RangeInclusive<i8> = 0..=5;

/// Decodes a value; `None` if the bytes aren't exactly one. Binary data becomes base64, and a
/// Python object the arguments of its constructor.
pub(super) fn decode(bytes: &[u8]) -> Option<Json<'static>> {
    decode_limited(bytes, DEFAULT_VALUE_LIMIT)
}

/// As [`decode`], with the given limit on the number of values and keys.
fn decode_limited(bytes: &[u8], limit: usize) -> Option<Json<'static>> {
    let mut decoder = Decoder {
        rest: bytes,
        values_left: limit,
    };
    let value = decoder.value(DEPTH_LIMIT)?;
    decoder.rest.is_empty().then_some(value)
}

/// Decodes values from the front of `rest`.
struct Decoder<'b> {
    rest: &'b [u8],
    /// The number of values and keys that may follow.
    values_left: usize,
}

impl<'b> Decoder<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads a big-endian number of `size` bytes.
    fn number(&mut self, size: usize) -> Option<u64> {
        let bytes = self.take(size)?.iter();
        Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, size: usize) -> Option<usize> {
        usize::try_from(self.number(size)?).ok()
    }

    /// Reads a value with at most `depth` levels. The formats are in the order of their first byte.
    fn value(&mut self, depth: usize) -> Option<Json<'static>> {
        let depth = depth.checked_sub(1)?;
        self.values_left = self.values_left.checked_sub(1)?;
        let format = *self.take(1)?.first()?;
        Some(match format {
            // positive fixint, fixmap, fixarray, fixstr
            0x00..=0x7f => Json::from(u64::from(format)),
            0x80..=0x8f => self.map(usize::from(format & 0xf), depth)?,
            0x90..=0x9f => self.array(usize::from(format & 0xf), depth)?,
            0xa0..=0xbf => self.text(usize::from(format & 0x1f))?,
            // nil, reserved, false, true
            0xc0 => Json::Null,
            0xc1 => return None,
            0xc2 | 0xc3 => Json::Bool(format == 0xc3),
            // bin 8, 16, 32; ext 8, 16, 32
            0xc4..=0xc6 => {
                let length = self.length(1 << (format - 0xc4))?;
                Json::from(STANDARD.encode(self.take(length)?))
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (format - 0xc7))?;
                self.extension(length, depth)?
            }
            // float 32, 64; uint 8 to 64; int 8 to 64
            0xca..=0xd3 => self.sized_number(format)?,
            // fixext 1 to 16
            0xd4..=0xd8 => self.extension(1 << (format - 0xd4), depth)?,
            // str 8, 16, 32; array 16, 32; map 16, 32
            0xd9..=0xdb => {
                let length = self.length(1 << (format - 0xd9))?;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let length = self.length(2 << (format - 0xdc))?;
                self.array(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.length(2 << (format - 0xde))?;
                self.map(length, depth)?
            }
            // negative fixint
            0xe0..=0xff => Json::from(i64::from(format as i8)),
        })
    }

    /// Reads the number that follows one of the formats `0xca` to `0xd3`.
    fn sized_number(&mut self, format: u8) -> Option<Json<'static>> {
        Some(match format {
            0xca => double(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => double(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Json::from(self.number(1 << (format - 0xcc))?),
            0xd0 => Json::from(i64::from(self.number(1)? as i8)),
            0xd1 => Json::from(i64::from(self.number(2)? as i16)),
            0xd2 => Json::from(i64::from(self.number(4)? as i32)),
            _ => Json::from(self.number(8)? as i64),
        })
    }

    fn text(&mut self, length: usize) -> Option<Json<'static>> {
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        Some(Json::from(text.to_owned()))
    }

    fn array(&mut self, length: usize, depth: usize) -> Option<Json<'static>> {
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(self.value(depth)?);
        }
        Some(Json::Array(items))
    }

    fn map(&mut self, length: usize, depth: usize) -> Option<Json<'static>> {
        let mut members = Vec::new();
        for _ in 0..length {
            let key = match self.value(depth)? {
                Json::String(key) => key.into_owned(),
                other => other.to_string(),
            };
            members.push((key, self.value(depth)?));
        }
        Some(Json::Object(members.into_iter().collect::<Object>()))
    }

    fn extension(&mut self, length: usize, depth: usize) -> Option<Json<'static>> {
        let kind = *self.take(1)?.first()? as i8;
        let data = self.take(length)?;
        let mut inner = Decoder {
            rest: data,
            values_left: self.values_left,
        };
        let object = OBJECT_TYPES
            .contains(&kind)
            .then(|| inner.value(depth))
            .flatten();
        self.values_left = inner.values_left;
        let arguments = object
            .as_ref()
            .and_then(|object| object.as_array()?.get(2).cloned());
        Some(arguments.unwrap_or_else(|| Json::from(STANDARD.encode(data))))
    }
}

fn double(value: f64) -> Json<'static> {
    Number::from_f64(value).map_or(Json::Null, Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_python_objects_are_decoded_and_damage_is_rejected() {
        let object = [&[0x93, 0xa1, b'm', 0xa1, b'C', 0x81, 0xa1, b'a', 0x01][..]].concat();
        let extension = [&[0xc7, object.len() as u8, 5], &object[..]].concat();
        for (bytes, text) in [
            (
                &[0x83, 0xa1, b'a', 0xc0, 0xa1, b'b', 0xc3, 0x07, 0x91, 0xff][..],
                r#"{"a":null,"b":true,"7":[-1]}"#,
            ),
            (&[0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0], "1.5"),
            (&[0xd1, 0xff, 0x00], "-256"),
            (&[0xcd, 0x01, 0x00], "256"),
            (&[0xc4, 2, 0, 255], "\"AP8=\""),
            (&extension, r#"{"a":1}"#),
            (&[0xd4, 9, 1], "\"AQ==\""),
        ] {
            assert_eq!(decode(bytes).unwrap().to_string(), text);
        }
        // A length beyond the bytes, a truncated text, text that isn't UTF-8, trailing bytes, the
        // reserved byte, too many levels.
        for bytes in [
            &[0xdd, 255, 255, 255, 255][..],
            &[0xa5, b'a'],
            &[0xa1, 0xff],
            &[1, 1],
            &[0xc1],
            &[0x91; 100],
            &[],
        ] {
            assert!(decode(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn more_values_than_the_limit_are_not_decoded() {
        let list = [0x92, 0x01, 0x81, 0xa1, b'a', 0x02];
        assert!(decode_limited(&list, 5).is_some() && decode_limited(&list, 4).is_none());
        // A list with an object of Python and a number.
        let objects = [&[0x92, 0xc7, 5, 5][..], &[0x93, 1, 2, 0x91, 3], &[4]].concat();
        assert!(decode_limited(&objects, 8).is_some() && decode_limited(&objects, 7).is_none());
    }
}

//! MessagePack as LangGraph writes checkpoints: plain values, and objects of Python as extensions
//! that name their class.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::json::{Json, Number, Object};

/// Levels of values in one another that are followed.
const LEVELS: usize = 64;

/// Extensions that hold `[module, class, arguments, …]`: an object of Python, made of its
/// arguments.
const OBJECTS: std::ops::RangeInclusive<i8> = 0..=5;

/// The value that `bytes` are; `None` if they aren't one.
pub(super) fn decode(bytes: &[u8]) -> Option<Json<'static>> {
    let mut reader = Reader { rest: bytes };
    let value = reader.value(LEVELS)?;
    reader.rest.is_empty().then_some(value)
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// A big-endian number of so many bytes.
    fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(
            self.take(bytes)?
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        )
    }

    fn length(&mut self, bytes: usize) -> Option<usize> {
        usize::try_from(self.number(bytes)?).ok()
    }

    fn value(&mut self, levels: usize) -> Option<Json<'static>> {
        let levels = levels.checked_sub(1)?;
        let tag = *self.take(1)?.first()?;
        Some(match tag {
            0x00..=0x7f => Json::from(u64::from(tag)),
            0x80..=0x8f => self.map(usize::from(tag & 0xf), levels)?,
            0x90..=0x9f => self.list(usize::from(tag & 0xf), levels)?,
            0xa0..=0xbf => self.text(usize::from(tag & 0x1f))?,
            0xc0 => Json::Null,
            0xc2 | 0xc3 => Json::Bool(tag == 0xc3),
            0xc4..=0xc6 => {
                let length = self.length(1 << (tag - 0xc4))?;
                Json::from(STANDARD.encode(self.take(length)?))
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (tag - 0xc7))?;
                self.extension(length, levels)?
            }
            0xca => double(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => double(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Json::from(self.number(1 << (tag - 0xcc))?),
            0xd0 => Json::from(i64::from(self.number(1)? as i8)),
            0xd1 => Json::from(i64::from(self.number(2)? as i16)),
            0xd2 => Json::from(i64::from(self.number(4)? as i32)),
            0xd3 => Json::from(self.number(8)? as i64),
            0xd4..=0xd8 => self.extension(1 << (tag - 0xd4), levels)?,
            0xd9..=0xdb => {
                let length = self.length(1 << (tag - 0xd9))?;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let length = self.length(2 << (tag - 0xdc))?;
                self.list(length, levels)?
            }
            0xde | 0xdf => {
                let length = self.length(2 << (tag - 0xde))?;
                self.map(length, levels)?
            }
            0xe0..=0xff => Json::from(i64::from(tag as i8)),
            0xc1 => return None,
        })
    }

    fn text(&mut self, length: usize) -> Option<Json<'static>> {
        Some(Json::from(
            std::str::from_utf8(self.take(length)?).ok()?.to_owned(),
        ))
    }

    /// A declared length takes no memory before its items are there.
    fn list(&mut self, length: usize, levels: usize) -> Option<Json<'static>> {
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(self.value(levels)?);
        }
        Some(Json::Array(items))
    }

    fn map(&mut self, length: usize, levels: usize) -> Option<Json<'static>> {
        let mut members = Vec::new();
        for _ in 0..length {
            let key = match self.value(levels)? {
                Json::String(key) => key.into_owned(),
                other => other.to_string(),
            };
            members.push((key, self.value(levels)?));
        }
        Some(Json::Object(members.into_iter().collect::<Object>()))
    }

    fn extension(&mut self, length: usize, levels: usize) -> Option<Json<'static>> {
        let kind = *self.take(1)?.first()? as i8;
        let data = self.take(length)?;
        let inside = OBJECTS
            .contains(&kind)
            .then(|| Reader { rest: data }.value(levels))
            .flatten();
        let arguments = inside
            .as_ref()
            .and_then(|inside| inside.as_array()?.get(2).cloned());
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
    fn values_and_objects_of_python_are_read_and_damage_is_not() {
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
        // A length beyond the bytes, a cut text, text that isn't UTF-8, something behind the end,
        // too many levels.
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
}

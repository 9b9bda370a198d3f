//! The style of JSON inside a string, such as the arguments of a tool call. The canonical model
//! keeps the value only; a style code of a few letters keeps its whitespace and escapes.

use gristmill_schemas::json::Json;

/// How JSON text is formatted and escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonStyle {
    layout: JsonLayout,
    /// Non-ASCII characters are escaped.
    ascii: bool,
    /// `<`, `>` and `&` are escaped.
    html: bool,
    /// `/` is escaped.
    slash: bool,
}

/// The whitespace of JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonLayout {
    /// One line, with or without a space after commas and colons.
    Line {
        comma_space: bool,
        colon_space: bool,
    },
    /// A line per member, indented by this many spaces per level.
    Indented(u8),
}

/// The widest indentation that is recognised.
const INDENT_LIMIT: u8 = 16;

impl JsonStyle {
    /// Compact, with only the escapes that JSON requires.
    pub const COMPACT: JsonStyle = JsonStyle {
        layout: JsonLayout::Line {
            comma_space: false,
            colon_space: false,
        },
        ascii: false,
        html: false,
        slash: false,
    };

    /// Returns the style in which `value` is formatted exactly as `text`, if there is one.
    pub fn of(text: &str, value: &Json) -> Option<JsonStyle> {
        let base = JsonStyle {
            layout: JsonStyle::COMPACT.layout,
            ascii: text.is_ascii() && text.contains("\\u"),
            html: text.contains("\\u003c") || text.contains("\\u003e") || text.contains("\\u0026"),
            slash: text.contains("\\/"),
        };
        let layouts = candidate_layouts(text).into_iter();
        layouts
            .map(|layout| JsonStyle { layout, ..base })
            .find(|style| style.write(value) == text)
    }

    /// Formats `value`.
    pub fn write(&self, value: &Json) -> String {
        let mut out = String::new();
        self.write_value(value, 0, &mut out);
        out
    }

    fn write_value(&self, value: &Json, depth: usize, out: &mut String) {
        match value {
            Json::String(text) => self.write_string(text, out),
            Json::Array(items) => {
                self.write_list('[', ']', items.iter(), depth, out, |item, out| {
                    self.write_value(item, depth + 1, out);
                })
            }
            Json::Object(object) => {
                self.write_list('{', '}', object.iter(), depth, out, |(key, value), out| {
                    self.write_string(key, out);
                    out.push_str(if self.colon_space() { ": " } else { ":" });
                    self.write_value(value, depth + 1, out);
                })
            }
            scalar => scalar.write(out),
        }
    }

    /// Writes what precedes an item of a list: a comma if it `follows` another one, and whitespace.
    #[inline]
    fn write_separator(&self, follows: bool, depth: usize, out: &mut String) {
        if follows {
            out.push(',');
        }
        match self.layout {
            JsonLayout::Line {
                comma_space: true, ..
            } if follows => out.push(' '),
            JsonLayout::Line { .. } => {}
            JsonLayout::Indented(width) => new_line(usize::from(width) * (depth + 1), out),
        }
    }

    fn write_list<T>(
        &self,
        open: char,
        close: char,
        items: impl ExactSizeIterator<Item = T>,
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(T, &mut String),
    ) {
        let empty = items.len() == 0;
        out.push(open);
        for (index, item) in items.enumerate() {
            self.write_separator(index > 0, depth, out);
            write(item, out);
        }
        if let (JsonLayout::Indented(width), false) = (self.layout, empty) {
            new_line(usize::from(width) * depth, out);
        }
        out.push(close);
    }

    fn colon_space(&self) -> bool {
        matches!(
            self.layout,
            JsonLayout::Indented(_)
                | JsonLayout::Line {
                    colon_space: true,
                    ..
                }
        )
    }

    fn write_string(&self, text: &str, out: &mut String) {
        if !(self.ascii || self.html || self.slash) {
            return gristmill_schemas::json::write_string(text, out);
        }
        let mut plain = String::new();
        gristmill_schemas::json::write_string(text, &mut plain);
        for letter in plain.chars() {
            match letter {
                '/' if self.slash => out.push_str("\\/"),
                '<' | '>' | '&' if self.html => push_escape(letter as u16, out),
                letter if self.ascii && !letter.is_ascii() => {
                    letter
                        .encode_utf16(&mut [0; 2])
                        .iter()
                        .for_each(|&unit| push_escape(unit, out));
                }
                letter => out.push(letter),
            }
        }
    }

    /// Returns the style code. First the layout: `c` compact, `p` spaces after commas and colons,
    /// `o` after colons, `m` after commas, `iN` indented by N. Then flags: `a` ASCII only, `h`
    /// `<>&` escaped, `s` slashes escaped.
    pub fn code(&self) -> String {
        let mut code = match self.layout {
            JsonLayout::Line {
                comma_space,
                colon_space,
            } => match (comma_space, colon_space) {
                (false, false) => "c",
                (true, true) => "p",
                (false, true) => "o",
                (true, false) => "m",
            }
            .to_owned(),
            JsonLayout::Indented(width) => format!("i{width}"),
        };
        let flags = [(self.ascii, 'a'), (self.html, 'h'), (self.slash, 's')];
        code.extend(
            flags
                .into_iter()
                .filter(|(set, _)| *set)
                .map(|(_, letter)| letter),
        );
        code
    }

    /// Parses a [`JsonStyle::code`]; returns `None` if it isn't one.
    pub fn from_code(code: &str) -> Option<JsonStyle> {
        let flags_at = code.find(['a', 'h', 's']).unwrap_or(code.len());
        let (layout, flags) = code.split_at(flags_at);
        let line = |comma_space, colon_space| JsonLayout::Line {
            comma_space,
            colon_space,
        };
        let layout = match layout {
            "c" => line(false, false),
            "p" => line(true, true),
            "o" => line(false, true),
            "m" => line(true, false),
            _ => JsonLayout::Indented(
                layout
                    .strip_prefix('i')?
                    .parse()
                    .ok()
                    .filter(|width| *width <= INDENT_LIMIT)?,
            ),
        };
        let has = |letter| flags.contains(letter);
        Some(JsonStyle {
            layout,
            ascii: has('a'),
            html: has('h'),
            slash: has('s'),
        })
    }
}

/// Returns the layouts that `text` may have, the likeliest first.
fn candidate_layouts(text: &str) -> Vec<JsonLayout> {
    if let Some((_, rest)) = text.split_once('\n') {
        let width = rest.bytes().take_while(|byte| *byte == b' ').count();
        let width = u8::try_from(width).ok();
        return width
            .filter(|width| *width <= INDENT_LIMIT)
            .map(JsonLayout::Indented)
            .into_iter()
            .collect();
    }
    let layouts: &[(bool, bool)] = match (text.contains(", "), text.contains(": ")) {
        (false, false) => &[(false, false)],
        (true, false) => &[(true, false), (false, false)],
        (false, true) => &[(true, true), (false, true), (false, false)],
        (true, true) => &[(true, true), (false, true), (true, false), (false, false)],
    };
    let line = |&(comma_space, colon_space)| JsonLayout::Line {
        comma_space,
        colon_space,
    };
    layouts.iter().map(line).collect()
}

fn new_line(blanks: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', blanks));
}

fn push_escape(unit: u16, out: &mut String) {
    out.push_str(&format!("\\u{unit:04x}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_of_common_writers_are_detected_and_survive_their_code() {
        for (text, code) in [
            (r#"{"a":1.0,"b":["x",{}]}"#, "c"),
            (r#"{"a": 1.0, "b": ["x", {}]}"#, "p"),
            (r#"{"a": "x"}"#, "p"),
            (r#"{"a": "x","b": [1,2]}"#, "o"),
            (r#"{"a":"x: y, z"}"#, "m"),
            (r#"{"q": "\u00e9 \ud83d\ude00"}"#, "pa"),
            (r#"{"q":"\u003cb\u003e é"}"#, "ch"),
            (r#"{"q":"a\/b"}"#, "cs"),
            ("{\n  \"a\": [\n    1,\n    {}\n  ]\n}", "i2"),
            ("{\"a\": 1}", "p"),
            ("[]", "c"),
        ] {
            let value = Json::parse(text.as_bytes()).unwrap();
            let style =
                JsonStyle::of(text, &value).unwrap_or_else(|| panic!("no style for {text}"));
            assert_eq!(style.code(), code, "{text}");
            assert_eq!(JsonStyle::from_code(code).unwrap().write(&value), text);
        }
    }

    #[test]
    fn text_without_a_matching_style_has_none() {
        for text in [
            " {}",
            r#"{"a" :1}"#,
            r#"{"a":1,"b": 2}"#,
            "{\n\t\"a\": 1\n}",
            r#"{"a":"\u0041"}"#,
            "{\"a\":1}\n",
        ] {
            let value = Json::parse(text.as_bytes()).unwrap();
            assert_eq!(JsonStyle::of(text, &value), None, "{text}");
        }
        for code in ["", "x", "i", "i99", "ca!"] {
            assert!(
                JsonStyle::from_code(code).is_none_or(|style| style.code() != code),
                "{code}"
            );
        }
    }
}

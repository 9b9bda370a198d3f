//! The style of JSON that stands inside a string, such as the arguments of a tool call: its value
//! is canonical, its blanks and escapes aren't, and a style of a few letters keeps them.

use gristmill_schemas::json::Json;

/// How JSON text is laid out and escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonStyle {
    layout: JsonLayout,
    /// What isn't ASCII is escaped.
    ascii: bool,
    /// `<`, `>` and `&` are escaped.
    html: bool,
    /// `/` is escaped.
    slash: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonLayout {
    /// On one line, with or without a blank after commas and colons.
    Line {
        comma_blank: bool,
        colon_blank: bool,
    },
    /// A line per member, each level so many blanks further in.
    Indented(u8),
}

/// The widest indentation that is recognised.
const INDENT_LIMIT: u8 = 16;

impl JsonStyle {
    /// Compact, with only the escapes that JSON demands.
    pub const COMPACT: JsonStyle = JsonStyle {
        layout: JsonLayout::Line {
            comma_blank: false,
            colon_blank: false,
        },
        ascii: false,
        html: false,
        slash: false,
    };

    /// The style in which `value` is written exactly as `text`, if there is one.
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

    /// `value` as text.
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
                    out.push_str(if self.colon_blank() { ": " } else { ":" });
                    self.write_value(value, depth + 1, out);
                })
            }
            scalar => scalar.write(out),
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
            if index > 0 {
                out.push(',');
            }
            match self.layout {
                JsonLayout::Line {
                    comma_blank: true, ..
                } if index > 0 => out.push(' '),
                JsonLayout::Line { .. } => {}
                JsonLayout::Indented(width) => new_line(usize::from(width) * (depth + 1), out),
            }
            write(item, out);
        }
        if let (JsonLayout::Indented(width), false) = (self.layout, empty) {
            new_line(usize::from(width) * depth, out);
        }
        out.push(close);
    }

    fn colon_blank(&self) -> bool {
        matches!(
            self.layout,
            JsonLayout::Indented(_)
                | JsonLayout::Line {
                    colon_blank: true,
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

    /// The style in a few letters: `c` compact, `p` blanks after commas and colons, `o` after
    /// colons, `m` after commas, `iN` indented by N; then `a` ASCII only, `h` `<>&` escaped, `s`
    /// slashes escaped.
    pub fn code(&self) -> String {
        let mut code = match self.layout {
            JsonLayout::Line {
                comma_blank,
                colon_blank,
            } => match (comma_blank, colon_blank) {
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

    /// The style of a [`JsonStyle::code`].
    pub fn from_code(code: &str) -> Option<JsonStyle> {
        let flags_at = code.find(['a', 'h', 's']).unwrap_or(code.len());
        let (layout, flags) = code.split_at(flags_at);
        let line = |comma_blank, colon_blank| JsonLayout::Line {
            comma_blank,
            colon_blank,
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

/// The layouts that `text` may have, the likeliest first.
fn candidate_layouts(text: &str) -> Vec<JsonLayout> {
    if let Some((_, rest)) = text.split_once('\n') {
        let width = rest.bytes().take_while(|byte| *byte == b' ').count();
        return u8::try_from(width)
            .ok()
            .filter(|width| *width <= INDENT_LIMIT)
            .map(JsonLayout::Indented)
            .into_iter()
            .collect();
    }
    let line = |comma_blank, colon_blank| JsonLayout::Line {
        comma_blank,
        colon_blank,
    };
    match (text.contains(", "), text.contains(": ")) {
        (false, false) => vec![line(false, false)],
        (true, false) => vec![line(true, false), line(false, false)],
        (false, true) => vec![line(true, true), line(false, true), line(false, false)],
        (true, true) => vec![
            line(true, true),
            line(false, true),
            line(true, false),
            line(false, false),
        ],
    }
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
    fn the_styles_of_common_writers_are_found_and_survive_their_code() {
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
    fn text_that_no_style_writes_has_none() {
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

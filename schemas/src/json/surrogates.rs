//! Escapes of surrogates (`\ud83d`) that stand alone. JSON's grammar permits them, but no Unicode
//! text can contain them.

/// The escape of U+FFFD.
const REPLACEMENT: &str = "\\ufffd";

/// Bytes of an escape with its four digits.
const ESCAPE_BYTES: usize = 6;

/// Returns the JSON `text` with an escape of U+FFFD in place of each escape of a surrogate that has
/// no partner; `None` if it has none.
pub(super) fn replace_lone_surrogates(text: &str) -> Option<String> {
    let mut replaced = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', text.as_bytes().get(at..)?) {
        let start = at + found;
        at = match code_unit_at(text, start) {
            Some(0xd800..=0xdbff) if is_low(code_unit_at(text, start + ESCAPE_BYTES)) => {
                start + 2 * ESCAPE_BYTES
            }
            Some(0xd800..=0xdfff) => {
                replaced.push_str(text.get(copied..start)?);
                replaced.push_str(REPLACEMENT);
                copied = start + ESCAPE_BYTES;
                copied
            }
            Some(_) => start + ESCAPE_BYTES,
            // The escaped character may be a backslash.
            None => start + 2,
        };
    }
    let rest = text.get(copied..)?;
    (copied > 0).then(|| replaced + rest)
}

fn is_low(unit: Option<u16>) -> bool {
    matches!(unit, Some(0xdc00..=0xdfff))
}

/// Returns the number of the escape `\uXXXX` at `start`.
fn code_unit_at(text: &str, start: usize) -> Option<u16> {
    let digits = text.get(start..start + ESCAPE_BYTES)?.strip_prefix("\\u")?;
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16)
        .ok()
        .filter(|_| is_hexadecimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_without_a_partner_are_replaced() {
        for (text, expected) in [
            (r#""\ud83d""#, Some(r#""\ufffd""#)),
            (r#""a\uD83Db\uDE00c""#, Some(r#""a\ufffdb\ufffdc""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ude00\ud83d""#, Some(r#""\ufffd\ufffd""#)),
            (r#"{"\ud83d":"é\udc00"}"#, Some(r#"{"\ufffd":"é\ufffd"}"#)),
            (r#""\ud83d\\ude00""#, Some(r#""\ufffd\\ude00""#)),
            (r#""\ud83d\ude00 \\ud83d \u00e9""#, None),
            (r#""\u+d83 \ud8 \é\"#, None),
            ("\\", None),
            ("", None),
        ] {
            assert_eq!(replace_lone_surrogates(text).as_deref(), expected, "{text}");
        }
    }
}

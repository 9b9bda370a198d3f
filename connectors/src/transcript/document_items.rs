//! Splits a JSON document into its entries without parsing them: the items of a list, or the one
//! object that it is. An entry keeps its text, so that its own parser sees a repeated key, and one
//! that isn't JSON spoils no other.

/// Returns the entries of `document`, one per line; breaks between their tokens become spaces.
/// `None` if its brackets and quotes don't match, an item is empty, or there are more than `limit`.
pub(super) fn split_document(document: &str, limit: usize) -> Option<String> {
    let list = document.strip_prefix('[');
    if list.is_none() && !document.starts_with('{') {
        return None;
    }
    // The depth of the entries.
    let outer = usize::from(list.is_some());
    let mut entries = Entries::new(document.len(), limit);
    let (mut rest, mut depth) = (list.unwrap_or(document), outer);
    loop {
        let (before, token, after) = next_token(rest)?;
        rest = after;
        entries.entry.push_str(before);
        match token {
            "[" | "{" => depth += 1,
            "]" | "}" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        match token {
            "\n" | "\r" => entries.entry.push(' '),
            "," if depth == outer && list.is_some() => entries.end_entry()?,
            "}" if depth < outer => return None,
            _ if depth < outer => {
                let is_empty_list = entries.count == 0 && entries.entry.trim().is_empty();
                if !is_empty_list {
                    entries.end_entry()?;
                }
                return rest.is_empty().then_some(entries.lines);
            }
            token => {
                entries.entry.push_str(token);
                if depth == 0 {
                    entries.end_entry()?;
                    return rest.is_empty().then_some(entries.lines);
                }
            }
        }
    }
}

/// The entries so far.
struct Entries {
    lines: String,
    count: usize,
    limit: usize,
    /// The text of the current one.
    entry: String,
}

impl Entries {
    fn new(bytes: usize, limit: usize) -> Entries {
        Entries {
            lines: String::with_capacity(bytes + 1),
            count: 0,
            limit,
            entry: String::new(),
        }
    }

    /// Ends the current entry; `None` if it is empty or one too many.
    fn end_entry(&mut self) -> Option<()> {
        let entry = self.entry.trim();
        if entry.is_empty() || self.count == self.limit {
            return None;
        }
        self.lines.push_str(entry);
        self.lines.push('\n');
        self.count += 1;
        self.entry.clear();
        Some(())
    }
}

/// Returns the first token of `text` that decides how it is split, and what is before and after it:
/// a string, a bracket, a comma or a line break.
fn next_token(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find(['"', '[', '{', ']', '}', ',', '\n', '\r'])?;
    let length = match text.get(start..)? {
        string if string.starts_with('"') => string_length(string)?,
        _ => 1,
    };
    let (before, rest) = text.split_at_checked(start)?;
    let (token, after) = rest.split_at_checked(length)?;
    Some((before, token, after))
}

/// Returns the length of the string that `text` begins with, its quotes included; `None` if it
/// isn't closed on its line.
fn string_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            b'\n' | b'\r' => return None,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_text() {
        for (document, expected) in [
            ("[]", Some("")),
            ("[ \n ]", Some("")),
            (
                r#"[{"a":1,"a":[2,3]} , "x,]\"\\" ,null]"#,
                Some("{\"a\":1,\"a\":[2,3]}\n\"x,]\\\"\\\\\"\nnull\n"),
            ),
            ("{\n\"a\": [1,\r\n{}]\n}", Some("{ \"a\": [1,  {}] }\n")),
            (
                r#"[{"a":nope},{"é":"\ud83d"}]"#,
                Some("{\"a\":nope}\n{\"é\":\"\\ud83d\"}\n"),
            ),
            ("[1,2", None),
            ("[1,,2]", None),
            ("[1,]", None),
            ("[,1]", None),
            ("[1] 2", None),
            ("[1]]", None),
            ("[1}", None),
            ("{\"a\":1},{\"a\":2}", None),
            ("{\"a\nb\":1}", None),
            ("{\"a", None),
            ("{\"a\\", None),
            ("1", None),
            ("cut\n{\"a\":1}", None),
            ("", None),
        ] {
            assert_eq!(
                split_document(document, 9).as_deref(),
                expected,
                "{document}"
            );
        }
        assert_eq!(split_document("[1,2,3]", 2), None);
    }
}

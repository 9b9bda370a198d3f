//! Arrays as values of parameters: their items in PostgreSQL's two forms. Only arrays of one
//! dimension are read.

use std::iter::Peekable;
use std::str::Chars;

use bytes::Buf;
use pgwire::api::Type;

/// Returns the items of an array as text, such as `{a,"b c",NULL}`; `None` for what isn't one.
pub(super) fn text_items(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let (mut letters, mut items) = (inner.chars().peekable(), Vec::new());
    skip_spaces(&mut letters);
    if letters.peek().is_none() {
        return Some(items);
    }
    loop {
        items.push(text_item(&mut letters)?);
        match letters.next() {
            None => return Some(items),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// Reads an item up to the comma behind it.
fn text_item(letters: &mut Peekable<Chars<'_>>) -> Option<Option<String>> {
    skip_spaces(letters);
    if letters.next_if_eq(&'"').is_some() {
        return quoted_item(letters).map(Some);
    }
    let mut item = String::new();
    while let Some(letter) = letters.next_if(|letter| *letter != ',') {
        match letter {
            '{' | '}' | '"' => return None,
            '\\' => item.push(letters.next()?),
            letter => item.push(letter),
        }
    }
    match item.trim_end() {
        "" => None,
        null if null.eq_ignore_ascii_case("null") => Some(None),
        item => Some(Some(item.to_owned())),
    }
}

/// Reads an item whose first quote has been read, and the spaces behind its second one.
fn quoted_item(letters: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut item = String::new();
    loop {
        match letters.next()? {
            '"' => break,
            '\\' => item.push(letters.next()?),
            letter => item.push(letter),
        }
    }
    skip_spaces(letters);
    Some(item)
}

fn skip_spaces(letters: &mut Peekable<Chars<'_>>) {
    while letters.next_if(char::is_ascii_whitespace).is_some() {}
}

/// Returns the items of an array in binary, whose type must be `item`; `None` for what isn't one.
pub(super) fn binary_items<'b>(item: &Type, mut bytes: &'b [u8]) -> Option<Vec<Option<&'b [u8]>>> {
    if bytes.len() < 12 {
        return None;
    }
    let (dimensions, _has_nulls, kind) = (bytes.get_i32(), bytes.get_i32(), bytes.get_u32());
    if kind != item.oid() {
        return None;
    }
    match dimensions {
        0 => return bytes.is_empty().then(Vec::new),
        1 if bytes.len() >= 8 => {}
        _ => return None,
    }
    let (count, _first) = (bytes.get_i32(), bytes.get_i32());
    let count = usize::try_from(count).ok()?;
    // Each item has a length of four bytes.
    if count > bytes.len() / 4 {
        return None;
    }
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        if bytes.len() < 4 {
            return None;
        }
        let length = bytes.get_i32();
        if length == -1 {
            items.push(None);
            continue;
        }
        let (value, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        items.push(Some(value));
        bytes = rest;
    }
    bytes.is_empty().then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_texts_are_unquoted() {
        for (text, expected) in [
            ("{}", Some(vec![])),
            (" { } ", Some(vec![])),
            ("{a}", Some(vec![Some("a")])),
            (
                r#"{a, "b c" ,NULL,"NULL","","d\"e\\"}"#,
                Some(vec![
                    Some("a"),
                    Some("b c"),
                    None,
                    Some("NULL"),
                    Some(""),
                    Some("d\"e\\"),
                ]),
            ),
            (r#"{"a,b",c\,d}"#, Some(vec![Some("a,b"), Some("c,d")])),
            ("a", None),
            ("{a", None),
            ("{a,}", None),
            ("{,a}", None),
            (r#"{"a}"#, None),
            (r#"{"a"b}"#, None),
            ("{{a},{b}}", None),
            ("[0:1]={a,b}", None),
        ] {
            let found = text_items(text);
            let found = found.as_ref().map(|items| {
                let items = items.iter().map(Option::as_deref);
                items.collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{text}");
        }
    }

    /// Returns an array of `dimensions` with `count` items whose lengths and bytes are `items`.
    fn array(dimensions: i32, count: i32, items: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [dimensions, 0, 25, count, 1] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(items);
        bytes
    }

    #[test]
    fn items_in_binary_are_within_their_array() {
        let two = b"\0\0\0\x02ab\xff\xff\xff\xff";
        let expected = Some(vec![Some(&b"ab"[..]), None]);
        assert_eq!(binary_items(&Type::TEXT, &array(1, 2, two)), expected);
        let empty = array(0, 0, b"");
        assert_eq!(binary_items(&Type::TEXT, &empty[..12]), Some(vec![]));
        for bytes in [
            array(2, 2, two),
            array(1, 3, two),
            array(1, 1, two),
            array(1, i32::MAX, two),
            array(1, -1, two),
            array(1, 1, b"\0\0\0\x09ab"),
            array(1, 1, b"\xff\xff\xff\xf0ab"),
            array(0, 0, b""),
            vec![0; 11],
        ] {
            assert_eq!(binary_items(&Type::TEXT, &bytes), None, "{bytes:?}");
        }
        assert_eq!(binary_items(&Type::INT8, &array(1, 2, two)), None);
    }
}

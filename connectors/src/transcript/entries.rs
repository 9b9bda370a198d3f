//! The entries of a file that is either JSON Lines or one JSON document.

use gristmill_schemas::json::{Json, JsonError};

use super::line::{LINE_LIMIT_BYTES, Line, LineFault, lines};

/// An entry with its line, or the reason why it can't be read.
type Entry<'e> = Result<(&'e Json<'e>, Line), LineFault>;

/// Parses the whole file as one JSON value; `None` if it is longer than [`LINE_LIMIT_BYTES`].
pub(super) fn parse_document(bytes: &[u8]) -> Option<Result<Json<'_>, JsonError>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    (bytes.len() <= LINE_LIMIT_BYTES).then(|| Json::parse(bytes))
}

/// Passes every entry of a file to `visit`: each line if the first line is a complete JSON value,
/// else the items of the top-level array, or the document as a single entry. The line number of an
/// array item is its index plus 1.
pub(super) fn for_each_entry(bytes: &[u8], visit: &mut dyn FnMut(Entry<'_>)) {
    let mut found = lines(bytes);
    let (first, second) = (found.next(), found.next());
    let only = first.filter(|_| second.is_none());
    let is_array = |line: &Line| bytes.get(line.range.start) == Some(&b'[');
    let is_json_lines = || {
        lines(bytes)
            .next()
            .is_some_and(|line| line.json(bytes).is_ok())
    };
    if (only.as_ref().is_some_and(is_array) || !is_json_lines())
        && let Some(Ok(document)) = parse_document(bytes)
    {
        return visit_document(&document, bytes.len(), visit);
    }
    for line in lines(bytes) {
        match line.json(bytes) {
            Ok(json) => visit(Ok((&json, line))),
            Err(fault) => visit(Err(fault)),
        }
    }
}

/// Returns the entries of a file that is one document as JSON Lines; `None` if the file has one
/// value per line already.
pub(super) fn document_lines(bytes: &[u8]) -> Option<String> {
    let mut found = lines(bytes);
    let (first, second) = (found.next()?, found.next());
    let is_array = second.is_none() && bytes.get(first.range.start) == Some(&b'[');
    if !is_array && first.json(bytes).is_ok() {
        return None;
    }
    let document = parse_document(bytes)?.ok()?;
    let mut text = String::with_capacity(bytes.len());
    for entry in document
        .as_array()
        .unwrap_or(std::slice::from_ref(&document))
    {
        entry.write(&mut text);
        text.push('\n');
    }
    Some(text)
}

fn visit_document(document: &Json, length: usize, visit: &mut dyn FnMut(Entry<'_>)) {
    let Json::Array(items) = document else {
        let line = Line {
            number: 1,
            range: 0..length,
        };
        return visit(Ok((document, line)));
    };
    for (index, item) in items.iter().enumerate() {
        // The parser doesn't record where an item begins, so the range is empty.
        let line = Line {
            number: index as u64 + 1,
            range: 0..0,
        };
        visit(Ok((item, line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for_each_entry(text.as_bytes(), &mut |entry| match entry {
            Ok((json, line)) => found.push(format!("{} {json}", line.number)),
            Err(fault) => found.push(format!("{} {}", fault.number, fault.code.name())),
        });
        found
    }

    #[test]
    fn a_document_becomes_one_line_per_entry_and_json_lines_are_left_alone() {
        let expected = [
            ("{\n\"a\":1\n}", Some("{\"a\":1}\n")),
            ("[\n{\"a\":1},\n2\n]", Some("{\"a\":1}\n2\n")),
            ("[{\"a\":1}]", Some("{\"a\":1}\n")),
            ("{\"a\":1}", None),
            ("{\"a\":1}\noops", None),
            ("oops\n{\"a\":1}", None),
            ("", None),
        ];
        for (text, lines) in expected {
            assert_eq!(document_lines(text.as_bytes()).as_deref(), lines, "{text}");
        }
    }

    #[test]
    fn lines_array_items_and_documents_are_entries() {
        assert_eq!(
            entries("{\"a\":1}\n\n[2]\noops"),
            ["1 {\"a\":1}", "3 [2]", "4 ERR_JSON"]
        );
        assert_eq!(entries("[{\"a\":1},2]"), ["1 {\"a\":1}", "2 2"]);
        assert_eq!(entries("[\n1,\n2\n]"), ["1 1", "2 2"]);
        assert_eq!(entries("{\n\"a\":1\n}"), ["1 {\"a\":1}"]);
        assert_eq!(entries("{\n\"a\":"), ["1 ERR_JSON", "2 ERR_JSON"]);
        assert!(entries("").is_empty());
    }
}

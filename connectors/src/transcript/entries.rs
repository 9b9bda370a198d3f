//! The entries of a file that is either JSON Lines or one JSON document.

use gristmill_schemas::json::{Json, JsonError};

use super::document_items::split_document;
use super::line::{LINE_LIMIT_BYTES, Line, LineFault, line_parser, lines};

/// Maximum number of values and keys of a document. Lines have a lower limit, because several of
/// them are read at once.
const DOCUMENT_VALUE_LIMIT: usize = 16 << 20;

/// An entry with its line, or the reason why it can't be read.
type Entry<'e> = Result<(&'e Json<'e>, Line), LineFault>;

/// Parses the whole file as one JSON value; `None` if it is longer than [`LINE_LIMIT_BYTES`].
pub(super) fn parse_document(bytes: &[u8]) -> Option<Result<Json<'_>, JsonError>> {
    let bytes = without_mark(bytes);
    let mut parser = line_parser().with_value_limit(DOCUMENT_VALUE_LIMIT);
    (bytes.len() <= LINE_LIMIT_BYTES).then(|| parser.parse_bytes(bytes))
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
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

/// Returns the entries of a file that is one document as JSON Lines, each as it is written; `None`
/// if the file has one value per line already, or is no document.
pub(super) fn document_lines(bytes: &[u8]) -> Option<String> {
    let mut found = lines(bytes);
    let (first, second) = (found.next()?, found.next());
    let is_array = second.is_none() && bytes.get(first.range.start) == Some(&b'[');
    if !is_array && first.json(bytes).is_ok() {
        return None;
    }
    let document = without_mark(bytes).trim_ascii();
    let document = Some(document).filter(|document| document.len() <= LINE_LIMIT_BYTES)?;
    split_document(std::str::from_utf8(document).ok()?, DOCUMENT_VALUE_LIMIT)
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
            ("{\n\"a\":1\n}", Some("{ \"a\":1 }\n")),
            ("[\n{\"a\":1},\n2\n]", Some("{\"a\":1}\n2\n")),
            ("\u{feff}[{\"a\":1}]\n", Some("{\"a\":1}\n")),
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

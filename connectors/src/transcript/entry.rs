//! The entries of files that are sometimes lines and sometimes one document.

use gristmill_schemas::json::Json;

use super::kind::whole;
use super::line::{Line, LineFault, lines};

/// An entry, or why it can't be read.
type Entry<'e> = Result<(&'e Json<'e>, Line), LineFault>;

/// Who takes entries.
type Tell<'t> = dyn FnMut(Entry<'_>) + 't;

/// Tells every entry of a file: each line, if the first is a value by itself; else the items of the
/// list that the file is, or the file as a whole. An item's number stands for its line, counted
/// from 1.
pub(super) fn each_entry(bytes: &[u8], tell: &mut Tell<'_>) {
    let mut found = lines(bytes);
    let (first, second) = (found.next(), found.next());
    let alone = first.filter(|_| second.is_none());
    let is_list = |line: &Line| bytes.get(line.range.start) == Some(&b'[');
    let by_lines = || {
        lines(bytes)
            .next()
            .is_some_and(|line| line.json(bytes).is_ok())
    };
    if (alone.as_ref().is_some_and(is_list) || !by_lines())
        && let Some(Ok(document)) = whole(bytes)
    {
        return document_entries(&document, bytes.len(), tell);
    }
    for line in lines(bytes) {
        match line.json(bytes) {
            Ok(json) => tell(Ok((&json, line))),
            Err(fault) => tell(Err(fault)),
        }
    }
}

/// The entries of a file that is one document, a line each; `None` for a file of lines.
pub(super) fn document_lines(bytes: &[u8]) -> Option<String> {
    let mut found = lines(bytes);
    let (first, second) = (found.next()?, found.next());
    let is_list = second.is_none() && bytes.get(first.range.start) == Some(&b'[');
    if !is_list && first.json(bytes).is_ok() {
        return None;
    }
    let document = whole(bytes)?.ok()?;
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

fn document_entries(document: &Json, length: usize, tell: &mut Tell<'_>) {
    match document {
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                // Where an item begins, the document doesn't say.
                tell(Ok((
                    item,
                    Line {
                        number: index as u64 + 1,
                        range: 0..0,
                    },
                )));
            }
        }
        document => tell(Ok((
            document,
            Line {
                number: 1,
                range: 0..length,
            },
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let mut told = Vec::new();
        each_entry(text.as_bytes(), &mut |entry| match entry {
            Ok((json, line)) => told.push(format!("{} {json}", line.number)),
            Err(fault) => told.push(format!("{} {}", fault.number, fault.code.name())),
        });
        told
    }

    #[test]
    fn a_document_is_as_many_lines_as_it_has_entries_and_a_file_of_lines_is_none() {
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
    fn lines_lists_and_documents_are_entries() {
        assert_eq!(
            told("{\"a\":1}\n\n[2]\noops"),
            ["1 {\"a\":1}", "3 [2]", "4 ERR_JSON"]
        );
        assert_eq!(told("[{\"a\":1},2]"), ["1 {\"a\":1}", "2 2"]);
        assert_eq!(told("[\n1,\n2\n]"), ["1 1", "2 2"]);
        assert_eq!(told("{\n\"a\":1\n}"), ["1 {\"a\":1}"]);
        assert_eq!(told("{\n\"a\":"), ["1 ERR_JSON", "2 ERR_JSON"]);
        assert!(told("").is_empty());
    }
}

//! The sources of the crates, as text and tokens.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The crates whose sources are read, each after those that it depends on.
pub(super) const CRATES: [&str; 8] = [
    "schemas",
    "connectors",
    "engine",
    "queries",
    "server",
    "cluster",
    "cli",
    "python",
];

/// A source file.
pub(super) struct SourceFile {
    /// From the root of the workspace.
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) tokens: TokenStream,
    pub(super) is_test: bool,
}

impl SourceFile {
    /// Returns the documentation at the beginning of the file.
    pub(super) fn header(&self) -> String {
        let lines = self.text.lines();
        lines.take_while(|line| line.starts_with("//!")).collect()
    }
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is a folder of the workspace")
        .to_owned()
}

/// Returns the files under `folder` with the extension `extension`, sorted.
pub(super) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|own| own == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Reads the Rust sources of `folders`.
fn sources(folders: &[&str]) -> Vec<SourceFile> {
    let root = root();
    let paths = folders
        .iter()
        .flat_map(|folder| files(&root.join(folder), "rs"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("sources are UTF-8");
        let tokens = TokenStream::from_str(&text).expect("sources are Rust");
        let path = path.strip_prefix(&root).expect("a path below the root");
        let name = path.to_string_lossy();
        let is_test = name.contains("/tests/") || name.ends_with("tests.rs");
        SourceFile {
            is_test,
            path: path.to_owned(),
            text,
            tokens,
        }
    };
    paths.map(read).collect()
}

/// Returns the sources of the crates without those of their tests.
pub(super) fn crate_sources() -> Vec<SourceFile> {
    let folders = CRATES.map(|name| format!("{name}/src"));
    let mut sources = sources(&folders.each_ref().map(String::as_str));
    sources.retain(|file| !file.is_test);
    sources
}

/// Returns the tokens of `stream` without doc comments and without items under `#[cfg(test)]`.
pub(super) fn live(stream: TokenStream) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let attribute = match (&token, tokens.peek()) {
            (TokenTree::Punct(punct), Some(TokenTree::Group(group)))
                if punct.as_char() == '#' && group.delimiter() == Delimiter::Bracket =>
            {
                Some(group.stream().to_string().replace(' ', ""))
            }
            _ => None,
        };
        match attribute.as_deref() {
            Some(text) if text.starts_with("doc=") => {
                tokens.next();
            }
            Some("cfg(test)") => {
                tokens.next();
                skip_item(&mut tokens);
            }
            _ => kept.push(token),
        }
    }
    kept
}

/// Skips an item: up to its block in braces, or its semicolon.
fn skip_item(tokens: &mut impl Iterator<Item = TokenTree>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(punct) if punct.as_char() == ';' => return,
            _ => {}
        }
    }
}

pub(super) fn is_ident(tree: Option<&TokenTree>, name: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(ident)) if ident == name)
}

pub(super) fn is_brace(tree: &TokenTree) -> Option<&Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

/// Adds the lines on which string literals are to `lines`.
pub(super) fn literal_lines(stream: TokenStream, lines: &mut BTreeSet<usize>) {
    for tree in stream {
        match tree {
            // A documentation comment is an attribute with a literal.
            TokenTree::Group(group) if is_doc(&group) => {}
            TokenTree::Group(group) => literal_lines(group.stream(), lines),
            TokenTree::Literal(literal) if literal.to_string().contains('"') => {
                let span = literal.span();
                lines.extend(span.start().line..=span.end().line);
            }
            _ => {}
        }
    }
}

fn is_doc(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket
        && is_ident(group.stream().into_iter().next().as_ref(), "doc")
}

//! The functions and types that a file defines, and their sizes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Spacing, TokenTree};

use super::sources::{is_brace, is_ident, live};

/// A function outside of tests.
pub(super) struct Function {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) line: usize,
    pub(super) tokens: usize,
}

/// Counts the tokens of `trees`: a pair of delimiters is two, an operator of several characters
/// one.
pub(super) fn count(trees: &[TokenTree]) -> usize {
    let mut tokens = 0;
    let mut is_joint = false;
    for tree in trees {
        tokens += match tree {
            TokenTree::Group(group) => 2 + count(&live(group.stream())),
            _ => usize::from(!is_joint),
        };
        is_joint = matches!(tree, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint);
    }
    tokens
}

/// Adds the functions among `trees`, nested ones included, to `found`.
pub(super) fn functions(path: &Path, trees: &[TokenTree], found: &mut Vec<Function>) {
    for (at, tree) in trees.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            functions(path, &live(group.stream()), found);
        }
        let Some(TokenTree::Ident(name)) = trees.get(at + 1) else {
            continue;
        };
        if !is_ident(Some(tree), "fn") {
            continue;
        }
        let ends = |tree: &TokenTree| {
            is_brace(tree).is_some()
                || matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ';')
        };
        let Some(length) = trees[at..].iter().position(ends) else {
            continue;
        };
        if is_brace(&trees[at + length]).is_some() {
            found.push(Function {
                name: name.to_string(),
                path: path.to_owned(),
                line: name.span().start().line,
                tokens: count(&trees[at..=at + length]),
            });
        }
    }
}

/// Adds the names of types that `trees` define to `names`, with the file of each definition.
/// Associated types of traits and of their implementations are no definitions.
pub(super) fn types(path: &Path, trees: &[TokenTree], names: &mut BTreeMap<String, Vec<PathBuf>>) {
    let mut associated = false;
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(word) if word == "impl" || word == "trait" => associated = true,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                if !associated {
                    types(path, &live(group.stream()), names);
                }
                associated = false;
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => associated = false,
            _ => {}
        }
        let TokenTree::Ident(word) = tree else {
            continue;
        };
        if let Some(TokenTree::Ident(name)) = trees.get(at + 1)
            && ["struct", "enum", "trait", "union", "type"].contains(&&*word.to_string())
            && name.to_string().starts_with(char::is_uppercase)
        {
            let definitions = names.entry(name.to_string()).or_default();
            definitions.push(path.to_owned());
        }
    }
}

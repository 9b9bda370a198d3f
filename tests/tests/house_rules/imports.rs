//! The modules that a file declares and uses.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

use super::sources::{SourceFile, is_ident, live};

/// Returns the modules with files of their own that `trees` declare.
pub(super) fn declared_modules(trees: &[TokenTree]) -> Vec<String> {
    let declared = |window: &[TokenTree]| match window {
        [
            TokenTree::Ident(keyword),
            TokenTree::Ident(name),
            TokenTree::Punct(end),
        ] if keyword == "mod" && end.as_char() == ';' => Some(name.to_string()),
        _ => None,
    };
    trees.windows(3).filter_map(declared).collect()
}

/// Returns the top-level modules of its crate that a file uses.
pub(super) fn used_modules(file: &SourceFile) -> BTreeSet<String> {
    let inside = file.path.components().count() - 2;
    let is_module_folder = file.path.file_stem().is_some_and(|stem| stem == "mod");
    // How many `super` lead from the file's module to the root of the crate.
    let depth = inside - usize::from(is_module_folder);
    let mut used = BTreeSet::new();
    follow(&live(file.tokens.clone()), depth, &mut used);
    used
}

/// Adds what paths that begin with `crate`, or with `depth` times `super`, name next.
fn follow(trees: &[TokenTree], depth: usize, used: &mut BTreeSet<String>) {
    let mut at = 0;
    while at < trees.len() {
        if let TokenTree::Group(group) = &trees[at] {
            follow(&live(group.stream()), depth, used);
        }
        let mut supers = 0;
        while is_ident(trees.get(at + 3 * supers), "super") {
            supers += 1;
        }
        let next = match is_ident(trees.get(at), "crate") {
            true => Some(at + 3),
            false if supers > 0 && supers == depth => Some(at + 3 * supers),
            false => None,
        };
        match next.and_then(|next| trees.get(next)) {
            Some(TokenTree::Ident(name)) => _ = used.insert(name.to_string()),
            Some(TokenTree::Group(group)) => {
                for item in first_names(group.stream()) {
                    used.insert(item);
                }
            }
            _ => {}
        }
        at += 1.max(3 * supers);
    }
}

/// Returns the first name of each path of a `use` list.
fn first_names(list: TokenStream) -> Vec<String> {
    let mut names = Vec::new();
    let mut begins = true;
    for tree in list {
        match &tree {
            TokenTree::Ident(name) if begins => names.push(name.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                begins = true;
                continue;
            }
            _ => {}
        }
        begins = false;
    }
    names
}

/// Returns the top-level module of a file, or `None` for the root of its crate.
pub(super) fn module_of(file: &SourceFile) -> Option<String> {
    let path: Vec<_> = file
        .path
        .iter()
        .map(|part| part.to_string_lossy())
        .collect();
    let name = path.get(2)?.trim_end_matches(".rs");
    (!["lib", "main"].contains(&name)).then(|| name.to_owned())
}

//! The figures of `docs/history/readability.md`: they are printed, and have no limit here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proc_macro2::TokenTree;

use super::EXCEPTIONS;
use super::definitions::{count, functions, types};
use super::sources::{CRATES, SourceFile, crate_sources, files, live, root};

/// Returns the value at `share` per cent of `sorted`.
fn percentile(sorted: &[usize], share: usize) -> usize {
    sorted[(sorted.len() - 1) * share / 100]
}

/// Returns the sorted numbers of tokens of the functions in `sources`.
fn function_tokens<'s>(sources: impl Iterator<Item = &'s SourceFile>) -> Vec<usize> {
    let mut found = Vec::new();
    for file in sources {
        functions(&file.path, &live(file.tokens.clone()), &mut found);
    }
    let mut tokens: Vec<usize> = found.iter().map(|function| function.tokens).collect();
    tokens.sort_unstable();
    tokens
}

/// Prints the sizes of the functions and files of `sources`.
fn print_row(name: &str, sources: &[&SourceFile]) {
    let tokens = function_tokens(sources.iter().copied());
    let lines = sources.iter().map(|file| file.text.lines().count());
    let mut lines: Vec<usize> = lines.collect();
    lines.sort_unstable();
    println!(
        "| {name} | {} | {} | {} | {} | {} | {} |",
        sources.len(),
        tokens.len(),
        percentile(&tokens, 50),
        percentile(&tokens, 90),
        percentile(&tokens, 99),
        percentile(&lines, 50),
    );
}

/// Adds the lines on which `trees` have a token to `lines`.
fn code_lines(trees: &[TokenTree], lines: &mut BTreeSet<usize>) {
    for tree in trees {
        match tree {
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                lines.insert(group.span_close().start().line);
                code_lines(&live(group.stream()), lines);
            }
            other => {
                let span = other.span();
                lines.extend(span.start().line..=span.end().line);
            }
        }
    }
}

/// Returns the lines of a file before the tests that are at its end.
fn untested_lines(file: &SourceFile) -> usize {
    let code = file.text.split("#[cfg(test)]\nmod tests {").next();
    code.unwrap_or_default().lines().count()
}

/// Returns the lines of all Rust files of the crates and of `tests/`.
fn all_lines() -> usize {
    let root = root();
    let folders = CRATES.iter().chain(&["tests"]);
    folders
        .flat_map(|folder| files(&root.join(folder), "rs"))
        .map(|path| fs::read_to_string(path).expect("sources are UTF-8"))
        .map(|text| text.lines().count())
        .sum()
}

#[test]
fn figures() {
    let sources = crate_sources();
    println!("| crate | files | functions | median | p90 | p99 | lines of a file, median |");
    println!("|---|---|---|---|---|---|---|");
    for name in CRATES {
        let of_crate = |file: &&SourceFile| file.path.starts_with(name);
        print_row(name, &sources.iter().filter(of_crate).collect::<Vec<_>>());
    }
    print_row("all", &sources.iter().collect::<Vec<_>>());

    let (mut tokens, mut lines, mut names) = (0, 0, BTreeMap::new());
    for file in &sources {
        let trees = live(file.tokens.clone());
        tokens += count(&trees);
        let mut own = BTreeSet::new();
        code_lines(&trees, &mut own);
        lines += own.len();
        types(&file.path, &trees, &mut names);
    }
    let reused = names.values().filter(|places| places.len() > 1).count();
    let source: usize = sources.iter().map(untested_lines).sum();
    println!("\n| | |\n|---|---|");
    println!(
        "| tokens per line of code | {:.1} |",
        tokens as f64 / lines as f64
    );
    println!("| type names that are defined more than once | {reused} |");
    println!("| uses of a higher layer | {} |", EXCEPTIONS.len());
    let tested = (all_lines() - source) as f64 / source as f64;
    println!("| lines of tests per line of source | {tested:.2} |");
    let longest = sources.iter().max_by_key(|file| file.text.lines().count());
    let longest = longest.expect("there are sources");
    let length = longest.text.lines().count();
    println!("| longest file | {length} ({}) |", longest.path.display());
}

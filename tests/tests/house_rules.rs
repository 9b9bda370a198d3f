//! The rules that the source tree follows: sizes, widths, headers, imports, vocabulary, links.
//!
//! Each rule is a test that lists every place where it is broken. The sources are read as tokens,
//! so nothing here depends on how the code is formatted. Code of tests is exempt from the limits of
//! size and from the rules of imports.
//!
//! `cargo test --test house_rules -- --nocapture figures` prints the figures of
//! `docs/history/readability.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// The crates whose sources are read, from the ground up.
const CRATES: [&str; 8] = [
    "schemas",
    "connectors",
    "engine",
    "queries",
    "server",
    "cluster",
    "cli",
    "python",
];

/// Columns of a line. Data in string literals may be wider.
const WIDTH: usize = 100;

/// Lines of a file that doesn't give a reason for more.
const FILE_LINES: usize = 500;

/// What the header of a longer file contains, with the reason.
const LONG_FILE_REASON: &str = "500 lines";

/// Tokens of a function, 90th percentile over all crates.
const FUNCTION_TOKENS: usize = 200;

/// Type names that are defined more than once in the workspace.
const REUSED_TYPE_NAMES: usize = 50;

/// The layers of each crate's top-level modules, the lowest first: a module uses modules of lower
/// layers only. Add a new module to the lowest layer above everything that it uses.
const LAYERS: [(&str, &[&[&str]]); 8] = [
    (
        "schemas",
        &[
            &["error", "identifier", "json", "nfc"],
            &["address", "compression"],
            &["grain"],
            &["message", "sign"],
            &["cmf", "container"],
            &["lifecycle"],
            &["columns"],
        ],
    ),
    (
        "connectors",
        &[
            &["did_web", "generate", "lenient_timestamp", "storage"],
            &["wire"],
            &["source"],
            &["transcript"],
        ],
    ),
    (
        "engine",
        &[
            &[
                "bloom",
                "decoder_panic",
                "destination",
                "error",
                "file_digest",
                "hash",
                "progress",
                "text",
            ],
            &["keys", "segment"],
            &["lake"],
            &["policy"],
            &["index"],
            &[
                "compact", "describe", "encrypt", "erase", "export", "gc", "ingest",
            ],
            &["apply", "changes", "inspect", "reproject", "retention"],
            &["hold", "migrate", "verify"],
            &["repair"],
        ],
    ),
    (
        "queries",
        &[
            &["cal", "content", "detect"],
            &["render"],
            &["pages", "sql"],
            &["exec"],
            &["packs"],
        ],
    ),
    (
        "server",
        &[
            &["connections", "newest_lake", "tls"],
            &["mcp"],
            &["http"],
            &["flight", "postgres"],
        ],
    ),
    (
        "cluster",
        &[
            &["error", "lake_url", "lost_executors", "segment_job", "wire"],
            &["cluster_key", "segment_operator"],
            &["session", "tls_listener"],
            &["codec", "job"],
            &["portable", "process"],
            &["query"],
            &["segments"],
        ],
    ),
    (
        "cli",
        &[
            &[
                "args",
                "csv_injection",
                "diagnostic",
                "human_readable",
                "json_lines",
                "requests",
                "table",
            ],
            &["log", "progress"],
            &["exit"],
            &["cell_text", "configuration", "duration_arg", "shell"],
            &["instant_arg"],
            &["output"],
            &["commands"],
        ],
    ),
    (
        "python",
        &[
            &["failure"],
            &["codec", "findings", "parameters", "runtime"],
            &["query_result"],
            &["lake"],
            &["erasure"],
        ],
    ),
];

/// Uses of a higher layer that are permitted, with the reason.
const EXCEPTIONS: [(&str, &str, &str); 2] = [
    // The kind of a source includes the kind of a transcript, whose detection reads no source.
    ("connectors", "source", "transcript"),
    // A scan recognises the search function of CAL among its filters, and a context holds the
    // cache of lifecycle states that all executors over it share.
    ("queries", "sql", "exec"),
];

/// Words of this project's early vocabulary that comments, messages and names don't use.
const PRIVATE_WORDS: [&str; 6] = [
    "comes to the door",
    "at the door",
    "whoever",
    "what becomes of",
    "as far as it goes",
    "what is told",
];

/// A source file.
struct SourceFile {
    /// From the root of the workspace.
    path: PathBuf,
    text: String,
    tokens: TokenStream,
    is_test: bool,
}

/// A function outside of tests.
struct Function {
    name: String,
    path: PathBuf,
    line: usize,
    tokens: usize,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is a folder of the workspace")
        .to_owned()
}

/// Returns the files under `folder` with the extension `extension`, sorted.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
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
fn crate_sources() -> Vec<SourceFile> {
    let folders = CRATES.map(|name| format!("{name}/src"));
    let mut sources = sources(&folders.each_ref().map(String::as_str));
    sources.retain(|file| !file.is_test);
    sources
}

/// Returns the tokens of `stream` without doc comments and without items under `#[cfg(test)]`.
fn live(stream: TokenStream) -> Vec<TokenTree> {
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

/// Counts the tokens of `trees`: a pair of delimiters is two, an operator of several characters one.
fn count(trees: &[TokenTree]) -> usize {
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

fn is_ident(tree: Option<&TokenTree>, name: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(ident)) if ident == name)
}

fn is_brace(tree: &TokenTree) -> Option<&Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

/// Adds the functions among `trees`, nested ones included, to `found`.
fn functions(path: &Path, trees: &[TokenTree], found: &mut Vec<Function>) {
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
fn types(path: &Path, trees: &[TokenTree], names: &mut BTreeMap<String, Vec<PathBuf>>) {
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

/// Returns the top-level modules of its crate that a file uses.
fn used_modules(file: &SourceFile) -> BTreeSet<String> {
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
fn module_of(file: &SourceFile) -> Option<String> {
    let path: Vec<_> = file
        .path
        .iter()
        .map(|part| part.to_string_lossy())
        .collect();
    let name = path.get(2)?.trim_end_matches(".rs");
    (!["lib", "main"].contains(&name)).then(|| name.to_owned())
}

/// Fails with all of `broken`, one a line.
fn none(rule: &str, broken: &[String]) {
    assert!(
        broken.is_empty(),
        "{rule}; {} places:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

#[test]
fn lines_are_at_most_100_columns_wide() {
    let mut broken = Vec::new();
    for file in crate_sources() {
        let mut literals = BTreeSet::new();
        literal_lines(file.tokens, &mut literals);
        // Rows of tables can't be wrapped; rustfmt doesn't reach into macros of tests.
        let code = file.text.split("#[cfg(test)]\nmod tests").next();
        for (at, line) in (1..).zip(code.unwrap_or_default().lines()) {
            let is_table = line
                .trim_start()
                .trim_start_matches(['/', '!'])
                .starts_with(" |");
            let width = line.chars().count();
            if width > WIDTH && !is_table && !literals.contains(&at) {
                broken.push(format!("{}:{at}: {width} columns", file.path.display()));
            }
        }
    }
    none(
        "lines are at most 100 columns wide, except for tables and data in literals",
        &broken,
    );
}

/// Adds the lines on which string literals are to `lines`.
fn literal_lines(stream: TokenStream, lines: &mut BTreeSet<usize>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => literal_lines(group.stream(), lines),
            TokenTree::Literal(literal) if literal.to_string().contains('"') => {
                let span = literal.span();
                lines.extend(span.start().line..=span.end().line);
            }
            _ => {}
        }
    }
}

#[test]
fn files_begin_with_a_header_and_say_why_they_are_long() {
    let mut broken = Vec::new();
    for file in crate_sources() {
        let header: String = file
            .text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .collect();
        let lines = file.text.lines().count();
        if header.is_empty() {
            broken.push(format!("{}: no header", file.path.display()));
        } else if lines > FILE_LINES && !header.to_lowercase().contains(LONG_FILE_REASON) {
            broken.push(format!(
                "{}: {lines} lines without a reason",
                file.path.display()
            ));
        }
    }
    none(
        "a file has a header, and above 500 lines the reason in it",
        &broken,
    );
}

#[test]
fn nine_of_ten_functions_are_short() {
    let mut found = Vec::new();
    for file in crate_sources() {
        functions(&file.path, &live(file.tokens), &mut found);
    }
    found.sort_by_key(|function| function.tokens);
    let at = found.len() * 9 / 10;
    let mut longest = String::new();
    for function in found.iter().rev().take(20) {
        let Function {
            name,
            path,
            line,
            tokens,
        } = function;
        _ = writeln!(longest, "{tokens} tokens: {}:{line} {name}", path.display());
    }
    assert!(
        found[at].tokens <= FUNCTION_TOKENS,
        "the 90th percentile is {} tokens; the longest:\n{longest}",
        found[at].tokens
    );
}

#[test]
fn few_type_names_are_defined_more_than_once() {
    let mut names = BTreeMap::new();
    for file in crate_sources() {
        types(&file.path, &live(file.tokens), &mut names);
    }
    names.retain(|_, places: &mut Vec<PathBuf>| places.len() > 1);
    let list = names
        .iter()
        .map(|(name, places)| format!("{name}: {places:?}"));
    let list: Vec<String> = list.collect();
    assert!(
        list.len() <= REUSED_TYPE_NAMES,
        "{} type names are defined more than once:\n{}",
        list.len(),
        list.join("\n")
    );
}

#[test]
fn modules_use_only_modules_of_lower_layers() {
    let sources = crate_sources();
    let mut broken = Vec::new();
    for (name, layers) in LAYERS {
        let layer = |module: &str| layers.iter().position(|layer| layer.contains(&module));
        for file in &sources {
            let Some(module) = module_of(file).filter(|_| file.path.starts_with(name)) else {
                continue;
            };
            let Some(own) = layer(&module) else {
                broken.push(format!(
                    "{}: `{module}` is in no layer",
                    file.path.display()
                ));
                continue;
            };
            for used in used_modules(file) {
                let is_exception = EXCEPTIONS.contains(&(name, &*module, &*used));
                let is_lower = layer(&used).is_none_or(|other| other < own);
                if used != module && !is_lower && !is_exception {
                    broken.push(format!("{}: `{module}` uses `{used}`", file.path.display()));
                }
            }
        }
    }
    none("a module uses modules of lower layers only", &broken);
}

#[test]
fn comments_and_messages_use_the_terms_of_the_field() {
    let mut broken = Vec::new();
    for file in crate_sources() {
        for (at, line) in (1..).zip(file.text.lines()) {
            for word in PRIVATE_WORDS {
                if line.to_lowercase().contains(word) {
                    broken.push(format!("{}:{at}: `{word}`", file.path.display()));
                }
            }
        }
    }
    none(
        "private words are replaced by the terms of docs/glossary.md",
        &broken,
    );
}

#[test]
fn links_of_the_documentation_lead_somewhere() {
    let root = root();
    let mut pages: Vec<PathBuf> = files(&root.join("docs"), "md");
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name)));
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).expect("pages are UTF-8");
        for target in link_targets(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = page.parent().expect("a page is in a folder");
            let file = if path.is_empty() {
                page.clone()
            } else {
                folder.join(path)
            };
            let exists = file.exists();
            let has_anchor = anchor.is_empty()
                || fs::read_to_string(&file).is_ok_and(|text| has_heading(&text, anchor));
            if !exists || !has_anchor {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    none("links lead to files and headings", &broken);
}

/// Returns the relative targets of the Markdown links of a page, code blocks excluded.
fn link_targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            let is_url = ["http:", "https:", "mailto:"]
                .iter()
                .any(|scheme| target.starts_with(scheme));
            if !is_url && !target.contains(char::is_whitespace) {
                targets.push(target.to_owned());
            }
        }
    }
    targets
}

/// True if a page has a heading whose anchor, as code hosts make it, is `anchor`.
fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .any(|heading| {
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || "- _".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c })
                .eq(anchor.chars())
        })
}

#[test]
fn figures() {
    let percentile = |sorted: &[usize], share: usize| sorted[(sorted.len() - 1) * share / 100];
    println!("| crate | files | functions | median | p90 | p99 | lines of a file, median |");
    println!("|---|---|---|---|---|---|---|");
    let sources = crate_sources();
    for name in CRATES {
        let own: Vec<&SourceFile> = sources
            .iter()
            .filter(|file| file.path.starts_with(name))
            .collect();
        let mut found = Vec::new();
        for file in &own {
            functions(&file.path, &live(file.tokens.clone()), &mut found);
        }
        let mut tokens: Vec<usize> = found.iter().map(|function| function.tokens).collect();
        let mut lines: Vec<usize> = own.iter().map(|file| file.text.lines().count()).collect();
        tokens.sort_unstable();
        lines.sort_unstable();
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} |",
            own.len(),
            tokens.len(),
            percentile(&tokens, 50),
            percentile(&tokens, 90),
            percentile(&tokens, 99),
            percentile(&lines, 50),
        );
    }
}

//! The rules that the source tree follows: sizes, widths, headers, imports, vocabulary, links.
//!
//! Each rule is a test that lists every place where it is broken. The sources are read as tokens,
//! so nothing here depends on how the code is formatted. Code of tests is exempt from the limits of
//! size and from the rules of imports.
//!
//! `cargo test --test house_rules -- --nocapture figures` prints the figures of
//! `docs/history/readability.md`.

mod definitions;
mod figures;
mod imports;
mod markdown;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use definitions::{Function, functions, types};
use imports::{declared_modules, module_of, used_modules};
use markdown::{code_spans, has_heading, link_targets};
use sources::{CRATES, crate_sources, files, literal_lines, live, root};

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
                "file_lock",
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
            &["sql"],
            &["exec", "pages"],
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
            &[
                "error",
                "lake_url",
                "lost_executors",
                "segment_job",
                "wire",
                "work_folder",
            ],
            &["cluster_key", "idle_jobs", "segment_operator"],
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
                "table",
            ],
            &["log", "termination"],
            &["progress", "requests"],
            &["exit"],
            &[
                "audit_heads",
                "cell_text",
                "configuration",
                "duration_arg",
                "shell",
            ],
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

/// Folders with code or pages that aren't crates of the product.
const OTHER_FOLDERS: [&str; 4] = ["benches", "docs", "fuzz", "tests"];

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
        let mut in_example = false;
        for (at, line) in (1..).zip(code.unwrap_or_default().lines()) {
            let comment = line.trim_start().trim_start_matches(['/', '!']);
            in_example ^= comment.starts_with(" ```");
            let is_exempt = in_example || comment.starts_with(" |") || literals.contains(&at);
            let width = line.chars().count();
            if width > WIDTH && !is_exempt {
                broken.push(format!("{}:{at}: {width} columns", file.path.display()));
            }
        }
    }
    none(
        "lines are at most 100 columns wide, except for tables, examples and data in literals",
        &broken,
    );
}

#[test]
fn files_begin_with_a_header_and_say_why_they_are_long() {
    let mut broken = Vec::new();
    for file in crate_sources() {
        let header = file.header();
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
fn tables_of_modules_are_complete() {
    let mut broken = Vec::new();
    for file in crate_sources() {
        let header = file.header();
        let has_table = ["| module | question |", "| module | contents |"]
            .iter()
            .any(|head| header.contains(head));
        if !has_table {
            continue;
        }
        for name in declared_modules(&live(file.tokens)) {
            let is_listed = [format!("`{name}`"), format!("`mod@{name}`")]
                .iter()
                .any(|listed| header.contains(listed));
            if !is_listed && name != "tests" {
                broken.push(format!("{}: `{name}`", file.path.display()));
            }
        }
    }
    none("a header's table of modules lists all of them", &broken);
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

/// Returns the pages of the documentation.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let mut pages = files(&root.join("docs"), "md");
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name)));
    pages
}

#[test]
fn links_of_the_documentation_lead_somewhere() {
    let mut broken = Vec::new();
    for page in &pages() {
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

#[test]
fn files_that_the_documentation_names_exist() {
    let root = root();
    let mut broken = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("pages are UTF-8");
        for span in code_spans(&text) {
            let Some((folder, _)) = span.split_once('/') else {
                continue;
            };
            let is_ours = CRATES.contains(&folder) || OTHER_FOLDERS.contains(&folder);
            let is_path = !span.contains(|c: char| c.is_whitespace() || "*{}<>…|".contains(c));
            if is_ours && is_path && !root.join(span).exists() {
                broken.push(format!("{}: {span}", page.display()));
            }
        }
    }
    none("files that the documentation names exist", &broken);
}

#[test]
fn tests_that_the_pitfalls_name_exist() {
    let root = root();
    let folders = CRATES.iter().chain(&OTHER_FOLDERS);
    let code: String = folders
        .flat_map(|folder| files(&root.join(folder), "rs"))
        .map(|path| fs::read_to_string(path).expect("sources are UTF-8"))
        .collect();
    let page = fs::read_to_string(root.join("docs/pitfalls.md")).expect("pages are UTF-8");
    let is_sentence = |span: &&str| span.matches('_').count() > 2 && !span.contains('.');
    let broken: Vec<String> = code_spans(&page)
        .into_iter()
        .filter(is_sentence)
        .filter(|name| !code.contains(&format!("fn {name}(")))
        .map(str::to_owned)
        .collect();
    none("tests that `docs/pitfalls.md` names exist", &broken);
}

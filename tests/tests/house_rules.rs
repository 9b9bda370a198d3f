//! House rules that the compiler doesn't check.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of `engine/src`, by layer. A module may use modules of lower layers only. Add a new
/// module to the lowest layer above everything that it uses.
const ENGINE_LAYERS: [&[&str]; 9] = [
    &[
        "bloom",
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
    &["apply", "inspect", "reproject"],
    &["verify"],
    &["repair"],
];

/// Items of the crate's root, and the modules where they are defined.
const ROOT_ITEMS: [(&str, &str); 2] = [
    ("FileDigest", "file_digest"),
    ("WrittenFile", "file_digest"),
];

#[test]
fn modules_of_the_engine_use_lower_layers_only() {
    let layers: BTreeMap<&str, usize> = ENGINE_LAYERS
        .iter()
        .enumerate()
        .flat_map(|(layer, modules)| modules.iter().map(move |module| (*module, layer)))
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let mut violations = Vec::new();
    for file in rust_files(&root) {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let module = name.split(['/', '.']).next().unwrap();
        if module == "lib" || name.contains("tests") {
            continue;
        }
        let Some(layer) = layers.get(module) else {
            violations.push(format!("{name}: `{module}` is in no layer"));
            continue;
        };
        let source = fs::read_to_string(&file).unwrap();
        for used in used_modules(&source) {
            let used = ROOT_ITEMS
                .iter()
                .find(|(item, _)| *item == used)
                .map_or(used.as_str(), |(_, module)| *module);
            let is_lower = layers.get(used).is_some_and(|lower| lower < layer);
            if used != module && !is_lower {
                violations.push(format!("{name}: `{module}` must not use `{used}`"));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// Returns the Rust files below `folder`.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the first names of all paths in `source` that begin at the crate's root. Comments and
/// the unit tests at the end of a file don't count.
fn used_modules(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code: String = code
        .lines()
        .map(|line| line.split("//").next().unwrap())
        .collect::<Vec<_>>()
        .join("\n");
    let mut modules: Vec<String> = code
        .match_indices("crate::")
        .flat_map(|(at, prefix)| first_names(&code[at + prefix.len()..]))
        .collect();
    modules.sort();
    modules.dedup();
    modules
}

/// Returns the first name of the path at the start of `code`, or of each path of a `{…}` group.
fn first_names(code: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|character| character.is_alphanumeric() || *character == '_')
            .collect()
    };
    let Some(group) = code.strip_prefix('{') else {
        return vec![name(code)];
    };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
                if character == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn paths_of_the_crate_are_found() {
    let source = "use crate::lake::{Lake, Table};\nuse crate::{FileDigest, keys::{a, b}};\n\
                  // crate::comment\nfn f() { crate::index::g() }\n#[cfg(test)]\nmod tests { \
                  use crate::verify; }";
    assert_eq!(
        used_modules(source),
        ["FileDigest", "index", "keys", "lake"]
    );
}

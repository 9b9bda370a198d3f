//! The commands of the documentation: those of pages by task run and print what the pages show;
//! all others are accepted by the command line, and those that can run do (`doc_scripts`). SQL
//! runs, and targets of cargo exist.
//!
//! With `GRISTMILL_UPDATE_DOCS` in the environment, output that differs is written to the pages;
//! parts that change between runs are then replaced with `…` by hand.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use gristmill_tests::binary;
use gristmill_tests::doc_pages::{DocBlock, DocCommand, blocks, doc_pages, output_matches};
use gristmill_tests::kill::copy_folder;
use gristmill_tests::paths::workspace;

/// Pages whose `console` blocks run from top to bottom in one folder.
const RUN: [&str; 5] = [
    "README.md",
    "docs/cal-by-example.md",
    "docs/first-hour.md",
    "docs/formats.md",
    "docs/recovery.md",
];

/// The command with which the pages begin. It runs once for all of them.
const DEMO: &str = "gristmill demo --keep tour";

/// Returns the output of the demo and the folder in which it ran.
pub(crate) fn demo() -> &'static (String, tempfile::TempDir) {
    static DEMO_FOLDER: OnceLock<(String, tempfile::TempDir)> = OnceLock::new();
    DEMO_FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let output = in_shell(folder.path(), DEMO);
        (output, folder)
    })
}

/// Runs a command of a page in `folder` and returns what it prints.
pub(crate) fn in_shell(folder: &Path, command: &str) -> String {
    let own = binary::path().parent().expect("a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(own).chain(std::env::split_paths(&path));
    let mut shell = Command::new("sh");
    binary::without_settings(&mut shell);
    let output = shell
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(folders).expect("a path"))
        .env("HOME", folder)
        .env("XDG_CONFIG_HOME", folder)
        .output()
        .expect("a shell");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "`{command}` failed:\n{printed}");
    printed
}

fn run(folder: &Path, command: &DocCommand) -> String {
    if command.command != DEMO {
        return in_shell(folder, &command.command);
    }
    let (output, ran_in) = demo();
    copy_folder(&ran_in.path().join("tour"), &folder.join("tour")).unwrap();
    output.clone()
}

/// Runs the `console` blocks of a page; returns the page with what they print where that isn't
/// what the page shows.
fn rerun(page: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    // What people see in a terminal.
    fs::write(folder.path().join("gristmill.toml"), "format = \"table\"\n").unwrap();
    let mut text = fs::read_to_string(workspace().join(page)).unwrap();
    for block in blocks(page)
        .iter()
        .filter(|block| block.language == "console")
    {
        let mut printed = String::new();
        for command in block.commands() {
            let output = run(folder.path(), &command);
            let lines: Vec<&str> = output.lines().collect();
            let _ = writeln!(printed, "$ {}", command.command);
            let lines = match output_matches(&command.expected, &lines) {
                true => command.expected,
                false => lines
                    .iter()
                    .map(|line| line.trim_end().to_owned())
                    .collect(),
            };
            for line in lines {
                let _ = writeln!(printed, "{line}");
            }
        }
        text = text.replacen(&block.text, &printed, 1);
    }
    text
}

#[test]
fn commands_of_the_pages_by_task_print_what_the_pages_show() {
    for page in RUN {
        let shown = fs::read_to_string(workspace().join(page)).unwrap();
        let printed = rerun(page);
        if std::env::var_os("GRISTMILL_UPDATE_DOCS").is_some() {
            fs::write(workspace().join(page), &printed).unwrap();
            continue;
        }
        let differing = shown
            .lines()
            .zip(printed.lines())
            .find(|(shown, printed)| shown != printed);
        assert!(
            shown == printed,
            "{page} shows other output than the commands print: {differing:?}"
        );
    }
}

/// Commands of pages name flags and subcommands that exist: with `--help` appended each is parsed
/// and not run.
#[test]
fn every_command_of_the_documentation_is_accepted() {
    let mut pages = doc_pages();
    // Its commands exist with the feature only.
    pages.retain(|page| cfg!(feature = "cluster") || page != "docs/cluster.md");
    let blocks: Vec<DocBlock> = pages.iter().flat_map(|page| blocks(page)).collect();
    let shell = blocks
        .iter()
        .filter(|block| matches!(&*block.language, "sh" | "console"));
    let mut checked = 0;
    let mut refused = Vec::new();
    let folder = tempfile::tempdir().unwrap();
    for (block, line) in shell.flat_map(|block| {
        block
            .own_command_lines()
            .into_iter()
            .map(move |line| (block, line))
    }) {
        let line = line.replace('…', "");
        let script = format!("{line} --help > help 2>&1 || {{ cat help; exit 0; }}; : > help");
        let message = in_shell(folder.path(), &script);
        checked += 1;
        if !message.is_empty() {
            refused.push(format!("{}:{}: {line}: {message}", block.page, block.line));
        }
    }
    assert!(checked > 60, "{checked} commands");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// SQL of pages that isn't in a command runs on the demo's lake.
#[test]
fn every_sql_block_of_the_documentation_runs() {
    let (_, demo) = demo();
    let lake = demo.path().join("tour/lake");
    let mut checked = 0;
    for page in doc_pages() {
        for block in blocks(&page).iter().filter(|block| block.language == "sql") {
            let ended = binary::gristmill()
                .arg("--lake")
                .arg(&lake)
                .args(["sql", &block.text])
                .output()
                .unwrap();
            let message = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{page}:{}: {message}", block.line);
            checked += 1;
        }
    }
    assert!(checked >= 4, "{checked} blocks");
}

/// Names of packages and targets of the workspace, and of the fuzz crate's example.
fn cargo_names() -> HashSet<String> {
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(workspace())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let targets = packages
        .iter()
        .flat_map(|package| package["targets"].as_array().unwrap());
    let named = packages.iter().chain(targets);
    let names = named.map(|named| named["name"].as_str().unwrap().to_owned());
    names.chain(["seeds".to_owned()]).collect()
}

/// Commands of cargo name packages and targets that exist.
#[test]
fn every_target_that_the_documentation_names_exists() {
    let names = cargo_names();
    let mut checked = 0;
    for page in doc_pages() {
        let text = fs::read_to_string(workspace().join(&page)).unwrap();
        for line in text.lines().filter(|line| line.contains("cargo ")) {
            let words: Vec<&str> = line
                .split(|letter: char| letter.is_whitespace() || letter == '`')
                .collect();
            for pair in words.windows(2) {
                let is_target = ["--bin", "--test", "--bench", "--example", "-p", "--exclude"]
                    .contains(&pair[0]);
                let is_name = pair[1].chars().any(|letter| letter.is_ascii_lowercase());
                if is_target && is_name {
                    let name = pair[1].trim_end_matches(['.', ',', ')', ';']);
                    assert!(names.contains(name), "{page}: no `{name}`: {line}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 20, "{checked} names");
}

//! The `sh` blocks of README and `docs/` run on a small lake. What a test can't run is listed with
//! the reason; `doc_commands` checks that the command line accepts it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use gristmill_tests::doc_pages::{DocBlock, blocks, doc_pages};
use gristmill_tests::kill::copy_folder;
use gristmill_tests::paths::workspace;

use crate::doc_commands::{demo, in_shell};

/// Parts of commands that aren't run, with the reason.
const NOT_RUN: [(&str, &str); 21] = [
    ("cargo ", "compiles for minutes, or needs another toolchain"),
    ("apt install", "needs a package, and changes the machine"),
    ("pip install", "compiles for minutes"),
    ("pytest", "needs the compiled Python package"),
    ("cd fuzz", "needs another toolchain"),
    ("chown ", "needs the user that the package creates"),
    ("target/release/", "needs a release build and a large lake"),
    ("systemctl", "needs systemd, and changes the machine"),
    ("journalctl", "needs systemd"),
    ("cluster scheduler", "runs until it is stopped"),
    ("cluster executor", "runs until it is stopped"),
    (
        "cluster key",
        "needs the feature `cluster`, and writes to /etc",
    ),
    ("--cluster", "needs a cluster"),
    ("s3://", "needs an object store"),
    ("/srv/lake serve", "runs until it is stopped"),
    ("curl ", "needs a server"),
    ("psql ", "needs a server"),
    ("claude mcp", "needs Claude Code"),
    (
        "grain elide",
        "needs signed grains; `disclosed_copies` makes some",
    ),
    ("grain verify-elision", "needs a disclosed copy"),
    (
        "GRISTMILL_CLUSTER_KEY",
        "names a file of another command that isn't run",
    ),
];

/// Parts of blocks that need something first, with the command that makes it.
const PREPARED: [(&str, &str); 5] = [
    ("retention run", "gristmill keys generate erasure"),
    ("ingest --changes", "gristmill keys generate erasure"),
    ("ingest inbox --encrypt", "gristmill keys generate erasure"),
    ("export lake.parquet", "gristmill keys generate erasure"),
    ("verify corpus", "gristmill generate corpus --grains 200"),
];

/// What stands in commands for something of the reader's, and what the test has in its place.
const REPLACED: [(&str, &str); 7] = [
    ("/srv/lake", "lake"),
    ("/srv/inbox", "inbox"),
    ("FOLDER", "inbox"),
    ("--grains 1000000", "--grains 2000"),
    ("--since 15.6.2", "--since 0"),
    // The lake of the test has plain grains.
    (
        "gristmill ingest inbox --encrypt",
        "gristmill --lake sealed ingest inbox --encrypt",
    ),
    (
        "lake/erasures/<id>.cose --signer did:key:…",
        "\"$(ls lake/erasures/*.cose | head -n 1)\"",
    ),
];

/// Exit codes other than 0 that the pages state, by parts of commands.
const EXIT_CODES: [(&str, u8); 1] = [("gristmill scan", 2)];

/// Grains of the person and the namespace that the pages name.
const GRAINS: &str = r#"{"grain": {"type": "belief", "subject": "Ada Okafor", "relation": "mg:prefers", "object": "tea", "confidence": 0.9, "user_id": "u-17", "namespace": "finance:eu", "created_at": 1735689600000}}
{"grain": {"type": "event", "role": "user", "content": "Ada Okafor: a new battery, please", "user_id": "u-17", "session_id": "s-1", "created_at": 1735689601000}}
"#;

/// Returns a folder with the files and lakes that the pages name.
fn stage() -> &'static Path {
    static STAGE: OnceLock<tempfile::TempDir> = OnceLock::new();
    STAGE
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            fill(folder.path());
            folder
        })
        .path()
}

fn fill(stage: &Path) {
    let tour = demo().1.path().join("tour");
    for (from, to) in [("lake", "lake"), ("data", "inbox"), ("data", "exports")] {
        copy_folder(&tour.join(from), &stage.join(to)).unwrap();
    }
    for name in ["archive", "media"] {
        fs::create_dir(stage.join(name)).unwrap();
    }
    for name in ["archive", "exports"] {
        let container = workspace().join("datasets/plain.mg");
        fs::copy(container, stage.join(name).join("plain.mg")).unwrap();
    }
    let toml = |page: &str, part: &str| -> String {
        let mut blocks = blocks(page).into_iter();
        let block = blocks.find(|block| block.language == "toml" && block.text.contains(part));
        block.unwrap_or_else(|| panic!("{page} has no {part}")).text
    };
    let (house, retention) = (
        toml("docs/packs.md", "[[rule]]"),
        toml("docs/operations.md", "[[policy]]"),
    );
    for (name, text) in [
        ("grains.jsonl", GRAINS),
        ("inbox/grains.jsonl", GRAINS),
        ("people.csv", "user,name\ntheo,Theo Lindqvist\n"),
        (
            "did.json",
            "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK\n",
        ),
        ("new", "another passphrase\n"),
        ("house.toml", house.as_str()),
        ("retention.toml", retention.as_str()),
    ] {
        fs::write(stage.join(name), text).unwrap();
    }
    in_shell(stage, "gristmill --lake lake ingest grains.jsonl");
    copy_folder(&stage.join("lake"), &stage.join("a")).unwrap();
}

/// Returns the commands of a block, one a line.
fn commands(block: &DocBlock) -> Vec<String> {
    let joined = block.text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// Returns the parts of [`NOT_RUN`] that a command contains.
fn reasons(command: &str) -> impl Iterator<Item = &'static str> {
    let parts = NOT_RUN.iter().map(|(part, _)| *part);
    parts.filter(move |part| command.contains(*part))
}

/// Returns the script of a block and the number of its commands that run.
fn script(block: &DocBlock) -> (String, usize) {
    let (mut script, mut count) = ("export GRISTMILL_PASSPHRASE=…\n".to_owned(), 0);
    for (part, command) in PREPARED {
        if block.text.contains(part) {
            let _ = writeln!(script, "{command} || exit 1");
        }
    }
    for command in commands(block) {
        if reasons(&command).next().is_some() {
            continue;
        }
        let replaced = REPLACED
            .iter()
            .fold(command, |text, (part, own)| text.replace(*part, own));
        let exit_code = EXIT_CODES
            .iter()
            .find(|(part, _)| replaced.contains(*part))
            .map_or(0, |(_, code)| *code);
        count += 1;
        let _ = writeln!(
            script,
            "{{ {replaced}\n}} || {{ code=$?; [ $code = {exit_code} ] || {{ echo \"command \
             {count} that runs: exit code $code\"; exit 1; }}; }}"
        );
    }
    (script, count)
}

/// Runs the blocks of a page, each in a folder of its own; returns the number of commands.
fn run(page: &str) -> usize {
    let mut ran = 0;
    for block in blocks(page).iter().filter(|block| block.language == "sh") {
        let (script, count) = script(block);
        if count == 0 {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        copy_folder(stage(), folder.path()).unwrap();
        println!("{page}:{}", block.line);
        in_shell(folder.path(), &script);
        ran += count;
    }
    ran
}

/// Pages for users; contributors compile.
fn pages() -> impl Iterator<Item = String> {
    doc_pages()
        .into_iter()
        .filter(|page| page != "CONTRIBUTING.md")
}

const OPERATIONS: &str = "docs/operations.md";

#[test]
fn the_commands_of_the_page_for_operators_run() {
    let ran = run(OPERATIONS);
    assert!(ran > 50, "{ran} commands");
}

#[test]
fn the_commands_of_the_other_pages_run() {
    let ran: usize = pages()
        .filter(|page| page != OPERATIONS)
        .map(|page| run(&page))
        .sum();
    assert!(ran > 25, "{ran} commands");
}

#[test]
fn every_reason_not_to_run_a_command_is_needed() {
    let blocks = pages().flat_map(|page| blocks(&page));
    let blocks = blocks.filter(|block| block.language == "sh");
    let commands: Vec<String> = blocks.flat_map(|block| commands(&block)).collect();
    let used: BTreeSet<&str> = commands
        .iter()
        .flat_map(|command| reasons(command))
        .collect();
    for (part, reason) in NOT_RUN {
        assert!(used.contains(part), "no command has `{part}` ({reason})");
    }
}

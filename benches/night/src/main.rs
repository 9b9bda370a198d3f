//! Builds lakes of several sizes, runs a night on each with the release binary, and prints what
//! each step costs and how the costs grow.
//!
//! ```sh
//! cargo build --release --bin gristmill
//! cargo run -p gristmill-night -- --program target/release/gristmill --folder /tmp/night 1M 10M 30M
//! ```
//!
//! `--memory SIZE` is passed on, `--new N` brings N new grains at every size instead of a
//! hundredth, `--backdated` gives them the times of the lake's first, `--json FILE` writes the
//! results as JSON, and `--peers PYTHON` runs the peers of `peers.py` over the same files with that
//! interpreter. Needs Linux (`/proc`).

mod child;
mod night;
mod questions;
mod report;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use crate::night::{Night, text};
use crate::report::SizeResult;

/// Sizes without an argument.
const DEFAULT_SIZES: [u64; 3] = [1_000_000, 10_000_000, 30_000_000];

/// A night brings a grain for so many that the lake has.
const NEW_SHARE: u64 = 100;

/// The script of the peers.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers.py");

/// The command line.
struct Options {
    program: PathBuf,
    folder: PathBuf,
    memory: Option<String>,
    new: Option<u64>,
    backdated: bool,
    json: Option<PathBuf>,
    python: Option<PathBuf>,
    sizes: Vec<u64>,
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("night: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> io::Result<Options> {
    let mut options = Options {
        program: "target/release/gristmill".into(),
        folder: std::env::temp_dir().join("night"),
        memory: None,
        new: None,
        backdated: false,
        json: None,
        python: None,
        sizes: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| io::Error::other(format!("{word} needs a value")))
        };
        match word.as_str() {
            "--program" => options.program = value()?.into(),
            "--folder" => options.folder = value()?.into(),
            "--memory" => options.memory = Some(value()?),
            "--new" => options.new = Some(count(&value()?)?),
            "--backdated" => options.backdated = true,
            "--json" => options.json = Some(value()?.into()),
            "--peers" => options.python = Some(value()?.into()),
            size => options.sizes.push(count(size)?),
        }
    }
    if options.sizes.is_empty() {
        options.sizes = DEFAULT_SIZES.to_vec();
    }
    Ok(options)
}

/// Parses a number such as 20000, 20k or 10M.
fn count(text: &str) -> io::Result<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) => (digits, 1_000_000),
        None => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| {
        io::Error::other(format!(
            "`{text}` is neither an option nor a number such as 10M"
        ))
    })?;
    Ok(number * unit)
}

fn run(options: &Options) -> io::Result<()> {
    let mut results = Vec::new();
    let mut peers = Vec::new();
    for &grains in &options.sizes {
        let folder = options.folder.join(grains.to_string());
        if folder.exists() {
            let folder = folder.display();
            return Err(io::Error::other(format!(
                "`{folder}` exists; remove it first"
            )));
        }
        fs::create_dir_all(&folder)?;
        let night = Night {
            program: options.program.canonicalize()?,
            memory: options.memory.clone(),
            new: options.new.unwrap_or(grains / NEW_SHARE).max(1),
            backdated: options.backdated,
            folder,
            grains,
        };
        eprintln!("{grains} grains: building the lake");
        let mut steps = night.prepare()?;
        if let Some(python) = &options.python {
            eprintln!("{grains} grains: peers");
            peers.push(json!({"grains": grains, "peers": run_peers(&night, python)?}));
        }
        eprintln!("{grains} grains: the night");
        steps.extend(night.steps()?);
        fs::remove_dir_all(&night.folder)?;
        results.push(SizeResult {
            grains,
            new: night.new,
            steps,
        });
    }
    print!("{}", report::markdown(&results));
    for peer in &peers {
        println!("\nPeers: {}", serde_json::to_string_pretty(peer)?);
    }
    if let Some(file) = &options.json {
        let json = report::as_json(&results, &Value::Array(peers));
        fs::write(file, serde_json::to_string_pretty(&json)?)?;
    }
    Ok(())
}

/// Runs the peers over the lake before its night; null if Python or the script fails.
fn run_peers(night: &Night, python: &Path) -> io::Result<Value> {
    let questions: Vec<Value> = questions::SQL
        .iter()
        .map(|(name, text)| json!({"name": name, "sql": text}))
        .collect();
    let file = night.folder.join("questions.json");
    fs::write(&file, serde_json::to_string(&questions)?)?;
    let lake = night.lake();
    let new = night.new_corpus();
    let scratch = night.folder.join("peers");
    let arguments = [&night.program, &lake, &new, &file, &scratch];
    let mut command = Command::new(python);
    command.arg(PEERS);
    for argument in arguments {
        command.arg(text(argument)?);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("peers are skipped: `{}`: {error}", python.display());
            return Ok(Value::Null);
        }
    };
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        eprintln!("peers are skipped: the script failed");
        return Ok(Value::Null);
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

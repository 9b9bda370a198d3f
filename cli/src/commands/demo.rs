//! `demo`: a tour of the main commands on the repository's sample data, in a temporary lake.
//!
//! Each step is a real command line, which is printed, parsed and run like any other.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use serde::Serialize;

use super::{CommandContext, run_boxed};
use crate::args::{Arguments, DemoArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::output::{Printer, write_stdout};

/// One command of the demo: its title, arguments and expected outcome.
struct DemoStep {
    title: &'static str,
    words: &'static [&'static str],
    expected: CommandOutcome,
}

const fn step(title: &'static str, words: &'static [&'static str]) -> DemoStep {
    DemoStep {
        title,
        words,
        expected: CommandOutcome::Done,
    }
}

/// Placeholder in arguments: the folder of the sample data.
const DATASETS: &str = "DATASETS";

/// Placeholder in arguments: the folder for results.
const OUT: &str = "OUT";

const STEPS: &[DemoStep] = &[
    DemoStep {
        title: "Ingest everything. Some of it is damaged on purpose: it goes to the table \
                `rejects`, with the reason",
        words: &["ingest", DATASETS],
        expected: CommandOutcome::Problems,
    },
    DemoStep {
        title: "Ingest again: known sources are skipped and nothing is duplicated; refused \
                sources are reported again",
        words: &["ingest", DATASETS],
        expected: CommandOutcome::Problems,
    },
    step("Verify every grain of the lake", &["verify"]),
    step(
        "Which grains does the lake contain?",
        &[
            "sql",
            "SELECT type, count(*) AS grains, sum(blob_size) AS bytes FROM grains GROUP BY type \
             ORDER BY grains DESC",
        ],
    ),
    step(
        "What was refused, and why?",
        &[
            "sql",
            "SELECT error_code, count(*) AS refused, min(message) AS for_example FROM rejects \
             GROUP BY error_code ORDER BY 2 DESC, 1",
        ],
    ),
    step(
        "Which consents are in force?",
        &[
            "sql",
            "SELECT in_force, withdrawn, count(*) AS consents FROM consent_state GROUP BY 1, 2 \
             ORDER BY 1, 2",
        ],
    ),
    step(
        "What do agents believe about one person, as of now?",
        &[
            "sql",
            "SELECT relation, object, confidence FROM current WHERE type = 'belief' AND subject = \
             (SELECT min(subject) FROM beliefs) ORDER BY created_at LIMIT 5",
        ],
    ),
    step(
        "Which conversations with language models are there, and what did they cost?",
        &[
            "sql",
            "SELECT session_id, messages, branches, input_tokens, output_tokens, cost_usd FROM \
             threads ORDER BY first_at DESC LIMIT 3",
        ],
    ),
    step(
        "Is the recorded traffic of providers converted without loss?",
        &[
            "convert",
            "--check-round-trip",
            "--from",
            "exchanges",
            "DATASETS/exchanges.jsonl",
        ],
    ),
    step(
        "Query a file without a lake",
        &[
            "sql",
            "SELECT count(*) AS grains FROM mg_file('DATASETS/plain.mg')",
        ],
    ),
    step(
        "Generate a signing key",
        &[
            "keys",
            "generate",
            "erasure",
            "--keyring",
            KEYRING,
            "--passphrase-file",
            PASSPHRASE,
        ],
    ),
    step(
        "Erase a person's data, search every remaining byte, and issue a certificate",
        &[
            "erase",
            "--subject",
            "Bob Abe",
            "--execute",
            "--exclusive",
            "--keyring",
            KEYRING,
            "--passphrase-file",
            PASSPHRASE,
            "--certificate",
            CERTIFICATE,
        ],
    ),
    step(
        "Verify the certificate, without the lake",
        &["certificate", "verify", CERTIFICATE],
    ),
    step(
        "Verify the audit log, which records the erasure without the person's name",
        &["audit", "verify"],
    ),
    step("Verify that all other grains are unchanged", &["verify"]),
    step(
        "Show the lake's tables, segments, sources and sidecars",
        &["describe"],
    ),
];

const KEYRING: &str = "OUT/keyring.json";
const PASSPHRASE: &str = "OUT/passphrase";
const CERTIFICATE: &str = "OUT/erasure.cose";

/// Result in machine-readable formats.
#[derive(Serialize)]
struct DemoSummary {
    lake: String,
    steps: Vec<StepResult>,
    as_expected: bool,
    seconds: f64,
}

#[derive(Serialize)]
struct StepResult {
    command: String,
    problems: bool,
    as_expected: bool,
    seconds: f64,
}

/// Runs the steps; succeeds if each has its expected outcome.
pub async fn run(context: &CommandContext, arguments: DemoArgs) -> Result<CommandOutcome, Failure> {
    let printer = context.printer(arguments.results);
    let started = Instant::now();
    let datasets = match arguments.datasets {
        Some(folder) => folder,
        None => find_datasets()?,
    };
    let temporary = tempfile::tempdir()
        .map_err(|error| Failure::environment("can't make a temporary folder", &error))?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    let place = DemoFolders::new(datasets, folder)?;
    let mut summary = DemoSummary {
        lake: place.lake.display().to_string(),
        steps: Vec::new(),
        as_expected: true,
        seconds: 0.0,
    };
    for step in STEPS {
        let result = run_step(context, printer, &place, step).await?;
        summary.as_expected &= result.as_expected;
        summary.steps.push(result);
    }
    summary.seconds = started.elapsed().as_secs_f64();
    if printer.is_for_people() {
        write_stdout(|out| conclude(out, &summary, arguments.keep.is_some()))?;
    } else {
        printer.record(&summary)?;
    }
    Ok(CommandOutcome::done_if(summary.as_expected))
}

/// Prints and runs one step like a command line of the user.
async fn run_step(
    context: &CommandContext,
    printer: Printer,
    folders: &DemoFolders,
    step: &DemoStep,
) -> Result<StepResult, Failure> {
    let words = folders.words(step);
    if printer.is_for_people() {
        write_stdout(|out| announce(out, step.title, &words))?;
    }
    let line = std::iter::once("gristmill".to_owned()).chain(words.iter().cloned());
    let mut arguments = Arguments::try_parse_from(line)
        .map_err(|error| Failure::usage(format!("a step of the demo can't be parsed: {error}")))?;
    arguments.common = crate::args::CommonArgs {
        lake: Some(folders.lake.display().to_string()),
        keys: arguments.common.keys,
        ..context.common.clone()
    };
    arguments.results.format = Some(printer.format());
    let started = Instant::now();
    let outcome = run_boxed(arguments).await?;
    Ok(StepResult {
        command: format!("gristmill {}", shown(&words)),
        problems: outcome == CommandOutcome::Problems,
        as_expected: outcome == step.expected,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Folders of the demo.
struct DemoFolders {
    datasets: PathBuf,
    lake: PathBuf,
    out: PathBuf,
}

impl DemoFolders {
    /// Creates the folder for results, with a passphrase file that protects only the demo's key.
    fn new(datasets: PathBuf, folder: &Path) -> Result<DemoFolders, Failure> {
        let out = folder.join("out");
        std::fs::create_dir_all(&out).map_err(|error| {
            Failure::environment(&format!("can't make `{}`", out.display()), &error)
        })?;
        let place = DemoFolders {
            datasets,
            lake: folder.join("lake"),
            out,
        };
        let passphrase = PathBuf::from(place.filled(PASSPHRASE));
        std::fs::write(&passphrase, "a passphrase for the demo\n")
            .map_err(|error| Failure::writing(&passphrase, &error))?;
        Ok(place)
    }

    /// Replaces the placeholders in an argument.
    fn filled(&self, word: &str) -> String {
        word.replace(DATASETS, &self.datasets.display().to_string())
            .replace(OUT, &self.out.display().to_string())
    }

    fn words(&self, step: &DemoStep) -> Vec<String> {
        step.words.iter().map(|word| self.filled(word)).collect()
    }
}

fn announce(out: &mut impl std::io::Write, title: &str, words: &[String]) -> std::io::Result<()> {
    writeln!(out, "\n# {title}\n$ gristmill {}", shown(words))
}

fn conclude(
    out: &mut impl std::io::Write,
    summary: &DemoSummary,
    kept: bool,
) -> std::io::Result<()> {
    let ended = if summary.as_expected {
        "every step had its expected outcome"
    } else {
        "some steps did NOT have their expected outcome"
    };
    writeln!(
        out,
        "\n{} steps in {:.1} s; {ended}.",
        summary.steps.len(),
        summary.seconds
    )?;
    match kept {
        true => writeln!(
            out,
            "The lake is kept: gristmill --lake {} sql",
            summary.lake
        ),
        false => writeln!(
            out,
            "The lake was temporary; `gristmill demo --keep FOLDER` keeps it."
        ),
    }
}

/// Returns the arguments as a user would type them.
fn shown(words: &[String]) -> String {
    let quote = |word: &String| {
        if word.contains([' ', '*', '\'', '$']) {
            format!("\"{word}\"")
        } else {
            word.clone()
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Finds `datasets` in the current folder or a parent.
fn find_datasets() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::environment("can't determine the current folder", &error))?;
    let found = here
        .ancestors()
        .map(|folder| folder.join("datasets"))
        .find(|folder| is_datasets(folder));
    found.ok_or_else(|| {
        Failure::usage(
            "no folder `datasets` in the current folder or its parents; run this in the \
             repository, or set --datasets",
        )
    })
}

fn is_datasets(folder: &Path) -> bool {
    folder.join("plain.mg").is_file()
}

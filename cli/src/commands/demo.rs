//! `demo`: the main job on the data sets of the repository, in a temporary lake, as the commands
//! that a user would type.
//!
//! Each step is a real command line: it is shown, parsed, and run like any other.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use serde::Serialize;

use super::{CommandContext, run_boxed};
use crate::args::{Arguments, DemoArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::output::write_stdout;

/// One command of the demo: what to say before it, its words, and how it ends when all is well.
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

/// In the words of a step, the folder with the data sets.
const DATASETS: &str = "DATASETS";

/// In the words of a step, a folder for its results.
const OUT: &str = "OUT";

const STEPS: &[DemoStep] = &[
    DemoStep {
        title: "Take everything in. Some of it is damaged on purpose: that goes to the table \
                `rejects`, with the reason",
        words: &["ingest", DATASETS],
        expected: CommandOutcome::Problems,
    },
    DemoStep {
        title: "Once more: sources that are known are passed over, nothing is taken in twice; what \
                couldn't be taken in is told again",
        words: &["ingest", DATASETS],
        expected: CommandOutcome::Problems,
    },
    step("Hash and check every grain of the lake again", &["verify"]),
    step(
        "What is in it?",
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
        "What did the conversations with language models say, and what did they cost?",
        &[
            "sql",
            "SELECT session_id, messages, branches, input_tokens, output_tokens, cost_usd FROM \
             threads ORDER BY first_at DESC LIMIT 3",
        ],
    ),
    step(
        "Is what was recorded of the providers' traffic kept without loss?",
        &[
            "convert",
            "--check-round-trip",
            "--from",
            "exchanges",
            "DATASETS/exchanges.jsonl",
        ],
    ),
    step(
        "The same files without a lake",
        &[
            "sql",
            "SELECT count(*) AS grains FROM mg_file('DATASETS/plain.mg')",
        ],
    ),
    step(
        "A key to sign with",
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
        "A person asks to be forgotten: erase, search every byte that is left, and certify it",
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
        "Anybody can check the certificate",
        &["certificate", "verify", CERTIFICATE],
    ),
    step(
        "And what the engine did is on record, without the person's name",
        &["audit", "verify"],
    ),
    step("Everybody else's grains are as they were", &["verify"]),
    step("What the lake is made of", &["describe"]),
];

const KEYRING: &str = "OUT/keyring.json";
const PASSPHRASE: &str = "OUT/passphrase";
const CERTIFICATE: &str = "OUT/erasure.cose";

/// The result for scripts.
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

/// Runs the steps; ends well if each ended as it should.
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
        let words = place.words(step);
        if printer.is_for_people() {
            write_stdout(|out| announce(out, step.title, &words))?;
        }
        let mut line = Arguments::try_parse_from(
            ["gristmill".to_owned()]
                .into_iter()
                .chain(words.iter().cloned()),
        )
        .map_err(|error| Failure::usage(format!("a step of the demo isn't understood: {error}")))?;
        let (lake, keys) = (Some(summary.lake.clone()), line.common.keys);
        line.common = crate::args::CommonArgs {
            lake,
            keys,
            ..context.common.clone()
        };
        line.results.format = Some(printer.format());
        let before = Instant::now();
        let outcome = run_boxed(line).await?;
        let as_expected = outcome == step.expected;
        summary.as_expected &= as_expected;
        summary.steps.push(StepResult {
            command: format!("gristmill {}", shown(&words)),
            problems: outcome == CommandOutcome::Problems,
            as_expected,
            seconds: before.elapsed().as_secs_f64(),
        });
    }
    summary.seconds = started.elapsed().as_secs_f64();
    if printer.is_for_people() {
        write_stdout(|out| conclude(out, &summary, arguments.keep.is_some()))?;
    } else {
        printer.record(&summary)?;
    }
    Ok(if summary.as_expected {
        CommandOutcome::Done
    } else {
        CommandOutcome::Problems
    })
}

/// Where the demo reads and writes.
struct DemoFolders {
    datasets: PathBuf,
    lake: PathBuf,
    out: PathBuf,
}

impl DemoFolders {
    /// Makes the folder for results, with a passphrase in it that protects nothing but the demo's
    /// key.
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

    /// The word with this place's folders in it.
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
        "every step ended as it should"
    } else {
        "NOT every step ended as it should"
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

/// The words as one would type them.
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

/// `datasets` in the current folder or above.
fn find_datasets() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::environment("can't tell the current folder", &error))?;
    let found = here
        .ancestors()
        .map(|folder| folder.join("datasets"))
        .find(|folder| is_datasets(folder));
    found.ok_or_else(|| {
        Failure::usage(
            "no folder `datasets` here or above; run this in the repository, or name it \
                        with --datasets",
        )
    })
}

fn is_datasets(folder: &Path) -> bool {
    folder.join("plain.mg").is_file()
}

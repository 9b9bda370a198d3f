//! `demo`: a tour of the main commands on sample data that is part of the program, in a temporary
//! lake.
//!
//! Each step is a real command line, which is printed, parsed and run like any other.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use gristmill_queries::render::shell_quoted;
use serde::Serialize;

use super::{CommandContext, run_boxed};
use crate::args::{Arguments, DemoArgs, OutputFormat, ResultArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::output::{Printer, write_stdout};

/// One command of the demo: its title, what it shows, arguments and expected outcome.
struct DemoStep {
    title: &'static str,
    note: &'static str,
    words: &'static [&'static str],
    expected: CommandOutcome,
}

const fn step(title: &'static str, note: &'static str, words: &'static [&'static str]) -> DemoStep {
    DemoStep {
        title,
        note,
        words,
        expected: CommandOutcome::Done,
    }
}

/// A step whose command reports problems, with exit code 2.
const fn problem_step(
    title: &'static str,
    note: &'static str,
    words: &'static [&'static str],
) -> DemoStep {
    DemoStep {
        expected: CommandOutcome::Problems,
        ..step(title, note, words)
    }
}

/// The memory of an invented company: a cooperative with bicycle hire, a clinic, a bank, smart
/// homes and a team of developers, in four languages.
const COMPANY: &str = include_str!("demo/company.jsonl");

/// Recorded requests to two providers of models, with their answers.
const EXCHANGES: &str = include_str!("../../../datasets/exchanges.jsonl");

/// Arguments of a search to try next, which finds something.
const SEARCH_NEXT: &str = "--mode hybrid \"which day do we deploy\"";

/// Lines of a result that are shown.
const MAX_LINES: usize = 14;

/// Placeholder in arguments: the folder of the sample data.
const DATA: &str = "DATA";

/// Placeholder in arguments: the folder for results.
const OUT: &str = "OUT";

const STEPS: &[DemoStep] = &[
    step(
        "Ingest",
        "Memory of a cooperative's agents, and recorded traffic with model providers, become \
         grains in a lake.\nEach record is either in the lake or in the table `rejects`, with the \
         reason.",
        &["ingest", DATA],
    ),
    step(
        "Verify",
        "Every grain is its own address: the SHA-256 of its bytes. Verification computes all of \
         them again.\nRun it after a crash, a copy or a restore; damage is named grain by grain.",
        &["verify"],
    ),
    step(
        "SQL: what do agents believe about a person now?",
        "Facts change. `current` has the newest version of each, `beliefs` all of them.\nAda's \
         deliveries went to an address in Cork first: only the one in Galway is current.",
        &[
            "sql",
            "SELECT relation, object, confidence FROM current WHERE subject = 'Ada Brennan' ORDER \
             BY relation",
        ],
    ),
    step(
        "SQL: what did each model cost?",
        "Costs come from recorded tokens and a price table of thousands of models, in exact \
         decimals.\nTokens without a price are counted separately; `--prices FILE` adds prices.",
        &[
            "sql",
            "SELECT provider, model, sum(messages) AS messages, sum(cost_usd) AS cost_usd, \
             sum(unpriced_tokens) AS unpriced_tokens FROM usage GROUP BY 1, 2 ORDER BY 4 DESC \
             NULLS LAST",
        ],
    ),
    step(
        "SQL: which tools failed, and how slow are they?",
        "Calls and results of tools are grains too, joined by the view `tool_calls`.\nA latency is \
         shown only if both times were recorded or the duration was stated.",
        &[
            "sql",
            "SELECT name, error, latency_ms FROM tool_calls WHERE is_error ORDER BY latency_ms \
             DESC",
        ],
    ),
    step(
        "CAL: recall facts",
        "CAL is the query language for agents: it can read and propose, never delete.\nRECALL \
         returns grains with their addresses, so that each answer can be cited.",
        &[
            "cal",
            "RECALL beliefs WHERE subject = \"Jonas Weber\" LIMIT 3",
        ],
    ),
    step(
        "CAL: assemble a context for a prompt",
        "ASSEMBLE renders what fits into a budget of tokens, here the newest facts first.\nThe same \
         statement gives the same text, so that a prompt can be explained later.",
        &[
            "cal",
            "ASSEMBLE about_ada FROM (RECALL beliefs WHERE subject = \"Ada Brennan\" ORDER BY time \
             DESC) BUDGET 120 tokens",
        ],
    ),
    step(
        "Search by words",
        "An inverted index per segment, in any language.\nHits are ranked by BM25.",
        &["search", "--mode", "text", "-n", "3", "refund late"],
    ),
    step(
        "Compute vectors for search by meaning",
        "A small static model is part of the program; nothing is downloaded or sent anywhere.\n\
         Other models are read from a folder with `--embedder`.",
        &["reindex", "--embed"],
    ),
    step(
        "Search by meaning",
        "The question says neither cargo, nor bike, nor battery: the meaning leads there.\nThe \
         function `hybrid_search` combines both searches.",
        &[
            "sql",
            "SELECT round(score, 2) AS score, coalesce(content, object) AS text FROM \
             vector_search('broken electric bicycle', 3)",
        ],
    ),
    problem_step(
        "Scan for violations of rules",
        "Packs of rules for GDPR, CCPA, HIPAA and others run over every grain; the findings end \
         with exit code 2.\nThe page has an excerpt with masked personal data, the source and the \
         remedy for each.",
        &["scan", "--output", "OUT/scan.html"],
    ),
    step(
        "Everything about a person",
        "What the law calls access: all that the lake holds about Ada by these identifiers, also \
         in other spellings,\nand why each was found. The page can be handed to her; `--out FILE` \
         gives the same as data.",
        &[
            "report-subject",
            "--user",
            "ada",
            "--subject",
            "Ada Brennan",
            "--html",
            "OUT/ada.html",
        ],
    ),
    step(
        "List the litigation holds",
        "What is under a hold can't be erased or superseded until the hold is lifted.\nTheo \
         disputes an invoice: this grain of his states its hold itself, so an erasure of his data \
         keeps it.",
        &["hold", "list", "--grains"],
    ),
    step(
        "Generate a signing key",
        "Certificates of erasure are signed. The key lies in a keyring outside the lake,\n\
         protected by a passphrase.",
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
        "Erase a person",
        "All of Ada's data goes: facts, messages, tool calls, index entries. Her consent record \
         stays,\nbecause it proves that processing was lawful. Then every remaining byte is \
         searched.",
        &[
            "erase",
            "--user",
            "ada",
            "--subject",
            "Ada Brennan",
            "--reference",
            "DEMO-1",
            "--legal-ground",
            "GDPR Art. 17(1)(b)",
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
        "Verify the certificate",
        "It names nobody and needs no lake: an auditor can check it alone.\nThe next command makes \
         a page of it that explains each figure.",
        &["certificate", "verify", CERTIFICATE],
    ),
    step(
        "Make a page of the certificate",
        "What was requested, erased and kept, how the rest was searched,\nand how to check it without \
         this program.",
        &[
            "certificate",
            "show",
            CERTIFICATE,
            "--html",
            "OUT/erasure.html",
        ],
    ),
    step(
        "Ada is gone",
        "Neither facts nor messages mention her.\nThe other people's memory is unchanged.",
        &[
            "sql",
            "SELECT count(*) FILTER (WHERE subject = 'Ada Brennan' OR content LIKE '%Ada%') AS \
             about_ada, count(*) AS grains FROM grains",
        ],
    ),
    step(
        "The lake on one page",
        "Contents, cost, tools, consents, personal data, refused input, erasures.\nSelf-contained, \
         without scripts, for screen and paper.",
        &["report", "OUT/lake.html"],
    ),
];

const KEYRING: &str = "OUT/keyring.json";
const PASSPHRASE: &str = "OUT/passphrase";
const CERTIFICATE: &str = "OUT/erasure.cose";

/// Pages and files that the steps write, with a description.
const PAGES: [(&str, &str); 5] = [
    ("OUT/scan.html", "findings of the scan"),
    ("OUT/ada.html", "everything about a person"),
    ("OUT/erasure.html", "the erasure, for an auditor"),
    (CERTIFICATE, "its signed certificate"),
    ("OUT/lake.html", "the lake"),
];

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
    // A tour is for people, also in the log of a build or behind `less`.
    let format = arguments.results.format.or(context.results.format);
    let printer = context.printer(ResultArgs {
        format: Some(format.unwrap_or(OutputFormat::Table)),
        ..arguments.results
    });
    let started = Instant::now();
    let temporary = tempfile::tempdir()
        .map_err(|error| Failure::environment("can't make a temporary folder", &error))?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    let place = DemoFolders::new(folder)?;
    let mut summary = DemoSummary {
        lake: place.lake.display().to_string(),
        steps: Vec::new(),
        as_expected: true,
        seconds: 0.0,
    };
    if printer.is_for_people() {
        let lake = shell_quoted(&place.lake.display().to_string());
        let line = format!("$ export GRISTMILL_LAKE={lake}\n");
        write_stdout(|out| out.write_all(line.as_bytes()))?;
    }
    for step in STEPS {
        let result = run_step(context, printer, &place, step).await?;
        summary.as_expected &= result.as_expected;
        summary.steps.push(result);
    }
    summary.seconds = started.elapsed().as_secs_f64();
    if printer.is_for_people() {
        let pages = arguments.keep.is_some().then(|| place.pages());
        write_stdout(|out| conclude(out, &summary, pages.as_deref()))?;
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
        write_stdout(|out| announce(out, step, &words))?;
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
    arguments.results.most_lines = Some(MAX_LINES);
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
    data: PathBuf,
    lake: PathBuf,
    out: PathBuf,
}

impl DemoFolders {
    /// Creates the folders with the sample data and a passphrase file that protects only the demo's
    /// key. Refuses a folder with a lake: the steps begin with a new one.
    fn new(folder: &Path) -> Result<DemoFolders, Failure> {
        let place = DemoFolders {
            data: folder.join("data"),
            lake: folder.join("lake"),
            out: folder.join("out"),
        };
        if place.lake.exists() {
            return Err(Failure::usage(format!(
                "`{}` has the lake of an earlier tour, in which a person was erased: remove the \
                 folder, or name another one with --keep",
                folder.display()
            )));
        }
        for made in [&place.data, &place.out] {
            std::fs::create_dir_all(made).map_err(|error| {
                Failure::environment(&format!("can't make `{}`", made.display()), &error)
            })?;
        }
        for (name, text) in [
            ("DATA/company.jsonl", COMPANY),
            ("DATA/exchanges.jsonl", EXCHANGES),
            (PASSPHRASE, "a passphrase for the demo\n"),
        ] {
            let path = PathBuf::from(place.filled(name));
            std::fs::write(&path, text).map_err(|error| Failure::writing(&path, &error))?;
        }
        Ok(place)
    }

    /// Returns the paths of the written pages with their descriptions.
    fn pages(&self) -> Vec<(String, &'static str)> {
        let page = |(path, what): &(&str, &'static str)| (self.filled(path), *what);
        PAGES.iter().map(page).collect()
    }

    /// Replaces the placeholders in an argument.
    fn filled(&self, word: &str) -> String {
        word.replace(DATA, &self.data.display().to_string())
            .replace(OUT, &self.out.display().to_string())
    }

    fn words(&self, step: &DemoStep) -> Vec<String> {
        step.words.iter().map(|word| self.filled(word)).collect()
    }
}

fn announce(out: &mut impl Write, step: &DemoStep, words: &[String]) -> std::io::Result<()> {
    writeln!(out, "\n# {}", step.title)?;
    for line in step.note.lines() {
        writeln!(out, "# {line}")?;
    }
    writeln!(out, "$ gristmill {}", shown(words))
}

/// Prints how the demo ended, the pages that it wrote if they are kept, and what to try next.
fn conclude(
    out: &mut impl Write,
    summary: &DemoSummary,
    pages: Option<&[(String, &'static str)]>,
) -> std::io::Result<()> {
    let ended = if summary.as_expected {
        "every step had its expected outcome"
    } else {
        "some steps did NOT have their expected outcome"
    };
    let (steps, seconds) = (summary.steps.len(), summary.seconds);
    writeln!(out, "\n{steps} steps in {seconds:.1} s; {ended}.")?;
    let Some(pages) = pages else {
        return writeln!(
            out,
            "The lake and the pages were temporary; `gristmill demo --keep FOLDER` keeps them."
        );
    };
    writeln!(out, "\nOpen in a browser:")?;
    for (path, what) in pages {
        writeln!(out, "  {path}  ({what})")?;
    }
    let lake = shell_quoted(&summary.lake);
    writeln!(out, "\nTry next:")?;
    writeln!(out, "  gristmill --lake {lake} sql")?;
    writeln!(out, "  gristmill --lake {lake} search {SEARCH_NEXT}")?;
    writeln!(out, "  gristmill --lake {lake} erase --user theo --plan")
}

/// Returns the arguments as a user would type them: in quotation marks where a shell reads what is
/// between them as it is.
fn shown(words: &[String]) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./:=,@+".contains(letter);
    let quote = |word: &String| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else if word.contains(['"', '$', '`', '\\', '!']) {
            shell_quoted(word)
        } else {
            format!("\"{word}\"")
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_tour_in_a_folder_is_refused_before_its_first_step() {
        let folder = tempfile::tempdir().unwrap();
        let place = DemoFolders::new(folder.path()).unwrap();
        std::fs::create_dir(&place.lake).unwrap();
        let refused = DemoFolders::new(folder.path()).err().unwrap().to_string();
        assert!(refused.contains("earlier tour"), "{refused}");
    }

    #[test]
    fn a_shell_reads_the_printed_arguments_as_they_are() {
        let words = ["--lake", "it's $(id)", "RECALL \"a\"", "x = 'a' AND y > 1"];
        let line = shown(&words.map(str::to_owned));
        let expected = r#"--lake 'it'\''s $(id)' 'RECALL "a"' "x = 'a' AND y > 1""#;
        assert_eq!(line, expected);
    }
}

//! One night over one lake, step by step.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child::{Cost, run};
use crate::questions::{LOOKUPS, SEARCHES, SQL, lookups};

/// Grains that one person has on average, so that an erasure removes as much at every size.
const GRAINS_PER_PERSON: u64 = 1_000;

/// Least number of people: two erasures, and people that stay.
const MIN_PEOPLE: u64 = 250;

/// People of the large erasure.
const ERASED_PEOPLE: usize = 100;

/// Seed of the grains that a night brings; the lake's grains have the default one.
const NEW_SEED: &str = "4711";

/// When the first of these grains was made: after all of the lake, whose times end in May 2026.
const NEW_BEGIN: &str = "2026-06-01";

/// A step's name and cost.
pub type Step = (String, Cost);

/// A lake and the binary that works on it.
pub struct Night {
    /// The binary.
    pub program: PathBuf,
    /// Value of `--memory`, if it isn't the default.
    pub memory: Option<String>,
    /// A folder that belongs to the run.
    pub folder: PathBuf,
    /// Grains of the lake.
    pub grains: u64,
    /// Grains that are new.
    pub new: u64,
    /// Whether they were made when the first of the lake were, and come late.
    pub backdated: bool,
}

impl Night {
    /// Returns the lake's folder.
    pub fn lake(&self) -> PathBuf {
        self.folder.join("lake")
    }

    /// Returns the corpus of new grains.
    pub fn new_corpus(&self) -> PathBuf {
        self.folder.join("new")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--quiet", "--lake"])
            .arg(self.lake())
            .args(words)
            .env("GRISTMILL_KEYRING", self.folder.join("keyring.json"))
            .env("GRISTMILL_PASSPHRASE", "night")
            .env_remove("GRISTMILL_MEMORY");
        if let Some(memory) = &self.memory {
            command.args(["--memory", memory]);
        }
        command
    }

    /// Runs one command; its output is in the file that [`Night::output`] reads.
    fn run(&self, words: &[&str]) -> io::Result<Cost> {
        run(&mut self.command(words), &self.folder.join("out"))
    }

    fn output(&self) -> io::Result<String> {
        fs::read_to_string(self.folder.join("out"))
    }

    /// Generates the input, builds the lake and runs the scan from which the night's continues.
    /// Returns the cost of the ingest and of the scan.
    ///
    /// # Errors
    /// If a command fails.
    pub fn prepare(&self) -> io::Result<Vec<Step>> {
        let old = self.folder.join("old");
        self.generate(&old, self.grains, &[])?;
        let mut new = vec!["--seed", NEW_SEED];
        if !self.backdated {
            new.extend(["--begin", NEW_BEGIN]);
        }
        self.generate(&self.new_corpus(), self.new, &new)?;
        // Certificates of erasures are signed.
        self.run(&["keys", "generate", "erasure"])?;
        let ingest = self.run(&["ingest", text(&old)?])?;
        fs::remove_dir_all(&old)?;
        let scan = self.run(&["scan", "--format", "json"])?;
        let mut steps = Vec::new();
        add(&mut steps, "build the lake", ingest);
        add(&mut steps, "scan everything", scan);
        Ok(steps)
    }

    fn generate(&self, folder: &Path, grains: u64, more: &[&str]) -> io::Result<Cost> {
        let people = (self.grains / GRAINS_PER_PERSON).max(MIN_PEOPLE);
        let (grains, people) = (grains.to_string(), people.to_string());
        let mut words = vec!["generate", text(folder)?, "--grains", &grains];
        words.extend(["--people", &people]);
        words.extend(more);
        self.run(&words)
    }

    /// Runs the night.
    ///
    /// # Errors
    /// If a command fails.
    pub fn steps(&self) -> io::Result<Vec<Step>> {
        let mut steps = Vec::new();
        let new = self.new_corpus();
        for (name, words) in [
            ("ingest", &["ingest", text(&new)?][..]),
            ("verify 1/7", &["verify", "--subset", "1/7"]),
            (
                "scan since last",
                &["scan", "--since", "last", "--format", "json"],
            ),
            ("compact", &["compact"]),
        ] {
            add(&mut steps, name, self.run(words)?);
        }
        self.ask(&mut steps)?;
        self.erase(&mut steps)?;
        Ok(steps)
    }

    /// Runs queries in SQL and CAL, and searches.
    fn ask(&self, steps: &mut Vec<Step>) -> io::Result<()> {
        for (name, question) in SQL {
            let cost = self.run(&["sql", "--format", "csv", question])?;
            add(steps, format!("SQL: {name}"), cost);
        }
        let subjects = self.names("subject", "beliefs", LOOKUPS)?;
        let users = self.names("user_id", "grains", LOOKUPS)?;
        let lookups = lookups(&subjects, &users);
        let mut cold = Cost::default();
        for lookup in &lookups {
            cold = cold.then(self.run(&["cal", lookup])?);
        }
        add(
            steps,
            format!("CAL: {LOOKUPS} look-ups, a process each"),
            cold,
        );
        let warm = self.warm(&lookups)?;
        add(steps, format!("CAL: {LOOKUPS} look-ups, warm"), warm);
        let mut search = Cost::default();
        for words in SEARCHES {
            search = search.then(self.run(&["search", words])?);
        }
        add(steps, format!("search: {} texts", SEARCHES.len()), search);
        Ok(())
    }

    /// Returns the cost of the look-ups in a session that has run them before: that of a process
    /// that runs them twice, less that of one that runs them once.
    fn warm(&self, lookups: &[String]) -> io::Result<Cost> {
        let file = self.folder.join("lookups.cal");
        let once = lookups.join(";\n");
        fs::write(&file, &once)?;
        let first = self.run(&["cal", "--file", text(&file)?])?;
        fs::write(&file, format!("{once};\n{once}"))?;
        let both = self.run(&["cal", "--file", text(&file)?])?;
        Ok(Cost {
            wall: (both.wall - first.wall).max(0.0),
            cpu: (both.cpu - first.cpu).max(0.0),
            peak: both.peak,
            read: both.read.saturating_sub(first.read),
            written: both.written.saturating_sub(first.written),
        })
    }

    /// Erases one person, then a hundred others.
    fn erase(&self, steps: &mut Vec<Step>) -> io::Result<()> {
        let users = self.names("user_id", "grains", ERASED_PEOPLE + 1)?;
        let (one, others) = users.split_first().ok_or_else(|| missing("people"))?;
        let cost = self.run(&["erase", "--user", one, "--execute", "--exclusive"])?;
        add(steps, "erase 1 person", cost);
        let file = self.folder.join("people.csv");
        fs::write(&file, format!("user\n{}\n", others.join("\n")))?;
        let subjects = text(&file)?;
        let cost = self.run(&["erase", "--subjects", subjects, "--execute", "--exclusive"])?;
        add(steps, format!("erase {} people", others.len()), cost);
        Ok(())
    }

    /// Returns the first `count` values of a column in order.
    fn names(&self, column: &str, table: &str, count: usize) -> io::Result<Vec<String>> {
        let query = format!(
            "SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL AND \
             {column} NOT LIKE '%,%' ORDER BY 1 LIMIT {count}"
        );
        self.run(&["sql", "--format", "csv", &query])?;
        let output = self.output()?;
        let names: Vec<String> = output.lines().skip(1).map(str::to_owned).collect();
        if names.is_empty() {
            return Err(missing(column));
        }
        Ok(names)
    }
}

/// Adds a step and prints its costs to standard error, so that they aren't lost if a later one
/// fails.
fn add(steps: &mut Vec<Step>, name: impl Into<String>, cost: Cost) {
    let name = name.into();
    let Cost {
        cpu, wall, peak, ..
    } = cost;
    let peak = peak / 1_000_000;
    eprintln!("  {name}: {cpu:.2} s of processor time, {wall:.2} s, {peak} MB");
    steps.push((name, cost));
}

fn missing(what: &str) -> io::Error {
    io::Error::other(format!("the lake has no {what}"))
}

/// Returns a path as an argument.
pub fn text(path: &Path) -> io::Result<&str> {
    path.to_str()
        .ok_or_else(|| io::Error::other(format!("`{}` is not UTF-8", path.display())))
}

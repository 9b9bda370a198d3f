//! Damage to every kind of file of a lake: `verify` must find it, or no answer may change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::answers::{Answer, answers};
use crate::damage::{Damage, SampleLake, files_below};

/// Results of the damages to one kind of file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of damages.
    pub tried: u64,
    /// Damages that `verify` found.
    pub found: u64,
    /// Damages that `verify` didn't find and that change no answer.
    pub harmless: u64,
    /// Damages that `verify` didn't find and that turn an answer into an error.
    pub errors: u64,
    /// Damages that `verify` didn't find and that change an answer.
    pub silent: u64,
}

/// Results by kind of file, and the undetected changes.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Tallies by kind of file.
    pub kinds: BTreeMap<String, Tally>,
    /// Damages that change an answer and aren't found.
    pub failures: Vec<String>,
}

/// A lake to be damaged, with the answers of its intact state.
pub struct Target {
    sample: SampleLake,
    answers: Vec<Answer>,
    files: BTreeMap<String, Vec<PathBuf>>,
    /// Results so far.
    pub outcome: Outcome,
}

impl Target {
    /// Records the answers of the lake of `sample`, and groups its files by kind.
    ///
    /// # Panics
    /// If an answer of the sound lake is an error, or `verify` finds something in it.
    pub async fn new(sample: SampleLake) -> Target {
        let report = sample.verify().await.expect("a sound lake can be verified");
        assert_eq!(report.bad, 0, "{:?}", report.problems);
        let answers = answers(&sample).await;
        for (number, answer) in answers.iter().enumerate() {
            assert!(answer.is_ok(), "answer {number}: {answer:?}");
        }
        let mut files: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for file in files_below(&sample.lake) {
            if std::fs::metadata(&file).is_ok_and(|file| file.len() > 0) {
                files
                    .entry(kind_of(file.strip_prefix(&sample.lake).unwrap_or(&file)))
                    .or_default()
                    .push(file);
            }
        }
        Target {
            sample,
            answers,
            files,
            outcome: Outcome::default(),
        }
    }

    /// The kinds of files of the lake.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Flips one bit at each of `count` positions, equally many in each kind of file, chosen by
    /// `seed`.
    pub async fn flip_bits(&mut self, count: usize, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        let kinds: Vec<(String, Vec<PathBuf>)> = self.files.clone().into_iter().collect();
        for number in 0..count {
            let Some((kind, files)) = kinds.get(number % kinds.len()) else {
                continue;
            };
            let Some(file) = files.get(random.random_range(0..files.len())) else {
                continue;
            };
            let length = std::fs::metadata(file).map_or(1, |file| file.len());
            let damage = Damage::Flip {
                byte: random.random_range(0..length),
                bit: random.random_range(0..8),
            };
            self.damage(kind, file, &damage).await;
        }
    }

    /// Deletes, truncates and swaps every file, one at a time.
    pub async fn lose_files(&mut self) {
        for (kind, files) in self.files.clone() {
            for (number, file) in files.iter().enumerate() {
                let length = std::fs::metadata(file).map_or(1, |file| file.len());
                self.damage(&kind, file, &Damage::Delete).await;
                self.damage(&kind, file, &Damage::Truncate { length: length / 2 })
                    .await;
                self.damage(&kind, file, &Damage::Truncate { length: length - 1 })
                    .await;
                if let Some(other) = files.get(number + 1) {
                    self.damage(&kind, file, &Damage::Swap(other.clone())).await;
                }
            }
        }
    }

    /// Removes the last entry of the log of each table.
    pub async fn cut_logs(&mut self) {
        for (kind, files) in self.files.clone() {
            if let Some(last) = files.last().filter(|_| kind.ends_with("log entry")) {
                self.damage(&format!("{kind}, the last"), last, &Damage::Delete)
                    .await;
            }
        }
    }

    /// Rewrites one cell of each column of `grains` with another Parquet writer.
    pub async fn rewrite_cells(&mut self) {
        let Some(file) = self
            .files
            .get("grains data")
            .and_then(|files| files.first())
            .cloned()
        else {
            return;
        };
        for column in crate::damage::columns_of(&file) {
            self.damage("grains data, a cell", &file, &Damage::Cell { column })
                .await;
        }
    }

    /// Applies `damage` to `file`, records its effect, and reverts it.
    pub async fn damage(&mut self, kind: &str, file: &Path, damage: &Damage) {
        let undo = damage.inflict(file);
        let found = match self.sample.verify().await {
            Ok(report) => report.bad > 0,
            // An error counts as detection.
            Err(_) => true,
        };
        let mut tally = Tally {
            tried: 1,
            found: u64::from(found),
            ..Tally::default()
        };
        if !found {
            let after = answers(&self.sample).await;
            let changed = self
                .answers
                .iter()
                .zip(&after)
                .enumerate()
                .find(|(_, (before, after))| before != after);
            match changed {
                None => tally.harmless = 1,
                Some((number, (_, after))) => {
                    tally.errors = u64::from(after.is_err());
                    tally.silent = u64::from(after.is_ok());
                    let shown: String = format!("{after:?}").chars().take(300).collect();
                    self.outcome.failures.push(format!(
                        "{damage:?} of {}: answer {number} is {shown}",
                        file.display()
                    ));
                }
            }
        }
        undo.undo();
        let sum = self.outcome.kinds.entry(kind.to_owned()).or_default();
        sum.tried += tally.tried;
        sum.found += tally.found;
        sum.harmless += tally.harmless;
        sum.errors += tally.errors;
        sum.silent += tally.silent;
    }
}

/// Returns the kind of a file of the lake, by its path from the lake's root.
fn kind_of(path: &Path) -> String {
    let parts: Vec<String> = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [table, "_delta_log", name] if name.ends_with(".json") => format!("{table} log entry"),
        [table, "_delta_log", name] if name.ends_with(".parquet") => format!("{table} checkpoint"),
        [table, "_delta_log", _] => format!("{table} checkpoint hint"),
        ["index", _, name] => format!("sidecar {}", name.split('-').next().unwrap_or(name)),
        ["erasures", name] => format!("erasure {}", name.rsplit('.').next().unwrap_or(name)),
        [table, name] if name.ends_with(".parquet") => format!("{table} data"),
        _ => parts.join("/"),
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            out,
            "| kind of file | damaged | found | no answer changes | an error | silent |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        let mut sum = Tally::default();
        for (
            kind,
            Tally {
                tried,
                found,
                harmless,
                errors,
                silent,
            },
        ) in &self.kinds
        {
            writeln!(
                out,
                "| {kind} | {tried} | {found} | {harmless} | {errors} | {silent} |"
            )?;
            sum.tried += tried;
            sum.found += found;
            sum.harmless += harmless;
            sum.errors += errors;
            sum.silent += silent;
        }
        let Tally {
            tried,
            found,
            harmless,
            errors,
            silent,
        } = sum;
        writeln!(
            out,
            "| **all** | {tried} | {found} | {harmless} | {errors} | {silent} |"
        )
    }
}

//! Random statements of a token of one namespace, over a lake with two namespaces and over a lake
//! with this one alone: the answers must be the same.
//!
//! | module | question |
//! |---|---|
//! | this one | Which statements are compared, and what is found? |
//! | `lakes` | Which grains are in the two lakes, and which tokens have their servers? |
//! | `catalog` | What can a statement name? |
//! | `expressions`, `sql` | Which queries are made? |
//! | `cal` | Which statements of CAL are made? |
//! | `answers` | When are two answers the same? |
//! | `dice` | How does a seed decide? |
//!
//! A statement is answered by the server in this process, with the session that it makes for a
//! token: two thirds are SQL, one third is CAL; every fifth comes from a token that sees one user of
//! the namespace. Errors are answers, too.
//!
//! # What isn't compared
//!
//! What differs although nothing of the other namespace is in it, and is left out of the statements:
//!
//! - when a run took a grain in and of which file: the columns `ingested_at` and `source_id`;
//!   versions of the lake and names of files occur in no table of such a session;
//! - rows that have no order: they are compared as a set, and only queries that sort by all of their
//!   columns have a LIMIT; functions whose value depends on the order of rows;
//! - EXPLAIN ANALYZE, which has times, the time of `now()` in plans, and the durations of CAL;
//! - settings of the runtime, such as the folder of temporary files;
//! - the value that an error of a computation names, which is that of the row that failed first; it
//!   must not be one of the other namespace;
//! - grains that a grain of the other namespace supersedes: they are closed (`docs/server.md`).
//!
//! A difference counts if it is there twice: `now()` may pass an instant between two answers.

mod answers;
mod cal;
mod catalog;
mod dice;
mod expressions;
mod lakes;
mod sql;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use answers::ComparedAnswer;
use cal::CalGenerator;
use catalog::Catalog;
use dice::Dice;
use lakes::{ServedLake, TokenTexts, lakes};
use sql::{SqlGenerator, SqlQuery};

/// Differences after which a run ends.
const ENOUGH: usize = 10;

/// One of so many statements is sent without a confinement, too.
const SAMPLED: usize = 16;

/// Statements between two reports of progress.
const PROGRESS: usize = 10_000;

/// A run.
#[derive(Debug, Clone)]
pub struct IsolationRun {
    /// Number of the first statement; the number and the seed decide a statement.
    pub first: usize,
    /// Number of statements.
    pub count: usize,
    /// Seed of the statements.
    pub seed: u64,
}

/// A statement that has different answers.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Its number.
    pub number: usize,
    /// The statement.
    pub statement: String,
    /// The answer of the lake with the namespace alone.
    pub expected: ComparedAnswer,
    /// The answer of the lake with both namespaces.
    pub found: ComparedAnswer,
}

/// What a run has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Statements that were compared.
    pub compared: usize,
    /// Those that have an answer that is no error.
    pub answered: usize,
    /// Those that have rows or grains.
    pub with_rows: usize,
    /// Statements that were sent without a confinement, too, over the lake with both namespaces.
    pub sampled: usize,
    /// Those of them whose answer is another one.
    pub unlike_whole: usize,
    /// Statements with different answers.
    pub differences: Vec<Difference>,
}

impl fmt::Display for Found {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            writeln!(out, "{}: {}", difference.number, difference.statement)?;
            let (expected, found) = (&difference.expected.text, &difference.found.text);
            let equal = equal_letters(expected, found).saturating_sub(SHOWN_BEFORE);
            for (lake, answer) in [("alone", &difference.expected), ("both", &difference.found)] {
                let (rows, letters) = (answer.count, answer.text.chars().count());
                let text = shown(&answer.text, equal);
                writeln!(
                    out,
                    "  {lake}, {rows:?} rows, {letters} letters, from {equal}: {text}"
                )?;
            }
        }
        write!(
            out,
            "{} statements: {} without an error, {} with rows, {} different; without a confinement \
             {} of {} different",
            self.compared,
            self.answered,
            self.with_rows,
            self.differences.len(),
            self.unlike_whole,
            self.sampled,
        )
    }
}

/// Equal letters that are shown before those that differ.
const SHOWN_BEFORE: usize = 200;

/// Returns the number of letters with which both answers begin.
fn equal_letters(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars());
    pairs.take_while(|(one, other)| one == other).count()
}

/// Returns a part of an answer, from its letter number `first` on.
fn shown(text: &str, first: usize) -> String {
    text.chars().skip(first).take(1_000).collect()
}

/// The statements of a run, and where they are answered.
struct Laboratory {
    alone: ServedLake,
    both: ServedLake,
    tokens: TokenTexts,
    catalog: Catalog,
    run: IsolationRun,
    next: AtomicUsize,
    found: Mutex<Found>,
}

/// A statement in one of the languages.
enum RandomStatement {
    Sql(SqlQuery),
    Cal(String),
}

impl RandomStatement {
    fn text(&self) -> &str {
        match self {
            RandomStatement::Sql(query) => &query.text,
            RandomStatement::Cal(statement) => statement,
        }
    }

    async fn answer(&self, lake: &ServedLake, token: &str) -> ComparedAnswer {
        match self {
            RandomStatement::Sql(query) => {
                let answer = lake.server.answer_sql(Some(token), &query.text).await;
                ComparedAnswer::of_sql(answer, query.is_ordered)
            }
            RandomStatement::Cal(statement) => {
                let answer = lake.server.answer_cal(Some(token), statement).await;
                ComparedAnswer::of_cal(answer)
            }
        }
    }
}

/// Compares the statements of a run on all cores. Ends early after some differences.
///
/// # Panics
/// If the lakes or their servers can't be made.
pub async fn compare(run: IsolationRun) -> Found {
    let (alone, both, tokens) = lakes().await;
    let laboratory = Arc::new(Laboratory {
        catalog: Catalog::of(&alone.server, &tokens.namespace).await,
        next: AtomicUsize::new(run.first),
        found: Mutex::default(),
        alone,
        both,
        tokens,
        run,
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers: Vec<_> = (0..cores)
        .map(|_| tokio::spawn(Arc::clone(&laboratory).work()))
        .collect();
    for worker in workers {
        worker.await.expect("a worker that ends");
    }
    let mut found = laboratory.found();
    std::mem::take(&mut *found)
}

impl Laboratory {
    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares one statement after another.
    async fn work(self: Arc<Self>) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let has_enough = self.found().differences.len() >= ENOUGH;
            if has_enough || number >= self.run.first + self.run.count {
                return;
            }
            self.compare(number).await;
            if (number + 1).is_multiple_of(PROGRESS) {
                eprintln!("{} statements", number + 1 - self.run.first);
            }
        }
    }

    /// Returns the statement `number` and the token that sends it.
    fn statement(&self, number: usize) -> (RandomStatement, &str) {
        let mut dice = Dice::of(self.run.seed, number);
        let token: &str = match dice.one_in(5) {
            true => &self.tokens.user,
            false => &self.tokens.namespace,
        };
        let statement = match dice.one_in(3) {
            true => RandomStatement::Cal(CalGenerator::new(&self.catalog, dice).statement()),
            false => RandomStatement::Sql(SqlGenerator::new(&self.catalog, dice).query()),
        };
        (statement, token)
    }

    async fn compare(&self, number: usize) {
        let (statement, token) = self.statement(number);
        let mut difference = None;
        let mut expected = statement.answer(&self.alone, token).await;
        for _ in 0..2 {
            let found = statement.answer(&self.both, token).await;
            if self.names_foreign(&found, statement.text()) {
                difference = Some(found);
                break;
            }
            if found.is_like(&expected) {
                difference = None;
                break;
            }
            difference = Some(found);
            expected = statement.answer(&self.alone, token).await;
        }
        let whole = match number.is_multiple_of(SAMPLED) {
            true => Some(statement.answer(&self.both, &self.tokens.whole).await),
            false => None,
        };
        let mut all = self.found();
        all.compared += 1;
        all.answered += usize::from(expected.count.is_some());
        all.with_rows += usize::from(expected.count > Some(0));
        all.sampled += usize::from(whole.is_some());
        all.unlike_whole += usize::from(whole.is_some_and(|whole| whole != expected));
        all.differences.extend(difference.map(|found| Difference {
            number,
            statement: statement.text().to_owned(),
            expected,
            found,
        }));
    }

    /// Returns true if an error names something of the other namespace that the statement doesn't.
    /// Other answers are compared as they are.
    fn names_foreign(&self, answer: &ComparedAnswer, statement: &str) -> bool {
        let is_new = |text: &str| answer.text.contains(text) && !statement.contains(text);
        let mut addresses = self.catalog.foreign_addresses().iter();
        answer.count.is_none() && (is_new("foreign") || addresses.any(|address| is_new(address)))
    }
}

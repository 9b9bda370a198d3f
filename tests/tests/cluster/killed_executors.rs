//! `kill -9` of an executor at random moments of each kind of work on executors: the result is
//! exact, at once or when the command is run again.
//!
//! Each kind of work has one kill, with the environment variable `GRISTMILL_ALL_FAULTS` ten.

use std::process::{Command, Output};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gristmill_tests::kill::{copy_folder, share};
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

use super::ingest::{ROWS, sources};
use super::processes::{Cluster, ended, started, text};
use super::questions::Asked;
use super::segment_work::add_segment;

/// The lake that is worked on: a copy of `lake`, or none at first.
const LAKE: &str = "work";

/// Number of times that a command is run again after an error.
const REPETITIONS: usize = 3;

/// A command that executors work for.
struct Work {
    words: &'static [&'static str],
    /// True if it needs a lake.
    has_lake: bool,
    /// Exit code of a run that has ended.
    code: i32,
    /// Returns its result, which doesn't depend on who works.
    result: fn(&Sandbox, &Output) -> String,
}

const WORKS: [Work; 4] = [
    Work {
        words: &["ingest", "mg", "frames"],
        has_lake: false,
        // Something is refused.
        code: 2,
        result: ingested,
    },
    Work {
        words: &["scan", "--format", "jsonl"],
        has_lake: true,
        // Something is found.
        code: 2,
        result: findings,
    },
    Work {
        words: &["verify", "--format", "json"],
        has_lake: true,
        code: 0,
        result: verified,
    },
    Work {
        words: &["compact"],
        has_lake: true,
        code: 0,
        result: merged,
    },
];

fn ingested(sandbox: &Sandbox, _: &Output) -> String {
    let rows = [ROWS[0], ROWS[1], ROWS[4]].map(|query| sandbox.sql(LAKE, query).to_string());
    rows.join("\n")
}

fn findings(_: &Sandbox, output: &Output) -> String {
    let found = text(&output.stdout);
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    found.join("\n")
}

fn verified(_: &Sandbox, output: &Output) -> String {
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for measured in ["seconds", "gigabytes_per_second"] {
        report.as_object_mut().unwrap().remove(measured);
    }
    report.to_string()
}

fn merged(sandbox: &Sandbox, _: &Output) -> String {
    let rows = "SELECT content_address, type, ingested_at, length(blob) FROM grains ORDER BY 1";
    let segments = "SELECT count(*) FROM segments";
    let [rows, segments] = [rows, segments].map(|query| sandbox.sql(LAKE, query).to_string());
    let checked = sandbox.output(LAKE, &["verify"]);
    assert!(checked.status.success(), "{}", text(&checked.stdout));
    rows + &segments
}

impl Work {
    /// Makes the lake that it begins with.
    fn begin(&self, sandbox: &Sandbox) {
        let lake = sandbox.path(LAKE);
        if lake.exists() {
            std::fs::remove_dir_all(&lake).unwrap();
        }
        if self.has_lake {
            copy_folder(&sandbox.path("lake"), &lake).unwrap();
        }
    }

    fn command(&self, sandbox: &Sandbox, on: &[&str]) -> Command {
        sandbox.command(LAKE, &[self.words, on].concat())
    }

    /// Returns the result of a run without a disturbance.
    fn undisturbed(&self, sandbox: &Sandbox, on: &[&str]) -> String {
        self.begin(sandbox);
        let output = ended(started(self.command(sandbox, on)));
        let code = output.status.code();
        let errors = text(&output.stderr);
        assert_eq!(code, Some(self.code), "{:?}: {errors}", self.words);
        (self.result)(sandbox, &output)
    }

    /// Runs the command again until it ends as it should. Its errors must be those of a cluster.
    fn completed(&self, sandbox: &Sandbox, on: &[&str], mut output: Output) -> Output {
        for _ in 0..REPETITIONS {
            if output.status.code() == Some(self.code) {
                return output;
            }
            let message = text(&output.stderr);
            let names_cause = message.contains("cluster") || message.contains("executor");
            assert!(names_cause, "{:?}: {message}", self.words);
            output = ended(started(self.command(sandbox, on)));
        }
        assert_eq!(output.status.code(), Some(self.code), "{:?}", self.words);
        output
    }
}

/// Returns the number of kills of each kind of work.
pub fn kills() -> usize {
    match std::env::var_os("GRISTMILL_ALL_FAULTS") {
        Some(_) => 10,
        None => 1,
    }
}

/// Returns a random number between 0 and 1.
pub fn random() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    share(now.subsec_nanos() as usize)
}

#[test]
fn after_the_kill_of_an_executor_each_command_has_an_exact_result() {
    let asked = Asked::nothing();
    let sandbox = &asked.sandbox;
    add_segment(sandbox);
    sources(sandbox, "8000");
    let mut cluster = Cluster::start();
    let address = cluster.address.clone();
    let on = ["--cluster", &address];
    for work in &WORKS {
        let exact = work.undisturbed(sandbox, &[]);
        let began = Instant::now();
        assert!(work.undisturbed(sandbox, &on) == exact, "{:?}", work.words);
        let time = began.elapsed();
        for _ in 0..kills() {
            let moment = time.mul_f64(random());
            work.begin(sandbox);
            let running = started(work.command(sandbox, &on));
            std::thread::sleep(moment);
            cluster.kill_executor();
            let output = ended(running);
            println!("{:?} after {moment:?}: {}", work.words, output.status);
            cluster.add_executor();
            let output = work.completed(sandbox, &on, output);
            let is_exact = (work.result)(sandbox, &output) == exact;
            assert!(is_exact, "{:?}, killed after {moment:?}", work.words);
        }
    }
}

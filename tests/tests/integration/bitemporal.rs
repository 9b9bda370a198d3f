//! Transaction time and valid time: `known_at` and `valid_at`.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use arrow::array::AsArray;
use chrono::{DateTime, SecondsFormat, Utc};
use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::keys::{FileKeys, Keyring};
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_tests::grains::grain;
use gristmill_tests::paths::workspace;
use gristmill_tests::sqllogic::LakeSession;

/// Milliseconds since 1970 of a day.
fn day(text: &str) -> i64 {
    let instant: DateTime<Utc> = format!("{text}T00:00:00Z").parse().unwrap();
    instant.timestamp_millis()
}

/// A lake that is written in steps, with an instant between each two.
struct History {
    lake: Lake,
    /// The instants before the first step and after each.
    instants: Vec<DateTime<Utc>>,
    _folder: tempfile::TempDir,
}

impl History {
    async fn new(encrypted: bool) -> History {
        let folder = tempfile::tempdir().unwrap();
        let uri = folder.path().join("lake").display().to_string();
        let mut lake = Lake::open_or_create(&uri).await.unwrap();
        if encrypted {
            let keyring = keyring(folder.path());
            let keys = Box::new(FileKeys::next_to(keyring).unwrap());
            lake.enable_encryption(keys).await.unwrap();
        }
        let mut history = History {
            lake,
            instants: Vec::new(),
            _folder: folder,
        };
        history.mark();
        history
    }

    fn mark(&mut self) {
        std::thread::sleep(Duration::from_millis(5));
        self.instants.push(Utc::now());
        std::thread::sleep(Duration::from_millis(5));
    }

    /// Applies the operations of one step.
    async fn step(&mut self, operations: &[String]) {
        let mut lines = Cursor::new(operations.join("\n"));
        let options = ApplyOptions::default();
        let mut answers = |_: &_| Ok(());
        let report = apply(&mut self.lake, &mut lines, &options, &mut answers)
            .await
            .unwrap();
        assert_eq!(report.done as usize, operations.len(), "{operations:?}");
        self.mark();
    }

    fn instant(&self, number: usize) -> String {
        self.instants[number].to_rfc3339_opts(SecondsFormat::Micros, true)
    }

    /// Returns the sorted objects that `query` selects.
    async fn objects(&self, from: &str) -> Vec<String> {
        let context = lake_context(&self.lake, &SqlOptions::default())
            .await
            .unwrap();
        let query = format!("SELECT object FROM {from} ORDER BY object");
        let batches = context.sql(&query).await.unwrap().collect().await.unwrap();
        let texts = |batch: &arrow::array::RecordBatch| {
            let column = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8);
            let column = column.unwrap();
            let column = column.as_string::<i32>();
            column.iter().flatten().map(str::to_owned).collect()
        };
        batches.iter().flat_map::<Vec<String>, _>(texts).collect()
    }
}

fn keyring(folder: &Path) -> Keyring {
    Keyring::open_or_create(&folder.join("keyring.json"), "a passphrase for tests").unwrap()
}

fn fact(object: &str, made: &str, valid: (&str, Option<&str>), old: Option<&str>) -> String {
    let until = valid
        .1
        .map_or(String::new(), |to| format!(r#", "valid_to": {}"#, day(to)));
    let old = old.map_or(String::new(), |old| {
        format!(r#", "derived_from": ["{old}"]"#)
    });
    format!(
        r#"{{"type": "belief", "subject": "ada", "relation": "is", "object": "{object}",
             "confidence": 1.0, "user_id": "ada", "created_at": {}, "valid_from": {}{until}{old}}}"#,
        day(made),
        day(valid.0)
    )
    .replace('\n', " ")
}

fn put(fact: &str) -> String {
    format!(r#"{{"op": "put", "grain": {fact}}}"#)
}

fn supersede(old: &str, fact: &str) -> String {
    format!(r#"{{"op": "supersede", "address": "{old}", "grain": {fact}}}"#)
}

fn retract(old: &str) -> String {
    format!(r#"{{"op": "retract", "address": "{old}", "reason": "wrong"}}"#)
}

fn address(fact: &str) -> String {
    grain(fact).address.to_string()
}

async fn facts_of_ada(encrypted: bool) -> History {
    let mut history = History::new(encrypted).await;
    let bergen = fact("Bergen", "2026-01-01", ("2026-01-01", None), None);
    let employed = ("2025-01-01", Some("2025-12-31"));
    let acme = fact("Acme", "2026-01-01", employed, None);
    history.step(&[put(&bergen), put(&acme)]).await;
    let (old, backdated) = (address(&bergen), ("2026-03-01", None));
    let oslo = fact("Oslo", "2020-01-01", backdated, Some(&old));
    history.step(&[supersede(&old, &oslo)]).await;
    let (old, corrected) = (address(&acme), ("2025-02-01", Some("2025-12-31")));
    let acme = fact("Acme", "2026-01-02", corrected, Some(&old));
    history.step(&[supersede(&old, &acme)]).await;
    history.step(&[retract(&address(&oslo))]).await;
    let norse = fact("Norse", "2019-01-01", ("2019-01-01", None), None);
    history.step(&[put(&norse)]).await;
    history
}

#[tokio::test(flavor = "multi_thread")]
async fn twelve_questions_about_two_axes_of_time_in_a_plain_and_an_encrypted_lake() {
    let file = workspace().join("tests/slt/bitemporal/facts.slt");
    for encrypted in [false, true] {
        let history = facts_of_ada(encrypted).await;
        let context = lake_context(&history.lake, &SqlOptions::default())
            .await
            .unwrap();
        let mut runner = sqllogictest::Runner::new(|| {
            let session = context.clone();
            async move { Ok(LakeSession::new(session)) }
        });
        for number in 0..history.instants.len() {
            runner.set_var(format!("T{number}"), history.instant(number));
        }
        let outcome = runner.run_file_async(&file).await;
        outcome.unwrap_or_else(|error| panic!("encrypted {encrypted}: {error}"));
    }
}

/// A fact of the naive evaluator: when it was known, when it was closed, when it holds.
struct NaiveFact {
    address: String,
    known: usize,
    closed: Option<usize>,
    valid: (i64, Option<i64>),
}

/// Returns pseudo-random numbers below a limit.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % limit
    }
}

fn any_day(number: u64) -> String {
    format!("20{:02}-06-15", 20 + number)
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_answer_as_a_naive_evaluator_does() {
    for seed in 1..=4 {
        let mut roll = dice(seed);
        let mut history = History::new(seed > 2).await;
        let mut facts: BTreeMap<String, NaiveFact> = BTreeMap::new();
        for step in 1..=8 {
            let open = facts.iter().filter(|(_, fact)| fact.closed.is_none());
            let open: Vec<String> = open.map(|(name, _)| name.clone()).collect();
            let target = (!open.is_empty() && roll(3) > 0)
                .then(|| open[roll(open.len() as u64) as usize].clone());
            let target = target.map(|name| (facts[&name].address.clone(), name));
            let (begins, years) = (roll(6), roll(3));
            let valid = (
                any_day(begins),
                (years > 0).then(|| any_day(begins + years)),
            );
            let name = format!("fact-{step}");
            let made = any_day(roll(9));
            let old = target.as_ref().map(|(address, _)| address.as_str());
            let text = fact(&name, &made, (&valid.0, valid.1.as_deref()), old);
            let withdraws = target.is_some() && roll(3) == 0;
            let operation = match old {
                Some(old) if withdraws => retract(old),
                Some(old) => supersede(old, &text),
                None => put(&text),
            };
            history.step(&[operation]).await;
            if let Some(closed) = target.and_then(|(_, name)| facts.get_mut(&name)) {
                closed.closed = Some(step);
            }
            if !withdraws {
                let fact = NaiveFact {
                    address: address(&text),
                    known: step,
                    closed: None,
                    valid: (day(&valid.0), valid.1.as_deref().map(day)),
                };
                facts.insert(name, fact);
            }
        }
        for known in [0, 1, 3, 5, 8] {
            let is_known =
                |fact: &NaiveFact| fact.known <= known && fact.closed.is_none_or(|at| at > known);
            let naive = |holds: &dyn Fn(&NaiveFact) -> bool| -> Vec<String> {
                let facts = facts
                    .iter()
                    .filter(|(_, fact)| is_known(fact) && holds(fact));
                facts.map(|(name, _)| name.clone()).collect()
            };
            let instant = history.instant(known);
            let from = format!("known_at('{instant}')");
            assert_eq!(
                history.objects(&from).await,
                naive(&|_| true),
                "{seed} {from}"
            );
            for year in [0, 2, 4, 7] {
                let valid = day(&any_day(year));
                let holds = |fact: &NaiveFact| {
                    fact.valid.0 <= valid && fact.valid.1.is_none_or(|to| valid <= to)
                };
                let from = format!("valid_at('{}T00:00:00Z', '{instant}')", any_day(year));
                assert_eq!(history.objects(&from).await, naive(&holds), "{seed} {from}");
            }
        }
    }
}

//! Execution cases of CAL: statements over the grains of a data file, in a lake on disk.
//!
//! A case gives the expected grains with their order and total, the expected text, or the code of
//! an error. Statements that append run in a lake of their own.

mod expectation;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_engine::ingest::{IngestOptions, OnError};
use gristmill_engine::lake::Change;
use gristmill_queries::cal::json::value_from_json;
use gristmill_queries::cal::{Bindings, Effect, Options};
use gristmill_queries::exec::{self, ExecutionError, Executor, LakeWriter, Response, Session};
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_schemas::columns::{LifecycleEvent, StateRow, state_batch};
use gristmill_schemas::container::{FRAME_END, write_frame};
use gristmill_schemas::json::{Json, Object};

use super::{CaseFile, Outcome, Report, judge_alternatives, without_mark};
use crate::lake::{TestLake, patient_session};
use expectation::holds;

/// The name of the data file of cases whose conventions name none.
const DATA_FILE: &str = "cal-data.json";

/// Runs a file with statements that expect an object.
pub fn run(file: &CaseFile, report: &mut Report) -> bool {
    let Some(cases) = file.json.get("cases").and_then(Json::as_array) else {
        return false;
    };
    let convention = |key: &str| file.json.get("conventions")?.get(key);
    let is_case = |case: &Json| {
        let expect = case.get("expect").and_then(Json::as_object);
        expect.is_some() && case.get("query").is_some()
    };
    let mentions_expectation =
        convention("expect.grains").is_some() || convention("expect.text").is_some();
    if !mentions_expectation && !cases.iter().any(is_case) {
        return false;
    }
    let data = convention("data").and_then(Json::as_str);
    let data = data.and_then(|text| text.split_whitespace().next());
    let data = data.unwrap_or(DATA_FILE);
    match run_cases(&data_file(file.folder, data), cases, report) {
        Ok(()) => {}
        Err(why) => cases
            .iter()
            .for_each(|case| report.record(case, Outcome::Failed(why.clone()))),
    }
    true
}

/// Returns the data file called `name`: next to the cases, in the folder above, or in one beside.
/// The cases may be divided over folders that share it.
fn data_file(folder: &Path, name: &str) -> PathBuf {
    let here = folder.join(name);
    let above = match fs::canonicalize(folder.join(".")) {
        Ok(folder) if !here.is_file() => folder.parent().map(Path::to_path_buf),
        _ => None,
    };
    let Some(above) = above else {
        return here;
    };
    let entries = fs::read_dir(&above).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort();
    folders.insert(0, above);
    let mut places = folders.into_iter().map(|folder| folder.join(name));
    places.find(|place| place.is_file()).unwrap_or(here)
}

fn run_cases(data: &Path, cases: &[Json], report: &mut Report) -> Result<(), String> {
    let bytes = fs::read(data).map_err(|error| format!("{}: {error}", data.display()))?;
    let json = Json::parse(without_mark(&bytes))
        .map_err(|error| format!("{}: {error}", data.display()))?;
    let grains = CaseGrains::read(&json)
        .ok_or_else(|| format!("{}: not a file of grains", data.display()))?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let shared = runtime.block_on(lake_of(&grains))?;
    for case in cases {
        let judge = |case: &Json| {
            let verdict = runtime.block_on(run_case(&grains, &shared, case));
            verdict.map_or_else(Outcome::Failed, |()| Outcome::Passed)
        };
        report.record(case, judge_alternatives(case, judge));
    }
    Ok(())
}

/// Runs a case on the shared lake, or on a lake of its own if it appends.
async fn run_case(grains: &CaseGrains, shared: &TestLake, case: &Json<'_>) -> Result<(), String> {
    if appends(case) {
        judge(grains, &lake_of(grains).await?, case).await
    } else {
        judge(grains, shared, case).await
    }
}

/// The data file.
struct CaseGrains {
    frames: Vec<u8>,
    states: Vec<StateRow>,
    /// Names of grains in cases, by address.
    keys: BTreeMap<String, String>,
    session: Session,
}

impl CaseGrains {
    fn read(json: &Json) -> Option<CaseGrains> {
        let now_ms = json.get("now_ms")?.as_i64()?;
        let mut read = CaseGrains {
            frames: Vec::new(),
            states: Vec::new(),
            keys: BTreeMap::new(),
            session: patient_session(now_ms),
        };
        override_session(&mut read.session, json.get("session")?);
        for grain in json.get("grains")?.as_array()? {
            let address = text(grain, "address");
            let bytes = hex::decode(text(grain, "blob_hex")).ok()?;
            read.keys
                .insert(address.to_owned(), text(grain, "key").to_owned());
            write_frame(&bytes, &mut read.frames).ok()?;
            if let Some(index) = grain.get("index") {
                read.add_states(address, index);
            }
        }
        read.frames.extend(FRAME_END);
        Some(read)
    }

    /// Adds the events that produce the given index fields of a grain.
    fn add_states(&mut self, address: &str, index: &Json) {
        let mut event = |event, value: Option<String>| {
            if value.is_some() {
                self.states.push(StateRow {
                    content_address: address.to_owned(),
                    event,
                    value,
                    at: 0,
                    actor: None,
                    reason: None,
                    source_id: None,
                });
            }
        };
        let text = |key: &str| index.get(key).and_then(Json::as_str).map(str::to_owned);
        event(LifecycleEvent::Superseded, text("superseded_by"));
        event(LifecycleEvent::Verification, text("verification_status"));
        event(
            LifecycleEvent::Contradicted,
            index
                .get("contradicted")
                .and_then(Json::as_bool)
                .map(|value| value.to_string()),
        );
    }
}

/// Overrides members of a session by those of a JSON object.
fn override_session(session: &mut Session, overrides: &Json) {
    for (key, value) in overrides.as_object().into_iter().flat_map(Object::iter) {
        match key {
            "namespace" => session.namespace = value.as_str().map(str::to_owned),
            "user" | "user_id" => session.user = value.as_str().map(str::to_owned),
            "agent" | "agent_id" => session.agent = value.as_str().map(str::to_owned),
            "tier1" => session.writes = value.as_bool() == Some(true),
            _ => {}
        }
    }
}

/// Returns a lake with `grains` and their states.
async fn lake_of(grains: &CaseGrains) -> Result<TestLake, String> {
    let message = |error: &dyn std::fmt::Display| error.to_string();
    let mut place = TestLake::new().await;
    let options = IngestOptions {
        on_error: OnError::Fail,
        ..IngestOptions::default()
    };
    place
        .try_ingest(&[("grains.frames", &grains.frames)], &options)
        .await
        .map_err(|error| message(&error))?;
    let batch = state_batch(&grains.states).map_err(|error| message(&error))?;
    let file = place
        .lake
        .state
        .write_file(&batch)
        .await
        .map_err(|error| message(&error))?;
    let change = Change {
        added: vec![file],
        changes_rows: true,
        ..Change::default()
    };
    place
        .lake
        .state
        .commit(change, "conformance", 0)
        .await
        .map_err(|error| message(&error))?;
    Ok(place)
}

fn appends(case: &Json) -> bool {
    let parsed = exec::parse_query(text(case, "query").as_bytes(), Options::default());
    parsed.is_ok_and(|parsed| parsed.query.statement.effect() == Effect::Appends)
}

async fn judge(grains: &CaseGrains, place: &TestLake, case: &Json<'_>) -> Result<(), String> {
    let expect = case
        .get("expect")
        .and_then(Json::as_object)
        .filter(|expect| !expect.is_empty())
        .ok_or("the case expects nothing")?;
    let outcome = execute(grains, place, case).await?;
    if let Some(code) = expect.get("error").and_then(Json::as_str) {
        return match outcome {
            Err(error) if error.code() == code || also_accepted(case, error.code()) => Ok(()),
            Err(error) => Err(format!("expected {code}, got {error}")),
            Ok(response) => Err(format!("expected {code}, got {}", response.to_json())),
        };
    }
    let json = match outcome {
        Ok(response) => response.to_json(),
        Err(error) if also_accepted(case, error.code()) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    for (key, expected) in expect.iter() {
        if holds(grains, case, key, expected, &json) != Some(true) {
            return Err(format!("{key}: expected {expected}, got {json}"));
        }
    }
    Ok(())
}

fn also_accepted(case: &Json, code: &str) -> bool {
    let others = case
        .get("also_accept")
        .and_then(Json::as_array)
        .unwrap_or_default();
    others.iter().any(|other| {
        other.as_str() == Some(code) || other.get("error").and_then(Json::as_str) == Some(code)
    })
}

async fn execute(
    grains: &CaseGrains,
    place: &TestLake,
    case: &Json<'_>,
) -> Result<Result<Response, ExecutionError>, String> {
    let mut session = grains.session.clone();
    let mut bindings = Bindings::new();
    if let Some(own) = case.get("session") {
        override_session(&mut session, own);
        for (name, value) in own
            .get("params")
            .and_then(Json::as_object)
            .into_iter()
            .flat_map(Object::iter)
        {
            let bound = value_from_json(value).and_then(|value| bindings.insert(name, value));
            bound.map_err(|error| format!("${name}: {error}"))?;
        }
    }
    // The least memory of the command line: CAL needs no more.
    let options = SqlOptions {
        memory: Some(128 << 20),
        ..SqlOptions::default()
    };
    let tables = lake_context(&place.lake, &options)
        .await
        .map_err(|error| error.to_string())?;
    let writer = Arc::new(LakeWriter::new(place.lake.clone()));
    let executor = Executor::new(tables, session).with_writer(writer);
    Ok(executor
        .run_text(
            text(case, "query").as_bytes(),
            &bindings,
            Options::default(),
        )
        .await)
}

fn text<'j>(json: &'j Json, key: &str) -> &'j str {
    json.get(key).and_then(Json::as_str).unwrap_or_default()
}

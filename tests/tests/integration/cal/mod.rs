//! CAL over a lake: what statements return, and the lifecycle gate that they pass. The conformance
//! cases are in `conformance`.

mod contexts;
mod history;
mod recall;
mod writes;

use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::{ExecutionError, Session};
use gristmill_schemas::json::Json;
use gristmill_tests::grains::grain;
use gristmill_tests::lake::{TestLake, patient_session};

/// Marks grains as superseded: the old one, then the new one, as JSON.
async fn supersede_grains(lake: &mut TestLake, links: &[(&str, &str)]) {
    let address = |text: &str| grain(text).address;
    let links: Vec<_> = links
        .iter()
        .map(|(old, new)| (address(old), address(new)))
        .collect();
    lake.supersede(&links).await;
}

/// Returns what a session of `user` with the right to write gets for `statement`.
async fn answered(
    lake: &TestLake,
    user: Option<&str>,
    statement: &str,
) -> Result<Json<'static>, ExecutionError> {
    let session = Session {
        user: user.map(str::to_owned),
        ..patient_session(1_800_000_000_000)
    };
    let executor = lake.executor(session).await;
    let response = executor
        .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
        .await?;
    Ok(response.to_json())
}

/// Returns `ok` or the error code of `statement` over a lake with `grains`.
async fn verdict(grains: &[&str], statement: &str) -> String {
    match answered(&TestLake::of(grains).await, None, statement).await {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code().to_owned(),
    }
}

/// The member `key` of each result.
fn members<'j>(response: &'j Json<'j>, key: &str) -> Vec<Option<&'j Json<'j>>> {
    let results = response.get("results").and_then(Json::as_array).unwrap();
    results.iter().map(|result| result.get(key)).collect()
}

/// The objects of the grains of a response.
fn objects<'j>(response: &'j Json<'j>) -> Vec<&'j str> {
    let results = response.get("results").and_then(Json::as_array).unwrap();
    let object = |result: &'j Json<'j>| result.get("grain")?.get("object")?.as_str();
    results
        .iter()
        .map(|result| object(result).unwrap())
        .collect()
}

/// The codes of a response's warnings.
fn warnings<'j>(response: &'j Json<'j>) -> Vec<&'j str> {
    let told = response
        .get("warnings")
        .and_then(Json::as_array)
        .unwrap_or_default();
    told.iter()
        .map(|warning| warning.get("code").and_then(Json::as_str).unwrap())
        .collect()
}

fn belief(object: &str, more: &str) -> String {
    format!(
        r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "{object}", "confidence": 1.0, "created_at": 1767225600000{more}}}"#
    )
}

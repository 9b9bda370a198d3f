//! Runs the examples of a pack: small sets of grains with a known number of findings.
//!
//! Examples run through the same compiler and passes as a scan of a lake. Each grain is encoded as
//! a writer would encode it, so that a rule sees the same columns as in a lake.
//!
//! In an example's JSON, keys that start with `$` have a special meaning:
//!
//! | key | meaning |
//! |---|---|
//! | `$name` | `${name}` in later texts of the example is replaced by this grain's address |
//! | `$sensitivity` | the header's class: `public`, `internal`, `pii` or `phi`; tags raise it |
//! | `$row` | columns that ingest adds: `content_address`, `signature`, `signer_did`, `supersedes` |
//!
//! Defaults: `created_at` is 2025-01-01, a belief's `confidence` 1.0.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use gristmill_engine::lake::AUDIT;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{
    GRAINS, GrainBatchBuilder, LifecycleEvent, REJECTS, RowMetadata, SOURCES, STATE,
    SignatureColumn, StateRow, audit_schema, grains_schema, rejects_schema, sources_schema,
    state_batch, state_schema,
};
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, EncodedGrain, Grain, Payload, Sensitivity,
    encode_json,
};
use gristmill_schemas::json::{Json, Object};
use serde::Serialize;

use super::changes::register_everything;
use super::error::{PackError, Result};
use super::pack::{Example, Pack, Rule};
use super::scan::{SCANNED, Scan, ScanScope};
use crate::sql::{SqlOptions, bare_context, register_views};

/// Result of a rule on one of its examples.
#[derive(Debug, Clone, Serialize)]
pub struct ExampleResult {
    /// Pack and rule.
    pub rule: String,
    /// Number of the example in the pack, from 1.
    pub example: usize,
    /// Expected number of findings.
    pub expected: usize,
    /// Actual number of findings.
    pub found: usize,
    /// Messages of the findings.
    pub messages: Vec<String>,
}

impl ExampleResult {
    /// Returns true if the actual number is the expected one.
    pub fn is_right(&self) -> bool {
        self.expected == self.found
    }
}

/// 2025-01-01 in milliseconds since 1970.
const CREATED_AT: i64 = 1_735_689_600_000;

/// Runs all examples of `pack`.
///
/// # Errors
/// [`PackError::Rule`] if a rule can't be compiled or an example doesn't consist of valid grains.
pub async fn run_examples(pack: &Pack) -> Result<Vec<ExampleResult>> {
    let lake = ExampleLake::new().await?;
    let mut results = Vec::new();
    for rule in &pack.rules {
        let alone = Pack {
            rules: vec![rule.clone()],
            ..pack.clone()
        };
        let context = lake.context.clone();
        let scan = Scan::over(context, vec![alone], ScanScope::of_example(), 0).await?;
        for example in &rule.examples {
            lake.set(rule, example).await?;
            results.push(run_example(&scan, rule, example).await?);
        }
    }
    Ok(results)
}

/// Runs `scan`, which has the one rule `rule`, on the tables of `example`.
async fn run_example(scan: &Scan, rule: &Rule, example: &Example) -> Result<ExampleResult> {
    let mut messages = Vec::new();
    scan.run(|rule, finding| {
        messages.push(rule.message.render(&finding.evidence));
        Ok(())
    })
    .await?;
    Ok(ExampleResult {
        rule: rule.id.clone(),
        example: example.number,
        expected: example.findings,
        found: messages.len(),
        messages,
    })
}

impl ScanScope {
    fn of_example() -> ScanScope {
        ScanScope {
            lake: "example".to_owned(),
            version: 0,
            since: None,
            segments: 0,
            grains: 0,
        }
    }
}

/// The tables of a lake in memory, refilled for each example.
struct ExampleLake {
    context: SessionContext,
    grains: [Arc<MemTable>; 2],
    state: Arc<MemTable>,
}

impl ExampleLake {
    async fn new() -> Result<ExampleLake> {
        let options = SqlOptions {
            threads: 1,
            ..SqlOptions::default()
        };
        let context = bare_context(&options)?;
        let table = |schema: SchemaRef| {
            Ok::<_, PackError>(Arc::new(MemTable::try_new(schema, vec![Vec::new()])?))
        };
        let grains = [table(grains_schema())?, table(grains_schema())?];
        let state = table(state_schema())?;
        let all = [
            (GRAINS, Arc::clone(&grains[0])),
            (SCANNED, Arc::clone(&grains[1])),
            (STATE, Arc::clone(&state)),
            (REJECTS, table(rejects_schema())?),
            (SOURCES, table(sources_schema())?),
            (AUDIT, table(audit_schema())?),
        ];
        for (name, table) in all {
            context.register_table(name, table)?;
        }
        register_views(&context, &options)?;
        register_everything(&context)?;
        Ok(ExampleLake {
            context,
            grains,
            state,
        })
    }

    async fn set(&self, rule: &Rule, example: &Example) -> Result<()> {
        let fault = |problem: String| {
            PackError::rule(&rule.id, format!("[[test]] {}: {problem}", example.number))
        };
        let mut names = HashMap::new();
        let grains = grains_of(&example.grains, &mut names).map_err(fault)?;
        let state = match &example.state {
            Some(state) => events_of(state, &names).map_err(fault)?,
            None => RecordBatch::new_empty(state_schema()),
        };
        let [all, scanned] = &self.grains;
        for (table, rows) in [
            (all, grains.clone()),
            (scanned, grains),
            (&self.state, state),
        ] {
            replace_rows(table, &rows).await;
        }
        Ok(())
    }
}

/// Makes `rows` the only rows of `table`.
async fn replace_rows(table: &MemTable, rows: &RecordBatch) {
    for partition in &table.batches {
        *partition.write().await = vec![rows.clone()];
    }
}

type AddressNames = HashMap<String, String>;

fn grains_of(text: &str, names: &mut AddressNames) -> Result<RecordBatch, String> {
    let list =
        Json::parse(text.as_bytes()).map_err(|error| format!("`grains` isn't JSON: {error}"))?;
    let list = list
        .as_array()
        .ok_or("`grains` must be a JSON array of grains")?;
    let mut columns = GrainBatchBuilder::with_capacity(list.len(), 0);
    for (place, grain) in list.iter().enumerate() {
        let object = grain
            .as_object()
            .ok_or_else(|| format!("grain {} is not a JSON object", place + 1))?;
        append_grain(object, names, &mut columns)
            .map_err(|problem| format!("grain {}: {problem}", place + 1))?;
    }
    columns.finish().map_err(|error| error.to_string())
}

/// Encodes one grain of an example and appends its row.
fn append_grain(
    object: &Object<'_>,
    names: &mut AddressNames,
    columns: &mut GrainBatchBuilder,
) -> Result<(), String> {
    let (mut grain, settings) = split_settings(object, names)?;
    add_defaults(&mut grain)?;
    let class = settings.get("sensitivity").and_then(Json::as_str);
    let encoded = encode(grain, class)?;
    let payload =
        Payload::open(&encoded.blob, DEFAULT_PAYLOAD_LIMIT).map_err(|error| error.to_string())?;
    let decoded =
        Grain::decode(&payload, DecodeMode::Lenient).map_err(|error| error.to_string())?;
    let row = settings.get("row");
    let text = |key: &str| row.and_then(|row| row.get(key)).and_then(Json::as_str);
    let address = match text("content_address") {
        Some(address) => address
            .parse()
            .map_err(|_| format!("`{address}` is not an address"))?,
        None => encoded.address,
    };
    let identity = RowMetadata {
        signature: signature(text("signature"))?,
        signer: text("signer_did"),
        ingested_at: CREATED_AT * 1000,
        supersedes: &superseded(row)?,
        ..RowMetadata::default()
    };
    columns.append(&address, &encoded.blob, &decoded, &identity);
    if let Some(name) = settings.get("name").and_then(Json::as_str) {
        names.insert(name.to_owned(), address.to_string());
    }
    Ok(())
}

/// Settings of an example's grain: its keys that start with `$`, without it.
type Settings = HashMap<String, Json<'static>>;

/// Separates the fields of a grain from its settings, and resolves names in both.
fn split_settings(
    object: &Object<'_>,
    names: &AddressNames,
) -> Result<(Object<'static>, Settings), String> {
    let (mut grain, mut settings) = (Object::new(), HashMap::new());
    for (key, value) in object.iter() {
        let value = resolve_names(value, names)?;
        match key.strip_prefix('$') {
            Some(key) => drop(settings.insert(key.to_owned(), value)),
            None => drop(grain.insert(key.to_owned(), value)),
        }
    }
    Ok((grain, settings))
}

/// Adds the fields that an example may leave out.
fn add_defaults(grain: &mut Object<'static>) -> Result<(), String> {
    if !grain.contains_key("created_at") {
        grain.push_unique("created_at", CREATED_AT);
    }
    let is_belief = grain.get("type").and_then(Json::as_str) == Some("belief");
    if is_belief && !grain.contains_key("confidence") {
        let confidence = Json::parse(b"1.0").map_err(|error| error.to_string())?;
        grain.push_unique("confidence", confidence);
    }
    Ok(())
}

/// Encodes a grain as a writer would, with the sensitivity `class`.
fn encode(grain: Object<'static>, class: Option<&str>) -> Result<EncodedGrain, String> {
    let options = EncodeOptions {
        sensitivity: sensitivity(class)?,
        ..EncodeOptions::default()
    };
    encode_json(&Json::Object(grain), options).map_err(|error| error.to_string())
}

/// Returns the addresses in `supersedes` of the setting `row`.
fn superseded(row: Option<&Json<'_>>) -> Result<Vec<ContentAddress>, String> {
    let addresses = row
        .and_then(|row| row.get("supersedes"))
        .and_then(Json::as_array)
        .unwrap_or_default();
    let addresses: Option<Vec<ContentAddress>> = addresses
        .iter()
        .map(|address| address.as_str().and_then(|address| address.parse().ok()))
        .collect();
    addresses.ok_or_else(|| "`supersedes` must be a list of addresses".to_owned())
}

fn sensitivity(name: Option<&str>) -> Result<Sensitivity, String> {
    let all = [
        Sensitivity::Public,
        Sensitivity::Internal,
        Sensitivity::Pii,
        Sensitivity::Phi,
    ];
    let Some(name) = name else {
        return Ok(Sensitivity::default());
    };
    all.into_iter()
        .find(|class| class.name() == name)
        .ok_or_else(|| format!("unknown sensitivity `{name}`; use public, internal, pii or phi"))
}

fn signature(name: Option<&str>) -> Result<SignatureColumn, String> {
    let all = [
        SignatureColumn::None,
        SignatureColumn::Valid,
        SignatureColumn::Invalid,
        SignatureColumn::Unverifiable,
    ];
    let Some(name) = name else {
        return Ok(SignatureColumn::None);
    };
    all.into_iter()
        .find(|state| state.name() == name)
        .ok_or_else(|| {
            format!("unknown signature `{name}`; use none, valid, invalid or unverifiable")
        })
}

/// Returns `json` with `${name}` replaced by addresses, in texts at any depth.
fn resolve_names(json: &Json<'_>, names: &AddressNames) -> Result<Json<'static>, String> {
    Ok(match json {
        Json::String(text) => Json::string(with_addresses(text, names)?),
        Json::Array(items) => Json::Array(
            items
                .iter()
                .map(|item| resolve_names(item, names))
                .collect::<Result<_, _>>()?,
        ),
        Json::Object(object) => {
            let mut replaced = Object::new();
            for (key, value) in object.iter() {
                replaced.insert(key.to_owned(), resolve_names(value, names)?);
            }
            Json::Object(replaced)
        }
        other => other.reborrow().into_owned(),
    })
}

fn with_addresses(text: &str, names: &AddressNames) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, behind) = after
            .split_once('}')
            .ok_or_else(|| format!("`{text}` has a ${{ without }}"))?;
        let address = names
            .get(name)
            .ok_or_else(|| format!("no earlier grain has `\"$name\": \"{name}\"`"))?;
        out.push_str(before);
        out.push_str(address);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

fn events_of(text: &str, names: &AddressNames) -> Result<RecordBatch, String> {
    let list =
        Json::parse(text.as_bytes()).map_err(|error| format!("`state` isn't JSON: {error}"))?;
    let list = list
        .as_array()
        .ok_or("`state` must be a JSON array of events")?;
    let rows = list
        .iter()
        .map(|event| event_of(&resolve_names(event, names)?))
        .collect::<Result<Vec<_>, _>>()?;
    state_batch(&rows).map_err(|error| error.to_string())
}

fn event_of(json: &Json<'_>) -> Result<StateRow, String> {
    let text = |key: &str| json.get(key).and_then(Json::as_str).map(str::to_owned);
    let name = text("event").ok_or("an event has no `event`")?;
    let event =
        LifecycleEvent::from_name(&name).ok_or_else(|| format!("unknown event `{name}`"))?;
    Ok(StateRow {
        content_address: text("content_address").ok_or("an event has no `content_address`")?,
        event,
        value: text("value"),
        at: json.get("at").and_then(Json::as_i64).unwrap_or(CREATED_AT) * 1000,
        actor: text("actor"),
        reason: text("reason"),
        source_id: None,
    })
}

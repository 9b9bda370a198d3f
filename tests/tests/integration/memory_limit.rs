//! `--memory`: every command has the limit, the minimum is checked, and the shipped views, packs
//! and CAL give the same answers in the minimum as with plenty of memory.

use std::fmt::Write as _;
use std::sync::LazyLock;

use arrow::array::AsArray;
use datafusion::error::DataFusionError;
use gristmill_engine::lake::Lake;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_queries::packs::{NAMES, Scan, ScanOptions, Since, shipped};
use gristmill_queries::sql::{SessionContext, SqlOptions, lake_context};
use gristmill_tests::lake::{TestLake, patient_session};
use gristmill_tests::sandbox::Sandbox;

/// The least limit of the command line, and one that nothing here exceeds.
const MINIMUM: usize = 128 << 20;
const PLENTY: usize = 4 << 30;

/// Too little for the hash joins and sorts of the views over the large lake, so they spill.
const SCARCE: usize = 24 << 20;

/// A lake of 100,000 generated grains, with lifecycle events.
static LARGE: LazyLock<Sandbox> = LazyLock::new(|| {
    let sandbox = Sandbox::new();
    for arguments in [
        &["generate", "corpus", "--grains", "100000"][..],
        &["ingest", "corpus", "--no-indexes"],
    ] {
        let output = sandbox.output("large", arguments);
        assert!(output.status.success(), "{output:?}");
    }
    sandbox
});

async fn large() -> Lake {
    let path = LARGE.path("large").display().to_string();
    Lake::open(&path).await.unwrap()
}

fn options(memory: usize) -> SqlOptions {
    SqlOptions {
        threads: 2,
        memory: Some(memory),
        ..SqlOptions::default()
    }
}

async fn text_rows(context: &SessionContext, query: &str) -> Vec<Vec<String>> {
    let found = context.sql(query).await.unwrap().collect().await;
    let batches = found.unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| {
                let texts = arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8);
                texts.unwrap().as_string::<i32>().value(row).to_owned()
            });
            rows.push(cells.collect());
        }
    }
    rows
}

/// Returns a query whose one row depends on the first plain columns of all rows of `view`, in any
/// order.
async fn digest_query(context: &SessionContext, view: &str) -> String {
    let columns = format!(
        "SELECT column_name FROM information_schema.columns WHERE table_name = '{view}'
         AND (data_type LIKE 'Utf8%' OR data_type LIKE 'Int%' OR data_type LIKE 'Timestamp%'
              OR data_type = 'Boolean') LIMIT 8"
    );
    let texts: Vec<String> = text_rows(context, &columns)
        .await
        .into_iter()
        .flatten()
        .map(|column| format!("coalesce(CAST(\"{column}\" AS VARCHAR), '-')"))
        .collect();
    format!(
        "SELECT count(*), sum(octet_length(line)), coalesce(min(line), ''), coalesce(max(line), ''),
                sum(CAST(ascii(md5(line)) AS BIGINT))
         FROM (SELECT concat_ws('|', {}) AS line FROM {view})",
        texts.join(", ")
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_view_gives_the_same_rows_in_little_memory() {
    let lake = large().await;
    let reference = lake_context(&lake, &options(PLENTY)).await.unwrap();
    let views = "SELECT table_name FROM information_schema.tables
                 WHERE table_type = 'VIEW' AND table_schema = 'public' ORDER BY 1";
    let views: Vec<String> = text_rows(&reference, views)
        .await
        .into_iter()
        .flatten()
        .collect();
    assert!(views.len() > 20, "{views:?}");
    for view in views {
        let query = digest_query(&reference, &view).await;
        let expected = text_rows(&reference, &query).await;
        for memory in [MINIMUM, SCARCE] {
            let context = lake_context(&lake, &options(memory)).await.unwrap();
            assert_eq!(
                text_rows(&context, &query).await,
                expected,
                "{view} in {memory} bytes"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_results_of_a_search_count_until_their_plan_is_dropped() {
    let filler = "x".repeat(100_000);
    let event = |n: usize| {
        format!(r#"{{"type": "event", "content": "needle {filler}", "created_at": {n}}}"#)
    };
    let grains: Vec<String> = (1..=200).map(event).collect();
    let grains: Vec<&str> = grains.iter().map(String::as_str).collect();
    let lake = TestLake::of(&grains).await;
    let context = lake_context(&lake.lake, &options(8 << 20)).await.unwrap();
    let runtime = context.runtime_env();
    let plan = async |query: &str| {
        let frame = context.sql(query).await.unwrap();
        frame.create_physical_plan().await
    };
    let few = plan("SELECT content FROM search('needle', 10)").await;
    let few = few.unwrap();
    let reserved = runtime.memory_pool.reserved();
    assert!((1_000_000..4_000_000).contains(&reserved), "{reserved}");
    drop(few);
    assert_eq!(runtime.memory_pool.reserved(), 0);
    // 20 MB of texts.
    for condition in ["", " WHERE content LIKE 'needle%'"] {
        let query = format!("SELECT content FROM search('needle', 10000){condition}");
        let refused = plan(&query).await.unwrap_err();
        let is_exhausted = matches!(refused.find_root(), DataFusionError::ResourcesExhausted(_));
        assert!(is_exhausted, "{condition}: {refused}");
        assert_eq!(runtime.memory_pool.reserved(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_two_large_sides_spill_whatever_their_kind() {
    let lake = large().await;
    let reference = lake_context(&lake, &options(PLENTY)).await.unwrap();
    let scarce = lake_context(&lake, &options(8 << 20)).await.unwrap();
    // Both sides have the rows of all grains, and a part of them without a partner.
    let sides = "(SELECT content_address AS a, namespace AS n, created_at AS c FROM grains
                  WHERE type_byte <> 2) x KIND JOIN
                 (SELECT content_address AS b, user_id AS u FROM grains WHERE type_byte <> 1) y
                 ON x.a = y.b";
    for kind in [
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "LEFT SEMI",
        "LEFT ANTI",
        "RIGHT ANTI",
    ] {
        let side = if kind == "RIGHT ANTI" { "b" } else { "a" };
        let query = format!(
            "SELECT count(*), count({side}), coalesce(min({side}), ''), coalesce(max({side}), '')
             FROM {}",
            sides.replace("KIND", kind)
        );
        let expected = text_rows(&reference, &query).await;
        assert_eq!(text_rows(&scarce, &query).await, expected, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shipped_pack_has_the_same_findings_in_little_memory() {
    let lake = large().await;
    let mut found = Vec::new();
    for memory in [PLENTY, MINIMUM, SCARCE] {
        let packs = NAMES.iter().map(|name| shipped(name).unwrap()).collect();
        let options = ScanOptions {
            sql: options(memory),
            since: Since::Beginning,
        };
        let scan = Scan::prepare(&lake, packs, &options).await.unwrap();
        let mut findings = Vec::new();
        let summary = scan
            .run(|rule, finding| {
                findings.push(format!("{} {:?}", rule.id, finding.address));
                Ok(())
            })
            .await
            .unwrap();
        findings.sort_unstable();
        let counts = format!("{:?}", summary.rules);
        found.push((counts, findings));
    }
    assert!(found[0].1.len() > 1_000);
    assert!(found[1] == found[0] && found[2] == found[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cal_gives_the_same_answers_in_little_memory() {
    let lake = large().await;
    let mut answers = Vec::new();
    for memory in [PLENTY, MINIMUM] {
        let context = lake_context(&lake, &options(memory)).await.unwrap();
        let executor = Executor::new(context, patient_session(1_800_000_000_000));
        let bindings = Bindings::new();
        let mut all = String::new();
        for statement in [
            "RECALL events LIMIT 50",
            "RECALL beliefs WHERE confidence > 0.5 | COUNT",
            "RECALL events WHERE content LIKE \"meeting\" LIMIT 20",
            "RECALL | COUNT BY type",
            "RECALL consents | GROUP BY namespace",
            "RECALL beliefs WITH superseded | COUNT",
            "ASSEMBLE c FROM a: (RECALL beliefs LIMIT 40), b: (RECALL goals LIMIT 40) FORMAT text",
        ] {
            let run = executor.run_text(statement.as_bytes(), &bindings, Options::default());
            match run.await {
                Ok(response) => {
                    let text = response.to_json().to_string();
                    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
                    remove_costs(&mut json);
                    writeln!(all, "{statement}: {json}").unwrap();
                }
                Err(error) => writeln!(all, "{statement}: {error}").unwrap(),
            }
        }
        answers.push(all);
    }
    for (plenty, little) in answers[0].lines().zip(answers[1].lines()) {
        let start: String = little.chars().take(500).collect();
        assert!(plenty == little, "{start}");
        assert!(!little.contains("memory limit"), "{start}");
    }
}

/// Removes durations, and the number of rows that were read: a limit stops a scan at the end of a
/// batch, whose size depends on the memory.
fn remove_costs(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Object(members) => {
            members.retain(|name, _| !name.ends_with("_ms") && name != "grains_scanned");
            members.values_mut().for_each(remove_costs);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(remove_costs),
        _ => {}
    }
}

/// A run of each command that reads or writes a lake, in an order in which all succeed.
const COMMANDS: [&[&str]; 17] = [
    &["generate", "few", "--grains", "300"],
    &["ingest", "few"],
    &["apply", "none.jsonl"],
    &["sql", "SELECT 1"],
    &["cal", "RECALL events LIMIT 1"],
    &["search", "meeting"],
    &["scan", "--fail-on", "error"],
    &["describe"],
    &["export", "out.jsonl"],
    &["export", "some.jsonl", "--where", "type = 'event'"],
    &["report-subject", "--user", "nobody"],
    &["erase", "--user", "nobody"],
    &["verify"],
    &["reindex", "--all"],
    &["compact"],
    &["repair", "--dry-run"],
    &["gc"],
];

/// Those that run queries. `export` evaluates the rules of packs.
const WITH_QUERIES: [&str; 5] = ["sql", "cal", "search", "scan", "export"];

/// Runs a command on eight threads and returns what it logs about its limits.
fn logged(sandbox: &Sandbox, arguments: &[&str], memory: Option<&str>) -> String {
    let mut command = sandbox.command("lake", arguments);
    command
        .args(["--threads", "8"])
        .env("RUST_LOG", "gristmill=debug,gristmill_queries=debug");
    if let Some(memory) = memory {
        command.args(["--memory", memory]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code();
    assert!(
        matches!(code, Some(0 | 2)),
        "{arguments:?}: {code:?} {text}"
    );
    text
}

#[test]
fn the_limit_and_its_default_reach_every_command() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("none.jsonl"), "").unwrap();
    for (option, bytes, threads) in [(Some("256M"), 256 << 20, 2), (None, 1_u64 << 30, 8)] {
        std::fs::remove_dir_all(sandbox.path("lake")).ok();
        for file in ["out.jsonl", "some.jsonl"] {
            std::fs::remove_file(sandbox.path(file)).ok();
        }
        std::fs::remove_dir_all(sandbox.path("few")).ok();
        for arguments in COMMANDS {
            let text = logged(&sandbox, arguments, option);
            let rows = format!("row groups in memory at a time memory={bytes} threads={threads}");
            assert!(text.contains(&rows), "{arguments:?}: {text}");
            let pool = format!("memory of queries memory={bytes} pool={}", bytes / 4 * 3);
            let queries = WITH_QUERIES.contains(&arguments[0]) || arguments.contains(&"--where");
            assert_eq!(text.contains(&pool), queries, "{arguments:?}: {text}");
        }
    }
}

#[test]
fn less_than_the_minimum_is_refused_by_every_command() {
    let sandbox = Sandbox::new();
    let refused = |command: &mut std::process::Command, given: &str| {
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{given}: {text}");
        assert!(text.contains("the minimum is 128M"), "{given}: {text}");
    };
    for arguments in COMMANDS {
        for given in ["1", "127M"] {
            let mut command = sandbox.command("lake", arguments);
            refused(command.args(["--memory", given]), given);
        }
    }
    let mut command = sandbox.command("lake", &["describe"]);
    refused(command.env("GRISTMILL_MEMORY", "64M"), "variable");
    std::fs::write(sandbox.path("gristmill.toml"), "memory = \"64M\"").unwrap();
    refused(
        &mut sandbox.command("lake", &["describe"]),
        "gristmill.toml",
    );
}

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{Partitioning, collect, displayable};
use datafusion::prelude::SessionContext;

use super::super::wide_rows::batch_bytes;
use super::super::{SqlOptions, bare_context};
use super::*;

/// Bytes of a gathered batch in the session with limits.
const GATHERED: usize = 64 << 10;

/// Bytes of keys and lists that a join may gather there.
const COPIED: usize = 512 << 10;

/// Rows of a batch there: a row with more than 4 KiB is wide.
const BATCH_ROWS: usize = 64;

/// Bytes of a memory that is too small for a batch of rows of 100 KB.
const MEMORY: usize = 4 << 20;

fn rule() -> WideBatchesRule {
    WideBatchesRule {
        gathered_bytes: GATHERED,
        copied_bytes: COPIED,
    }
}

/// Returns a session with limits.
fn limited() -> SessionContext {
    let context = bare_context(&SqlOptions::default()).unwrap();
    let state = context.state();
    let config = state.config().clone().with_batch_size(BATCH_ROWS);
    let config = config.with_target_partitions(2);
    let state = SessionStateBuilder::new_from_existing(state)
        .with_config(config)
        .with_physical_optimizer_rule(Arc::new(rule()))
        .build();
    SessionContext::new_with_state(state)
}

/// Returns the same, whose joins sort their inputs.
fn limited_with_merge_joins() -> SessionContext {
    let state = limited().state();
    let mut config = state.config().clone();
    config.options_mut().optimizer.prefer_hash_join = false;
    let state = SessionStateBuilder::new_from_existing(state).with_config(config);
    SessionContext::new_with_state(state.build())
}

/// Returns the plan of a query as text, and its batches.
async fn run(context: &SessionContext, query: &str) -> Result<(String, Vec<RecordBatch>)> {
    let plan = context.sql(query).await?.create_physical_plan().await?;
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    let batches = collect(plan, context.task_ctx()).await?;
    Ok((shown, batches))
}

fn shown(batches: &[RecordBatch]) -> String {
    let table = arrow::util::pretty::pretty_format_batches(batches);
    table.unwrap().to_string()
}

/// Returns rows with a number `v` and a text `b` of at least `width` bytes.
fn wide(rows: usize, width: usize) -> String {
    format!(
        "(SELECT value AS v, repeat('x', {width} + value) AS b FROM range(0, {rows}) LIMIT {rows})"
    )
}

fn assert_small(batches: &[RecordBatch], query: &str) {
    for batch in batches {
        let bytes = batch_bytes(batch);
        let most = 2 * GATHERED;
        assert!(
            bytes <= most,
            "{query}: {bytes} of {} rows",
            batch.num_rows()
        );
    }
}

#[tokio::test]
async fn a_filter_gathers_few_wide_rows() {
    let context = limited();
    let rows = format!(
        "(SELECT *, row_number() OVER () AS r FROM {})",
        wide(1000, 10_000)
    );
    let query = format!("SELECT v, b FROM {rows} WHERE r % 20 = 0");
    let (plan, batches) = run(&context, &query).await.unwrap();
    assert!(plan.contains("GatheredExec"), "{plan}");
    assert_small(&batches, &query);
    let plain = bare_context(&SqlOptions::default()).unwrap();
    let sorted = format!("SELECT v, length(b) FROM ({query}) ORDER BY v");
    let (_, expected) = run(&plain, &sorted).await.unwrap();
    let (_, batches) = run(&context, &sorted).await.unwrap();
    assert_eq!(shown(&batches), shown(&expected));
}

#[tokio::test]
async fn an_exchange_gathers_few_wide_rows() {
    let context = limited();
    let rows = context
        .sql(&format!("SELECT * FROM {}", wide(3000, 10_000)))
        .await
        .unwrap();
    let rows = rows.create_physical_plan().await.unwrap();
    let keys = vec![col("v", &rows.schema()).unwrap()];
    let exchange = RepartitionExec::try_new(rows, Partitioning::Hash(keys, BATCH_ROWS)).unwrap();
    let bounded = rule().optimize(Arc::new(exchange), &ConfigOptions::new());
    let batches = collect(bounded.unwrap(), context.task_ctx()).await.unwrap();
    assert_small(&batches, "exchange");
    assert_eq!(
        batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
        3000
    );
}

#[tokio::test]
async fn a_filter_gathers_as_many_narrow_rows_as_before() {
    let context = limited();
    let texts = "CREATE TABLE texts AS SELECT value AS r, value::text AS t FROM range(0, 3000)";
    context.sql(texts).await.unwrap().collect().await.unwrap();
    let query = "SELECT t FROM texts WHERE r % 3 = 0";
    let (plan, batches) = run(&context, query).await.unwrap();
    assert!(plan.contains("GatheredExec"), "{plan}");
    let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
    assert!(
        rows.iter().filter(|rows| **rows < BATCH_ROWS).count() <= 2,
        "{rows:?}"
    );
    let numbers = "SELECT value FROM range(0, 3000) WHERE value % 3 = 0";
    let (plan, _) = run(&context, numbers).await.unwrap();
    assert!(!plan.contains("GatheredExec"), "{plan}");
}

#[tokio::test]
async fn joins_of_wide_texts_have_the_same_rows_in_small_batches() {
    let plain = bare_context(&SqlOptions::default()).unwrap();
    let few = wide(7, 10_000);
    let many = "(SELECT value AS n, 'n' || value AS t FROM range(0, 500))";
    for context in [limited(), limited_with_merge_joins()] {
        for kind in ["", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"] {
            for filter in ["", "AND length(w.b) > 10003 AND m.t <> w.b"] {
                let joined =
                    format!("SELECT * FROM {few} w {kind} JOIN {many} m ON m.n % 9 = w.v {filter}");
                let (plan, batches) = run(&context, &joined).await.unwrap();
                assert!(plan.contains("RestoredTextsExec"), "{plan}");
                assert_small(&batches, &joined);
                let columns = match kind {
                    "LEFT SEMI" | "LEFT ANTI" => "v, b",
                    _ => "v, length(b), n, t",
                };
                let sorted = format!("SELECT {columns} FROM ({joined}) ORDER BY {columns}");
                let (_, expected) = run(&plain, &sorted).await.unwrap();
                let (_, batches) = run(&context, &sorted).await.unwrap();
                assert_eq!(shown(&batches), shown(&expected), "{joined}");
            }
        }
    }
}

#[tokio::test]
async fn a_join_keeps_the_types_and_the_order_of_its_rows() {
    let query = "SELECT a.value, arrow_cast(b.t, 'LargeUtf8') AS u, b.y FROM range(0, 300) a JOIN \
                 (SELECT value AS v, 't' || value AS t, (value::text)::bytea AS y FROM range(0, \
                 300)) b ON a.value = b.v ORDER BY a.value, b.t LIMIT 200";
    let plain = bare_context(&SqlOptions::default()).unwrap();
    let (_, expected) = run(&plain, query).await.unwrap();
    for context in [limited(), limited_with_merge_joins()] {
        let (plan, batches) = run(&context, query).await.unwrap();
        assert!(plan.contains("RestoredTextsExec"), "{plan}");
        assert_eq!(batches[0].schema(), expected[0].schema());
        assert_eq!(shown(&batches), shown(&expected));
    }
}

#[tokio::test]
async fn a_filter_of_a_join_copies_a_wide_constant_for_few_rows() {
    let query = "SELECT count(*) FROM range(0, 300) a JOIN range(0, 300) b ON a.value % 5 = \
                 b.value % 5 AND length(repeat('x', 30000) || a.value || b.value) > 30003";
    let plain = bare_context(&SqlOptions::default()).unwrap();
    let (_, expected) = run(&plain, query).await.unwrap();
    let (plan, batches) = run(&limited(), query).await.unwrap();
    assert!(plan.contains("RestoredTextsExec"), "{plan}");
    assert_eq!(shown(&batches), shown(&expected));
}

#[tokio::test]
async fn wide_keys_and_lists_are_refused_if_a_join_would_repeat_them() {
    let context = limited();
    let repeated = |rows: usize| {
        format!(
            "(SELECT value AS v, repeat('x', 10000 + value / 1000) AS b FROM range(0, {rows}) \
             LIMIT {rows})"
        )
    };
    let of_keys = |left: usize, right: usize| {
        let (left, right) = (repeated(left), repeated(right));
        format!("SELECT count(*), max(l.v) FROM {left} l JOIN {right} r ON l.b = r.b")
    };
    let of_lists = |rows: usize| {
        let rows = format!("(SELECT value AS n FROM range(0, {rows}))");
        let lists = format!(
            "(SELECT v, make_array(b, 'y') AS a FROM {})",
            wide(5, 10_000)
        );
        format!("SELECT sum(length(a[1])) FROM {rows} r JOIN {lists} l ON r.n % 5 = l.v")
    };
    for query in [of_keys(5, 6), of_lists(30)] {
        let plain = bare_context(&SqlOptions::default()).unwrap();
        let (_, expected) = run(&plain, &query).await.unwrap();
        let (_, batches) = run(&context, &query).await.unwrap();
        assert_eq!(shown(&batches), shown(&expected), "{query}");
    }
    for query in [of_keys(30, 30), of_lists(3000)] {
        let refused = run(&context, &query).await.unwrap_err();
        let root = refused.find_root();
        assert!(
            matches!(root, DataFusionError::ResourcesExhausted(_)),
            "{refused}"
        );
        assert!(
            refused.to_string().contains("a join on equal columns"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn wide_texts_that_a_join_gathers_count_in_the_memory_of_the_query() {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(MEMORY, 1.0);
    let state = SessionStateBuilder::new_from_existing(limited().state());
    let state = state.with_runtime_env(runtime.build_arc().unwrap()).build();
    let small = SessionContext::new_with_state(state);
    let state = limited().state();
    let mut config = state.config().clone();
    config.options_mut().optimizer.join_reordering = false;
    let state = SessionStateBuilder::new_from_existing(state).with_config(config);
    let unordered = SessionContext::new_with_state(state.build());
    for (width, refused) in [(10_000, false), (100_000, true)] {
        let query = format!(
            "SELECT sum(length(r.b)) FROM (SELECT value AS n FROM range(0, 5)) s JOIN {} r ON r.v \
             % 5 = s.n",
            wide(3000, width)
        );
        let plan = unordered.sql(&query).await.unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        match collect(plan, small.task_ctx()).await {
            Ok(batches) => assert!(!refused && batches.len() == 1, "{width}"),
            Err(error) => assert!(
                refused && error.to_string().contains("JoinedTexts"),
                "{width}: {error}"
            ),
        }
    }
}

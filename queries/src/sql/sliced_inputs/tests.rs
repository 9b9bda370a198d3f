use arrow::compute::concat_batches;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;

use super::super::{SqlOptions, bare_context};
use super::*;

const LIMIT: usize = 64 << 10;

/// Rows of a batch in the session with a limit: a row or constant with more than a KiB is wide.
const BATCH_ROWS: usize = 64;

/// Returns a session whose operators make copies of 64 KiB, and one without that limit.
fn sessions() -> (SessionContext, SessionContext) {
    let context = bare_context(&SqlOptions::default()).unwrap();
    let rule = SlicedInputsRule {
        copied_bytes: LIMIT,
    };
    let state = context.state();
    let config = state.config().clone().with_batch_size(BATCH_ROWS);
    let state = SessionStateBuilder::new_from_existing(state)
        .with_config(config)
        .with_physical_optimizer_rule(Arc::new(rule))
        .build();
    (SessionContext::new_with_state(state), context)
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

#[tokio::test]
async fn operators_with_wide_constants_have_the_same_rows_with_sliced_inputs() {
    let (sliced, plain) = sessions();
    for query in [
        "SELECT length(string_agg(value::text, repeat('x', 10000))) FROM range(0, 300)",
        "SELECT value FROM range(0, 3000) WHERE value::text <> repeat('x', 10000) ORDER BY 1",
        "SELECT sum(length(repeat('x', 10000) || value)) FROM range(0, 300)",
    ] {
        let (plan, batches) = run(&sliced, query).await.unwrap();
        assert!(plan.contains("SlicedInputExec: sliced"), "{query}: {plan}");
        let (_, whole) = run(&plain, query).await.unwrap();
        assert_eq!(shown(&batches), shown(&whole), "{query}");
    }
    let narrow = "SELECT count(*) FROM range(0, 300) WHERE value::text <> 'x'";
    let (plan, _) = run(&sliced, narrow).await.unwrap();
    assert!(!plan.contains("SlicedInputExec"), "{plan}");
}

#[tokio::test]
async fn a_join_of_all_pairs_is_refused_if_its_results_may_be_too_large() {
    let (limited, plain) = sessions();
    let joined = |rows: usize, width: usize, on: &str| {
        format!(
            "SELECT a.value, b.n, length(b.w) FROM range(0, {rows}) a JOIN (SELECT value AS n, \
             repeat('x', {width} + value) AS w FROM range(0, 5)) b ON {on} ORDER BY 1, 2"
        )
    };
    for (rows, width) in [(3000, 10), (3, 10_000)] {
        let query = joined(rows, width, "a.value < b.n AND length(b.w) > 1");
        let (plan, batches) = run(&limited, &query).await.unwrap();
        assert!(plan.contains("NestedLoopJoinExec"), "{plan}");
        let (_, whole) = run(&plain, &query).await.unwrap();
        assert_eq!(shown(&batches), shown(&whole), "{query}");
    }
    for on in [
        "a.value < b.n AND length(b.w) > 1",
        "a.value > b.n AND b.w <> a.value::text",
    ] {
        let refused = run(&limited, &joined(300, 10_000, on)).await.unwrap_err();
        assert!(
            matches!(refused.find_root(), DataFusionError::ResourcesExhausted(_)),
            "{refused}"
        );
        assert!(
            refused.to_string().contains("more than 524288"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_cross_join_is_refused_if_its_results_may_be_too_large() {
    let (limited, plain) = sessions();
    let wide = "(SELECT repeat('x', 10000) AS b)";
    // Of a few rows, also wide ones are repeated.
    let few = format!("SELECT value, length(b) FROM range(0, 30), {wide} ORDER BY 1");
    let (plan, batches) = run(&limited, &few).await.unwrap();
    assert!(plan.contains("CrossJoinExec"), "{plan}");
    let (_, whole) = run(&plain, &few).await.unwrap();
    assert_eq!(shown(&batches), shown(&whole));
    for from in [
        format!("range(0, 300), {wide}"),
        format!("{wide}, range(0, 300)"),
    ] {
        let query = format!("SELECT sum(length(b)) FROM {from}");
        assert!(run(&plain, &query).await.is_ok());
        let refused = run(&limited, &query).await.unwrap_err();
        assert!(
            refused.to_string().contains("more than 524288"),
            "{refused}"
        );
    }
}

#[test]
fn slices_have_all_rows() {
    use arrow::array::{ArrayRef, Int64Array};
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let limits = Limits {
        copied_bytes: LIMIT,
        batch_rows: 8192,
    };
    for (bytes, parts) in [(0, 1), (LIMIT, 100), (2 * LIMIT, 100), (LIMIT / 7, 15)] {
        let slices = limits.slices(&batch, bytes);
        assert_eq!(slices.len(), parts);
        assert_eq!(concat_batches(&batch.schema(), &slices).unwrap(), batch);
    }
    assert_eq!(limits.slices(&batch.slice(0, 0), LIMIT).len(), 1);
}

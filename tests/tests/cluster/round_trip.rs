//! Every plan that would be sent is encoded, decoded as by the scheduler, encoded and decoded again
//! as by an executor, and run: its answer is the local one. What isn't sent is refused by name.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use gristmill_cluster::codec::LakeCodec;
use gristmill_cluster::portable::PlanCheck;
use gristmill_cluster::query::{Planner, cluster_state, encoded};
use gristmill_engine::lake::Lake;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_queries::packs::{NAMES, Scan, Since, shipped};
use gristmill_queries::sql::{
    DataFusionError, FileAccess, SessionContext, SqlOptions, lake_context,
};
use gristmill_schemas::message::price::PriceTable;
use gristmill_tests::fixture::Fixture;
use gristmill_tests::lake::patient_session;
use gristmill_tests::paths::workspace;
use gristmill_tests::sqllogic::LakeSession;

use super::questions::{Asked, STATEMENTS, rows};

type Result<T> = std::result::Result<T, DataFusionError>;

/// Plans as a client of a cluster, and runs what an executor would get.
struct RoundTrip {
    local: Planner,
    check: PlanCheck,
    seen: Arc<Seen>,
}

/// What has been planned.
#[derive(Default)]
struct Seen {
    sent: Mutex<usize>,
    refused: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for RoundTrip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RoundTrip")
    }
}

#[async_trait]
impl QueryPlanner for RoundTrip {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.local.create_physical_plan(logical, session).await?;
        match self.check.portable(logical, &plan) {
            Ok(None) => Ok(plan),
            Ok(Some(sent)) => {
                *self.seen.sent.lock().unwrap() += 1;
                executors_plan(&sent, &session.task_ctx())
            }
            Err(refused) => {
                let refused = refused.find_root().to_string();
                self.seen.refused.lock().unwrap().insert(refused);
                Ok(plan)
            }
        }
    }
}

/// Returns `plan` as an executor gets it.
fn executors_plan(
    plan: &Arc<dyn ExecutionPlan>,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let of_scheduler = SessionContext::new_with_state(
        gristmill_queries::sql::bare_context(&SqlOptions::default())?.state(),
    );
    let message = PhysicalPlanNode::try_decode(&encoded(plan)?)?;
    let codec = LakeCodec::of_scheduler();
    let scheduled = message.try_into_physical_plan(&of_scheduler.task_ctx(), &codec)?;
    let message = PhysicalPlanNode::try_decode(&encoded(&scheduled)?)?;
    message.try_into_physical_plan(context, &LakeCodec::of_executor())
}

/// Makes `context` plan for `partitions` tasks, and run what executors would get.
fn over_the_wire(context: &SessionContext, location: &str, partitions: usize) -> Arc<Seen> {
    let seen = Arc::new(Seen::default());
    let check = PlanCheck::new(location).unwrap();
    let state = context.state_ref();
    let mut state = state.write();
    let mut wired = cluster_state(&state, partitions, |local| {
        Arc::new(RoundTrip {
            local,
            check,
            seen: Arc::clone(&seen),
        })
    });
    // Small files are cut, too.
    let options = wired.config_mut().options_mut();
    options.optimizer.repartition_file_min_size = 0;
    *state = wired;
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_the_same_after_the_codec() {
    let asked = Asked::new().await;
    for partitions in [1, 4, 16] {
        let context = asked.session().await;
        let seen = over_the_wire(&context, &asked.location(), partitions);
        for (question, local) in &asked.answers {
            let sent = rows(&context, question).await;
            let sent = sent.unwrap_or_else(|error| panic!("{partitions}: {question}: {error}"));
            assert_eq!(&sent, local, "{partitions} partitions: {question}");
        }
        let refused = seen.refused.lock().unwrap().clone();
        let sent = *seen.sent.lock().unwrap();
        println!("{partitions} partitions: {sent} plans sent, refused: {refused:?}");
        assert!(refused.is_empty(), "{refused:?}");
        assert!(sent >= 40, "{sent} plans were sent");
    }
}

/// Returns the results of a statement of CAL, without what the run measured.
async fn results(context: &SessionContext, statement: &str) -> std::result::Result<String, String> {
    let executor = Executor::new(context.clone(), patient_session(1_800_000_000_000));
    let statement = statement.as_bytes();
    let bindings = Bindings::new();
    let response = executor.run_text(statement, &bindings, Options::default());
    let response = response.await.map_err(|error| error.to_string())?.to_json();
    let members = ["results", "total", "groups", "values", "batch"];
    let members = members.map(|name| response.get(name).map(ToString::to_string));
    Ok(format!("{members:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_cal_have_the_same_results_after_the_codec() {
    let asked = Asked::new().await;
    let local = asked.session().await;
    let context = asked.session().await;
    let seen = over_the_wire(&context, &asked.location(), 4);
    for statement in STATEMENTS {
        let sent = results(&context, statement).await.unwrap();
        assert_eq!(
            sent,
            results(&local, statement).await.unwrap(),
            "{statement}"
        );
        assert!(
            !sent.contains("[None, None, None, None, None]"),
            "{statement}"
        );
    }
    let sent = *seen.sent.lock().unwrap();
    let refused = seen.refused.lock().unwrap().clone();
    println!("{sent} plans sent, refused: {refused:?}");
    assert!(refused.is_empty(), "{refused:?}");
    assert!(sent > 12, "{sent} plans were sent");
}

/// Returns what all packs find in `context`, and on how many views policies ran.
async fn findings(context: SessionContext, asked: &Asked) -> (Vec<String>, u64) {
    let lake = Lake::open(&asked.location()).await.unwrap();
    let packs = NAMES.iter().map(|name| shipped(name).unwrap()).collect();
    let scan = Scan::prepare_in(context, &lake, packs, Since::Beginning).await;
    let scan = scan.unwrap();
    let mut found = Vec::new();
    let summary = scan.run(|rule, finding| {
        found.push(format!("{} {finding:?}", rule.id));
        Ok(())
    });
    let summary = summary.await.unwrap();
    assert_eq!(summary.findings, found.len() as u64);
    found.sort();
    (found, summary.views)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pack_finds_the_same_after_the_codec() {
    let asked = Asked::nothing();
    let local = findings(asked.session().await, &asked).await;
    assert!(local.0.len() > 1000 && local.1 > 1000, "{}", local.0.len());
    for partitions in [1, 4, 16] {
        let context = asked.session().await;
        let seen = over_the_wire(&context, &asked.location(), partitions);
        assert!(findings(context, &asked).await == local, "{partitions}");
        let refused = seen.refused.lock().unwrap().clone();
        let sent = *seen.sent.lock().unwrap();
        println!("{partitions} partitions: {sent} plans sent, refused: {refused:?}");
        assert!(refused.is_empty(), "{refused:?}");
        assert!(sent > 2, "{sent} plans were sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tasks_would_answer_otherwise_is_refused_by_name() {
    let asked = Asked::nothing();
    let options = SqlOptions {
        prices: vec![PriceTable::builtin()],
        ..SqlOptions::default()
    };
    let lake = Lake::open(&asked.location()).await.unwrap();
    let context = lake_context(&lake, &options).await.unwrap();
    let seen = over_the_wire(&context, &asked.location(), 4);
    let set = "SET datafusion.optimizer.enable_dynamic_filter_pushdown = true";
    for (question, name) in [
        (
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3)
             SELECT count(*) FROM n, grains",
            "RecursiveQueryExec",
        ),
        (
            "SELECT count(*) FROM (SELECT * FROM grains LIMIT 9) a LEFT JOIN grains b
             ON b.confidence < a.confidence AND a.type <> b.type",
            "NestedLoopJoinExec",
        ),
        ("SELECT sum(cost_usd) FROM usage", "cost_usd"),
        (
            "SELECT count(*) FILTER (WHERE type = 'event') OVER (PARTITION BY user_id) FROM grains",
            "FILTER",
        ),
        (
            "SELECT lag(confidence) IGNORE NULLS OVER (ORDER BY content_address) FROM grains",
            "IGNORE NULLS",
        ),
        (set, ""),
        (
            "SELECT type FROM grains ORDER BY created_at LIMIT 3",
            "fills its filter",
        ),
    ] {
        rows(&context, question).await.unwrap();
        let refused = std::mem::take(&mut *seen.refused.lock().unwrap());
        let is_named = refused.iter().any(|it| it.contains(name));
        assert!(is_named || name.is_empty(), "{question}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sqllogic_file_passes_after_the_codec() {
    let folder = workspace().join("tests/slt");
    let fixture = Fixture::load(&folder.join("people.json")).await;
    let location = fixture.folder().join("lake").display().to_string();
    let options = SqlOptions {
        files: FileAccess::Read,
        ..SqlOptions::default()
    };
    for name in [
        "tables",
        "lifecycle",
        "conversations",
        "functions",
        "search",
    ] {
        let context = lake_context(&fixture.lake, &options).await.unwrap();
        let seen = over_the_wire(&context, &location, 4);
        let mut runner = sqllogictest::Runner::new(|| {
            let session = context.clone();
            async move { Ok(LakeSession::new(session)) }
        });
        for (key, address) in &fixture.addresses {
            runner.set_var(key.clone(), address.to_string());
        }
        let file = fixture.folder().join("fixture.mg").display().to_string();
        runner.set_var("FILE".to_owned(), file);
        let file = folder.join(name).with_extension("slt");
        let outcome = runner.run_file_async(&file);
        outcome
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let sent = *seen.sent.lock().unwrap();
        println!(
            "{name}: {sent} sent, refused: {:?}",
            seen.refused.lock().unwrap()
        );
        assert!(sent > 0, "{name}: nothing was sent");
    }
}

//! Plans the RECALL of a compliance rule: all matches, without the limits of a response.

use datafusion::prelude::{DataFrame, SessionContext, col};
use gristmill_schemas::columns::SystemColumn;

use super::error::{ExecutionError, Result};
use super::executor::parse_query;
use super::grain_reader::GrainReader;
use super::lifecycle::lifecycle_cache_of;
use super::pipeline::stage_keys;
use super::recall::{LetScope, RecallPlanner, reads_lifecycle};
use super::session::Session;
use crate::cal::ast::{Query, Recall, Statement};
use crate::cal::{Bindings, CalError, Code, Options, bind};

/// Names of the tables that have the grains in the scope of a scan.
#[derive(Debug, Clone, Copy)]
pub struct RuleTables {
    /// The grains in scope.
    pub grains: &'static str,
    /// These, and the grains with lifecycle events in scope.
    pub changed: &'static str,
    /// What `lifecycle` has about the latter.
    pub lifecycle: &'static str,
}

impl RuleTables {
    /// Returns the table of the grains that `recall` is about: an event can make an old grain match
    /// a condition on the lifecycle, and no other.
    pub(super) fn grains_for(self, recall: &Recall) -> &'static str {
        match reads_lifecycle(recall, &stage_keys(&recall.stages)) {
            true => self.changed,
            false => self.grains,
        }
    }
}

/// The grains that a RECALL matches.
pub struct RuleMatches {
    /// The table that has them.
    pub grains: &'static str,
    /// A plan with the column `content_address`, with each grain once.
    pub matched: DataFrame,
}

/// Returns all grains of `tables` that the RECALL `text` matches at `now_ms`.
///
/// The RECALL may have subqueries, and LETs with an extractor, which become parts of the plan. It
/// can't have parameters or a pipeline, because findings have no order and no limit.
///
/// # Errors
/// Those of CAL, with line and column; E021 for any other statement.
pub async fn plan_rule(
    context: &SessionContext,
    tables: RuleTables,
    text: &str,
    now_ms: i64,
) -> Result<RuleMatches> {
    let planned = async {
        let parsed = parse_query(text.as_bytes(), Options::default())?;
        let query = bind(&parsed.query, &Bindings::default(), Options::default())?;
        plan_query(context, tables, &query, now_ms).await
    };
    planned
        .await
        .map_err(|error: ExecutionError| error.located(text.as_bytes()))
}

async fn plan_query(
    context: &SessionContext,
    tables: RuleTables,
    query: &Query,
    now_ms: i64,
) -> Result<RuleMatches> {
    let recall = rule_recall(query)?;
    let session = Session::at(now_ms);
    let lifecycle = lifecycle_cache_of(context);
    let reader = GrainReader::new(context, &session, &lifecycle);
    // The plan doesn't depend on stored data, so it stays valid while the tables exist.
    let planner = RecallPlanner {
        reader: &reader,
        explain_only: true,
        scope: Some(tables),
    };
    let scope = plan_lets(&planner, query).await?;
    let planned = planner.plan(recall, &scope).await?;
    // Shortcuts such as RECENT are stages too, but only after planning.
    if !planned.stages.is_empty() {
        return Err(not_a_rule(
            "A rule has no pipeline: all grains that match are findings.",
        ));
    }
    let address = col(SystemColumn::ContentAddress.name());
    Ok(RuleMatches {
        grains: tables.grains_for(&planned.desugared),
        matched: planned.matched.select(vec![address])?.distinct()?,
    })
}

async fn plan_lets(planner: &RecallPlanner<'_, '_>, query: &Query) -> Result<LetScope> {
    let mut scope = LetScope::default();
    for binding in &query.lets {
        let extract = binding
            .extract
            .ok_or_else(|| not_a_rule("A LET of a rule needs an extractor."))?;
        let values = planner.values(&binding.query, extract, &scope).await?;
        scope.values.insert(binding.name.clone(), values);
    }
    Ok(scope)
}

fn rule_recall(query: &Query) -> Result<&Recall> {
    match &query.statement {
        Statement::Recall(recall) => Ok(recall),
        _ => Err(not_a_rule("A rule is a RECALL.")),
    }
}

fn not_a_rule(message: &str) -> ExecutionError {
    CalError::new(Code::E021, message.to_owned()).into()
}

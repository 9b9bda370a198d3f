//! Plans the RECALL of a compliance rule: all matches, without the limits of a response.

use datafusion::prelude::{DataFrame, SessionContext, col};
use gristmill_schemas::columns::SystemColumn;

use super::error::{ExecutionError, Result};
use super::executor::parse_query;
use super::grain_reader::GrainReader;
use super::lifecycle::lifecycle_cache_of;
use super::recall::{LetScope, RecallPlanner};
use super::session::Session;
use crate::cal::ast::{Query, Recall, Statement};
use crate::cal::{Bindings, CalError, Code, Options, bind};

/// Returns a plan with the column `content_address` of all grains that the RECALL `text` matches at
/// `now_ms`, each once.
///
/// The RECALL may have subqueries, and LETs with an extractor, which become parts of the plan. It
/// can't have parameters or a pipeline, because findings have no order and no limit.
///
/// # Errors
/// Those of CAL, with line and column; E021 for any other statement.
pub async fn plan_rule(context: &SessionContext, text: &str, now_ms: i64) -> Result<DataFrame> {
    let planned = async {
        let parsed = parse_query(text.as_bytes(), Options::default())?;
        let query = bind(&parsed.query, &Bindings::default(), Options::default())?;
        plan_query(context, &query, now_ms).await
    };
    planned
        .await
        .map_err(|error: ExecutionError| error.located(text.as_bytes()))
}

async fn plan_query(context: &SessionContext, query: &Query, now_ms: i64) -> Result<DataFrame> {
    let recall = rule_recall(query)?;
    let session = Session::at(now_ms);
    let lifecycle = lifecycle_cache_of(context);
    let reader = GrainReader::new(context, &session, &lifecycle);
    // The plan doesn't depend on stored data, so it stays valid while the tables exist.
    let planner = RecallPlanner {
        reader: &reader,
        explain_only: true,
    };
    let scope = plan_lets(&planner, query).await?;
    let planned = planner.plan(recall, &scope).await?;
    // Shortcuts such as RECENT are stages too, but only after planning.
    if !planned.stages.is_empty() {
        return Err(not_a_rule(
            "A rule has no pipeline: all grains that match are findings.",
        ));
    }
    Ok(planned
        .matched
        .select(vec![col(SystemColumn::ContentAddress.name())])?
        .distinct()?)
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

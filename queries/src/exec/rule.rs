//! A RECALL as a plan: every grain that it matches, without the bounds of a response. Compliance
//! packs have such rules.

use datafusion::prelude::{DataFrame, SessionContext, col};
use gristmill_schemas::columns::IdentityColumn;

use super::error::{ExecutionError, Result};
use super::grain_reader::GrainReader;
use super::read;
use super::recall::{RecallPlanner, Scope};
use super::session::Session;
use crate::cal::ast::{Query, Statement};
use crate::cal::{Bindings, CalError, Code, Options, bind};

/// The plan of the one-column table `content_address` of all grains that the RECALL `text` matches
/// at `now_ms`, each once.
///
/// It may have subqueries and LETs with an extractor, which are parts of the plan; no parameters,
/// and no pipeline: order and number of what is found don't matter.
///
/// # Errors
/// Those of CAL, with line and column; E021 for anything but such a RECALL.
pub async fn plan_rule(context: &SessionContext, text: &str, now_ms: i64) -> Result<DataFrame> {
    let planned = async {
        let parsed = read(text.as_bytes(), Options::default())?;
        plan(
            context,
            &bind(&parsed.query, &Bindings::default(), Options::default())?,
            now_ms,
        )
        .await
    };
    planned
        .await
        .map_err(|error: ExecutionError| error.located(text.as_bytes()))
}

async fn plan(context: &SessionContext, query: &Query, now_ms: i64) -> Result<DataFrame> {
    let refused =
        |message: &str| ExecutionError::from(CalError::new(Code::E021, message.to_owned()));
    let Statement::Recall(recall) = &query.statement else {
        return Err(refused("A rule is a RECALL."));
    };
    let session = Session::at(now_ms);
    let lifecycle = super::lifecycle_cache_of(context);
    let reader = GrainReader::new(context, &session, &lifecycle);
    // What is stored isn't asked while planning: the plan serves as long as the tables are there.
    let planner = RecallPlanner {
        reader: &reader,
        explain_only: true,
    };
    let mut scope = Scope::default();
    for binding in &query.lets {
        let extract = binding
            .extract
            .ok_or_else(|| refused("A LET of a rule needs an extractor."))?;
        let values = planner.values(&binding.query, extract, &scope).await?;
        scope.values.insert(binding.name.clone(), values);
    }
    let planned = planner.plan(recall, &scope).await?;
    if !planned.stages.is_empty() {
        return Err(refused(
            "A rule has no pipeline: all grains that match are findings.",
        ));
    }
    Ok(planned
        .matched
        .select(vec![col(IdentityColumn::ContentAddress.name())])?
        .distinct()?)
}

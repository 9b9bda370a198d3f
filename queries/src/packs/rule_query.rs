//! Rules that are queries, in SQL or CAL.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{DataFrame, JoinType, SessionContext, col};
use gristmill_schemas::columns::SystemColumn;

use super::changes::{CHANGED_GRAINS, CHANGED_LIFECYCLE};
use super::error::{PackError, Result};
use super::finding::Finding;
use super::pack::{Check, Rule};
use super::row_rules::evidence;
use super::scan::SCANNED;
use crate::exec::{RuleMatches, RuleTables, plan_rule};
use crate::sql::{DataFusionError, plan_query, read_consents_once, user_message};

/// A planned query of a rule.
pub(super) struct RuleQuery {
    /// Index of the rule in the scan.
    rule: usize,
    /// The session at the time when the query was planned.
    state: SessionState,
    /// The optimized plan.
    plan: LogicalPlan,
}

impl RuleQuery {
    /// Plans the query of the rule at index `place`; `None` if it isn't a query.
    ///
    /// # Errors
    /// [`PackError::Rule`] with the planner's message.
    pub(super) async fn plan(
        context: &SessionContext,
        place: usize,
        rule: &Rule,
    ) -> Result<Option<RuleQuery>> {
        let frame = match &rule.check {
            Check::Sql(text) => plan_sql(context, rule, text).await?,
            Check::Cal(text) => plan_recall(context, rule, text).await?,
            Check::Where { .. } | Check::Rego { .. } => return Ok(None),
        };
        let (state, plan) = frame.into_parts();
        let plan = state.optimize(&plan);
        let plan = plan.map_err(|error| PackError::rule(&rule.id, user_message(&error)))?;
        Ok(Some(RuleQuery {
            rule: place,
            state,
            plan,
        }))
    }

    /// Lets `queries`, which are planned in `context`, read the consents of the lake once.
    ///
    /// # Errors
    /// If a plan can't be rewritten.
    pub(super) fn share_rows(context: &SessionContext, queries: &mut [RuleQuery]) -> Result<()> {
        let mut plans: Vec<&mut LogicalPlan> =
            queries.iter_mut().map(|query| &mut query.plan).collect();
        Ok(read_consents_once(&context.state(), &mut plans)?)
    }

    /// Returns the index of the rule in the scan.
    pub(super) fn rule(&self) -> usize {
        self.rule
    }

    /// Runs the query.
    pub(super) async fn execute(&self) -> Result<SendableRecordBatchStream> {
        let planner = self.state.query_planner();
        let plan = planner.create_physical_plan(&self.plan, &self.state);
        Ok(execute_stream(plan.await?, self.state.task_ctx())?)
    }

    /// Converts rows to findings: the first column is the address, the others are evidence.
    pub(super) fn findings(&self, batch: &RecordBatch) -> Result<Vec<Finding>> {
        let schema = batch.schema();
        let names = schema.fields().iter().skip(1);
        let names: Vec<&str> = names.map(|field| field.name().as_str()).collect();
        let columns: &[ArrayRef] = batch.columns().get(1..).unwrap_or_default();
        let Some(first) = batch.columns().first() else {
            return Ok(Vec::new());
        };
        let addresses = cast(first, &DataType::Utf8).map_err(DataFusionError::from)?;
        let addresses = addresses.as_string::<i32>();
        let finding = |row| {
            let address = addresses
                .is_valid(row)
                .then(|| addresses.value(row).to_owned());
            Ok(Finding {
                rule: self.rule,
                address,
                evidence: evidence(&names, columns, row)?,
            })
        };
        (0..batch.num_rows()).map(finding).collect()
    }
}

/// Plans a rule's query, which must be read-only and return the grain's address first.
async fn plan_sql(context: &SessionContext, rule: &Rule, text: &str) -> Result<DataFrame> {
    let frame = plan_query(context, text)
        .await
        .map_err(|error| PackError::rule(&rule.id, user_message(&error)))?;
    let names: Vec<&str> = frame
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    check_columns(rule, &names)?;
    Ok(frame)
}

/// Checks that `columns`, those of the rule's query, start with the address and contain the names
/// in `message`.
fn check_columns(rule: &Rule, columns: &[&str]) -> Result<()> {
    let fault = |problem: String| Err(PackError::rule(&rule.id, problem));
    let address = SystemColumn::ContentAddress.name();
    if columns.first() != Some(&address) {
        return fault(format!(
            "the first column of the query must be `{address}`, not `{}`",
            columns.first().unwrap_or(&"")
        ));
    }
    match rule.message.names().find(|name| !columns.contains(name)) {
        Some(name) => fault(format!(
            "`message` refers to {{{name}}}, which isn't a column of the query"
        )),
        None => Ok(()),
    }
}

/// The tables that a rule in CAL is about.
const TABLES: RuleTables = RuleTables {
    grains: SCANNED,
    changed: CHANGED_GRAINS,
    lifecycle: CHANGED_LIFECYCLE,
};

/// Plans a rule in CAL: the grains in scope that it matches, and if it reads the lifecycle those
/// with events in scope, with the columns that the message names.
async fn plan_recall(context: &SessionContext, rule: &Rule, text: &str) -> Result<DataFrame> {
    let fault = |problem: String| PackError::rule(&rule.id, problem);
    let now = chrono::Utc::now().timestamp_millis();
    let RuleMatches { grains, matched } = plan_rule(context, TABLES, text, now)
        .await
        .map_err(|error| fault(error.to_string()))?;
    let address = SystemColumn::ContentAddress.name();
    let grains = context.table(grains).await?;
    let mut columns = vec![col(address)];
    for name in rule.message.names() {
        if grains
            .schema()
            .fields()
            .iter()
            .all(|field| field.name() != name)
        {
            return Err(fault(format!(
                "`message` refers to {{{name}}}, which isn't a column of `grains`"
            )));
        }
        columns.extend((name != address).then(|| col(name)));
    }
    let matched = matched.select(vec![col(address).alias("__matched")])?;
    let found = grains.select(columns)?.join(
        matched,
        JoinType::LeftSemi,
        &[address],
        &["__matched"],
        None,
    );
    Ok(found?)
}

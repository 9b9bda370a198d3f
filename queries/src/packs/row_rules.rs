//! Rules with a condition on single grains, all evaluated in one pass over the lake.
//!
//! ```text
//! columns that rules name ─▶ batch ─▶ (personal_data, if a rule names it)
//!                         ─▶ each condition ─▶ violating rows ─▶ evidence
//! ```
//!
//! The pass reads each page once, independent of the number of rules, and holds one batch per core.
//! Evidence is evaluated for findings only. `personal_data` and `personal_data_in` are computed if
//! a rule names one of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::{DateTime, Utc};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::{DataFrame, SessionContext};
use gristmill_schemas::columns::{SystemColumn, grains_schema};
use gristmill_schemas::grain::Field;

use super::error::PackError;
use super::finding::Finding;
use super::pack::{Check, Rule};
use super::personal_data::{
    PERSONAL_DATA, PERSONAL_DATA_IN, computed_fields, personal_data, searched_columns,
};
use super::rule_checks::{PlacedCheck, RuleChecks};
use super::scan::SCANNED;
use crate::sql::user_message;

/// Evidence of every finding.
const ALWAYS: [&str; 5] = [
    SystemColumn::Type.name(),
    Field::Namespace.name(),
    Field::UserId.name(),
    Field::SessionId.name(),
    Field::CreatedAt.name(),
];

/// Compiled conditions of a scan.
pub(super) struct RowRules {
    columns: Vec<String>,
    /// Input schema of the conditions: the columns, and the computed ones if any rule names them.
    schema: SchemaRef,
    computed: bool,
    rules: Vec<RowRule>,
}

struct RowRule {
    /// Index of the rule in the scan.
    rule: usize,
    condition: Arc<dyn PhysicalExpr>,
    evidence: Vec<(String, Arc<dyn PhysicalExpr>)>,
}

/// Parsed expressions of a rule, before the columns of the pass are determined.
struct ParsedRule {
    rule: usize,
    id: String,
    condition: Expr,
    evidence: Vec<Expr>,
}

impl RowRules {
    /// Compiles `checks`, which are conditions.
    ///
    /// # Errors
    /// [`PackError::Rule`] with the planner's message, such as an unknown column.
    pub(super) fn compile(
        context: &SessionContext,
        checks: &RuleChecks,
    ) -> Result<RowRules, PackError> {
        let parsed = parse_all(context, &checks.checks)?;
        let now = DateTime::from_timestamp_millis(checks.now);
        let named = columns_of(&parsed);
        let computed = named.contains(PERSONAL_DATA) || named.contains(PERSONAL_DATA_IN);
        let columns = columns_to_read(&named, computed);
        let schema = schema_of(Some(&columns), computed);
        let input = DFSchema::try_from(Arc::clone(&schema))?;
        let compile = |parsed: ParsedRule| {
            let id = parsed.id.clone();
            RowRule::compile(context, &input, now, parsed)
                .map_err(|error| PackError::rule(&id, user_message(&error)))
        };
        Ok(RowRules {
            columns,
            schema,
            computed,
            rules: parsed
                .into_iter()
                .map(compile)
                .collect::<Result<_, PackError>>()?,
        })
    }

    /// Checks that the messages of `rules`, all of the scan, refer only to evidence.
    ///
    /// # Errors
    /// [`PackError::Rule`] for the first that doesn't.
    pub(super) fn check_messages(&self, rules: &[Rule]) -> Result<(), PackError> {
        let compiled = self.rules.iter();
        compiled
            .filter_map(|compiled| Some((rules.get(compiled.rule)?, compiled)))
            .try_for_each(|(rule, compiled)| check_names(rule, compiled))
    }

    /// Returns the conditions and the expressions of evidence.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let rules = self.rules.iter();
        rules.flat_map(|rule| {
            let evidence = rule.evidence.iter().map(|(_, expression)| expression);
            std::iter::once(&rule.condition).chain(evidence)
        })
    }

    /// Returns the scan of the columns that the conditions read.
    pub(super) async fn source(&self, context: &SessionContext) -> Result<DataFrame> {
        let names: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        context.table(SCANNED).await?.select_columns(&names)
    }

    /// Evaluates all conditions on one batch of the source and passes findings to `found`.
    pub(super) fn evaluate(
        &self,
        batch: RecordBatch,
        mut found: impl FnMut(Finding),
    ) -> Result<()> {
        let batch = self.with_computed(batch)?;
        for rule in &self.rules {
            let verdict = rule
                .condition
                .evaluate(&batch)?
                .into_array(batch.num_rows())?;
            let broken = verdict.as_boolean();
            // A NULL condition is no violation: the grain lacks the value.
            if broken.true_count() == 0 {
                continue;
            }
            rule.emit_findings(&filter_record_batch(&batch, broken)?, &mut found)?;
        }
        Ok(())
    }

    fn with_computed(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        if self.computed {
            columns.extend(personal_data(&batch));
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl RowRule {
    fn compile(
        context: &SessionContext,
        schema: &DFSchema,
        now: Option<DateTime<Utc>>,
        parsed: ParsedRule,
    ) -> Result<RowRule> {
        let evidence = parsed.evidence.into_iter().map(|expression| {
            let name = expression.schema_name().to_string();
            Ok((name, physical(context, schema, now, expression.unalias())?))
        });
        let condition = physical(context, schema, now, parsed.condition)?;
        let answer = condition.data_type(schema.as_arrow())?;
        if answer != DataType::Boolean {
            return plan_err!(
                "`where` must be true or false for a grain; this is a value of type {answer}, \
                 which a comparison makes a condition"
            );
        }
        Ok(RowRule {
            rule: parsed.rule,
            condition,
            evidence: evidence.collect::<Result<_>>()?,
        })
    }

    fn emit_findings(&self, batch: &RecordBatch, found: &mut impl FnMut(Finding)) -> Result<()> {
        let addresses = batch.column_by_name(SystemColumn::ContentAddress.name());
        let addresses = addresses.and_then(|column| column.as_string_opt::<i32>());
        let columns = self
            .evidence
            .iter()
            .map(|(_, expression)| expression.evaluate(batch)?.into_array(batch.num_rows()));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let names: Vec<&str> = self
            .evidence
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        for row in 0..batch.num_rows() {
            let address = addresses.map(|addresses| addresses.value(row).to_owned());
            found(Finding {
                rule: self.rule,
                address,
                evidence: evidence(&names, &columns, row)?,
            });
        }
        Ok(())
    }
}

/// Returns the non-NULL values of one row as text.
pub(super) fn evidence(
    names: &[&str],
    columns: &[ArrayRef],
    row: usize,
) -> Result<Vec<(String, String)>> {
    let options = FormatOptions::default();
    let mut values = Vec::with_capacity(names.len());
    for (name, column) in names
        .iter()
        .zip(columns)
        .filter(|(_, column)| column.is_valid(row))
    {
        values.push((
            (*name).to_owned(),
            ArrayFormatter::try_new(column, &options)?
                .value(row)
                .to_string(),
        ));
    }
    Ok(values)
}

/// Parses the expressions of all conditions among `checks`.
fn parse_all(
    context: &SessionContext,
    checks: &[PlacedCheck],
) -> Result<Vec<ParsedRule>, PackError> {
    let visible = DFSchema::try_from(schema_of(None, true))?;
    let mut parsed = Vec::new();
    for placed in checks {
        if let Check::Where {
            condition,
            evidence,
        } = &placed.check
        {
            let one = parse(context, &visible, placed, condition, evidence);
            parsed.push(one.map_err(|error| PackError::rule(&placed.id, user_message(&error)))?);
        }
    }
    Ok(parsed)
}

/// Returns the columns of `grains` that the pass reads: those that rules name, those of every
/// finding, and all that are searched if personal data is `computed`.
fn columns_to_read(named: &BTreeSet<String>, computed: bool) -> Vec<String> {
    let texts: BTreeSet<&str> = searched_columns().collect();
    let is_read = |name: &str| {
        name == SystemColumn::ContentAddress.name()
            || ALWAYS.contains(&name)
            || named.contains(name)
            || computed && texts.contains(name)
    };
    grains_schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .filter(|name| is_read(name))
        .collect()
}

fn parse(
    context: &SessionContext,
    schema: &DFSchema,
    placed: &PlacedCheck,
    condition: &str,
    evidence: &[String],
) -> Result<ParsedRule> {
    let named: BTreeSet<&str> = evidence.iter().map(String::as_str).collect();
    let always = ALWAYS.iter().copied().filter(|name| !named.contains(name));
    let evidence = always.chain(evidence.iter().map(String::as_str));
    Ok(ParsedRule {
        rule: placed.rule,
        id: placed.id.clone(),
        condition: context.parse_sql_expr(condition, schema)?,
        evidence: evidence
            .map(|text| context.parse_sql_expr(text, schema))
            .collect::<Result<_>>()?,
    })
}

fn columns_of(parsed: &[ParsedRule]) -> BTreeSet<String> {
    let expressions = parsed
        .iter()
        .flat_map(|one| std::iter::once(&one.condition).chain(&one.evidence));
    expressions
        .flat_map(|expression| expression.column_refs())
        .map(|column| column.name.clone())
        .collect()
}

/// Creates the physical expression: coerces types and evaluates what doesn't depend on the row,
/// such as `now()`, which is `now`.
fn physical(
    context: &SessionContext,
    schema: &DFSchema,
    now: Option<DateTime<Utc>>,
    expression: Expr,
) -> Result<Arc<dyn PhysicalExpr>> {
    let state = context.state();
    let simplify = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(now)
        .build();
    let simplifier = ExprSimplifier::new(simplify);
    let expression = simplifier.simplify(simplifier.coerce(expression, schema)?)?;
    context.create_physical_expr(expression, schema)
}

/// Checks that a message refers only to evidence.
fn check_names(rule: &Rule, compiled: &RowRule) -> Result<(), PackError> {
    let unknown = rule
        .message
        .names()
        .find(|name| !compiled.evidence.iter().any(|(known, _)| known == name));
    match unknown {
        Some(name) => Err(PackError::rule(
            &rule.id,
            format!("`message` refers to {{{name}}}, which isn't in `evidence`"),
        )),
        None => Ok(()),
    }
}

/// Returns the schema of `grains`, restricted to `columns` if given, with the computed columns if
/// requested.
fn schema_of(columns: Option<&[String]>, computed: bool) -> SchemaRef {
    let all = grains_schema();
    let fields = all
        .fields()
        .iter()
        .filter(|field| columns.is_none_or(|columns| columns.contains(field.name())));
    let mut fields: Vec<ArrowField> = fields.map(|field| field.as_ref().clone()).collect();
    if computed {
        fields.extend(computed_fields());
    }
    Arc::new(Schema::new(fields))
}

//! Does every reference to a LET lead somewhere? (digest of CAL 1.0, section 7, "LET")

use std::collections::BTreeMap;

use super::pipeline::shape;
use crate::cal::ast::*;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::limits;
use crate::cal::span::Span;

/// How a query uses a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// In an IN list: needs a list of values.
    Member,
    /// As a source of ASSEMBLE: needs grains.
    Source,
    /// As one value.
    Value,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Yields {
    /// A list of values: it has an extractor.
    Values,
    /// Grains.
    Grains,
    /// A count, groups, or one value.
    Neither,
}

impl Yields {
    fn of(binding: &Let) -> Yields {
        match binding.extract {
            Some(_) => Yields::Values,
            None if shape(&binding.query.stages).is_of_grains() => Yields::Grains,
            None => Yields::Neither,
        }
    }
}

/// What a name is bound to.
#[derive(Debug, Clone, Copy)]
struct Bound {
    /// Position in its block.
    at: usize,
    yields: Yields,
    /// How many bindings stand on one another, this one included.
    chain: usize,
}

type Scope = BTreeMap<String, Bound>;

/// Checks all references of a query.
///
/// # Errors
/// E008 for a source that is bound nowhere and for references that lead forward or out of a LET
/// where that isn't allowed, E009 for a name bound twice, E020 for a list of values used as grains
/// or the other way round, E036 and E038 for too many and too deep bindings.
pub(crate) fn whole(query: &Query) -> Result<()> {
    count(query)?;
    let assembles = matches!(
        query.statement,
        Statement::Assemble(_) | Statement::Explain(Explainable::Assemble(_))
    );
    let scope = block(&query.lets, &Scope::new(), assembles)?;
    statement(&query.statement, &scope)
}

/// Checks that one more LET is allowed.
///
/// # Errors
/// E036.
pub(crate) fn one_more(before: usize, span: Span) -> Result<()> {
    if before < limits::MAX_LET_BINDINGS {
        Ok(())
    } else {
        Err(too_many(span))
    }
}

fn too_many(span: Span) -> CalError {
    CalError::new(
        Code::E036,
        format!("There are more than {} LETs.", limits::MAX_LET_BINDINGS),
    )
    .at(span)
}

/// The error for a name that is bound twice.
pub(crate) fn twice(name: &str, span: Span) -> CalError {
    CalError::new(Code::E009, format!("\"${name}\" is bound twice.")).at(span)
}

fn count(query: &Query) -> Result<()> {
    fn of_operation(operation: &SetOperation) -> usize {
        [&operation.left, &operation.right]
            .into_iter()
            .map(of_operand)
            .sum()
    }
    fn of_operand(operand: &SetOperand) -> usize {
        let inner = match &operand.body {
            SetBody::Recall(_) => 0,
            SetBody::SetOperation(operation) => of_operation(operation),
        };
        operand.lets.len() + inner
    }
    let inner = match &query.statement {
        Statement::SetOperation(operation)
        | Statement::Explain(Explainable::SetOperation(operation)) => of_operation(operation),
        _ => 0,
    };
    let total = query.lets.len() + inner;
    let span = query
        .lets
        .last()
        .map_or(Span::default(), |binding| binding.span);
    if total > limits::MAX_LET_BINDINGS {
        Err(too_many(span))
    } else {
        Ok(())
    }
}

/// The names that a block of LETs binds, on top of those `outside`. LETs may use one another only
/// if they feed an ASSEMBLE (`chained`).
fn block(lets: &[Let], outside: &Scope, chained: bool) -> Result<Scope> {
    let mut scope = outside.clone();
    for (at, binding) in lets.iter().enumerate() {
        let bound = Bound {
            at,
            yields: Yields::of(binding),
            chain: 1,
        };
        if scope.insert(binding.name.clone(), bound).is_some() {
            return Err(twice(&binding.name, binding.span));
        }
    }
    for (at, binding) in lets.iter().enumerate() {
        let mut deepest = 0;
        visit_recall(&binding.query, &mut |parameter, used| {
            let Some(bound) = scope.get(&parameter.name) else {
                return Ok(());
            };
            if !chained || bound.at >= at {
                return Err(unreachable(parameter, chained));
            }
            deepest = deepest.max(bound.chain);
            fits(parameter, used, bound)
        })?;
        if deepest >= limits::MAX_LET_CHAIN {
            let message = format!("\"${}\" stands on {deepest} other LETs.", binding.name);
            return Err(CalError::new(Code::E038, message).at(binding.span));
        }
        if let Some(bound) = scope.get_mut(&binding.name) {
            bound.chain = deepest + 1;
        }
    }
    Ok(scope)
}

fn unreachable(parameter: &Parameter, chained: bool) -> CalError {
    let advice = match chained {
        true => "Bind the name before the LET that uses it.",
        false => {
            "Only the LETs of an ASSEMBLE can use one another; write the inner query as a subquery."
        }
    };
    CalError::new(
        Code::E008,
        format!("\"${}\" can't be used here.", parameter.name),
    )
    .at(parameter.span)
    .suggest(advice)
}

fn fits(parameter: &Parameter, used: Use, bound: &Bound) -> Result<()> {
    let (is, advice) = match (used, bound.yields) {
        (Use::Member, Yields::Values) | (Use::Source, Yields::Grains) => return Ok(()),
        (Use::Source, Yields::Values) => (
            "a list of values, not grains",
            "Leave SUBJECTS, OBJECTS or HASHES out of the LET.",
        ),
        (Use::Source, Yields::Neither) => (
            "a count, groups or a value, not grains",
            "Leave the stages that don't yield grains out of the LET.",
        ),
        (Use::Member, Yields::Grains) => (
            "grains, not a list of values",
            "End the LET with SUBJECTS, OBJECTS or HASHES.",
        ),
        (Use::Member, Yields::Neither) => (
            "no list of values",
            "End the LET with SUBJECTS, OBJECTS or HASHES.",
        ),
        (Use::Value, Yields::Values) => ("a list of values, not one", "Write IN ($name)."),
        (Use::Value, Yields::Grains) => ("grains, not a value", "Use it as a source of ASSEMBLE."),
        (Use::Value, Yields::Neither) => (
            "no value of a condition",
            "Write the value itself or a parameter.",
        ),
    };
    Err(
        CalError::new(Code::E020, format!("\"${}\" is {is}.", parameter.name))
            .at(parameter.span)
            .suggest(advice),
    )
}

fn check_use(scope: &Scope, parameter: &Parameter, used: Use) -> Result<()> {
    match scope.get(&parameter.name) {
        Some(bound) => fits(parameter, used, bound),
        None if used == Use::Source => {
            let message = format!("No LET binds \"${}\".", parameter.name);
            Err(CalError::new(Code::E008, message).at(parameter.span))
        }
        None => Ok(()),
    }
}

fn statement(statement: &Statement, scope: &Scope) -> Result<()> {
    let mut check = |parameter: &Parameter, used| check_use(scope, parameter, used);
    match statement {
        Statement::Recall(recall) | Statement::Explain(Explainable::Recall(recall)) => {
            visit_recall(recall, &mut check)
        }
        Statement::Assemble(assemble) | Statement::Explain(Explainable::Assemble(assemble)) => {
            assemble
                .sources
                .iter()
                .try_for_each(|source| match &source.body {
                    SourceBody::Recall(recall) => visit_recall(recall, &mut check),
                    SourceBody::Binding(parameter) => check(parameter, Use::Source),
                })
        }
        Statement::SetOperation(operation)
        | Statement::Explain(Explainable::SetOperation(operation)) => {
            set_operation(operation, scope)
        }
        Statement::Batch(batch) | Statement::Explain(Explainable::Batch(batch)) => batch
            .entries
            .iter()
            .try_for_each(|entry| visit_batch_query(&entry.query, &mut check)),
        Statement::Coalesce(coalesce) | Statement::Explain(Explainable::Coalesce(coalesce)) => {
            coalesce
                .branches
                .iter()
                .try_for_each(|branch| visit_recall(branch, &mut check))
        }
        Statement::Exists(exists) => visit_target(&exists.target, &mut check),
        Statement::History(history) => visit_history(history, &mut check),
        Statement::Add(add) | Statement::Explain(Explainable::Add(add)) => {
            visit_set(&add.set, &mut check)
        }
        Statement::Supersede(supersede) | Statement::Explain(Explainable::Supersede(supersede)) => {
            visit_target(&supersede.target, &mut check)?;
            visit_set(&supersede.set, &mut check)
        }
        Statement::Revert(revert) | Statement::Explain(Explainable::Revert(revert)) => {
            visit_target(&revert.target, &mut check)
        }
        Statement::Describe(_) | Statement::DefineTemplate(_) => Ok(()),
    }
}

fn set_operation(operation: &SetOperation, scope: &Scope) -> Result<()> {
    [&operation.left, &operation.right]
        .into_iter()
        .try_for_each(|operand| {
            let scope = block(&operand.lets, scope, false)?;
            match &operand.body {
                SetBody::Recall(recall) => visit_recall(recall, &mut |parameter, used| {
                    check_use(&scope, parameter, used)
                }),
                SetBody::SetOperation(inner) => set_operation(inner, &scope),
            }
        })
}

type Visitor<'v> = dyn FnMut(&Parameter, Use) -> Result<()> + 'v;

fn visit_batch_query(query: &BatchQuery, visitor: &mut Visitor) -> Result<()> {
    match query {
        BatchQuery::Recall(recall) => visit_recall(recall, visitor),
        BatchQuery::Exists(exists) => visit_target(&exists.target, visitor),
        BatchQuery::History(history) => visit_history(history, visitor),
        BatchQuery::Describe(_) => Ok(()),
        BatchQuery::Coalesce(coalesce) => coalesce
            .branches
            .iter()
            .try_for_each(|branch| visit_recall(branch, visitor)),
    }
}

fn visit_history(history: &History, visitor: &mut Visitor) -> Result<()> {
    match history {
        History::Versions { target, diff } => {
            visit_target(target, visitor)?;
            diff.iter()
                .try_for_each(|target| visit_target(target, visitor))
        }
        History::Triple {
            subject, relation, ..
        } => [subject, relation]
            .into_iter()
            .try_for_each(|value| visit_value(value, Use::Value, visitor)),
    }
}

fn visit_target(target: &Target, visitor: &mut Visitor) -> Result<()> {
    match target {
        Target::Parameter(parameter) => visitor(parameter, Use::Value),
        Target::Address(_) => Ok(()),
    }
}

fn visit_set(set: &[SetClause], visitor: &mut Visitor) -> Result<()> {
    set.iter()
        .try_for_each(|clause| visit_value(&clause.value, Use::Value, visitor))
}

fn visit_recall(recall: &Recall, visitor: &mut Visitor) -> Result<()> {
    for value in recall.between.iter().flat_map(|(low, high)| [low, high]) {
        visit_value(value, Use::Value, visitor)?;
    }
    for condition in &recall.conditions {
        visit_test(&condition.test, visitor)?;
    }
    for stage in &recall.stages {
        if let StageKind::Offset(Offset::Parameter(parameter)) = &stage.kind {
            visitor(parameter, Use::Value)?;
        }
    }
    for option in &recall.options {
        if let WithOption::Extension(_, values) = option {
            values
                .iter()
                .try_for_each(|value| visit_value(value, Use::Value, visitor))?;
        }
    }
    Ok(())
}

fn visit_test(test: &Test, visitor: &mut Visitor) -> Result<()> {
    match test {
        Test::Compare(_, value) => visit_value(value, Use::Value, visitor),
        Test::In(InSet::Values(values)) => values
            .iter()
            .try_for_each(|value| visit_value(value, Use::Member, visitor)),
        Test::In(InSet::Subquery(subquery)) => visit_recall(&subquery.query, visitor),
        Test::Between(low, high) => [low, high]
            .into_iter()
            .try_for_each(|value| visit_value(value, Use::Value, visitor)),
        Test::Include(values) | Test::Exclude(values) => values
            .iter()
            .try_for_each(|value| visit_value(value, Use::Value, visitor)),
        Test::Is(_) => Ok(()),
    }
}

fn visit_value(value: &Value, used: Use, visitor: &mut Visitor) -> Result<()> {
    match value {
        Value::Parameter(parameter) => visitor(parameter, used),
        Value::Array(values) => values
            .iter()
            .try_for_each(|value| visit_value(value, Use::Value, visitor)),
        Value::Text(_) | Value::Number(_) | Value::Boolean(_) | Value::Hash(_) => Ok(()),
    }
}

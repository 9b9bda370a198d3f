//! Rules about LETs and the references to them (digest of CAL 1.0, section 7, "LET").

use std::collections::BTreeMap;

use super::pipeline::result_shape;
use crate::cal::ast::*;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::limits;
use crate::cal::span::Span;

/// The use of a name in a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LetUse {
    /// In an IN list, which requires values.
    Member,
    /// As a source of ASSEMBLE, which requires grains.
    Source,
    /// As one value.
    Value,
}

/// The result of a LET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LetResult {
    /// A list of values, of a LET with an extractor.
    Values,
    /// Grains.
    Grains,
    /// A count, groups, or one value.
    Neither,
}

impl LetResult {
    fn of(binding: &Let) -> LetResult {
        match binding.extract {
            Some(_) => LetResult::Values,
            None if result_shape(&binding.query.stages).is_of_grains() => LetResult::Grains,
            None => LetResult::Neither,
        }
    }
}

/// The binding of a name.
#[derive(Debug, Clone, Copy)]
struct LetBinding {
    /// Position in its block.
    at: usize,
    yields: LetResult,
    /// Length of the chain of references, including this binding.
    chain: usize,
}

type LetNames = BTreeMap<String, LetBinding>;

/// Checks all references of a query.
///
/// # Errors
/// E008 for an unbound source and for references to later LETs, or from a LET where that isn't
/// allowed, E009 for a name bound twice, E020 for values used as grains or grains as values, E036
/// and E038 for too many and too long chains of bindings.
pub(crate) fn references(query: &Query) -> Result<()> {
    count(query)?;
    let assembles = matches!(
        query.statement,
        Statement::Assemble(_) | Statement::Explain(Explainable::Assemble(_))
    );
    let scope = block(&query.lets, &LetNames::new(), assembles)?;
    statement(&query.statement, &scope)
}

/// Checks that one more LET is allowed.
///
/// # Errors
/// E036.
pub(crate) fn let_count(before: usize, span: Span) -> Result<()> {
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

/// Returns the error for a name that is bound twice.
pub(crate) fn duplicate_name(name: &str, span: Span) -> CalError {
    CalError::new(Code::E009, format!("\"${name}\" is bound twice.")).at(span)
}

fn count(query: &Query) -> Result<()> {
    let inner = match &query.statement {
        Statement::SetOperation(operation)
        | Statement::Explain(Explainable::SetOperation(operation)) => count_in_operation(operation),
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

/// Returns the number of LETs in the operands of `operation`.
fn count_in_operation(operation: &SetOperation) -> usize {
    let count_in_operand = |operand: &SetOperand| {
        let inner = match &operand.body {
            SetBody::Recall(_) => 0,
            SetBody::SetOperation(operation) => count_in_operation(operation),
        };
        operand.lets.len() + inner
    };
    [&operation.left, &operation.right]
        .into_iter()
        .map(count_in_operand)
        .sum()
}

/// Returns the names that a block of LETs binds, in addition to those of `outside`. LETs may only
/// refer to one another in an ASSEMBLE (`chained`).
fn block(lets: &[Let], outside: &LetNames, chained: bool) -> Result<LetNames> {
    let mut scope = declared(lets, outside)?;
    for (at, binding) in lets.iter().enumerate() {
        let deepest = longest_chain(binding, at, &scope, chained)?;
        if deepest >= limits::MAX_LET_CHAIN {
            let message = format!("\"${}\" depends on {deepest} other LETs.", binding.name);
            return Err(CalError::new(Code::E038, message).at(binding.span));
        }
        if let Some(bound) = scope.get_mut(&binding.name) {
            bound.chain = deepest + 1;
        }
    }
    Ok(scope)
}

/// Checks the uses of LETs in `binding`, the LET at index `at`, and returns the length of the
/// longest chain among the LETs used.
fn longest_chain(binding: &Let, at: usize, scope: &LetNames, chained: bool) -> Result<usize> {
    let mut longest = 0;
    visit_recall(&binding.query, &mut |parameter, used| {
        let Some(bound) = scope.get(&parameter.name) else {
            return Ok(());
        };
        if !chained || bound.at >= at {
            return Err(unreachable(parameter, chained));
        }
        longest = longest.max(bound.chain);
        fits(parameter, used, bound)
    })?;
    Ok(longest)
}

/// Returns the names of `lets` in addition to those of `outside`, without checking their
/// references.
fn declared(lets: &[Let], outside: &LetNames) -> Result<LetNames> {
    let mut scope = outside.clone();
    for (at, binding) in lets.iter().enumerate() {
        let bound = LetBinding {
            at,
            yields: LetResult::of(binding),
            chain: 1,
        };
        if scope.insert(binding.name.clone(), bound).is_some() {
            return Err(duplicate_name(&binding.name, binding.span));
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

fn fits(parameter: &Parameter, used: LetUse, bound: &LetBinding) -> Result<()> {
    let (is, advice) = match (used, bound.yields) {
        (LetUse::Member, LetResult::Values) | (LetUse::Source, LetResult::Grains) => return Ok(()),
        (LetUse::Source, LetResult::Values) => (
            "a list of values, not grains",
            "Leave SUBJECTS, OBJECTS or HASHES out of the LET.",
        ),
        (LetUse::Source, LetResult::Neither) => (
            "a count, groups or a value, not grains",
            "Leave the stages that don't yield grains out of the LET.",
        ),
        (LetUse::Member, LetResult::Grains) => (
            "grains, not a list of values",
            "End the LET with SUBJECTS, OBJECTS or HASHES.",
        ),
        (LetUse::Member, LetResult::Neither) => (
            "no list of values",
            "End the LET with SUBJECTS, OBJECTS or HASHES.",
        ),
        (LetUse::Value, LetResult::Values) => ("a list of values, not one", "Write IN ($name)."),
        (LetUse::Value, LetResult::Grains) => {
            ("grains, not a value", "Use it as a source of ASSEMBLE.")
        }
        (LetUse::Value, LetResult::Neither) => (
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

fn check_use(scope: &LetNames, parameter: &Parameter, used: LetUse) -> Result<()> {
    match scope.get(&parameter.name) {
        Some(bound) => fits(parameter, used, bound),
        None if used == LetUse::Source => {
            let message = format!("No LET binds \"${}\".", parameter.name);
            Err(CalError::new(Code::E008, message).at(parameter.span))
        }
        None => Ok(()),
    }
}

fn statement(statement: &Statement, scope: &LetNames) -> Result<()> {
    let mut check = |parameter: &Parameter, used| check_use(scope, parameter, used);
    match statement {
        Statement::Recall(recall) | Statement::Explain(Explainable::Recall(recall)) => {
            visit_recall(recall, &mut check)
        }
        Statement::Assemble(assemble) | Statement::Explain(Explainable::Assemble(assemble)) => {
            visit_sources(&assemble.sources, &mut check)
        }
        Statement::SetOperation(operation)
        | Statement::Explain(Explainable::SetOperation(operation)) => {
            set_operation(operation, scope)
        }
        Statement::Batch(batch) | Statement::Explain(Explainable::Batch(batch)) => {
            let mut entries = batch.entries.iter();
            entries.try_for_each(|entry| visit_batch_query(&entry.query, &mut check))
        }
        Statement::Coalesce(coalesce) | Statement::Explain(Explainable::Coalesce(coalesce)) => {
            visit_branches(coalesce, &mut check)
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

fn set_operation(operation: &SetOperation, scope: &LetNames) -> Result<()> {
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

type Visitor<'v> = dyn FnMut(&Parameter, LetUse) -> Result<()> + 'v;

fn visit_batch_query(query: &BatchQuery, visitor: &mut Visitor) -> Result<()> {
    match query {
        BatchQuery::Recall(recall) => visit_recall(recall, visitor),
        BatchQuery::Exists(exists) => visit_target(&exists.target, visitor),
        BatchQuery::History(history) => visit_history(history, visitor),
        BatchQuery::Describe(_) => Ok(()),
        BatchQuery::Coalesce(coalesce) => visit_branches(coalesce, visitor),
    }
}

fn visit_branches(coalesce: &Coalesce, visitor: &mut Visitor) -> Result<()> {
    let mut branches = coalesce.branches.iter();
    branches.try_for_each(|branch| visit_recall(branch, visitor))
}

fn visit_sources(sources: &[Source], visitor: &mut Visitor) -> Result<()> {
    sources.iter().try_for_each(|source| match &source.body {
        SourceBody::Recall(recall) => visit_recall(recall, visitor),
        SourceBody::Binding(parameter) => visitor(parameter, LetUse::Source),
    })
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
            .try_for_each(|value| visit_value(value, LetUse::Value, visitor)),
    }
}

fn visit_target(target: &Target, visitor: &mut Visitor) -> Result<()> {
    match target {
        Target::Parameter(parameter) => visitor(parameter, LetUse::Value),
        Target::Address(_) => Ok(()),
    }
}

fn visit_set(set: &[SetClause], visitor: &mut Visitor) -> Result<()> {
    set.iter()
        .try_for_each(|clause| visit_value(&clause.value, LetUse::Value, visitor))
}

fn visit_recall(recall: &Recall, visitor: &mut Visitor) -> Result<()> {
    for value in recall.between.iter().flat_map(|(low, high)| [low, high]) {
        visit_value(value, LetUse::Value, visitor)?;
    }
    for condition in &recall.conditions {
        visit_test(&condition.test, visitor)?;
    }
    for stage in &recall.stages {
        if let StageKind::Offset(Offset::Parameter(parameter)) = &stage.kind {
            visitor(parameter, LetUse::Value)?;
        }
    }
    for option in &recall.options {
        if let WithOption::Extension(_, values) = option {
            values
                .iter()
                .try_for_each(|value| visit_value(value, LetUse::Value, visitor))?;
        }
    }
    Ok(())
}

fn visit_test(test: &Test, visitor: &mut Visitor) -> Result<()> {
    match test {
        Test::Compare(_, value) => visit_value(value, LetUse::Value, visitor),
        Test::In(InSet::Values(values)) => values
            .iter()
            .try_for_each(|value| visit_value(value, LetUse::Member, visitor)),
        Test::In(InSet::Subquery(subquery)) => visit_recall(&subquery.query, visitor),
        Test::Between(low, high) => [low, high]
            .into_iter()
            .try_for_each(|value| visit_value(value, LetUse::Value, visitor)),
        Test::Include(values) | Test::Exclude(values) => values
            .iter()
            .try_for_each(|value| visit_value(value, LetUse::Value, visitor)),
        Test::Is(_) => Ok(()),
    }
}

fn visit_value(value: &Value, used: LetUse, visitor: &mut Visitor) -> Result<()> {
    match value {
        Value::Parameter(parameter) => visitor(parameter, used),
        Value::Array(values) => values
            .iter()
            .try_for_each(|value| visit_value(value, LetUse::Value, visitor)),
        Value::Text(_) | Value::Number(_) | Value::Boolean(_) | Value::Hash(_) => Ok(()),
    }
}

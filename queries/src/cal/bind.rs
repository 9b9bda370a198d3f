//! Binds parameters to values (CAL 1.0, sections 3.4 and 20.1).
//!
//! A parameter is replaced by a value in the syntax tree, never by text, so injection is
//! impossible. Binding replaces every parameter that no LET binds, and checks the values like
//! literals.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use super::ast::*;
use super::check::evolve::{self, SetStatement};
use super::check::{self, Checker, condition};
use super::error::{CalError, Code, Result};
use super::fields::{FieldKind, KnownField};

/// Values by parameter name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bindings(BTreeMap<String, Value>);

impl Bindings {
    /// Returns an empty set of bindings.
    pub fn new() -> Bindings {
        Bindings::default()
    }

    /// Binds the parameter `name` to a value. Texts are normalised.
    ///
    /// # Errors
    /// E009 if it is already bound, E071 for texts with bidirectional control characters, E008 for
    /// a value that is or contains a parameter.
    pub fn insert(&mut self, name: &str, value: Value) -> Result<()> {
        let value = plain(value)?;
        match self.0.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(CalError::new(
                Code::E009,
                format!("\"${name}\" has two values."),
            )),
        }
    }

    /// Binds the parameter `name` to a command line argument. A literal of CAL (a number, TRUE,
    /// FALSE, a quoted string, an array, `sha256:…`) is parsed, anything else is a text.
    ///
    /// # Errors
    /// Those of [`Bindings::insert`].
    pub fn insert_argument(&mut self, name: &str, argument: &str) -> Result<()> {
        let value = super::parser::literal(argument).unwrap_or_else(|| Value::text(argument));
        self.insert(name, value)
    }
}

/// Returns the value with normalised texts.
fn plain(value: Value) -> Result<Value> {
    Ok(match value {
        Value::Text(text) => Value::Text(check::text(&text)?),
        Value::Array(values) => Value::Array(values.into_iter().map(plain).collect::<Result<_>>()?),
        Value::Parameter(parameter) => return Err(unbound(&parameter)),
        other => other,
    })
}

fn unbound(parameter: &Parameter) -> CalError {
    CalError::new(Code::E008, format!("\"${}\" has no value.", parameter.name)).at(parameter.span)
}

/// Replaces the parameters of a query by their values. References to LETs remain for the executor.
///
/// Errors have spans; [`CalError::located`] converts them to positions.
///
/// # Errors
/// E008 for a parameter without a value, E011 for an IN list that becomes too long, E015 for a text
/// that should be an address, E020 for a value of the wrong type, E006 for an invalid OFFSET, E062
/// to E066 for invalid choices.
pub fn bind(query: &Query, bindings: &Bindings, options: Options) -> Result<Query> {
    let mut binder = Binder {
        bindings,
        lets: BTreeSet::new(),
        checker: Checker::new(options),
    };
    let mut query = query.clone();
    binder.lets(&mut query.lets)?;
    binder.statement(&mut query.statement)?;
    Ok(query)
}

struct Binder<'b> {
    bindings: &'b Bindings,
    /// Names bound by LETs.
    lets: BTreeSet<String>,
    checker: Checker,
}

impl Binder<'_> {
    /// Returns the value of a parameter; `None` if a LET binds it.
    fn value_of(&self, parameter: &Parameter) -> Result<Option<Value>> {
        if self.lets.contains(&parameter.name) {
            return Ok(None);
        }
        self.bindings
            .0
            .get(&parameter.name)
            .cloned()
            .map(Some)
            .ok_or_else(|| unbound(parameter))
    }

    fn lets(&mut self, lets: &mut [Let]) -> Result<()> {
        self.lets
            .extend(lets.iter().map(|binding| binding.name.clone()));
        lets.iter_mut()
            .try_for_each(|binding| self.recall(&mut binding.query))
    }

    fn statement(&mut self, statement: &mut Statement) -> Result<()> {
        match statement {
            Statement::Recall(one) => self.recall(one),
            Statement::Assemble(one) => self.assemble(one),
            Statement::SetOperation(one) => self.set_operation(one),
            Statement::Exists(one) => self.target(&mut one.target),
            Statement::History(one) => self.history(one),
            Statement::Explain(one) => self.explained(one),
            Statement::Batch(one) => self.batch(one),
            Statement::Coalesce(one) => self.coalesce(one),
            Statement::Add(one) => self.set(SetStatement::Add(one.grain_type), &mut one.set),
            Statement::Supersede(one) => self.supersede(one),
            Statement::Revert(one) => self.target(&mut one.target),
            Statement::Describe(_) | Statement::DefineTemplate(_) => Ok(()),
        }
    }

    fn explained(&mut self, explained: &mut Explainable) -> Result<()> {
        match explained {
            Explainable::Recall(one) => self.recall(one),
            Explainable::Assemble(one) => self.assemble(one),
            Explainable::SetOperation(one) => self.set_operation(one),
            Explainable::Add(one) => self.set(SetStatement::Add(one.grain_type), &mut one.set),
            Explainable::Supersede(one) => self.supersede(one),
            Explainable::Revert(one) => self.target(&mut one.target),
            Explainable::Batch(one) => self.batch(one),
            Explainable::Coalesce(one) => self.coalesce(one),
        }
    }

    fn assemble(&mut self, assemble: &mut Assemble) -> Result<()> {
        for source in &mut assemble.sources {
            if let SourceBody::Recall(recall) = &mut source.body {
                self.recall(recall)?;
            }
        }
        self.options(&mut assemble.options)
    }

    fn set_operation(&mut self, operation: &mut SetOperation) -> Result<()> {
        for operand in [&mut operation.left, &mut operation.right] {
            let outside = self.lets.clone();
            self.lets(&mut operand.lets)?;
            match &mut operand.body {
                SetBody::Recall(recall) => self.recall(recall)?,
                SetBody::SetOperation(inner) => self.set_operation(inner)?,
            }
            self.lets = outside;
        }
        Ok(())
    }

    fn batch(&mut self, batch: &mut Batch) -> Result<()> {
        batch
            .entries
            .iter_mut()
            .try_for_each(|entry| match &mut entry.query {
                BatchQuery::Recall(one) => self.recall(one),
                BatchQuery::Exists(one) => self.target(&mut one.target),
                BatchQuery::History(one) => self.history(one),
                BatchQuery::Coalesce(one) => self.coalesce(one),
                BatchQuery::Describe(_) => Ok(()),
            })
    }

    fn coalesce(&mut self, coalesce: &mut Coalesce) -> Result<()> {
        coalesce
            .branches
            .iter_mut()
            .try_for_each(|branch| self.recall(branch))
    }

    fn history(&mut self, history: &mut History) -> Result<()> {
        match history {
            History::Versions { target, diff } => {
                self.target(target)?;
                diff.iter_mut().try_for_each(|diff| self.target(diff))
            }
            History::Triple {
                subject, relation, ..
            } => {
                self.scalar(&KnownField::Subject.into(), subject)?;
                self.scalar(&KnownField::Relation.into(), relation)
            }
        }
    }

    fn supersede(&mut self, supersede: &mut Supersede) -> Result<()> {
        self.target(&mut supersede.target)?;
        self.set(SetStatement::Supersede, &mut supersede.set)
    }

    fn target(&mut self, target: &mut Target) -> Result<()> {
        let Target::Parameter(parameter) = target else {
            return Ok(());
        };
        if let Some(value) = self.value_of(parameter)? {
            *target = Target::Address(address(&value).map_err(|error| error.at(parameter.span))?);
        }
        Ok(())
    }

    fn set(&mut self, setter: SetStatement, clauses: &mut [SetClause]) -> Result<()> {
        for clause in clauses {
            self.anywhere(&mut clause.value)?;
            evolve::value(
                &mut self.checker,
                setter,
                clause.field,
                &mut clause.value,
                clause.span,
            )?;
        }
        Ok(())
    }

    fn recall(&mut self, recall: &mut Recall) -> Result<()> {
        if let Some((low, high)) = &mut recall.between {
            for value in [low, high] {
                self.scalar(&KnownField::Time.into(), value)?;
            }
        }
        for condition in &mut recall.conditions {
            self.condition(condition)?;
        }
        for stage in &mut recall.stages {
            self.stage(stage)?;
        }
        self.options(&mut recall.options)
    }

    fn stage(&mut self, stage: &mut Stage) -> Result<()> {
        let StageKind::Offset(offset) = &mut stage.kind else {
            return Ok(());
        };
        let Offset::Parameter(parameter) = offset else {
            return Ok(());
        };
        match self.value_of(parameter)? {
            None => Ok(()),
            Some(Value::Number(number)) => {
                *offset = Offset::Count(check::offset(&number, parameter.span)?);
                Ok(())
            }
            Some(other) => {
                let message = format!("OFFSET takes a number, not {}.", other.kind());
                Err(CalError::new(Code::E020, message).at(parameter.span))
            }
        }
    }

    fn options(&mut self, options: &mut [WithOption]) -> Result<()> {
        options.iter_mut().try_for_each(|option| match option {
            WithOption::Extension(_, values) => {
                values.iter_mut().try_for_each(|value| self.anywhere(value))
            }
            _ => Ok(()),
        })
    }

    fn condition(&mut self, condition: &mut Condition) -> Result<()> {
        let field = &condition.field;
        match &mut condition.test {
            Test::Compare(_, value) => self.scalar(field, value),
            Test::Between(low, high) => {
                self.scalar(field, low)?;
                self.scalar(field, high)
            }
            Test::In(InSet::Values(values)) => {
                self.scalars(field, values)?;
                condition::in_length(values.len(), condition.span)
            }
            Test::In(InSet::Subquery(subquery)) => self.recall(&mut subquery.query),
            Test::Include(values) | Test::Exclude(values) => {
                self.spread(values)?;
                condition::items(field, values, condition.span)
            }
            Test::Is(_) => Ok(()),
        }
    }

    /// Binds a list of values, whose parameters may stand for several values each.
    fn scalars(&mut self, field: &Field, values: &mut Vec<Value>) -> Result<()> {
        self.spread(values)?;
        values
            .iter_mut()
            .try_for_each(|value| self.scalar(field, value))
    }

    /// Replaces the parameters in a list. An array is replaced by its items.
    fn spread(&mut self, values: &mut Vec<Value>) -> Result<()> {
        let mut bound = Vec::with_capacity(values.len());
        for value in values.drain(..) {
            let Value::Parameter(parameter) = &value else {
                bound.push(value);
                continue;
            };
            match self.value_of(parameter)? {
                None => bound.push(value),
                Some(Value::Array(items)) => bound.extend(items),
                Some(one) => bound.push(one),
            }
        }
        *values = bound;
        Ok(())
    }

    /// Replaces a parameter that is compared with `field`, and checks the value.
    fn scalar(&mut self, field: &Field, value: &mut Value) -> Result<()> {
        let span = match value {
            Value::Parameter(parameter) => parameter.span,
            _ => Default::default(),
        };
        if let Value::Parameter(parameter) = value
            && let Some(bound) = self.value_of(parameter)?
        {
            *value = bound;
        }
        let is_hash = field
            .spec()
            .is_some_and(|spec| spec.kind == FieldKind::Hash);
        if is_hash && matches!(value, Value::Text(_)) {
            *value = Value::Hash(address(value).map_err(|error| error.at(span))?);
        }
        condition::scalar(&mut self.checker, field, value, span)
    }

    /// Replaces the parameters in a value of any type.
    fn anywhere(&mut self, value: &mut Value) -> Result<()> {
        match value {
            Value::Parameter(parameter) => {
                if let Some(bound) = self.value_of(parameter)? {
                    *value = bound;
                }
                Ok(())
            }
            Value::Array(values) => values.iter_mut().try_for_each(|value| self.anywhere(value)),
            Value::Text(_) | Value::Number(_) | Value::Boolean(_) | Value::Hash(_) => Ok(()),
        }
    }
}

/// Returns the address in a value.
fn address(value: &Value) -> Result<Address> {
    match value {
        Value::Hash(address) => Ok(address.clone()),
        Value::Text(text) => Address::parse(text)
            .ok_or_else(|| super::lexer::bad_address(text.strip_prefix("sha256:").unwrap_or(text))),
        other => Err(CalError::new(
            Code::E020,
            format!("Expected an address, not {}.", other.kind()),
        )),
    }
}

#[cfg(test)]
mod tests;

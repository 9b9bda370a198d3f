//! WHERE.

use super::Parser;
use crate::cal::ast::{Comparison, Condition, Field, InSet, Subquery, Test, Value};
use crate::cal::check::condition as check;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::fields::{KnownField, Operator};
use crate::cal::grain_type::GrainType;
use crate::cal::keywords::Keyword;
use crate::cal::lexer::{Symbol, TokenKind};
use crate::cal::limits;
use crate::cal::relations::RelationCategory;
use crate::cal::span::Span;
use crate::cal::suggest::nearest;

impl Parser<'_> {
    /// Parses the conditions after WHERE.
    pub(super) fn conditions(&mut self, grain_type: Option<GrainType>) -> Result<Vec<Condition>> {
        let mut conditions = vec![self.condition(grain_type)?];
        while self.accept_keyword(Keyword::And)? {
            conditions.push(self.condition(grain_type)?);
        }
        Ok(conditions)
    }

    fn condition(&mut self, grain_type: Option<GrainType>) -> Result<Condition> {
        let (field, start) = self.field(grain_type)?;
        let test = self.test(&field)?;
        Ok(Condition {
            field,
            test,
            span: self.since(start),
        })
    }

    fn test(&mut self, field: &Field) -> Result<Test> {
        let is_relation = *field == Field::Known(KnownField::Relation);
        let token = self.peek()?;
        if let Some(comparison) = comparison(&token.kind) {
            let span = self.take()?.span;
            check::operator(field, comparison.operator(), span)?;
            return Ok(Test::Compare(comparison, self.scalar(field)?));
        }
        match token.keyword() {
            Some(Keyword::In) => self.membership(field),
            Some(Keyword::Between) => self.range(field),
            Some(Keyword::Include) => self.items(field, Operator::Include).map(Test::Include),
            Some(Keyword::Exclude) => self.items(field, Operator::Exclude).map(Test::Exclude),
            Some(Keyword::Is) if is_relation => self.category().map(Test::Is),
            _ => Err(self.unexpected(field.operators().iter().map(Operator::name))),
        }
    }

    /// Parses a value that `field` is compared with.
    fn scalar(&mut self, field: &Field) -> Result<Value> {
        let (mut value, span) = self.value()?;
        check::scalar(&mut self.checker, field, &mut value, span)?;
        Ok(value)
    }

    fn operator(&mut self, field: &Field, operator: Operator) -> Result<Span> {
        let span = self.take()?.span;
        check::operator(field, operator, span)?;
        Ok(span)
    }

    fn range(&mut self, field: &Field) -> Result<Test> {
        self.operator(field, Operator::Between)?;
        let low = self.scalar(field)?;
        self.require_keyword(Keyword::And)?;
        Ok(Test::Between(low, self.scalar(field)?))
    }

    fn items(&mut self, field: &Field, operator: Operator) -> Result<Vec<Value>> {
        self.operator(field, operator)?;
        let start = self.here();
        let values = self.array()?;
        check::items(field, &values, self.since(start))?;
        Ok(values)
    }

    fn category(&mut self) -> Result<RelationCategory> {
        self.take()?;
        let token = self.peek()?;
        let TokenKind::Word { text, .. } = token.kind else {
            return Err(self.unexpected(["a relation category"]));
        };
        if let Some(category) = RelationCategory::from_name(text) {
            self.take()?;
            return Ok(category);
        }
        let error = self
            .unexpected(["a relation category"])
            .valid_values(RelationCategory::NAMES.iter().copied());
        Err(
            match nearest(text, RelationCategory::NAMES.iter().copied()) {
                Some(meant) => error.suggest(format!("Did you mean {meant}?")),
                None => error,
            },
        )
    }

    fn membership(&mut self, field: &Field) -> Result<Test> {
        let operator = self.operator(field, Operator::In)?;
        self.require(Symbol::OpenParen)?;
        let set = match self.next_is_keyword(Keyword::Recall)? {
            true => InSet::Subquery(Box::new(self.subquery()?)),
            false => {
                let values = self.list(|parser| parser.scalar(field))?;
                check::in_length(values.len(), self.since(operator))?;
                InSet::Values(values)
            }
        };
        match self.accept(Symbol::CloseParen)? {
            true => Ok(Test::In(set)),
            false => Err(self.unexpected([",", ")"])),
        }
    }

    fn subquery(&mut self) -> Result<Subquery> {
        if self.subqueries == limits::MAX_SUBQUERY_DEPTH {
            let message = format!(
                "Subqueries nest at most {} deep.",
                limits::MAX_SUBQUERY_DEPTH
            );
            return Err(CalError::new(Code::E007, message).at(self.here()));
        }
        self.subqueries += 1;
        let mut query = self.recall()?;
        self.subqueries -= 1;
        match super::stage::take_extractor(&mut query) {
            Some(extract) => Ok(Subquery { query, extract }),
            None => Err(self
                .unexpected(["| SUBJECTS", "| OBJECTS", "| HASHES"])
                .suggest("End the subquery with SUBJECTS, OBJECTS or HASHES.")),
        }
    }
}

fn comparison(kind: &TokenKind) -> Option<Comparison> {
    match kind {
        TokenKind::Symbol(Symbol::Equal) => Some(Comparison::Equal),
        TokenKind::Symbol(Symbol::NotEqual) => Some(Comparison::NotEqual),
        TokenKind::Symbol(Symbol::AtLeast) => Some(Comparison::AtLeast),
        TokenKind::Symbol(Symbol::AtMost) => Some(Comparison::AtMost),
        TokenKind::Symbol(Symbol::Greater) => Some(Comparison::Greater),
        TokenKind::Symbol(Symbol::Less) => Some(Comparison::Less),
        _ => None,
    }
}

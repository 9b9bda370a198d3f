//! The statements that are neither RECALL nor ASSEMBLE.

use super::Parser;
use crate::cal::ast::{
    Add, Batch, BatchEntry, BatchQuery, Coalesce, Describe, Exists, Explainable, Field, History,
    Recall, Revert, SetClause, Supersede, Value,
};
use crate::cal::check::evolve::{self, SetStatement};
use crate::cal::check::{self, condition};
use crate::cal::error::{CalError, Code, Result};
use crate::cal::fields::KnownField;
use crate::cal::grain_type::{GrainType, NameForm, TypeName};
use crate::cal::keywords::Keyword;
use crate::cal::lexer::{Symbol, TokenKind};
use crate::cal::span::Span;
use crate::cal::vocabulary::DescribeTarget;

impl Parser<'_> {
    pub(super) fn exists(&mut self) -> Result<Exists> {
        self.require_keyword(Keyword::Exists)?;
        Ok(Exists {
            target: self.target()?,
        })
    }

    pub(super) fn history(&mut self) -> Result<History> {
        self.require_keyword(Keyword::History)?;
        match self.peek()?.kind {
            TokenKind::Hash(_) | TokenKind::Parameter(_) => {
                let target = self.target()?;
                let diff = if self.accept_keyword(Keyword::Diff)? {
                    Some(self.target()?)
                } else {
                    None
                };
                Ok(History::Versions { target, diff })
            }
            _ => self.triple_history(),
        }
    }

    fn triple_history(&mut self) -> Result<History> {
        let namespace = if self.accept_keyword(Keyword::In)? {
            Some(self.namespace()?)
        } else {
            None
        };
        if !self.accept_keyword(Keyword::Where)? {
            return Err(self.unexpected(["a hash", "a parameter", "WHERE"]));
        }
        let subject = self.equals(KnownField::Subject)?;
        self.require_keyword(Keyword::And)?;
        let relation = self.equals(KnownField::Relation)?;
        let as_of = match self.accept_keyword(Keyword::As)? {
            true => {
                self.require_keyword(Keyword::Of)?;
                let (text, span) = self.text()?;
                condition::time("AS OF", &Value::text(text.as_str()), span)?;
                Some(text)
            }
            false => None,
        };
        Ok(History::Triple {
            namespace,
            subject,
            relation,
            as_of,
        })
    }

    /// Parses `field = value`, with this field.
    fn equals(&mut self, field: KnownField) -> Result<Value> {
        match self.peek()?.kind {
            TokenKind::Word { text, .. } if text == field.name() => self.take()?,
            _ => return Err(self.unexpected([field.name()])),
        };
        self.require(Symbol::Equal)?;
        let (mut value, span) = self.value()?;
        condition::scalar(&mut self.checker, &Field::Known(field), &mut value, span)?;
        Ok(value)
    }

    pub(super) fn explain(&mut self) -> Result<Explainable> {
        self.require_keyword(Keyword::Explain)?;
        if self.next_is(Symbol::OpenParen)? {
            return Ok(Explainable::SetOperation(Box::new(
                self.outermost_set_operation()?,
            )));
        }
        match self.next_keyword()? {
            Some(Keyword::Recall) => Ok(Explainable::Recall(Box::new(self.recall()?))),
            Some(Keyword::Assemble) => Ok(Explainable::Assemble(Box::new(self.assemble()?))),
            Some(Keyword::Add) => self.add().map(Explainable::Add),
            Some(Keyword::Supersede) => self.supersede().map(Explainable::Supersede),
            Some(Keyword::Revert) => self.revert().map(Explainable::Revert),
            Some(Keyword::Batch) => self.batch().map(Explainable::Batch),
            Some(Keyword::Coalesce) => self.coalesce().map(Explainable::Coalesce),
            _ => Err(self
                .unexpected([
                    "RECALL",
                    "ASSEMBLE",
                    "ADD",
                    "SUPERSEDE",
                    "REVERT",
                    "BATCH",
                    "COALESCE",
                    "(",
                ])
                .suggest("EXPLAIN takes statements that have a plan.")),
        }
    }

    pub(super) fn describe(&mut self) -> Result<Describe> {
        self.require_keyword(Keyword::Describe)?;
        let target = match self.peek()?.kind {
            TokenKind::Word { text, .. } => DescribeTarget::from_name(text),
            _ => None,
        };
        let Some(target) = target else {
            return Err(self.unexpected(DescribeTarget::NAMES.iter().copied()));
        };
        self.take()?;
        let typed =
            target == DescribeTarget::Fields && matches!(self.peek()?.kind, TokenKind::Word { .. });
        let grain_type = if typed {
            Some(self.singular()?.0)
        } else {
            None
        };
        Ok(Describe { target, grain_type })
    }

    /// Parses a grain type in the singular.
    fn singular(&mut self) -> Result<(GrainType, Span)> {
        let (word, span) = self.word("a grain type")?;
        let grain_type = GrainType::parse(word, NameForm::Singular, self.checker.options.aliases);
        Ok((grain_type.map_err(|error| error.at(span))?, span))
    }

    pub(super) fn batch(&mut self) -> Result<Batch> {
        self.require_keyword(Keyword::Batch)?;
        self.require(Symbol::OpenBrace)?;
        let mut entries: Vec<BatchEntry> = Vec::new();
        loop {
            let (label, span) = self.name("a label")?;
            check::batch_entry(&entries, &label, span)?;
            self.require(Symbol::Colon)?;
            let query = self.batch_query()?;
            entries.push(BatchEntry { label, query, span });
            if !self.accept(Symbol::Comma)? {
                break;
            }
        }
        match self.accept(Symbol::CloseBrace)? {
            true => Ok(Batch { entries }),
            false => Err(self.unexpected([",", "}"])),
        }
    }

    fn batch_query(&mut self) -> Result<BatchQuery> {
        match self.next_keyword()? {
            Some(Keyword::Recall) => Ok(BatchQuery::Recall(Box::new(self.recall()?))),
            Some(Keyword::Exists) => self.exists().map(BatchQuery::Exists),
            Some(Keyword::History) => self.history().map(BatchQuery::History),
            Some(Keyword::Describe) => self.describe().map(BatchQuery::Describe),
            Some(Keyword::Coalesce) => self.coalesce().map(BatchQuery::Coalesce),
            _ => Err(self
                .unexpected(["RECALL", "EXISTS", "HISTORY", "DESCRIBE", "COALESCE"])
                .suggest("A BATCH holds reads only.")),
        }
    }

    pub(super) fn coalesce(&mut self) -> Result<Coalesce> {
        self.require_keyword(Keyword::Coalesce)?;
        self.require(Symbol::OpenParen)?;
        let mut branches: Vec<Recall> = vec![self.recall()?];
        self.require(Symbol::Comma)?;
        branches.push(self.recall()?);
        while self.accept(Symbol::Comma)? {
            let start = self.here();
            check::coalesce_branches(branches.len() + 1, start)?;
            branches.push(self.recall()?);
        }
        match self.accept(Symbol::CloseParen)? {
            true => Ok(Coalesce { branches }),
            false => Err(self.unexpected([",", ")"])),
        }
    }

    pub(super) fn add(&mut self) -> Result<Add> {
        let start = self.require_keyword(Keyword::Add)?;
        let (grain_type, span) = self.singular()?;
        evolve::addable(grain_type, span)?;
        let set = self.set_clauses(SetStatement::Add(grain_type))?;
        let reason = self.reason()?;
        evolve::complete(&set, self.since(start))?;
        Ok(Add {
            grain_type,
            set,
            reason,
        })
    }

    pub(super) fn supersede(&mut self) -> Result<Supersede> {
        self.require_keyword(Keyword::Supersede)?;
        let target = self.target()?;
        if !self.next_is_keyword(Keyword::Set)? {
            return Err(
                CalError::new(Code::E019, "SUPERSEDE changes nothing without SET.").at(self.here()),
            );
        }
        let set = self.set_clauses(SetStatement::Supersede)?;
        let reason = self.reason()?;
        Ok(Supersede {
            target,
            set,
            reason,
        })
    }

    pub(super) fn revert(&mut self) -> Result<Revert> {
        self.require_keyword(Keyword::Revert)?;
        let target = self.target()?;
        Ok(Revert {
            target,
            reason: self.reason()?,
        })
    }

    fn set_clauses(&mut self, setter: SetStatement) -> Result<Vec<SetClause>> {
        let mut clauses: Vec<SetClause> = Vec::new();
        while self.accept_keyword(Keyword::Set)? {
            let (name, span) = self.word("a field")?;
            let field = evolve::field(setter, &clauses, name, span)?;
            self.require(Symbol::Equal)?;
            let (mut value, span) = self.value()?;
            evolve::value(&mut self.checker, setter, field, &mut value, span)?;
            clauses.push(SetClause { field, value, span });
        }
        Ok(clauses)
    }

    fn reason(&mut self) -> Result<String> {
        if matches!(
            self.peek()?.kind,
            TokenKind::End | TokenKind::Symbol(Symbol::Semicolon)
        ) {
            return Err(CalError::new(Code::E018, "REASON is missing.")
                .at(self.here())
                .expected(["REASON"]));
        }
        self.require_keyword(Keyword::Reason)?;
        let (reason, span) = self.text()?;
        check::reason(&reason, span)?;
        Ok(reason)
    }
}

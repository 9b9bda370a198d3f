//! A whole query: version, bindings and statement.

use super::Parser;
use crate::cal::ast::{Let, Query, SetBody, SetOperand, SetOperation, Statement};
use crate::cal::check;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::keywords::Keyword;
use crate::cal::lexer::{Symbol, TokenKind};
use crate::cal::limits;
use crate::cal::number::Number;
use crate::cal::vocabulary::SetOperator;

/// The keywords that begin a statement, for messages.
const STATEMENTS: [&str; 13] = [
    "RECALL",
    "ASSEMBLE",
    "EXISTS",
    "HISTORY",
    "EXPLAIN",
    "DESCRIBE",
    "BATCH",
    "COALESCE",
    "DEFINE TEMPLATE",
    "ADD",
    "SUPERSEDE",
    "REVERT",
    "(",
];

impl Parser<'_> {
    /// Parses the whole text as one query.
    pub(super) fn only_query(&mut self) -> Result<Query> {
        let query = self.statement_with_lets()?;
        while self.accept(Symbol::Semicolon)? {}
        match self.peek()?.kind {
            TokenKind::End => Ok(query),
            _ => Err(self
                .unexpected(["the end of the query"])
                .suggest("Send one statement at a time.")),
        }
    }

    /// Parses one of several queries, with its semicolons. Without a semicolon the text must end.
    pub(super) fn next_query(&mut self) -> Result<Query> {
        let query = self.statement_with_lets()?;
        let mut closed = false;
        while self.accept(Symbol::Semicolon)? {
            closed = true;
        }
        match self.peek()?.kind {
            TokenKind::End => Ok(query),
            _ if closed => Ok(query),
            _ => Err(self
                .unexpected([";", "the end of the query"])
                .suggest("End each statement with a semicolon.")),
        }
    }

    fn statement_with_lets(&mut self) -> Result<Query> {
        if self.peek()?.kind == TokenKind::End {
            return Err(CalError::new(Code::E014, "The query is empty.").at(self.here()));
        }
        self.version()?;
        let lets = self.lets(0)?;
        let statement = self.statement()?;
        let query = Query { lets, statement };
        check::bindings::references(&query)?;
        Ok(query)
    }

    /// Takes `CAL/1`, if it is next.
    fn version(&mut self) -> Result<()> {
        if !self.accept_keyword(Keyword::Cal)? {
            return Ok(());
        }
        self.require(Symbol::Slash)?;
        let (version, span) = self.number()?;
        if version != Number::from(1u32) {
            return Err(
                CalError::new(Code::E100, format!("CAL/{version} is not supported.")).at(span),
            );
        }
        Ok(())
    }

    /// Parses LETs, where `before` precede them.
    fn lets(&mut self, before: usize) -> Result<Vec<Let>> {
        let mut lets: Vec<Let> = Vec::new();
        while self.next_is_keyword(Keyword::Let)? {
            let start = self.take()?.span;
            check::bindings::let_count(before + lets.len(), start)?;
            let binding = self.binding(&lets)?;
            lets.push(binding);
        }
        Ok(lets)
    }

    /// Parses a LET after its keyword; its name must differ from those of `earlier`.
    fn binding(&mut self, earlier: &[Let]) -> Result<Let> {
        let name = self.parameter()?;
        if earlier.iter().any(|binding| binding.name == name.name) {
            return Err(check::bindings::duplicate_name(&name.name, name.span));
        }
        self.require(Symbol::Equal)?;
        let mut query = self.recall()?;
        let extract = super::stage::take_extractor(&mut query);
        self.require(Symbol::Semicolon)?;
        Ok(Let {
            name: name.name,
            query,
            extract,
            span: name.span,
        })
    }

    fn statement(&mut self) -> Result<Statement> {
        if self.next_is(Symbol::OpenParen)? {
            return Ok(Statement::SetOperation(Box::new(
                self.outermost_set_operation()?,
            )));
        }
        match self.next_keyword()? {
            Some(Keyword::Recall) => Ok(Statement::Recall(Box::new(self.recall()?))),
            Some(Keyword::Assemble) => Ok(Statement::Assemble(Box::new(self.assemble()?))),
            Some(Keyword::Exists) => self.exists().map(Statement::Exists),
            Some(Keyword::History) => self.history().map(Statement::History),
            Some(Keyword::Explain) => self.explain().map(Statement::Explain),
            Some(Keyword::Describe) => self.describe().map(Statement::Describe),
            Some(Keyword::Batch) => self.batch().map(Statement::Batch),
            Some(Keyword::Coalesce) => self.coalesce().map(Statement::Coalesce),
            Some(Keyword::Define) => self.define().map(Statement::DefineTemplate),
            Some(Keyword::Add) => self.add().map(Statement::Add),
            Some(Keyword::Supersede) => self.supersede().map(Statement::Supersede),
            Some(Keyword::Revert) => self.revert().map(Statement::Revert),
            _ => Err(self.unexpected(STATEMENTS)),
        }
    }

    /// Parses an outermost set operation.
    pub(super) fn outermost_set_operation(&mut self) -> Result<SetOperation> {
        let start = self.here();
        let operation = self.set_operation()?;
        check::assemble::set_operands(&operation, self.since(start))?;
        Ok(operation)
    }

    fn set_operation(&mut self) -> Result<SetOperation> {
        let left = self.set_operand()?;
        let operator = match self.next_keyword()? {
            Some(Keyword::Union) => SetOperator::Union,
            Some(Keyword::Intersect) => SetOperator::Intersect,
            Some(Keyword::Except) => SetOperator::Except,
            _ => return Err(self.unexpected(SetOperator::NAMES.iter().copied())),
        };
        self.take()?;
        let right = self.set_operand()?;
        Ok(SetOperation {
            operator,
            left,
            right,
        })
    }

    fn set_operand(&mut self) -> Result<SetOperand> {
        let start = self.require(Symbol::OpenParen)?;
        // Each pair of parentheses contains at least one query more than the pair inside it.
        if self.operands == limits::MAX_SET_OPERANDS {
            return Err(
                CalError::new(Code::E013, "Set operations are nested too deeply.").at(start),
            );
        }
        self.operands += 1;
        self.version()?;
        let lets = self.lets(0)?;
        let body = self.set_body()?;
        while self.accept(Symbol::Semicolon)? {}
        self.operands -= 1;
        self.require(Symbol::CloseParen)?;
        Ok(SetOperand { lets, body })
    }

    fn set_body(&mut self) -> Result<SetBody> {
        if self.next_is(Symbol::OpenParen)? {
            return Ok(SetBody::SetOperation(Box::new(self.set_operation()?)));
        }
        match self.next_keyword()? {
            Some(Keyword::Recall) => {
                let recall = self.recall()?;
                check::operand_shape(&recall)?;
                Ok(SetBody::Recall(Box::new(recall)))
            }
            Some(other) if other.begins_statement() => {
                let span = self.here();
                Err(check::not_an_operand(other.name(), span))
            }
            _ => Err(self.unexpected(["RECALL", "("])),
        }
    }
}

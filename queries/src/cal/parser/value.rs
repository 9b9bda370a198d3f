//! Literals, parameters, names, fields.

use super::{Parser, STRING};
use crate::cal::ast::{Address, Field, Parameter, Target, Value};
use crate::cal::check;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::grain_type::GrainType;
use crate::cal::keywords::{Keyword, is_excluded};
use crate::cal::lexer::{Symbol, TokenKind, excluded_word};
use crate::cal::limits;
use crate::cal::number::Number;
use crate::cal::span::Span;

impl<'a> Parser<'a> {
    /// Parses a value of any type.
    pub(super) fn value(&mut self) -> Result<(Value, Span)> {
        let start = self.here();
        let value = self.value_at(0)?;
        Ok((value, self.since(start)))
    }

    fn value_at(&mut self, depth: usize) -> Result<Value> {
        match self.peek()?.kind {
            TokenKind::Symbol(Symbol::OpenBracket) => self.array_at(depth).map(Value::Array),
            TokenKind::Parameter(_) => self.parameter().map(Value::Parameter),
            TokenKind::Text(_)
            | TokenKind::Number(_)
            | TokenKind::Hash(_)
            | TokenKind::Word {
                keyword: Some(Keyword::True | Keyword::False),
                ..
            } => self.literal(),
            _ => Err(self.unexpected([
                STRING,
                "a number",
                "TRUE",
                "FALSE",
                "a hash",
                "a parameter",
                "[",
            ])),
        }
    }

    /// Converts the next token to a value.
    fn literal(&mut self) -> Result<Value> {
        let token = self.take()?;
        match token.kind {
            TokenKind::Text(text) => Ok(Value::Text(text.into_owned())),
            TokenKind::Number(number) => Ok(Value::Number(number)),
            TokenKind::Hash(digits) => address(digits, token.span).map(Value::Hash),
            kind => Ok(Value::Boolean(matches!(
                kind,
                TokenKind::Word {
                    keyword: Some(Keyword::True),
                    ..
                }
            ))),
        }
    }

    /// Parses an array, whose opening bracket is next.
    pub(super) fn array(&mut self) -> Result<Vec<Value>> {
        self.array_at(0)
    }

    fn array_at(&mut self, depth: usize) -> Result<Vec<Value>> {
        let start = self.require(Symbol::OpenBracket)?;
        if depth == limits::MAX_ARRAY_DEPTH {
            return Err(CalError::new(Code::E007, "Arrays are nested too deeply.")
                .at(start)
                .suggest("Use a flat array."));
        }
        if self.accept(Symbol::CloseBracket)? {
            return Ok(Vec::new());
        }
        let values = self.list(|parser| parser.value_at(depth + 1))?;
        match self.accept(Symbol::CloseBracket)? {
            true => Ok(values),
            false => Err(self.unexpected([",", "]"])),
        }
    }

    pub(super) fn parameter(&mut self) -> Result<Parameter> {
        let TokenKind::Parameter(name) = self.peek()?.kind else {
            return Err(self.unexpected(["a parameter"]));
        };
        let span = self.take()?.span;
        self.checker.parameter(name, span)
    }

    /// Parses a string literal.
    pub(super) fn text(&mut self) -> Result<(String, Span)> {
        if !matches!(self.peek()?.kind, TokenKind::Text(_)) {
            return Err(self.unexpected([STRING]));
        }
        let token = self.take()?;
        match token.kind {
            TokenKind::Text(text) => Ok((text.into_owned(), token.span)),
            _ => Err(CalError::new(Code::E002, "Expected a string.").at(token.span)),
        }
    }

    /// Parses a number.
    pub(super) fn number(&mut self) -> Result<(Number, Span)> {
        if !matches!(self.peek()?.kind, TokenKind::Number(_)) {
            return Err(self.unexpected(["a number"]));
        }
        let token = self.take()?;
        match token.kind {
            TokenKind::Number(number) => Ok((number, token.span)),
            _ => Err(CalError::new(Code::E002, "Expected a number.").at(token.span)),
        }
    }

    /// Parses an integer from 1. Numbers out of range saturate.
    pub(super) fn positive(&mut self) -> Result<(u64, Span)> {
        let (number, span) = self.number()?;
        Ok((check::positive(&number, span)?, span))
    }

    /// Parses a content address or a parameter.
    pub(super) fn target(&mut self) -> Result<Target> {
        let token = self.peek()?;
        match token.kind {
            TokenKind::Parameter(_) => self.parameter().map(Target::Parameter),
            TokenKind::Hash(_) => self.address().map(Target::Address),
            _ => Err(self.unexpected(["a hash", "a parameter"])),
        }
    }

    /// Parses a content address.
    pub(super) fn address(&mut self) -> Result<Address> {
        let TokenKind::Hash(digits) = self.peek()?.kind else {
            return Err(self.unexpected(["a hash"]));
        };
        let span = self.take()?.span;
        address(digits, span)
    }

    /// Parses a word.
    pub(super) fn word(&mut self, expected: &str) -> Result<(&'a str, Span)> {
        match self.peek()?.kind {
            TokenKind::Word { text, .. } => Ok((text, self.take()?.span)),
            _ => Err(self.unexpected([expected])),
        }
    }

    /// Parses a name: of a context, a template or a label.
    pub(super) fn name(&mut self, expected: &str) -> Result<(String, Span)> {
        let (text, span) = self.word(expected)?;
        Ok((check::name(text, span)?, span))
    }

    /// Parses a field of a query over grains of `grain_type`. A colon makes it a domain field.
    pub(super) fn field(&mut self, grain_type: Option<GrainType>) -> Result<(Field, Span)> {
        let (name, span) = self.field_word()?;
        match self.domain_rest(name, span)? {
            Some(field) => Ok(field),
            None => Ok((check::field::resolve(name, grain_type, span)?, span)),
        }
    }

    /// Parses the first word of a field.
    ///
    /// A keyword is an (unknown) field only if the next token can follow a field; otherwise it
    /// begins a misplaced clause.
    pub(super) fn field_word(&mut self) -> Result<(&'a str, Span)> {
        let [second] = self.peek_after()?;
        let token = self.peek()?;
        let TokenKind::Word { text, keyword } = token.kind else {
            return Err(self.unexpected(["a field"]));
        };
        if is_excluded(text) {
            return Err(excluded_word(text, token.span));
        }
        let known = crate::cal::KnownField::from_name(text).is_some();
        let like_field = known || second.is_some_and(|token| can_follow_field(&token.kind));
        let is_operator = matches!(keyword, Some(Keyword::Not | Keyword::Or | Keyword::And));
        if keyword.is_some() && (!like_field || is_operator) {
            return Err(self.unexpected(["a field"]));
        }
        Ok((text, self.take()?.span))
    }

    /// Parses the rest of a domain field after its prefix, if a colon and a name follow.
    pub(super) fn domain_rest(
        &mut self,
        prefix: &str,
        start: Span,
    ) -> Result<Option<(Field, Span)>> {
        if !self.next_is(Symbol::Colon)? {
            return Ok(None);
        }
        self.take()?;
        let (name, end) = self.word("the name of a domain field")?;
        let span = start.to(end);
        Ok(Some((
            check::field::domain(&mut self.checker, prefix, name, span),
            span,
        )))
    }
}

/// Returns the address of digits that the lexer has checked.
fn address(digits: &str, span: Span) -> Result<Address> {
    Address::from_digits(digits).ok_or_else(|| crate::cal::lexer::bad_address(digits).at(span))
}

/// Returns true for tokens that can follow a field: an operator, a comma or bracket, the end.
fn can_follow_field(kind: &TokenKind) -> bool {
    match kind {
        TokenKind::Symbol(symbol) => *symbol != Symbol::OpenParen,
        TokenKind::Word { keyword, .. } => {
            matches!(
                keyword,
                Some(
                    Keyword::In
                        | Keyword::Between
                        | Keyword::Include
                        | Keyword::Exclude
                        | Keyword::Is
                )
            )
        }
        TokenKind::End => true,
        TokenKind::Text(_)
        | TokenKind::Number(_)
        | TokenKind::Hash(_)
        | TokenKind::Parameter(_) => false,
    }
}

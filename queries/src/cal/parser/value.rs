//! Literals, parameters, names, fields.

use super::Parser;
use crate::cal::ast::{Address, Field, Parameter, Target, Value};
use crate::cal::check;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::grain_type::GrainType;
use crate::cal::lexer::{Kind, Symbol, excluded_word};
use crate::cal::limits;
use crate::cal::number::Number;
use crate::cal::span::Span;
use crate::cal::words::{Keyword, is_excluded};

impl<'a> Parser<'a> {
    /// A value of any kind.
    pub(super) fn value(&mut self) -> Result<(Value, Span)> {
        let start = self.here();
        let value = self.value_at(0)?;
        Ok((value, self.since(start)))
    }

    fn value_at(&mut self, depth: usize) -> Result<Value> {
        match self.peek()?.kind {
            Kind::Symbol(Symbol::OpenBracket) => self.array_at(depth).map(Value::Array),
            Kind::Parameter(_) => self.parameter().map(Value::Parameter),
            Kind::Text(_)
            | Kind::Number(_)
            | Kind::Hash(_)
            | Kind::Word {
                keyword: Some(Keyword::True | Keyword::False),
                ..
            } => self.literal(),
            _ => Err(self.unexpected([
                "a string",
                "a number",
                "TRUE",
                "FALSE",
                "a hash",
                "a parameter",
                "[",
            ])),
        }
    }

    /// The next token as a value.
    fn literal(&mut self) -> Result<Value> {
        let token = self.take()?;
        match token.kind {
            Kind::Text(text) => Ok(Value::Text(text.into_owned())),
            Kind::Number(number) => Ok(Value::Number(number)),
            Kind::Hash(digits) => address(digits, token.span).map(Value::Hash),
            kind => Ok(Value::Boolean(matches!(
                kind,
                Kind::Word {
                    keyword: Some(Keyword::True),
                    ..
                }
            ))),
        }
    }

    /// An array; the next token is checked to open one.
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
        let Kind::Parameter(name) = self.peek()?.kind else {
            return Err(self.unexpected(["a parameter"]));
        };
        let span = self.take()?.span;
        self.checker.parameter(name, span)
    }

    /// A string literal.
    pub(super) fn text(&mut self) -> Result<(String, Span)> {
        if !matches!(self.peek()?.kind, Kind::Text(_)) {
            return Err(self.unexpected(["a string"]));
        }
        let token = self.take()?;
        match token.kind {
            Kind::Text(text) => Ok((text.into_owned(), token.span)),
            _ => Err(CalError::new(Code::E002, "Expected a string.").at(token.span)),
        }
    }

    /// A number.
    pub(super) fn number(&mut self) -> Result<(Number, Span)> {
        if !matches!(self.peek()?.kind, Kind::Number(_)) {
            return Err(self.unexpected(["a number"]));
        }
        let token = self.take()?;
        match token.kind {
            Kind::Number(number) => Ok((number, token.span)),
            _ => Err(CalError::new(Code::E002, "Expected a number.").at(token.span)),
        }
    }

    /// A whole number from 1; larger ones than fit are the largest that does.
    pub(super) fn positive(&mut self) -> Result<(u64, Span)> {
        let (number, span) = self.number()?;
        Ok((check::positive(&number, span)?, span))
    }

    /// A content address or a parameter.
    pub(super) fn target(&mut self) -> Result<Target> {
        let token = self.peek()?;
        match token.kind {
            Kind::Parameter(_) => self.parameter().map(Target::Parameter),
            Kind::Hash(_) => self.address().map(Target::Address),
            _ => Err(self.unexpected(["a hash", "a parameter"])),
        }
    }

    /// A content address.
    pub(super) fn address(&mut self) -> Result<Address> {
        let Kind::Hash(digits) = self.peek()?.kind else {
            return Err(self.unexpected(["a hash"]));
        };
        let span = self.take()?.span;
        address(digits, span)
    }

    /// A word.
    pub(super) fn word(&mut self, expected: &str) -> Result<(&'a str, Span)> {
        match self.peek()?.kind {
            Kind::Word { text, .. } => Ok((text, self.take()?.span)),
            _ => Err(self.unexpected([expected])),
        }
    }

    /// A name: of a context, a template, a label.
    pub(super) fn name(&mut self, expected: &str) -> Result<(String, Span)> {
        let (text, span) = self.word(expected)?;
        Ok((check::name(text, span)?, span))
    }

    /// A field of a query over grains of `grain_type`; with a colon behind it, of a domain.
    pub(super) fn field(&mut self, grain_type: Option<GrainType>) -> Result<(Field, Span)> {
        let (name, span) = self.field_word()?;
        match self.domain_rest(name, span)? {
            Some(field) => Ok(field),
            None => Ok((check::field::resolve(name, grain_type, span)?, span)),
        }
    }

    /// The first word of a field.
    ///
    /// Keywords are (unknown) fields only if what follows could follow a field; else a clause
    /// begins where none may.
    pub(super) fn field_word(&mut self) -> Result<(&'a str, Span)> {
        let [second] = self.behind()?;
        let token = self.peek()?;
        let Kind::Word { text, keyword } = token.kind else {
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

    /// The field of a domain whose prefix was read, if a colon and a name follow.
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

/// The address of digits that the lexer has checked.
fn address(digits: &str, span: Span) -> Result<Address> {
    Address::from_digits(digits).ok_or_else(|| crate::cal::lexer::bad_address(digits).at(span))
}

/// True for what can stand behind a field: an operator, a comma or bracket, the end.
fn can_follow_field(kind: &Kind) -> bool {
    match kind {
        Kind::Symbol(symbol) => *symbol != Symbol::OpenParen,
        Kind::Word { keyword, .. } => {
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
        Kind::End => true,
        Kind::Text(_) | Kind::Number(_) | Kind::Hash(_) | Kind::Parameter(_) => false,
    }
}

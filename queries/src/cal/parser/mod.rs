//! Recursive descent parser from tokens to a syntax tree (CAL 1.0, section 4).
//!
//! | module | what it parses |
//! |---|---|
//! | this one | the token stream: peek, take, accept, require |
//! | [`query`] | a whole query: version, LETs, statement |
//! | [`recall`] | RECALL and its clauses |
//! | [`condition`] | WHERE |
//! | [`stage`] | the pipeline |
//! | [`option`] | WITH |
//! | [`assemble`] | ASSEMBLE, templates |
//! | [`statement`] | the other statements |
//! | [`value`] | literals, parameters, names |
//!
//! Recursion is bounded by errors of the language, never by the stack: subqueries and arrays by
//! E007, set operands by E013. Tokens are read on demand, so the leftmost of several errors is
//! reported. Rules about a whole statement are checked at its end.

mod assemble;
mod condition;
mod option;
mod query;
mod recall;
mod stage;
mod statement;
mod value;

use super::check::Checker;
use super::error::{CalError, Code, Result};
use super::keywords::Keyword;
use super::lexer::{Lexer, Symbol, Token, TokenKind};
use super::limits;
use super::span::Span;
use super::{Options, Parsed};

/// Parses and checks a query in text form.
///
/// # Errors
/// The leftmost error, with its position.
pub fn parse(text: &str, options: Options) -> Result<Parsed> {
    parse_bytes(text.as_bytes(), options)
}

/// [`parse`] for text that may not be UTF-8.
///
/// # Errors
/// E001 for too many bytes, E070 for invalid UTF-8, E014 for an empty query, otherwise those of
/// [`parse`].
pub fn parse_bytes(bytes: &[u8], options: Options) -> Result<Parsed> {
    if bytes.len() > limits::MAX_QUERY_BYTES {
        return Err(too_long(bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let span = Span::new(at, at + error.error_len().unwrap_or(bytes.len() - at));
        CalError::new(Code::E070, format!("Byte {at} is not UTF-8."))
            .at(span)
            .located(bytes)
    })?;
    let mut parser = Parser::new(text, options);
    let query = parser.only_query().map_err(|error| error.located(bytes))?;
    Ok(Parsed {
        query,
        warnings: parser.checker.warnings,
    })
}

/// Splits a text into its queries, each including its semicolons. A query in JSON is the only one
/// of its text.
///
/// # Errors
/// Those of [`parse_bytes`] for the first invalid query, with positions in the whole text. Callers
/// should then run none of the queries.
pub fn split(bytes: &[u8], options: Options) -> Result<Vec<&[u8]>> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return parse_bytes(bytes, options).map(|_| vec![bytes]);
    };
    if text.trim_start().starts_with('{') {
        return Ok(vec![bytes]);
    }
    let mut parser = Parser::new(text, options);
    let mut queries = Vec::new();
    let mut start = 0;
    loop {
        // A query extends at least to the next semicolon, even if that is inside of a string.
        let rest = bytes.get(start..).unwrap_or_default();
        let least = rest
            .iter()
            .position(|byte| *byte == b';')
            .unwrap_or(rest.len());
        if least > limits::MAX_QUERY_BYTES {
            return Err(too_long(least));
        }
        let read = parser
            .next_query()
            .and_then(|_| Ok(parser.peek()?.kind == TokenKind::End));
        let is_last = read.map_err(|error| error.located(bytes))?;
        let end = if is_last {
            bytes.len()
        } else {
            parser.end as usize
        };
        queries.push(bytes.get(start..end).unwrap_or_default());
        if is_last {
            return Ok(queries);
        }
        start = end;
        // Counters and warnings belong to one query.
        parser.checker = Checker::new(options);
    }
}

fn too_long(bytes: usize) -> CalError {
    CalError::new(Code::E001, format!("The query has {bytes} bytes."))
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token, if it was peeked.
    ahead: Option<Token<'a>>,
    /// End offset of the last taken token.
    end: u32,
    /// Number of open subqueries.
    subqueries: usize,
    /// Number of open parentheses of set operations.
    operands: usize,
    checker: Checker,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, options: Options) -> Parser<'a> {
        Parser {
            lexer: Lexer::new(text),
            ahead: None,
            end: 0,
            subqueries: 0,
            operands: 0,
            checker: Checker::new(options),
        }
    }

    /// Returns the next token without taking it. An error in it is reported each time.
    fn peek(&mut self) -> Result<&Token<'a>> {
        let token = self.next_token()?;
        Ok(self.ahead.insert(token))
    }

    /// Returns the peeked token or reads the next one. The lexer stays before a token with an
    /// error.
    fn next_token(&mut self) -> Result<Token<'a>> {
        if let Some(token) = self.ahead.take() {
            return Ok(token);
        }
        let mut lexer = self.lexer;
        let token = lexer.token()?;
        self.lexer = lexer;
        Ok(token)
    }

    /// Returns the tokens after the next one, up to the first error, which is only reported when it
    /// is reached.
    fn peek_after<const N: usize>(&mut self) -> Result<[Option<Token<'a>>; N]> {
        self.peek()?;
        let mut lexer = self.lexer;
        Ok(std::array::from_fn(|_| lexer.token().ok()))
    }

    /// Takes the next token.
    fn take(&mut self) -> Result<Token<'a>> {
        let token = self.next_token()?;
        self.end = token.span.end;
        Ok(token)
    }

    fn next_is(&mut self, symbol: Symbol) -> Result<bool> {
        Ok(self.peek()?.is(symbol))
    }

    fn next_keyword(&mut self) -> Result<Option<Keyword>> {
        Ok(self.peek()?.keyword())
    }

    fn next_is_keyword(&mut self, keyword: Keyword) -> Result<bool> {
        Ok(self.next_keyword()? == Some(keyword))
    }

    /// Takes the next token if it is `symbol`.
    fn accept(&mut self, symbol: Symbol) -> Result<bool> {
        let found = self.next_is(symbol)?;
        if found {
            self.take()?;
        }
        Ok(found)
    }

    /// Takes the next token if it is `keyword`.
    fn accept_keyword(&mut self, keyword: Keyword) -> Result<bool> {
        let found = self.next_is_keyword(keyword)?;
        if found {
            self.take()?;
        }
        Ok(found)
    }

    /// Takes `symbol`, or fails.
    fn require(&mut self, symbol: Symbol) -> Result<Span> {
        if self.next_is(symbol)? {
            Ok(self.take()?.span)
        } else {
            Err(self.unexpected([symbol.text()]))
        }
    }

    /// Takes `keyword`, or fails.
    fn require_keyword(&mut self, keyword: Keyword) -> Result<Span> {
        if self.next_is_keyword(keyword)? {
            Ok(self.take()?.span)
        } else {
            Err(self.unexpected([keyword.name()]))
        }
    }

    /// Returns the error that the next token is none of `expected`, or the error in the token
    /// itself.
    fn unexpected<T: Into<String>>(&mut self, expected: impl IntoIterator<Item = T>) -> CalError {
        let token = match self.peek() {
            Ok(token) => token.clone(),
            Err(error) => return error,
        };
        let expected: Vec<String> = expected.into_iter().map(Into::into).collect();
        let found = describe(&token);
        let message = match expected.as_slice() {
            [] => format!("Unexpected {found}."),
            [one] => format!("Expected {one}, found {found}."),
            [most @ .., last] => format!("Expected {} or {last}, found {found}.", most.join(", ")),
        };
        let is_unquoted = matches!(token.kind, TokenKind::Word { keyword: None, .. })
            && expected.iter().any(|one| one == STRING);
        let error = CalError::new(Code::E002, message)
            .at(token.span)
            .expected(expected);
        match is_unquoted {
            true => error.suggest(format!("Write strings in double quotes: {found}.")),
            false => error,
        }
    }

    /// Returns the position of the next token, for errors about missing parts.
    fn here(&mut self) -> Span {
        self.peek().map_or(Span::default(), |token| token.span)
    }

    /// Returns the span from `start` to the last taken token.
    fn since(&self, start: Span) -> Span {
        start.to(Span {
            start: self.end,
            end: self.end,
        })
    }

    /// Parses a list with commas. `item` parses one element.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(Symbol::Comma)? {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Like [`Parser::list`], for lists inside a BATCH or a COALESCE, whose commas separate
    /// queries: a comma before RECALL or before a label ends the list.
    fn open_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.comma_continues()? {
            self.take()?;
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn comma_continues(&mut self) -> Result<bool> {
        if !self.next_is(Symbol::Comma)? {
            return Ok(false);
        }
        let [first, second, third] = self.peek_after()?;
        let labelled = second.is_some_and(|token| token.is(Symbol::Colon))
            && third
                .as_ref()
                .and_then(Token::keyword)
                .is_some_and(Keyword::begins_statement);
        Ok(!labelled && first.as_ref().and_then(Token::keyword) != Some(Keyword::Recall))
    }
}

/// The description of a string in messages.
const STRING: &str = "a string";

/// Returns the description of a token in messages.
fn describe(token: &Token) -> String {
    match &token.kind {
        TokenKind::Word { text, .. } => {
            format!("\"{}\"", text.chars().take(64).collect::<String>())
        }
        TokenKind::Text(_) => STRING.to_owned(),
        TokenKind::Number(number) => format!(
            "the number {}",
            number.as_str().chars().take(64).collect::<String>()
        ),
        TokenKind::Hash(_) => "a hash".to_owned(),
        TokenKind::Parameter(name) => format!(
            "the parameter ${}",
            name.chars().take(64).collect::<String>()
        ),
        TokenKind::Symbol(symbol) => format!("\"{}\"", symbol.text()),
        TokenKind::End => "the end of the query".to_owned(),
    }
}

/// Parses the whole `text` as a literal.
pub(super) fn literal(text: &str) -> Option<super::ast::Value> {
    let mut parser = Parser::new(text, Options::default());
    let (value, _) = parser.value().ok()?;
    let whole = parser.peek().ok()?.kind == TokenKind::End;
    (whole && !matches!(value, super::ast::Value::Parameter(_))).then_some(value)
}

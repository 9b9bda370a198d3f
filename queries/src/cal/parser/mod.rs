//! Tokens to syntax tree, by recursive descent (CAL 1.0, section 4).
//!
//! | module | what it reads |
//! |---|---|
//! | this one | the token stream: looking, taking, expecting |
//! | [`query`] | a whole query: version, LETs, which statement |
//! | [`recall`] | RECALL and its clauses |
//! | [`condition`] | WHERE |
//! | [`stage`] | the pipeline |
//! | [`option`] | WITH |
//! | [`assemble`] | ASSEMBLE, templates |
//! | [`statement`] | the other statements |
//! | [`value`] | literals, parameters, names |
//!
//! Recursion is bounded by codes of the language, never by the stack: subqueries by E007, set
//! operands by E013, arrays by E007. A token is read only when it is looked at, so of several
//! errors the leftmost is reported; what concerns a whole statement is checked at its end.

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
use super::lexer::{Kind, Lexer, Symbol, Token};
use super::limits;
use super::span::Span;
use super::words::Keyword;
use super::{Options, Parsed};

/// Reads and checks a query in text form.
///
/// # Errors
/// The leftmost error, with its position.
pub fn parse(text: &str, options: Options) -> Result<Parsed> {
    parse_bytes(text.as_bytes(), options)
}

/// [`parse`] for text that may not be UTF-8.
///
/// # Errors
/// E001 for too many bytes, E070 for bytes that are not UTF-8, E014 for an empty query, else as
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
    let query = parser.whole().map_err(|error| error.located(bytes))?;
    Ok(Parsed {
        query,
        warnings: parser.checker.warnings,
    })
}

/// The queries of a text, one after the other, each as written up to its semicolons. A query in
/// JSON stands alone.
///
/// # Errors
/// As [`parse_bytes`] for the first query that isn't one, located in the whole text: then none of
/// them should be run.
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
        // A query is at least as long as up to the next semicolon, wherever that stands.
        let rest = bytes.get(start..).unwrap_or_default();
        let least = rest
            .iter()
            .position(|byte| *byte == b';')
            .unwrap_or(rest.len());
        if least > limits::MAX_QUERY_BYTES {
            return Err(too_long(least));
        }
        let read = parser
            .one()
            .and_then(|_| Ok(parser.peek()?.kind == Kind::End));
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
        // What was counted and told belongs to the query before.
        parser.checker = Checker::new(options);
    }
}

fn too_long(bytes: usize) -> CalError {
    CalError::new(Code::E001, format!("The query has {bytes} bytes."))
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token, once it was looked at.
    ahead: Option<Token<'a>>,
    /// Where the last taken token ends.
    end: u32,
    /// How many subqueries are open.
    subqueries: usize,
    /// How many parentheses of set operations are open.
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

    /// The next token, not taken. An error in it stays there: looking again finds it again.
    fn peek(&mut self) -> Result<&Token<'a>> {
        let token = self.next_token()?;
        Ok(self.ahead.insert(token))
    }

    /// The token that was looked at, else the next one of the text. The text stays before a token
    /// that has an error.
    fn next_token(&mut self) -> Result<Token<'a>> {
        if let Some(token) = self.ahead.take() {
            return Ok(token);
        }
        let mut lexer = self.lexer;
        let token = lexer.token()?;
        self.lexer = lexer;
        Ok(token)
    }

    /// The tokens behind the next one, as far as they can be read: an error in them is none before
    /// they are taken.
    fn behind<const N: usize>(&mut self) -> Result<[Option<Token<'a>>; N]> {
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

    /// Takes `symbol`.
    fn require(&mut self, symbol: Symbol) -> Result<Span> {
        if self.next_is(symbol)? {
            Ok(self.take()?.span)
        } else {
            Err(self.unexpected([symbol.text()]))
        }
    }

    /// Takes `keyword`.
    fn require_keyword(&mut self, keyword: Keyword) -> Result<Span> {
        if self.next_is_keyword(keyword)? {
            Ok(self.take()?.span)
        } else {
            Err(self.unexpected([keyword.name()]))
        }
    }

    /// The error that the next token is none of `expected`, or the error in the token itself.
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
        CalError::new(Code::E002, message)
            .at(token.span)
            .expected(expected)
    }

    /// Where the next token stands, for errors about what isn't there.
    fn here(&mut self) -> Span {
        self.peek().map_or(Span::default(), |token| token.span)
    }

    /// From `start` to the last taken token.
    fn since(&self, start: Span) -> Span {
        start.to(Span {
            start: self.end,
            end: self.end,
        })
    }

    /// Items separated by commas; `item` reads one.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(Symbol::Comma)? {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// As [`Parser::list`], for lists that may stand inside a BATCH or a COALESCE, whose commas
    /// separate queries: a comma before RECALL or before a label is theirs.
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
        let [first, second, third] = self.behind()?;
        let labelled = second.is_some_and(|token| token.is(Symbol::Colon))
            && third
                .as_ref()
                .and_then(Token::keyword)
                .is_some_and(Keyword::begins_statement);
        Ok(!labelled && first.as_ref().and_then(Token::keyword) != Some(Keyword::Recall))
    }
}

/// A token in messages.
fn describe(token: &Token) -> String {
    match &token.kind {
        Kind::Word { text, .. } => format!("\"{}\"", text.chars().take(64).collect::<String>()),
        Kind::Text(_) => "a string".to_owned(),
        Kind::Number(number) => format!(
            "the number {}",
            number.as_str().chars().take(64).collect::<String>()
        ),
        Kind::Hash(_) => "a hash".to_owned(),
        Kind::Parameter(name) => format!(
            "the parameter ${}",
            name.chars().take(64).collect::<String>()
        ),
        Kind::Symbol(symbol) => format!("\"{}\"", symbol.text()),
        Kind::End => "the end of the query".to_owned(),
    }
}

/// The value that all of `text` says, if it is a literal.
pub(super) fn literal(text: &str) -> Option<super::ast::Value> {
    let mut parser = Parser::new(text, Options::default());
    let (value, _) = parser.value().ok()?;
    let whole = parser.peek().ok()?.kind == Kind::End;
    (whole && !matches!(value, super::ast::Value::Parameter(_))).then_some(value)
}

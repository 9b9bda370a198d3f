//! Splits text into tokens (CAL 1.0, section 3).
//!
//! The parser pulls one token at a time, so that errors are reported from left to right, and
//! template text, which has no tokens, can be read raw. The lexer consists of a text and an offset;
//! a copy of it is a lookahead.

use std::borrow::Cow;

use super::error::{CalError, Code, Result};
use super::keywords::{Keyword, is_excluded, is_identifier};
use super::number::Number;
use super::span::Span;
use super::text::{check_bidi, normalise, string_length, template_length, unescape};

/// A punctuation token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Symbol {
    Equal,
    NotEqual,
    AtLeast,
    AtMost,
    Greater,
    Less,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    Comma,
    Colon,
    Semicolon,
    Bar,
    Slash,
}

impl Symbol {
    /// Returns the spelling.
    pub const fn text(self) -> &'static str {
        match self {
            Symbol::Equal => "=",
            Symbol::NotEqual => "!=",
            Symbol::AtLeast => ">=",
            Symbol::AtMost => "<=",
            Symbol::Greater => ">",
            Symbol::Less => "<",
            Symbol::OpenParen => "(",
            Symbol::CloseParen => ")",
            Symbol::OpenBracket => "[",
            Symbol::CloseBracket => "]",
            Symbol::OpenBrace => "{",
            Symbol::CloseBrace => "}",
            Symbol::Comma => ",",
            Symbol::Colon => ":",
            Symbol::Semicolon => ";",
            Symbol::Bar => "|",
            Symbol::Slash => "/",
        }
    }
}

/// The kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenKind<'a> {
    /// An identifier.
    Word {
        /// The spelling.
        text: &'a str,
        /// The keyword, if it is one.
        keyword: Option<Keyword>,
    },
    /// A string, unescaped and normalised.
    Text(Cow<'a, str>),
    /// A number.
    Number(Number),
    /// The digits of a content address or of a prefix.
    Hash(&'a str),
    /// The name of a parameter.
    Parameter(&'a str),
    /// A punctuation token.
    Symbol(Symbol),
    /// The end of the text.
    End,
}

/// A token and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Token<'a> {
    /// The kind.
    pub kind: TokenKind<'a>,
    /// The position.
    pub span: Span,
}

impl Token<'_> {
    /// Returns the keyword, if the token is one.
    pub fn keyword(&self) -> Option<Keyword> {
        match self.kind {
            TokenKind::Word { keyword, .. } => keyword,
            _ => None,
        }
    }

    /// Returns true if the token is this symbol.
    pub fn is(&self, symbol: Symbol) -> bool {
        self.kind == TokenKind::Symbol(symbol)
    }
}

/// A text and the read offset.
#[derive(Debug, Clone, Copy)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Returns a lexer at the start of `text`.
    pub fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// Reads the next token.
    ///
    /// # Errors
    /// E002 for characters and words that are not in the language, E005, E006, E015, E071 for
    /// invalid literals.
    pub fn token(&mut self) -> Result<Token<'a>> {
        self.skip_blanks();
        let start = self.at;
        let kind = self.kind()?;
        Ok(Token {
            kind,
            span: Span::new(start, self.at),
        })
    }

    /// Reads template text up to and including the closing brace (CAL 1.0, section 10.6). Braces
    /// nest; those of tags don't count. Returns `None` if there is no closing brace.
    ///
    /// # Errors
    /// E094 for an unclosed tag.
    pub fn template_text(&mut self) -> Result<Option<(&'a str, Span)>> {
        let start = self.at;
        let length = template_length(&self.text[start..]).map_err(|at| {
            CalError::new(Code::E094, "A template tag has no closing braces.")
                .at(Span::new(start + at, start + at + 2))
        })?;
        let Some(length) = length else {
            return Ok(None);
        };
        self.at = start + length + 1;
        Ok(Some((
            &self.text[start..start + length],
            Span::new(start, start + length),
        )))
    }

    /// Returns the unread bytes.
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace())
                .count();
            self.at += blanks;
            if !rest[blanks..].starts_with(b"--") {
                return;
            }
            let comment = self.rest();
            self.at += comment
                .iter()
                .position(|&byte| byte == b'\n')
                .unwrap_or(comment.len());
        }
    }

    fn kind(&mut self) -> Result<TokenKind<'a>> {
        let rest = self.rest();
        match rest.first() {
            None => Ok(TokenKind::End),
            Some(b'"') => self.string(),
            Some(b'$') => self.parameter(),
            Some(first) if first.is_ascii_alphabetic() => self.word(),
            Some(first) if first.is_ascii_digit() => self.number(),
            Some(b'-') if rest.get(1).is_some_and(u8::is_ascii_digit) => self.number(),
            Some(_) => self.symbol(),
        }
    }

    /// Reads while `test` holds, and returns what was read.
    fn take_while(&mut self, test: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        self.at += self.rest().iter().take_while(|&&byte| test(byte)).count();
        &self.text[start..self.at]
    }

    fn word(&mut self) -> Result<TokenKind<'a>> {
        let start = self.at;
        let text = self.take_while(is_word_byte);
        if text == "sha256" && self.rest().first() == Some(&b':') {
            self.at += 1;
            return self.hash(start);
        }
        // Excluded words. `consent` is also a grain type; the parser rejects it as a name.
        if is_excluded(text) && !text.eq_ignore_ascii_case("consent") {
            return Err(excluded_word(text, Span::new(start, self.at)));
        }
        Ok(TokenKind::Word {
            text,
            keyword: Keyword::from_name(text),
        })
    }

    fn hash(&mut self, start: usize) -> Result<TokenKind<'a>> {
        let digits = self.take_while(|byte| is_word_byte(byte) || byte == b'.');
        match is_address(digits) {
            true => Ok(TokenKind::Hash(digits)),
            false => Err(bad_address(digits).at(Span::new(start, self.at))),
        }
    }

    fn parameter(&mut self) -> Result<TokenKind<'a>> {
        let start = self.at;
        self.at += 1;
        let name = self.take_while(is_word_byte);
        if is_identifier(name) {
            return Ok(TokenKind::Parameter(name));
        }
        Err(CalError::new(
            Code::E002,
            "\"$\" needs the name of a parameter, which begins with a letter.",
        )
        .at(Span::new(start, self.at))
        .example("RECALL beliefs WHERE subject = $subject"))
    }

    fn number(&mut self) -> Result<TokenKind<'a>> {
        let start = self.at;
        self.take_decimal();
        let written = &self.text[start..self.at];
        let glued = self.take_while(|byte| is_word_byte(byte) || byte == b'.' || !byte.is_ascii());
        match Number::parse(written) {
            Some(number) if glued.is_empty() => Ok(TokenKind::Number(number)),
            _ => Err(
                CalError::new(Code::E006, format!("\"{written}{glued}\" is not a number."))
                    .at(Span::new(start, self.at))
                    .suggest(
                        "Write digits with an optional fraction, without exponent: 0.8, -1, 42.",
                    ),
            ),
        }
    }

    /// Takes digits with an optional sign and fraction.
    fn take_decimal(&mut self) {
        self.at += usize::from(self.rest().first() == Some(&b'-'));
        self.take_while(|byte| byte.is_ascii_digit());
        if let [b'.', digit, ..] = self.rest()
            && digit.is_ascii_digit()
        {
            self.at += 1;
            self.take_while(|byte| byte.is_ascii_digit());
        }
    }

    fn string(&mut self) -> Result<TokenKind<'a>> {
        let start = self.at;
        let Some((length, escaped)) = string_length(&self.rest()[1..]) else {
            let end = self.text.len();
            self.at = end;
            return Err(CalError::new(Code::E005, "A string has no closing quote.")
                .at(Span::new(start, end)));
        };
        let inner = &self.text[start + 1..start + 1 + length];
        self.at = start + length + 2;
        let text = if escaped {
            Cow::Owned(unescape(inner))
        } else {
            Cow::Borrowed(inner)
        };
        check_bidi(&text).map_err(|error| error.at(Span::new(start, self.at)))?;
        Ok(TokenKind::Text(normalise(text)))
    }

    fn symbol(&mut self) -> Result<TokenKind<'a>> {
        let (symbol, length) = match self.rest() {
            [b'!', b'=', ..] => (Symbol::NotEqual, 2),
            [b'>', b'=', ..] => (Symbol::AtLeast, 2),
            [b'<', b'=', ..] => (Symbol::AtMost, 2),
            [b'=', ..] => (Symbol::Equal, 1),
            [b'>', ..] => (Symbol::Greater, 1),
            [b'<', ..] => (Symbol::Less, 1),
            [b'(', ..] => (Symbol::OpenParen, 1),
            [b')', ..] => (Symbol::CloseParen, 1),
            [b'[', ..] => (Symbol::OpenBracket, 1),
            [b']', ..] => (Symbol::CloseBracket, 1),
            [b'{', ..] => (Symbol::OpenBrace, 1),
            [b'}', ..] => (Symbol::CloseBrace, 1),
            [b',', ..] => (Symbol::Comma, 1),
            [b':', ..] => (Symbol::Colon, 1),
            [b';', ..] => (Symbol::Semicolon, 1),
            [b'|', ..] => (Symbol::Bar, 1),
            [b'/', ..] => (Symbol::Slash, 1),
            _ => return Err(self.stray_character()),
        };
        self.at += length;
        Ok(TokenKind::Symbol(symbol))
    }

    fn stray_character(&self) -> CalError {
        let character = self.text[self.at..].chars().next().unwrap_or_default();
        let span = Span::new(self.at, self.at + character.len_utf8());
        let error = CalError::new(
            Code::E002,
            format!("The character {character:?} has no meaning here."),
        )
        .at(span);
        match character {
            '\'' | '`' | '“' | '”' => error.suggest("Write strings in double quotes."),
            '*' => error.suggest("Leave the type out to recall grains of every type."),
            '+' | '.' => {
                error.suggest("Write numbers without plus and with a digit before the point.")
            }
            _ => error,
        }
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the error for an excluded word.
pub(super) fn excluded_word(word: &str, span: Span) -> CalError {
    CalError::new(Code::E002, format!("\"{word}\" is not part of CAL.")).at(span).suggest(
        "CAL reads and appends; it has no words for removal, keys, policies or schemas, and they \
         can't be names.",
    )
}

/// Returns true for 8 to 64 lower-case hexadecimal digits.
pub(super) fn is_address(digits: &str) -> bool {
    (8..=64).contains(&digits.len())
        && digits
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the error for an invalid address after `sha256:`.
pub(super) fn bad_address(digits: &str) -> CalError {
    let shown: String = digits.chars().take(70).collect();
    CalError::new(
        Code::E015,
        format!("\"sha256:{shown}\" is not a content address."),
    )
    .example("EXISTS sha256:3288d0d41cf49a1d428e404f0b6a6fe60388be9536937557f6139b813d53a520")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Result<Vec<TokenKind<'_>>> {
        let mut lexer = Lexer::new(text);
        let mut kinds = Vec::new();
        loop {
            let token = lexer.token()?;
            if token.kind == TokenKind::End {
                return Ok(kinds);
            }
            kinds.push(token.kind);
        }
    }

    fn code(text: &str) -> Code {
        kinds(text).expect_err(text).code()
    }

    fn only_text(text: &str) -> String {
        match kinds(text).unwrap().as_slice() {
            [TokenKind::Text(text)] => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn comments_end_with_the_line_and_strings_have_none() {
        assert_eq!(kinds("a -- b \"\n--c\r\nd").unwrap().len(), 2);
        assert_eq!(only_text("\"a -- b\" -- end"), "a -- b");
        assert_eq!(kinds("--").unwrap(), []);
        assert_eq!(kinds("1--2").unwrap().len(), 1);
    }

    #[test]
    fn strings_unescape_quotes_and_backslashes_only() {
        assert_eq!(only_text(r#""a\"b""#), "a\"b");
        assert_eq!(only_text(r#""a\\""#), "a\\");
    }

    #[test]
    fn other_backslashes_are_literal() {
        assert_eq!(only_text(r#""a\n\u0041\t""#), r"a\n\u0041\t");
        assert_eq!(only_text(r#""\\n""#), r"\n");
        assert_eq!(code(r#""a\""#), Code::E005);
        assert_eq!(code(r#""a\\\""#), Code::E005);
        assert_eq!(only_text("\"two\nlines\""), "two\nlines");
    }

    #[test]
    fn strings_are_normalised_and_have_no_bidi_controls() {
        assert_eq!(only_text("\"cafe\u{301}\""), "café");
        for character in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'] {
            assert_eq!(code(&format!("\"a{character}\"")), Code::E071);
        }
        for character in ['\u{200f}', '\u{2065}', '\u{206a}', '\u{2029}'] {
            assert_eq!(
                only_text(&format!("\"a{character}\"")),
                format!("a{character}")
            );
        }
    }

    #[test]
    fn numbers_have_digits_on_both_sides_of_the_point_and_no_exponent() {
        assert_eq!(kinds("-1 0.50 42").unwrap().len(), 3);
        for text in ["1e3", "5x", "1.2.3", "5.", "1_000", "0x10", "1.5é", "5.x"] {
            assert_eq!(code(text), Code::E006, "{text}");
        }
        for text in [".5", "+5", "-", "-.5"] {
            assert_eq!(code(text), Code::E002, "{text}");
        }
    }

    #[test]
    fn addresses_have_8_to_64_lower_case_digits() {
        let long = "a".repeat(64);
        assert_eq!(
            kinds(&format!("sha256:{long}")).unwrap(),
            [TokenKind::Hash(&long)]
        );
        for text in [
            "sha256:",
            "sha256:a1b2c3d",
            "sha256:A1B2C3D4",
            "sha256:a1b2c3d4g",
            "sha256:a1b2c3d4...",
            "sha256:target",
        ] {
            assert_eq!(code(text), Code::E015, "{text}");
        }
        assert_eq!(code(&format!("sha256:{long}a")), Code::E015);
        assert_eq!(
            kinds("SHA256:a1b2c3d4").unwrap().len(),
            3,
            "a word, a colon and a word"
        );
    }

    #[test]
    fn excluded_words_and_stray_characters_are_no_tokens() {
        for text in [
            "delete", "DROP", "Index", "@", "*", "#", "'", "é", "_a", "!", "\u{feff}", "\0", "$",
            "$1x", "$é", "a\u{a0}b",
        ] {
            assert_eq!(code(text), Code::E002, "{text:?}");
        }
        assert_eq!(kinds("consent deleted keys $key").unwrap().len(), 4);
    }

    #[test]
    fn template_text_ends_at_its_own_brace() {
        let take = |text: &'static str| {
            Lexer::new(text)
                .template_text()
                .map(|found| found.map(|(text, _)| text))
        };
        assert_eq!(take(" x } y").unwrap(), Some(" x "));
        assert_eq!(take("{{a}} {b} }").unwrap(), Some("{{a}} {b} "));
        assert_eq!(take("{{! } }}}").unwrap(), Some("{{! } }}"));
        assert_eq!(take("{{{a}}} }").unwrap(), Some("{{{a}}} "));
        assert_eq!(take("a { b }").unwrap(), None);
        assert_eq!(take("a {{ b }").unwrap_err().code(), Code::E094);
    }
}

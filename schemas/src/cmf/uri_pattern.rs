//! URI patterns (§4.5): `**` matches any text, `*` any text without a slash, every other character
//! itself.
//!
//! A pattern is a sequence of tokens. Matching simulates an NFA with one bit per prefix of the
//! pattern that matches the text so far:
//!
//! ```text
//! fits = {0}                                        bit i: the first i tokens fit
//! for byte in text:
//!     fits = fits that stay on a star | fits whose next token is the byte, moved by one
//!     fits |= fits that stand before a star, moved by one      (a star fits nothing, too)
//! matched = all tokens fit
//! ```
//!
//! A match takes `text × tokens / 64` steps for any pattern, so there is no pathological pattern.

/// The maximum number of tokens in a pattern: literal bytes and runs of stars.
pub const PATTERN_LIMIT_TOKENS: usize = 8192;

const WORD_BITS: usize = u64::BITS as usize;

/// The error for a pattern that is too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URI pattern has {tokens} tokens; at most {PATTERN_LIMIT_TOKENS} are allowed")]
pub struct PatternTooLong {
    /// The number of tokens.
    pub tokens: usize,
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct UriPattern {
    /// The bits of all `*` tokens, in `words` words.
    stars: Vec<u64>,
    /// The bits of all `**` tokens.
    double_stars: Vec<u64>,
    /// For each class of bytes, the bits of the tokens for that byte; class 0 is for bytes that the
    /// pattern does not contain.
    literals: Vec<u64>,
    /// The class of each byte.
    classes: Box<[u16; 256]>,
    tokens: usize,
    words: usize,
}

#[derive(Clone, Copy)]
enum PatternToken {
    Byte(u8),
    Star,
    DoubleStar,
}

impl UriPattern {
    /// Compiles `pattern`. A run of two or more stars is `**`.
    ///
    /// # Errors
    /// [`PatternTooLong`] beyond [`PATTERN_LIMIT_TOKENS`].
    pub fn new(pattern: &str) -> Result<Self, PatternTooLong> {
        let tokens = tokens(pattern);
        if tokens.len() > PATTERN_LIMIT_TOKENS {
            return Err(PatternTooLong {
                tokens: tokens.len(),
            });
        }
        // One more bit than tokens, for the match of all tokens.
        let words = tokens.len() / WORD_BITS + 1;
        let mut pattern = UriPattern {
            stars: vec![0; words],
            double_stars: vec![0; words],
            literals: vec![0; words],
            classes: Box::new([0; 256]),
            tokens: tokens.len(),
            words,
        };
        tokens
            .into_iter()
            .enumerate()
            .for_each(|(at, token)| pattern.add(at, token));
        Ok(pattern)
    }

    fn add(&mut self, at: usize, token: PatternToken) {
        let (word, bit) = (at / WORD_BITS, 1 << (at % WORD_BITS));
        match token {
            PatternToken::Star => self.stars[word] |= bit,
            PatternToken::DoubleStar => self.double_stars[word] |= bit,
            PatternToken::Byte(byte) => {
                let class = &mut self.classes[usize::from(byte)];
                if *class == 0 {
                    *class = (self.literals.len() / self.words) as u16;
                    self.literals.resize(self.literals.len() + self.words, 0);
                }
                let row = usize::from(*class) * self.words;
                self.literals[row + word] |= bit;
            }
        }
    }

    /// Returns true if the pattern matches all of `text`, byte for byte and case-sensitive.
    pub fn matches(&self, text: &str) -> bool {
        let mut fits = vec![0; self.words];
        fits[0] = 1;
        self.step_over_stars(&mut fits);
        for byte in text.bytes() {
            self.step(&mut fits, byte);
            if fits.iter().all(|word| *word == 0) {
                return false;
            }
        }
        fits[self.tokens / WORD_BITS] >> (self.tokens % WORD_BITS) & 1 == 1
    }

    fn step(&self, fits: &mut [u64], byte: u8) {
        let row = usize::from(self.classes[usize::from(byte)]) * self.words;
        let literals = &self.literals[row..row + self.words];
        let mut carry = 0;
        for (at, fit) in fits.iter_mut().enumerate() {
            let stars = if byte == b'/' {
                self.double_stars[at]
            } else {
                self.double_stars[at] | self.stars[at]
            };
            let moved = *fit & literals[at];
            *fit = *fit & stars | moved << 1 | carry;
            carry = moved >> (WORD_BITS - 1);
        }
        self.step_over_stars(fits);
    }

    /// Star tokens are never adjacent, so one step is sufficient.
    fn step_over_stars(&self, fits: &mut [u64]) {
        let mut carry = 0;
        for (at, fit) in fits.iter_mut().enumerate() {
            let moved = *fit & (self.stars[at] | self.double_stars[at]);
            *fit |= moved << 1 | carry;
            carry = moved >> (WORD_BITS - 1);
        }
    }
}

fn tokens(pattern: &str) -> Vec<PatternToken> {
    let mut tokens = Vec::with_capacity(pattern.len());
    for byte in pattern.bytes() {
        match (byte, tokens.last()) {
            (b'*', Some(PatternToken::Star | PatternToken::DoubleStar)) => {
                tokens.pop();
                tokens.push(PatternToken::DoubleStar);
            }
            (b'*', _) => tokens.push(PatternToken::Star),
            _ => tokens.push(PatternToken::Byte(byte)),
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        UriPattern::new(pattern).unwrap().matches(text)
    }

    /// A reference implementation by exhaustive search.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', b'*', rest @ ..] => (0..=text.len()).any(|taken| naive(rest, &text[taken..])),
            [b'*', rest @ ..] => {
                let reach = text
                    .iter()
                    .position(|byte| *byte == b'/')
                    .unwrap_or(text.len());
                (0..=reach).any(|taken| naive(rest, &text[taken..]))
            }
            [byte, rest @ ..] => text.first() == Some(byte) && naive(rest, &text[1..]),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn matching_agrees_with_the_definition(pattern in "[ab/*é.]{0,9}", text in "[ab/é.\n\
            ]{0,10}") {
            prop_assert_eq!(matches(&pattern, &text), naive(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn matching_agrees_with_the_definition_across_words(
            head in "[ab/]{50,70}", pattern in "[ab/*]{1,6}", tail in "[ab/]{50,70}", text in "[ab/]{0,6}",
        ) {
            let (pattern, text) = (format!("{head}{pattern}{tail}"), format!("{head}{text}{tail}"));
            prop_assert_eq!(matches(&pattern, &text), naive(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn a_pattern_without_stars_matches_only_itself(pattern in "[^*]{0,12}", other in "[^*]{0,12}") {
            prop_assert!(matches(&pattern, &pattern));
            prop_assert_eq!(matches(&pattern, &other), pattern == other);
        }
    }

    #[test]
    fn hostile_patterns_take_bounded_time() {
        let text = "a".repeat(20_000) + "/" + &"a".repeat(20_000);
        let started = Instant::now();
        for pattern in [
            "*a".repeat(2000) + "b",
            "**a*".repeat(1000) + "b",
            "*".repeat(100_000) + "b",
        ] {
            assert!(!matches(&pattern, &text), "{} bytes", pattern.len());
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{:?}",
            started.elapsed()
        );
    }

    #[test]
    fn the_limit_on_tokens_is_exact() {
        assert!(matches(
            &"x".repeat(PATTERN_LIMIT_TOKENS),
            &"x".repeat(PATTERN_LIMIT_TOKENS)
        ));
        assert_eq!(
            UriPattern::new(&"x".repeat(PATTERN_LIMIT_TOKENS + 1))
                .unwrap_err()
                .tokens,
            PATTERN_LIMIT_TOKENS + 1
        );
    }
}

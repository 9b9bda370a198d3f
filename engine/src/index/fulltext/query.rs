//! The syntax of full-text searches.
//!
//! | written | matches |
//! |---|---|
//! | `tea time` | both words, anywhere |
//! | `"tea time"` | both words, one after the other |
//! | `dark-mode` | what is written without a space is a phrase too |
//! | `prefer*` | a word that begins so |
//! | `colour~`, `colour~2` | a word that differs in at most one letter, or two |
//! | `tea OR coffee` | one of the two |
//! | `-decaf`, `-"green tea"` | not that |
//!
//! Anything else is taken as words. An empty search matches nothing.

use crate::text::words;

/// Maximal length of a search in bytes.
const TEXT_LIMIT: usize = 8 << 10;

/// Maximal number of parts of a search.
const PART_LIMIT: usize = 64;

/// Why a search is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextQueryError {
    /// Its text is too long.
    #[error("a search has {0} bytes; at most {TEXT_LIMIT} are allowed")]
    TooLong(usize),
    /// It has too many parts.
    #[error("a search has {0} parts; at most {PART_LIMIT} are allowed")]
    TooManyParts(usize),
}

/// One part of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryPart {
    /// One word, or consecutive words.
    Phrase(Vec<String>),
    /// A word with this prefix.
    Prefix(String),
    /// A word within this edit distance.
    Fuzzy(String, u8),
}

/// A parsed search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextQuery {
    /// All of these lists must match, each by one of its parts.
    pub(super) required: Vec<Vec<QueryPart>>,
    /// None of these may match.
    pub(super) excluded: Vec<QueryPart>,
}

/// Consecutive words; usually one.
pub type Phrase = Vec<String>;

/// A search in words of the lake: prefixes and fuzzy words are expanded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchTerms {
    /// All of these lists must match, each by one of its phrases.
    pub required: Vec<Vec<Phrase>>,
    /// None of these may match.
    pub excluded: Vec<Phrase>,
}

impl SearchTerms {
    /// Returns the words and phrases of `query`, without those that only an index can expand.
    pub fn literal(query: &TextQuery) -> SearchTerms {
        let phrase = |part: &QueryPart| match part {
            QueryPart::Phrase(words) => Some(words.clone()),
            QueryPart::Prefix(_) | QueryPart::Fuzzy(..) => None,
        };
        SearchTerms {
            required: query
                .required
                .iter()
                .map(|parts| parts.iter().filter_map(phrase).collect())
                .collect(),
            excluded: query.excluded.iter().filter_map(phrase).collect(),
        }
    }
}

impl TextQuery {
    /// Parses `text`. Every text within the limits is a valid search.
    ///
    /// # Errors
    /// [`TextQueryError`] if a limit is passed.
    pub fn parse(text: &str) -> Result<TextQuery, TextQueryError> {
        if text.len() > TEXT_LIMIT {
            return Err(TextQueryError::TooLong(text.len()));
        }
        let mut query = TextQuery::default();
        let mut or = false;
        for item in items(text) {
            if item.body == "OR" && !item.quoted && !item.negated {
                or = !query.required.is_empty();
                continue;
            }
            let Some(part) = item.part() else { continue };
            match query.required.last_mut() {
                _ if item.negated => query.excluded.push(part),
                Some(alternatives) if or => alternatives.push(part),
                _ => query.required.push(vec![part]),
            }
            or = false;
        }
        let parts = query.required.iter().map(Vec::len).sum::<usize>() + query.excluded.len();
        if parts > PART_LIMIT {
            Err(TextQueryError::TooManyParts(parts))
        } else {
            Ok(query)
        }
    }

    /// Returns the search for all of some words, without expansion.
    pub(crate) fn all_of(words: impl IntoIterator<Item = String>) -> TextQuery {
        let required = words
            .into_iter()
            .map(|word| vec![QueryPart::Phrase(vec![word])])
            .collect();
        TextQuery {
            required,
            excluded: Vec::new(),
        }
    }

    /// Returns whether it can't match anything.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty()
    }
}

/// A token of a search.
struct QueryToken<'t> {
    body: &'t str,
    quoted: bool,
    negated: bool,
}

/// Splits a search at spaces and quotation marks.
fn items(text: &str) -> Vec<QueryToken<'_>> {
    let mut items = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let negated = rest.starts_with('-');
        rest = rest.strip_prefix('-').unwrap_or(rest);
        let quoted = rest
            .strip_prefix('"')
            .and_then(|quoted| quoted.split_once('"'));
        let (body, after) = match quoted {
            Some(found) => found,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        items.push(QueryToken {
            body,
            quoted: quoted.is_some(),
            negated,
        });
        rest = after.trim_start();
    }
    items
}

impl QueryToken<'_> {
    fn part(&self) -> Option<QueryPart> {
        let near = self
            .body
            .rsplit_once('~')
            .and_then(|(body, changes)| match changes {
                "" | "1" => Some((body, 1)),
                "2" => Some((body, 2)),
                _ => None,
            });
        let (body, part): (_, fn(String, u8) -> QueryPart) =
            match (self.body.strip_suffix('*'), near) {
                _ if self.quoted => (self.body, exact),
                (Some(body), _) => (body, |word, _| QueryPart::Prefix(word)),
                (None, Some((body, _))) => (body, QueryPart::Fuzzy),
                (None, None) => (self.body, exact),
            };
        let mut phrase: Phrase = words(body).collect();
        match phrase.len() {
            0 => None,
            1 => phrase
                .pop()
                .map(|word| part(word, near.map_or(0, |(_, changes)| changes))),
            _ => Some(QueryPart::Phrase(phrase)),
        }
    }
}

fn exact(word: String, _changes: u8) -> QueryPart {
    QueryPart::Phrase(vec![word])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> TextQuery {
        TextQuery::parse(text).unwrap()
    }

    fn phrase(words: &[&str]) -> QueryPart {
        QueryPart::Phrase(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn words_phrases_prefixes_and_fuzzy_words_are_parsed() {
        let query = parsed(r#"Tea "green  TEA" dark-mode pre* colour~ color~2 -decaf -"no milk""#);
        let required = vec![
            vec![phrase(&["tea"])],
            vec![phrase(&["green", "tea"])],
            vec![phrase(&["dark", "mode"])],
            vec![QueryPart::Prefix("pre".into())],
            vec![QueryPart::Fuzzy("colour".into(), 1)],
            vec![QueryPart::Fuzzy("color".into(), 2)],
        ];
        assert_eq!(
            query,
            TextQuery {
                required,
                excluded: vec![phrase(&["decaf"]), phrase(&["no", "milk"])]
            }
        );
    }

    #[test]
    fn alternatives_are_joined_by_or() {
        let query = parsed("hot tea OR coffee OR \"cold milk\" now");
        let either = vec![
            phrase(&["tea"]),
            phrase(&["coffee"]),
            phrase(&["cold", "milk"]),
        ];
        assert_eq!(
            query.required,
            [vec![phrase(&["hot"])], either, vec![phrase(&["now"])]]
        );
        assert_eq!(
            parsed("OR tea or OR").required,
            [[phrase(&["tea"])], [phrase(&["or"])]]
        );
    }

    #[test]
    fn odd_texts_are_valid_searches() {
        for text in [
            "", " ", "\"", "-", "--", "*", "~2", "\"\"", "-\"", "OR", "~~", "- -",
        ] {
            assert!(parsed(text).is_empty(), "{text}");
        }
        assert_eq!(parsed("\"open").required, [[phrase(&["open"])]]);
        assert_eq!(parsed("東京").required, [[phrase(&["東", "京"])]]);
        assert_eq!(parsed("3.14~3").required, [[phrase(&["3.14", "3"])]]);
    }

    #[test]
    fn limits_are_errors() {
        assert_eq!(
            TextQuery::parse(&"a".repeat(9000)),
            Err(TextQueryError::TooLong(9000))
        );
        assert_eq!(
            TextQuery::parse(&"a ".repeat(65)),
            Err(TextQueryError::TooManyParts(65))
        );
    }
}

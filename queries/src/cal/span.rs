//! Where in the text of a query something stands.
//!
//! What doesn't live here: errors, which carry a [`Span`] until the text is at hand to make a
//! [`Position`] of it.

/// A range of bytes in the text of a query: start included, end excluded.
///
/// Spans never take part in the equality of syntax trees: two trees are equal if they mean the same
/// query, wherever their parts were written. Compare `start` and `end` where the place itself
/// matters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

impl Span {
    /// The span from `start` to `end`, byte offsets.
    pub fn new(start: usize, end: usize) -> Span {
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Span {
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// The span that covers `self` and `other`, which stands behind it.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start,
            end: other.end.max(self.end),
        }
    }
}

/// A [`Span`] in lines and columns, as error objects tell it (CAL 1.0, section 22.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset behind the last byte.
    pub end: usize,
    /// Line of the first byte, from 1.
    pub line: usize,
    /// Column of the first byte in characters, from 1.
    pub column: usize,
}

impl Position {
    /// Where `span` stands in `text`. Bytes that are no UTF-8 count as one character per faulty
    /// sequence.
    pub fn of(span: Span, text: &[u8]) -> Position {
        let start = (span.start as usize).min(text.len());
        let before = &text[..start];
        let line_start = before
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        Position {
            start,
            end: (span.end as usize).clamp(start, text.len()),
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: String::from_utf8_lossy(&before[line_start..])
                .chars()
                .count()
                + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_offsets_count_bytes() {
        let text = "RECALL\n  «é» x";
        let at = text.find('x').unwrap();
        let position = Position::of(Span::new(at, at + 1), text.as_bytes());
        assert_eq!(
            position,
            Position {
                start: at,
                end: at + 1,
                line: 2,
                column: 7
            }
        );
    }

    #[test]
    fn a_span_beyond_the_text_is_its_end() {
        let position = Position::of(Span::new(90, 99), b"abc");
        assert_eq!(
            position,
            Position {
                start: 3,
                end: 3,
                line: 1,
                column: 4
            }
        );
    }
}

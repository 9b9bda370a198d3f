//! Positions in the text of a query.
//!
//! Errors have a [`Span`] until the text is available to compute a [`Position`].

/// A range of bytes in the text of a query: start included, end excluded.
///
/// All spans are equal, so that two syntax trees are equal if they are the same query, whatever the
/// positions of their parts. Compare `start` and `end` to compare positions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

impl Span {
    /// Returns the span between two byte offsets.
    pub fn new(start: usize, end: usize) -> Span {
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Span {
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// Returns the span from the start of `self` to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start,
            end: other.end.max(self.end),
        }
    }
}

/// A [`Span`] in lines and columns, as in error objects (CAL 1.0, section 22.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
    /// Line of the first byte, from 1.
    pub line: usize,
    /// Column of the first byte in characters, from 1.
    pub column: usize,
}

impl Position {
    /// Computes the position of `span` in `text`. An invalid UTF-8 sequence counts as one
    /// character.
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

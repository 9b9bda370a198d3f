//! Parses template text to nodes and checks the tags.

use super::Variable;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::limits;
use crate::cal::span::Span;
use crate::cal::suggest::nearest;
use crate::cal::text::tag_length;

/// A node of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node<'t> {
    /// Literal text.
    Text(&'t str),
    /// The value of a variable.
    Value(Variable),
    /// Nodes that are rendered if the variable is truthy.
    If(Variable, Vec<Node<'t>>),
    /// Nodes that are rendered if it isn't.
    Unless(Variable, Vec<Node<'t>>),
    /// Nodes that are rendered for each grain.
    Each(Vec<Node<'t>>),
}

/// Parses a text to nodes.
///
/// # Errors
/// E090 for unknown variables, E091 for unbalanced sections, E093 for sections nested too deeply,
/// E094 for unknown tags.
pub fn parse(text: &str) -> Result<Vec<Node<'_>>> {
    parse_at(text, 0)
}

/// [`parse`] for a text at the byte `offset` of a query.
pub(super) fn parse_at(text: &str, offset: usize) -> Result<Vec<Node<'_>>> {
    let mut reader = TemplateParser {
        text,
        at: 0,
        offset,
        open: Vec::new(),
    };
    let mut nodes = Vec::new();
    while let Some(node) = reader.node()? {
        match node {
            Piece::Node(node) => push(&mut reader.open, &mut nodes, node),
            Piece::Nothing => {}
        }
    }
    match reader.open.pop() {
        None => Ok(nodes),
        Some(section) => Err(CalError::new(
            Code::E091,
            format!("{{{{#{}}}}} is never closed.", section.name()),
        )
        .at(section.span)),
    }
}

/// An open section.
struct OpenSection<'t> {
    kind: SectionKind,
    nodes: Vec<Node<'t>>,
    span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionKind {
    If(Variable),
    Unless(Variable),
    Each,
}

impl OpenSection<'_> {
    fn name(&self) -> &'static str {
        match self.kind {
            SectionKind::If(variable) | SectionKind::Unless(variable) => variable.name(),
            SectionKind::Each => EACH,
        }
    }
}

const EACH: &str = "each";

enum Piece<'t> {
    Node(Node<'t>),
    Nothing,
}

struct TemplateParser<'t> {
    text: &'t str,
    at: usize,
    offset: usize,
    open: Vec<OpenSection<'t>>,
}

fn push<'t>(open: &mut [OpenSection<'t>], root: &mut Vec<Node<'t>>, node: Node<'t>) {
    match open.last_mut() {
        Some(section) => section.nodes.push(node),
        None => root.push(node),
    }
}

impl<'t> TemplateParser<'t> {
    /// Reads the next piece; `None` at the end.
    fn node(&mut self) -> Result<Option<Piece<'t>>> {
        let rest = &self.text[self.at..];
        match rest.find("{{") {
            _ if rest.is_empty() => Ok(None),
            Some(0) => self.tag(rest).map(Some),
            found => {
                let text = &rest[..found.unwrap_or(rest.len())];
                self.at += text.len();
                Ok(Some(Piece::Node(Node::Text(text))))
            }
        }
    }

    fn tag(&mut self, rest: &'t str) -> Result<Piece<'t>> {
        let span = |length| Span::new(self.offset + self.at, self.offset + self.at + length);
        let Some(length) = tag_length(rest) else {
            return Err(malformed("A tag has no closing braces.", span(2)));
        };
        let tag = &rest[..length];
        let span = span(length);
        self.at += length;
        if tag.starts_with("{{{") {
            return Err(malformed(
                format!("{} is not a tag of the language.", shown(tag)),
                span,
            ));
        }
        let inner = &tag[2..length - 2];
        match inner.as_bytes().first() {
            Some(b'!') => Ok(Piece::Nothing),
            Some(b'#') => self.open(&inner[1..], false, span),
            Some(b'^') => self.open(&inner[1..], true, span),
            Some(b'/') => self.close(&inner[1..], span),
            _ => Ok(Piece::Node(Node::Value(variable(
                name(inner, tag, span)?,
                span,
            )?))),
        }
    }

    fn open(&mut self, inner: &str, inverted: bool, span: Span) -> Result<Piece<'t>> {
        let kind = match (name(inner, inner, span)?, inverted) {
            (EACH, false) => SectionKind::Each,
            (EACH, true) => return Err(malformed("{{^each}} is not a tag of the language.", span)),
            (name, false) => SectionKind::If(variable(name, span)?),
            (name, true) => SectionKind::Unless(variable(name, span)?),
        };
        if self.open.len() == limits::MAX_TEMPLATE_DEPTH {
            return Err(CalError::new(
                Code::E093,
                format!("Sections nest at most {} deep.", limits::MAX_TEMPLATE_DEPTH),
            )
            .at(span));
        }
        self.open.push(OpenSection {
            kind,
            nodes: Vec::new(),
            span,
        });
        Ok(Piece::Nothing)
    }

    fn close(&mut self, inner: &str, span: Span) -> Result<Piece<'t>> {
        let name = name(inner, inner, span)?;
        let Some(section) = self.open.pop() else {
            return Err(CalError::new(
                Code::E091,
                format!("{{{{/{}}}}} closes nothing.", shown(name)),
            )
            .at(span));
        };
        if section.name() != name {
            let message = format!(
                "{{{{/{}}}}} closes {{{{#{}}}}}.",
                shown(name),
                section.name()
            );
            return Err(CalError::new(Code::E091, message).at(span));
        }
        Ok(Piece::Node(match section.kind {
            SectionKind::If(variable) => Node::If(variable, section.nodes),
            SectionKind::Unless(variable) => Node::Unless(variable, section.nodes),
            SectionKind::Each => Node::Each(section.nodes),
        }))
    }
}

/// Returns the name in a tag: letters, digits, underscores and dots, with blanks around it.
fn name<'n>(inner: &'n str, tag: &str, span: Span) -> Result<&'n str> {
    let name = inner.trim();
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    if is_name {
        Ok(name)
    } else {
        Err(malformed(
            format!("\"{}\" is not a tag of the language.", shown(tag)),
            span,
        ))
    }
}

fn variable(name: &str, span: Span) -> Result<Variable> {
    Variable::of(name).ok_or_else(|| {
        let error = CalError::new(
            Code::E090,
            format!("There is no variable \"{}\".", shown(name)),
        )
        .at(span)
        .valid_values(Variable::NAMES.iter().copied());
        let meant = Variable::NAMES
            .iter()
            .copied()
            .find(|known| known.ends_with(&format!(".{name}")));
        match meant.or_else(|| nearest(name, Variable::NAMES.iter().copied())) {
            Some(meant) => error.suggest(format!("Did you mean \"{meant}\"?")),
            None => error,
        }
    })
}

fn malformed(message: impl Into<String>, span: Span) -> CalError {
    CalError::new(Code::E094, message).at(span)
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Code {
        parse(text).expect_err(text).code()
    }

    #[test]
    fn text_and_tags_become_nodes() {
        use Variable::*;
        assert_eq!(
            parse(
                "a{{ grain.type }}{{! x }}{{#grain.tags}}b{{/grain.tags}}{{^grain.tags}}c{{/ \
                 grain.tags }}{{#each}}{{/each}}"
            ),
            Ok(vec![
                Node::Text("a"),
                Node::Value(GrainType),
                Node::If(GrainTags, vec![Node::Text("b")]),
                Node::Unless(GrainTags, vec![Node::Text("c")]),
                Node::Each(vec![]),
            ])
        );
    }

    #[test]
    fn tags_outside_of_the_subset_are_errors() {
        for text in [
            "{{{grain.content}}}",
            "{{&grain.content}}",
            "{{> partial}}",
            "{{=<% %>=}}",
            "{{}}",
            "{{ }}",
            "{{#}}x{{/}}",
            "{{.}}",
            "{{grain content}}",
            "{{#each grains}}{{/each}}",
            "{{^each}}{{/each}}",
            "{{grain.type",
            "{{{",
            "{{grain.{{type}}",
        ] {
            assert_eq!(code(text), Code::E094, "{text}");
        }
        for text in [
            "{{grain.colour}}",
            "{{subject}}",
            "{{each}}",
            "{{else}}",
            "{{#Grain.type}}{{/Grain.type}}",
        ] {
            assert_eq!(code(text), Code::E090, "{text}");
        }
        assert!(
            parse("{{content}}")
                .unwrap_err()
                .suggestion()
                .contains("grain.content")
        );
    }

    #[test]
    fn sections_are_balanced_and_at_most_five_deep() {
        for text in [
            "{{#grain.tags}}",
            "{{/grain.tags}}",
            "{{#grain.tags}}{{#grain.type}}{{/grain.tags}}{{/grain.type}}",
            "{{/nope}}",
        ] {
            assert_eq!(code(text), Code::E091, "{text}");
        }
        let nested = |depth| "{{#grain.type}}".repeat(depth) + &"{{/grain.type}}".repeat(depth);
        assert!(parse(&nested(5)).is_ok());
        assert_eq!(code(&nested(6)), Code::E093);
    }
}

//! ASSEMBLE and templates.

use super::Parser;
use crate::cal::ast::{
    Assemble, FormatSpec, Sections, Source, SourceBody, Stream, TemplateDefinition,
};
use crate::cal::check;
use crate::cal::error::{CalError, Code, Result};
use crate::cal::keywords::Keyword;
use crate::cal::lexer::{Symbol, TokenKind};
use crate::cal::suggest::nearest;
use crate::cal::template::{SectionReader, extends};
use crate::cal::vocabulary::{BudgetUnit, Format, Preset, SectionName, StreamEvent};

impl Parser<'_> {
    /// Parses an ASSEMBLE, whose clauses have a fixed order.
    pub(super) fn assemble(&mut self) -> Result<Assemble> {
        let start = self.require_keyword(Keyword::Assemble)?;
        let mut assemble = Assemble {
            name: self.context_name()?,
            ..Assemble::default()
        };
        if self.accept_keyword(Keyword::For)? {
            let (intent, span) = self.text()?;
            check::intent(&intent, span)?;
            assemble.intent = Some(intent);
        }
        self.require_keyword(Keyword::From)?;
        assemble.sources = self.sources()?;
        if self.accept_keyword(Keyword::Budget)? {
            let (amount, span) = self.positive()?;
            let unit = self.budget_unit()?;
            assemble.budget = Some(check::assemble::budget(amount, unit, span)?);
        }
        if self.accept_keyword(Keyword::Priority)? {
            assemble.priority = self.priority()?;
        }
        if self.accept_keyword(Keyword::Format)? {
            assemble.format = Some(self.format_spec()?);
        }
        if self.accept_keyword(Keyword::Stream)? {
            assemble.stream = Some(self.stream()?);
        }
        if self.accept_keyword(Keyword::With)? {
            assemble.options = self.options(None)?;
        }
        assemble.span = self.since(start);
        check::assemble::whole_statement(&assemble)?;
        Ok(assemble)
    }

    fn context_name(&mut self) -> Result<Option<String>> {
        match self.next_keyword()? {
            Some(Keyword::For | Keyword::From) => Ok(None),
            _ => Ok(Some(self.name("the name of the context")?.0)),
        }
    }

    fn sources(&mut self) -> Result<Vec<Source>> {
        let mut sources: Vec<Source> = Vec::new();
        loop {
            let start = self.here();
            check::assemble::sources(sources.len() + 1, start)?;
            let label = self.source_label(&sources)?;
            let body = self.source_body()?;
            sources.push(Source {
                label,
                body,
                span: self.since(start),
            });
            if !self.accept(Symbol::Comma)? {
                return Ok(sources);
            }
        }
    }

    fn source_label(&mut self, before: &[Source]) -> Result<Option<String>> {
        if !matches!(self.peek()?.kind, TokenKind::Word { .. }) {
            return Ok(None);
        }
        let (label, span) = self.name("a label")?;
        if !self.accept(Symbol::Colon)? {
            return Err(self
                .unexpected([":"])
                .suggest("Write a source as label: (RECALL …)."));
        }
        check::assemble::label(before, &label, span)?;
        Ok(Some(label))
    }

    fn source_body(&mut self) -> Result<SourceBody> {
        if matches!(self.peek()?.kind, TokenKind::Parameter(_)) {
            return self.parameter().map(SourceBody::Binding);
        }
        if !self.accept(Symbol::OpenParen)? {
            return Err(self
                .unexpected(["(", "a LET name"])
                .suggest("Write a source as label: (RECALL …)."));
        }
        let body = match self.peek()?.kind {
            TokenKind::Parameter(_) => SourceBody::Binding(self.parameter()?),
            _ => SourceBody::Recall(Box::new(self.recall()?)),
        };
        self.require(Symbol::CloseParen)?;
        Ok(body)
    }

    fn budget_unit(&mut self) -> Result<BudgetUnit> {
        let unit = match self.peek()?.kind {
            TokenKind::Word { text, .. } => BudgetUnit::from_name(text),
            _ => None,
        };
        let Some(unit) = unit else {
            return Err(self.unexpected(BudgetUnit::NAMES.iter().copied()));
        };
        self.take()?;
        Ok(unit)
    }

    fn priority(&mut self) -> Result<Vec<String>> {
        let mut labels = vec![self.name("a label")?.0];
        while self.accept(Symbol::Greater)? {
            labels.push(self.name("a label")?.0);
        }
        Ok(labels)
    }

    fn format_spec(&mut self) -> Result<FormatSpec> {
        if self.accept_keyword(Keyword::Template)? {
            return self.template_use();
        }
        let TokenKind::Word { text, .. } = self.peek()?.kind else {
            return Err(self.unexpected(["a format", "TEMPLATE"]));
        };
        let format = Format::from_name(text).map(FormatSpec::Format);
        if let Some(spec) = format.or_else(|| Preset::from_name(text).map(FormatSpec::Preset)) {
            self.take()?;
            return Ok(spec);
        }
        Err(suggest_format(
            self.unexpected(["a format", "TEMPLATE"]),
            text,
        ))
    }

    fn template_use(&mut self) -> Result<FormatSpec> {
        if !self.accept(Symbol::OpenBrace)? {
            return Ok(FormatSpec::Template(self.name("the name of a template")?.0));
        }
        let sections = self.sections()?;
        self.require(Symbol::CloseBrace)?;
        Ok(FormatSpec::Inline(sections))
    }

    fn stream(&mut self) -> Result<Stream> {
        if !self.accept(Symbol::OpenBrace)? {
            return Ok(Stream::all());
        }
        let mut stream = Stream {
            events: Vec::new(),
            chunk_size: None,
        };
        loop {
            self.stream_option(&mut stream)?;
            if !self.accept(Symbol::Comma)? {
                break;
            }
        }
        match self.accept(Symbol::CloseBrace)? {
            true => Ok(stream),
            false => Err(self.unexpected([",", "}"])),
        }
    }

    fn stream_option(&mut self, stream: &mut Stream) -> Result<()> {
        let (word, span) = self.word("an option of STREAM")?;
        if word.eq_ignore_ascii_case("chunk_size") {
            self.require(Symbol::Equal)?;
            let (number, span) = self.number()?;
            stream.chunk_size = Some(check::chunk_size(&number, span)?);
            return Ok(());
        }
        match StreamEvent::from_name(word) {
            Some(event) => stream.events.push(event),
            None => return Err(check::stream_option(word, span)),
        }
        Ok(())
    }

    pub(super) fn define(&mut self) -> Result<TemplateDefinition> {
        self.require_keyword(Keyword::Define)?;
        self.require_keyword(Keyword::Template)?;
        let (name, span) = self.name("the name of a template")?;
        let extends = match self.accept_keyword(Keyword::Extends)? {
            true => {
                let (parent, span) = self.name("a preset")?;
                Some(extends(&parent, span)?)
            }
            false => None,
        };
        Ok(TemplateDefinition {
            name,
            extends,
            sections: self.sections()?,
            span,
        })
    }

    /// Parses the sections of a template, at least one.
    fn sections(&mut self) -> Result<Sections> {
        let mut sections = SectionReader::default();
        while let Some(name) = self.next_section()? {
            let span = self.take()?.span;
            sections.begin(name, span)?;
            let open = self.require(Symbol::OpenBrace)?;
            // The brace was the last token read, so the lexer is right after it.
            let Some((raw, span)) = self.lexer.template_text()? else {
                return Err(CalError::new(
                    Code::E002,
                    format!("The section {name} has no closing brace."),
                )
                .at(open)
                .expected(["}"]));
            };
            self.end = span.end + 1;
            sections.text(name, raw, span)?;
        }
        let sections = sections.finish();
        if sections.iter().next().is_none() {
            return Err(self.unexpected(SectionName::NAMES.iter().copied()));
        }
        Ok(sections)
    }

    fn next_section(&mut self) -> Result<Option<SectionName>> {
        Ok(match self.peek()?.kind {
            TokenKind::Word { text, .. } => SectionName::from_name(text),
            _ => None,
        })
    }
}

/// Adds the valid formats to `error`, and a suggestion instead of `text`.
fn suggest_format(error: CalError, text: &str) -> CalError {
    let names = || Format::NAMES.iter().chain(Preset::NAMES).copied();
    let error = error.valid_values(names());
    match nearest(text, names()) {
        Some(meant) => error.suggest(format!("Did you mean \"{meant}\"?")),
        None => error.suggest(format!(
            "Use one of {}, or TEMPLATE name.",
            Format::NAMES.join(", ")
        )),
    }
}

//! Templates: sections of text with tags of a closed Mustache subset (CAL 1.0, sections 10.2 and
//! 10.5 to 10.8).
//!
//! | module | what it answers |
//! |---|---|
//! | this one | how are the sections of a query read and checked? |
//! | [`syntax`] | what do the tags of a text say? |
//! | [`variables`] | which variables are there? |
//! | [`mod@evaluate`] | what does a text become? |
//! | [`registry`] | which templates has a namespace? |
//!
//! A template is a rendering instruction and no program: no loops but one over grains, a closed set
//! of variables, and caps on nesting, steps and output.

pub mod evaluate;
pub mod registry;
pub mod syntax;
pub mod variables;

pub use evaluate::{Output, Scope, evaluate};
pub use registry::Registry;
pub use syntax::{Node, parse};
pub use variables::Variable;

use super::ast::Sections;
use super::error::{CalError, Code, Result};
use super::lexer::{check_bidi, template_length};
use super::limits;
use super::span::Span;
use super::vocabulary::{Preset, SectionName};

/// The preset that EXTENDS names.
///
/// # Errors
/// E086 for `data`, E087 for everything that is no preset.
pub(crate) fn extends(name: &str, span: Span) -> Result<Preset> {
    let valid = ["structured", "readable", "compact"];
    match Preset::from_name(name) {
        Some(Preset::Data) => Err(CalError::new(
            Code::E086,
            "\"data\" is structure, not text, and can't be extended.",
        )
        .at(span)
        .valid_values(valid)),
        Some(preset) => Ok(preset),
        None => Err(
            CalError::new(Code::E087, format!("\"{name}\" is no preset."))
                .at(span)
                .valid_values(valid),
        ),
    }
}

/// Collects the sections of a template and checks each as it comes.
#[derive(Debug, Default)]
pub(crate) struct SectionReader {
    sections: Sections,
}

impl SectionReader {
    /// A section begins.
    ///
    /// # Errors
    /// E095 if it was there already.
    pub fn begin(&mut self, name: SectionName, span: Span) -> Result<()> {
        match self.sections.get(name) {
            Some(_) => {
                Err(CalError::new(Code::E095, format!("The section {name} stands twice.")).at(span))
            }
            None => Ok(()),
        }
    }

    /// The text of the section that began, as it stands between the braces.
    ///
    /// # Errors
    /// E092 if the template gets too large, E071, and the errors of [`syntax::parse`].
    pub fn text(&mut self, name: SectionName, raw: &str, span: Span) -> Result<()> {
        check_bidi(raw).map_err(|error| error.at(span))?;
        self.add(name, trim(raw), span)?;
        // The tags are checked in the raw text too, so that errors point to where they were
        // written.
        syntax::parse_at(raw, span.start as usize).map(drop)
    }

    /// The text of a section of a query in JSON form.
    ///
    /// # Errors
    /// As [`SectionReader::text`], and E094 for text that the text form can't write: with braces
    /// that don't match.
    pub fn finished_text(&mut self, name: SectionName, text: &str) -> Result<()> {
        let mut text = super::check::text(text)?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if template_length(&text) != Ok(None) || !balanced(&text) {
            return Err(CalError::new(
                Code::E094,
                "The braces of the text don't match.",
            ));
        }
        syntax::parse(&text)?;
        self.add(name, text, Span::default())
    }

    fn add(&mut self, name: SectionName, text: String, span: Span) -> Result<()> {
        self.sections.define(name, text);
        let bytes = self.sections.bytes();
        if bytes > limits::MAX_TEMPLATE_BYTES {
            return Err(
                CalError::new(Code::E092, format!("The template has {bytes} bytes.")).at(span),
            );
        }
        Ok(())
    }

    /// All sections.
    pub fn finish(self) -> Sections {
        self.sections
    }
}

/// True if every brace outside of tags that opens is closed: a closing brace behind the text is
/// then its end.
fn balanced(text: &str) -> bool {
    let closed = format!("{text}}}");
    template_length(&closed) == Ok(Some(text.len()))
}

/// The text of a section from what stands between its braces (digest of CAL 1.0, section 3): of
/// several lines, the first and the last go if they are blank; of a single one, a space at each
/// end; what is left ends with a newline.
fn trim(raw: &str) -> String {
    let mut text = match raw.split_once('\n') {
        Some((first, rest)) => {
            let body = if is_blank(first) { rest } else { raw };
            match body.rsplit_once('\n') {
                Some((_, last)) if is_blank(last) => &body[..body.len() - last.len()],
                None if is_blank(body) => "",
                _ => body,
            }
        }
        None => {
            let body = raw.strip_prefix(' ').unwrap_or(raw);
            body.strip_suffix(' ').unwrap_or(body)
        }
    }
    .to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| byte.is_ascii_whitespace())
}

/// What stands between the braces of a section with this text; [`trim`] makes the text of it again.
pub(crate) fn untrim(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("\n{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_section_loses_its_outer_lines_or_spaces_and_ends_its_line() {
        for (raw, text) in [
            (" x ", "x\n"),
            ("x", "x\n"),
            ("  x  ", " x \n"),
            ("", ""),
            (" ", ""),
            ("  ", ""),
            ("\n  x\n  ", "  x\n"),
            ("\n\n  ", "\n"),
            ("\n", ""),
            (" \t\n", ""),
            ("a\nb", "a\nb\n"),
            ("\r\nx\r\n", "x\r\n"),
            ("\nx\n\n ", "x\n\n"),
        ] {
            assert_eq!(trim(raw), text, "{raw:?}");
        }
    }

    #[test]
    fn only_presets_of_text_can_be_extended() {
        let code = |name| extends(name, Span::default()).unwrap_err().code();
        assert_eq!(extends("Compact", Span::default()), Ok(Preset::Compact));
        assert_eq!(code("data"), Code::E086);
        assert_eq!(code("mine"), Code::E087);
        assert_eq!(code("markdown"), Code::E087);
    }

    #[test]
    fn text_from_json_must_be_writable_as_text() {
        let mut reader = SectionReader::default();
        for text in ["a } b", "a { b", "{{", "}"] {
            assert_eq!(
                reader
                    .finished_text(SectionName::Element, text)
                    .unwrap_err()
                    .code(),
                Code::E094,
                "{text}"
            );
        }
        reader
            .finished_text(SectionName::Element, "{\"a\": 1}")
            .unwrap();
        assert_eq!(
            reader.finish().get(SectionName::Element),
            Some("{\"a\": 1}\n")
        );
    }

    proptest! {
        #[test]
        fn every_text_of_a_section_can_be_written_and_read_again(body in "[a-z \n\t]{0,40}") {
            let text = trim(&body);
            prop_assert_eq!(trim(&untrim(&text)), text);
        }
    }
}

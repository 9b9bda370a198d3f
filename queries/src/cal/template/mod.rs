//! Templates: sections of text with tags of a closed Mustache subset (CAL 1.0, sections 10.2 and
//! 10.5 to 10.8).
//!
//! | module | question |
//! |---|---|
//! | this one | how are the sections of a query parsed and checked? |
//! | [`syntax`] | which tags does a text have? |
//! | [`variables`] | which variables are there? |
//! | [`mod@evaluate`] | how is a text rendered? |
//! | [`registry`] | which templates does a namespace have? |
//!
//! Templates are not a programming language: the only loop is over grains, the set of variables is
//! closed, and nesting, steps and output are bounded.

pub mod evaluate;
pub mod registry;
pub mod syntax;
pub mod variables;

pub use evaluate::{BoundedOutput, TemplateScope, evaluate};
pub use registry::Registry;
pub use syntax::{Node, parse};
pub use variables::Variable;

use super::ast::Sections;
use super::error::{CalError, Code, Result};
use super::limits;
use super::span::Span;
use super::text::{check_bidi, template_length};
use super::vocabulary::{Preset, SectionName};

/// Returns the preset of EXTENDS.
///
/// # Errors
/// E086 for `data`, E087 for any other name that is no preset.
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

/// Collects and checks the sections of a template.
#[derive(Debug, Default)]
pub(crate) struct SectionReader {
    sections: Sections,
}

impl SectionReader {
    /// Begins a section.
    ///
    /// # Errors
    /// E095 if it is already defined.
    pub fn begin(&mut self, name: SectionName, span: Span) -> Result<()> {
        match self.sections.get(name) {
            Some(_) => Err(CalError::new(
                Code::E095,
                format!("The section {name} is defined twice."),
            )
            .at(span)),
            None => Ok(()),
        }
    }

    /// Adds the text of a section, with everything between its braces.
    ///
    /// # Errors
    /// E092 if the template becomes too large, E071, and the errors of [`syntax::parse`].
    pub fn text(&mut self, name: SectionName, raw: &str, span: Span) -> Result<()> {
        check_bidi(raw).map_err(|error| error.at(span))?;
        self.add(name, trim(raw), span)?;
        // The tags are checked in the raw text, so that errors have the right positions.
        syntax::parse_at(raw, span.start as usize).map(drop)
    }

    /// Adds the text of a section of a query in JSON form. As in the text form, its spelling is
    /// kept: only strings are normalised.
    ///
    /// # Errors
    /// Those of [`SectionReader::text`], and E094 for unbalanced braces, which the text form can't
    /// express.
    pub fn finished_text(&mut self, name: SectionName, text: &str) -> Result<()> {
        check_bidi(text)?;
        let mut text = text.to_owned();
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

    /// Returns all sections.
    pub fn finish(self) -> Sections {
        self.sections
    }
}

/// Returns true if all braces outside of tags are balanced, so that a closing brace after the text
/// ends it.
fn balanced(text: &str) -> bool {
    let closed = format!("{text}}}");
    template_length(&closed) == Ok(Some(text.len()))
}

/// Returns the text of a section from the raw text between its braces (digest of CAL 1.0, section
/// 3). Of several lines, a blank first and last one are removed; of a single line, one space at
/// each end. The result ends with a newline.
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

/// Returns the raw text between the braces of a section, the inverse of [`trim`].
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
    fn a_section_is_trimmed_and_ends_with_a_newline() {
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
    fn text_from_json_must_be_expressible_in_text_form() {
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

    #[test]
    fn text_and_json_keep_the_spelling_of_a_section() {
        let spelled = "cafe\u{301} \u{212b}";
        let mut of_text = SectionReader::default();
        let mut of_json = SectionReader::default();
        let name = SectionName::Element;
        of_text.text(name, spelled, Span::default()).unwrap();
        of_json.finished_text(name, spelled).unwrap();
        let (of_text, of_json) = (of_text.finish(), of_json.finish());
        assert_eq!(of_text.get(name), of_json.get(name));
        let reversed = SectionReader::default().finished_text(name, "a\u{202e}");
        assert_eq!(reversed.unwrap_err().code(), Code::E071);
    }

    proptest! {
        #[test]
        fn every_text_of_a_section_round_trips(body in "[a-z \n\t]{0,40}") {
            let text = trim(&body);
            prop_assert_eq!(trim(&untrim(&text)), text);
        }
    }
}

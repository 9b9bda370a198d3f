//! ASSEMBLE: sources, budget, priority, format, stream, and templates.

use super::recall::{Recall, WithOption};
use super::value::Parameter;
use crate::cal::span::Span;
use crate::cal::vocabulary::{BudgetUnit, Format, Preset, SectionName, StreamEvent};

/// `ASSEMBLE name FOR "…" FROM … BUDGET … PRIORITY … FORMAT … STREAM … WITH …`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assemble {
    /// The name of the context.
    pub name: Option<String>,
    /// `FOR "…"`: what the context is for.
    pub intent: Option<String>,
    /// The sources, one to eight.
    pub sources: Vec<Source>,
    /// `BUDGET n unit`
    pub budget: Option<Budget>,
    /// `PRIORITY a > b`: labels, most important first.
    pub priority: Vec<String>,
    /// `FORMAT …`
    pub format: Option<FormatSpec>,
    /// `STREAM …`
    pub stream: Option<Stream>,
    /// `WITH …`
    pub options: Vec<WithOption>,
    /// Where the statement stands.
    pub span: Span,
}

/// One source of FROM.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Its label, unlike all others.
    pub label: Option<String>,
    /// Where its grains come from.
    pub body: SourceBody,
    /// Where the source stands.
    pub span: Span,
}

/// Where the grains of a source come from.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceBody {
    /// A RECALL of its own.
    Recall(Box<Recall>),
    /// A LET binding without extractor.
    Binding(Parameter),
}

/// `BUDGET n unit`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How many.
    pub amount: u32,
    /// Of what.
    pub unit: BudgetUnit,
}

/// What FORMAT says.
#[derive(Debug, Clone, PartialEq)]
pub enum FormatSpec {
    /// A format.
    Format(Format),
    /// A preset.
    Preset(Preset),
    /// A template of the namespace, by name.
    Template(String),
    /// A template that stands in the query.
    Inline(Sections),
}

/// `STREAM { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The events that are wanted; a bare STREAM wants [`StreamEvent::All`].
    pub events: Vec<StreamEvent>,
    /// Tokens of a chunk.
    pub chunk_size: Option<u32>,
}

impl Stream {
    /// What a bare STREAM says.
    pub fn all() -> Stream {
        Stream {
            events: vec![StreamEvent::All],
            chunk_size: None,
        }
    }

    /// True if events of this kind are wanted. Naming none is wanting all.
    pub fn wants(&self, event: StreamEvent) -> bool {
        self.events.is_empty()
            || self.events.contains(&StreamEvent::All)
            || self.events.contains(&event)
    }
}

/// `DEFINE TEMPLATE name EXTENDS preset …`
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateDefinition {
    /// The name.
    pub name: String,
    /// The preset that fills what the template doesn't define.
    pub extends: Option<Preset>,
    /// The sections.
    pub sections: Sections,
    /// Where the name stands.
    pub span: Span,
}

/// The sections of a template: their text as it is written out, with its last newline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sections([Option<String>; 6]);

impl Sections {
    /// The text of a section, if it is defined.
    pub fn get(&self, name: SectionName) -> Option<&str> {
        self.0[name as usize].as_deref()
    }

    /// Defines a section; answers false and changes nothing if it is defined already.
    pub fn define(&mut self, name: SectionName, text: String) -> bool {
        let slot = &mut self.0[name as usize];
        let free = slot.is_none();
        if free {
            *slot = Some(text);
        }
        free
    }

    /// The defined sections, in the order of [`SectionName::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (SectionName, &str)> {
        SectionName::ALL
            .iter()
            .filter_map(|&name| Some((name, self.get(name)?)))
    }

    /// Bytes of all texts together.
    pub fn bytes(&self) -> usize {
        self.iter().map(|(_, text)| text.len()).sum()
    }
}

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
    /// `FOR "…"`: the purpose of the context.
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
    /// Position of the statement.
    pub span: Span,
}

/// One source of FROM.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The label, unique among the sources.
    pub label: Option<String>,
    /// The origin of its grains.
    pub body: SourceBody,
    /// Position of the source.
    pub span: Span,
}

/// The origin of the grains of a source.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceBody {
    /// A RECALL.
    Recall(Box<Recall>),
    /// A LET binding without extractor.
    Binding(Parameter),
}

/// `BUDGET n unit`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The amount.
    pub amount: u32,
    /// The unit.
    pub unit: BudgetUnit,
}

/// The value of FORMAT.
#[derive(Debug, Clone, PartialEq)]
pub enum FormatSpec {
    /// A format.
    Format(Format),
    /// A preset.
    Preset(Preset),
    /// A template of the namespace, by name.
    Template(String),
    /// A template in the query.
    Inline(Sections),
}

/// `STREAM { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The requested events; a bare STREAM is [`StreamEvent::All`].
    pub events: Vec<StreamEvent>,
    /// Size of a chunk, in tokens.
    pub chunk_size: Option<u32>,
}

impl Stream {
    /// Returns the value of a bare STREAM.
    pub fn all() -> Stream {
        Stream {
            events: vec![StreamEvent::All],
            chunk_size: None,
        }
    }

    /// Returns true if events of this kind are requested. An empty list requests all.
    pub fn includes(&self, event: StreamEvent) -> bool {
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
    /// The preset that provides the sections that the template doesn't define.
    pub extends: Option<Preset>,
    /// The sections.
    pub sections: Sections,
    /// Position of the name.
    pub span: Span,
}

/// The sections of a template: the text of each, with its last newline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sections([Option<String>; 6]);

impl Sections {
    /// Returns the text of a section, if it is defined.
    pub fn get(&self, name: SectionName) -> Option<&str> {
        self.0[name as usize].as_deref()
    }

    /// Defines a section. Returns false and changes nothing if it is already defined.
    pub fn define(&mut self, name: SectionName, text: String) -> bool {
        let slot = &mut self.0[name as usize];
        let free = slot.is_none();
        if free {
            *slot = Some(text);
        }
        free
    }

    /// Returns the defined sections, in the order of [`SectionName::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (SectionName, &str)> {
        SectionName::ALL
            .iter()
            .filter_map(|&name| Some((name, self.get(name)?)))
    }

    /// Returns the total size of all texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.iter().map(|(_, text)| text.len()).sum()
    }
}

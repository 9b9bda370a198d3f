//! Renders grains as text for language models and people (CAL 1.0, sections 10 and 14; SML 1.0).
//!
//! | module | question |
//! |---|---|
//! | [`grain`] | Which properties of a grain does a renderer need? |
//! | [`field_value`] | Which value does a CAL field have in a grain? |
//! | [`text_format`] | How are relations, times, numbers and lists formatted? |
//! | [`projection`] | Which text and attributes does a grain show? |
//! | [`element`] | How is one grain written in each format? |
//! | [`document`] | How are many grains laid out? |
//! | [`toon`], [`yaml`] | The two formats with a syntax of their own |
//! | [`custom_template`] | How is a user's template evaluated? |
//! | [`mod@assemble`] | Which grains fit into a budget, and how is the context written? |
//! | [`budget`] | How is a budget shared, and what does a grain cost? |
//! | [`stream_events`] | Which events does a streamed assembly emit? |
//! | [`escape`] | How are control characters made visible? |
//! | [`shell_quote`] | How are values quoted in suggested shell commands? |
//!
//! Rendering is a pure function of the grains, the options and the time: equal input gives equal
//! bytes. Addresses, namespaces and full timestamps never appear in rendered text.

pub mod assemble;
pub mod budget;
pub mod custom_template;
pub mod document;
pub mod element;
pub mod escape;
pub mod field_value;
pub mod grain;
pub mod projection;
pub mod shell_quote;
pub mod stream_events;
pub mod text_format;
pub mod toon;
pub mod yaml;

pub use assemble::{Assembled, AssemblyInput, OutputLayout, SourceInput, assemble};
pub use custom_template::CustomTemplate;
pub use document::{AssemblyHeading, GrainEntry, render_assembly, render_formats, render_recall};
pub use escape::escape_control;
pub use grain::{GrainView, RenderGrain};
pub use projection::{Attribute, ProjectedGrain, project};
pub use shell_quote::shell_quoted;
pub use text_format::humanize;

use crate::cal::ast::WithOption;
use crate::cal::vocabulary::DisclosureLevel;

/// Level of detail of a rendered grain (CAL 1.0, section 14.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DetailLevel {
    /// The text and the identifying attributes.
    Summary,
    /// Also the attributes that help a reader to judge the grain.
    #[default]
    Standard,
    /// All attributes that may be rendered.
    Full,
}

impl DetailLevel {
    /// Returns the name, as templates print it.
    pub const fn name(self) -> &'static str {
        match self {
            DetailLevel::Summary => "summary",
            DetailLevel::Standard => "standard",
            DetailLevel::Full => "full",
        }
    }
}

impl From<DisclosureLevel> for DetailLevel {
    fn from(level: DisclosureLevel) -> DetailLevel {
        match level {
            DisclosureLevel::Summary => DetailLevel::Summary,
            DisclosureLevel::Headlines | DisclosureLevel::Standard => DetailLevel::Standard,
            DisclosureLevel::Full => DetailLevel::Full,
        }
    }
}

/// Rendering options that apply to all formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderStyle {
    /// Level of detail.
    pub level: DetailLevel,
    /// The current time, in milliseconds since the Unix epoch.
    pub now_ms: i64,
    /// Write times in ISO 8601 instead of "2d ago".
    pub iso_timestamps: bool,
    /// Break up `</` inside SML, so that text of a grain can't close an element. The specification
    /// leaves text unchanged.
    pub neutralize_tags: bool,
}

impl RenderStyle {
    /// Returns the style of a query with these options at `now_ms`; `tokens` is the token budget of
    /// an ASSEMBLE, below 1000 of which a bare `progressive_disclosure` means summary.
    pub fn new(now_ms: i64, options: &[WithOption], tokens: Option<u32>) -> RenderStyle {
        let mut style = RenderStyle {
            level: DetailLevel::Standard,
            now_ms,
            iso_timestamps: false,
            neutralize_tags: false,
        };
        for option in options {
            match option {
                WithOption::ProgressiveDisclosure(Some(level)) => {
                    style.level = DetailLevel::from(*level)
                }
                WithOption::ProgressiveDisclosure(None) => {
                    let tight = tokens.is_some_and(|tokens| tokens < SUMMARY_BELOW_TOKENS);
                    style.level = if tight {
                        DetailLevel::Summary
                    } else {
                        DetailLevel::Standard
                    };
                }
                WithOption::IsoTimestamps => style.iso_timestamps = true,
                _ => {}
            }
        }
        style
    }
}

/// Token budgets below this turn a bare `progressive_disclosure` into a summary.
const SUMMARY_BELOW_TOKENS: u32 = 1000;

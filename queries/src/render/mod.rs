//! Grains to text: what a language model or a person reads (CAL 1.0, sections 10 and 14; SML 1.0).
//!
//! | module | what it answers |
//! |---|---|
//! | [`grain`] | what does a renderer have to know of a grain? |
//! | [`value`] | which value does a field of CAL have in a grain? |
//! | [`words`] | how are relations, times, numbers and lists said? |
//! | [`mod@project`] | which text and which attributes does a grain show? |
//! | [`element`] | how is one grain written in each format? |
//! | [`document`] | how are many grains laid out? |
//! | [`toon`], [`yaml`] | the two formats with a syntax of their own |
//! | [`custom`] | what does a user's template make of them? |
//! | [`mod@assemble`] | which grains fit into a budget, and what comes out? |
//! | [`budget`] | how is a budget shared, and what does a grain cost? |
//! | [`stream`] | which events tell of an assembly? |
//! | [`mod@visible`] | how are control characters shown to a person? |
//!
//! All of it is pure: grains and the time come in, text goes out, the same bytes for the same
//! input. Hashes, namespaces and full timestamps never get into rendered text.

pub mod assemble;
pub mod budget;
pub mod custom_template;
pub mod document;
pub mod element;
pub mod escape;
pub mod field_value;
pub mod grain;
pub mod projection;
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
pub use text_format::humanize;

use crate::cal::ast::WithOption;
use crate::cal::vocabulary::DisclosureLevel;

/// How much a rendered grain tells (CAL 1.0, section 14.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DetailLevel {
    /// Only what can't be left out.
    Summary,
    /// What helps to decide.
    #[default]
    Standard,
    /// Everything that may be shown.
    Full,
}

impl DetailLevel {
    /// The name, as templates print it.
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

/// How grains are rendered, whatever the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderStyle {
    /// How much they tell.
    pub level: DetailLevel,
    /// What "now" is, in milliseconds since the epoch.
    pub now_ms: i64,
    /// Times in full instead of "2d ago".
    pub iso_timestamps: bool,
    /// Break up `</` inside SML, so that text from grains can't close an element. The specification
    /// leaves text as it is.
    pub neutralize_tags: bool,
}

impl RenderStyle {
    /// The style at `now_ms` that the options of a query ask for; `tokens` is the token budget of
    /// an ASSEMBLE, which makes a bare `progressive_disclosure` a summary below 1000.
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

/// Token budgets below this make a bare `progressive_disclosure` a summary.
const SUMMARY_BELOW_TOKENS: u32 = 1000;

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
pub mod custom;
pub mod document;
pub mod element;
pub mod grain;
pub mod project;
pub mod stream;
pub mod toon;
pub mod value;
pub mod visible;
pub mod words;
pub mod yaml;

pub use assemble::{Assembled, AssemblyInput, Layout, SourceInput, assemble};
pub use custom::Template;
pub use document::{Entry, Heading, render_assembly, render_formats, render_recall};
pub use grain::{GrainView, RenderGrain};
pub use project::{Attribute, Projected, project};
pub use visible::visible;
pub use words::humanize;

use crate::cal::ast::WithOption;
use crate::cal::vocabulary::DisclosureLevel;

/// How much a rendered grain tells (CAL 1.0, section 14.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// Only what can't be left out.
    Summary,
    /// What helps to decide.
    #[default]
    Standard,
    /// Everything that may be shown.
    Full,
}

impl Level {
    /// The name, as templates print it.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Summary => "summary",
            Level::Standard => "standard",
            Level::Full => "full",
        }
    }
}

impl From<DisclosureLevel> for Level {
    fn from(level: DisclosureLevel) -> Level {
        match level {
            DisclosureLevel::Summary => Level::Summary,
            DisclosureLevel::Headlines | DisclosureLevel::Standard => Level::Standard,
            DisclosureLevel::Full => Level::Full,
        }
    }
}

/// How grains are rendered, whatever the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// How much they tell.
    pub level: Level,
    /// What "now" is, in milliseconds since the epoch.
    pub now_ms: i64,
    /// Times in full instead of "2d ago".
    pub iso_timestamps: bool,
    /// Break up `</` inside SML, so that text from grains can't close an element. The specification
    /// leaves text as it is.
    pub neutralize_tags: bool,
}

impl Style {
    /// The style at `now_ms` that the options of a query ask for; `tokens` is the token budget of
    /// an ASSEMBLE, which makes a bare `progressive_disclosure` a summary below 1000.
    pub fn new(now_ms: i64, options: &[WithOption], tokens: Option<u32>) -> Style {
        let mut style = Style {
            level: Level::Standard,
            now_ms,
            iso_timestamps: false,
            neutralize_tags: false,
        };
        for option in options {
            match option {
                WithOption::ProgressiveDisclosure(Some(level)) => style.level = Level::from(*level),
                WithOption::ProgressiveDisclosure(None) => {
                    let tight = tokens.is_some_and(|tokens| tokens < SUMMARY_BELOW_TOKENS);
                    style.level = if tight {
                        Level::Summary
                    } else {
                        Level::Standard
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

//! CAL 1.0, the context assembly language, at conformance level 4: from text or JSON to a checked
//! syntax tree, and back.
//!
//! | module | question |
//! |---|---|
//! | [`ast`] | what is the syntax tree of a query? |
//! | [`error`] | what is wrong with it, where, and how is it fixed? |
//! | [`fields`], [`grain_type`], [`relations`], [`vocabulary`], [`keywords`] | which names does the language have? |
//! | [`lexer`], `text`, [`number`], `parser`, `check` | how is text parsed, and what is an error? |
//! | [`span`], [`suggest`] | where in the text is an error, and which name was meant? |
//! | [`json`] | how is the same query written as JSON? |
//! | [`print`](mod@print) | what is its canonical text, and its hash? |
//! | [`mod@bind`] | how do its parameters get values? |
//! | [`mod@desugar`], [`time`] | what do its shortcuts and times mean? |
//! | [`template`] | how are output templates parsed and evaluated? |
//! | [`describe`] | what does DESCRIBE return? |
//! | [`limits`] | what are the limits of a query? |
//!
//! Everything here is a pure function over text and trees: no store, no clock, no DataFusion.
//! Planning and execution build on the trees; rendering is in [`crate::render`].
//!
//! The stages of a query:
//!
//! ```
//! use gristmill_queries::cal::{self, Options};
//!
//! let text = r#"recall beliefs about "alice" where confidence >= 0.80 recent 5"#;
//! let parsed = cal::parse(text, Options::default()).unwrap();
//! assert_eq!(cal::print(&parsed.query), r#"RECALL beliefs ABOUT "alice" WHERE confidence >= 0.8 RECENT 5"#);
//! assert_eq!(cal::from_json(&cal::to_json(&parsed.query), Options::default()).unwrap().query, parsed.query);
//! ```

pub mod ast;
pub mod bind;
pub(crate) mod check;
pub mod describe;
pub mod desugar;
pub mod error;
pub mod fields;
pub mod grain_type;
pub mod json;
pub mod keywords;
pub mod lexer;
pub mod limits;
pub mod number;
mod parser;
pub mod print;
pub mod relations;
pub mod span;
pub mod suggest;
pub mod template;
mod text;
pub mod time;
pub mod vocabulary;

pub use ast::{Effect, Query, Statement};
pub use bind::{Bindings, bind};
pub use check::evolve::SetStatement;
pub use check::pipeline::{ResultShape, result_shape};
pub use desugar::{Desugared, desugar};
pub use error::{CalError, Code, Result, Warning, WarningCode};
pub use fields::KnownField;
pub use grain_type::{GrainType, TypeName};
pub use json::{from_json, from_json_bytes, to_json};
pub use number::Number;
pub use parser::{parse, parse_bytes, split};
pub use print::{print, query_hash};

/// Options of parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Also accepts the type names of other versions of the specification: `facts`, `tools`,
    /// `episodes`, `checkpoints`. These are E003 in CAL 1.0, so the default is off. Trees and
    /// printed text always have the names of CAL 1.0.
    pub aliases: bool,
}

/// A query that has passed all checks, with its warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The query.
    pub query: Query,
    /// Warnings, in the order of the text.
    pub warnings: Vec<Warning>,
}

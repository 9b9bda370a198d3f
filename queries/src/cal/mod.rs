//! CAL 1.0, the context assembly language, at conformance level 4: from text or JSON to a checked
//! syntax tree, and back.
//!
//! | module | what it answers |
//! |---|---|
//! | [`ast`] | what does a query say? |
//! | [`error`] | what is wrong with it, where, and what to do? |
//! | [`fields`], [`grain_type`], [`relations`], [`vocabulary`], [`words`] | which names does the language know? |
//! | [`lexer`], `parser`, `check` | how is text read, and what is refused? |
//! | [`json`] | how is the same query written as JSON? |
//! | [`print`](mod@print) | what is its canonical text, and its hash? |
//! | [`mod@bind`] | what does it say once its parameters have values? |
//! | [`mod@desugar`], [`time`] | what do its shortcuts and times mean? |
//! | [`template`] | how do templates of output work? |
//! | [`describe`] | what can the language tell about itself? |
//! | [`limits`] | how much of everything is allowed? |
//!
//! Everything here is a pure function over text and trees: no store, no clock, no DataFusion.
//! Planning and execution build on the trees; rendering is in [`crate::render`].
//!
//! A query goes this way:
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
pub mod lexer;
pub mod limits;
pub mod number;
mod parser;
pub mod print;
pub mod relations;
pub mod span;
pub(crate) mod suggest;
pub mod template;
pub mod time;
pub mod vocabulary;
pub mod words;

pub use ast::{Effect, Query, Statement};
pub use bind::{Bindings, bind};
pub use check::evolve::Setter;
pub use check::pipeline::{Shape, shape};
pub use desugar::{Desugared, desugar};
pub use error::{CalError, Code, Result, Warning, WarningCode};
pub use fields::KnownField;
pub use grain_type::{GrainType, TypeName};
pub use json::{from_json, from_json_bytes, to_json};
pub use number::Number;
pub use parser::{parse, parse_bytes, split};
pub use print::{print, query_hash};

/// How queries are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Understand the type names of other versions of the specifications too: `facts`, `tools`,
    /// `episodes`, `checkpoints`. CAL 1.0 says that they are E003, so this is off unless a user
    /// asks for it. Trees and printed text always have the names of CAL 1.0.
    pub aliases: bool,
}

/// A query that has passed all checks, with what its author should know.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The query.
    pub query: Query,
    /// Warnings, in the order of the text.
    pub warnings: Vec<Warning>,
}

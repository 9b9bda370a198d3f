//! The syntax tree of CAL 1.0: what a query says, shortcuts included.
//!
//! | module | what it answers |
//! |---|---|
//! | [`value`] | which values can a query hold, and how does it name a field? |
//! | [`recall`] | what does one RECALL ask for? |
//! | [`assemble`] | how is a context put together, and in which shape is it written? |
//! | this one | which statements are there? |
//!
//! A tree that was parsed, read from JSON or bound has passed all checks of the language. Trees can
//! also be built by hand; then the JSON reader or the parser (on the printed text) checks them.
//!
//! There is no statement that removes anything, and no way to say one: [`Statement`] and everything
//! below it are closed enums, and [`Statement::effect`] is one exhaustive match.

pub mod assemble;
pub mod recall;
pub mod value;

pub use assemble::{
    Assemble, Budget, FormatSpec, Sections, Source, SourceBody, Stream, TemplateDefinition,
};
pub use recall::{
    Condition, Consistency, Diversity, InSet, NamespaceScope, Offset, ProjectField, Projection,
    Recall, Stage, StageKind, Subquery, Test, Thread, WithOption,
};
pub use value::{Address, Comparison, DomainField, DomainPrefix, Field, Parameter, Target, Value};

use super::grain_type::GrainType;
use super::span::Span;
use super::vocabulary::{DescribeTarget, Extractor, SetOperator};

/// A whole query: bindings and one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The LET bindings, in order.
    pub lets: Vec<Let>,
    /// The statement.
    pub statement: Statement,
}

/// `LET $name = RECALL … | SUBJECTS;`
#[derive(Debug, Clone, PartialEq)]
pub struct Let {
    /// The bound name.
    pub name: String,
    /// The query, without its extractor.
    pub query: Recall,
    /// What makes a list of values of the grains; without it the name stands for the grains.
    pub extract: Option<Extractor>,
    /// Where the name stands.
    pub span: Span,
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `RECALL …`
    Recall(Box<Recall>),
    /// `ASSEMBLE … FROM …`
    Assemble(Box<Assemble>),
    /// `(…) UNION (…)`
    SetOperation(Box<SetOperation>),
    /// `EXISTS sha256:…`
    Exists(Exists),
    /// `HISTORY …`
    History(History),
    /// `EXPLAIN …`
    Explain(Explainable),
    /// `DESCRIBE …`
    Describe(Describe),
    /// `BATCH { … }`
    Batch(Batch),
    /// `COALESCE(…, …)`
    Coalesce(Coalesce),
    /// `DEFINE TEMPLATE …`
    DefineTemplate(TemplateDefinition),
    /// `ADD … SET … REASON …`
    Add(Add),
    /// `SUPERSEDE … SET … REASON …`
    Supersede(Supersede),
    /// `REVERT … REASON …`
    Revert(Revert),
}

/// What a statement can do to the store. There is nothing beyond appending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Tier 0: reads grains, or tells about the engine.
    Reads,
    /// Tier 0 too: keeps a template beside the grains.
    DefinesTemplate,
    /// Tier 1: writes a new grain; every old one stays.
    Appends,
}

impl Effect {
    /// The tier of the specification (CAL 1.0, section 2.2).
    pub const fn tier(self) -> u8 {
        match self {
            Effect::Reads | Effect::DefinesTemplate => 0,
            Effect::Appends => 1,
        }
    }
}

impl Statement {
    /// What the statement does when it is executed. EXPLAIN executes nothing, so it reads, whatever
    /// it explains.
    pub const fn effect(&self) -> Effect {
        match self {
            Statement::Recall(_)
            | Statement::Assemble(_)
            | Statement::SetOperation(_)
            | Statement::Exists(_)
            | Statement::History(_)
            | Statement::Explain(_)
            | Statement::Describe(_)
            | Statement::Batch(_)
            | Statement::Coalesce(_) => Effect::Reads,
            Statement::DefineTemplate(_) => Effect::DefinesTemplate,
            Statement::Add(_) | Statement::Supersede(_) | Statement::Revert(_) => Effect::Appends,
        }
    }

    /// The name in responses and in JSON: `recall`, `set_op`, …
    pub const fn name(&self) -> &'static str {
        match self {
            Statement::Recall(_) => "recall",
            Statement::Assemble(_) => "assemble",
            Statement::SetOperation(_) => "set_op",
            Statement::Exists(_) => "exists",
            Statement::History(_) => "history",
            Statement::Explain(_) => "explain",
            Statement::Describe(_) => "describe",
            Statement::Batch(_) => "batch",
            Statement::Coalesce(_) => "coalesce",
            Statement::DefineTemplate(_) => "define_template",
            Statement::Add(_) => "add",
            Statement::Supersede(_) => "supersede",
            Statement::Revert(_) => "revert",
        }
    }
}

/// A set operation on two queries.
#[derive(Debug, Clone, PartialEq)]
pub struct SetOperation {
    /// Which.
    pub operator: SetOperator,
    /// The left query.
    pub left: SetOperand,
    /// The right query.
    pub right: SetOperand,
}

/// One side of a set operation: a query of its own, with its own bindings.
#[derive(Debug, Clone, PartialEq)]
pub struct SetOperand {
    /// Bindings inside the parentheses.
    pub lets: Vec<Let>,
    /// The query.
    pub body: SetBody,
}

/// What a set operation can combine.
#[derive(Debug, Clone, PartialEq)]
pub enum SetBody {
    /// A RECALL.
    Recall(Box<Recall>),
    /// Another set operation.
    SetOperation(Box<SetOperation>),
}

impl SetOperation {
    /// How many RECALLs it combines in all.
    pub fn leaves(&self) -> usize {
        let of = |operand: &SetOperand| match &operand.body {
            SetBody::Recall(_) => 1,
            SetBody::SetOperation(inner) => inner.leaves(),
        };
        of(&self.left) + of(&self.right)
    }
}

/// `EXISTS …`
#[derive(Debug, Clone, PartialEq)]
pub struct Exists {
    /// The grain that is looked for.
    pub target: Target,
}

/// `HISTORY …`
#[derive(Debug, Clone, PartialEq)]
pub enum History {
    /// The versions around one grain.
    Versions {
        /// The grain.
        target: Target,
        /// The grain to compare it with.
        diff: Option<Target>,
    },
    /// The versions of a statement about a subject.
    Triple {
        /// Where to look; the session decides.
        namespace: Option<NamespaceScope>,
        /// The subject: a text or a parameter.
        subject: Value,
        /// The relation: a text or a parameter.
        relation: Value,
        /// The point in time that the answer is for.
        as_of: Option<String>,
    },
}

/// What EXPLAIN explains.
#[derive(Debug, Clone, PartialEq)]
pub enum Explainable {
    /// A RECALL.
    Recall(Box<Recall>),
    /// An ASSEMBLE.
    Assemble(Box<Assemble>),
    /// A set operation.
    SetOperation(Box<SetOperation>),
    /// An ADD, which is not executed.
    Add(Add),
    /// A SUPERSEDE, which is not executed.
    Supersede(Supersede),
    /// A REVERT, which is not executed.
    Revert(Revert),
    /// A BATCH.
    Batch(Batch),
    /// A COALESCE.
    Coalesce(Coalesce),
}

/// `DESCRIBE …`
#[derive(Debug, Clone, PartialEq)]
pub struct Describe {
    /// What is described.
    pub target: DescribeTarget,
    /// For `fields`: of which type.
    pub grain_type: Option<GrainType>,
}

/// `BATCH { … }`
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The queries, in order.
    pub entries: Vec<BatchEntry>,
}

/// One query of a BATCH.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchEntry {
    /// Its label, unlike all others.
    pub label: String,
    /// The query.
    pub query: BatchQuery,
    /// Where the label stands.
    pub span: Span,
}

/// What a BATCH can hold: reads.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchQuery {
    /// A RECALL.
    Recall(Box<Recall>),
    /// An EXISTS.
    Exists(Exists),
    /// A HISTORY.
    History(History),
    /// A DESCRIBE.
    Describe(Describe),
    /// A COALESCE.
    Coalesce(Coalesce),
}

/// `COALESCE(…, …)`
#[derive(Debug, Clone, PartialEq)]
pub struct Coalesce {
    /// Two to five RECALLs.
    pub branches: Vec<Recall>,
}

/// `ADD type SET field = value … REASON …`
#[derive(Debug, Clone, PartialEq)]
pub struct Add {
    /// The type of the new grain.
    pub grain_type: GrainType,
    /// The fields, each once.
    pub set: Vec<SetClause>,
    /// Why.
    pub reason: String,
}

/// `SUPERSEDE grain SET field = value … REASON …`
#[derive(Debug, Clone, PartialEq)]
pub struct Supersede {
    /// The grain that gets a new version.
    pub target: Target,
    /// The fields that change, each once.
    pub set: Vec<SetClause>,
    /// Why.
    pub reason: String,
}

/// `REVERT grain REASON …`
#[derive(Debug, Clone, PartialEq)]
pub struct Revert {
    /// The grain whose predecessor is restored.
    pub target: Target,
    /// Why.
    pub reason: String,
}

/// `SET field = value`
#[derive(Debug, Clone, PartialEq)]
pub struct SetClause {
    /// The field, one that the statement may set.
    pub field: super::fields::KnownField,
    /// Its new value.
    pub value: Value,
    /// Where the value stands.
    pub span: Span,
}

//! The syntax tree of CAL 1.0, with shortcuts as they are written.
//!
//! | module | question |
//! |---|---|
//! | [`value`] | which values can a query contain, and how are fields named? |
//! | [`recall`] | what are the parts of a RECALL? |
//! | [`assemble`] | what are the parts of an ASSEMBLE, and of a template? |
//! | this one | which statements are there? |
//!
//! A tree that was parsed, read from JSON or bound has passed all checks of the language. Trees can
//! also be built by hand; then the JSON reader or the parser (on the printed text) checks them.
//!
//! No statement removes anything: [`Statement`] and everything below it are closed enums, and
//! [`Statement::effect`] is one exhaustive match.

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
    /// Converts the grains to a list of values; without it the name is bound to the grains.
    pub extract: Option<Extractor>,
    /// Position of the name.
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

/// The effect of a statement on the store. There is none beyond appending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Tier 0: reads grains, or describes the engine.
    Reads,
    /// Also tier 0: registers a template.
    DefinesTemplate,
    /// Tier 1: writes a new grain and keeps all old ones.
    Appends,
}

impl Effect {
    /// Returns the tier of the specification (CAL 1.0, section 2.2).
    pub const fn tier(self) -> u8 {
        match self {
            Effect::Reads | Effect::DefinesTemplate => 0,
            Effect::Appends => 1,
        }
    }
}

impl Statement {
    /// Returns the effect of executing the statement. EXPLAIN executes nothing, so it always reads.
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

    /// Returns the name in responses and in JSON: `recall`, `set_op`, …
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
    /// The operator.
    pub operator: SetOperator,
    /// The left query.
    pub left: SetOperand,
    /// The right query.
    pub right: SetOperand,
}

/// One side of a set operation: a query with its own bindings.
#[derive(Debug, Clone, PartialEq)]
pub struct SetOperand {
    /// Bindings inside the parentheses.
    pub lets: Vec<Let>,
    /// The query.
    pub body: SetBody,
}

/// An operand of a set operation.
#[derive(Debug, Clone, PartialEq)]
pub enum SetBody {
    /// A RECALL.
    Recall(Box<Recall>),
    /// Another set operation.
    SetOperation(Box<SetOperation>),
}

impl SetOperation {
    /// Returns the number of RECALLs in the whole tree.
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
    /// The grain to look up.
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
        /// The namespace; the session's takes precedence.
        namespace: Option<NamespaceScope>,
        /// The subject: a text or a parameter.
        subject: Value,
        /// The relation: a text or a parameter.
        relation: Value,
        /// The point in time of the answer.
        as_of: Option<String>,
    },
}

/// A statement that EXPLAIN accepts.
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
    /// The subject of the description.
    pub target: DescribeTarget,
    /// The grain type, for `fields`.
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
    /// The label, unique in the BATCH.
    pub label: String,
    /// The query.
    pub query: BatchQuery,
    /// Position of the label.
    pub span: Span,
}

/// A statement in a BATCH. Only reads are allowed.
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
    /// The fields, each at most once.
    pub set: Vec<SetClause>,
    /// The reason.
    pub reason: String,
}

/// `SUPERSEDE grain SET field = value … REASON …`
#[derive(Debug, Clone, PartialEq)]
pub struct Supersede {
    /// The grain that gets a new version.
    pub target: Target,
    /// The fields that change, each at most once.
    pub set: Vec<SetClause>,
    /// The reason.
    pub reason: String,
}

/// `REVERT grain REASON …`
#[derive(Debug, Clone, PartialEq)]
pub struct Revert {
    /// The grain whose predecessor is restored.
    pub target: Target,
    /// The reason.
    pub reason: String,
}

/// `SET field = value`
#[derive(Debug, Clone, PartialEq)]
pub struct SetClause {
    /// The field, one that the statement may set.
    pub field: super::fields::KnownField,
    /// The new value.
    pub value: Value,
    /// Position of the value.
    pub span: Span,
}

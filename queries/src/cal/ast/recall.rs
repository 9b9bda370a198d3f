//! RECALL: conditions, options, stages, shortcuts.

use super::value::{Comparison, Field, Parameter, Target, Value};
use crate::cal::grain_type::GrainType;
use crate::cal::number::Number;
use crate::cal::relations::RelationCategory;
use crate::cal::span::Span;
use crate::cal::vocabulary::{Direction, DisclosureLevel, Extractor, Format};

/// `RECALL …`, with its shortcuts as they are written; [`desugar`](crate::cal::desugar()) takes
/// them apart for planning.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recall {
    /// `MY`: only grains of the session's user.
    pub my: bool,
    /// The type after RECALL.
    pub grain_type: Option<GrainType>,
    /// `IN …`; the session decides.
    pub namespace: Option<NamespaceScope>,
    /// `ABOUT "x"`
    pub about: Option<String>,
    /// `LIKE "x"`
    pub like: Option<String>,
    /// `SINCE "t"`
    pub since: Option<String>,
    /// `BETWEEN a AND b`
    pub between: Option<(Value, Value)>,
    /// `THREAD …`
    pub thread: Option<Thread>,
    /// `WHERE …`: all of them hold.
    pub conditions: Vec<Condition>,
    /// `WITH …`
    pub options: Vec<WithOption>,
    /// The stages, in order.
    pub stages: Vec<Stage>,
    /// `RECENT n`
    pub recent: Option<u32>,
    /// `CONTRADICTIONS`
    pub contradictions: bool,
    /// `AS format`
    pub format: Option<Format>,
    /// Where the statement stands.
    pub span: Span,
}

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceScope {
    /// `IN "n"`: this namespace.
    Exactly(String),
    /// `IN SCOPE "n"`: this namespace and those below it (`n:…`).
    Below(String),
}

/// `THREAD …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thread {
    /// The conversation with this session.
    Session(String),
    /// The conversation around this message.
    From(super::Address),
}

/// One condition of WHERE.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The field.
    pub field: Field,
    /// What holds of it.
    pub test: Test,
    /// Where the condition stands.
    pub span: Span,
}

/// What a condition says about its field. A grain without the field never passes, whatever the
/// test.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Compared with a value.
    Compare(Comparison, Value),
    /// One of many.
    In(InSet),
    /// From one value to another, both included.
    Between(Value, Value),
    /// Has all of these items.
    Include(Vec<Value>),
    /// Has none of these items; a grain without the field passes this one.
    Exclude(Vec<Value>),
    /// `relation IS …`
    Is(RelationCategory),
}

/// What IN chooses from.
#[derive(Debug, Clone, PartialEq)]
pub enum InSet {
    /// Values; a parameter may stand for a LET binding with an extractor.
    Values(Vec<Value>),
    /// The values that a query yields.
    Subquery(Box<Subquery>),
}

/// `(RECALL … | SUBJECTS)`
#[derive(Debug, Clone, PartialEq)]
pub struct Subquery {
    /// The query, without its extractor.
    pub query: Recall,
    /// What makes values of the grains.
    pub extract: Extractor,
}

/// A stage and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// What it does.
    pub kind: StageKind,
    /// Where it stands.
    pub span: Span,
}

/// What a stage does with the result of the stage before it.
#[derive(Debug, Clone, PartialEq)]
pub enum StageKind {
    /// `SELECT a, b`
    Select(Vec<Field>),
    /// `ORDER BY a DESC`
    OrderBy(Field, Direction),
    /// `LIMIT n`
    Limit(u32),
    /// `OFFSET n`
    Offset(Offset),
    /// `COUNT`
    Count,
    /// `FIRST`
    First,
    /// `SUBJECTS`, `OBJECTS`, `HASHES`
    Extract(Extractor),
    /// `GROUP BY a`
    GroupBy(Field),
    /// `PROJECT …`: how the grains are rendered, not which.
    Project(Projection),
}

impl StageKind {
    /// The name of the stage in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            StageKind::Select(_) => "select",
            StageKind::OrderBy(..) => "order_by",
            StageKind::Limit(_) => "limit",
            StageKind::Offset(_) => "offset",
            StageKind::Count => "count",
            StageKind::First => "first",
            StageKind::Extract(Extractor::Subjects) => "subjects",
            StageKind::Extract(Extractor::Objects) => "objects",
            StageKind::Extract(Extractor::Hashes) => "hashes",
            StageKind::GroupBy(_) => "group_by",
            StageKind::Project(_) => "project",
        }
    }
}

/// How many grains OFFSET skips.
#[derive(Debug, Clone, PartialEq)]
pub enum Offset {
    /// This many.
    Count(u64),
    /// As many as the parameter says.
    Parameter(Parameter),
}

/// `PROJECT content(…), attr(…)`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Projection {
    /// The fields that make up the text.
    pub content: Vec<ProjectField>,
    /// The fields that become attributes.
    pub attributes: Vec<ProjectField>,
}

/// A field that PROJECT shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectField {
    /// A field of CAL or of a domain.
    Field(Field),
    /// An attribute by the name that it has in output: `observer`, `tool`, …
    Attribute(String),
    /// A payload key that begins with `x_`.
    Extension(String),
}

impl std::fmt::Display for ProjectField {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProjectField::Field(field) => field.fmt(formatter),
            ProjectField::Attribute(name) | ProjectField::Extension(name) => {
                formatter.write_str(name)
            }
        }
    }
}

/// A WITH option.
#[derive(Debug, Clone, PartialEq)]
pub enum WithOption {
    /// `superseded`: superseded versions too.
    Superseded,
    /// `score_breakdown`
    ScoreBreakdown,
    /// `explanation`
    Explanation,
    /// `provenance`
    Provenance,
    /// `contradiction_detection`
    ContradictionDetection,
    /// `summarize`
    Summarize,
    /// `progressive_disclosure` or `progressive_disclosure(level)`
    ProgressiveDisclosure(Option<DisclosureLevel>),
    /// `diversity(…)`
    Diversity(Diversity),
    /// `consistency(…)`
    Consistency(Consistency),
    /// `dedup(field)`
    Dedup(Field),
    /// `locale("xx")`
    Locale(String),
    /// `cache(ttl = n)`, in seconds.
    Cache(u64),
    /// `iso_timestamps`
    IsoTimestamps,
    /// `x_name` or `x_name(values)`: an option of another engine, ignored with a warning.
    Extension(String, Vec<Value>),
}

/// How results are kept apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Diversity {
    /// Maximal marginal relevance, with its weight.
    Mmr(Option<Number>),
    /// A least distance.
    Threshold(Number),
}

/// How fresh an answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Consistency {
    /// Whatever there is.
    Eventual,
    /// At most so far behind.
    Bounded(Number),
    /// The newest.
    Linearizable,
}

impl Recall {
    /// The projection of the last PROJECT stage.
    pub fn projection(&self) -> Option<&Projection> {
        self.stages
            .iter()
            .rev()
            .find_map(|stage| match &stage.kind {
                StageKind::Project(projection) => Some(projection),
                _ => None,
            })
    }
}

impl From<super::Address> for Target {
    fn from(address: super::Address) -> Target {
        Target::Address(address)
    }
}

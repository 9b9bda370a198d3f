//! RECALL: conditions, options, stages, shortcuts.

use super::value::{Comparison, Field, Parameter, Target, Value};
use crate::cal::grain_type::GrainType;
use crate::cal::number::Number;
use crate::cal::relations::RelationCategory;
use crate::cal::span::Span;
use crate::cal::vocabulary::{Direction, DisclosureLevel, Extractor, Format};

/// `RECALL …`, with shortcuts as they are written. [`desugar`](crate::cal::desugar()) expands them
/// for planning.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recall {
    /// `MY`: only grains of the session's user.
    pub my: bool,
    /// The type after RECALL.
    pub grain_type: Option<GrainType>,
    /// `IN …`; the session's namespace takes precedence.
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
    /// `WHERE …`: a conjunction.
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
    /// Position of the statement.
    pub span: Span,
}

/// The namespaces of a RECALL.
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
    /// The predicate on it.
    pub test: Test,
    /// Position of the condition.
    pub span: Span,
}

/// The predicate of a condition. A grain without the field doesn't pass, except for EXCLUDE.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Comparison with a value.
    Compare(Comparison, Value),
    /// Membership in a list or subquery.
    In(InSet),
    /// An inclusive range.
    Between(Value, Value),
    /// A list that contains all of these items.
    Include(Vec<Value>),
    /// A list that contains none of these items. A grain without the field passes.
    Exclude(Vec<Value>),
    /// `relation IS …`
    Is(RelationCategory),
}

/// The right side of IN.
#[derive(Debug, Clone, PartialEq)]
pub enum InSet {
    /// Values; a parameter may refer to a LET with an extractor.
    Values(Vec<Value>),
    /// The values of a subquery.
    Subquery(Box<Subquery>),
}

/// `(RECALL … | SUBJECTS)`
#[derive(Debug, Clone, PartialEq)]
pub struct Subquery {
    /// The query, without its extractor.
    pub query: Recall,
    /// Converts the grains to values.
    pub extract: Extractor,
}

/// A stage with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The stage.
    pub kind: StageKind,
    /// The position.
    pub span: Span,
}

/// A pipeline stage. Each transforms the result of the one before.
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
    /// `PROJECT …`: the rendering of the grains, not their selection.
    Project(Projection),
}

impl StageKind {
    /// Returns the name of the stage in JSON.
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

/// The number of grains that OFFSET skips.
#[derive(Debug, Clone, PartialEq)]
pub enum Offset {
    /// A number.
    Count(u64),
    /// The value of a parameter.
    Parameter(Parameter),
}

/// `PROJECT content(…), attr(…)`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Projection {
    /// The fields of the text.
    pub content: Vec<ProjectField>,
    /// The fields of the attributes.
    pub attributes: Vec<ProjectField>,
}

/// A field in PROJECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectField {
    /// A field of CAL or of a domain.
    Field(Field),
    /// An attribute by its output name: `observer`, `tool`, …
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
    /// `superseded`: also finds superseded versions.
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

/// The diversity of results.
#[derive(Debug, Clone, PartialEq)]
pub enum Diversity {
    /// Maximal marginal relevance, with its weight.
    Mmr(Option<Number>),
    /// A minimum distance.
    Threshold(Number),
}

/// The freshness of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Consistency {
    /// Any version.
    Eventual,
    /// A bounded staleness.
    Bounded(Number),
    /// The newest version.
    Linearizable,
}

impl Recall {
    /// Returns true if words are searched for, by ABOUT or LIKE.
    pub fn searches_words(&self) -> bool {
        self.about.is_some() || self.like.is_some()
    }

    /// Returns the projection of the last PROJECT stage.
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

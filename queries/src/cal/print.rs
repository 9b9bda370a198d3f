//! The canonical text of a query, and its hash (digest of CAL 1.0, sections 3 and 11).
//!
//! Each query has one canonical spelling: clauses in the order of the grammar, keywords in upper case,
//! single spaces, no comments, a bar before every stage. Parsing it yields the same tree.

use std::fmt::{self, Display, Formatter, Write};

use sha2::{Digest, Sha256};

use super::ast::*;
use super::grain_type::TypeName;
use super::template::untrim;
use super::vocabulary::{Direction, Extractor};

/// Returns the canonical text.
pub fn print(query: &Query) -> String {
    query.to_string()
}

/// Returns `sha256:` and the SHA-256 of the canonical text. Audit records and responses identify a
/// query by it.
pub fn query_hash(query: &Query) -> String {
    let mut out = String::from("sha256:");
    for byte in Sha256::digest(print(query)) {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// A string literal.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_char('"')?;
        let mut plain = 0;
        for (at, _) in self.0.match_indices(['"', '\\']) {
            out.write_str(&self.0[plain..at])?;
            out.write_char('\\')?;
            plain = at;
        }
        out.write_str(&self.0[plain..])?;
        out.write_char('"')
    }
}

/// Items with a separator between them.
fn separated<T: Display>(
    out: &mut Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    separator: &str,
) -> fmt::Result {
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.write_str(separator)?;
        }
        item.fmt(out)?;
    }
    Ok(())
}

fn listed<T: Display>(out: &mut Formatter<'_>, items: impl IntoIterator<Item = T>) -> fmt::Result {
    separated(out, items, ", ")
}

impl Display for Query {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        bindings(out, &self.lets)?;
        self.statement.fmt(out)
    }
}

fn bindings(out: &mut Formatter<'_>, lets: &[Let]) -> fmt::Result {
    lets.iter().try_for_each(|binding| {
        write!(out, "LET ${} = ", binding.name)?;
        recall(out, &binding.query, binding.extract)?;
        out.write_str("; ")
    })
}

impl Display for Statement {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Recall(recall) => recall.fmt(out),
            Statement::Assemble(assemble) => assemble.fmt(out),
            Statement::SetOperation(operation) => operation.fmt(out),
            Statement::Exists(exists) => exists.fmt(out),
            Statement::History(history) => history.fmt(out),
            Statement::Explain(explained) => write!(out, "EXPLAIN {explained}"),
            Statement::Describe(describe) => describe.fmt(out),
            Statement::Batch(batch) => batch.fmt(out),
            Statement::Coalesce(coalesce) => coalesce.fmt(out),
            Statement::DefineTemplate(definition) => definition.fmt(out),
            Statement::Add(add) => add.fmt(out),
            Statement::Supersede(supersede) => supersede.fmt(out),
            Statement::Revert(revert) => revert.fmt(out),
        }
    }
}

impl Display for Explainable {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Explainable::Recall(recall) => recall.fmt(out),
            Explainable::Assemble(assemble) => assemble.fmt(out),
            Explainable::SetOperation(operation) => operation.fmt(out),
            Explainable::Add(add) => add.fmt(out),
            Explainable::Supersede(supersede) => supersede.fmt(out),
            Explainable::Revert(revert) => revert.fmt(out),
            Explainable::Batch(batch) => batch.fmt(out),
            Explainable::Coalesce(coalesce) => coalesce.fmt(out),
        }
    }
}

impl Display for SetOperation {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.left, self.operator, self.right)
    }
}

impl Display for SetOperand {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_char('(')?;
        bindings(out, &self.lets)?;
        match &self.body {
            SetBody::Recall(recall) => recall.fmt(out)?,
            SetBody::SetOperation(operation) => operation.fmt(out)?,
        }
        out.write_char(')')
    }
}

impl Display for Exists {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "EXISTS {}", self.target)
    }
}

impl Display for Target {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Target::Address(address) => address.fmt(out),
            Target::Parameter(parameter) => parameter.fmt(out),
        }
    }
}

impl Display for Parameter {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "${}", self.name)
    }
}

impl Display for History {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            History::Versions { target, diff } => {
                write!(out, "HISTORY {target}")?;
                diff.iter().try_for_each(|diff| write!(out, " DIFF {diff}"))
            }
            History::Triple {
                namespace,
                subject,
                relation,
                as_of,
            } => {
                out.write_str("HISTORY")?;
                namespace
                    .iter()
                    .try_for_each(|namespace| write!(out, " {namespace}"))?;
                write!(out, " WHERE subject = {subject} AND relation = {relation}")?;
                as_of
                    .iter()
                    .try_for_each(|time| write!(out, " AS OF {}", Quoted(time)))
            }
        }
    }
}

impl Display for NamespaceScope {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            NamespaceScope::Exactly(name) => write!(out, "IN {}", Quoted(name)),
            NamespaceScope::Below(name) => write!(out, "IN SCOPE {}", Quoted(name)),
        }
    }
}

impl Display for Describe {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "DESCRIBE {}", self.target)?;
        self.grain_type
            .iter()
            .try_for_each(|grain_type| write!(out, " {grain_type}"))
    }
}

impl Display for Batch {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("BATCH { ")?;
        listed(out, &self.entries)?;
        out.write_str(" }")
    }
}

impl Display for BatchEntry {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.label)?;
        match &self.query {
            BatchQuery::Recall(recall) => recall.fmt(out),
            BatchQuery::Exists(exists) => exists.fmt(out),
            BatchQuery::History(history) => history.fmt(out),
            BatchQuery::Describe(describe) => describe.fmt(out),
            BatchQuery::Coalesce(coalesce) => coalesce.fmt(out),
        }
    }
}

impl Display for Coalesce {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("COALESCE(")?;
        listed(out, &self.branches)?;
        out.write_char(')')
    }
}

impl Display for Add {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "ADD {}", self.grain_type)?;
        self.set.iter().try_for_each(|clause| clause.fmt(out))?;
        write!(out, " REASON {}", Quoted(&self.reason))
    }
}

impl Display for Supersede {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "SUPERSEDE {}", self.target)?;
        self.set.iter().try_for_each(|clause| clause.fmt(out))?;
        write!(out, " REASON {}", Quoted(&self.reason))
    }
}

impl Display for SetClause {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, " SET {} = {}", self.field.name(), self.value)
    }
}

impl Display for Revert {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "REVERT {} REASON {}",
            self.target,
            Quoted(&self.reason)
        )
    }
}

impl Display for Value {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => Quoted(text).fmt(out),
            Value::Number(number) => number.fmt(out),
            Value::Boolean(value) => out.write_str(if *value { "TRUE" } else { "FALSE" }),
            Value::Array(values) => {
                out.write_char('[')?;
                listed(out, values)?;
                out.write_char(']')
            }
            Value::Hash(address) => address.fmt(out),
            Value::Parameter(parameter) => parameter.fmt(out),
        }
    }
}

impl Display for Recall {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        recall(out, self, None)
    }
}

/// A RECALL, with an extractor after its stages if there is one.
fn recall(out: &mut Formatter<'_>, recall: &Recall, extract: Option<Extractor>) -> fmt::Result {
    out.write_str(if recall.my { "RECALL MY" } else { "RECALL" })?;
    recall
        .grain_type
        .map(TypeName::plural)
        .iter()
        .try_for_each(|plural| write!(out, " {plural}"))?;
    recall
        .namespace
        .iter()
        .try_for_each(|namespace| write!(out, " {namespace}"))?;
    recall
        .about
        .iter()
        .try_for_each(|text| write!(out, " ABOUT {}", Quoted(text)))?;
    recall
        .like
        .iter()
        .try_for_each(|text| write!(out, " LIKE {}", Quoted(text)))?;
    recall
        .since
        .iter()
        .try_for_each(|text| write!(out, " SINCE {}", Quoted(text)))?;
    recall
        .between
        .iter()
        .try_for_each(|(low, high)| write!(out, " BETWEEN {low} AND {high}"))?;
    recall
        .thread
        .iter()
        .try_for_each(|thread| write!(out, " {thread}"))?;
    if !recall.conditions.is_empty() {
        out.write_str(" WHERE ")?;
        separated(out, &recall.conditions, " AND ")?;
    }
    with(out, &recall.options)?;
    recall
        .stages
        .iter()
        .try_for_each(|stage| write!(out, " | {}", stage.kind))?;
    extract
        .iter()
        .try_for_each(|extractor| write!(out, " | {extractor}"))?;
    recall
        .recent
        .iter()
        .try_for_each(|count| write!(out, " RECENT {count}"))?;
    if recall.contradictions {
        out.write_str(" CONTRADICTIONS")?;
    }
    recall
        .format
        .iter()
        .try_for_each(|format| write!(out, " AS {format}"))
}

fn with(out: &mut Formatter<'_>, options: &[WithOption]) -> fmt::Result {
    if options.is_empty() {
        return Ok(());
    }
    out.write_str(" WITH ")?;
    listed(out, options)
}

impl Display for Thread {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Thread::Session(session) => write!(out, "THREAD {}", Quoted(session)),
            Thread::From(address) => write!(out, "THREAD FROM {address}"),
        }
    }
}

impl Display for Condition {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let items = |out: &mut Formatter<'_>, word: &str, values: &[Value]| {
            write!(out, " {word} [")?;
            listed(out, values)?;
            out.write_char(']')
        };
        self.field.fmt(out)?;
        match &self.test {
            Test::Compare(comparison, value) => write!(out, " {comparison} {value}"),
            Test::In(InSet::Values(values)) => {
                out.write_str(" IN (")?;
                listed(out, values)?;
                out.write_char(')')
            }
            Test::In(InSet::Subquery(subquery)) => {
                out.write_str(" IN (")?;
                recall(out, &subquery.query, Some(subquery.extract))?;
                out.write_char(')')
            }
            Test::Between(low, high) => write!(out, " BETWEEN {low} AND {high}"),
            Test::Include(values) => items(out, "INCLUDE", values),
            Test::Exclude(values) => items(out, "EXCLUDE", values),
            Test::Is(category) => write!(out, " IS {category}"),
        }
    }
}

impl Display for StageKind {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            StageKind::Select(fields) => {
                out.write_str("SELECT ")?;
                listed(out, fields)
            }
            StageKind::OrderBy(field, direction) => {
                write!(out, "ORDER BY {field} {}", Direction::name(*direction))
            }
            StageKind::Limit(count) => write!(out, "LIMIT {count}"),
            StageKind::Offset(Offset::Count(count)) => write!(out, "OFFSET {count}"),
            StageKind::Offset(Offset::Parameter(parameter)) => write!(out, "OFFSET {parameter}"),
            StageKind::Count => out.write_str("COUNT"),
            StageKind::First => out.write_str("FIRST"),
            StageKind::Extract(extractor) => extractor.fmt(out),
            StageKind::GroupBy(field) => write!(out, "GROUP BY {field}"),
            StageKind::Project(projection) => projection.fmt(out),
        }
    }
}

impl Display for Projection {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("PROJECT ")?;
        let parts = [("content", &self.content), ("attr", &self.attributes)];
        let given = parts.iter().filter(|(_, fields)| !fields.is_empty());
        for (at, (name, fields)) in given.enumerate() {
            write!(out, "{}{name}(", if at > 0 { ", " } else { "" })?;
            listed(out, *fields)?;
            out.write_char(')')?;
        }
        Ok(())
    }
}

impl Display for WithOption {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            WithOption::Superseded => out.write_str("superseded"),
            WithOption::ScoreBreakdown => out.write_str("score_breakdown"),
            WithOption::Explanation => out.write_str("explanation"),
            WithOption::Provenance => out.write_str("provenance"),
            WithOption::ContradictionDetection => out.write_str("contradiction_detection"),
            WithOption::Summarize => out.write_str("summarize"),
            WithOption::ProgressiveDisclosure(None) => out.write_str("progressive_disclosure"),
            WithOption::ProgressiveDisclosure(Some(level)) => {
                write!(out, "progressive_disclosure({level})")
            }
            WithOption::Diversity(Diversity::Mmr(None)) => out.write_str("diversity(mmr)"),
            WithOption::Diversity(Diversity::Mmr(Some(lambda))) => {
                write!(out, "diversity(mmr, lambda = {lambda})")
            }
            WithOption::Diversity(Diversity::Threshold(least)) => {
                write!(out, "diversity(threshold, {least})")
            }
            WithOption::Consistency(Consistency::Eventual) => {
                out.write_str("consistency(eventual)")
            }
            WithOption::Consistency(Consistency::Linearizable) => {
                out.write_str("consistency(linearizable)")
            }
            WithOption::Consistency(Consistency::Bounded(bound)) => {
                write!(out, "consistency(bounded({bound}))")
            }
            WithOption::Dedup(field) => write!(out, "dedup({field})"),
            WithOption::Locale(locale) => write!(out, "locale({})", Quoted(locale)),
            WithOption::Cache(seconds) => write!(out, "cache(ttl = {seconds})"),
            WithOption::IsoTimestamps => out.write_str("iso_timestamps"),
            WithOption::Extension(name, values) if values.is_empty() => out.write_str(name),
            WithOption::Extension(name, values) => {
                write!(out, "{name}(")?;
                listed(out, values)?;
                out.write_char(')')
            }
        }
    }
}

impl Display for Assemble {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("ASSEMBLE")?;
        self.name
            .iter()
            .try_for_each(|name| write!(out, " {name}"))?;
        self.intent
            .iter()
            .try_for_each(|intent| write!(out, " FOR {}", Quoted(intent)))?;
        out.write_str(" FROM ")?;
        listed(out, &self.sources)?;
        self.budget
            .iter()
            .try_for_each(|budget| write!(out, " BUDGET {} {}", budget.amount, budget.unit))?;
        if !self.priority.is_empty() {
            out.write_str(" PRIORITY ")?;
            separated(out, &self.priority, " > ")?;
        }
        self.format
            .iter()
            .try_for_each(|format| write!(out, " FORMAT {format}"))?;
        self.stream
            .iter()
            .try_for_each(|stream| write!(out, " {stream}"))?;
        with(out, &self.options)
    }
}

impl Display for Source {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.label
            .iter()
            .try_for_each(|label| write!(out, "{label}: "))?;
        match &self.body {
            SourceBody::Recall(recall) => write!(out, "({recall})"),
            SourceBody::Binding(parameter) => parameter.fmt(out),
        }
    }
}

impl Display for FormatSpec {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FormatSpec::Format(format) => format.fmt(out),
            FormatSpec::Preset(preset) => preset.fmt(out),
            FormatSpec::Template(name) => write!(out, "TEMPLATE {name}"),
            FormatSpec::Inline(sections) => write!(out, "TEMPLATE {{{sections} }}"),
        }
    }
}

impl Display for Sections {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.iter()
            .try_for_each(|(name, text)| write!(out, " {name} {{{}}}", untrim(text)))
    }
}

impl Display for Stream {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if *self == Stream::all() {
            return out.write_str("STREAM");
        }
        out.write_str("STREAM { ")?;
        let chunk_size = self.chunk_size.map(|size| format!("chunk_size = {size}"));
        listed(
            out,
            self.events
                .iter()
                .map(|event| event.name())
                .chain(chunk_size.as_deref()),
        )?;
        out.write_str(" }")
    }
}

impl Display for TemplateDefinition {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "DEFINE TEMPLATE {}", self.name)?;
        self.extends
            .iter()
            .try_for_each(|preset| write!(out, " EXTENDS {preset}"))?;
        self.sections.fmt(out)
    }
}

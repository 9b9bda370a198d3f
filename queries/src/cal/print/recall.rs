//! Prints RECALL: shortcuts, conditions, options and stages.

use std::fmt::{self, Display, Formatter, Write};

use super::{Quoted, listed, optional, separated};
use crate::cal::ast::*;
use crate::cal::grain_type::TypeName;
use crate::cal::vocabulary::{Direction, Extractor};

impl Display for Recall {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        recall(out, self, None)
    }
}

/// A RECALL, with an extractor after its stages if there is one.
pub(super) fn recall(
    out: &mut Formatter<'_>,
    recall: &Recall,
    extract: Option<Extractor>,
) -> fmt::Result {
    shortcuts(out, recall)?;
    if !recall.conditions.is_empty() {
        out.write_str(" WHERE ")?;
        separated(out, &recall.conditions, " AND ")?;
    }
    with(out, &recall.options)?;
    recall
        .stages
        .iter()
        .try_for_each(|stage| write!(out, " | {}", stage.kind))?;
    optional(out, " | ", extract)?;
    optional(out, " RECENT ", recall.recent)?;
    if recall.contradictions {
        out.write_str(" CONTRADICTIONS")?;
    }
    optional(out, " AS ", recall.format.as_ref())
}

/// Prints the parts of a RECALL before WHERE.
fn shortcuts(out: &mut Formatter<'_>, recall: &Recall) -> fmt::Result {
    out.write_str(if recall.my { "RECALL MY" } else { "RECALL" })?;
    optional(out, " ", recall.grain_type.map(TypeName::plural))?;
    optional(out, " ", recall.namespace.as_ref())?;
    optional(out, " ABOUT ", recall.about.as_deref().map(Quoted))?;
    optional(out, " LIKE ", recall.like.as_deref().map(Quoted))?;
    optional(out, " SINCE ", recall.since.as_deref().map(Quoted))?;
    if let Some((low, high)) = &recall.between {
        write!(out, " BETWEEN {low} AND {high}")?;
    }
    optional(out, " ", recall.thread.as_ref())
}

pub(super) fn with(out: &mut Formatter<'_>, options: &[WithOption]) -> fmt::Result {
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
            WithOption::Diversity(diversity) => write!(out, "diversity({diversity})"),
            WithOption::Consistency(consistency) => write!(out, "consistency({consistency})"),
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

impl Display for Diversity {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Diversity::Mmr(None) => out.write_str("mmr"),
            Diversity::Mmr(Some(lambda)) => write!(out, "mmr, lambda = {lambda}"),
            Diversity::Threshold(distance) => write!(out, "threshold, {distance}"),
        }
    }
}

impl Display for Consistency {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Consistency::Eventual => out.write_str("eventual"),
            Consistency::Linearizable => out.write_str("linearizable"),
            Consistency::Bounded(bound) => write!(out, "bounded({bound})"),
        }
    }
}

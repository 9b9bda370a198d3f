//! The canonical text of a query, and its hash (digest of CAL 1.0, sections 3 and 11).
//!
//! Each query has one canonical spelling: clauses in the order of the grammar, keywords in upper
//! case, single spaces, no comments, a bar before every stage. Parsing it yields the same tree,
//! unless it is longer than a query may be ([`MAX_QUERY_BYTES`](super::limits::MAX_QUERY_BYTES)).

mod recall;

use std::fmt::{self, Display, Formatter, Write};

use sha2::{Digest, Sha256};

use super::ast::*;
use super::template::untrim;
use recall::{recall, with};

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

/// A part that may be missing: `before` and its value.
fn optional(out: &mut Formatter<'_>, before: &str, value: Option<impl Display>) -> fmt::Result {
    match value {
        Some(value) => write!(out, "{before}{value}"),
        None => Ok(()),
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

impl Display for Assemble {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("ASSEMBLE")?;
        optional(out, " ", self.name.as_ref())?;
        optional(out, " FOR ", self.intent.as_deref().map(Quoted))?;
        out.write_str(" FROM ")?;
        listed(out, &self.sources)?;
        if let Some(budget) = &self.budget {
            write!(out, " BUDGET {} {}", budget.amount, budget.unit)?;
        }
        if !self.priority.is_empty() {
            out.write_str(" PRIORITY ")?;
            separated(out, &self.priority, " > ")?;
        }
        optional(out, " FORMAT ", self.format.as_ref())?;
        optional(out, " ", self.stream.as_ref())?;
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
        optional(out, " EXTENDS ", self.extends.as_ref())?;
        self.sections.fmt(out)
    }
}

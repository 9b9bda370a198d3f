//! Arguments of the tools, and the CAL statement that each call becomes.
//!
//! Statements are built as syntax trees and printed, so no argument can change the statement
//! around it.

use gristmill_queries::cal::ast::{
    Add, Address, Assemble, Budget, Comparison, Condition, Describe, FormatSpec, Recall, SetClause,
    Source, SourceBody, Stage, StageKind, Supersede, Target, Test, Value, WithOption,
};
use gristmill_queries::cal::grain_type::NameForm;
use gristmill_queries::cal::json::value_from_json;
use gristmill_queries::cal::limits::MAX_BUDGET_TOKENS;
use gristmill_queries::cal::span::Span;
use gristmill_queries::cal::vocabulary::{BudgetUnit, DescribeTarget, Format};
use gristmill_queries::cal::{CalError, Code, GrainType, KnownField, Result, Statement, TypeName};
use gristmill_schemas::json::Json;
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as JsonValue};

use super::checked;

/// Grains of a search or recall without `limit`.
const DEFAULT_LIMIT: u32 = 10;

/// Tokens of a context without `budget`.
const DEFAULT_BUDGET: u32 = 1_000;

/// Grains per source of a context that the budget is shared among.
const CONTEXT_CANDIDATES: u32 = 50;

/// A tool call as a statement.
pub(crate) struct ToolCall {
    /// The statement in canonical form, or as the caller wrote it.
    pub(crate) statement: String,
    /// Form of its answer.
    pub(super) shape: AnswerShape,
}

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerShape {
    /// The response as JSON, without what a model has no use for.
    Grains,
    /// Only the text of an assembled context.
    Context,
}

impl ToolCall {
    fn of(statement: Statement, shape: AnswerShape) -> Result<ToolCall> {
        Ok(ToolCall {
            statement: checked(statement)?,
            shape,
        })
    }
}

/// Arguments of `search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchArguments {
    /// The words to find.
    query: String,
    /// Only grains of this type, e.g. `belief` or `event`.
    #[serde(rename = "type")]
    grain_type: Option<String>,
    /// Only grains of this session's user.
    #[serde(default)]
    mine: bool,
    /// Only grains since this date or time, e.g. `2026-01-31`.
    since: Option<String>,
    /// Largest number of grains [default: 10, at most 1000].
    limit: Option<u32>,
}

impl SearchArguments {
    pub(crate) fn into_call(self) -> Result<ToolCall> {
        let recall = Recall {
            my: self.mine,
            grain_type: grain_type(self.grain_type.as_deref())?,
            like: Some(self.query),
            since: self.since,
            stages: vec![limit(self.limit)],
            ..Recall::default()
        };
        ToolCall::of(Statement::Recall(Box::new(recall)), AnswerShape::Grains)
    }
}

/// Arguments of `recall`.
#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct RecallArguments {
    /// A whole CAL statement, without any other argument. `describe` with the topic `grammar` shows
    /// the language.
    cal: Option<String>,
    /// Only grains of this type, e.g. `belief` or `event`.
    #[serde(rename = "type")]
    grain_type: Option<String>,
    /// Only beliefs with exactly this subject.
    subject: Option<String>,
    /// Only beliefs with exactly this relation, e.g. `mg:prefers`.
    relation: Option<String>,
    /// Conditions of equality on other fields: a value by field name. `describe` with the topic
    /// `fields` lists the fields.
    #[serde(default, rename = "where")]
    equal: Map<String, JsonValue>,
    /// Only messages of this session.
    session: Option<String>,
    /// Only grains of this session's user.
    #[serde(default)]
    mine: bool,
    /// Only grains since this date or time, e.g. `2026-01-31`.
    since: Option<String>,
    /// Only the newest grains, this many, newest first.
    recent: Option<u32>,
    /// Also superseded versions.
    #[serde(default)]
    superseded: bool,
    /// Largest number of grains [default: 10, at most 1000].
    limit: Option<u32>,
}

impl RecallArguments {
    pub(super) fn into_call(mut self) -> Result<ToolCall> {
        if let Some(statement) = self.cal.take() {
            // Left out, a condition would silently widen the answer.
            if self != RecallArguments::default() {
                let error = CalError::new(Code::E060, "`cal` is a whole statement.");
                return Err(error.suggest("Write the other arguments into it, or leave it out."));
            }
            return Ok(ToolCall {
                statement,
                shape: AnswerShape::Grains,
            });
        }
        let mut conditions = self.conditions()?;
        if let Some(session) = self.session.take() {
            conditions.push(equals(KnownField::SessionId, Value::text(session)));
        }
        let recall = Recall {
            my: self.mine,
            grain_type: grain_type(self.grain_type.as_deref())?,
            since: self.since,
            conditions,
            options: self
                .superseded
                .then_some(WithOption::Superseded)
                .into_iter()
                .collect(),
            // RECENT is a limit of its own.
            stages: match self.recent {
                Some(_) => Vec::new(),
                None => vec![limit(self.limit)],
            },
            recent: self
                .recent
                .map(|recent| self.limit.map_or(recent, |limit| limit.min(recent))),
            ..Recall::default()
        };
        ToolCall::of(Statement::Recall(Box::new(recall)), AnswerShape::Grains)
    }

    fn conditions(&mut self) -> Result<Vec<Condition>> {
        let mut conditions = Vec::new();
        if let Some(subject) = self.subject.take() {
            conditions.push(equals(KnownField::Subject, Value::text(subject)));
        }
        if let Some(relation) = self.relation.take() {
            conditions.push(equals(KnownField::Relation, Value::text(relation)));
        }
        for (name, given) in std::mem::take(&mut self.equal) {
            conditions.push(equals(field(&name)?, value(&given)?));
        }
        Ok(conditions)
    }
}

/// Arguments of `assemble`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct AssembleArguments {
    /// What the context is for: the topic or question whose words are searched.
    topic: String,
    /// People or things whose beliefs belong into the context, most important first; at most 6.
    #[serde(default)]
    subjects: Vec<String>,
    /// Size of the context in estimated tokens [default: 1000, at most 16000].
    budget: Option<u32>,
    /// markdown, text, json, yaml, sml, triples or toon [default: markdown].
    format: Option<String>,
    /// Only grains of this session's user.
    #[serde(default)]
    mine: bool,
}

impl AssembleArguments {
    /// Returns the statement. Its budget is `max_tokens` at most.
    pub(super) fn into_call(self, max_tokens: usize) -> Result<ToolCall> {
        let budget = self.budget.unwrap_or(DEFAULT_BUDGET);
        let name = self.format.as_deref().unwrap_or(Format::Markdown.name());
        let format = Format::from_name(name).ok_or_else(|| {
            let names = Format::NAMES.join(", ");
            CalError::new(Code::E002, format!("There is no format \"{name}\"."))
                .suggest(format!("Use one of {names}."))
        })?;
        let about = self.subjects.iter().map(|subject| Recall {
            my: self.mine,
            grain_type: Some(GrainType::Belief),
            conditions: vec![equals(KnownField::Subject, Value::text(subject))],
            stages: vec![limit(Some(CONTEXT_CANDIDATES))],
            ..Recall::default()
        });
        let topic = Recall {
            my: self.mine,
            like: Some(self.topic.clone()),
            stages: vec![limit(Some(CONTEXT_CANDIDATES))],
            ..Recall::default()
        };
        let assemble = Assemble {
            name: Some("memory".to_owned()),
            sources: about.chain([topic]).map(source).collect(),
            budget: Some(Budget {
                amount: match budget <= MAX_BUDGET_TOKENS {
                    true => budget.min(u32::try_from(max_tokens).unwrap_or(u32::MAX)),
                    // The check of the statement refuses it.
                    false => budget,
                },
                unit: BudgetUnit::Tokens,
            }),
            format: Some(FormatSpec::Format(format)),
            ..Assemble::default()
        };
        ToolCall::of(
            Statement::Assemble(Box::new(assemble)),
            AnswerShape::Context,
        )
    }
}

fn source(recall: Recall) -> Source {
    Source {
        label: None,
        body: SourceBody::Recall(Box::new(recall)),
        span: Span::default(),
    }
}

/// Topics of `describe`.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(rename_all = "snake_case")]
enum Topic {
    /// Number of current grains of each type.
    #[default]
    Contents,
    /// Fields of all grains, or of `type`.
    Fields,
    /// The grammar of CAL.
    Grammar,
    /// What this session may do.
    Capabilities,
}

/// Arguments of `describe`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct DescribeArguments {
    /// What to describe [default: contents].
    #[serde(default)]
    topic: Topic,
    /// The grain type whose grains are counted or whose fields are described, e.g. `belief`.
    #[serde(rename = "type")]
    grain_type: Option<String>,
}

impl DescribeArguments {
    pub(super) fn into_call(self) -> Result<ToolCall> {
        let grain_type = grain_type(self.grain_type.as_deref())?;
        let target = match self.topic {
            Topic::Contents => {
                return Ok(ToolCall {
                    statement: counts_by_type(grain_type),
                    shape: AnswerShape::Grains,
                });
            }
            Topic::Fields => DescribeTarget::Fields,
            Topic::Grammar => DescribeTarget::Grammar,
            Topic::Capabilities => DescribeTarget::Capabilities,
        };
        let describe = Describe { target, grain_type };
        ToolCall::of(Statement::Describe(describe), AnswerShape::Grains)
    }
}

/// Returns the statement that counts the current grains of each type, or of `only` one.
fn counts_by_type(only: Option<GrainType>) -> String {
    let counts: Vec<String> = GrainType::ALL
        .into_iter()
        .filter(|grain_type| only.is_none_or(|only| only == *grain_type))
        .map(|grain_type| {
            let plural = TypeName::plural(grain_type);
            format!("{plural}_count: RECALL {plural} | COUNT")
        })
        .collect();
    format!("BATCH {{ {} }}", counts.join(", "))
}

/// Arguments of `remember`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct RememberArguments {
    /// Type of the new grain [default: belief]; not with `supersedes`, which keeps the type.
    #[serde(rename = "type")]
    grain_type: Option<String>,
    /// Its fields, e.g. {"subject": "ada", "relation": "mg:prefers", "object": "tea"}.
    fields: Map<String, JsonValue>,
    /// Why it is remembered or changed.
    reason: String,
    /// Address (`sha256:…`) of the grain that gets a new version; `fields` are what changes.
    supersedes: Option<String>,
}

impl RememberArguments {
    pub(super) fn into_call(self) -> Result<ToolCall> {
        let mut set = Vec::new();
        for (name, given) in self.fields {
            set.push(SetClause {
                field: field(&name)?,
                value: value(&given)?,
                span: Span::default(),
            });
        }
        let grain_type = grain_type(self.grain_type.as_deref())?;
        let reason = self.reason;
        let statement = match (&self.supersedes, grain_type) {
            (Some(_), Some(_)) => {
                // Left out, it would silently be that of the old version.
                let error = CalError::new(Code::E060, "A new version has the type of the old one.");
                return Err(error.suggest("Leave `type` or `supersedes` out."));
            }
            (Some(address), None) => Statement::Supersede(Supersede {
                target: Target::Address(target(address)?),
                set,
                reason,
            }),
            (None, given) => Statement::Add(Add {
                grain_type: given.unwrap_or(GrainType::Belief),
                set,
                reason,
            }),
        };
        ToolCall::of(statement, AnswerShape::Grains)
    }
}

fn target(address: &str) -> Result<Address> {
    Address::parse(address).ok_or_else(|| {
        CalError::new(Code::E015, format!("\"{address}\" is no address."))
            .suggest("Write `sha256:` and at least 8 digits, as the answers of `recall` have it.")
    })
}

/// Parses the singular name of a type.
fn grain_type(name: Option<&str>) -> Result<Option<GrainType>> {
    name.map(|name| <GrainType as TypeName>::parse(name, NameForm::Singular, false))
        .transpose()
}

fn limit(number: Option<u32>) -> Stage {
    Stage {
        kind: StageKind::Limit(number.unwrap_or(DEFAULT_LIMIT)),
        span: Span::default(),
    }
}

fn equals(field: KnownField, value: Value) -> Condition {
    Condition {
        field: field.into(),
        test: Test::Compare(Comparison::Equal, value),
        span: Span::default(),
    }
}

fn field(name: &str) -> Result<KnownField> {
    KnownField::from_name(name).ok_or_else(|| {
        CalError::new(Code::E004, format!("There is no field \"{name}\"."))
            .suggest("`describe` with the topic `fields` lists the fields.")
    })
}

/// Converts a JSON value to one of CAL.
///
/// # Errors
/// E006 for a number that isn't the one that the caller wrote: integers of more than 64 bits were
/// rounded to floats when the message was parsed.
fn value(given: &JsonValue) -> Result<Value> {
    if let Some(number) = rounded_number(given) {
        let error = CalError::new(Code::E006, format!("{number} has more than 64 bits."));
        return Err(error.suggest("Give integers of more than 64 bits as texts."));
    }
    let text = given.to_string();
    // `text` is JSON; what can't be parsed again is null.
    let json = Json::parse(text.as_bytes()).unwrap_or(Json::Null);
    value_from_json(&json)
}

/// Returns the first float in `given` that may have been an integer of more than 64 bits.
fn rounded_number(given: &JsonValue) -> Option<&serde_json::Number> {
    let is_beyond = |number: &serde_json::Number| {
        let float = number.as_f64().filter(|_| number.is_f64());
        float.is_some_and(|float| float.abs() >= 2_f64.powi(63))
    };
    let mut left = vec![given];
    while let Some(value) = left.pop() {
        match value {
            JsonValue::Number(number) if is_beyond(number) => return Some(number),
            JsonValue::Array(values) => left.extend(values),
            JsonValue::Object(members) => left.extend(members.values()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;

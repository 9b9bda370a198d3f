//! Reads RECALL from JSON: shortcuts, conditions and stages.

use gristmill_schemas::json::{Json, Object};

use super::members::{
    NO_SPAN, array, extractor, flag, members, namespace, optional, positive, required, string,
    text, with, word, wrong_shape,
};
use super::read::JsonReader;
use super::value::{address, query_value};
use crate::cal::ast::*;
use crate::cal::check::{self, condition};
use crate::cal::error::{CalError, Code, Result};
use crate::cal::fields::Operator;
use crate::cal::grain_type::{GrainType, NameForm, TypeName};
use crate::cal::keywords::{Keyword, is_excluded, is_identifier};
use crate::cal::limits;
use crate::cal::relations::RelationCategory;
use crate::cal::vocabulary::{Direction, Extractor, Format};

const RECALL_KEYS: [&str; 14] = [
    "statement",
    "my",
    "grain_type",
    "in",
    "about",
    "like",
    "since",
    "between",
    "thread",
    "where",
    "with",
    "pipeline",
    "recent",
    "contradictions",
];

impl JsonReader {
    /// Reads a RECALL with the keys of its context, and the extractor at its end.
    pub(super) fn recall(
        &mut self,
        json: &Json,
        outer: &[&str],
        extract: Option<Extractor>,
    ) -> Result<Recall> {
        let object = members(json, &with(&with(&RECALL_KEYS, &["as"]), outer))?;
        required(object, "statement", |name| {
            word(name, &["recall"], |name| (name == "recall").then_some(()))
        })?;
        let mut recall = self.shortcuts(object)?;
        let grain_type = recall.grain_type;
        recall.conditions = optional(object, "where", |list| {
            array(list, |one| self.condition(one, grain_type))
        })?
        .unwrap_or_default();
        recall.options = optional(object, "with", |list| {
            array(list, |one| self.option(one, grain_type))
        })?
        .unwrap_or_default();
        optional(object, "pipeline", |list| {
            array(list, |one| self.stage(one, &mut recall))
        })?;
        if let Some(extract) = extract {
            push_stage(&mut recall, StageKind::Extract(extract))?;
        }
        check::recall::whole_statement(&mut self.checker, &recall)?;
        if extract.is_some() {
            recall.stages.pop();
        }
        Ok(recall)
    }

    /// Reads everything but conditions, options and stages.
    fn shortcuts(&mut self, object: &Object) -> Result<Recall> {
        let aliases = self.checker.options.aliases;
        let grain_type = optional(object, "grain_type", |name| {
            GrainType::parse(string(name)?, NameForm::Plural, aliases)
        })?;
        Ok(Recall {
            my: optional(object, "my", flag)?.unwrap_or_default(),
            grain_type,
            namespace: optional(object, "in", namespace)?,
            about: optional(object, "about", text)?,
            like: optional(object, "like", text)?,
            since: optional(object, "since", since)?,
            between: optional(object, "between", |pair| self.between(pair))?,
            thread: optional(object, "thread", |json| thread(json, grain_type))?,
            recent: optional(object, "recent", |count| {
                check::limit(positive(count)?, "RECENT", NO_SPAN)
            })?,
            contradictions: optional(object, "contradictions", flag)?.unwrap_or_default(),
            format: optional(object, "as", |name| {
                word(name, Format::NAMES, Format::from_name)
            })?,
            ..Recall::default()
        })
    }

    fn between(&mut self, json: &Json) -> Result<(Value, Value)> {
        let (low, high) = self.pair(json)?;
        condition::time("BETWEEN", &low, NO_SPAN)?;
        condition::time("BETWEEN", &high, NO_SPAN)?;
        Ok((low, high))
    }

    fn pair(&mut self, json: &Json) -> Result<(Value, Value)> {
        match <[Value; 2]>::try_from(array(json, |value| query_value(&mut self.checker, value))?) {
            Ok([low, high]) => Ok((low, high)),
            Err(_) => Err(CalError::new(Code::E120, "Expected two values.")),
        }
    }

    /// Returns the field with this name; `prefix:name` is a domain field.
    pub(super) fn field(&mut self, json: &Json, grain_type: Option<GrainType>) -> Result<Field> {
        let name = string(json)?;
        match domain(name) {
            Some((prefix, name)) => Ok(check::field::domain(
                &mut self.checker,
                prefix,
                name,
                NO_SPAN,
            )),
            None => check::field::resolve(name, grain_type, NO_SPAN),
        }
    }

    fn condition(&mut self, json: &Json, grain_type: Option<GrainType>) -> Result<Condition> {
        let object = members(json, &["field", "op", "value"])?;
        let field = required(object, "field", |name| self.field(name, grain_type))?;
        let operator = required(object, "op", |op| {
            word(op, Operator::NAMES, Operator::from_name)
        })?;
        condition::operator(&field, operator, NO_SPAN).map_err(|error| error.in_member("op"))?;
        let test = required(object, "value", |value| self.test(&field, operator, value))?;
        Ok(Condition {
            field,
            test,
            span: NO_SPAN,
        })
    }

    fn test(&mut self, field: &Field, operator: Operator, json: &Json) -> Result<Test> {
        let comparison = Comparison::from_name(operator.name());
        Ok(match (comparison, operator) {
            (Some(comparison), _) => Test::Compare(comparison, self.scalar_of(field, json)?),
            (_, Operator::In) => Test::In(self.in_set(field, json)?),
            (_, Operator::Between) => {
                let (mut low, mut high) = self.pair(json)?;
                condition::scalar(&mut self.checker, field, &mut low, NO_SPAN)?;
                condition::scalar(&mut self.checker, field, &mut high, NO_SPAN)?;
                Test::Between(low, high)
            }
            (_, Operator::Include) => Test::Include(self.items(field, json)?),
            (_, Operator::Exclude) => Test::Exclude(self.items(field, json)?),
            _ => Test::Is(word(
                json,
                RelationCategory::NAMES,
                RelationCategory::from_name,
            )?),
        })
    }

    fn scalar_of(&mut self, field: &Field, json: &Json) -> Result<Value> {
        let mut value = query_value(&mut self.checker, json)?;
        condition::scalar(&mut self.checker, field, &mut value, NO_SPAN)?;
        Ok(value)
    }

    fn items(&mut self, field: &Field, json: &Json) -> Result<Vec<Value>> {
        let values = array(json, |value| query_value(&mut self.checker, value))?;
        condition::items(field, &values, NO_SPAN)?;
        Ok(values)
    }

    fn in_set(&mut self, field: &Field, json: &Json) -> Result<InSet> {
        if json.get("$query").is_some() {
            return Ok(InSet::Subquery(Box::new(self.subquery(json)?)));
        }
        let values = array(json, |value| self.scalar_of(field, value))?;
        condition::in_length(values.len(), NO_SPAN)?;
        if values.is_empty() {
            return Err(CalError::new(
                Code::E002,
                "An IN list has at least one value.",
            ));
        }
        Ok(InSet::Values(values))
    }

    fn subquery(&mut self, json: &Json) -> Result<Subquery> {
        let object = members(json, &["$query", "extract"])?;
        if self.subqueries == limits::MAX_SUBQUERY_DEPTH {
            let message = format!(
                "Subqueries nest at most {} deep.",
                limits::MAX_SUBQUERY_DEPTH
            );
            return Err(CalError::new(Code::E007, message));
        }
        let extract = required(object, "extract", extractor)?;
        self.subqueries += 1;
        let query = required(object, "$query", |query| {
            self.recall(query, &[], Some(extract))
        })?;
        self.subqueries -= 1;
        Ok(Subquery { query, extract })
    }

    fn stage(&mut self, json: &Json, recall: &mut Recall) -> Result<()> {
        let object = json
            .as_object()
            .ok_or_else(|| wrong_shape("an object", json))?;
        let name = required(object, "stage", |name| string(name).map(str::to_owned))?;
        let grain_type = recall.grain_type;
        let kind = match name.as_str() {
            "select" => self.select(json, grain_type)?,
            "order_by" => self.order_by(json, grain_type)?,
            "limit" => StageKind::Limit(required(members(json, &["stage", "n"])?, "n", |count| {
                check::limit(positive(count)?, "LIMIT", NO_SPAN)
            })?),
            "offset" => {
                StageKind::Offset(required(members(json, &["stage", "n"])?, "n", |count| {
                    self.offset(count)
                })?)
            }
            "group_by" => {
                let object = members(json, &["stage", "field"])?;
                StageKind::GroupBy(required(object, "field", |field| {
                    self.field(field, grain_type)
                })?)
            }
            "project" => StageKind::Project(
                self.projection(members(json, &["stage", "content", "attr"])?, grain_type)?,
            ),
            plain => {
                members(json, &["stage"])?;
                plain_stage(plain)?
            }
        };
        push_stage(recall, kind)
    }

    fn select(&mut self, json: &Json, grain_type: Option<GrainType>) -> Result<StageKind> {
        let object = members(json, &["stage", "fields"])?;
        let fields = required(object, "fields", |list| {
            array(list, |one| self.field(one, grain_type))
        })?;
        match fields.is_empty() {
            true => Err(CalError::new(
                Code::E002,
                "SELECT names at least one field.",
            )),
            false => Ok(StageKind::Select(fields)),
        }
    }

    fn order_by(&mut self, json: &Json, grain_type: Option<GrainType>) -> Result<StageKind> {
        let object = members(json, &["stage", "field", "dir"])?;
        let field = required(object, "field", |field| self.field(field, grain_type))?;
        let direction = optional(object, "dir", |dir| {
            word(dir, &["asc", "desc"], Direction::from_name)
        })?;
        Ok(StageKind::OrderBy(
            field,
            direction.unwrap_or(Direction::Ascending),
        ))
    }

    fn offset(&mut self, json: &Json) -> Result<Offset> {
        match query_value(&mut self.checker, json)? {
            Value::Parameter(parameter) => Ok(Offset::Parameter(parameter)),
            Value::Number(number) => check::offset(&number, NO_SPAN).map(Offset::Count),
            _ => Err(wrong_shape("a number or a parameter", json)),
        }
    }

    fn projection(&mut self, object: &Object, grain_type: Option<GrainType>) -> Result<Projection> {
        let mut fields = |key| {
            optional(object, key, |list| {
                array(list, |one| self.projected(one, grain_type))
            })
        };
        let projection = Projection {
            content: fields("content")?.unwrap_or_default(),
            attributes: fields("attr")?.unwrap_or_default(),
        };
        match projection.content.is_empty() && projection.attributes.is_empty() {
            true => Err(CalError::new(
                Code::E002,
                "PROJECT names at least one field.",
            )),
            false => Ok(projection),
        }
    }

    fn projected(&mut self, json: &Json, grain_type: Option<GrainType>) -> Result<ProjectField> {
        let name = string(json)?;
        match domain(name) {
            Some((prefix, name)) => Ok(ProjectField::Field(check::field::domain(
                &mut self.checker,
                prefix,
                name,
                NO_SPAN,
            ))),
            None => check::field::projected(name, grain_type, NO_SPAN),
        }
    }
}

fn push_stage(recall: &mut Recall, kind: StageKind) -> Result<()> {
    let stage = Stage {
        kind,
        span: NO_SPAN,
    };
    check::pipeline::stage(&recall.stages, &stage, recall.grain_type)?;
    recall.stages.push(stage);
    Ok(())
}

fn plain_stage(name: &str) -> Result<StageKind> {
    let extractor = Extractor::from_name(name).map(StageKind::Extract);
    match name {
        "count" => Ok(StageKind::Count),
        "first" => Ok(StageKind::First),
        _ => extractor.ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            CalError::new(Code::E002, format!("Unknown stage \"{shown}\".")).in_member("stage")
        }),
    }
}

fn since(json: &Json) -> Result<String> {
    let text = text(json)?;
    condition::time("SINCE", &Value::text(text.as_str()), NO_SPAN)?;
    Ok(text)
}

fn thread(json: &Json, grain_type: Option<GrainType>) -> Result<Thread> {
    let thread = match json {
        Json::String(_) => Thread::Session(text(json)?),
        _ => {
            let object = members(json, &["from"])?;
            Thread::From(required(object, "from", |from| address(string(from)?))?)
        }
    };
    check::recall::thread(grain_type, NO_SPAN)?;
    Ok(thread)
}

/// Returns prefix and name of a domain field, if the text form can express it.
fn domain(name: &str) -> Option<(&str, &str)> {
    let (prefix, rest) = name.split_once(':')?;
    let begins_field = !is_excluded(prefix) && !matches!(prefix, "sha256") && {
        let keyword = Keyword::from_name(prefix);
        !matches!(keyword, Some(Keyword::And | Keyword::Or | Keyword::Not))
    };
    let sayable = is_identifier(prefix)
        && is_identifier(rest)
        && (!is_excluded(rest) || rest.eq_ignore_ascii_case("consent"));
    (begins_field && sayable).then_some((prefix, rest))
}

//! Reads JSON as syntax trees, with the same checks as the parser.

use gristmill_schemas::json::{Json, Object};

use super::value::{address, query_value};
use crate::cal::ast::*;
use crate::cal::check::evolve::{self, SetStatement};
use crate::cal::check::{self, Checker, condition};
use crate::cal::error::{CalError, Code, Result};
use crate::cal::fields::KnownField;
use crate::cal::grain_type::{GrainType, NameForm, TypeName};
use crate::cal::keywords::Keyword;
use crate::cal::limits;
use crate::cal::print;
use crate::cal::span::Span;
use crate::cal::template::{SectionReader, extends};
use crate::cal::vocabulary::{
    BudgetUnit, DescribeTarget, Extractor, Format, Preset, SectionName, SetOperator, StreamEvent,
};
use crate::cal::{Options, Parsed};

/// The span of all parts: JSON queries have no text.
pub(super) const NO_SPAN: Span = Span { start: 0, end: 0 };

/// Reads and checks a query in JSON form.
///
/// # Errors
/// Those of [`parse`](crate::cal::parse); E120 for JSON that is no query, with a JSON pointer.
pub fn from_json(json: &Json, options: Options) -> Result<Parsed> {
    let mut reader = JsonReader {
        checker: Checker::new(options),
        subqueries: 0,
        operands: 0,
    };
    let query = reader.query(json)?;
    check::bindings::references(&query)?;
    let bytes = print::print(&query).len();
    if bytes > limits::MAX_QUERY_BYTES {
        return Err(CalError::new(
            Code::E001,
            format!("As text the query has {bytes} bytes."),
        ));
    }
    Ok(Parsed {
        query,
        warnings: reader.checker.warnings,
    })
}

/// [`from_json`] for bytes.
///
/// # Errors
/// E001 for too many bytes, E014 for none, E120 for invalid JSON, otherwise those of [`from_json`].
pub fn from_json_bytes(bytes: &[u8], options: Options) -> Result<Parsed> {
    if bytes.len() > limits::MAX_JSON_BYTES {
        return Err(CalError::new(
            Code::E001,
            format!("The query has {} bytes.", bytes.len()),
        ));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(CalError::new(Code::E014, "The query is empty."));
    }
    let json = Json::parse(bytes)
        .map_err(|error| CalError::new(Code::E120, format!("Not JSON: {error}.")))?;
    from_json(&json, options)
}

pub(super) struct JsonReader {
    pub(super) checker: Checker,
    /// Number of open subqueries.
    pub(super) subqueries: usize,
    /// Number of open set operations.
    operands: usize,
}

/// Returns the error for JSON of another shape than expected.
pub(super) fn wrong_shape(expected: &str, found: &Json) -> CalError {
    CalError::new(
        Code::E120,
        format!("Expected {expected}, found {}.", found.kind()),
    )
}

/// Returns the members of an object, all of which must be in `allowed`.
pub(super) fn members<'j, 'a>(json: &'j Json<'a>, allowed: &[&str]) -> Result<&'j Object<'a>> {
    let object = json
        .as_object()
        .ok_or_else(|| wrong_shape("an object", json))?;
    match object.keys().find(|key| !allowed.contains(key)) {
        Some(unknown) => {
            let error = CalError::new(Code::E120, format!("Unknown key \"{unknown}\"."));
            Err(error
                .valid_values(allowed.iter().copied())
                .in_member(unknown))
        }
        None => Ok(object),
    }
}

/// Reads the optional member `key`.
pub(super) fn optional<T>(
    object: &Object,
    key: &str,
    read: impl FnOnce(&Json) -> Result<T>,
) -> Result<Option<T>> {
    object
        .get(key)
        .map(read)
        .transpose()
        .map_err(|error| error.in_member(key))
}

/// Reads the required member `key`.
pub(super) fn required<T>(
    object: &Object,
    key: &str,
    read: impl FnOnce(&Json) -> Result<T>,
) -> Result<T> {
    optional(object, key, read)?
        .ok_or_else(|| CalError::new(Code::E120, format!("The key \"{key}\" is missing.")))
}

/// Reads the items of an array.
pub(super) fn array<T>(json: &Json, mut read: impl FnMut(&Json) -> Result<T>) -> Result<Vec<T>> {
    let items = json
        .as_array()
        .ok_or_else(|| wrong_shape("an array", json))?;
    let read_at =
        |(at, item): (usize, &Json)| read(item).map_err(|error| error.in_member(at.to_string()));
    items.iter().enumerate().map(read_at).collect()
}

/// Returns a string.
pub(super) fn string<'j>(json: &'j Json) -> Result<&'j str> {
    json.as_str().ok_or_else(|| wrong_shape("a string", json))
}

/// Returns a checked and normalised text.
pub(super) fn text(json: &Json) -> Result<String> {
    check::text(string(json)?)
}

/// Returns the member of a closed vocabulary.
pub(super) fn word<T>(
    json: &Json,
    names: &[&str],
    find: impl FnOnce(&str) -> Option<T>,
) -> Result<T> {
    let name = string(json)?;
    find(name).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        CalError::new(Code::E120, format!("Unknown word \"{shown}\"."))
            .valid_values(names.iter().copied())
    })
}

/// Checks for `true`, the value of keys that represent keywords.
pub(super) fn flag(json: &Json) -> Result<bool> {
    json.as_bool().ok_or_else(|| wrong_shape("a boolean", json))
}

/// Returns a number.
pub(super) fn number(json: &Json) -> Result<crate::cal::Number> {
    let number = json
        .as_number()
        .ok_or_else(|| wrong_shape("a number", json))?;
    crate::cal::Number::from_json(number)
        .ok_or_else(|| CalError::new(Code::E006, "The number is too long."))
}

/// Returns an integer from 1.
pub(super) fn positive(json: &Json) -> Result<u64> {
    check::positive(&number(json)?, NO_SPAN)
}

fn name(json: &Json) -> Result<String> {
    check::name(string(json)?, NO_SPAN)
}

/// Returns a name that is valid after ASSEMBLE, where FOR and FROM are keywords.
fn context_name(json: &Json) -> Result<String> {
    let name = name(json)?;
    match Keyword::from_name(&name) {
        Some(Keyword::For | Keyword::From) => Err(CalError::new(
            Code::E002,
            format!("\"{name}\" can't name a context."),
        )),
        _ => Ok(name),
    }
}

/// Reads `{"namespace": "n"}` or `{"scope": "n"}`.
pub(super) fn namespace(json: &Json) -> Result<NamespaceScope> {
    let object = members(json, &["namespace", "scope"])?;
    match (
        optional(object, "namespace", text)?,
        optional(object, "scope", text)?,
    ) {
        (Some(name), None) => Ok(NamespaceScope::Exactly(name)),
        (None, Some(name)) => Ok(NamespaceScope::Below(name)),
        _ => Err(CalError::new(
            Code::E120,
            "Expected either \"namespace\" or \"scope\".",
        )),
    }
}

pub(super) fn extractor(json: &Json) -> Result<Extractor> {
    word(
        json,
        &["subjects", "objects", "hashes"],
        Extractor::from_name,
    )
}

impl JsonReader {
    fn query(&mut self, json: &Json) -> Result<Query> {
        let object = json
            .as_object()
            .ok_or_else(|| wrong_shape("an object", json))?;
        optional(object, "cal_version", |version| match version.as_u64() {
            Some(1) => Ok(()),
            _ => Err(CalError::new(
                Code::E100,
                format!("CAL/{version} is not supported."),
            )),
        })?;
        let lets = optional(object, "let", |lets| self.lets(lets))?.unwrap_or_default();
        let statement = self.statement(json)?;
        Ok(Query { lets, statement })
    }

    fn lets(&mut self, json: &Json) -> Result<Vec<Let>> {
        let mut lets: Vec<Let> = Vec::new();
        array(json, |json| {
            check::bindings::let_count(lets.len(), NO_SPAN)?;
            let object = members(json, &["name", "query", "extract"])?;
            let name = required(object, "name", |name| {
                self.checker.parameter(string(name)?, NO_SPAN)
            })?
            .name;
            if lets.iter().any(|binding| binding.name == name) {
                return Err(check::bindings::duplicate_name(&name, NO_SPAN));
            }
            let extract = optional(object, "extract", extractor)?;
            let query = required(object, "query", |query| self.recall(query, &[], extract))?;
            lets.push(Let {
                name,
                query,
                extract,
                span: NO_SPAN,
            });
            Ok(())
        })?;
        Ok(lets)
    }

    /// Reads the statement, with the keys that only a whole query has.
    fn statement(&mut self, json: &Json) -> Result<Statement> {
        const OUTER: &[&str] = &["cal_version", "let"];
        Ok(match self.statement_name(json)? {
            "recall" => Statement::Recall(Box::new(self.recall(json, OUTER, None)?)),
            "assemble" => Statement::Assemble(Box::new(self.assemble(json, OUTER)?)),
            "set_op" => {
                Statement::SetOperation(Box::new(self.outermost_set_operation(json, OUTER)?))
            }
            "exists" => Statement::Exists(self.exists(json, OUTER)?),
            "history" => Statement::History(self.history(json, OUTER)?),
            "explain" => {
                let object = members(json, &with(&["statement", "of"], OUTER))?;
                Statement::Explain(required(object, "of", |of| self.explained(of))?)
            }
            "describe" => Statement::Describe(self.describe(json, OUTER)?),
            "batch" => Statement::Batch(self.batch(json, OUTER)?),
            "coalesce" => Statement::Coalesce(self.coalesce(json, OUTER)?),
            "define_template" => Statement::DefineTemplate(self.definition(json, OUTER)?),
            "add" => Statement::Add(self.add(json, OUTER)?),
            "supersede" => Statement::Supersede(self.supersede(json, OUTER)?),
            "revert" => Statement::Revert(self.revert(json, OUTER)?),
            other => return Err(unknown_statement(other)),
        })
    }

    fn statement_name<'j>(&self, json: &'j Json) -> Result<&'j str> {
        let object = json
            .as_object()
            .ok_or_else(|| wrong_shape("an object", json))?;
        let name = object
            .get("statement")
            .ok_or_else(|| CalError::new(Code::E120, "The key \"statement\" is missing."))?;
        string(name).map_err(|error| error.in_member("statement"))
    }

    fn explained(&mut self, json: &Json) -> Result<Explainable> {
        Ok(match self.statement_name(json)? {
            "recall" => Explainable::Recall(Box::new(self.recall(json, &[], None)?)),
            "assemble" => Explainable::Assemble(Box::new(self.assemble(json, &[])?)),
            "set_op" => {
                Explainable::SetOperation(Box::new(self.outermost_set_operation(json, &[])?))
            }
            "add" => Explainable::Add(self.add(json, &[])?),
            "supersede" => Explainable::Supersede(self.supersede(json, &[])?),
            "revert" => Explainable::Revert(self.revert(json, &[])?),
            "batch" => Explainable::Batch(self.batch(json, &[])?),
            "coalesce" => Explainable::Coalesce(self.coalesce(json, &[])?),
            other => return Err(misplaced(other, "EXPLAIN")),
        })
    }

    fn outermost_set_operation(&mut self, json: &Json, outer: &[&str]) -> Result<SetOperation> {
        let operation = self.set_operation(json, outer)?;
        check::assemble::set_operands(&operation, NO_SPAN)?;
        Ok(operation)
    }

    fn set_operation(&mut self, json: &Json, outer: &[&str]) -> Result<SetOperation> {
        if self.operands == limits::MAX_SET_OPERANDS {
            return Err(CalError::new(
                Code::E013,
                "Set operations are nested too deeply.",
            ));
        }
        self.operands += 1;
        let object = members(json, &with(&["statement", "op", "left", "right"], outer))?;
        let operator = required(object, "op", |op| {
            word(
                op,
                &["union", "intersect", "except"],
                SetOperator::from_name,
            )
        })?;
        let left = required(object, "left", |left| self.set_operand(left))?;
        let right = required(object, "right", |right| self.set_operand(right))?;
        self.operands -= 1;
        Ok(SetOperation {
            operator,
            left,
            right,
        })
    }

    fn set_operand(&mut self, json: &Json) -> Result<SetOperand> {
        const OUTER: &[&str] = &["let"];
        let object = json
            .as_object()
            .ok_or_else(|| wrong_shape("an object", json))?;
        let lets = optional(object, "let", |lets| self.lets(lets))?.unwrap_or_default();
        let body = match self.statement_name(json)? {
            "recall" => {
                let recall = self.recall(json, OUTER, None)?;
                check::operand_shape(&recall)?;
                SetBody::Recall(Box::new(recall))
            }
            "set_op" => SetBody::SetOperation(Box::new(self.set_operation(json, OUTER)?)),
            other => return Err(check::not_an_operand(other, NO_SPAN)),
        };
        Ok(SetOperand { lets, body })
    }

    fn target(&mut self, json: &Json) -> Result<Target> {
        match json {
            Json::String(text) => address(text).map(Target::Address),
            _ => match query_value(&mut self.checker, json)? {
                Value::Parameter(parameter) => Ok(Target::Parameter(parameter)),
                Value::Hash(address) => Ok(Target::Address(address)),
                _ => Err(wrong_shape("an address or a parameter", json)),
            },
        }
    }

    fn exists(&mut self, json: &Json, outer: &[&str]) -> Result<Exists> {
        let object = members(json, &with(&["statement", "hash"], outer))?;
        Ok(Exists {
            target: required(object, "hash", |hash| self.target(hash))?,
        })
    }

    fn history(&mut self, json: &Json, outer: &[&str]) -> Result<History> {
        let by_address = json.get("hash").is_some();
        if by_address {
            let object = members(json, &with(&["statement", "hash", "diff"], outer))?;
            let target = required(object, "hash", |hash| self.target(hash))?;
            let diff = optional(object, "diff", |diff| self.target(diff))?;
            return Ok(History::Versions { target, diff });
        }
        let object = members(
            json,
            &with(&["statement", "in", "subject", "relation", "as_of"], outer),
        )?;
        let namespace = optional(object, "in", namespace)?;
        let subject = required(object, "subject", |value| {
            self.scalar(KnownField::Subject, value)
        })?;
        let relation = required(object, "relation", |value| {
            self.scalar(KnownField::Relation, value)
        })?;
        let as_of = optional(object, "as_of", |time| {
            let text = text(time)?;
            condition::time("AS OF", &Value::text(text.as_str()), NO_SPAN)?;
            Ok(text)
        })?;
        Ok(History::Triple {
            namespace,
            subject,
            relation,
            as_of,
        })
    }

    fn scalar(&mut self, field: KnownField, json: &Json) -> Result<Value> {
        let mut value = query_value(&mut self.checker, json)?;
        condition::scalar(&mut self.checker, &Field::Known(field), &mut value, NO_SPAN)?;
        Ok(value)
    }

    fn describe(&mut self, json: &Json, outer: &[&str]) -> Result<Describe> {
        let object = members(json, &with(&["statement", "target", "grain_type"], outer))?;
        let target = required(object, "target", |target| {
            word(target, DescribeTarget::NAMES, DescribeTarget::from_name)
        })?;
        let grain_type = optional(object, "grain_type", |name| self.singular(name))?;
        if grain_type.is_some() && target != DescribeTarget::Fields {
            return Err(
                CalError::new(Code::E120, "Only fields have a grain type.").in_member("grain_type")
            );
        }
        Ok(Describe { target, grain_type })
    }

    fn singular(&self, json: &Json) -> Result<GrainType> {
        GrainType::parse(
            string(json)?,
            NameForm::Singular,
            self.checker.options.aliases,
        )
    }

    fn batch(&mut self, json: &Json, outer: &[&str]) -> Result<Batch> {
        let object = members(json, &with(&["statement", "entries"], outer))?;
        let mut entries: Vec<BatchEntry> = Vec::new();
        required(object, "entries", |list| {
            array(list, |json| {
                let object = members(json, &["label", "query"])?;
                let label = required(object, "label", name)?;
                check::batch_entry(&entries, &label, NO_SPAN)?;
                let query = required(object, "query", |query| self.batch_query(query))?;
                entries.push(BatchEntry {
                    label,
                    query,
                    span: NO_SPAN,
                });
                Ok(())
            })
        })?;
        if entries.is_empty() {
            return Err(CalError::new(
                Code::E002,
                "A BATCH holds at least one query.",
            ));
        }
        Ok(Batch { entries })
    }

    fn batch_query(&mut self, json: &Json) -> Result<BatchQuery> {
        Ok(match self.statement_name(json)? {
            "recall" => BatchQuery::Recall(Box::new(self.recall(json, &[], None)?)),
            "exists" => BatchQuery::Exists(self.exists(json, &[])?),
            "history" => BatchQuery::History(self.history(json, &[])?),
            "describe" => BatchQuery::Describe(self.describe(json, &[])?),
            "coalesce" => BatchQuery::Coalesce(self.coalesce(json, &[])?),
            other => return Err(misplaced(other, "a BATCH")),
        })
    }

    fn coalesce(&mut self, json: &Json, outer: &[&str]) -> Result<Coalesce> {
        let object = members(json, &with(&["statement", "branches"], outer))?;
        let mut count = 0;
        let branches = required(object, "branches", |list| {
            array(list, |branch| {
                count += 1;
                check::coalesce_branches(count, NO_SPAN)?;
                self.recall(branch, &[], None)
            })
        })?;
        if branches.len() < 2 {
            return Err(CalError::new(
                Code::E002,
                "COALESCE needs at least two branches.",
            ));
        }
        Ok(Coalesce { branches })
    }

    fn set_clauses(&mut self, setter: SetStatement, json: &Json) -> Result<Vec<SetClause>> {
        let mut clauses: Vec<SetClause> = Vec::new();
        array(json, |json| {
            let object = members(json, &["field", "value"])?;
            let field = required(object, "field", |name| {
                evolve::field(setter, &clauses, string(name)?, NO_SPAN)
            })?;
            let value = required(object, "value", |value| {
                let mut value = query_value(&mut self.checker, value)?;
                evolve::value(&mut self.checker, setter, field, &mut value, NO_SPAN)?;
                Ok(value)
            })?;
            clauses.push(SetClause {
                field,
                value,
                span: NO_SPAN,
            });
            Ok(())
        })?;
        Ok(clauses)
    }

    fn reason(&self, object: &Object) -> Result<String> {
        let reason = optional(object, "reason", text)?
            .ok_or_else(|| CalError::new(Code::E018, "REASON is missing."))?;
        check::reason(&reason, NO_SPAN)?;
        Ok(reason)
    }

    fn add(&mut self, json: &Json, outer: &[&str]) -> Result<Add> {
        let object = members(
            json,
            &with(&["statement", "grain_type", "set", "reason"], outer),
        )?;
        let grain_type = required(object, "grain_type", |name| self.singular(name))?;
        evolve::addable(grain_type, NO_SPAN)?;
        let set = optional(object, "set", |set| {
            self.set_clauses(SetStatement::Add(grain_type), set)
        })?
        .unwrap_or_default();
        let reason = self.reason(object)?;
        evolve::complete(&set, NO_SPAN)?;
        Ok(Add {
            grain_type,
            set,
            reason,
        })
    }

    fn supersede(&mut self, json: &Json, outer: &[&str]) -> Result<Supersede> {
        let object = members(json, &with(&["statement", "hash", "set", "reason"], outer))?;
        let target = required(object, "hash", |hash| self.target(hash))?;
        let set = optional(object, "set", |set| {
            self.set_clauses(SetStatement::Supersede, set)
        })?
        .unwrap_or_default();
        if set.is_empty() {
            return Err(CalError::new(
                Code::E019,
                "SUPERSEDE changes nothing without SET.",
            ));
        }
        Ok(Supersede {
            target,
            set,
            reason: self.reason(object)?,
        })
    }

    fn revert(&mut self, json: &Json, outer: &[&str]) -> Result<Revert> {
        let object = members(json, &with(&["statement", "hash", "reason"], outer))?;
        let target = required(object, "hash", |hash| self.target(hash))?;
        Ok(Revert {
            target,
            reason: self.reason(object)?,
        })
    }

    fn definition(&mut self, json: &Json, outer: &[&str]) -> Result<TemplateDefinition> {
        let object = members(
            json,
            &with(&["statement", "name", "extends", "sections"], outer),
        )?;
        Ok(TemplateDefinition {
            name: required(object, "name", name)?,
            extends: optional(object, "extends", |preset| {
                extends(string(preset)?, NO_SPAN)
            })?,
            sections: required(object, "sections", sections)?,
            span: NO_SPAN,
        })
    }

    fn assemble(&mut self, json: &Json, outer: &[&str]) -> Result<Assemble> {
        let keys = [
            "statement",
            "name",
            "for",
            "from",
            "budget",
            "priority",
            "format",
            "stream",
            "with",
        ];
        let object = members(json, &with(&keys, outer))?;
        let assemble = Assemble {
            name: optional(object, "name", context_name)?,
            intent: optional(object, "for", |intent| {
                let intent = text(intent)?;
                check::intent(&intent, NO_SPAN)?;
                Ok(intent)
            })?,
            sources: required(object, "from", |from| self.sources(from))?,
            budget: optional(object, "budget", budget)?,
            priority: optional(object, "priority", |labels| array(labels, name))?
                .unwrap_or_default(),
            format: optional(object, "format", format_spec)?,
            stream: optional(object, "stream", stream)?,
            options: optional(object, "with", |list| {
                array(list, |option| self.option(option, None))
            })?
            .unwrap_or_default(),
            span: NO_SPAN,
        };
        check::assemble::whole_statement(&assemble)?;
        Ok(assemble)
    }

    fn sources(&mut self, json: &Json) -> Result<Vec<Source>> {
        let mut sources: Vec<Source> = Vec::new();
        array(json, |json| {
            check::assemble::sources(sources.len() + 1, NO_SPAN)?;
            let object = members(json, &["label", "query", "let"])?;
            let label = optional(object, "label", name)?;
            if let Some(label) = &label {
                check::assemble::label(&sources, label, NO_SPAN)?;
            }
            let query = optional(object, "query", |query| self.recall(query, &[], None))?;
            let binding = optional(object, "let", |name| {
                self.checker.parameter(string(name)?, NO_SPAN)
            })?;
            let body = match (query, binding) {
                (Some(recall), None) => SourceBody::Recall(Box::new(recall)),
                (None, Some(parameter)) => SourceBody::Binding(parameter),
                _ => {
                    return Err(CalError::new(
                        Code::E120,
                        "A source has either \"query\" or \"let\".",
                    ));
                }
            };
            sources.push(Source {
                label,
                body,
                span: NO_SPAN,
            });
            Ok(())
        })?;
        match sources.is_empty() {
            true => Err(CalError::new(
                Code::E002,
                "ASSEMBLE needs at least one source.",
            )),
            false => Ok(sources),
        }
    }
}

/// Returns the keys of a statement and those of its context.
pub(super) fn with<'k>(keys: &[&'k str], more: &[&'k str]) -> Vec<&'k str> {
    keys.iter().chain(more).copied().collect()
}

fn unknown_statement(name: &str) -> CalError {
    let shown: String = name.chars().take(64).collect();
    CalError::new(Code::E120, format!("Unknown statement \"{shown}\".")).in_member("statement")
}

fn misplaced(name: &str, place: &str) -> CalError {
    let shown: String = name.chars().take(64).collect();
    CalError::new(
        Code::E002,
        format!("\"{shown}\" is not allowed in {place}."),
    )
    .in_member("statement")
}

fn budget(json: &Json) -> Result<Budget> {
    let object = members(json, &["n", "unit"])?;
    let amount = required(object, "n", positive)?;
    let unit = required(object, "unit", |unit| {
        word(unit, BudgetUnit::NAMES, BudgetUnit::from_name)
    })?;
    check::assemble::budget(amount, unit, NO_SPAN)
}

fn format_spec(json: &Json) -> Result<FormatSpec> {
    if json.as_str().is_some() {
        let names: Vec<&str> = Format::NAMES.iter().chain(Preset::NAMES).copied().collect();
        return word(json, &names, |name| {
            let format = Format::from_name(name).map(FormatSpec::Format);
            format.or_else(|| Preset::from_name(name).map(FormatSpec::Preset))
        });
    }
    let object = members(json, &["template", "template_body"])?;
    match (
        optional(object, "template", name)?,
        optional(object, "template_body", sections)?,
    ) {
        (Some(name), None) => Ok(FormatSpec::Template(name)),
        (None, Some(sections)) => Ok(FormatSpec::Inline(sections)),
        _ => Err(CalError::new(
            Code::E120,
            "Expected either \"template\" or \"template_body\".",
        )),
    }
}

fn sections(json: &Json) -> Result<Sections> {
    let object = json
        .as_object()
        .ok_or_else(|| wrong_shape("an object", json))?;
    let mut reader = SectionReader::default();
    for (key, value) in object.iter() {
        let name = SectionName::from_name(key).ok_or_else(|| {
            CalError::new(Code::E120, format!("Unknown section \"{key}\"."))
                .valid_values(SectionName::NAMES.iter().copied())
        })?;
        reader.begin(name, NO_SPAN)?;
        reader
            .finished_text(name, string(value)?)
            .map_err(|error| error.in_member(key))?;
    }
    if object.is_empty() {
        return Err(CalError::new(
            Code::E002,
            "A template has at least one section.",
        ));
    }
    Ok(reader.finish())
}

fn stream(json: &Json) -> Result<Stream> {
    let object = members(json, &["events", "chunk_size"])?;
    let events = optional(object, "events", |events| {
        array(events, |event| {
            let name = string(event)?;
            StreamEvent::from_name(name).ok_or_else(|| check::stream_option(name, NO_SPAN))
        })
    })?
    .unwrap_or_default();
    let chunk_size = optional(object, "chunk_size", |size| {
        check::chunk_size(&number(size)?, NO_SPAN)
    })?;
    match events.is_empty() && chunk_size.is_none() {
        true => Ok(Stream::all()),
        false => Ok(Stream { events, chunk_size }),
    }
}

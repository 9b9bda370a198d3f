//! Reads JSON as syntax trees, with the same checks as the parser.

use gristmill_schemas::json::{Json, JsonErrorKind, Object};

use super::members::{
    NO_SPAN, array, extractor, members, name, namespace, optional, required, string, text, with,
    word, wrong_shape,
};
use super::value::{address, query_value};
use crate::cal::ast::*;
use crate::cal::check::evolve::{self, SetStatement};
use crate::cal::check::{self, Checker, condition};
use crate::cal::error::{CalError, Code, Result};
use crate::cal::fields::KnownField;
use crate::cal::grain_type::{GrainType, NameForm, TypeName};
use crate::cal::limits;
use crate::cal::print;
use crate::cal::vocabulary::{DescribeTarget, SetOperator};
use crate::cal::{Options, Parsed};

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
/// E001 for too many bytes, E070 for invalid UTF-8, E014 for none, E120 for invalid JSON and for a
/// repeated key, otherwise those of [`from_json`].
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
    let json = Json::parse_unique_keys(bytes).map_err(|error| match error.kind {
        JsonErrorKind::Utf8 => CalError::new(Code::E070, format!("Not UTF-8: {error}.")),
        JsonErrorKind::RepeatedKey => CalError::new(Code::E120, format!("Ambiguous: {error}.")),
        _ => CalError::new(Code::E120, format!("Not JSON: {error}.")),
    })?;
    from_json(&json, options)
}

pub(super) struct JsonReader {
    pub(super) checker: Checker,
    /// Number of open subqueries.
    pub(super) subqueries: usize,
    /// Number of open set operations.
    operands: usize,
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
            let binding = self.binding(json, &lets)?;
            lets.push(binding);
            Ok(())
        })?;
        Ok(lets)
    }

    /// Reads a LET; its name must differ from those of `earlier`.
    fn binding(&mut self, json: &Json, earlier: &[Let]) -> Result<Let> {
        let object = members(json, &["name", "query", "extract"])?;
        let name = required(object, "name", |name| {
            self.checker.parameter(string(name)?, NO_SPAN)
        })?
        .name;
        if earlier.iter().any(|binding| binding.name == name) {
            return Err(check::bindings::duplicate_name(&name, NO_SPAN));
        }
        let extract = optional(object, "extract", extractor)?;
        let query = required(object, "query", |query| self.recall(query, &[], extract))?;
        Ok(Let {
            name,
            query,
            extract,
            span: NO_SPAN,
        })
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
        if json.get("hash").is_none() {
            return self.triple_history(json, outer);
        }
        let object = members(json, &with(&["statement", "hash", "diff"], outer))?;
        let target = required(object, "hash", |hash| self.target(hash))?;
        let diff = optional(object, "diff", |diff| self.target(diff))?;
        Ok(History::Versions { target, diff })
    }

    fn triple_history(&mut self, json: &Json, outer: &[&str]) -> Result<History> {
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
                let entry = self.batch_entry(json, &entries)?;
                entries.push(entry);
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

    /// Reads a query of a BATCH; its label must differ from those of `earlier`.
    fn batch_entry(&mut self, json: &Json, earlier: &[BatchEntry]) -> Result<BatchEntry> {
        let object = members(json, &["label", "query"])?;
        let label = required(object, "label", name)?;
        check::batch_entry(earlier, &label, NO_SPAN)?;
        let query = required(object, "query", |query| self.batch_query(query))?;
        Ok(BatchEntry {
            label,
            query,
            span: NO_SPAN,
        })
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

//! Writes syntax trees as JSON.

mod recall;

use gristmill_schemas::json::{Json, Object};

use super::value::value_to_json;
use crate::cal::ast::*;
use recall::{options, recall};

/// Returns the JSON form of a query.
pub fn to_json(query: &Query) -> Json<'static> {
    let mut object = Object::new();
    object.insert("cal_version", 1u64);
    lets(&mut object, &query.lets);
    statement(&mut object, &query.statement);
    Json::Object(object)
}

fn lets(object: &mut Object<'static>, lets: &[Let]) {
    if lets.is_empty() {
        return;
    }
    let bindings = lets.iter().map(|binding| {
        let mut entry = Object::new();
        entry.insert("name", binding.name.clone());
        entry.insert("query", recall(&binding.query));
        if let Some(extract) = binding.extract {
            entry.insert("extract", extract.name().to_ascii_lowercase());
        }
        Json::Object(entry)
    });
    object.insert("let", bindings.collect::<Vec<_>>());
}

fn tagged(statement: &'static str) -> Object<'static> {
    let mut object = Object::new();
    object.insert("statement", statement);
    object
}

fn statement(object: &mut Object<'static>, statement: &Statement) {
    let members = match statement {
        Statement::Recall(one) => recall(one),
        Statement::Assemble(one) => assemble(one),
        Statement::SetOperation(one) => set_operation(one),
        Statement::Exists(one) => exists(one),
        Statement::History(one) => history(one),
        Statement::Explain(one) => {
            let mut object = tagged("explain");
            object.insert("of", explained(one));
            object
        }
        Statement::Describe(one) => describe(one),
        Statement::Batch(one) => batch(one),
        Statement::Coalesce(one) => coalesce(one),
        Statement::DefineTemplate(one) => definition(one),
        Statement::Add(one) => add(one),
        Statement::Supersede(one) => supersede(one),
        Statement::Revert(one) => revert(one),
    };
    for (key, value) in members {
        object.insert(key, value);
    }
}

fn explained(explained: &Explainable) -> Object<'static> {
    match explained {
        Explainable::Recall(one) => recall(one),
        Explainable::Assemble(one) => assemble(one),
        Explainable::SetOperation(one) => set_operation(one),
        Explainable::Add(one) => add(one),
        Explainable::Supersede(one) => supersede(one),
        Explainable::Revert(one) => revert(one),
        Explainable::Batch(one) => batch(one),
        Explainable::Coalesce(one) => coalesce(one),
    }
}

fn set_operation(operation: &SetOperation) -> Object<'static> {
    let mut object = tagged("set_op");
    object.insert("op", operation.operator.name().to_ascii_lowercase());
    object.insert("left", operand(&operation.left));
    object.insert("right", operand(&operation.right));
    object
}

fn operand(operand: &SetOperand) -> Object<'static> {
    let mut object = Object::new();
    lets(&mut object, &operand.lets);
    let members = match &operand.body {
        SetBody::Recall(one) => recall(one),
        SetBody::SetOperation(one) => set_operation(one),
    };
    for (key, value) in members {
        object.insert(key, value);
    }
    object
}

fn target(target: &Target) -> Json<'static> {
    match target {
        Target::Address(address) => Json::from(address.to_string()),
        Target::Parameter(parameter) => value_to_json(&Value::Parameter(parameter.clone())),
    }
}

fn exists(exists: &Exists) -> Object<'static> {
    let mut object = tagged("exists");
    object.insert("hash", target(&exists.target));
    object
}

fn history(history: &History) -> Object<'static> {
    let mut object = tagged("history");
    match history {
        History::Versions { target: of, diff } => {
            object.insert("hash", target(of));
            if let Some(diff) = diff {
                object.insert("diff", target(diff));
            }
        }
        History::Triple {
            namespace: scope,
            subject,
            relation,
            as_of,
        } => {
            if let Some(scope) = scope {
                object.insert("in", namespace(scope));
            }
            object.insert("subject", value_to_json(subject));
            object.insert("relation", value_to_json(relation));
            if let Some(as_of) = as_of {
                object.insert("as_of", as_of.clone());
            }
        }
    }
    object
}

fn namespace(namespace: &NamespaceScope) -> Object<'static> {
    let (key, name) = match namespace {
        NamespaceScope::Exactly(name) => ("namespace", name),
        NamespaceScope::Below(name) => ("scope", name),
    };
    [(key, name.clone())].into_iter().collect()
}

fn describe(describe: &Describe) -> Object<'static> {
    let mut object = tagged("describe");
    object.insert("target", describe.target.name());
    if let Some(grain_type) = describe.grain_type {
        object.insert("grain_type", grain_type.name());
    }
    object
}

fn batch(batch: &Batch) -> Object<'static> {
    let mut object = tagged("batch");
    let entries = batch.entries.iter().map(|entry| {
        let query = match &entry.query {
            BatchQuery::Recall(one) => recall(one),
            BatchQuery::Exists(one) => exists(one),
            BatchQuery::History(one) => history(one),
            BatchQuery::Describe(one) => describe(one),
            BatchQuery::Coalesce(one) => coalesce(one),
        };
        let mut object = Object::new();
        object.insert("label", entry.label.clone());
        object.insert("query", query);
        Json::Object(object)
    });
    object.insert("entries", entries.collect::<Vec<_>>());
    object
}

fn coalesce(coalesce: &Coalesce) -> Object<'static> {
    let mut object = tagged("coalesce");
    object.insert(
        "branches",
        coalesce
            .branches
            .iter()
            .map(|branch| Json::Object(recall(branch)))
            .collect::<Vec<_>>(),
    );
    object
}

fn set_clauses(clauses: &[SetClause]) -> Json<'static> {
    let clauses = clauses.iter().map(|clause| {
        let mut object = Object::new();
        object.insert("field", clause.field.name());
        object.insert("value", value_to_json(&clause.value));
        Json::Object(object)
    });
    Json::Array(clauses.collect())
}

fn add(add: &Add) -> Object<'static> {
    let mut object = tagged("add");
    object.insert("grain_type", add.grain_type.name());
    object.insert("set", set_clauses(&add.set));
    object.insert("reason", add.reason.clone());
    object
}

fn supersede(supersede: &Supersede) -> Object<'static> {
    let mut object = tagged("supersede");
    object.insert("hash", target(&supersede.target));
    object.insert("set", set_clauses(&supersede.set));
    object.insert("reason", supersede.reason.clone());
    object
}

fn revert(revert: &Revert) -> Object<'static> {
    let mut object = tagged("revert");
    object.insert("hash", target(&revert.target));
    object.insert("reason", revert.reason.clone());
    object
}

fn sections(sections: &Sections) -> Object<'static> {
    sections
        .iter()
        .map(|(name, text)| (name.name().to_ascii_lowercase(), text.to_owned()))
        .collect()
}

fn definition(definition: &TemplateDefinition) -> Object<'static> {
    let mut object = tagged("define_template");
    object.insert("name", definition.name.clone());
    if let Some(preset) = definition.extends {
        object.insert("extends", preset.name());
    }
    object.insert("sections", sections(&definition.sections));
    object
}

fn assemble(assemble: &Assemble) -> Object<'static> {
    let mut object = tagged("assemble");
    if let Some(name) = &assemble.name {
        object.insert("name", name.clone());
    }
    if let Some(intent) = &assemble.intent {
        object.insert("for", intent.clone());
    }
    object.insert(
        "from",
        assemble.sources.iter().map(source).collect::<Vec<_>>(),
    );
    if let Some(budget) = assemble.budget {
        let mut entry = Object::new();
        entry.insert("n", u64::from(budget.amount));
        entry.insert("unit", budget.unit.name());
        object.insert("budget", entry);
    }
    if !assemble.priority.is_empty() {
        object.insert(
            "priority",
            assemble
                .priority
                .iter()
                .cloned()
                .map(Json::from)
                .collect::<Vec<_>>(),
        );
    }
    if let Some(format) = &assemble.format {
        object.insert("format", format_spec(format));
    }
    if let Some(stream) = &assemble.stream {
        object.insert("stream", stream_spec(stream));
    }
    options(&mut object, &assemble.options);
    object
}

fn source(source: &Source) -> Json<'static> {
    let mut object = Object::new();
    if let Some(label) = &source.label {
        object.insert("label", label.clone());
    }
    match &source.body {
        SourceBody::Recall(one) => object.insert("query", recall(one)),
        SourceBody::Binding(parameter) => object.insert("let", parameter.name.clone()),
    };
    Json::Object(object)
}

fn format_spec(format: &FormatSpec) -> Json<'static> {
    match format {
        FormatSpec::Format(format) => Json::from(format.name()),
        FormatSpec::Preset(preset) => Json::from(preset.name()),
        FormatSpec::Template(name) => {
            Json::Object([("template", name.clone())].into_iter().collect())
        }
        FormatSpec::Inline(inline) => {
            Json::Object([("template_body", sections(inline))].into_iter().collect())
        }
    }
}

fn stream_spec(stream: &Stream) -> Object<'static> {
    let mut object = Object::new();
    object.insert(
        "events",
        stream
            .events
            .iter()
            .map(|event| Json::from(event.name()))
            .collect::<Vec<_>>(),
    );
    if let Some(size) = stream.chunk_size {
        object.insert("chunk_size", u64::from(size));
    }
    object
}

//! Writes RECALL as JSON: shortcuts, conditions, options and stages.

use gristmill_schemas::json::{Json, Object};

use super::super::value::{value_to_json, values_to_json};
use super::{namespace, tagged};
use crate::cal::ast::*;
use crate::cal::grain_type::TypeName;
use crate::cal::number::Number;

pub(super) fn recall(recall: &Recall) -> Object<'static> {
    let mut object = tagged("recall");
    write_shortcuts(&mut object, recall);
    insert_list(&mut object, "where", &recall.conditions, condition);
    options(&mut object, &recall.options);
    insert_list(&mut object, "pipeline", &recall.stages, |one| {
        Json::Object(stage(&one.kind))
    });
    if let Some(count) = recall.recent {
        object.insert("recent", u64::from(count));
    }
    if recall.contradictions {
        object.insert("contradictions", true);
    }
    if let Some(format) = recall.format {
        object.insert("as", format.name());
    }
    object
}

/// Inserts `items` as a list, unless there are none.
fn insert_list<T>(
    object: &mut Object<'static>,
    key: &'static str,
    items: &[T],
    json_of: impl Fn(&T) -> Json<'static>,
) {
    if !items.is_empty() {
        object.insert(key, items.iter().map(json_of).collect::<Vec<_>>());
    }
}

/// Writes the parts of a RECALL before WHERE.
fn write_shortcuts(object: &mut Object<'static>, recall: &Recall) {
    if recall.my {
        object.insert("my", true);
    }
    if let Some(grain_type) = recall.grain_type {
        object.insert("grain_type", grain_type.plural());
    }
    if let Some(scope) = &recall.namespace {
        object.insert("in", namespace(scope));
    }
    write_texts(object, recall);
    if let Some((low, high)) = &recall.between {
        object.insert("between", values_to_json([low, high]));
    }
    if let Some(thread) = &recall.thread {
        object.insert("thread", thread_to_json(thread));
    }
}

/// Writes the texts of ABOUT, LIKE and SINCE.
fn write_texts(object: &mut Object<'static>, recall: &Recall) {
    for (key, text) in [
        ("about", &recall.about),
        ("like", &recall.like),
        ("since", &recall.since),
    ] {
        if let Some(text) = text {
            object.insert(key, text.clone());
        }
    }
}

fn thread_to_json(thread: &Thread) -> Json<'static> {
    match thread {
        Thread::Session(session) => Json::from(session.clone()),
        Thread::From(address) => {
            Json::Object([("from", address.to_string())].into_iter().collect())
        }
    }
}

fn condition(condition: &Condition) -> Json<'static> {
    let (op, value) = match &condition.test {
        Test::Compare(comparison, value) => (comparison.name(), value_to_json(value)),
        Test::In(InSet::Values(values)) => ("in", values_to_json(values)),
        Test::In(InSet::Subquery(subquery)) => {
            let mut object = Object::new();
            object.insert("$query", recall(&subquery.query));
            object.insert("extract", subquery.extract.name().to_ascii_lowercase());
            ("in", Json::Object(object))
        }
        Test::Between(low, high) => ("between", values_to_json([low, high])),
        Test::Include(values) => ("include", values_to_json(values)),
        Test::Exclude(values) => ("exclude", values_to_json(values)),
        Test::Is(category) => ("is", Json::from(category.name())),
    };
    let mut object = Object::new();
    object.insert("field", condition.field.to_string());
    object.insert("op", op);
    object.insert("value", value);
    Json::Object(object)
}

fn names<T: ToString>(items: &[T]) -> Json<'static> {
    Json::Array(
        items
            .iter()
            .map(|item| Json::from(item.to_string()))
            .collect(),
    )
}

fn stage(stage: &StageKind) -> Object<'static> {
    let mut object = Object::new();
    object.insert("stage", stage.name());
    match stage {
        StageKind::Select(fields) => {
            object.insert("fields", names(fields));
        }
        StageKind::OrderBy(field, direction) => {
            object.insert("field", field.to_string());
            object.insert("dir", direction.name().to_ascii_lowercase());
        }
        StageKind::Limit(count) => {
            object.insert("n", u64::from(*count));
        }
        StageKind::Offset(Offset::Count(count)) => {
            object.insert("n", *count);
        }
        StageKind::Offset(Offset::Parameter(parameter)) => {
            object.insert("n", value_to_json(&Value::Parameter(parameter.clone())));
        }
        StageKind::GroupBy(field) => {
            object.insert("field", field.to_string());
        }
        StageKind::Project(projection) => {
            for (key, fields) in [
                ("content", &projection.content),
                ("attr", &projection.attributes),
            ] {
                if !fields.is_empty() {
                    object.insert(key, names(fields));
                }
            }
        }
        StageKind::Count | StageKind::First | StageKind::Extract(_) => {}
    }
    object
}

pub(super) fn options(object: &mut Object<'static>, options: &[WithOption]) {
    if !options.is_empty() {
        object.insert(
            "with",
            options
                .iter()
                .map(|one| Json::Object(option(one)))
                .collect::<Vec<_>>(),
        );
    }
}

fn option(option: &WithOption) -> Object<'static> {
    let mut object = Object::new();
    object.insert("name", option_name(option).to_owned());
    match option {
        WithOption::ProgressiveDisclosure(Some(level)) => {
            object.insert("level", level.name());
        }
        WithOption::Diversity(diversity) => write_diversity(&mut object, diversity),
        WithOption::Consistency(consistency) => write_consistency(&mut object, consistency),
        WithOption::Dedup(field) => {
            object.insert("field", field.to_string());
        }
        WithOption::Locale(locale) => {
            object.insert("locale", locale.clone());
        }
        WithOption::Cache(seconds) => {
            object.insert("ttl", *seconds);
        }
        WithOption::Extension(_, values) if !values.is_empty() => {
            object.insert("values", values_to_json(values));
        }
        _ => {}
    }
    object
}

fn option_name(option: &WithOption) -> &str {
    match option {
        WithOption::Superseded => "superseded",
        WithOption::ScoreBreakdown => "score_breakdown",
        WithOption::Explanation => "explanation",
        WithOption::Provenance => "provenance",
        WithOption::ContradictionDetection => "contradiction_detection",
        WithOption::Summarize => "summarize",
        WithOption::ProgressiveDisclosure(_) => "progressive_disclosure",
        WithOption::Diversity(_) => "diversity",
        WithOption::Consistency(_) => "consistency",
        WithOption::Dedup(_) => "dedup",
        WithOption::Locale(_) => "locale",
        WithOption::Cache(_) => "cache",
        WithOption::IsoTimestamps => "iso_timestamps",
        WithOption::Extension(name, _) => name,
    }
}

fn write_diversity(object: &mut Object<'static>, diversity: &Diversity) {
    match diversity {
        Diversity::Mmr(lambda) => {
            object.insert("mode", "mmr");
            if let Some(lambda) = lambda {
                object.insert("lambda", number(lambda));
            }
        }
        Diversity::Threshold(distance) => {
            object.insert("mode", "threshold");
            object.insert("value", number(distance));
        }
    }
}

fn write_consistency(object: &mut Object<'static>, consistency: &Consistency) {
    let level = match consistency {
        Consistency::Eventual => "eventual",
        Consistency::Linearizable => "linearizable",
        Consistency::Bounded(bound) => {
            object.insert("value", number(bound));
            "bounded"
        }
    };
    object.insert("level", level);
}

fn number(number: &Number) -> Json<'static> {
    value_to_json(&Value::Number(number.clone()))
}

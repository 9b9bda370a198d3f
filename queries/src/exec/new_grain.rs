//! The fields of grains that ADD, SUPERSEDE and REVERT create: SET clauses, values copied from the
//! previous version, and defaults (digest of CAL 1.0, section 7).

use gristmill_schemas::grain::{Field, GrainType};
use gristmill_schemas::json::{Json, Number, Object};

use super::answer::Hit;
use super::error::Result;
use super::session::Session;
use crate::cal::ast::{Add, SetClause, Value};
use crate::cal::fields::{FieldKind, FieldSource, KnownField, stored_goal_state};
use crate::cal::time::TimePoint;
use crate::cal::{CalError, Code};

/// The field with the reason for a new version.
pub(super) const JUSTIFICATION: &str = Field::SupersessionJustification.name();

/// Fields that belong to one version. A new version doesn't inherit them: it is no disclosed copy
/// of the original (OMS 1.3, section 10.4), and another actor may have invalidated the previous one
/// (section 6.1).
const VERSION_FIELDS: [&str; 18] = [
    "created_at",
    "derived_from",
    "supersession_justification",
    "supersession_auth",
    "superseded_by",
    "system_valid_from",
    "system_valid_to",
    "verification_status",
    "contradicted",
    "access_count",
    "last_accessed_at",
    "trusted_timestamp",
    "timestamp_ms",
    "_disclosure_of",
    "_elided",
    "invalidation_type",
    "invalidation_reason",
    "invalidation_initiator",
];

/// Confidence of a belief without one.
const DEFAULT_CONFIDENCE: f64 = 0.5;

/// Default observer type, and default observer of a session without agent.
const AGENT: &str = "agent";

/// Returns the fields of an ADD.
///
/// # Errors
/// E020 for a value that its field can't store.
pub(super) fn added(add: &Add, session: &Session) -> Result<Object<'static>> {
    let mut fields = Object::new();
    fields.insert("type", add.grain_type.name());
    set_fields(&mut fields, &add.set, session.now_ms)?;
    set_type_defaults(&mut fields, add.grain_type, session);
    set_owner(&mut fields, session);
    fields.insert("created_at", session.now_ms);
    Ok(fields)
}

/// Returns the fields of a new version with the content of `content`, which supersedes
/// `superseded`.
pub(super) fn next_version(
    content: &Hit,
    superseded: &str,
    reason: &str,
    now_ms: i64,
) -> Object<'static> {
    let inherited = content
        .view
        .payload
        .iter()
        .filter(|(name, _)| !VERSION_FIELDS.contains(name));
    let mut fields: Object<'static> = inherited
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    fields.insert("created_at", now_ms);
    let origin = Json::Array(vec![Json::from(superseded.to_owned())]);
    fields.insert("derived_from", origin);
    if !reason.is_empty() {
        fields.insert(JUSTIFICATION, reason.to_owned());
    }
    fields
}

/// Applies SET clauses, under the names and in the spelling of stored grains.
///
/// # Errors
/// E020 for a value that its field can't store.
pub(super) fn set_fields(
    fields: &mut Object<'static>,
    clauses: &[SetClause],
    now_ms: i64,
) -> Result<()> {
    for clause in clauses {
        let name = match clause.field.spec().source {
            FieldSource::Payload([name, ..]) => *name,
            _ => clause.field.name(),
        };
        fields.insert(name, stored_value(clause, now_ms)?);
    }
    Ok(())
}

fn stored_value(clause: &SetClause, now_ms: i64) -> Result<Json<'static>> {
    let value = match (clause.field, &clause.value) {
        (KnownField::GoalState, Value::Text(text)) => {
            Some(Json::from(stored_goal_state(text).to_owned()))
        }
        (KnownField::DependsOn, value) => text_list(value, without_prefix),
        (KnownField::Tags, value) => text_list(value, |text| text),
        (field, value) if field.spec().kind == FieldKind::Time => {
            TimePoint::of(value).map(|point| Json::from(point.resolve(now_ms)))
        }
        (_, Value::Text(text)) => Some(Json::from(text.clone())),
        (_, Value::Boolean(value)) => Some(Json::from(*value)),
        (_, Value::Number(number)) => Json::parse(number.as_str().as_bytes())
            .ok()
            .map(Json::into_owned),
        (_, Value::Hash(address)) => Some(Json::from(address.digits().to_owned())),
        _ => return Err(unstorable(clause).at(clause.span).into()),
    };
    value.ok_or_else(|| unstorable(clause).into())
}

fn unstorable(clause: &SetClause) -> CalError {
    let message = format!("{} can't be {}.", clause.field.name(), clause.value.kind());
    CalError::new(Code::E020, message)
}

/// Returns a text or an array of texts as an array; `None` for other values.
fn text_list(value: &Value, spelling: impl Fn(&str) -> &str) -> Option<Json<'static>> {
    let texts: Vec<&str> = match value {
        Value::Text(text) => vec![text],
        Value::Array(items) => items.iter().map(Value::as_text).collect::<Option<_>>()?,
        _ => return None,
    };
    let items = texts
        .into_iter()
        .map(|text| Json::from(spelling(text).to_owned()));
    Some(Json::Array(items.collect()))
}

/// Removes the prefix `sha256:`, which references between grains don't have.
fn without_prefix(text: &str) -> &str {
    text.strip_prefix("sha256:").unwrap_or(text)
}

/// Sets fields that the grain specification requires of a type and the statement lacks.
fn set_type_defaults(fields: &mut Object<'static>, grain_type: GrainType, session: &Session) {
    match grain_type {
        GrainType::Belief => {
            let confidence = Number::from_f64(DEFAULT_CONFIDENCE);
            set_default(
                fields,
                "confidence",
                confidence.map_or(Json::Null, Json::Number),
            );
        }
        GrainType::Goal => {
            set_default(fields, "goal_state", Json::from("active"));
            if let Some(object) = fields.get("object").cloned() {
                fields.insert("description", object);
            }
        }
        GrainType::Observation => {
            // The observer is the agent, whichever user the memory belongs to.
            let observer = session.agent.as_deref().unwrap_or(AGENT).to_owned();
            set_default(fields, "observer_id", Json::from(observer));
            set_default(fields, "observer_type", Json::from(AGENT));
        }
        _ => {}
    }
}

/// Sets a field that the statement lacks.
fn set_default(fields: &mut Object<'static>, name: &'static str, value: Json<'static>) {
    if !fields.contains_key(name) {
        fields.insert(name, value);
    }
}

/// Sets namespace and user of the session, which override those of the statement.
fn set_owner(fields: &mut Object<'static>, session: &Session) {
    if let Some(namespace) = &session.namespace {
        fields.insert("namespace", namespace.clone());
    }
    if let Some(user) = &session.user {
        fields.insert("user_id", user.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cal::ast::Statement;
    use crate::exec::testing::{hit, query};

    const NOW_MS: i64 = 1_700_000_000_000;

    fn added_json(text: &str, session: &Session) -> Json<'static> {
        match query(text).statement {
            Statement::Add(add) => Json::Object(added(&add, session).unwrap()),
            other => panic!("{text} is a {}", other.name()),
        }
    }

    fn member<'j>(json: &'j Json<'static>, name: &str) -> Option<&'j str> {
        json.get(name).and_then(Json::as_str)
    }

    const BELIEF: &str =
        "ADD belief SET subject = \"a\" SET relation = \"likes\" SET object = \"b\"";

    #[test]
    fn a_belief_without_confidence_gets_the_default_and_one_with_keeps_it() {
        let session = Session::at(NOW_MS);
        let reason = " REASON \"r\"";
        let plain = added_json(&format!("{BELIEF}{reason}"), &session);
        assert_eq!(plain.get("confidence").unwrap().to_string(), "0.5");
        let text = format!("{BELIEF} SET confidence = 0.9{reason}");
        let sure = added_json(&text, &session);
        assert_eq!(sure.get("confidence").unwrap().to_string(), "0.9");
    }

    #[test]
    fn namespace_and_user_of_the_session_own_a_new_grain() {
        let session = Session {
            namespace: Some("n".to_owned()),
            user: Some("u".to_owned()),
            ..Session::at(NOW_MS)
        };
        let grain = added_json(&format!("{BELIEF} REASON \"r\""), &session);
        assert_eq!(member(&grain, "namespace"), Some("n"));
        assert_eq!(member(&grain, "user_id"), Some("u"));
    }

    #[test]
    fn defaults_depend_on_the_type() {
        let with_defaults = |grain_type, session: &Session| {
            let mut fields = Object::new();
            fields.insert("object", "learn to swim");
            set_type_defaults(&mut fields, grain_type, session);
            Json::Object(fields)
        };
        let session = Session::at(NOW_MS);
        let goal = with_defaults(GrainType::Goal, &session);
        assert_eq!(member(&goal, "goal_state"), Some("active"));
        assert_eq!(member(&goal, "description"), Some("learn to swim"));
        let anonymous = with_defaults(GrainType::Observation, &session);
        assert_eq!(member(&anonymous, "observer_id"), Some("agent"));
        let session = Session {
            agent: Some("robot".to_owned()),
            ..session
        };
        let observation = with_defaults(GrainType::Observation, &session);
        assert_eq!(member(&observation, "observer_id"), Some("robot"));
        assert_eq!(member(&observation, "description"), None);
    }

    #[test]
    fn a_new_version_inherits_content_but_no_field_of_the_version() {
        let old = hit(
            "01",
            r#"{"subject":"a","created_at":1,"derived_from":["00"],"verification_status":"verified",
                "supersession_justification":"old reason","_elided":{"object":"sha256:0"},
                "_disclosure_of":"00","invalidation_type":"correction",
                "invalidation_reason":"wrong","invalidation_initiator":"did:web:a"}"#,
        );
        let fields = Json::Object(next_version(&old, "02", "", NOW_MS));
        assert_eq!(
            fields.to_string(),
            format!(r#"{{"subject":"a","created_at":{NOW_MS},"derived_from":["02"]}}"#)
        );
        let fields = Json::Object(next_version(&old, "02", "new reason", NOW_MS));
        assert_eq!(member(&fields, JUSTIFICATION), Some("new reason"));
    }

    fn clause(field: KnownField, value: Value) -> SetClause {
        SetClause {
            field,
            value,
            span: crate::cal::span::Span::new(0, 1),
        }
    }

    #[test]
    fn values_are_stored_in_the_spelling_of_grains() {
        let stored = |field, value| {
            stored_value(&clause(field, value), NOW_MS)
                .unwrap()
                .to_string()
        };
        assert_eq!(
            stored(KnownField::GoalState, Value::text("completed")),
            r#""satisfied""#
        );
        assert_eq!(
            stored(KnownField::DependsOn, Value::text("sha256:ab")),
            r#"["ab"]"#
        );
        assert_eq!(stored(KnownField::Tags, Value::text("x")), r#"["x"]"#);
        assert_eq!(stored(KnownField::Subject, Value::Boolean(true)), "true");
    }

    #[test]
    fn a_value_that_a_field_can_not_store_is_e020() {
        let list = Value::Array(vec![Value::text("a"), Value::Boolean(true)]);
        for (field, value) in [
            (KnownField::Tags, list.clone()),
            (KnownField::Subject, list),
            (KnownField::Time, Value::text("not a time")),
        ] {
            let error = stored_value(&clause(field, value), NOW_MS).unwrap_err();
            assert_eq!(error.code(), Code::E020.as_str());
        }
    }
}

//! Cases of the canonical message: `{group, about, cases: [{id, op, input, expect}]}`.
//!
//! Other models use the same outer shape, so a case is known by its operation *and* the members of
//! its input ([`OPERATIONS`]). Where a case recommends another answer than the one that its
//! reference gives, the recommendation is the target.
//!
//! The reference implementation and the specification disagree in places; the specification's
//! digest says in its §17 which side to take. Where our answer differs from a case by one of those
//! rows and by nothing else, the case passes with a line that names the row ([`compare`] has the
//! rows).

mod calls;
mod compare;
mod cross;
mod gateway;
mod model;
mod row_drops;
mod streams;
mod values;

use gristmill_schemas::json::{Json, Object};

use super::{CaseFile, Outcome, Report, check_members};
use compare::Rows;

/// Result of a case: the rows of §17 by which it differs; `Err` is the failure message.
type Checked = Result<Rows, String>;

/// An operation: its name, members of its input (any of them), the members of a target that it
/// compares, and the function that runs it on input and target.
struct Operation {
    name: &'static str,
    members: &'static [&'static str],
    compared: &'static [&'static str],
    run: fn(input: &Json, target: &Json) -> Checked,
}

/// The members of a target that complete calls compare.
const CALL_MEMBERS: &[&str] = &[
    "request_body",
    "content",
    "stop_reason",
    "usage",
    "provider",
    "model",
    "id_map",
    "warnings",
];

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "decode_blocks_strict",
        members: &["blocks"],
        compared: &["ok", "blocks", "warnings"],
        run: model::decode_blocks_strict,
    },
    Operation {
        name: "decode_blocks_tolerant",
        members: &["blocks"],
        compared: &["ok", "blocks", "warnings"],
        run: model::decode_blocks_tolerant,
    },
    Operation {
        name: "decode_message",
        members: &["message"],
        compared: &["ok", "message"],
        run: model::decode_message,
    },
    Operation {
        name: "validate",
        members: &["message"],
        compared: &["ok", "errors"],
        run: model::validate,
    },
    Operation {
        name: "validate_session",
        members: &["messages"],
        compared: &["ok", "violations"],
        run: model::validate_session,
    },
    Operation {
        name: "metadata_equal",
        members: &["a", "b"],
        compared: &["equal", "hash_equal"],
        run: model::metadata_equal,
    },
    Operation {
        name: "tool_schema",
        members: &["schema"],
        compared: &["ok", "errors"],
        run: model::tool_schema,
    },
    Operation {
        name: "cost",
        members: &["model", "usage"],
        compared: &["cost_usd", "error"],
        run: values::cost,
    },
    Operation {
        name: "price_overlay",
        members: &["overlay"],
        compared: &["version", "cost_usd", "error"],
        run: values::price_overlay,
    },
    Operation {
        name: "wire_model",
        members: &["model"],
        compared: &["wire"],
        run: values::wire_model,
    },
    Operation {
        name: "media_type",
        members: &["path"],
        compared: &["media_type"],
        run: values::media_type,
    },
    Operation {
        name: "estimate",
        members: &["messages", "tools", "system_prompt"],
        compared: &["tokens"],
        run: values::estimate,
    },
    Operation {
        name: "routing_mode",
        members: &["chain_policy"],
        compared: &["mode"],
        run: values::routing_mode,
    },
    Operation {
        name: "id_format",
        members: &["kind"],
        compared: &["prefix", "length", "body", "monotonic"],
        run: values::id_format,
    },
    Operation {
        name: "tool_id_map",
        members: &["ops"],
        compared: &["results"],
        run: values::tool_id_map,
    },
    Operation {
        name: "capability_check",
        members: &["turn", "capabilities_override"],
        compared: &["rejection"],
        run: values::capability_check,
    },
    Operation {
        name: "classify",
        members: &["status", "body"],
        compared: &["error_class", "retryable"],
        run: values::classify,
    },
    Operation {
        name: "usage_openai",
        members: &["usage"],
        compared: &["usage", "warnings"],
        run: values::usage_openai,
    },
    Operation {
        name: "openrouter_error_message",
        members: &["body"],
        compared: &["message"],
        run: values::openrouter_error_message,
    },
    Operation {
        name: "anthropic_call",
        members: &["request"],
        compared: CALL_MEMBERS,
        run: calls::anthropic,
    },
    Operation {
        name: "openai_call",
        members: &["request"],
        compared: CALL_MEMBERS,
        run: calls::openai,
    },
    Operation {
        name: "openrouter_call",
        members: &["request"],
        compared: CALL_MEMBERS,
        run: calls::openrouter,
    },
    Operation {
        name: "anthropic_stream",
        members: &["events"],
        compared: &["events", "id_map"],
        run: streams::anthropic,
    },
    Operation {
        name: "openai_stream",
        members: &["events"],
        compared: &["events", "id_map"],
        run: streams::openai,
    },
    Operation {
        name: "openrouter_stream",
        members: &["events"],
        compared: &["events", "id_map"],
        run: streams::openrouter,
    },
    Operation {
        name: "inbound_openai",
        members: &["body"],
        compared: &["ok", "request", "id_map"],
        run: gateway::inbound_openai,
    },
    Operation {
        name: "inbound_anthropic",
        members: &["body"],
        compared: &["ok", "request", "id_map"],
        run: gateway::inbound_anthropic,
    },
    Operation {
        name: "render_openai",
        members: &["response"],
        compared: &["body"],
        run: gateway::render_openai,
    },
    Operation {
        name: "render_anthropic",
        members: &["response"],
        compared: &["body"],
        run: gateway::render_anthropic,
    },
    Operation {
        name: "cross",
        members: &["steps", "history_blocks"],
        compared: &["wire_ids", "rejection", "active_model"],
        run: cross::cross,
    },
];

/// Operations of a live gateway, which are out of scope of a batch engine.
const OUT_OF_SCOPE: &[(&str, &str)] = &[
    ("backoff", "delays between tries belong to a live client"),
    ("retry_script", "trying again belongs to a live client"),
    (
        "catalog_entry",
        "model catalogs are fetched by a live client",
    ),
];

/// Runs the file if any of its cases has a known operation.
pub(super) fn run(file: &CaseFile, report: &mut Report) -> bool {
    let cases = file
        .json
        .get("cases")
        .and_then(Json::as_array)
        .unwrap_or_default();
    if !cases
        .iter()
        .any(|case| operation(case).is_some() || out_of_scope(case).is_some())
    {
        return false;
    }
    for case in cases {
        report.record(case, outcome(case));
    }
    true
}

fn operation(case: &Json) -> Option<&'static Operation> {
    let (name, input) = (case.get("op")?.as_str()?, case.get("input")?.as_object()?);
    let fits = |operation: &&Operation| {
        operation
            .members
            .iter()
            .any(|member| input.contains_key(member))
    };
    OPERATIONS
        .iter()
        .filter(|operation| operation.name == name)
        .find(fits)
}

fn out_of_scope(case: &Json) -> Option<&'static str> {
    let name = case.get("op")?.as_str()?;
    OUT_OF_SCOPE
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, why)| *why)
}

fn outcome(case: &Json) -> Outcome {
    if let Some(why) = out_of_scope(case) {
        return Outcome::OutOfScope(why.to_owned());
    }
    let Some(operation) = operation(case) else {
        return Outcome::Failed(
            "the case's operation and input are those of no known kind".to_owned(),
        );
    };
    let Some(target) = target(case) else {
        return Outcome::OutOfScope(
            "a quirk that isn't to be copied, with another answer in prose".to_owned(),
        );
    };
    if target.as_object().is_none_or(Object::is_empty) {
        return Outcome::Failed("the case expects nothing".to_owned());
    }
    let null = Json::Null;
    let rows = (operation.run)(case.get("input").unwrap_or(&null), &target);
    match rows.and_then(|rows| check_members(&target, operation.compared).map(|()| rows)) {
        Ok(rows) if rows.is_empty() => Outcome::Passed,
        Ok(rows) => Outcome::Deviates(rows.to_string()),
        Err(why) => Outcome::Failed(why),
    }
}

/// Returns the recommended answer of a case, else the expected one. `None` for a quirk whose
/// recommendation is prose.
fn target<'j>(case: &'j Json<'j>) -> Option<Json<'j>> {
    let is_quirk = case.get("quirk").and_then(Json::as_bool) == Some(true);
    match case.get("recommended") {
        Some(answer @ Json::Object(_)) => Some(answer.reborrow()),
        Some(Json::String(_)) if is_quirk => None,
        _ => Some(case.get("expect").map(Json::reborrow).unwrap_or_default()),
    }
}

/// Returns the target, and the answer reduced to the members that the target has.
fn asked<'j>(target: &'j Json<'j>, answer: Object<'j>) -> (Json<'j>, Json<'j>) {
    let wanted = |key: &str| target.get(key).is_some();
    let answer = answer.into_iter().filter(|(key, _)| wanted(key)).collect();
    (target.reborrow(), Json::Object(answer))
}

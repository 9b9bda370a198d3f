//! Operations with a scalar answer: prices, ids, estimates, error classes.

use gristmill_connectors::wire::adapter::Adapter;
use gristmill_connectors::wire::body_codec::read_response;
use gristmill_connectors::wire::conversation::{Conversation, ReadContext};
use gristmill_connectors::wire::error::{classify as class_of, read_error};
use gristmill_connectors::wire::image::media_type_of_path;
use gristmill_connectors::wire::{anthropic, openrouter, registry};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::capability::{Availability, Capabilities, TurnNeeds, rejection};
use gristmill_schemas::message::ids::{PositionTracker, session_id, tool_use_id};
use gristmill_schemas::message::price::{PriceError, PriceTable};
use gristmill_schemas::message::request::TokenUsage;
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{
    ContentBlock, Role, RoutingMode, Timestamp, estimate as estimating, model_id,
};

use super::calls::Inputs;
use super::compare::{Row, Rows, same};
use super::{Checked, asked};

fn text<'j>(json: &'j Json<'j>, key: &str) -> Result<&'j str, String> {
    json.get(key)
        .and_then(Json::as_str)
        .ok_or(format!("no {key}"))
}

fn only<'j>(target: &'j Json<'j>, key: &'static str, value: impl Into<Json<'j>>) -> Checked {
    let (target, answer) = asked(target, [(key, value.into())].into_iter().collect());
    same(&target, &answer)
}

pub fn cost(input: &Json, target: &Json) -> Checked {
    let table = match input.get("table") {
        Some(models) => table("case", models)?,
        // Not the catalogue, which prices models that the specification's table lacks.
        None => PriceTable::specification(),
    };
    priced(&table, input, target)
}

pub fn price_overlay(input: &Json, target: &Json) -> Checked {
    let base = table(
        text(input, "version")?,
        input.get("models").ok_or("no models")?,
    )?;
    let overlay = table(
        text(input, "overlay_version")?,
        input.get("overlay").ok_or("no overlay")?,
    )?;
    let both = base.overlaid(&overlay);
    let version = target.get("version");
    if version.is_some_and(|version| version.as_str() != Some(both.version())) {
        return Err(format!("the version is {}", both.version()));
    }
    priced(&both, input, target)
}

fn priced(table: &PriceTable, input: &Json, target: &Json) -> Checked {
    // The version is compared before.
    let has_version = target.get("version").is_some();
    let model = input.get("model").and_then(Json::as_str);
    let Some(model) = model else {
        return has_version.then(Rows::default).ok_or("no model".to_owned());
    };
    // A cost is a text, or a number where a case's author has it so.
    let wanted = target.get("cost_usd").filter(|cost| !cost.is_null());
    let wanted = wanted.map(|cost| {
        cost.as_str()
            .map_or_else(|| cost.to_string(), str::to_owned)
    });
    match (
        table.cost(model, &token_usage(input.get("usage")), None),
        wanted,
    ) {
        (Ok(cost), Some(wanted)) if wanted.parse() == Ok(cost) => Ok(Rows::default()),
        (Err(PriceError::UnknownModel { .. }), None)
            if target.get("error").and_then(Json::as_str) == Some("unknown_model") =>
        {
            Ok(Rows::default())
        }
        (Ok(_), None) if has_version && target.get("error").is_none() => Ok(Rows::default()),
        (found, _) => Err(format!("found {found:?}")),
    }
}

/// A price table in the form of the cases, whose keys lack the currency.
fn table(version: &str, models: &Json) -> Result<PriceTable, String> {
    let mut yaml = format!("pricing_version: {version:?}\nmodels:\n");
    for (model, rates) in models.as_object().ok_or("the models are no object")?.iter() {
        yaml.push_str(&format!("  {model:?}:\n"));
        for (key, value) in rates.as_object().into_iter().flat_map(Object::iter) {
            let key = key.replace("cache_creation", "cache_write");
            yaml.push_str(&format!("    {key}_usd: {value}\n"));
        }
    }
    PriceTable::from_yaml(&yaml).map_err(|error| error.to_string())
}

pub fn token_usage(json: Option<&Json>) -> TokenUsage {
    let count = |key| {
        json.and_then(|json| json.get(key))
            .and_then(Json::as_u64)
            .unwrap_or(0)
    };
    TokenUsage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cached_input_tokens: count("cached_input_tokens"),
        cache_creation_input_tokens: count("cache_creation_input_tokens"),
    }
}

pub fn wire_model(input: &Json, target: &Json) -> Checked {
    only(target, "wire", model_id::wire_name(text(input, "model")?))
}

pub fn media_type(input: &Json, target: &Json) -> Checked {
    only(
        target,
        "media_type",
        media_type_of_path(text(input, "path")?),
    )
}

pub fn estimate(input: &Json, target: &Json) -> Checked {
    let inputs = Inputs::of(input)?;
    only(
        target,
        "tokens",
        estimating::estimate_input_tokens(&inputs.request()?),
    )
}

pub fn routing_mode(input: &Json, target: &Json) -> Checked {
    let mode = RoutingMode::from_chain_policy(text(input, "chain_policy")?);
    only(
        target,
        "mode",
        mode.map_or(Json::Null, |mode| Json::from(mode.as_str())),
    )
}

/// Generates ids of one kind within one millisecond.
pub fn id_format(input: &Json, target: &Json) -> Checked {
    let kind = text(input, "kind")?;
    let time = Timestamp::from_millis(1_700_000_000_000);
    let mut thread = PositionTracker::new("case");
    let made: Vec<String> = (0..64)
        .map(|at| {
            let position = thread.advance(Role::User, &[ContentBlock::text(at.to_string())]);
            match kind {
                "tool_use" => tool_use_id(position.ulid(time), 0),
                "session" => session_id(&position, time),
                _ => position.ulid(time).to_string(),
            }
        })
        .collect();
    let prefix = target
        .get("prefix")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let length = target.get("length").and_then(Json::as_u64).unwrap_or(26);
    let fits = |id: &String| {
        let body = id.strip_prefix(prefix).unwrap_or_default();
        id.len() as u64 == length
            && body.len() == 26
            && body
                .bytes()
                .all(|byte| b"0123456789ABCDEFGHJKMNPQRSTVWXYZ".contains(&byte))
    };
    let rising = made.windows(2).all(|pair| pair[0] < pair[1]);
    let is_expected = match target.get("monotonic") {
        Some(monotonic) => monotonic.as_bool() == Some(rising),
        None => true,
    };
    if made.iter().all(fits) && rising && is_expected {
        Ok(Rows::default())
    } else {
        Err(format!("found {:?}", made.first()))
    }
}

pub fn tool_id_map(input: &Json, target: &Json) -> Checked {
    let mut map = ToolIdMap::new();
    let mut results = Vec::new();
    for step in input.get("ops").and_then(Json::as_array).ok_or("no ops")? {
        let words: Vec<&str> = step
            .as_array()
            .unwrap_or_default()
            .iter()
            .filter_map(Json::as_str)
            .collect();
        let answer = match words.as_slice() {
            ["remember", canonical, wire] => {
                map.remember("p", canonical, wire);
                None
            }
            ["to_provider", canonical] => map.wire_id("p", canonical),
            ["to_canonical", wire] => map.canonical_id("p", wire),
            _ => return Err(format!("unknown step {step}")),
        };
        results.push(answer.map_or(Json::Null, |id| Json::from(id.to_owned())));
    }
    only(target, "results", results)
}

pub fn capability_check(input: &Json, target: &Json) -> Checked {
    let null = Json::Null;
    let overrides = input.get("capabilities_override").unwrap_or(&null);
    let rejection = rejection(
        availability(overrides),
        &capabilities(overrides),
        &needs(input.get("turn").unwrap_or(&null)),
    );
    only(
        target,
        "rejection",
        rejection.map_or(Json::Null, |rejection| Json::from(rejection.as_str())),
    )
}

fn availability(overrides: &Json) -> Availability {
    let no = |key| overrides.get(key).and_then(Json::as_bool) == Some(false);
    match (no("configured"), no("available")) {
        (true, _) => Availability::NotConfigured,
        (false, true) => Availability::Unavailable,
        (false, false) => Availability::Available,
    }
}

/// A model with all capabilities except those that the case removes.
pub fn capabilities(overrides: &Json) -> Capabilities {
    let flag = |key| overrides.get(key).and_then(Json::as_bool).unwrap_or(true);
    let limit = overrides.get("max_context_tokens").and_then(Json::as_u64);
    Capabilities {
        supports_images: flag("supports_images"),
        supports_tools: flag("supports_tools"),
        supports_system_prompt: flag("supports_system_prompt"),
        supports_structured_output: flag("supports_structured_output"),
        max_context_tokens: limit.unwrap_or(Capabilities::UNDECLARED.max_context_tokens),
        ..Capabilities::UNDECLARED
    }
}

fn needs(turn: &Json) -> TurnNeeds {
    let flag = |key| turn.get(key).and_then(Json::as_bool).unwrap_or(false);
    TurnNeeds {
        has_images: flag("has_images"),
        estimated_input_tokens: turn
            .get("estimated_input_tokens")
            .and_then(Json::as_u64)
            .unwrap_or(0),
        has_tool_definitions: flag("has_tool_definitions"),
        has_system_prompt: flag("has_system_prompt"),
        requires_structured_output: flag("requires_structured_output"),
    }
}

pub fn classify(input: &Json, target: &Json) -> Checked {
    let adapter: Option<&dyn Adapter> = match text(input, "provider")? {
        "anthropic" => Some(&anthropic::MESSAGES),
        "openrouter" => Some(&openrouter::CHAT),
        "http" => None,
        _ => Some(&registry::OPENAI_CHAT),
    };
    let status = input
        .get("status")
        .and_then(Json::as_u64)
        .and_then(|status| u16::try_from(status).ok());
    let report = adapter
        .zip(input.get("body"))
        .and_then(|(adapter, body)| read_error(adapter, body));
    let class = class_of(adapter, status, report.as_ref());
    let answer = [
        ("error_class", Json::from(class.as_str())),
        ("retryable", Json::from(class.is_retryable())),
    ];
    let (target, answer) = asked(target, answer.into_iter().collect());
    same(&target, &answer)
}

/// Counts are read as part of an answer.
pub fn usage_openai(input: &Json, target: &Json) -> Checked {
    let mut body = Object::new();
    body.insert("choices", Vec::new());
    body.insert("usage", input.get("usage").ok_or("no usage")?.reborrow());
    let body = Json::Object(body);
    let mut conversation = Conversation::new("case");
    let context = ReadContext::at(Timestamp::from_micros(0));
    let read = read_response(&registry::OPENAI_CHAT, &body, &mut conversation, &context)
        .map_err(|error| error.to_string())?;
    let wanted = target
        .get("warnings")
        .and_then(Json::as_array)
        .map_or(0, <[_]>::len);
    if read.warnings.len() != wanted {
        return Err(format!(
            "expected {wanted} warnings, found {:?}",
            read.warnings
        ));
    }
    let usage = read.response.usage.unwrap_or_default();
    let count = |counts: Option<&Json>, key: &str| counts?.get(key)?.as_u64();
    let sent = input.get("usage");
    let prompt = count(sent, "prompt_tokens").unwrap_or(0);
    let details = sent.and_then(|sent| sent.get("prompt_tokens_details"));
    let detail = |key| count(details, key).unwrap_or(0);
    let wanted = token_usage(target.get("usage"));
    // Only what the reference adds up is a difference: counts that the provider sent.
    let is_sent = wanted.cached_input_tokens == detail("cached_tokens")
        && wanted.cache_creation_input_tokens == detail("cache_write_tokens");
    if is_sent && let Some((disjoint, row)) = without_overlap(&wanted, &usage, prompt) {
        let mut rows = same(&disjoint.to_json(), &usage.to_json())?;
        rows.add(row);
        return Ok(rows);
    }
    same(target.get("usage").unwrap_or(&Json::Null), &usage.to_json())
}

/// Returns what ours must be where the target's counts come to more than the prompt, and the row of
/// the difference.
fn without_overlap(
    wanted: &TokenUsage,
    ours: &TokenUsage,
    prompt: u64,
) -> Option<(TokenUsage, Row)> {
    let overlap = wanted.prompt_tokens().checked_sub(prompt)?;
    let (read, written) = (
        wanted.cached_input_tokens,
        wanted.cache_creation_input_tokens,
    );
    if overlap > 0 && read <= prompt && ours.prompt_tokens() == prompt {
        // Ours may be lower by the tokens counted twice, and by nothing else.
        let disjoint = TokenUsage {
            cache_creation_input_tokens: written.saturating_sub(overlap),
            ..*wanted
        };
        return Some((disjoint, Row::CountsDisjoint));
    }
    // The prompt can't contain such a cache, so ours are the prompt and the cache.
    let is_clamped = wanted.input_tokens == 0 && (read > prompt || written > prompt);
    let added = TokenUsage {
        input_tokens: prompt,
        ..*wanted
    };
    (is_clamped && ours.input_tokens > 0).then_some((added, Row::CacheAdded))
}

pub fn openrouter_error_message(input: &Json, target: &Json) -> Checked {
    let message = openrouter::error_message(input.get("body").ok_or("no body")?);
    only(target, "message", Json::from(message))
}

//! Input and output files of batch endpoints.

use gristmill_schemas::json::{Json, Object};

use super::{NormalizedExchanges, insert_endpoint};
use crate::transcript::entries::document_lines;
use crate::wire::json_access::present;
use crate::wire::provider_detection::endpoint_from_url;
use crate::wire::registry;

/// Server of batch files whose `url` is only a path.
const DEFAULT_SERVER: &str = "https://api.openai.com";

pub(super) fn normalize(bytes: &[u8]) -> NormalizedExchanges {
    match document_lines(bytes) {
        Some(lines) => {
            NormalizedExchanges::from_lines(lines.as_bytes(), convert_line).without_ranges()
        }
        None => NormalizedExchanges::from_lines(bytes, convert_line),
    }
}

/// Returns true for a line of Bedrock's batches.
pub(in crate::transcript) fn is_of_bedrock(json: &Json) -> bool {
    let has = |key| present(json, key).is_some();
    json.get("recordId").is_some() && (has("modelInput") || has("modelOutput"))
}

/// Returns true for a line of Gemini's batches.
pub(in crate::transcript) fn is_of_gemini(json: &Json) -> bool {
    let has = |key, members: &[&str]| {
        let body = json.get(key);
        body.is_some_and(|body| members.iter().any(|member| body.get(member).is_some()))
    };
    let is_named = json.get("key").is_some_and(|key| key.as_str().is_some());
    is_named
        && (has("request", &["contents"])
            || has(
                "response",
                &["candidates", "promptFeedback", "usageMetadata"],
            )
            || has("error", &["message"]))
}

/// Inserts the bodies of a record of Bedrock: the input of the model, and its output or an error.
fn insert_bedrock_record(exchange: &mut Object<'static>, json: &Json) {
    let (input, output) = (present(json, "modelInput"), present(json, "modelOutput"));
    let by_input = input.and_then(registry::detect_request);
    let adapter = by_input.or_else(|| output.and_then(registry::detect_response));
    // Bodies in the own form of another model are kept as they are.
    let endpoint = match adapter.map(|adapter| adapter.key()) {
        Some("bedrock/converse") => "converse",
        Some("openai/chat") => "chat",
        _ => "invoke",
    };
    insert_endpoint(exchange, "bedrock", endpoint);
    if let Some(input) = input {
        exchange.insert("request", input.clone().into_owned());
    }
    if let Some(output) = output {
        exchange.insert("response", output.clone().into_owned());
    } else if let Some(Json::Object(mut error)) = json.get("error").cloned().map(Json::into_owned) {
        if let Some(status) = error.get("errorCode").cloned() {
            exchange.insert("status", status);
        }
        // The endpoints call it `message`.
        if let Some(message) = error.remove("errorMessage") {
            error.insert("message", message);
        }
        exchange.insert("response", Json::Object(error));
    }
}

/// Inserts the body of a line of Gemini: a request, a response or an error.
fn insert_gemini_line(exchange: &mut Object<'static>, json: &Json) {
    insert_endpoint(exchange, "gemini", "generatecontent");
    for key in ["request", "response"] {
        if let Some(body) = present(json, key) {
            exchange.insert(key, body.clone().into_owned());
        }
    }
    if let Some(error) = present(json, "error").filter(|_| present(json, "response").is_none()) {
        let mut body = Object::new();
        body.insert("error", error.clone().into_owned());
        exchange.insert("response", Json::Object(body));
    }
}

/// Inserts a result of Anthropic's batches: a message or an error.
fn insert_anthropic_result(exchange: &mut Object<'static>, result: &Json) {
    insert_endpoint(exchange, "anthropic", "messages");
    let body = result
        .get("message")
        .or_else(|| result.get("error"))
        .unwrap_or(result);
    exchange.insert("response", body.clone().into_owned());
}

/// Converts a line of the input or of the results.
fn convert_line(json: &Json) -> Option<Object<'static>> {
    let mut ids = ["custom_id", "recordId", "key"].iter();
    let id = ids.find_map(|key| json.get(key)?.as_str());
    let mut exchange = Object::new();
    exchange.insert("id", id.unwrap_or_default().to_owned());
    if is_of_bedrock(json) {
        insert_bedrock_record(&mut exchange, json);
    } else if is_of_gemini(json) {
        insert_gemini_line(&mut exchange, json);
    } else if let Some(body) = json.get("body").or_else(|| json.get("params")) {
        let (provider, endpoint) = endpoint_of_request(json, body)?;
        insert_endpoint(&mut exchange, &provider, &endpoint);
        exchange.insert("request", body.clone().into_owned());
    } else if let Some(result) = json.get("result") {
        insert_anthropic_result(&mut exchange, result);
    } else {
        insert_response(&mut exchange, json)?;
    }
    Some(exchange)
}

/// Returns the provider and endpoint of a request: from its URL, else from its form.
fn endpoint_of_request(json: &Json, body: &Json) -> Option<(String, String)> {
    if let Some(url) = json.get("url").and_then(Json::as_str) {
        return Some(endpoint_from_url(DEFAULT_SERVER, url));
    }
    // Only Anthropic names the request `params`.
    if json.get("params").is_some() {
        return Some(("anthropic".to_owned(), "messages".to_owned()));
    }
    let (provider, endpoint) = registry::detect_request(body)?.key().split_once('/')?;
    Some((provider.to_owned(), endpoint.to_owned()))
}

/// Inserts the body of `response`, else of `error`.
fn insert_response(exchange: &mut Object<'static>, json: &Json) -> Option<()> {
    let response = json.get("response").filter(|response| !response.is_null());
    let body = response
        .and_then(|response| response.get("body"))
        .or_else(|| json.get("error"))?;
    let key = registry::detect_response(body).map_or("openai/chat", |adapter| adapter.key());
    let (provider, endpoint) = key.split_once('/').unwrap_or((key, ""));
    insert_endpoint(exchange, provider, endpoint);
    if let Some(status) = response.and_then(|response| response.get("status_code")) {
        exchange.insert("status", status.clone().into_owned());
    }
    exchange.insert("response", body.clone().into_owned());
    Some(())
}

//! Input and output files of batch endpoints.

use gristmill_schemas::json::{Json, Object};

use super::{NormalizedExchanges, insert_endpoint};
use crate::transcript::entries::document_lines;
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
    let id = json
        .get("custom_id")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let mut exchange = Object::new();
    exchange.insert("id", id.to_owned());
    if let Some(body) = json.get("body").or_else(|| json.get("params")) {
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

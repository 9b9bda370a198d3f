//! HTTP archives (HAR) of browsers and proxies.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

use super::http::{Decompressor, GZIP_MAGIC, HttpBody, HttpPair, header};
use super::{NormalizedExchanges, recorded_entries};
use crate::wire::exchange::decode_base64;

pub(super) fn normalize(bytes: &[u8]) -> NormalizedExchanges {
    NormalizedExchanges::from_document(bytes, |json| {
        let log = json.get("log").unwrap_or(json);
        let mut decompressor = Decompressor::new();
        let entries = recorded_entries(log, json).iter();
        NormalizedExchanges::from_entries(
            entries.map(|entry| convert_entry(entry, &mut decompressor)),
        )
    })
}

fn convert_entry(entry: &Json, decompressor: &mut Decompressor) -> Option<Object<'static>> {
    let (request, response) = (entry.get("request")?, entry.get("response")?);
    let content = response.get("content").unwrap_or(&Json::Null);
    let text = |key: &str| content.get(key).and_then(Json::as_str);
    let pair = HttpPair {
        url: request.get("url").and_then(Json::as_str)?,
        status: response
            .get("status")
            .map(|status| status.clone().into_owned()),
        recorded_at: entry.get("startedDateTime").and_then(Json::as_str),
        date: header(response, "date"),
        content_type: text("mimeType").unwrap_or_default().to_owned(),
        request: request
            .get("postData")
            .and_then(|data| data.get("text")?.as_str())
            .map(|text| HttpBody::Text(text.into())),
        response: content
            .get("text")
            .and_then(|body| response_body(body, text("encoding"), decompressor)),
    };
    Some(pair.into_exchange())
}

/// Returns the body of a response: text, base64, or chunks in base64. Some recorders write the
/// chunks as an array, others as the JSON text of one.
fn response_body<'h>(
    body: &'h Json<'h>,
    encoding: Option<&str>,
    decompressor: &mut Decompressor,
) -> Option<HttpBody<'h>> {
    let is_base64 = encoding == Some("base64");
    let text = match body {
        Json::String(text) => text,
        list => {
            let chunks = join_chunks(list);
            return chunks.map(|bytes| HttpBody::from_bytes(bytes, decompressor));
        }
    };
    let array = || {
        Json::parse(text.as_bytes())
            .ok()
            .filter(|_| text.starts_with('['))
    };
    // Without a stated encoding, the text may be a response that is a JSON array: it is taken for
    // chunks only if they are compressed.
    let chunks = array().and_then(|list| join_chunks(&list));
    let chunks = chunks.filter(|bytes| is_base64 || bytes.starts_with(&GZIP_MAGIC));
    Some(match chunks {
        Some(bytes) => HttpBody::from_bytes(bytes, decompressor),
        None if is_base64 => HttpBody::decode(text, decompressor),
        None => HttpBody::Text(Cow::Borrowed(text)),
    })
}

/// Decodes and joins an array of chunks in base64; `None` if it isn't one.
fn join_chunks(list: &Json) -> Option<Vec<u8>> {
    let chunks = list.as_array().filter(|chunks| !chunks.is_empty())?;
    let mut bytes = Vec::new();
    for chunk in chunks {
        bytes.extend(decode_base64(chunk.as_str()?)?);
    }
    Some(bytes)
}

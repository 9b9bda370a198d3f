//! The addresses in a grain's values.
//!
//! Every text that is an address, with or without the prefix `sha256:`, and is that of a grain of
//! the lake is a link, in whichever field it is: domain fields and custom fields link, too. Other
//! digests (checksums of content, hashes of hidden fields) are addresses of no grain.

use std::borrow::Cow;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::json::{Json, Object};

/// The prefix of an address in references.
const PREFIX: &str = "sha256:";

/// Calls `visit` with every address in the values of `json`.
pub(super) fn each_address(json: &Json<'_>, visit: &mut impl FnMut(ContentAddress)) {
    match json {
        Json::String(text) => ContentAddress::from_reference(text)
            .into_iter()
            .for_each(visit),
        Json::Array(items) => items.iter().for_each(|item| each_address(item, visit)),
        Json::Object(object) => object
            .iter()
            .for_each(|(_, value)| each_address(value, visit)),
        _ => {}
    }
}

/// Returns `json` with every address for which `replace` returns another replaced by that one.
pub(super) fn with_addresses<'j>(
    json: Json<'j>,
    replace: &impl Fn(&ContentAddress) -> Option<ContentAddress>,
) -> Json<'j> {
    match json {
        Json::String(text) => with_address(text, replace),
        Json::Array(items) => Json::Array(
            items
                .into_iter()
                .map(|item| with_addresses(item, replace))
                .collect(),
        ),
        Json::Object(object) => Json::Object(
            object
                .into_iter()
                .map(|(key, value)| (key, with_addresses(value, replace)))
                .collect::<Object<'j>>(),
        ),
        other => other,
    }
}

/// Returns `text`, or what replaces it if it is an address.
fn with_address<'j>(
    text: Cow<'j, str>,
    replace: &impl Fn(&ContentAddress) -> Option<ContentAddress>,
) -> Json<'j> {
    let found = ContentAddress::from_reference(&text);
    match found.as_ref().and_then(replace) {
        Some(new) if text.starts_with(PREFIX) => Json::string(format!("{PREFIX}{new}")),
        Some(new) => Json::string(new.to_string()),
        None => Json::String(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_and_replaced_at_any_depth_in_their_own_notation() {
        let [old, new, other] = [b"a", b"b", b"c"].map(|bytes| ContentAddress::of(bytes));
        let text = format!(
            r#"{{"subject":"{old}","n":7,"context":{{"x":["sha256:{old}","{other}","no {old}"]}}}}"#
        );
        let json = Json::parse(text.as_bytes()).unwrap();
        let mut found = Vec::new();
        each_address(&json, &mut |address| found.push(address));
        assert_eq!(found, [old, old, other]);
        let mut replaced = String::new();
        with_addresses(json, &|address| (*address == old).then_some(new)).write(&mut replaced);
        let expected = text
            .replace(&format!("\"{old}"), &format!("\"{new}"))
            .replace(&format!("sha256:{old}"), &format!("sha256:{new}"));
        assert_eq!(replaced, expected);
    }
}

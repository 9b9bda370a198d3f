//! The members that nearly every response of an endpoint contains with the same value: zero counts,
//! nulls, the standard service tier.
//!
//! Adapters add them to the responses that they write, which keeps residuals small; a response with
//! other values has them in its residual. The defaults of a dialect are one JSON text. They are
//! part of the stored format, like everything that an adapter writes: don't change them.

use std::sync::OnceLock;

use gristmill_schemas::json::Json;

/// Default members of responses: a JSON text that is parsed on first use.
#[derive(Debug)]
pub struct ResponseDefaults {
    text: &'static str,
    parsed: OnceLock<Json<'static>>,
}

impl ResponseDefaults {
    /// Creates defaults from JSON text, without parsing it yet.
    pub const fn new(text: &'static str) -> Self {
        ResponseDefaults {
            text,
            parsed: OnceLock::new(),
        }
    }

    /// Adds to `body` the default members that it lacks, at every depth.
    ///
    /// Defaults inside an object apply only if the body has that object or lacks it altogether; a
    /// missing `usage` is never added, because a response has all of its counts or none. A list of
    /// one item is the default of every item of the list in the body.
    pub fn fill_missing(&self, body: &mut Json) {
        let defaults = self
            .parsed
            .get_or_init(|| Json::parse(self.text.as_bytes()).unwrap_or_default());
        fill_missing(defaults, body);
    }
}

fn fill_missing(defaults: &Json<'static>, body: &mut Json) {
    match (defaults, body) {
        (Json::Object(defaults), Json::Object(body)) => {
            for (key, default) in defaults.members() {
                match body.get_mut(key) {
                    Some(value) => fill_missing(default, value),
                    None if *key == "usage" => {}
                    None => _ = body.insert(key.clone(), default.clone()),
                }
            }
        }
        (Json::Array(defaults), Json::Array(body)) => {
            if let [each] = defaults.as_slice() {
                body.iter_mut().for_each(|item| fill_missing(each, item));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_members_are_added() {
        let defaults = ResponseDefaults::new(
            r#"{"a":1,"choices":[{"b":null,"usage":1}],"usage":{"c":0},"list":[{"x":1}]}"#,
        );
        for (body, expected) in [
            (
                r#"{"choices":[{},{"b":2}]}"#,
                r#"{"choices":[{"b":null},{"b":2}],"a":1,"list":[{"x":1}]}"#,
            ),
            (
                r#"{"a":null,"usage":{"c":5,"d":6}}"#,
                r#"{"a":null,"usage":{"c":5,"d":6},"choices":[{"b":null,"usage":1}],"list":[{"x":1}]}"#,
            ),
        ] {
            let mut json = Json::parse(body.as_bytes()).unwrap();
            defaults.fill_missing(&mut json);
            assert_eq!(json, Json::parse(expected.as_bytes()).unwrap());
        }
    }
}

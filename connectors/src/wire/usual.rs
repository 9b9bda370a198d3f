//! What an endpoint's answers usually carry beside what they say: zeros, nulls, the standard tier.
//!
//! Writing it keeps residuals small; where an answer differs from the usual, the residual says so.
//! It is data, one JSON text per dialect, and part of the stored format like everything that an
//! adapter writes.

use std::sync::OnceLock;

use gristmill_schemas::json::Json;

/// A JSON text that is parsed when it is first needed.
#[derive(Debug)]
pub struct Usual {
    text: &'static str,
    parsed: OnceLock<Json<'static>>,
}

impl Usual {
    /// From JSON text.
    pub const fn new(text: &'static str) -> Self {
        Usual {
            text,
            parsed: OnceLock::new(),
        }
    }

    /// Adds to `body` what it lacks: members of objects that both have, at every depth. A list in
    /// the usual holds one item, which is laid over every item of the body's list; what only the
    /// usual has is added at the top and below objects that are there, so an answer without usage
    /// gets none.
    pub fn lay_over(&self, body: &mut Json) {
        let usual = self
            .parsed
            .get_or_init(|| Json::parse(self.text.as_bytes()).unwrap_or_default());
        lay_over(usual, body);
    }
}

fn lay_over(usual: &Json<'static>, body: &mut Json) {
    match (usual, body) {
        (Json::Object(usual), Json::Object(body)) => {
            for (key, value) in usual.members() {
                match body.get_mut(key) {
                    Some(there) => lay_over(value, there),
                    // Usage comes or doesn't come as a whole.
                    None if *key == "usage" => {}
                    None => _ = body.insert(key.clone(), value.clone()),
                }
            }
        }
        (Json::Array(usual), Json::Array(body)) => {
            if let [each] = usual.as_slice() {
                body.iter_mut().for_each(|item| lay_over(each, item));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_added() {
        let usual = Usual::new(
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
            usual.lay_over(&mut json);
            assert_eq!(json, Json::parse(expected.as_bytes()).unwrap());
        }
    }
}

//! Converts message views to values of the policy engine, without JSON in between.

use std::collections::{BTreeMap, HashMap};

use gristmill_schemas::cmf::view::DictSink;
use gristmill_schemas::json::{Json, Number};
use regorus::{Rc, Value};

/// Maximum number of cached keys; keys of tool arguments are unbounded.
const MAX_KEYS: usize = 1_024;

/// Builds values; frequent keys are allocated once.
#[derive(Default)]
pub(super) struct ValueBuilder {
    known: HashMap<Rc<str>, Value>,
    root: Option<Value>,
    open: Vec<OpenContainer>,
    keys: Vec<Value>,
}

enum OpenContainer {
    Object(BTreeMap<Value, Value>),
    Array(Vec<Value>),
}

impl ValueBuilder {
    /// Returns the finished value and resets the builder.
    pub(super) fn take(&mut self) -> Value {
        self.root.take().unwrap_or(Value::Null)
    }

    /// Returns a key as a value.
    pub(super) fn key_value(&mut self, key: &str) -> Value {
        if let Some(known) = self.known.get(key) {
            return known.clone();
        }
        let shared: Rc<str> = key.into();
        let value = Value::String(Rc::clone(&shared));
        if self.known.len() < MAX_KEYS {
            self.known.insert(shared, value.clone());
        }
        value
    }

    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(OpenContainer::Object(members)) => {
                members.insert(self.keys.pop().unwrap_or(Value::Null), value);
            }
            Some(OpenContainer::Array(items)) => items.push(value),
            None => self.root = Some(value),
        }
    }

    fn close(&mut self) {
        let value = match self.open.pop() {
            Some(OpenContainer::Object(members)) => Value::from(members),
            Some(OpenContainer::Array(items)) => Value::from(items),
            None => return,
        };
        self.put(value);
    }

    fn json_value(&mut self, json: &Json<'_>) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => number_value(number),
            Json::String(text) => Value::String(text.as_ref().into()),
            Json::Array(items) => Value::from(
                items
                    .iter()
                    .map(|item| self.json_value(item))
                    .collect::<Vec<_>>(),
            ),
            Json::Object(object) => {
                let members = object
                    .iter()
                    .map(|(key, value)| (self.key_value(key), self.json_value(value)));
                Value::from(members.collect::<BTreeMap<_, _>>())
            }
        }
    }
}

fn number_value(number: &Number<'_>) -> Value {
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) => Value::from(integer),
        (_, Some(integer)) => Value::from(integer),
        _ => Value::from_numeric_string(number.as_str())
            .unwrap_or_else(|_| Value::from(number.as_f64())),
    }
}

impl DictSink for ValueBuilder {
    fn open_object(&mut self) {
        self.open.push(OpenContainer::Object(BTreeMap::new()));
    }

    fn key(&mut self, key: &str) {
        let key = self.key_value(key);
        self.keys.push(key);
    }

    fn close_object(&mut self) {
        self.close();
    }

    fn open_array(&mut self) {
        self.open.push(OpenContainer::Array(Vec::new()));
    }

    fn close_array(&mut self) {
        self.close();
    }

    fn text(&mut self, text: &str) {
        self.put(Value::String(text.into()));
    }

    fn flag(&mut self, flag: bool) {
        self.put(Value::Bool(flag));
    }

    fn integer(&mut self, integer: i64) {
        self.put(Value::from(integer));
    }

    fn null(&mut self) {
        self.put(Value::Null);
    }

    fn json(&mut self, json: &Json) {
        let value = self.json_value(json);
        self.put(value);
    }
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::cmf::view::{DictOptions, JsonText};
    use gristmill_schemas::cmf::{Envelope, ExtensionAccess, views};

    use super::*;

    #[test]
    fn a_view_as_a_value_is_its_json() {
        let line =
            br#"{"message":{"role":"assistant","content":[{"content_type":"tool_call","content":{"tool_call_id":"1",
            "name":"pay","arguments":{"amount":12.5,"to":["a","b"],"big":18446744073709551615,"none":null}}}]}}"#;
        let envelope = Envelope::parse(&Json::parse(line).expect("JSON")).expect("a message");
        for view in views(&envelope.message, ExtensionAccess::NONE) {
            let (mut value, mut text) = (ValueBuilder::default(), JsonText::default());
            view.write_dict(DictOptions::default(), &mut value);
            view.write_dict(DictOptions::default(), &mut text);
            assert_eq!(
                value.take(),
                Value::from_json_str(&text.into_string()).expect("JSON")
            );
        }
    }
}

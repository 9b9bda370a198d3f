//! Where a serialised view goes: a JSON tree, JSON text, or the value type of a policy engine.
//!
//! A view tells its members to a [`DictSink`] in their order, so an engine's values are built
//! without a tree or text in between.

use crate::json::{Json, Object, write_string};

/// Takes in one value, member by member. Calls are well formed: keys and values alternate within
/// objects, no key comes twice in one, and what is opened is closed.
pub trait DictSink {
    /// An object begins.
    fn open_object(&mut self);
    /// The key of the next value.
    fn key(&mut self, key: &str);
    /// The object ends.
    fn close_object(&mut self);
    /// An array begins.
    fn open_array(&mut self);
    /// The array ends.
    fn close_array(&mut self);
    /// A string.
    fn text(&mut self, text: &str);
    /// A boolean.
    fn flag(&mut self, flag: bool);
    /// An integer.
    fn integer(&mut self, integer: i64);
    /// Null.
    fn null(&mut self);
    /// Any JSON, such as an argument.
    fn json(&mut self, json: &Json);
}

/// Builds a [`Json`] tree that owns all its text.
#[derive(Debug, Default)]
pub struct JsonTree {
    root: Json<'static>,
    open: Vec<Json<'static>>,
    keys: Vec<String>,
}

impl JsonTree {
    /// The value that was told; null before any was.
    pub fn into_json(self) -> Json<'static> {
        self.root
    }

    fn put(&mut self, value: Json<'static>) {
        match self.open.last_mut() {
            Some(Json::Object(object)) => {
                object.append_new(self.keys.pop().unwrap_or_default(), value)
            }
            Some(Json::Array(items)) => items.push(value),
            _ => self.root = value,
        }
    }

    fn close(&mut self) {
        if let Some(value) = self.open.pop() {
            self.put(value);
        }
    }
}

impl DictSink for JsonTree {
    fn open_object(&mut self) {
        self.open.push(Json::Object(Object::new()));
    }

    fn key(&mut self, key: &str) {
        self.keys.push(key.to_owned());
    }

    fn close_object(&mut self) {
        self.close();
    }

    fn open_array(&mut self) {
        self.open.push(Json::Array(Vec::new()));
    }

    fn close_array(&mut self) {
        self.close();
    }

    fn text(&mut self, text: &str) {
        self.put(Json::from(text.to_owned()));
    }

    fn flag(&mut self, flag: bool) {
        self.put(Json::Bool(flag));
    }

    fn integer(&mut self, integer: i64) {
        self.put(Json::from(integer));
    }

    fn null(&mut self) {
        self.put(Json::Null);
    }

    fn json(&mut self, json: &Json) {
        self.put(json.clone().into_owned());
    }
}

/// Appends compact JSON text.
#[derive(Debug, Default)]
pub struct JsonText {
    out: String,
    after_value: bool,
}

impl JsonText {
    /// The text.
    pub fn into_string(self) -> String {
        self.out
    }

    /// The separator that the next value or key needs.
    fn separate(&mut self) {
        if self.after_value {
            self.out.push(',');
        }
        self.after_value = true;
    }

    fn open(&mut self, bracket: char) {
        self.separate();
        self.out.push(bracket);
        self.after_value = false;
    }

    fn close(&mut self, bracket: char) {
        self.out.push(bracket);
        self.after_value = true;
    }
}

impl DictSink for JsonText {
    fn open_object(&mut self) {
        self.open('{');
    }

    fn key(&mut self, key: &str) {
        self.separate();
        write_string(key, &mut self.out);
        self.out.push(':');
        self.after_value = false;
    }

    fn close_object(&mut self) {
        self.close('}');
    }

    fn open_array(&mut self) {
        self.open('[');
    }

    fn close_array(&mut self) {
        self.close(']');
    }

    fn text(&mut self, text: &str) {
        self.separate();
        write_string(text, &mut self.out);
    }

    fn flag(&mut self, flag: bool) {
        self.json(&Json::Bool(flag));
    }

    fn integer(&mut self, integer: i64) {
        self.json(&Json::from(integer));
    }

    fn null(&mut self) {
        self.json(&Json::Null);
    }

    fn json(&mut self, json: &Json) {
        self.separate();
        json.write(&mut self.out);
    }
}

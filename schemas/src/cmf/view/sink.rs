//! Destinations of a serialized view: a JSON tree, JSON text, or the value type of a policy engine.
//!
//! A view writes its members to a [`DictSink`] in order, so an engine's values are built without an
//! intermediate tree or text.

use crate::json::{Json, Object, write_string};

/// Receives a value as a sequence of calls. The sequence is well formed: keys and values alternate
/// within objects, keys are unique, and every opened value is closed.
pub trait DictSink {
    /// Starts an object.
    fn open_object(&mut self);
    /// Writes the key of the next value.
    fn key(&mut self, key: &str);
    /// Ends the object.
    fn close_object(&mut self);
    /// Starts an array.
    fn open_array(&mut self);
    /// Ends the array.
    fn close_array(&mut self);
    /// Writes a string.
    fn text(&mut self, text: &str);
    /// Writes a boolean.
    fn flag(&mut self, flag: bool);
    /// Writes an integer.
    fn integer(&mut self, integer: i64);
    /// Writes null.
    fn null(&mut self);
    /// Writes any JSON, such as an argument.
    fn json(&mut self, json: &Json);
}

/// A sink that builds an owned [`Json`] tree.
#[derive(Debug, Default)]
pub struct JsonTree {
    root: Json<'static>,
    open: Vec<Json<'static>>,
    keys: Vec<String>,
}

impl JsonTree {
    /// Returns the written value; null if there is none.
    pub fn into_json(self) -> Json<'static> {
        self.root
    }

    fn put(&mut self, value: Json<'static>) {
        match self.open.last_mut() {
            Some(Json::Object(object)) => {
                object.push_unique(self.keys.pop().unwrap_or_default(), value)
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

/// A sink that writes compact JSON text.
#[derive(Debug, Default)]
pub struct JsonText {
    out: String,
    after_value: bool,
}

impl JsonText {
    /// Returns the text.
    pub fn into_string(self) -> String {
        self.out
    }

    /// Writes the separator before the next value or key.
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

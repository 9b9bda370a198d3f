//! The requests of a command to object stores, in its output.
//!
//! Reports in JSON get them as the key `requests`. Commands whose results are rows or the answers
//! of a language have no place for them in the results: they print them as a line of JSON on
//! standard error, if `--format json` or `jsonl` was given.

use gristmill_connectors::storage::{self, RequestCounts};
use serde_json::{Value, json};

use crate::log::note;

/// The requests that were made before a command began, which may not be the first of its process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestsBefore(RequestCounts);

impl RequestsBefore {
    /// Returns those of this process so far.
    pub fn now() -> RequestsBefore {
        RequestsBefore(storage::requests())
    }

    /// Returns the requests since then; `None` if there were none, as in commands on local folders.
    fn counted(&self) -> Option<RequestCounts> {
        let counts = storage::requests().since(&self.0);
        (counts.total() > 0).then_some(counts)
    }

    /// Adds the requests since then to `report`, if there were any and it is an object.
    pub fn add_to(&self, report: &mut Value) {
        if let (Some(counts), Value::Object(report)) = (self.counted(), report) {
            report.insert("requests".to_owned(), json!(counts));
        }
    }

    /// Prints the requests since then as a line on standard error, if there were any.
    pub fn print(&self) {
        if let Some(counts) = self.counted() {
            note(json!({ "requests": counts }));
        }
    }
}

//! HTTP headers, the guarded slot (§3.5).

use crate::cmf::error::{CmfError, JsonPath};
use crate::cmf::json_record::{FromJson, ObjectReader, ToJson, record, wrong_type};
use crate::json::{Json, Object};

record! {
    /// The headers of the HTTP request that delivered a message.
    #[derive(Eq, Default)]
    pub struct HttpExtension checked by one_map_of_headers {
        /// The headers, including sensitive ones.
        default headers: Headers,
    }
}

/// Members of another form in use, which separates request and response headers. Parsed as this
/// form it would yield no headers, so it is rejected.
const SPLIT_FORM: &[&str] = &["request_headers", "response_headers"];

fn one_map_of_headers(fields: &ObjectReader) -> Result<(), CmfError> {
    match SPLIT_FORM.iter().find(|key| fields.has(key)) {
        Some(found) => Err(CmfError::SplitHeaders {
            path: fields.path(),
            found,
        }),
        None => Ok(()),
    }
}

/// Header names and values in order. Names keep their spelling; lookup ignores case.
#[derive(Debug, Clone, Default)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Headers(Vec::new())
    }

    /// Returns the value of the first header `name`, ignoring case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(own, _)| same_name(own, name))
            .map(|(_, value)| value)
    }

    /// Sets the header with exactly this spelling of `name`; appends a new one.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(own, _)| *own == name) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((name, value)),
        }
    }

    /// Returns the headers in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn sorted(&self) -> Vec<&(String, String)> {
        let mut headers: Vec<_> = self.0.iter().collect();
        headers.sort_unstable();
        headers
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Compares two header names ignoring case, also beyond ASCII.
pub(in crate::cmf) fn same_name(left: &str, right: &str) -> bool {
    if left.is_ascii() && right.is_ascii() {
        return left.eq_ignore_ascii_case(right);
    }
    left.to_lowercase() == right.to_lowercase()
}

impl PartialEq for Headers {
    /// Compares as maps; the order is ignored.
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || (self.0.len() == other.0.len() && self.sorted() == other.sorted())
    }
}

impl Eq for Headers {}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        let mut collected = Headers::default();
        headers
            .into_iter()
            .for_each(|(name, value)| collected.set(name, value));
        collected
    }
}

impl FromJson for Headers {
    const EXPECTED: &'static str = "object";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let object = json
            .as_object()
            .ok_or_else(|| wrong_type::<Self>(json, place))?;
        let header = |(name, value): (&str, &Json)| {
            Ok((name.to_owned(), String::read(value, &place.key(name))?))
        };
        Ok(Headers(
            object.iter().map(header).collect::<Result<_, _>>()?,
        ))
    }
}

impl ToJson for Headers {
    fn write(&self) -> Json<'static> {
        let mut object = Object::new();
        self.iter()
            .for_each(|(name, value)| object.push_unique(name.to_owned(), value.to_owned()));
        Json::Object(object)
    }
}

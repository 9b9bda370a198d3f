//! HTTP headers: the guarded slot (§3.5).

use crate::cmf::error::{CmfError, Place};
use crate::cmf::record::{Fields, Read, Write, record, wrong_type};
use crate::json::{Json, Object};

record! {
    /// The headers of the HTTP request that a message came with.
    #[derive(Eq, Default)]
    pub struct HttpExtension checked by one_map_of_headers {
        /// The headers, sensitive ones included.
        default headers: Headers,
    }
}

/// Members of the other shape in circulation, which splits headers by request and response. Read as
/// this one, it would be an extension without headers, so it is refused.
const SPLIT_FORM: &[&str] = &["request_headers", "response_headers"];

fn one_map_of_headers(fields: &Fields) -> Result<(), CmfError> {
    match SPLIT_FORM.iter().find(|key| fields.has(key)) {
        Some(found) => Err(CmfError::SplitHeaders {
            path: fields.path(),
            found,
        }),
        None => Ok(()),
    }
}

/// Header names and values in their order. Names are kept as they were spelled and found in any
/// case.
#[derive(Debug, Clone, Default)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Headers(Vec::new())
    }

    /// The value of the first header that is called `name` in any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(own, _)| same_name(own, name))
            .map(|(_, value)| value)
    }

    /// Sets the header that is spelled exactly `name`, at the end if it is new.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(own, _)| *own == name) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((name, value)),
        }
    }

    /// The headers in their order.
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

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// True if two header names are the same in any case, beyond ASCII too.
pub(in crate::cmf) fn same_name(left: &str, right: &str) -> bool {
    if left.is_ascii() && right.is_ascii() {
        return left.eq_ignore_ascii_case(right);
    }
    left.to_lowercase() == right.to_lowercase()
}

impl PartialEq for Headers {
    /// As maps: the order doesn't count.
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

impl Read for Headers {
    const EXPECTED: &'static str = "object";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
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

impl Write for Headers {
    fn write(&self) -> Json<'static> {
        let mut object = Object::new();
        self.iter()
            .for_each(|(name, value)| object.append_new(name.to_owned(), value.to_owned()));
        Json::Object(object)
    }
}

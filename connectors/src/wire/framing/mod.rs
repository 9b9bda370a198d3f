//! The bytes of a stream to its frames.
//!
//! | module | framing |
//! |---|---|
//! | [`sse`] | server-sent events |
//! | [`ndjson`] | one JSON value per line |
//! | [`aws`] | AWS event stream: binary frames with checksums |
//!
//! What lives here: where a frame begins and ends and what it is called. What doesn't: what it means.

pub mod aws;
pub mod ndjson;
pub mod sse;

use std::borrow::Cow;

use gristmill_schemas::json::Json;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame<'f> {
    /// What the framing calls it, if it names events.
    pub event: Option<Cow<'f, str>>,
    /// Its data.
    pub data: Json<'f>,
}

/// The frames of a stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Frames<'f> {
    /// The frames whose data is JSON.
    pub frames: Vec<Frame<'f>>,
    /// Data that isn't JSON, each with the number of frames before it.
    pub unreadable: Vec<(usize, Cow<'f, str>)>,
}

impl<'f> Frames<'f> {
    /// Adds a frame whose data is `text`.
    fn push(&mut self, event: Option<Cow<'f, str>>, text: Cow<'f, str>) {
        let data = match &text {
            Cow::Borrowed(text) => Json::parse(text.as_bytes()).ok(),
            Cow::Owned(text) => Json::parse(text.as_bytes()).ok().map(Json::into_owned),
        };
        match data {
            Some(data) => self.frames.push(Frame { event, data }),
            None => self.unreadable.push((self.frames.len(), text)),
        }
    }
}

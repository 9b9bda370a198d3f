//! Recorded requests and responses of model providers: extraction of messages, in two passes.
//!
//! Requests resend their whole history, so nearly every message is recorded many times. The first
//! pass records all sightings in a [`SightingIndex`](super::sighting_index::SightingIndex); the
//! second emits each message once, from its preferred sighting and with its earliest time. The
//! result depends on what was recorded, neither on the order of the lines nor on the number of
//! threads.
//!
//! | module | question |
//! |---|---|
//! | [`extract`] | which messages are in one exchange, and at which positions of their conversation? |
//! | [`item`] | what is read from a line, and how is it mapped to output? |
//! | [`reader`] | how are the lines of a file read in two passes, on several threads? |
//! | `first_pass` | what does the first pass record? |
//! | `speculation` | what does the first pass already map, and when is that valid? |
//! | `history` | how does a request continue an earlier response that it names by id? |
//! | [`mod@normalize`] | how do batch files, bare bodies, archives and cassettes become exchange lines? |
//! | [`round_trip_report`] | is each exchange written back unchanged? |

pub mod extract;
pub(crate) mod first_pass;
pub(crate) mod history;
pub mod item;
pub mod normalize;
pub mod reader;
pub mod round_trip_report;
pub(crate) mod speculation;

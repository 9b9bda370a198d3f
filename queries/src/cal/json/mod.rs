//! Queries as JSON, `application/json+cal` (digest of CAL 1.0, section 11): the same trees in
//! another spelling, without loss in either direction.
//!
//! | module | what it answers |
//! |---|---|
//! | `write` | what is the JSON of a tree? |
//! | `read`, `recall` | which tree does a JSON object say, and is it allowed? |
//! | `value` | how do values and options look in JSON? |

mod read;
mod recall;
mod value;
mod write;

pub use read::{from_json, from_json_bytes};
pub use value::{value_from_json, value_to_json};
pub use write::to_json;

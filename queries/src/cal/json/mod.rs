//! The JSON form of queries, `application/json+cal` (digest of CAL 1.0, section 11). Conversion
//! from and to syntax trees is lossless.
//!
//! | module | question |
//! |---|---|
//! | `write` | how is a tree written as JSON? |
//! | `read`, `recall`, `option`, `assemble` | how is JSON read and checked? |
//! | `members` | how are the members of objects accessed? |
//! | `value` | how are values and options written in JSON? |

mod assemble;
mod members;
mod option;
mod read;
mod recall;
mod value;
mod write;

pub use read::{from_json, from_json_bytes};
pub use value::{value_from_json, value_to_json};
pub use write::to_json;

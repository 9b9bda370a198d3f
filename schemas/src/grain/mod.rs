//! The grain: a nine-byte header and a canonical map (§3–§8, §13, §16, §19).
//!
//! | module | what it answers |
//! |---|---|
//! | `types`, `header` | what do the first nine bytes say? |
//! | `fields`, `alias` | which field does a key stand for, and what may it hold? |
//! | `token`, `msgpack`, `cbor` | what values do these bytes hold, and are they canonical? |
//! | `payload` | what are the payload's bytes, after decompression, and how are they encoded? |
//! | `decode`, `raw`, `marks` | which fields has this grain, where do they lie, and what is odd about it? |
//! | `rules`, `parts` | does it obey the schema of its type? |
//! | `encode`, `value`, `json` | what is the one blob of this grain? |
//! | `extent` | how far do a grain's own bytes reach? |
//! | `authorize` | what do those sign who authorize a supersession? |
//! | `elide` | how is a field hidden, and how is a hidden one proven? |

mod alias;
mod authorize;
mod cbor;
mod decode;
mod domain;
mod elide;
mod encode;
mod extent;
mod fields;
mod header;
pub(crate) mod json;
mod marks;
mod msgpack;
mod parts;
mod payload;
mod raw;
mod rules;
mod token;
mod types;
mod value;

pub use alias::integration_keys;
pub use authorize::{act_message, authorization_message};
pub(crate) use cbor::cbor_items;
pub use decode::{Grain, Mode};
pub use domain::{DomainPlace, find_domain_field, may_have_domain_field};
pub use elide::{elide, elision_hash, verify_elision};
pub use encode::{
    EncodeOptions, EncodedGrain, Key, OpenGrain, ZSTD_LEVEL, encode, encode_json, encode_object,
};
pub(crate) use extent::{delivered_length, read_map, write_value};
pub use fields::{Access, Field, Kind};
pub use header::{
    Flags, HEADER_LENGTH, Header, MIN_BLOB_LENGTH, Sensitivity, VERSION, namespace_hash,
};
pub use json::{from_json, to_json};
pub use marks::{Mark, Marks};
pub use payload::{DEFAULT_PAYLOAD_LIMIT, Encoding, Payload};
pub use raw::{Encoded, Entries, Items, RawValue};
pub(crate) use rules::header_seconds;
pub use token::DEPTH_LIMIT;
pub use types::{GrainType, TypeByte};
pub use value::{Integer, Value};

#[cfg(test)]
mod tests;

//! The grain format: a nine-byte header and a canonical map (§3–§8, §13, §16, §19).
//!
//! Read this module to encode or decode grains, or to look up which fields the specification
//! defines.
//!
//! | module | question |
//! |---|---|
//! | `types`, `header` | what do the first nine bytes mean? |
//! | `fields`, `alias` | which field does a key denote, and which values may it hold? |
//! | `token`, `msgpack`, `cbor` | which values do the bytes encode, and are they canonical? |
//! | `payload` | what are the decompressed bytes of a payload, and what is their encoding? |
//! | `decode`, `raw`, `marks` | which fields does a grain have, and which anomalies? |
//! | `validate` | does the grain satisfy the schema of its type? |
//! | `encode`, `value`, `json` | what is the canonical blob of a grain? |
//! | `extent` | where does a self-delimiting grain end? |
//! | `text_places` | where in a map are its texts? |
//! | `citation` | which works outside of memory does a grain cite? |
//! | `device_profile` | does a grain fit the devices of a profile? |
//! | `domain` | where is a field of a domain profile stored? |
//! | `authorize` | which message do the signers of a quorum sign? |
//! | `elide` | how is a field hidden, and a hidden value verified? |

mod alias;
mod authorize;
mod cbor;
mod citation;
mod decode;
mod device_profile;
mod domain;
mod elide;
mod encode;
mod extent;
mod fields;
mod header;
pub(crate) mod json;
mod marks;
mod msgpack;
mod payload;
mod raw;
mod text_places;
mod token;
mod types;
mod validate;
mod value;

pub use alias::integration_keys;
pub use authorize::{authorization_message, operation_authorization_message};
#[cfg(feature = "sign")]
pub(crate) use cbor::cbor_items;
pub use citation::{CitationFault, citation_faults, may_contain_citation};
pub use decode::{DecodeMode, Grain};
pub use device_profile::{BeyondProfile, DeviceProfile};
pub use domain::{DomainFieldScope, find_domain_field, may_contain_domain_field};
pub use elide::{custom_elision_hash, elide, elision_hash, verify_elision};
pub use encode::{
    EncodeOptions, EncodedGrain, GrainTemplate, Key, ZSTD_LEVEL, encode, encode_json, encode_object,
};
pub(crate) use extent::{delivered_length, read_map, write_value};
pub use fields::{Field, FieldAccess, FieldKind};
pub use header::{
    GrainHeader, HEADER_LENGTH, HeaderFlags, MIN_BLOB_LENGTH, Sensitivity, VERSION, namespace_hash,
};
pub use json::{from_json, to_json};
pub use marks::{Mark, Marks};
pub use payload::{DEFAULT_PAYLOAD_LIMIT, Encoding, Payload};
pub use raw::{RawCollection, RawEntries, RawItems, RawValue};
pub use text_places::{BytesPlace, text_places_of_value, visit_text_places};
pub use token::DEPTH_LIMIT;
pub use types::{GrainType, TypeByte};
pub(crate) use validate::header_seconds;
pub use value::{Integer, Value};

#[cfg(test)]
mod tests;

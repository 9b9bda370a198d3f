//! Signatures of grains (§9) with keys that decentralized identifiers name (§12.2, §22.4).
//!
//! | module | question |
//! |---|---|
//! | `cose` | how is the envelope around a blob made, read and verified? |
//! | `key` | which kinds of signing keys are there? |
//! | `did` | which keys does an identifier name? |
//! | `published_key` | how are public keys written where they are published? |

mod cose;
mod did;
mod key;
mod published_key;

pub use cose::{DeliveredGrain, EnvelopeParts, SignatureStatus, SignedBlob, sign, sign_message};
pub use did::{
    DidError, DidKeyResolver, KeyResolver, did_from_key, did_without_fragment, key_from_did,
};
pub use key::{SigningKey, VerifyingKey};
pub use published_key::{
    KEY_FILE_LIMIT, PublishedKey, PublishedKeyError, keys_named, read_published_keys,
};

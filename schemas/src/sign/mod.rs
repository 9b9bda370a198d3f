//! Signatures: who vouches for a grain (§9), by keys that decentralized identifiers name (§12.2,
//! §22.4).

mod cose;
mod did;
mod key;

pub use cose::{Delivery, EnvelopeParts, SignatureStatus, SignedBlob, sign, sign_message};
pub use did::{DidError, KeyResolver, SelfContained, did_of_key, key_of_did};
pub use key::{SigningKey, VerifyingKey};

//! The certificate of an erasure: what was done, proven, and left, without personal data, signed.
//!
//! A COSE_Sign1 envelope (RFC 9052) around JSON. Beside it stands a file of leaves: the keyed
//! hashes of what was erased, 32 bytes each, ascending. The operator's key makes a leaf of an
//! address; with the leaves that gives an inclusion proof, which anyone can check against the root
//! in the certificate.

use std::collections::BTreeMap;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::sign::{
    KeyResolver, SelfContained, SignatureStatus, SignedBlob, SigningKey, sign_message,
};
use serde::{Deserialize, Serialize};

use super::byte_search::ByteSearchResult;
use super::journal::keyed_digest;
use super::merkle::{inclusion, leaf_hash, root, root_from};
use crate::error::{EngineError, Result};
use crate::keys::{Keyring, Secret};

/// The version of the certificate's form.
pub const FORMAT: &str = "gristmill-erasure-certificate/1";

/// The media type in the envelope.
const CONTENT_TYPE: &str = "application/vnd.gristmill.erasure-certificate+json";

/// The purpose of the key of leaves and pseudonyms.
pub(super) const PSEUDONYMS: &str = "gristmill/erasure/pseudonyms";

/// What the operator must remember.
pub(super) const REMINDER: &str = "This certificate covers the lake. Backups, replicas, exports, \
                                   logs of other systems and the sources that were ingested lie \
                                   outside of it and must be dealt with separately.";

/// What the operator must remember if keys were destroyed.
pub(super) const KEY_REMINDER: &str = " Copies of the keyring and of the file of people's keys \
                                       beside it must be destroyed, too. The sealed rows, their \
                                       addresses and blind tokens stay until the next compaction \
                                       of their segments.";

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The name and version of what is written here: `gristmill-erasure-certificate/1`.
    pub format: String,
    /// The erasure's name.
    pub id: String,
    /// Who asked for it, and on which ground.
    pub request: RequestOrigin,
    /// Keyed pseudonyms of the people in the request, or their count and keyed hash if they are
    /// many.
    pub selector: Pseudonyms,
    /// When it began and ended, as RFC 3339 date-times.
    pub began_at: String,
    /// When it ended.
    pub ended_at: String,
    /// `rewritten`, `key_destroyed`, or both with a comma between them.
    pub method: String,
    /// The keys that were destroyed, by their names and generations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys_destroyed: Vec<String>,
    /// What was erased.
    pub scope: ErasureScope,
    /// What was found and stays, by reason.
    pub exceptions: BTreeMap<String, u64>,
    /// Encrypted or undecodable grains, which nobody could look into.
    pub unsearchable: u64,
    /// Versions of the tables before and after.
    pub snapshots: BTreeMap<String, TableVersions>,
    /// The proofs of absence.
    pub proofs: Proofs,
    /// The tree over what was erased.
    pub merkle: TreeHead,
    /// What lies outside.
    pub reminder: String,
}

/// Who asked, and on which ground.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOrigin {
    /// The reference of the request.
    pub reference: Option<String>,
    /// The legal ground.
    pub legal_ground: Option<String>,
    /// The operator of the lake.
    pub operator: Option<String>,
}

/// People without their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pseudonyms {
    /// Number of people.
    pub people: usize,
    /// HMAC-SHA256 of the whole request.
    pub request: String,
    /// HMAC-SHA256 of each person's identifiers, if they aren't too many.
    pub pseudonyms: Vec<String>,
}

/// What was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureScope {
    /// Grains.
    pub grains: u64,
    /// Grains by type.
    pub grains_by_type: BTreeMap<String, u64>,
    /// Bytes of their blobs.
    pub bytes: u64,
    /// Refused parts of sources.
    pub rejects: u64,
    /// Lifecycle events that were removed or blanked.
    pub events: u64,
    /// People of whom something was erased.
    pub people: u64,
    /// Rows of the tables before.
    pub rows_before: BTreeMap<String, u64>,
    /// Rows of the tables after.
    pub rows_after: BTreeMap<String, u64>,
    /// Bytes of segments that were rewritten.
    pub bytes_rewritten: u64,
    /// Bytes among these that were copied as they are: row groups without an erased row.
    #[serde(default)]
    pub bytes_copied: u64,
    /// Files that were physically removed.
    pub files_removed: u64,
}

/// Versions of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableVersions {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// Proofs of absence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proofs {
    /// Every remaining byte was searched.
    pub byte_search: ByteSearchResult,
    /// Every remaining grain except segments that the word filters exclude, was decoded and matched
    /// again: how many, and how many of the person were left.
    pub survey: Remaining,
    /// Every erased address was looked up in the address indexes: how many, and how many were
    /// there.
    pub lookup: Remaining,
    /// Every envelope whose key was destroyed was tried: how many, and how many could be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelopes: Option<Remaining>,
}

impl Proofs {
    /// Returns whether all proofs hold.
    pub fn hold(&self) -> bool {
        let opened = self.envelopes.map_or(0, |envelopes| envelopes.left);
        self.byte_search.is_proven()
            && self.survey.left == 0
            && self.lookup.left == 0
            && opened == 0
    }
}

/// How much was examined, and how much was left that should be gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remaining {
    /// Looked at.
    pub checked: u64,
    /// Left.
    pub left: u64,
}

/// The tree over what was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeHead {
    /// How leaves and nodes are hashed.
    pub hash: String,
    /// How a leaf is made of an address.
    pub leaf: String,
    /// Number of leaves.
    pub size: u64,
    /// The root, in hex.
    pub root: String,
}

/// Returns the leaves of what was erased, ascending, so that their order tells nothing.
pub(super) fn leaves(addresses: &[ContentAddress], key: &Secret) -> Vec<[u8; 32]> {
    let mut leaves: Vec<_> = addresses
        .iter()
        .map(|address| keyed_digest(key, address.as_bytes()))
        .collect();
    leaves.sort_unstable();
    leaves.dedup();
    leaves
}

/// Returns the tree over `leaves`.
pub(super) fn tree(leaves: &[[u8; 32]]) -> TreeHead {
    let hashed: Vec<_> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
    TreeHead {
        hash: "RFC 6962, SHA-256".to_owned(),
        leaf: "HMAC-SHA256(operator's key, content address as 32 bytes)".to_owned(),
        size: leaves.len() as u64,
        root: hex::encode(root(&hashed)),
    }
}

impl Certificate {
    /// Returns the signed certificate.
    ///
    /// # Errors
    /// [`EngineError::Key`] if it can't be written.
    pub fn sign(&self, key: &SigningKey, now: i64) -> Result<Vec<u8>> {
        let fault = |error: &dyn std::fmt::Display| {
            EngineError::Key(format!("the certificate can't be signed: {error}"))
        };
        let json = serde_json::to_vec(self).map_err(|error| fault(&error))?;
        sign_message(&json, CONTENT_TYPE, key, None, now / 1_000_000).map_err(|error| fault(&error))
    }
}

/// What a check of a certificate found.
#[derive(Debug, Clone, Serialize)]
pub struct CertificateCheck {
    /// Whether the signature is the signer's, the signer is who it should be, and all proofs hold.
    pub valid: bool,
    /// What is wrong.
    pub problems: Vec<String>,
    /// The signer's DID.
    pub signer: Option<String>,
    /// The certificate.
    pub certificate: Option<Certificate>,
}

/// Checks the signed certificate in `bytes`. With `signer` it must be signed by that DID. Needs
/// nothing but the bytes: the signer's `did:key` holds the public key.
pub fn verify(
    bytes: &[u8],
    signer: Option<&str>,
    leaves: Option<&[u8]>,
    proofs: &[InclusionProof],
) -> CertificateCheck {
    let mut out = CertificateCheck {
        valid: false,
        problems: Vec::new(),
        signer: None,
        certificate: None,
    };
    let resolver: &dyn KeyResolver = &SelfContained;
    let envelope = match SignedBlob::parse(bytes) {
        Ok(envelope) => envelope,
        Err(error) => {
            out.problems
                .push(format!("it isn't a COSE_Sign1 envelope: {error}"));
            return out;
        }
    };
    out.signer = envelope.signer().map(str::to_owned);
    match envelope.verify(resolver) {
        SignatureStatus::Valid => {}
        SignatureStatus::Invalid => out
            .problems
            .push("the signature isn't the signer's over these bytes".to_owned()),
        SignatureStatus::Unverifiable(why) => out
            .problems
            .push(format!("the signature can't be verified: {why}")),
    }
    if signer.is_some_and(|signer| out.signer.as_deref() != Some(signer)) {
        let found = out.signer.as_deref().unwrap_or("nobody");
        out.problems.push(format!(
            "it was signed by {found}, not by {}",
            signer.unwrap_or_default()
        ));
    }
    match serde_json::from_slice::<Certificate>(envelope.blob()) {
        Ok(certificate) => {
            out.problems.extend(problems(&certificate, leaves, proofs));
            out.certificate = Some(certificate);
        }
        Err(error) => out
            .problems
            .push(format!("what was signed isn't a certificate: {error}")),
    }
    out.valid = out.problems.is_empty();
    out
}

fn problems(
    certificate: &Certificate,
    leaves: Option<&[u8]>,
    proofs: &[InclusionProof],
) -> Vec<String> {
    let mut out = Vec::new();
    if certificate.format != FORMAT {
        out.push(format!(
            "it has the form `{}`; `{FORMAT}` is known",
            certificate.format
        ));
    }
    let Proofs {
        byte_search,
        survey,
        lookup,
        envelopes,
    } = &certificate.proofs;
    let opened = envelopes.map_or(0, |envelopes| envelopes.left);
    for (what, left) in [
        ("bytes", byte_search.remnants),
        ("grains", survey.left),
        ("address indexes", lookup.left),
        ("envelopes", opened),
    ] {
        if left > 0 {
            out.push(format!(
                "it says itself that {left} places were left in {what}"
            ));
        }
    }
    if let Some(leaves) = leaves {
        let (leaves, rest) = leaves.as_chunks::<32>();
        let found = tree(leaves);
        if !rest.is_empty()
            || (found.size, &found.root) != (certificate.merkle.size, &certificate.merkle.root)
        {
            out.push("the leaves don't hash to the root in the certificate".to_owned());
        }
    }
    for proof in proofs
        .iter()
        .filter(|proof| !proof.holds(&certificate.merkle))
    {
        out.push(format!(
            "the inclusion proof of leaf {} doesn't lead to the root",
            proof.index
        ));
    }
    out
}

/// The proof that one leaf is in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InclusionProof {
    /// The leaf, in hex.
    pub leaf: String,
    /// Its place.
    pub index: u64,
    /// The tree's leaves.
    pub size: u64,
    /// The siblings from the leaf upwards, in hex.
    pub path: Vec<String>,
    /// The root, in hex.
    pub root: String,
}

impl InclusionProof {
    /// Returns the proof that `address` is among the erased of a certificate, made with the
    /// operator's keyring from its leaves; `None` if it isn't among them.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub fn of(
        address: &ContentAddress,
        leaves: &[u8],
        keyring: &Keyring,
    ) -> Result<Option<InclusionProof>> {
        let leaf = keyed_digest(&keyring.derive(PSEUDONYMS)?, address.as_bytes());
        let (leaves, _) = leaves.as_chunks::<32>();
        let hashed: Vec<_> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        let proof = leaves
            .binary_search(&leaf)
            .ok()
            .and_then(|index| Some((index, inclusion(&hashed, index)?)));
        Ok(proof.map(|(index, path)| InclusionProof {
            leaf: hex::encode(leaf),
            index: index as u64,
            size: leaves.len() as u64,
            path: path.iter().map(hex::encode).collect(),
            root: hex::encode(root(&hashed)),
        }))
    }

    fn holds(&self, tree: &TreeHead) -> bool {
        let digest = |text: &String| {
            let mut digest = [0; 32];
            hex::decode_to_slice(text, &mut digest)
                .ok()
                .map(|()| digest)
        };
        let path: Option<Vec<_>> = self.path.iter().map(digest).collect();
        let found = digest(&self.leaf)
            .zip(path)
            .and_then(|(leaf, path)| root_from(leaf_hash(&leaf), self.index, self.size, &path));
        self.size == tree.size && found.map(hex::encode).as_ref() == Some(&tree.root)
    }
}

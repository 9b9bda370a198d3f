//! The signed certificate of an erasure: what was done, what was proven, and what stays. It
//! contains no personal data.
//!
//! A COSE_Sign1 envelope (RFC 9052) around JSON. Next to it is a file of leaves: the keyed hashes
//! of the erased addresses, 32 bytes each, ascending. With the operator's key, the leaf of an
//! address can be computed, and from the leaves an inclusion proof, which anyone can check against
//! the root in the certificate.

use std::collections::BTreeMap;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::sign::{
    DidKeyResolver, KeyResolver, SignatureStatus, SignedBlob, SigningKey, sign_message,
};
use serde::{Deserialize, Serialize};

use super::byte_search::ByteSearchResult;
use super::journal::keyed_digest;
use super::merkle::{inclusion, leaf_hash, root, root_from};
use crate::error::{EngineError, Result};
use crate::keys::{Keyring, Secret};
use crate::lake::Lake;

/// Name and version of the certificate's format.
pub const FORMAT: &str = "gristmill-erasure-certificate/1";

/// Media type in the envelope.
const CONTENT_TYPE: &str = "application/vnd.gristmill.erasure-certificate+json";

/// Purpose of the key of leaves and pseudonyms.
pub(super) const PSEUDONYMS: &str = "gristmill/erasure/pseudonyms";

/// Reminder for the operator.
pub(super) const REMINDER: &str = "This certificate covers the lake. Backups, replicas, exports, \
                                   logs of other systems and the sources that were ingested lie \
                                   outside of it and must be dealt with separately.";

/// Additional reminder if keys were destroyed.
pub(super) const KEY_REMINDER: &str = " Copies of the keyring and of the file of people's keys \
                                       beside it must be destroyed, too. The sealed rows, their \
                                       addresses and blind tokens stay until `compact --erased` \
                                       or a rotation of all keys writes their segments again, and \
                                       `gc` removes the old files.";

/// Additional reminder if the lake is in a store that states versions of its objects.
pub(super) const VERSIONS_REMINDER: &str = " The object store states versions of its objects: \
                                            earlier versions of changed and deleted objects may \
                                            still exist there. They could not be searched and \
                                            must be removed with the means of the store.";

/// The content of a certificate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Name and version of the format: `gristmill-erasure-certificate/1`.
    pub format: String,
    /// Identifier of the erasure.
    pub id: String,
    /// The id of the lake's table `audit`, which no other lake has. `None` in certificates of
    /// earlier versions of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lake: Option<String>,
    /// Who requested it, and on which legal ground.
    pub request: RequestOrigin,
    /// Keyed pseudonyms of the people in the request; if there are too many, only their number and
    /// the keyed hash of the request.
    pub selector: Pseudonyms,
    /// When it began, as an RFC 3339 date-time.
    pub began_at: String,
    /// When it ended, as an RFC 3339 date-time.
    pub ended_at: String,
    /// `rewritten`, `key_destroyed`, or both, separated by a comma.
    pub method: String,
    /// The keys that were destroyed: ids and generations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys_destroyed: Vec<String>,
    /// How the people were searched for. `None` in certificates of earlier versions of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchExtent>,
    /// What was erased.
    pub scope: ErasureScope,
    /// Number of items that were found and stay, by exemption.
    pub exceptions: BTreeMap<String, u64>,
    /// Number of encrypted or undecodable grains, and of rejects that are compressed or encrypted
    /// and can't be opened: they couldn't be searched.
    pub unsearchable: u64,
    /// Versions of the tables before and after.
    pub snapshots: BTreeMap<String, TableVersions>,
    /// The proofs of absence.
    pub proofs: Proofs,
    /// The tree over what was erased.
    pub merkle: TreeHead,
    /// What the certificate doesn't cover.
    pub reminder: String,
}

/// The origin of a request, as stated by the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOrigin {
    /// Reference of the request.
    pub reference: Option<String>,
    /// The legal ground.
    pub legal_ground: Option<String>,
    /// The operator of the lake.
    pub operator: Option<String>,
}

/// Pseudonyms of people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pseudonyms {
    /// Number of people in the request.
    pub people: usize,
    /// HMAC-SHA256 of the whole request.
    pub request: String,
    /// HMAC-SHA256 of each person's identifiers, ascending, unless there are too many people.
    pub pseudonyms: Vec<String>,
}

/// What was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureScope {
    /// Number of grains.
    pub grains: u64,
    /// Number of grains by type.
    pub grains_by_type: BTreeMap<String, u64>,
    /// Bytes of the grains' blobs.
    pub bytes: u64,
    /// Number of rejects.
    pub rejects: u64,
    /// Number of lifecycle events that were removed or blanked.
    pub events: u64,
    /// Number of people of whom something was erased.
    pub people: u64,
    /// Number of rows of each table before.
    pub rows_before: BTreeMap<String, u64>,
    /// Number of rows of each table after.
    pub rows_after: BTreeMap<String, u64>,
    /// Bytes of segments that were rewritten.
    pub bytes_rewritten: u64,
    /// Bytes of these that were copied unchanged: row groups without an erased row.
    #[serde(default)]
    pub bytes_copied: u64,
    /// Number of files that were physically removed.
    pub files_removed: u64,
}

/// How the people of a request were searched for, and what was only counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchExtent {
    /// Number of identifiers of all people in the request, sessions not included.
    pub identifiers: usize,
    /// Number of those that are too short or common to be searched for within texts. They are
    /// compared with whole values only.
    pub too_short_for_text: usize,
    /// Whether only the exact spelling of identifiers was searched for.
    pub exact: bool,
    /// Classes of variation of an identifier that weren't searched for.
    pub variations_off: Vec<String>,
    /// What was found and counted, but not selected: `text_mentions`, `derived`, `related`,
    /// `initials`. The request didn't include it.
    pub only_counted: Vec<String>,
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
    /// Result of searching every remaining byte.
    pub byte_search: ByteSearchResult,
    /// Number of remaining grains that were decoded and matched again, and of those that still
    /// match. Segments that the word filters exclude aren't counted.
    pub survey: Remaining,
    /// Number of erased addresses that were looked up in the address indexes, and of those that
    /// were found.
    pub lookup: Remaining,
    /// Number of envelopes whose key was destroyed, and of those that could be opened.
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

/// Number of items that were checked, and of those that should be gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remaining {
    /// Number of checked items.
    pub checked: u64,
    /// Number of items that are left.
    pub left: u64,
}

impl Remaining {
    /// Adds the numbers of `part`.
    pub(super) fn add(&mut self, part: &Remaining) {
        self.checked += part.checked;
        self.left += part.left;
    }
}

/// The tree over what was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeHead {
    /// How leaves and nodes are hashed.
    pub hash: String,
    /// How a leaf is computed from an address.
    pub leaf: String,
    /// Number of leaves.
    pub size: u64,
    /// The root, in hex.
    pub root: String,
}

/// Returns the leaves of the erased addresses, ascending, so that their order reveals nothing.
pub(super) fn leaves(addresses: &[ContentAddress], key: &Secret) -> Vec<[u8; 32]> {
    let mut leaves: Vec<_> = addresses
        .iter()
        .map(|address| keyed_digest(key, address.as_bytes()))
        .collect();
    leaves.sort_unstable();
    leaves.dedup();
    leaves
}

/// Computes the head of the Merkle tree over `leaves`.
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
    /// Returns true if nothing about the people of the request was found: nothing was erased, and
    /// nothing stays. A name in another spelling than the lake has gives such a certificate.
    pub fn found_nobody(&self) -> bool {
        let erased = self.scope.grains + self.scope.rejects + self.scope.events;
        self.selector.people > 0 && erased == 0 && self.exceptions.is_empty()
    }

    /// Returns whether it is of `lake`, or doesn't state of which lake it is.
    pub(crate) fn is_of(&self, lake: &Lake) -> bool {
        let own = self.lake.as_ref();
        own.is_none_or(|own| *own == lake.audit.id())
    }

    /// Signs the certificate. `now` is in microseconds since 1970.
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

/// Result of checking a certificate.
#[derive(Debug, Clone, Serialize)]
pub struct CertificateCheck {
    /// Whether the signature is valid, the signer is the expected one, and all proofs hold.
    pub valid: bool,
    /// The problems that were found.
    pub problems: Vec<String>,
    /// The signer's DID.
    pub signer: Option<String>,
    /// The certificate.
    pub certificate: Option<Certificate>,
}

/// Checks the signed certificate in `bytes`. With `signer`, it must be signed by that DID. Needs
/// nothing else: the signer's `did:key` contains the public key.
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
    let envelope = match SignedBlob::parse(bytes) {
        Ok(envelope) => envelope,
        Err(error) => {
            out.problems
                .push(format!("it isn't a COSE_Sign1 envelope: {error}"));
            return out;
        }
    };
    out.signer = envelope.signer().map(str::to_owned);
    out.problems.extend(signature_problem(&envelope));
    out.problems
        .extend(signer_problem(out.signer.as_deref(), signer));
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

fn signature_problem(envelope: &SignedBlob<'_>) -> Option<String> {
    let resolver: &dyn KeyResolver = &DidKeyResolver;
    match envelope.verify(resolver) {
        SignatureStatus::Valid => None,
        SignatureStatus::Invalid => {
            Some("the signature doesn't match the signer's key and these bytes".to_owned())
        }
        SignatureStatus::Unverifiable(why) => {
            Some(format!("the signature can't be verified: {why}"))
        }
    }
}

fn signer_problem(found: Option<&str>, expected: Option<&str>) -> Option<String> {
    let expected = expected.filter(|expected| found != Some(expected))?;
    let found = found.unwrap_or("nobody");
    Some(format!("it was signed by {found}, not by {expected}"))
}

/// Returns the problems of the content of a certificate.
fn problems(
    certificate: &Certificate,
    leaves: Option<&[u8]>,
    proofs: &[InclusionProof],
) -> Vec<String> {
    let mut out = Vec::new();
    if certificate.format != FORMAT {
        out.push(format!(
            "its format is `{}`; only `{FORMAT}` is supported",
            certificate.format
        ));
    }
    out.extend(unproven(&certificate.proofs));
    if leaves.is_some_and(|leaves| !are_leaves_of(leaves, &certificate.merkle)) {
        out.push("the leaves don't hash to the root in the certificate".to_owned());
    }
    let invalid = proofs
        .iter()
        .filter(|proof| !proof.holds(&certificate.merkle));
    out.extend(invalid.map(|proof| {
        format!(
            "the inclusion proof of leaf {} doesn't lead to the root",
            proof.index
        )
    }));
    out
}

/// How the problems of a certificate begin that the erasure itself reported.
pub(crate) const SELF_REPORTED: &str = "it states that";

/// Describes the proofs that don't hold.
fn unproven(proofs: &Proofs) -> Vec<String> {
    let opened = proofs.envelopes.map_or(0, |envelopes| envelopes.left);
    let left = [
        ("bytes", proofs.byte_search.remnants),
        ("grains", proofs.survey.left),
        ("address indexes", proofs.lookup.left),
        ("envelopes", opened),
    ];
    left.into_iter()
        .filter(|(_, left)| *left > 0)
        .map(|(what, left)| format!("{SELF_REPORTED} {left} matches were left in {what}"))
        .collect()
}

fn are_leaves_of(leaves: &[u8], expected: &TreeHead) -> bool {
    let (leaves, rest) = leaves.as_chunks::<32>();
    let found = tree(leaves);
    rest.is_empty() && (found.size, &found.root) == (expected.size, &expected.root)
}

/// A proof that a leaf is in the Merkle tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InclusionProof {
    /// The leaf, in hex.
    pub leaf: String,
    /// Index of the leaf.
    pub index: u64,
    /// Number of leaves of the tree.
    pub size: u64,
    /// The siblings from the leaf upwards, in hex.
    pub path: Vec<String>,
    /// The root, in hex.
    pub root: String,
}

impl InclusionProof {
    /// Computes the proof that `address` is among the erased addresses of a certificate, from its
    /// leaves and the operator's keyring. Returns `None` if it isn't among them.
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

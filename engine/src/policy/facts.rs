//! The facts about a grain that the gate needs, and the signers of an act.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{Field, Grain, GrainType, RawValue, authorization_message};
use gristmill_schemas::lifecycle::HoldStatus;
use gristmill_schemas::sign::{DeliveredGrain, KeyResolver, SignatureStatus, SignedBlob};

use super::delegation::Delegation;
use super::gate::{GrainFacts, GrainRole, Requester, Successor};
use super::holds::StatedHold;
use super::terms::Policy;

/// Maximum number of signatures of one `supersession_auth` that are checked.
const SIGNATURES: usize = 256;

/// The state of a goal that is pursued.
const ACTIVE: &str = "active";

impl GrainFacts {
    /// Returns the goals on which a goal depends.
    pub(crate) fn dependencies(&self) -> &[ContentAddress] {
        match &self.kind {
            GrainRole::Goal { depends_on, .. } => depends_on,
            _ => &[],
        }
    }

    /// Returns true for a goal that is pursued.
    pub(crate) fn is_active_goal(&self) -> bool {
        matches!(&self.kind, GrainRole::Goal { state, .. } if state == ACTIVE)
    }

    /// Returns the facts of `grain`, which superseded `supersedes`, without placed holds.
    pub fn of(grain: &Grain<'_>, supersedes: Vec<ContentAddress>) -> GrainFacts {
        let texts = |field| texts(grain, field).map(str::to_owned);
        let kind = match grain.grain_type() {
            Some(GrainType::Goal) => GrainRole::Goal {
                state: grain.text(Field::GoalState).unwrap_or_default().to_owned(),
                allowed: texts(Field::AllowedTransitions).collect(),
                evidence_required: count(grain.get(Field::EvidenceRequired)),
                depends_on: addresses(grain, Field::DependsOn),
            },
            Some(GrainType::Consent) => GrainRole::Consent {
                subject: grain.text(Field::SubjectDid).map(str::to_owned),
            },
            _ => GrainRole::Other,
        };
        GrainFacts {
            policy: Policy::of(grain),
            author: grain.text(Field::AuthorDid).map(str::to_owned),
            parents: addresses(grain, Field::DerivedFrom),
            supersedes,
            kind,
            states_hold: StatedHold::of(grain, u64::MAX).is_some(),
            holds: HoldStatus::default(),
            delegation: Delegation::of(grain).map(Box::new),
        }
    }
}

/// Returns the grains that the gate looks up for `grain`: its parents, and the evidence that it
/// names.
pub(crate) fn named_grains(grain: &Grain<'_>) -> Vec<ContentAddress> {
    let mut named = addresses(grain, Field::DerivedFrom);
    named.extend(addresses(grain, Field::SatisfactionEvidence));
    named
}

/// A proposed supersession: the new grain and the requester.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The new grain.
    pub successor: Successor,
    /// The requester.
    pub requester: Requester,
}

impl Proposal {
    /// Returns the proposal that the delivered grain supersedes `target`. The only justification
    /// that counts is the one in the grain (§23.2), which is transported with it.
    ///
    /// # Errors
    /// As [`authorization_message`].
    pub fn of(
        delivery: &DeliveredGrain<'_>,
        grain: &Grain<'_>,
        target: &ContentAddress,
        resolver: &dyn KeyResolver,
    ) -> Result<Proposal, GrainError> {
        let withdrawal = grain
            .get(Field::IsWithdrawal)
            .and_then(|value| value.as_bool())
            == Some(true);
        let prior = grain
            .text(Field::PriorConsent)
            .and_then(ContentAddress::from_reference);
        let successor = Successor {
            facts: GrainFacts::of(grain, vec![*target]),
            has_own_policy: Policy::is_stated(grain),
            evidence: addresses(grain, Field::SatisfactionEvidence),
            withdraws: prior.filter(|_| withdrawal),
        };
        Ok(Proposal {
            successor,
            requester: requester_of(delivery, grain, target, resolver)?,
        })
    }
}

/// Reads who requests the supersession of `target` by `grain`.
fn requester_of(
    delivery: &DeliveredGrain<'_>,
    grain: &Grain<'_>,
    target: &ContentAddress,
    resolver: &dyn KeyResolver,
) -> Result<Requester, GrainError> {
    Ok(Requester {
        signer: verified_signer(delivery, resolver),
        claimed: grain.text(Field::AuthorDid).map(str::to_owned),
        authorizing: authorizers(grain, target, resolver)?,
        justification: grain
            .text(Field::SupersessionJustification)
            .map(str::to_owned),
    })
}

/// Returns the signer of a delivered grain, if the signature is valid.
fn verified_signer(delivery: &DeliveredGrain<'_>, resolver: &dyn KeyResolver) -> Option<String> {
    match delivery {
        DeliveredGrain::Signed(signed) if signed.verify(resolver) == SignatureStatus::Valid => {
            signed.signer().map(str::to_owned)
        }
        _ => None,
    }
}

/// Returns the signers in `supersession_auth` that authorize the supersession of `target`.
fn authorizers(
    grain: &Grain<'_>,
    target: &ContentAddress,
    resolver: &dyn KeyResolver,
) -> Result<Vec<String>, GrainError> {
    let auth = grain.get(Field::SupersessionAuth);
    let signatures: Vec<&[u8]> = auth
        .iter()
        .filter_map(|auth| auth.as_array())
        .flatten()
        .filter_map(bytes_of)
        .collect();
    if signatures.is_empty() {
        return Ok(Vec::new());
    }
    let message = authorization_message(target, grain)?;
    Ok(authorizing_signers(signatures, &message, resolver))
}

/// Returns the signers of `message`, each once: those of `signatures` that are COSE envelopes
/// around exactly that message and are verified by the signer's key.
pub fn authorizing_signers<'s>(
    signatures: impl IntoIterator<Item = &'s [u8]>,
    message: &[u8],
    resolver: &dyn KeyResolver,
) -> Vec<String> {
    let mut signers = Vec::new();
    for signature in signatures.into_iter().take(SIGNATURES) {
        let Ok(envelope) = SignedBlob::parse(signature) else {
            continue;
        };
        let Some(signer) = envelope.signer() else {
            continue;
        };
        let holds =
            envelope.blob() == message && envelope.verify(resolver) == SignatureStatus::Valid;
        if holds && !signers.iter().any(|known| known == signer) {
            signers.push(signer.to_owned());
        }
    }
    signers
}

fn bytes_of(value: RawValue<'_>) -> Option<&[u8]> {
    match value {
        RawValue::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn texts<'g>(grain: &Grain<'g>, field: Field) -> impl Iterator<Item = &'g str> {
    let value = grain.get(field);
    let alone = value.and_then(|value| value.as_text());
    let items = value
        .and_then(|value| value.as_array())
        .into_iter()
        .flatten();
    alone
        .into_iter()
        .chain(items.filter_map(|item| item.as_text()))
}

fn addresses(grain: &Grain<'_>, field: Field) -> Vec<ContentAddress> {
    texts(grain, field)
        .filter_map(ContentAddress::from_reference)
        .collect()
}

fn count(value: Option<RawValue<'_>>) -> u64 {
    value
        .and_then(|value| value.as_int())
        .and_then(|value| u64::try_from(value).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{DecodeMode, EncodeOptions, Payload, encode_json};
    use gristmill_schemas::json::Json;
    use gristmill_schemas::sign::{DidKeyResolver, SigningKey, did_from_key, sign_message};

    use super::*;
    use crate::policy::{PolicyMode, PolicyScope};

    fn with_grain<T>(json: &str, use_it: impl FnOnce(&[u8], &Grain<'_>) -> T) -> T {
        let encoded = encode_json(
            &Json::parse(json.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap();
        let payload = Payload::open(&encoded.blob, 1 << 20).unwrap();
        use_it(
            &encoded.blob,
            &Grain::decode(&payload, DecodeMode::Strict).unwrap(),
        )
    }

    fn successor(object: &str, signatures: &[Vec<u8>]) -> String {
        let auth: Vec<String> = signatures
            .iter()
            .map(|signature| format!(r#"{{"$bytes_hex": "{}"}}"#, hex::encode(signature)))
            .collect();
        format!(
            r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "{object}", "confidence": 1.0,
                 "created_at": 1767225600000, "supersession_auth": [{}]}}"#,
            auth.join(",")
        )
    }

    #[test]
    fn a_policy_that_is_hidden_protects_the_grain() {
        let policy = |more: &str| {
            let json = format!(
                r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "o",
                     "confidence": 1.0, "created_at": 1767225600000{more}}}"#
            );
            with_grain(&json, |_, grain| Policy::of(grain))
        };
        assert_eq!(policy("").effective(0), PolicyMode::Open);
        let hash = "0".repeat(64);
        let hidden = |field: &str| {
            policy(&format!(
                r#", "_disclosure_of": "{hash}", "_elided": {{"{field}": "sha256:{hash}"}}"#
            ))
        };
        assert_eq!(hidden("context").effective(0), PolicyMode::Open);
        let hidden = hidden("invalidation_policy");
        assert_eq!(hidden.effective(u64::MAX), PolicyMode::Locked);
        assert_eq!(hidden.scope, PolicyScope::Unknown);
    }

    #[test]
    fn a_signature_authorizes_one_successor_of_one_grain() {
        let (target, other) = (ContentAddress::of(b"target"), ContentAddress::of(b"other"));
        let key = SigningKey::from_seed(&[7; 32]);
        let did = did_from_key(&key.verifying_key());
        let message = with_grain(&successor("new", &[]), |_, grain| {
            authorization_message(&target, grain).unwrap()
        });
        let signature = sign_message(&message, "application/octet-stream", &key, None, 0).unwrap();
        let mut broken = signature.clone();
        *broken.last_mut().unwrap() ^= 1;
        let signers = |object: &str, target: &ContentAddress, signatures: &[Vec<u8>]| {
            with_grain(&successor(object, signatures), |blob, grain| {
                let delivery = DeliveredGrain::open(blob).unwrap();
                Proposal::of(&delivery, grain, target, &DidKeyResolver)
                    .unwrap()
                    .requester
                    .authorizing
            })
        };
        let twice = [signature.clone(), signature.clone()];
        assert_eq!(signers("new", &target, &twice), [did]);
        assert!(signers("newer", &target, &twice).is_empty());
        assert!(signers("new", &other, &twice).is_empty());
        assert!(signers("new", &target, &[broken]).is_empty());
    }
}

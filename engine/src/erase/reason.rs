//! Reasons why a grain was found, and exemptions from erasure.

use std::fmt;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{Field, Grain, GrainType, RawValue, to_json};
use gristmill_schemas::lifecycle::HoldIndex;
use serde::{Deserialize, Serialize};

use crate::policy::{ExpiredGrain, StatedHold};

macro_rules! reasons {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// Why a grain was found.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason {
            $(#[doc = $doc] $variant,)*
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Reason] = &[$(Reason::$variant),*];

            /// Returns its name in plans and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name,)* }
            }
        }
    };
}

reasons! {
    UserId "user_id" "Its data subject by `user_id`.";
    Subject "subject" "Its `subject`.";
    SubjectDid "subject_did" "Its `subject_did`.";
    Entity "entity_id" "Its `entity_id`.";
    Object "object" "Its `object`, as a whole.";
    Party "party" "One of the parties: author, observer, grantee, witness, delegate, participant, \
                   owner, signer.";
    Namespace "namespace" "A segment of its namespace, or a tag.";
    Value "value" "A value as a whole somewhere inside: a map object, a context, a tool's input, a \
                   content block.";
    Session "session" "Its session or run was named in the request.";
    OwnSession "own_session" "It is of a session that has only this person's grains.";
    Consent "consent" "It was made on the basis of the consent.";
    Address "address" "It was named by its address.";
    Undecodable "undecodable" "Refused bytes that can't be decoded and contain an identifier.";
    Mention "text_mention" "A text mentions the person.";
    Initials "initials" "A last name with the initial of the first name, which others may have \
                         too.";
    Ambiguous "ambiguous_value" "A value equals an identifier that is too short or too plain to be \
                                 sure.";
    SharedSession "shared_session" "It is of a session that has grains of others too.";
    Derived "derived" "It was derived from a grain that was found.";
    Related "related" "It refers to a grain that was found.";
    Expired "expired" "It expired by a retention policy.";
}

/// A set of reasons.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct Reasons(u32);

impl Reasons {
    /// Adds a reason.
    pub fn insert(&mut self, reason: Reason) {
        self.0 |= 1 << reason as u8;
    }

    /// Adds all reasons of `other`.
    pub fn merge(&mut self, other: Reasons) {
        self.0 |= other.0;
    }

    /// Returns whether it contains `reason`.
    pub fn contains(self, reason: Reason) -> bool {
        self.0 & 1 << reason as u8 != 0
    }

    /// Returns whether it is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the reasons in their order.
    pub fn iter(self) -> impl Iterator<Item = Reason> {
        Reason::ALL
            .iter()
            .copied()
            .filter(move |reason| self.contains(*reason))
    }
}

impl From<Reason> for Reasons {
    fn from(reason: Reason) -> Self {
        Reasons(1 << reason as u8)
    }
}

impl fmt::Debug for Reasons {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

/// Why a grain that was found isn't erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Exemption {
    /// A litigation hold: one that was placed on it, its own policy's, that of a grain whose
    /// protection reaches it (§23.2, §23.6), the tag `legal:litigation_hold` (§13.2), or the grain
    /// that `legal:hold_ref` names (A.2).
    Hold {
        /// The name of a placed hold, or how the grain states its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        hold: Option<String>,
    },
    /// A retention term that hasn't ended.
    Retention {
        /// Milliseconds since 1970; `None` if the policy can't be read.
        until: Option<i64>,
        /// The regulation that requires it.
        regulation: Option<String>,
    },
    /// A floor of the retention rules that hasn't ended.
    Floor {
        /// The name of the floor.
        floor: String,
        /// Milliseconds since 1970; `None` if it never ends.
        until: Option<i64>,
        /// The regulation that requires it.
        regulation: Option<String>,
    },
    /// Its deletion requires an approval that wasn't given.
    Approval {
        /// The required approval.
        needs: String,
    },
    /// It is a consent or a withdrawal, which is kept for audit (§8.10).
    ConsentRecord,
    /// It was found only for a reason that the request doesn't select by.
    NotSelected,
}

/// Name of [`Exemption::NotSelected`].
pub(super) const NOT_SELECTED: &str = "not_selected";

impl Exemption {
    /// Returns the exemption by the floor that keeps `grain`, if one does.
    pub(super) fn by_floor(grain: &ExpiredGrain<'_>) -> Option<Exemption> {
        let (floor, until) = grain.floor?;
        Some(Exemption::Floor {
            floor: floor.name.clone(),
            until,
            regulation: floor.regulation.clone(),
        })
    }

    /// Returns its name in plans and certificates.
    pub fn name(&self) -> &'static str {
        match self {
            Exemption::Hold { .. } => "hold",
            Exemption::Retention { .. } => "retention",
            Exemption::Floor { .. } => "floor",
            Exemption::Approval { .. } => "approval",
            Exemption::ConsentRecord => "consent_record",
            Exemption::NotSelected => NOT_SELECTED,
        }
    }
}

/// Determines exemptions at an instant, with the approvals that were given.
#[derive(Debug, Clone)]
pub struct ExemptionRules<'a> {
    /// Milliseconds since 1970.
    pub now: i64,
    /// The approvals that were given.
    pub approvals: &'a [String],
    /// The holds that were placed or lifted.
    pub holds: &'a HoldIndex,
}

impl ExemptionRules<'_> {
    /// Returns the exemption of `grain`, which has the address `address`, the strongest first.
    pub(crate) fn exemption_of(
        &self,
        grain: &Grain<'_>,
        address: &ContentAddress,
    ) -> Option<Exemption> {
        self.placed_hold(address)
            .or_else(|| self.stated_hold(grain, address))
            .or_else(|| self.stated_exemption(grain))
    }

    /// Returns the exemption by a hold that was placed on the grain called `address`, which may be
    /// undecodable.
    pub(crate) fn placed_hold(&self, address: &ContentAddress) -> Option<Exemption> {
        let now = self.now.saturating_mul(1_000);
        let entry = self.holds.in_force(address, now)?;
        Some(Exemption::Hold {
            hold: Some(entry.name.to_owned()),
        })
    }

    /// Returns the exemption by the hold that `grain` states, unless it was lifted.
    fn stated_hold(&self, grain: &Grain<'_>, address: &ContentAddress) -> Option<Exemption> {
        let stated = StatedHold::of(grain, (self.now / 1000).max(0) as u64)?;
        let is_lifted = self.holds.status(address).stated_is_lifted;
        (!is_lifted).then(|| Exemption::Hold {
            hold: Some(stated.name().to_owned()),
        })
    }

    /// Returns the exemption that `grain` itself states, besides a hold.
    fn stated_exemption(&self, grain: &Grain<'_>) -> Option<Exemption> {
        if grain.grain_type() == Some(GrainType::Consent) {
            return Some(Exemption::ConsentRecord);
        }
        let policy = grain.get(Field::RetentionPolicy);
        let stated = policy.and_then(|policy| self.retention(grain, &policy));
        stated.or_else(|| {
            self.years(grain, grain.domain_field("fin:retention_years"), || {
                Some("fin:retention_years".to_owned())
            })
        })
    }

    /// Returns the exemption of a `retention_policy`. One that can't be parsed exempts the grain.
    fn retention(&self, grain: &Grain<'_>, policy: &RawValue<'_>) -> Option<Exemption> {
        if policy.as_map().is_none() {
            return Some(Exemption::Retention {
                until: None,
                regulation: None,
            });
        }
        let regulation = || {
            policy
                .get("regulation")
                .and_then(|value| value.as_text().map(str::to_owned))
        };
        let years = self.years(grain, policy.get("minimum_retention_years"), regulation);
        years.or_else(|| self.approval(&policy.get("deletion_requires")?))
    }

    /// Returns the exemption of a term of `years`, if it hasn't ended or can't be parsed.
    fn years(
        &self,
        grain: &Grain<'_>,
        years: Option<RawValue<'_>>,
        regulation: impl Fn() -> Option<String>,
    ) -> Option<Exemption> {
        let years = years?;
        let years = years
            .as_number()
            .or_else(|| years.as_text()?.trim().parse().ok());
        let until = years.and_then(|years| self.kept_until(grain, years));
        until
            .is_none_or(|until| until > self.now)
            .then(|| Exemption::Retention {
                until,
                regulation: regulation(),
            })
    }

    /// Returns the exemption of required approvals: a single one, or all of a list. Any other value
    /// can't be approved.
    fn approval(&self, needs: &RawValue<'_>) -> Option<Exemption> {
        let given = |need: &RawValue<'_>| match need {
            RawValue::Nil => true,
            RawValue::Text(need) => {
                need.is_empty() || self.approvals.iter().any(|given| given == need)
            }
            _ => false,
        };
        let missing = match needs {
            RawValue::Array(all) => all.items().find(|need| !given(need))?,
            one => Some(*one).filter(|need| !given(need))?,
        };
        let needs = missing
            .as_text()
            .map_or_else(|| to_json(&missing).to_string(), str::to_owned);
        Some(Exemption::Approval { needs })
    }

    /// Returns the instant `years` after the creation of the grain; fractions are parts of 365.25
    /// days.
    fn kept_until(&self, grain: &Grain<'_>, years: f64) -> Option<i64> {
        let made = grain.get(Field::CreatedAt).and_then(|value| value.as_int());
        let made = made.unwrap_or_else(|| i64::from(grain.header().created_at_seconds) * 1000);
        (years.is_finite() && (0.0..10_000.0).contains(&years)).then(|| {
            let months = (years.trunc() as u32).saturating_mul(12);
            let whole = chrono::DateTime::from_timestamp_millis(made)
                .and_then(|made| made.checked_add_months(chrono::Months::new(months)))
                .map(|until| until.timestamp_millis());
            whole.map(|whole| whole.saturating_add((years.fract() * 365.25 * 86_400_000.0) as i64))
        })?
    }
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{
        DEFAULT_PAYLOAD_LIMIT, DecodeMode as Reading, EncodeOptions, Payload, encode_json,
    };
    use gristmill_schemas::json::Json;

    use super::*;
    use crate::policy::HOLD_TAG;

    const MADE: i64 = 1_767_225_600_000;

    fn exemption(more: &str, approvals: &[&str]) -> Option<&'static str> {
        let json = format!(
            r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "o", "confidence": 1.0, "created_at": {MADE}{more}}}"#
        );
        let blob = encode_json(
            &Json::parse(json.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap()
        .blob;
        let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
        let grain = Grain::decode(&payload, Reading::Lenient).unwrap();
        let approvals: Vec<String> = approvals.iter().map(|given| (*given).to_owned()).collect();
        // Six years later.
        ExemptionRules {
            now: MADE + 6 * 31_557_600_000,
            approvals: &approvals,
            holds: &HoldIndex::default(),
        }
        .exemption_of(&grain, &ContentAddress::of(&blob))
        .map(|exemption| exemption.name())
    }

    #[test]
    fn retention_and_holds_exempt_a_grain_wherever_they_are_stated() {
        for (more, expected) in [
            ("", None),
            (
                r#", "retention_policy": {"minimum_retention_years": 7}"#,
                Some("retention"),
            ),
            (
                r#", "retention_policy": {"minimum_retention_years": 5}"#,
                None,
            ),
            (
                r#", "retention_policy": {"minimum_retention_years": [5]}"#,
                Some("retention"),
            ),
            (
                r#", "fin:retention_years": 7, "structural_tags": ["profile:finance"]"#,
                Some("retention"),
            ),
            (
                r#", "context": {"fin:retention_years": 7}"#,
                Some("retention"),
            ),
            (r#", "context": {"fin:retention_years": 5}"#, None),
            (r#", "legal:hold_ref": "a hold""#, Some("hold")),
            (r#", "context": {"legal:hold_ref": "a hold"}"#, Some("hold")),
            (
                r#", "structural_tags": ["legal:litigation_hold"]"#,
                Some("hold"),
            ),
            (
                r#", "structural_tags": ["legal:litigation_holdings"]"#,
                None,
            ),
        ] {
            assert_eq!(exemption(more, &[]), expected, "{more}");
        }
    }

    #[test]
    fn a_hold_is_seen_where_the_tag_is_a_text_instead_of_a_list_of_one() {
        let json = format!(
            r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "o", "confidence": 1.0, "created_at": {MADE}, "structural_tags": ["{HOLD_TAG}"]}}"#
        );
        let listed = encode_json(
            &Json::parse(json.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap()
        .blob;
        // Readers accept a text without the header of a list, though writers may not write it.
        let at = listed
            .windows(HOLD_TAG.len())
            .position(|window| window == HOLD_TAG.as_bytes())
            .unwrap();
        let alone = [&listed[..at - 2], &listed[at - 1..]].concat();
        for blob in [listed, alone] {
            let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
            let grain = Grain::decode(&payload, Reading::Strict).unwrap();
            let rules = ExemptionRules {
                now: MADE,
                approvals: &[],
                holds: &HoldIndex::default(),
            };
            let exemption = rules.exemption_of(&grain, &ContentAddress::of(&blob));
            let hold = Some("tag".to_owned());
            assert_eq!(exemption, Some(Exemption::Hold { hold }));
        }
    }

    #[test]
    fn approvals_that_are_needed_must_all_be_given() {
        let needs =
            |what: &str| format!(r#", "retention_policy": {{"deletion_requires": {what}}}"#);
        for (what, approvals, expected) in [
            (r#""dpo""#, &["dpo"][..], None),
            (r#""dpo""#, &["works council"], Some("approval")),
            (r#"["dpo", "works council"]"#, &["dpo"], Some("approval")),
            (
                r#"["dpo", "works council"]"#,
                &["dpo", "works council"],
                None,
            ),
            ("true", &["dpo"], Some("approval")),
            (r#"{"who": "dpo"}"#, &["dpo"], Some("approval")),
            (r#""""#, &[], None),
        ] {
            assert_eq!(
                exemption(&needs(what), approvals),
                expected,
                "{what} {approvals:?}"
            );
        }
    }
}

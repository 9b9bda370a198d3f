//! The terms of a grain's `invalidation_policy` (§23.2), parsed so that doubt protects the grain.

use gristmill_schemas::grain::{Field, Grain, RawValue};

/// The mode of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyMode {
    /// No restriction.
    Open,
    /// Superseding needs a justification.
    SoftLocked,
    /// Superseding and contradicting are forbidden.
    Locked,
    /// A number of the authorized signers must sign.
    Quorum,
    /// One of the authorized signers must sign.
    Delegated,
    /// Locked until a time, then the fallback mode.
    Timed,
    /// Litigation hold: neither invalidation nor erasure.
    Hold,
    /// Erased when the consent on which it is based is withdrawn.
    ConsentCascade,
    /// A mode unknown to this version, which counts as locked (§23.3).
    Unknown,
}

impl PolicyMode {
    /// Returns the mode called `word`. Names are case-sensitive: another spelling is an unknown
    /// mode.
    pub fn of(word: &str) -> PolicyMode {
        match word {
            "open" => PolicyMode::Open,
            "soft_locked" => PolicyMode::SoftLocked,
            "locked" => PolicyMode::Locked,
            "quorum" => PolicyMode::Quorum,
            "delegated" => PolicyMode::Delegated,
            "timed" => PolicyMode::Timed,
            "hold" => PolicyMode::Hold,
            "consent_cascade" => PolicyMode::ConsentCascade,
            _ => PolicyMode::Unknown,
        }
    }

    /// Returns the name of the mode in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            PolicyMode::Open => "open",
            PolicyMode::SoftLocked => "soft_locked",
            PolicyMode::Locked => "locked",
            PolicyMode::Quorum => "quorum",
            PolicyMode::Delegated => "delegated",
            PolicyMode::Timed => "timed",
            PolicyMode::Hold => "hold",
            PolicyMode::ConsentCascade => "consent_cascade",
            PolicyMode::Unknown => "unknown",
        }
    }
}

/// The scope of a policy (§23.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum PolicyScope {
    /// This grain only.
    #[default]
    Grain,
    /// This grain and what was derived from it.
    Subtree,
    /// This grain and its supersession chain.
    Lineage,
    /// A scope unknown to this version, which counts as the widest.
    Unknown,
}

impl PolicyScope {
    /// Returns true if the policy applies to grains that were derived from this one.
    pub(crate) fn reaches_derived(self) -> bool {
        matches!(self, PolicyScope::Subtree | PolicyScope::Unknown)
    }

    /// Returns true if the policy applies to the supersession chain.
    pub(crate) fn reaches_lineage(self) -> bool {
        matches!(self, PolicyScope::Lineage | PolicyScope::Unknown)
    }
}

/// The terms of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its mode.
    pub mode: PolicyMode,
    /// The DIDs that may invalidate.
    pub authorized: Vec<String>,
    /// How many must sign; 0 if it is missing or can't be parsed.
    pub threshold: u64,
    /// The end of the lock of a timed policy in seconds since 1970; `None` locks forever. No other
    /// mode ends by it, a hold least of all.
    pub locked_until: Option<u64>,
    /// The mode after that.
    pub fallback: PolicyMode,
    /// Its scope.
    pub scope: PolicyScope,
}

impl Policy {
    /// Returns the policy of a grain without one (§23.3), or the default of a consent (§8.10).
    pub fn absent(is_consent: bool) -> Policy {
        let mode = if is_consent {
            PolicyMode::SoftLocked
        } else {
            PolicyMode::Open
        };
        Policy {
            mode,
            authorized: Vec::new(),
            threshold: 0,
            locked_until: None,
            fallback: PolicyMode::Locked,
            scope: PolicyScope::Grain,
        }
    }

    /// Parses the policy of `grain`. If that fails, the grain is protected: a policy that isn't a
    /// map, or has no mode that is a string, has an unknown mode, and so has one that is hidden by
    /// selective disclosure (§10).
    pub fn of(grain: &Grain<'_>) -> Policy {
        let is_consent = grain.grain_type() == Some(gristmill_schemas::grain::GrainType::Consent);
        match grain.get(Field::InvalidationPolicy) {
            Some(terms) => Policy::read(&terms),
            None if Policy::is_stated(grain) => Policy {
                mode: PolicyMode::Unknown,
                scope: PolicyScope::Unknown,
                ..Policy::absent(is_consent)
            },
            None => Policy::absent(is_consent),
        }
    }

    /// Returns true if `grain` has a policy of its own, shown or hidden.
    pub(crate) fn is_stated(grain: &Grain<'_>) -> bool {
        grain.get(Field::InvalidationPolicy).is_some() || grain.is_elided(Field::InvalidationPolicy)
    }

    fn read(terms: &RawValue<'_>) -> Policy {
        let word = |key| terms.get(key).and_then(|value| value.as_text());
        let number = |key| {
            terms
                .get(key)
                .and_then(|value| value.as_int())
                .and_then(|value| u64::try_from(value).ok())
        };
        let authorized = terms.get("authorized").and_then(|value| value.as_array());
        Policy {
            mode: word("mode").map_or(PolicyMode::Unknown, PolicyMode::of),
            authorized: authorized
                .into_iter()
                .flatten()
                .filter_map(|did| did.as_text().map(str::to_owned))
                .collect(),
            threshold: number("threshold").unwrap_or(0),
            locked_until: number("locked_until"),
            // §23.2 gives no default. A policy without a fallback stays locked.
            fallback: word("fallback_mode").map_or(PolicyMode::Locked, PolicyMode::of),
            scope: match terms.get("scope") {
                None => PolicyScope::Grain,
                Some(RawValue::Text("grain")) => PolicyScope::Grain,
                Some(RawValue::Text("subtree")) => PolicyScope::Subtree,
                Some(RawValue::Text("lineage")) => PolicyScope::Lineage,
                Some(_) => PolicyScope::Unknown,
            },
        }
    }

    /// Returns the mode in force at `now` (seconds since 1970): a timed policy is locked, then has
    /// its fallback; an unknown mode is locked. A fallback that is timed again stays locked.
    pub(crate) fn effective(&self, now: u64) -> PolicyMode {
        match self.mode {
            PolicyMode::Timed if self.locked_until.is_none_or(|until| now < until) => {
                PolicyMode::Locked
            }
            PolicyMode::Timed => match self.fallback {
                PolicyMode::Timed | PolicyMode::Unknown => PolicyMode::Locked,
                fallback => fallback,
            },
            PolicyMode::Unknown => PolicyMode::Locked,
            mode => mode,
        }
    }
}

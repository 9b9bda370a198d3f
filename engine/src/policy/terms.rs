//! The terms of a grain's `invalidation_policy` (§23.2), read so that doubt protects.

use gristmill_schemas::grain::{Field, Grain, RawValue};

/// The mode of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// No restriction.
    Open,
    /// Superseding needs a justification.
    SoftLocked,
    /// Nobody may supersede or contradict.
    Locked,
    /// So many of the authorized must sign.
    Quorum,
    /// One of the authorized must sign.
    Delegated,
    /// Locked until an instant, then the fallback mode.
    Timed,
    /// Litigation hold: neither invalidation nor erasure.
    Hold,
    /// To be erased when the consent that it rests on is withdrawn.
    ConsentCascade,
    /// A word that this version doesn't know: as good as locked (§23.3).
    Unknown,
}

impl Mode {
    /// The mode that `word` names. Case matters: another spelling is an unknown mode.
    pub fn of(word: &str) -> Mode {
        match word {
            "open" => Mode::Open,
            "soft_locked" => Mode::SoftLocked,
            "locked" => Mode::Locked,
            "quorum" => Mode::Quorum,
            "delegated" => Mode::Delegated,
            "timed" => Mode::Timed,
            "hold" => Mode::Hold,
            "consent_cascade" => Mode::ConsentCascade,
            _ => Mode::Unknown,
        }
    }

    /// The word in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Open => "open",
            Mode::SoftLocked => "soft_locked",
            Mode::Locked => "locked",
            Mode::Quorum => "quorum",
            Mode::Delegated => "delegated",
            Mode::Timed => "timed",
            Mode::Hold => "hold",
            Mode::ConsentCascade => "consent_cascade",
            Mode::Unknown => "unknown",
        }
    }
}

/// How far a policy reaches (§23.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Scope {
    /// This grain only.
    #[default]
    Grain,
    /// This grain and what was derived from it.
    Subtree,
    /// This grain and its supersession chain.
    Lineage,
    /// A word that this version doesn't know: as far as any.
    Unknown,
}

impl Scope {
    /// True if the policy reaches grains that were derived from this one.
    pub fn reaches_derived(self) -> bool {
        matches!(self, Scope::Subtree | Scope::Unknown)
    }

    /// True if the policy reaches the supersession chain.
    pub fn reaches_lineage(self) -> bool {
        matches!(self, Scope::Lineage | Scope::Unknown)
    }
}

/// The terms of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What is demanded.
    pub mode: Mode,
    /// Who may invalidate, by DID.
    pub authorized: Vec<String>,
    /// How many must sign; 0 if it isn't said or can't be read.
    pub threshold: u64,
    /// Seconds since 1970 up to which a timed policy locks; `None` locks for ever.
    pub locked_until: Option<u64>,
    /// The mode after that.
    pub fallback: Mode,
    /// How far it reaches.
    pub scope: Scope,
}

impl Policy {
    /// The policy of a grain without one (§23.3), or by default of a consent (§8.10).
    pub fn absent(is_consent: bool) -> Policy {
        let mode = if is_consent {
            Mode::SoftLocked
        } else {
            Mode::Open
        };
        Policy {
            mode,
            authorized: Vec::new(),
            threshold: 0,
            locked_until: None,
            fallback: Mode::Locked,
            scope: Scope::Grain,
        }
    }

    /// The policy of `grain`. What can't be read protects: a policy that isn't a map, or has no
    /// mode that is a string, is of an unknown mode.
    pub fn of(grain: &Grain<'_>) -> Policy {
        let is_consent = grain.grain_type() == Some(gristmill_schemas::grain::GrainType::Consent);
        match grain.get(Field::InvalidationPolicy) {
            None => Policy::absent(is_consent),
            Some(terms) => Policy::read(&terms),
        }
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
            mode: word("mode").map_or(Mode::Unknown, Mode::of),
            authorized: authorized
                .into_iter()
                .flatten()
                .filter_map(|did| did.as_text().map(str::to_owned))
                .collect(),
            threshold: number("threshold").unwrap_or(0),
            locked_until: number("locked_until"),
            // §23.2 gives no default; a policy that doesn't say what follows goes on to lock.
            fallback: word("fallback_mode").map_or(Mode::Locked, Mode::of),
            scope: match terms.get("scope") {
                None => Scope::Grain,
                Some(RawValue::Text("grain")) => Scope::Grain,
                Some(RawValue::Text("subtree")) => Scope::Subtree,
                Some(RawValue::Text("lineage")) => Scope::Lineage,
                Some(_) => Scope::Unknown,
            },
        }
    }

    /// The mode in force at `now` (seconds since 1970): a timed policy is locked, then its
    /// fallback; unknown is locked. A fallback that is timed again stays locked.
    pub fn effective(&self, now: u64) -> Mode {
        match self.mode {
            Mode::Timed if self.locked_until.is_none_or(|until| now < until) => Mode::Locked,
            Mode::Timed => match self.fallback {
                Mode::Timed | Mode::Unknown => Mode::Locked,
                fallback => fallback,
            },
            Mode::Unknown => Mode::Locked,
            mode => mode,
        }
    }
}

//! Why a grain was found, and why one that was found is kept all the same.

use std::fmt;

use gristmill_schemas::grain::{Field, Grain, GrainType};
use serde::Serialize;

use crate::policy::{Mode, Policy};

macro_rules! reasons {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// Why a grain is of a person.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason {
            $(#[doc = $doc] $variant,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Reason] = &[$(Reason::$variant),*];

            /// The word in plans and reports.
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
    Party "party" "One of the parties: author, observer, grantee, witness, delegate, participant, owner, signer.";
    Namespace "namespace" "A segment of its namespace, or a tag.";
    Value "value" "A value as a whole somewhere inside: a map object, a context, a tool's input, a content block.";
    Session "session" "Its session or run was named in the request.";
    OwnSession "own_session" "It is of a session that has only this person's grains.";
    Consent "consent" "It was made on the basis of the consent.";
    Address "address" "It was named by its address.";
    Undecodable "undecodable" "Refused bytes that can't be decoded and contain an identifier.";
    Mention "text_mention" "A text mentions the person.";
    Ambiguous "ambiguous_value" "A value equals an identifier that is too short or too plain to be sure.";
    SharedSession "shared_session" "It is of a session that has grains of others too.";
    Derived "derived" "It was derived from a grain that was found.";
    Related "related" "It refers to a grain that was found.";
}

/// A set of reasons.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Reasons(u32);

impl Reasons {
    /// Adds a reason.
    pub fn insert(&mut self, reason: Reason) {
        self.0 |= 1 << reason as u8;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Reasons) {
        self.0 |= other.0;
    }

    /// True if `reason` is among them.
    pub fn contains(self, reason: Reason) -> bool {
        self.0 & 1 << reason as u8 != 0
    }

    /// True if there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The reasons in their order.
    pub fn iter(self) -> impl Iterator<Item = Reason> {
        Reason::ALL.iter().copied().filter(move |reason| self.contains(*reason))
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Bar {
    /// A litigation hold, its own or that of a grain whose protection reaches it (§23.2, §23.6).
    Hold,
    /// It must be kept until an instant that hasn't come.
    Retention {
        /// Milliseconds since 1970; `None` if the policy can't be read.
        until: Option<i64>,
        /// The rule that demands it.
        regulation: Option<String>,
    },
    /// Its deletion needs an approval that wasn't given.
    Approval {
        /// What is needed.
        needs: String,
    },
    /// It is a consent or a withdrawal, which is kept for audit (§8.10).
    ConsentRecord,
    /// It was found only for a reason that the request doesn't select by.
    NotSelected,
}

impl Bar {
    /// The word in plans and certificates.
    pub fn name(&self) -> &'static str {
        match self {
            Bar::Hold => "hold",
            Bar::Retention { .. } => "retention",
            Bar::Approval { .. } => "approval",
            Bar::ConsentRecord => "consent_record",
            Bar::NotSelected => "not_selected",
        }
    }
}

/// The instant by which bars are judged, and the approvals that were given.
#[derive(Debug, Clone)]
pub struct Judge<'a> {
    /// Milliseconds since 1970.
    pub now: i64,
    /// What has been approved.
    pub approvals: &'a [String],
}

impl Judge<'_> {
    /// What bars the erasure of `grain` itself, the strongest first.
    pub fn bar_of(&self, grain: &Grain<'_>) -> Option<Bar> {
        if Policy::of(grain).effective((self.now / 1000).max(0) as u64) == Mode::Hold {
            return Some(Bar::Hold);
        }
        if grain.grain_type() == Some(GrainType::Consent) {
            return Some(Bar::ConsentRecord);
        }
        self.retention(grain)
    }

    fn retention(&self, grain: &Grain<'_>) -> Option<Bar> {
        let policy = grain.get(Field::RetentionPolicy)?;
        let text = |key| policy.get(key).and_then(|value| value.as_text().map(str::to_owned));
        if let Some(years) = policy.get("minimum_retention_years") {
            let years = years.as_number().or_else(|| years.as_text()?.trim().parse().ok());
            let until = years.and_then(|years| self.kept_until(grain, years));
            if until.is_none_or(|until| until > self.now) {
                return Some(Bar::Retention { until, regulation: text("regulation") });
            }
        }
        let needs = text("deletion_requires").filter(|needs| !needs.is_empty())?;
        let approved = self.approvals.contains(&needs);
        (!approved).then_some(Bar::Approval { needs })
    }

    /// The instant `years` after the grain was made; fractions count as parts of 365.25 days.
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

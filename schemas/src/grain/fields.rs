//! The field table: all fields of sections 6.1 to 6.11 and appendix C of the specification.
//!
//! One table defines a field's full name, its short key, the kind of its value, and who may set or
//! hide it. Encoding, decoding, schema rules, disclosure and the columns of the lake all use this
//! table. It is the union over all types, since the specification's tables per type overlap without
//! contradiction. Only the key of `content` depends on the type: `cnt` in actions, `content`
//! elsewhere.
//!
//! The order of the rows has a meaning: [`Field::for_type`] finds the fields of a type as a range
//! of them, and the columns of the lake have this order.
//!
//! Not in this module: required fields per type (`validate`) and nonstandard keys (`alias`).

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::types::GrainType;

/// The kind of value that a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A string.
    Text,
    /// A double in [0, 1].
    UnitFloat,
    /// A double.
    Float,
    /// A signed integer.
    Int,
    /// A non-negative integer.
    Count,
    /// An integer in [0, 255].
    Byte,
    /// A boolean.
    Bool,
    /// An instant in milliseconds since 1970; encoders also accept a date-time string (§4.8).
    Timestamp,
    /// A map whose keys belong to the author and are never changed.
    Map,
    /// An array of strings.
    TextList,
    /// An array of addresses or external citations (§27.5).
    CitationList,
    /// An array of integers in [0, 255].
    ByteList,
    /// An array of maps.
    MapList,
    /// An array of any values.
    AnyList,
    /// A string or a map.
    TextOrMap,
    /// Any value.
    Any,
    /// `content_refs`, with short nested keys (§7.1).
    ContentRefs,
    /// `embedding_refs`, with short nested keys (§7.2).
    EmbeddingRefs,
    /// `related_to`, with short nested keys (§14.2).
    RelatedTo,
    /// `provenance_chain` (§14.1).
    ProvenanceChain,
    /// `invalidation_policy` (§23.2).
    InvalidationPolicy,
    /// `retention_policy` (§6.1).
    RetentionPolicy,
}

/// Who may set or hide a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldAccess {
    /// Stored in the blob; may be elided.
    Elidable,
    /// Stored in the blob; must stay visible to receivers (§10.2).
    NotElidable,
    /// Maintained by the index layer; writers must not set it (§5.6).
    Index,
}

macro_rules! fields {
    ($($variant:ident $name:literal $short:literal $kind:ident $access:ident;)*) => {
        /// A field of the specification.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = concat!("`", $name, "`, short key `", $short, "`.")] $variant,)*
        }

        impl Field {
            /// All fields in the order of the specification's sections.
            pub const ALL: &[Field] = &[$(Field::$variant),*];

            const TABLE: &[(&str, &str, FieldKind, FieldAccess)] =
                &[$(($name, $short, FieldKind::$kind, FieldAccess::$access)),*];
        }
    };
}

fields! {
    // §6.1 core
    Type "type" "t" Text NotElidable;
    Subject "subject" "s" Text Elidable;
    Relation "relation" "r" Text NotElidable;
    Object "object" "o" TextOrMap Elidable;
    Confidence "confidence" "c" UnitFloat NotElidable;
    SourceType "source_type" "st" Text NotElidable;
    CreatedAt "created_at" "ca" Timestamp NotElidable;
    TemporalType "temporal_type" "tt" Text Elidable;
    ValidFrom "valid_from" "vf" Timestamp Elidable;
    ValidTo "valid_to" "vt" Timestamp Elidable;
    SystemValidFrom "system_valid_from" "svf" Timestamp Elidable;
    SystemValidTo "system_valid_to" "svt" Timestamp Index;
    Context "context" "ctx" Map Elidable;
    SupersededBy "superseded_by" "sb" Text Index;
    Contradicted "contradicted" "ct" Bool Elidable;
    Importance "importance" "im" UnitFloat Elidable;
    AuthorDid "author_did" "adid" Text Elidable;
    Namespace "namespace" "ns" Text Elidable;
    UserId "user_id" "user" Text Elidable;
    StructuralTags "structural_tags" "tags" TextList Elidable;
    DerivedFrom "derived_from" "df" CitationList Elidable;
    ConsolidationLevel "consolidation_level" "cl" Count Elidable;
    SuccessCount "success_count" "sc" Count Elidable;
    FailureCount "failure_count" "fc" Count Elidable;
    ProvenanceChain "provenance_chain" "pc" ProvenanceChain Elidable;
    OriginDid "origin_did" "odid" Text Elidable;
    OriginNamespace "origin_namespace" "ons" Text Elidable;
    ContentRefs "content_refs" "cr" ContentRefs Elidable;
    EmbeddingRefs "embedding_refs" "er" EmbeddingRefs Elidable;
    RelatedTo "related_to" "rt" RelatedTo Elidable;
    Elided "_elided" "_e" Map NotElidable;
    DisclosureOf "_disclosure_of" "_do" Text NotElidable;
    InvalidationPolicy "invalidation_policy" "ip" InvalidationPolicy Elidable;
    SupersessionJustification "supersession_justification" "sj" Text Elidable;
    SupersessionAuth "supersession_auth" "sa" AnyList Elidable;
    Owner "owner" "own" Map Elidable;
    Category "category" "cat" Byte Elidable;
    RunId "run_id" "rid" Text Elidable;
    Role "role" "role" Text Elidable;
    AccessCount "access_count" "ac" Count Index;
    LastAccessedAt "last_accessed_at" "laa" Timestamp Index;
    TimestampMs "timestamp_ms" "tms" Timestamp Elidable;
    ObserverDid "observer_did" "obsdid" Text Elidable;
    SubjectDid "subject_did" "sdid" Text Elidable;
    SessionId "session_id" "sid2" Text Elidable;
    EntityId "entity_id" "eid" Text Elidable;
    EpistemicStatus "epistemic_status" "epstat" Text Elidable;
    VerificationStatus "verification_status" "vstatus" Text Index;
    RequiresHumanReview "requires_human_review" "rhr" Bool Elidable;
    ProcessingBasis "processing_basis" "pbasis" Text Elidable;
    IdentityState "identity_state" "idst" Text Elidable;
    License "license" "lic" Text Elidable;
    TrustedTimestamp "trusted_timestamp" "tts" Map Elidable;
    InvalidationType "invalidation_type" "itype" Text Elidable;
    InvalidationReason "invalidation_reason" "ireason" Text Elidable;
    InvalidationInitiator "invalidation_initiator" "iinit" Text Elidable;
    RetentionPolicy "retention_policy" "rpol" RetentionPolicy Elidable;
    RecallPriority "recall_priority" "rpri" Text Elidable;
    // §6.2 event (the short key of `content` is `cnt` in actions, §6.5)
    Content "content" "content" Any Elidable;
    Consolidated "consolidated" "consolidated" Bool Elidable;
    ContentBlocks "content_blocks" "cblocks" MapList Elidable;
    ModelId "model_id" "mdl" Text Elidable;
    StopReason "stop_reason" "stopr" Text Elidable;
    TokenUsage "token_usage" "toku" Map Elidable;
    ParentMessageId "parent_message_id" "pmid" Text Elidable;
    // §6.3 state
    Plan "plan" "plan" TextList Elidable;
    History "history" "history" MapList Elidable;
    // §6.4 workflow
    Steps "steps" "steps" TextList Elidable;
    Trigger "trigger" "trigger" Text Elidable;
    // §6.5 action
    ActionPhase "action_phase" "aphase" Text Elidable;
    ToolName "tool_name" "tn" Text Elidable;
    Input "input" "inp" Map Elidable;
    IsError "is_error" "iserr" Bool Elidable;
    ToolCallId "tool_call_id" "tcid" Text Elidable;
    CallBatchId "call_batch_id" "cbid" Text Elidable;
    ToolType "tool_type" "ttype" Text Elidable;
    ToolVersion "tool_version" "tver" Text Elidable;
    ExecutionMode "execution_mode" "emode" Text Elidable;
    Code "code" "code" Text Elidable;
    Stdout "stdout" "out" Text Elidable;
    Stderr "stderr" "err2" Text Elidable;
    ExitCode "exit_code" "xc" Int Elidable;
    InterpreterId "interpreter_id" "iid" Text Elidable;
    Error "error" "err" Text Elidable;
    ErrorType "error_type" "etype" Text Elidable;
    DurationMs "duration_ms" "dur" Count Elidable;
    ParentTaskId "parent_task_id" "ptid" Text Elidable;
    ToolDescription "tool_description" "tdesc" Text Elidable;
    InputSchema "input_schema" "isch" Map Elidable;
    OutputSchema "output_schema" "osch" Map Elidable;
    Strict "strict" "strict" Bool Elidable;
    // §6.6 observation
    ObserverId "observer_id" "oid" Text Elidable;
    ObserverType "observer_type" "otype" Text NotElidable;
    FrameId "frame_id" "fid" Text Elidable;
    SyncGroup "sync_group" "sg" Text Elidable;
    ObservationMode "observation_mode" "omode" Text NotElidable;
    ObservationScope "observation_scope" "oscope" Text NotElidable;
    ObserverModel "observer_model" "omdl" Text Elidable;
    CompressionRatio "compression_ratio" "ocmp" Float NotElidable;
    // §6.7 goal
    Description "description" "desc" Text Elidable;
    GoalState "goal_state" "gs" Text NotElidable;
    Criteria "criteria" "crit" TextList Elidable;
    CriteriaStructured "criteria_structured" "crs" MapList Elidable;
    Priority "priority" "pri" Int NotElidable;
    ParentGoals "parent_goals" "pgs" TextList Elidable;
    StateReason "state_reason" "sr" Text Elidable;
    SatisfactionEvidence "satisfaction_evidence" "se" TextList Elidable;
    Progress "progress" "prog" Float Elidable;
    DelegateTo "delegate_to" "dto" Text Elidable;
    DelegateFrom "delegate_from" "dfo" Text Elidable;
    ExpiryPolicy "expiry_policy" "ep" Text Elidable;
    Recurrence "recurrence" "rec" Text Elidable;
    EvidenceRequired "evidence_required" "evreq" Count Elidable;
    RollbackOnFailure "rollback_on_failure" "rof" TextList Elidable;
    AllowedTransitions "allowed_transitions" "atr" TextList Elidable;
    DependsOn "depends_on" "depg" TextList Elidable;
    AssignedAgent "assigned_agent" "asgn" Text Elidable;
    ExpectedOutput "expected_output" "expout" Text Elidable;
    OutputGrain "output_grain" "outg" Text Elidable;
    Deadline "deadline" "dline" Timestamp Elidable;
    // §6.8 consent
    GranteeDid "grantee_did" "gdid" Text Elidable;
    Scope "scope" "scope" TextList Elidable;
    IsWithdrawal "is_withdrawal" "isw" Bool Elidable;
    Basis "basis" "basis" Text Elidable;
    Jurisdiction "jurisdiction" "jur" Text Elidable;
    PriorConsent "prior_consent" "pcon" Text Elidable;
    WitnessDids "witness_dids" "wdids" TextList Elidable;
    // §6.9 reasoning
    Premises "premises" "prem" TextList Elidable;
    Conclusion "conclusion" "conc" Text Elidable;
    InferenceMethod "inference_method" "imethod" Text Elidable;
    AlternativesConsidered "alternatives_considered" "altc" MapList Elidable;
    ThinkingContent "thinking_content" "think" Text Elidable;
    ThinkingRedacted "thinking_redacted" "tredact" Bool Elidable;
    StatisticalContext "statistical_context" "statctx" Map Elidable;
    SoftwareEnvironment "software_environment" "swenv" Map Elidable;
    ParameterSet "parameter_set" "params" Map Elidable;
    RandomSeed "random_seed" "rseed" Int Elidable;
    // §6.10 consensus
    ParticipatingObservers "participating_observers" "pobs" TextList Elidable;
    Threshold "threshold" "thold" Count Elidable;
    AgreementCount "agreement_count" "agcnt" Count Elidable;
    DissentCount "dissent_count" "discnt" Count Elidable;
    DissentGrains "dissent_grains" "disgrn" TextList Elidable;
    AgreedContent "agreed_content" "agcon" Any Elidable;
    // §6.11 delegation
    AuthorizedNamespaces "authorized_namespaces" "ans" TextList Elidable;
    AuthorizedTypes "authorized_types" "atypes" ByteList Elidable;
    AuthorizedTools "authorized_tools" "atools" TextList Elidable;
    DelegationDepth "delegation_depth" "ddepth" Count Elidable;
    DelegationExpiry "delegation_expiry" "dexp" Timestamp Elidable;
    ContextGrains "context_grains" "cgrains" TextList Elidable;
    ReturnTo "return_to" "retdid" Text Elidable;
}

/// The short key of `content` in actions; read as `content` in every type.
const ACTION_CONTENT: &str = "cnt";

impl Field {
    /// The number of fields.
    pub const COUNT: usize = Self::TABLE.len();

    /// Returns the full name, as used in SQL, CAL and JSON.
    pub const fn name(self) -> &'static str {
        Self::TABLE[self as usize].0
    }

    /// Returns the kind of the field's values.
    pub const fn kind(self) -> FieldKind {
        Self::TABLE[self as usize].2
    }

    /// Returns who may set or hide the field.
    pub const fn access(self) -> FieldAccess {
        Self::TABLE[self as usize].3
    }

    /// Returns the fields that a grain of type `of` can have: those of §6.1, then those of the
    /// type's own sections.
    pub fn for_type(of: GrainType) -> impl Iterator<Item = Field> {
        let (first, last, shared): (Field, Field, &[Field]) = match of {
            // A belief has only the core fields.
            GrainType::Belief => (Field::Type, Field::Type, &[]),
            GrainType::Event => (Field::Content, Field::ParentMessageId, &[]),
            GrainType::State => (Field::Plan, Field::History, &[]),
            GrainType::Workflow => (Field::Steps, Field::Trigger, &[]),
            GrainType::Action => (Field::ActionPhase, Field::Strict, &[Field::Content]),
            GrainType::Observation => (Field::ObserverId, Field::CompressionRatio, &[]),
            // Delegation is a profile of goals.
            GrainType::Goal => (Field::Description, Field::Deadline, Self::DELEGATION),
            GrainType::Reasoning => (Field::Premises, Field::RandomSeed, &[]),
            GrainType::Consensus => (Field::ParticipatingObservers, Field::AgreedContent, &[]),
            GrainType::Consent => (Field::GranteeDid, Field::WitnessDids, &[]),
        };
        let own = move |field: &Field| (first..=last).contains(field) || shared.contains(field);
        Field::ALL
            .iter()
            .copied()
            .filter(move |field| *field <= Field::RecallPriority || own(field))
    }

    /// The fields of §6.11.
    const DELEGATION: &[Field] = &[
        Field::AuthorizedNamespaces,
        Field::AuthorizedTypes,
        Field::AuthorizedTools,
        Field::DelegationDepth,
        Field::DelegationExpiry,
        Field::ContextGrains,
        Field::ReturnTo,
    ];

    /// Returns the key under which a grain of type `of` stores the field.
    pub const fn short_key(self, of: Option<GrainType>) -> &'static str {
        match (self, of) {
            (Field::Content, Some(GrainType::Action)) => ACTION_CONTENT,
            _ => Self::TABLE[self as usize].1,
        }
    }

    /// Returns the field with the given full name.
    pub fn from_name(name: &str) -> Option<Field> {
        // The set of keys is fixed, so collision attacks on the hash function are not a concern.
        static NAMES: LazyLock<FxHashMap<&'static str, Field>> = LazyLock::new(|| {
            Field::ALL
                .iter()
                .map(|field| (field.name(), *field))
                .collect()
        });
        NAMES.get(name).copied()
    }

    /// Returns the field with the given short key. Constant time: called for every field of every
    /// grain.
    pub fn from_short_key(key: &str) -> Option<Field> {
        Self::from_key_bytes(key.as_bytes()).map(|(_, field)| field)
    }

    /// As [`Field::from_short_key`] for unchecked bytes; also returns the key as text.
    #[inline]
    pub(super) fn from_key_bytes(key: &[u8]) -> Option<(&'static str, Field)> {
        let mut slot = slot_of(key);
        loop {
            let (known, field) = SHORT_KEYS[slot]?;
            // Keys have a few bytes, for which a byte loop is faster than a call to `memcmp`.
            if known.len() == key.len()
                && known.bytes().zip(key).all(|(known, byte)| known == *byte)
            {
                return Some((known, field));
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Returns the full names and short keys of the members of compound fields (§4.7); empty for
    /// other fields.
    pub const fn nested_keys(self) -> &'static [(&'static str, &'static str)] {
        match self.kind() {
            FieldKind::ContentRefs => &[
                ("uri", "u"),
                ("modality", "m"),
                ("mime_type", "mt"),
                ("size_bytes", "sz"),
                ("checksum", "ck"),
                ("metadata", "md"),
            ],
            FieldKind::EmbeddingRefs => &[
                ("vector_id", "vi"),
                ("model", "mo"),
                ("dimensions", "dm"),
                ("modality_source", "ms"),
                ("distance_metric", "di"),
                ("chunk_index", "ci"),
                ("chunk_text", "ct"),
                ("chunk_strategy", "cs"),
                ("chunk_overlap", "co"),
            ],
            FieldKind::RelatedTo => &[("hash", "h"), ("relation_type", "rl"), ("weight", "w")],
            _ => &[],
        }
    }
}

/// The number of slots in the hash table of short keys: a power of two, about a third full.
const SLOTS: usize = 512;

type ShortKeys = [Option<(&'static str, Field)>; SLOTS];

/// Maps short keys to fields: a hash table with open addressing, built at compile time.
static SHORT_KEYS: ShortKeys = {
    let mut slots: ShortKeys = [None; SLOTS];
    let mut at = 0;
    while at <= Field::COUNT {
        let (key, field) = match at {
            Field::COUNT => (ACTION_CONTENT, Field::Content),
            _ => (Field::TABLE[at].1, Field::ALL[at]),
        };
        let mut slot = slot_of(key.as_bytes());
        while slots[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = Some((key, field));
        at += 1;
    }
    slots
};

/// Returns the first slot to probe for `key`: FNV-1a over at most its first twelve bytes, the
/// length of the longest short key.
const fn slot_of(key: &[u8]) -> usize {
    let mut hash: u32 = 0x811c_9dc5;
    let mut at = 0;
    while at < key.len() && at < 12 {
        hash = (hash ^ key[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (hash ^ hash >> 15) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_short_keys_are_one_to_one() {
        let names: HashSet<_> = Field::ALL.iter().map(|field| field.name()).collect();
        let shorts: HashSet<_> = Field::ALL
            .iter()
            .map(|field| field.short_key(None))
            .collect();
        assert_eq!((names.len(), shorts.len()), (Field::COUNT, Field::COUNT));
        for &field in Field::ALL {
            assert_eq!(Field::from_name(field.name()), Some(field));
            assert_eq!(Field::from_short_key(field.short_key(None)), Some(field));
            assert_eq!(
                Field::from_short_key(field.short_key(Some(GrainType::Action))),
                Some(field)
            );
        }
        assert_eq!(Field::from_short_key("subject"), None);
        assert_eq!(Field::from_short_key(""), None);
        assert_eq!(
            Field::from_short_key("a key that is longer than any short key"),
            None
        );
    }

    #[test]
    fn content_is_cnt_in_actions_only() {
        assert_eq!(Field::Content.short_key(Some(GrainType::Action)), "cnt");
        assert_eq!(Field::Content.short_key(Some(GrainType::Event)), "content");
        assert_eq!(Field::Content.short_key(None), "content");
    }

    #[test]
    fn a_key_is_found_in_few_probes() {
        let probes = |key: &str| {
            let home = slot_of(key.as_bytes());
            (0..SLOTS)
                .find(|step| matches!(SHORT_KEYS[(home + step) % SLOTS], Some((known, _)) if known == key))
                .unwrap()
        };
        let total: usize = Field::ALL
            .iter()
            .map(|field| probes(field.short_key(None)) + 1)
            .sum();
        assert!(
            total < Field::COUNT * 3 / 2,
            "{total} probes for {} keys",
            Field::COUNT
        );
    }
}

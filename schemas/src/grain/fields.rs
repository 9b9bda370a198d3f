//! The field map: every field of sections 6.1 to 6.11 and appendix C, once.
//!
//! One table says a field's full name, its short key, what kind of value it holds, and who may set
//! or hide it. Encoding, decoding, schema rules, disclosure and the columns of the lake all read
//! it. The map is the union over all types (the specification's own maps overlap without
//! contradiction); only `content` is compacted by type: `cnt` in actions, `content` elsewhere.
//!
//! What doesn't live here: rules about which type needs which field (`rules`), keys that other
//! writers use (`alias`).

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::types::GrainType;

/// What kind of value a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A double in [0, 1].
    UnitFloat,
    /// A double.
    Float,
    /// A signed integer.
    Int,
    /// An integer that can't be negative.
    Count,
    /// An integer in [0, 255].
    Byte,
    /// A boolean.
    Bool,
    /// Milliseconds since 1970; may be given as a date-time string when encoding (§4.8).
    Instant,
    /// A map that is nobody's but its author's: its keys are never touched.
    Map,
    /// An array of strings.
    TextList,
    /// An array of addresses or external citations (§27.5).
    CitationList,
    /// An array of integers in [0, 255].
    ByteList,
    /// An array of maps.
    MapList,
    /// An array of anything.
    AnyList,
    /// A string or a map.
    TextOrMap,
    /// Anything.
    Any,
    /// `content_refs`, compacted inside (§7.1).
    ContentRefs,
    /// `embedding_refs`, compacted inside (§7.2).
    EmbeddingRefs,
    /// `related_to`, compacted inside (§14.2).
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
pub enum Access {
    /// Part of the blob; may be elided.
    Open,
    /// Part of the blob; a receiver must see it (§10.2).
    NotElidable,
    /// Kept by the index layer; a writer must not set it (§5.6).
    Index,
}

macro_rules! fields {
    ($($variant:ident $name:literal $short:literal $kind:ident $access:ident;)*) => {
        /// A field that the specification names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = concat!("`", $name, "`, short key `", $short, "`.")] $variant,)*
        }

        impl Field {
            /// Every field, in the order of the specification's sections.
            pub const ALL: &[Field] = &[$(Field::$variant),*];

            const TABLE: &[(&str, &str, Kind, Access)] = &[$(($name, $short, Kind::$kind, Access::$access)),*];
        }
    };
}

fields! {
    // §6.1 core
    Type "type" "t" Text NotElidable;
    Subject "subject" "s" Text Open;
    Relation "relation" "r" Text NotElidable;
    Object "object" "o" TextOrMap Open;
    Confidence "confidence" "c" UnitFloat NotElidable;
    SourceType "source_type" "st" Text NotElidable;
    CreatedAt "created_at" "ca" Instant NotElidable;
    TemporalType "temporal_type" "tt" Text Open;
    ValidFrom "valid_from" "vf" Instant Open;
    ValidTo "valid_to" "vt" Instant Open;
    SystemValidFrom "system_valid_from" "svf" Instant Open;
    SystemValidTo "system_valid_to" "svt" Instant Index;
    Context "context" "ctx" Map Open;
    SupersededBy "superseded_by" "sb" Text Index;
    Contradicted "contradicted" "ct" Bool Open;
    Importance "importance" "im" UnitFloat Open;
    AuthorDid "author_did" "adid" Text Open;
    Namespace "namespace" "ns" Text Open;
    UserId "user_id" "user" Text Open;
    StructuralTags "structural_tags" "tags" TextList Open;
    DerivedFrom "derived_from" "df" CitationList Open;
    ConsolidationLevel "consolidation_level" "cl" Count Open;
    SuccessCount "success_count" "sc" Count Open;
    FailureCount "failure_count" "fc" Count Open;
    ProvenanceChain "provenance_chain" "pc" ProvenanceChain Open;
    OriginDid "origin_did" "odid" Text Open;
    OriginNamespace "origin_namespace" "ons" Text Open;
    ContentRefs "content_refs" "cr" ContentRefs Open;
    EmbeddingRefs "embedding_refs" "er" EmbeddingRefs Open;
    RelatedTo "related_to" "rt" RelatedTo Open;
    Elided "_elided" "_e" Map NotElidable;
    DisclosureOf "_disclosure_of" "_do" Text NotElidable;
    InvalidationPolicy "invalidation_policy" "ip" InvalidationPolicy Open;
    SupersessionJustification "supersession_justification" "sj" Text Open;
    SupersessionAuth "supersession_auth" "sa" AnyList Open;
    Owner "owner" "own" Map Open;
    Category "category" "cat" Byte Open;
    RunId "run_id" "rid" Text Open;
    Role "role" "role" Text Open;
    AccessCount "access_count" "ac" Count Index;
    LastAccessedAt "last_accessed_at" "laa" Instant Index;
    TimestampMs "timestamp_ms" "tms" Instant Open;
    ObserverDid "observer_did" "obsdid" Text Open;
    SubjectDid "subject_did" "sdid" Text Open;
    SessionId "session_id" "sid2" Text Open;
    EntityId "entity_id" "eid" Text Open;
    EpistemicStatus "epistemic_status" "epstat" Text Open;
    VerificationStatus "verification_status" "vstatus" Text Index;
    RequiresHumanReview "requires_human_review" "rhr" Bool Open;
    ProcessingBasis "processing_basis" "pbasis" Text Open;
    IdentityState "identity_state" "idst" Text Open;
    License "license" "lic" Text Open;
    TrustedTimestamp "trusted_timestamp" "tts" Map Open;
    InvalidationType "invalidation_type" "itype" Text Open;
    InvalidationReason "invalidation_reason" "ireason" Text Open;
    InvalidationInitiator "invalidation_initiator" "iinit" Text Open;
    RetentionPolicy "retention_policy" "rpol" RetentionPolicy Open;
    RecallPriority "recall_priority" "rpri" Text Open;
    // §6.2 event (`content` is `cnt` in actions, §6.5)
    Content "content" "content" Any Open;
    Consolidated "consolidated" "consolidated" Bool Open;
    ContentBlocks "content_blocks" "cblocks" MapList Open;
    ModelId "model_id" "mdl" Text Open;
    StopReason "stop_reason" "stopr" Text Open;
    TokenUsage "token_usage" "toku" Map Open;
    ParentMessageId "parent_message_id" "pmid" Text Open;
    // §6.3 state
    Plan "plan" "plan" TextList Open;
    History "history" "history" MapList Open;
    // §6.4 workflow
    Steps "steps" "steps" TextList Open;
    Trigger "trigger" "trigger" Text Open;
    // §6.5 action
    ActionPhase "action_phase" "aphase" Text Open;
    ToolName "tool_name" "tn" Text Open;
    Input "input" "inp" Map Open;
    IsError "is_error" "iserr" Bool Open;
    ToolCallId "tool_call_id" "tcid" Text Open;
    CallBatchId "call_batch_id" "cbid" Text Open;
    ToolType "tool_type" "ttype" Text Open;
    ToolVersion "tool_version" "tver" Text Open;
    ExecutionMode "execution_mode" "emode" Text Open;
    Code "code" "code" Text Open;
    Stdout "stdout" "out" Text Open;
    Stderr "stderr" "err2" Text Open;
    ExitCode "exit_code" "xc" Int Open;
    InterpreterId "interpreter_id" "iid" Text Open;
    Error "error" "err" Text Open;
    ErrorType "error_type" "etype" Text Open;
    DurationMs "duration_ms" "dur" Count Open;
    ParentTaskId "parent_task_id" "ptid" Text Open;
    ToolDescription "tool_description" "tdesc" Text Open;
    InputSchema "input_schema" "isch" Map Open;
    OutputSchema "output_schema" "osch" Map Open;
    Strict "strict" "strict" Bool Open;
    // §6.6 observation
    ObserverId "observer_id" "oid" Text Open;
    ObserverType "observer_type" "otype" Text NotElidable;
    FrameId "frame_id" "fid" Text Open;
    SyncGroup "sync_group" "sg" Text Open;
    ObservationMode "observation_mode" "omode" Text NotElidable;
    ObservationScope "observation_scope" "oscope" Text NotElidable;
    ObserverModel "observer_model" "omdl" Text Open;
    CompressionRatio "compression_ratio" "ocmp" Float NotElidable;
    // §6.7 goal
    Description "description" "desc" Text Open;
    GoalState "goal_state" "gs" Text NotElidable;
    Criteria "criteria" "crit" TextList Open;
    CriteriaStructured "criteria_structured" "crs" MapList Open;
    Priority "priority" "pri" Int NotElidable;
    ParentGoals "parent_goals" "pgs" TextList Open;
    StateReason "state_reason" "sr" Text Open;
    SatisfactionEvidence "satisfaction_evidence" "se" TextList Open;
    Progress "progress" "prog" Float Open;
    DelegateTo "delegate_to" "dto" Text Open;
    DelegateFrom "delegate_from" "dfo" Text Open;
    ExpiryPolicy "expiry_policy" "ep" Text Open;
    Recurrence "recurrence" "rec" Text Open;
    EvidenceRequired "evidence_required" "evreq" Count Open;
    RollbackOnFailure "rollback_on_failure" "rof" TextList Open;
    AllowedTransitions "allowed_transitions" "atr" TextList Open;
    DependsOn "depends_on" "depg" TextList Open;
    AssignedAgent "assigned_agent" "asgn" Text Open;
    ExpectedOutput "expected_output" "expout" Text Open;
    OutputGrain "output_grain" "outg" Text Open;
    Deadline "deadline" "dline" Instant Open;
    // §6.8 consent
    GranteeDid "grantee_did" "gdid" Text Open;
    Scope "scope" "scope" TextList Open;
    IsWithdrawal "is_withdrawal" "isw" Bool Open;
    Basis "basis" "basis" Text Open;
    Jurisdiction "jurisdiction" "jur" Text Open;
    PriorConsent "prior_consent" "pcon" Text Open;
    WitnessDids "witness_dids" "wdids" TextList Open;
    // §6.9 reasoning
    Premises "premises" "prem" TextList Open;
    Conclusion "conclusion" "conc" Text Open;
    InferenceMethod "inference_method" "imethod" Text Open;
    AlternativesConsidered "alternatives_considered" "altc" MapList Open;
    ThinkingContent "thinking_content" "think" Text Open;
    ThinkingRedacted "thinking_redacted" "tredact" Bool Open;
    StatisticalContext "statistical_context" "statctx" Map Open;
    SoftwareEnvironment "software_environment" "swenv" Map Open;
    ParameterSet "parameter_set" "params" Map Open;
    RandomSeed "random_seed" "rseed" Int Open;
    // §6.10 consensus
    ParticipatingObservers "participating_observers" "pobs" TextList Open;
    Threshold "threshold" "thold" Count Open;
    AgreementCount "agreement_count" "agcnt" Count Open;
    DissentCount "dissent_count" "discnt" Count Open;
    DissentGrains "dissent_grains" "disgrn" TextList Open;
    AgreedContent "agreed_content" "agcon" Any Open;
    // §6.11 delegation
    AuthorizedNamespaces "authorized_namespaces" "ans" TextList Open;
    AuthorizedTypes "authorized_types" "atypes" ByteList Open;
    AuthorizedTools "authorized_tools" "atools" TextList Open;
    DelegationDepth "delegation_depth" "ddepth" Count Open;
    DelegationExpiry "delegation_expiry" "dexp" Instant Open;
    ContextGrains "context_grains" "cgrains" TextList Open;
    ReturnTo "return_to" "retdid" Text Open;
}

/// The short key of `content` in actions; read as `content` in every type.
const ACTION_CONTENT: &str = "cnt";

impl Field {
    /// How many fields there are.
    pub const COUNT: usize = Self::TABLE.len();

    /// The full name, as SQL, CAL and JSON write it.
    pub const fn name(self) -> &'static str {
        Self::TABLE[self as usize].0
    }

    /// The kind of its values.
    pub const fn kind(self) -> Kind {
        Self::TABLE[self as usize].2
    }

    /// Who may set or hide it.
    pub const fn access(self) -> Access {
        Self::TABLE[self as usize].3
    }

    /// The fields that a grain of type `of` can fill: those of §6.1, then those of the type's own
    /// sections.
    pub fn of_type(of: GrainType) -> impl Iterator<Item = Field> {
        let (first, last, shared): (Field, Field, &[Field]) = match of {
            // A belief has the core fields only.
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

    /// The key that a grain of type `of` writes the field under.
    pub const fn short_key(self, of: Option<GrainType>) -> &'static str {
        match (self, of) {
            (Field::Content, Some(GrainType::Action)) => ACTION_CONTENT,
            _ => Self::TABLE[self as usize].1,
        }
    }

    /// The field with this full name.
    pub fn from_name(name: &str) -> Option<Field> {
        // Whoever asks can't add to it, so it needn't be safe from keys that were chosen to
        // collide.
        static NAMES: LazyLock<FxHashMap<&'static str, Field>> = LazyLock::new(|| {
            Field::ALL
                .iter()
                .map(|field| (field.name(), *field))
                .collect()
        });
        NAMES.get(name).copied()
    }

    /// The field that a payload's key stands for by the normative map. Constant time: this is on
    /// the road of every field of every grain.
    pub fn from_short_key(key: &str) -> Option<Field> {
        Self::from_key_bytes(key.as_bytes()).map(|(_, field)| field)
    }

    /// [`Field::from_short_key`] of bytes of which nothing is known yet, with the key that they
    /// are.
    #[inline]
    pub(super) fn from_key_bytes(key: &[u8]) -> Option<(&'static str, Field)> {
        let mut slot = slot_of(key);
        loop {
            let (known, field) = SHORT_KEYS[slot]?;
            // Most keys are of a few bytes, for which a call to compare memory takes longer than
            // comparing.
            if known.len() == key.len()
                && known.bytes().zip(key).all(|(known, byte)| known == *byte)
            {
                return Some((known, field));
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// The names inside the maps of a field that is compacted inside (§4.7): full name and short
    /// key; empty for others.
    pub const fn nested_keys(self) -> &'static [(&'static str, &'static str)] {
        match self.kind() {
            Kind::ContentRefs => &[
                ("uri", "u"),
                ("modality", "m"),
                ("mime_type", "mt"),
                ("size_bytes", "sz"),
                ("checksum", "ck"),
                ("metadata", "md"),
            ],
            Kind::EmbeddingRefs => &[
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
            Kind::RelatedTo => &[("hash", "h"), ("relation_type", "rl"), ("weight", "w")],
            _ => &[],
        }
    }
}

/// Slots of the hash table of short keys: a power of two, about a third full.
const SLOTS: usize = 512;

type ShortKeys = [Option<(&'static str, Field)>; SLOTS];

/// Short key to field, open addressing, built when the crate is compiled.
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

/// The first slot to look for `key` in: FNV-1a over at most its first twelve bytes, the length of
/// the longest short key.
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

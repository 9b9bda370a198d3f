//! The fields of CAL in one table: name, owner, type, operators, flags, allowed values, and the
//! source of the value in a grain (CAL 1.0, sections 5.2, 6.3 and appendix E).
//!
//! This table is the only definition; the checks, the planner, DESCRIBE, completion and the
//! documentation read it.

use super::error::Code;
use super::grain_type::{GrainType, SINGULARS};
use super::vocabulary::vocabulary;

vocabulary! {
    /// An operator of a condition.
    pub enum Operator {
        /// Equal.
        Equal = "=",
        /// Not equal.
        NotEqual = "!=",
        /// Greater or equal.
        AtLeast = ">=",
        /// Less or equal.
        AtMost = "<=",
        /// Greater.
        Greater = ">",
        /// Less.
        Less = "<",
        /// One of a list or of the values of a subquery.
        In = "IN",
        /// In an inclusive range.
        Between = "BETWEEN",
        /// Contains all of the listed items.
        Include = "INCLUDE",
        /// Contains none of the listed items.
        Exclude = "EXCLUDE",
        /// In a category of relations.
        Is = "IS",
    }
}

/// A set of operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operators(u16);

impl Operators {
    const fn of(operators: &[Operator]) -> Operators {
        let mut bits = 0;
        let mut at = 0;
        while at < operators.len() {
            bits |= 1 << operators[at] as u16;
            at += 1;
        }
        Operators(bits)
    }

    /// Returns true if `operator` is in the set.
    pub const fn contains(self, operator: Operator) -> bool {
        self.0 & (1 << operator as u16) != 0
    }

    /// Returns the operators, in the order of [`Operator::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Operator> {
        Operator::ALL
            .iter()
            .copied()
            .filter(move |&operator| self.contains(operator))
    }
}

const EQ: Operators = Operators::of(&[Operator::Equal]);
const EQ_NE: Operators = Operators::of(&[Operator::Equal, Operator::NotEqual]);
const EQ_IN: Operators = Operators::of(&[Operator::Equal, Operator::In]);
const EQ_NE_IN: Operators = Operators::of(&[Operator::Equal, Operator::NotEqual, Operator::In]);
const RELATION: Operators = Operators::of(&[
    Operator::Equal,
    Operator::NotEqual,
    Operator::In,
    Operator::Is,
]);
const TIMES: Operators = Operators::of(&[Operator::Equal, Operator::Between]);
const MIN: Operators = Operators::of(&[Operator::AtLeast, Operator::Greater]);
const ITEMS: Operators = Operators::of(&[Operator::Include, Operator::Exclude]);
const INCLUDES: Operators = Operators::of(&[Operator::Include]);
const COUNTS: Operators = Operators::of(&[
    Operator::Equal,
    Operator::AtLeast,
    Operator::AtMost,
    Operator::Greater,
    Operator::Less,
]);
const COMPARISONS: Operators = Operators::of(&[
    Operator::Equal,
    Operator::NotEqual,
    Operator::AtLeast,
    Operator::AtMost,
    Operator::Greater,
    Operator::Less,
]);
/// The operators of domain fields. The specification leaves their type open, so these are all
/// except the relation category.
pub const DOMAIN_OPERATORS: Operators = Operators((1 << Operator::Is as u16) - 1);

/// The type of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A full-text field, which is searched instead of compared.
    Search,
    /// A text.
    Text,
    /// A number.
    Number,
    /// A list of texts.
    Items,
    /// The name of a grain type.
    Type,
    /// A point in time.
    Time,
    /// A content address.
    Hash,
    /// TRUE or FALSE.
    Boolean,
    /// One of [`FieldSpec::values`]; any other text is an error with this code.
    Choice(Code),
}

impl FieldKind {
    /// Returns the name of the type in messages and DESCRIBE.
    pub const fn name(self) -> &'static str {
        match self {
            FieldKind::Search | FieldKind::Text | FieldKind::Choice(_) => "string",
            FieldKind::Number => "number",
            FieldKind::Items => "array",
            FieldKind::Type => "grain type",
            FieldKind::Time => "temporal",
            FieldKind::Hash => "hash",
            FieldKind::Boolean => "boolean",
        }
    }
}

/// The source of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldSource {
    /// The first of these payload fields that exists; `a.b` is the member `b` of the map `a`.
    Payload(&'static [&'static str]),
    /// The lifecycle state of the grain, which isn't part of its bytes.
    Index,
    /// Computed by the query: address, type, score, search.
    Engine,
}

/// The definition of a field.
#[derive(Debug, Clone, Copy)]
pub struct FieldSpec {
    /// The field.
    pub field: KnownField,
    /// Returns the name in queries.
    pub name: &'static str,
    /// The grain type that has the field; `None` for fields of all types.
    pub owner: Option<GrainType>,
    /// The type of its values.
    pub kind: FieldKind,
    /// The operators in WHERE.
    pub operators: Operators,
    /// Whether ORDER BY accepts it.
    pub sortable: bool,
    /// Whether SELECT accepts it.
    pub projectable: bool,
    /// Whether GROUP BY accepts it.
    pub groupable: bool,
    /// The values of a choice, or common values of a text.
    pub values: &'static [&'static str],
    /// The source of the value (digest of CAL 1.0, section 4, "CAL name → OMS payload").
    pub source: FieldSource,
    /// A description for users.
    pub about: &'static str,
}

/// Goal states: the names of CAL, then the equivalent names of the grain specification.
const GOAL_STATES: &[&str] = &[
    "active",
    "completed",
    "abandoned",
    "blocked",
    "satisfied",
    "failed",
    "suspended",
];

/// Returns the name of a goal state in the grain specification: `completed` is `satisfied`,
/// `abandoned` is `failed`, `blocked` is `suspended`; others are unchanged.
pub fn stored_goal_state(state: &str) -> &str {
    match state {
        "completed" => "satisfied",
        "abandoned" => "failed",
        "blocked" => "suspended",
        other => other,
    }
}

macro_rules! fields {
    ($(
        $variant:ident $name:literal $owner:expr, $kind:expr, $operators:expr, $flags:literal,
        $values:expr, $source:expr, $about:literal;
    )+) => {
        /// A field of CAL.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum KnownField {
            $(#[doc = $about] $variant,)+
        }

        /// The table, in the order of [`KnownField`].
        pub const FIELDS: &[FieldSpec] = &[
            $(FieldSpec {
                field: KnownField::$variant,
                name: $name,
                owner: $owner,
                kind: $kind,
                operators: $operators,
                sortable: has_flag($flags, b'S'),
                projectable: has_flag($flags, b'P'),
                groupable: has_flag($flags, b'G'),
                values: $values,
                source: $source,
                about: $about,
            },)+
        ];

        impl KnownField {
            /// Returns the field with this name. The match is case-sensitive.
            pub fn from_name(name: &str) -> Option<KnownField> {
                match name {
                    $($name => Some(KnownField::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

const fn has_flag(flags: &str, flag: u8) -> bool {
    let flags = flags.as_bytes();
    let mut at = 0;
    while at < flags.len() {
        if flags[at] == flag {
            return true;
        }
        at += 1;
    }
    false
}

const ANY: Option<GrainType> = None;
const EVENT: Option<GrainType> = Some(GrainType::Event);
const STATE: Option<GrainType> = Some(GrainType::State);
const WORKFLOW: Option<GrainType> = Some(GrainType::Workflow);
const ACTION: Option<GrainType> = Some(GrainType::Action);
const OBSERVATION: Option<GrainType> = Some(GrainType::Observation);
const GOAL: Option<GrainType> = Some(GrainType::Goal);
const REASONING: Option<GrainType> = Some(GrainType::Reasoning);
const CONSENSUS: Option<GrainType> = Some(GrainType::Consensus);
const CONSENT: Option<GrainType> = Some(GrainType::Consent);
const TEXT: FieldKind = FieldKind::Text;
const SEARCH: FieldKind = FieldKind::Search;

const fn payload(names: &'static [&'static str]) -> FieldSource {
    FieldSource::Payload(names)
}

fields! {
    Query "query" ANY, SEARCH, EQ, "", &[], FieldSource::Engine, "Search for whole words in \
        the texts.";
    Subject "subject" ANY, TEXT, EQ_NE_IN, "SPG", &[], payload(&["subject"]), "Who or what the \
        grain is about.";
    Relation "relation" ANY, TEXT, RELATION, "SPG", &[], payload(&["relation"]), "What is said \
        about the subject.";
    Object "object" ANY, TEXT, EQ_NE_IN, "SPG", &[], payload(&["object"]), "The value or the other \
        end of the relation.";
    UserId "user_id" ANY, TEXT, EQ_NE, "PG", &[], payload(&["user_id"]), "The person whose memory \
        it is.";
    Namespace "namespace" ANY, TEXT, EQ, "", &[], payload(&["namespace"]), "Ignored: the session \
        decides the namespace.";
    Confidence "confidence" ANY, FieldKind::Number, COMPARISONS, "SP", &[], payload(&["confidence"]), "How \
        sure the source is, 0 to 1.";
    Importance "importance" ANY, FieldKind::Number, COMPARISONS, "SP", &[], payload(&["importance"]), "How \
        much it matters, 0 to 1.";
    Score "score" ANY, FieldKind::Number, MIN, "SP", &[], FieldSource::Engine, "How well the grain fits \
        the search, applied after it.";
    Tags "tags" ANY, FieldKind::Items, ITEMS, "P", &[], payload(&["structural_tags"]), "Tags.";
    Type "type" ANY, FieldKind::Type, EQ, "PG", &SINGULARS, FieldSource::Engine, "The grain type.";
    Time "time" ANY, FieldKind::Time, TIMES, "SP", &[], payload(&["timestamp_ms", "created_at"]), "When \
        it happened, else when it was recorded; = means from then on.";
    Hash "hash" ANY, FieldKind::Hash, EQ, "P", &[], FieldSource::Engine, "The content address or its \
        beginning.";
    Contradicted "contradicted" ANY, FieldKind::Boolean, EQ, "P", &[], FieldSource::Index, "Another \
        grain says otherwise.";
    VerificationStatus "verification_status" ANY, TEXT, EQ, "SPG", &["unverified", "verified", "contested", "retracted"], FieldSource::Index, "Whether \
        someone checked it.";
    SourceType "source_type" ANY, TEXT, EQ, "SPG", &[], payload(&["source_type"]), "What kind of \
        source it has.";
    RecallPriority "recall_priority" ANY, FieldKind::Choice(Code::E065), EQ, "", &["hot", "warm", "cold"], payload(&["recall_priority"]), "How \
        readily it should be recalled.";
    EpistemicStatus "epistemic_status" ANY, FieldKind::Choice(Code::E066), EQ, "", &["certain", "probable", "uncertain", "estimated", "derived"], payload(&["epistemic_status"]), "What \
        kind of knowledge it is.";

    Role "role" EVENT, TEXT, EQ_NE, "", &["user", "assistant", "system", "tool"], payload(&["role"]), "Who \
        said it.";
    SessionId "session_id" EVENT, TEXT, EQ, "", &[], payload(&["session_id"]), "The conversation.";
    ParentMessageId "parent_message_id" EVENT, TEXT, EQ, "", &[], payload(&["parent_message_id"]), "The \
        message before it.";
    ModelId "model_id" EVENT, TEXT, EQ_NE, "", &[], payload(&["model_id"]), "The model that said \
        it.";
    Content "content" EVENT, SEARCH, EQ, "", &[], payload(&["content"]), "Search over what was \
        said.";

    Context "context" STATE, TEXT, EQ_NE, "", &[], payload(&["context", "context.context", "context.label", "context.name", "context.id"]), "What \
        the state is of.";
    Plan "plan" STATE, SEARCH, EQ, "", &[], payload(&["plan"]), "Search over the plan.";

    Trigger "trigger" WORKFLOW, TEXT, EQ_NE, "", &[], payload(&["trigger"]), "What sets it off.";
    Steps "steps" WORKFLOW, SEARCH, EQ, "", &[], payload(&["steps"]), "Search over the steps.";

    ToolName "tool_name" ACTION, TEXT, EQ_NE_IN, "", &[], payload(&["tool_name"]), "The tool.";
    ActionPhase "action_phase" ACTION, FieldKind::Choice(Code::E062), EQ, "", &["definition", "call", "result", "complete"], payload(&["action_phase"]), "Which \
        part of a tool's use it is; complete unless stated.";
    IsError "is_error" ACTION, FieldKind::Boolean, EQ, "", &[], payload(&["is_error"]), "The tool \
        failed.";
    ToolCallId "tool_call_id" ACTION, TEXT, EQ, "", &[], payload(&["tool_call_id"]), "What joins \
        call and result.";

    ObserverId "observer_id" OBSERVATION, TEXT, EQ_NE, "", &[], payload(&["observer_id"]), "Who or \
        what perceived it.";
    ObserverType "observer_type" OBSERVATION, TEXT, EQ_NE, "", &[], payload(&["observer_type"]), "What \
        kind of observer that is.";

    GoalState "goal_state" GOAL, FieldKind::Choice(Code::E063), EQ_NE, "", GOAL_STATES, payload(&["goal_state"]), "How \
        far it is.";
    AssignedAgent "assigned_agent" GOAL, TEXT, EQ_NE, "", &[], payload(&["assigned_agent"]), "Who \
        works on it.";
    Deadline "deadline" GOAL, FieldKind::Time, TIMES, "", &[], payload(&["deadline"]), "When it is \
        due.";
    DependsOn "depends_on" GOAL, TEXT, EQ_IN, "", &[], payload(&["depends_on"]), "A goal that must \
        come first; matches any of them.";

    ReasoningType "reasoning_type" REASONING, TEXT, EQ, "", &["deductive", "inductive", "abductive", "analogical"], payload(&["inference_method"]), "How \
        it was concluded.";
    Premises "premises" REASONING, SEARCH, EQ, "", &[], payload(&["premises"]), "Search over the \
        premises.";
    Conclusion "conclusion" REASONING, TEXT, EQ_NE, "", &[], payload(&["conclusion"]), "What was \
        concluded.";

    Threshold "threshold" CONSENSUS, FieldKind::Number, COUNTS, "", &[], payload(&["threshold"]), "How \
        many must agree.";
    AgreementCount "agreement_count" CONSENSUS, FieldKind::Number, COUNTS, "", &[], payload(&["agreement_count"]), "How \
        many agree.";
    ParticipatingObservers "participating_observers" CONSENSUS, FieldKind::Items, INCLUDES, "", &[], payload(&["participating_observers"]), "Who \
        took part.";

    ConsentAction "consent_action" CONSENT, FieldKind::Choice(Code::E064), EQ, "", &["grant", "withdraw"], payload(&["is_withdrawal"]), "Given \
        or taken back: withdraw where is_withdrawal is true.";
    Purpose "purpose" CONSENT, TEXT, EQ_NE, "", &[], payload(&["purpose", "context.purpose", "scope"]), "What \
        it is for; else its scope joined by \", \".";
    GrantorDid "grantor_did" CONSENT, TEXT, EQ, "", &[], payload(&["subject_did"]), "Who gives it.";
    GranteeDid "grantee_did" CONSENT, TEXT, EQ, "", &[], payload(&["grantee_did"]), "Who gets it.";
    Scope "scope" CONSENT, TEXT, EQ, "", &[], payload(&["scope"]), "What it covers; matches any of \
        them.";
    ExpiresAt "expires_at" CONSENT, FieldKind::Time, TIMES, "", &[], payload(&["valid_to"]), "When \
        it ends.";
}

impl KnownField {
    /// Returns the definition.
    pub const fn spec(self) -> &'static FieldSpec {
        &FIELDS[self as usize]
    }

    /// Returns the name in queries.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }
}

/// Returns the fields that a RECALL of `grain_type` may use: those of all types, then those of the
/// type.
pub fn available(grain_type: Option<GrainType>) -> impl Iterator<Item = &'static FieldSpec> {
    FIELDS
        .iter()
        .filter(move |spec| spec.owner.is_none() || spec.owner == grain_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_counts_of_the_specification() {
        let counts: Vec<usize> = GrainType::ALL
            .into_iter()
            .map(|one| available(Some(one)).count())
            .collect();
        assert_eq!(counts, [18, 23, 20, 20, 22, 20, 22, 21, 21, 24]);
        assert_eq!(available(None).count(), 18);
    }

    #[test]
    fn every_field_has_a_unique_name_and_its_own_row() {
        for (row, spec) in FIELDS.iter().enumerate() {
            assert_eq!(spec.field as usize, row);
            assert_eq!(KnownField::from_name(spec.name), Some(spec.field));
            assert_eq!(spec.field.spec().name, spec.name);
            assert!(spec.operators.iter().next().is_some(), "{}", spec.name);
        }
        assert_eq!(KnownField::from_name("Subject"), None);
    }

    #[test]
    fn flags_are_those_of_appendix_e() {
        let with = |test: fn(&FieldSpec) -> bool| -> Vec<_> {
            FIELDS
                .iter()
                .filter(|spec| test(spec))
                .map(|spec| spec.name)
                .collect()
        };
        assert_eq!(
            with(|spec| spec.sortable),
            [
                "subject",
                "relation",
                "object",
                "confidence",
                "importance",
                "score",
                "time",
                "verification_status",
                "source_type"
            ]
        );
        assert_eq!(
            with(|spec| spec.groupable),
            [
                "subject",
                "relation",
                "object",
                "user_id",
                "type",
                "verification_status",
                "source_type"
            ]
        );
        assert_eq!(with(|spec| spec.projectable).len(), 14);
    }

    #[test]
    fn domain_fields_support_all_operators_except_is() {
        assert!(
            Operator::ALL
                .iter()
                .all(|&one| DOMAIN_OPERATORS.contains(one) == (one != Operator::Is))
        );
    }
}

//! The closed set of template variables (CAL 1.0, section 10.5).

use crate::cal::vocabulary::vocabulary;

vocabulary! {
    /// A variable of a template.
    pub enum Variable {
        /// Name of the context.
        AssemblyName = "assembly.name",
        /// The FOR text.
        AssemblyIntent = "assembly.intent",
        /// Number of sources.
        AssemblySourceCount = "assembly.source_count",
        /// Number of grains shown.
        AssemblyGrainCount = "assembly.grain_count",
        /// The budget.
        BudgetTotal = "budget.total",
        /// Used part of the budget.
        BudgetUsed = "budget.used",
        /// Remaining part of the budget.
        BudgetRemaining = "budget.remaining",
        /// Tokens or grains.
        BudgetUnit = "budget.unit",
        /// Used fraction of the budget, 0 to 1.
        BudgetUtilization = "budget.utilization",
        /// The disclosure level.
        DisclosureLevel = "disclosure.level",
        /// Time of the assembly.
        Timestamp = "timestamp",
        /// The label of the source.
        SourceLabel = "source.label",
        /// Index of the source in FROM, from 0.
        SourceIndex = "source.index",
        /// Rank of the source by priority, from 1.
        SourcePriority = "source.priority",
        /// Number of its grains shown.
        SourceGrainCount = "source.grain_count",
        /// Tokens of these grains.
        SourceTokensUsed = "source.tokens_used",
        /// Whether the budget cut grains.
        SourceTruncated = "source.truncated",
        /// The projected text.
        GrainContent = "grain.content",
        /// The grain type.
        GrainType = "grain.type",
        /// The subject.
        GrainSubject = "grain.subject",
        /// The stored relation.
        GrainRelation = "grain.relation",
        /// The relation in words.
        GrainHumanizedRelation = "grain.humanized_relation",
        /// The object.
        GrainObject = "grain.object",
        /// The confidence.
        GrainConfidence = "grain.confidence",
        /// The importance.
        GrainImportance = "grain.importance",
        /// The tags, joined by commas.
        GrainTags = "grain.tags",
        /// Creation time, ISO 8601.
        GrainCreatedAt = "grain.created_at",
        /// Age.
        GrainRelativeTime = "grain.relative_time",
        /// Relevance to the search.
        GrainScore = "grain.score",
        /// Content address.
        GrainHash = "grain.hash",
        /// True at full disclosure.
        GrainIsFull = "grain.is_full",
        /// True at summary disclosure.
        GrainIsSummary = "grain.is_summary",
    }
}

impl Variable {
    /// Returns the variable with this name. The match is case-sensitive.
    pub fn of(name: &str) -> Option<Variable> {
        Variable::from_name(name).filter(|variable| variable.name() == name)
    }
}

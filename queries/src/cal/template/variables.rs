//! The closed set of template variables (CAL 1.0, section 10.5).

use crate::cal::vocabulary::vocabulary;

vocabulary! {
    /// A variable of a template.
    pub enum Variable {
        /// Name of the context.
        AssemblyName = "assembly.name",
        /// The FOR text.
        AssemblyIntent = "assembly.intent",
        /// How many sources there are.
        AssemblySourceCount = "assembly.source_count",
        /// How many grains are shown.
        AssemblyGrainCount = "assembly.grain_count",
        /// The budget.
        BudgetTotal = "budget.total",
        /// How much of it is used.
        BudgetUsed = "budget.used",
        /// How much of it is left.
        BudgetRemaining = "budget.remaining",
        /// Tokens or grains.
        BudgetUnit = "budget.unit",
        /// Used by total, 0 to 1.
        BudgetUtilization = "budget.utilization",
        /// The disclosure level.
        DisclosureLevel = "disclosure.level",
        /// When the context was put together.
        Timestamp = "timestamp",
        /// The label of the source.
        SourceLabel = "source.label",
        /// Its place in FROM, from 0.
        SourceIndex = "source.index",
        /// Its rank in priority order, from 1.
        SourcePriority = "source.priority",
        /// How many of its grains are shown.
        SourceGrainCount = "source.grain_count",
        /// How many tokens they cost.
        SourceTokensUsed = "source.tokens_used",
        /// Grains were cut for the budget.
        SourceTruncated = "source.truncated",
        /// The projected text.
        GrainContent = "grain.content",
        /// The grain type.
        GrainType = "grain.type",
        /// The subject.
        GrainSubject = "grain.subject",
        /// The relation as it is stored.
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
        /// When it was recorded, ISO 8601.
        GrainCreatedAt = "grain.created_at",
        /// How long ago that is.
        GrainRelativeTime = "grain.relative_time",
        /// How well it fits the search.
        GrainScore = "grain.score",
        /// Its address.
        GrainHash = "grain.hash",
        /// True at full disclosure.
        GrainIsFull = "grain.is_full",
        /// True at summary disclosure.
        GrainIsSummary = "grain.is_summary",
    }
}

impl Variable {
    /// The variable called `name`, spelled exactly.
    pub fn of(name: &str) -> Option<Variable> {
        Variable::from_name(name).filter(|variable| variable.name() == name)
    }
}

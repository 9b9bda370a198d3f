//! The closed word lists of CAL, each an enum with the spelling of its members: one definition for
//! the lexer, the parser, the printers, completion and DESCRIBE.

/// Defines an enum whose members have one spelling each.
macro_rules! vocabulary {
    (
        $(#[$doc:meta])*
        pub enum $name:ident { $($(#[$member_doc:meta])* $member:ident = $text:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$member_doc])* $member,)+
        }

        impl $name {
            /// All members, in the order of the specification.
            pub const ALL: &'static [$name] = &[$($name::$member,)+];
            /// The spellings of all members, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($text,)+];

            /// Returns the canonical spelling.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$member => $text,)+
                }
            }

            /// Returns the member with this spelling, case-insensitively.
            pub fn from_name(text: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|member| member.name().eq_ignore_ascii_case(text))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }
    };
}

pub(crate) use vocabulary;

vocabulary! {
    /// An output format (CAL 1.0, section 10.1).
    pub enum Format {
        /// Headings and lists for people.
        Markdown = "markdown",
        /// An array of objects.
        Json = "json",
        /// The same list as YAML.
        Yaml = "yaml",
        /// One plain line per grain.
        Text = "text",
        /// Flat tags for language models.
        Sml = "sml",
        /// Subject, relation and object between tabs.
        Triples = "triples",
        /// Tables of one header and one row per grain.
        Toon = "toon",
    }
}

vocabulary! {
    /// A format of ASSEMBLE named after the purpose of the output (CAL 1.0, section 10.1).
    pub enum Preset {
        /// Same as `sml`.
        Structured = "structured",
        /// Same as `markdown`.
        Readable = "readable",
        /// Same as `text`.
        Compact = "compact",
        /// Same as `json`.
        Data = "data",
    }
}

impl Preset {
    /// Returns the format of the preset.
    pub const fn format(self) -> Format {
        match self {
            Preset::Structured => Format::Sml,
            Preset::Readable => Format::Markdown,
            Preset::Compact => Format::Text,
            Preset::Data => Format::Json,
        }
    }
}

vocabulary! {
    /// The unit of a BUDGET.
    pub enum BudgetUnit {
        /// Estimated tokens of the rendered grains.
        Tokens = "tokens",
        /// Grains.
        Grains = "grains",
    }
}

vocabulary! {
    /// A kind of event in STREAM (CAL 1.0, section 11.2).
    pub enum StreamEvent {
        /// Start, sources and end.
        Progress = "progress",
        /// Deduplication, allocation and disclosure.
        Budget = "budget",
        /// The formatted output in pieces.
        Chunks = "chunks",
        /// All of them.
        All = "all",
    }
}

vocabulary! {
    /// A subject of DESCRIBE (CAL 1.0, section 8.6).
    pub enum DescribeTarget {
        /// The grain types.
        GrainTypes = "grain_types",
        /// The fields of all grains or of one type.
        Fields = "fields",
        /// The capabilities of this engine.
        Capabilities = "capabilities",
        /// Name and version of this engine.
        Server = "server",
        /// The templates of the namespace.
        Templates = "templates",
        /// The grammar.
        Grammar = "grammar",
    }
}

vocabulary! {
    /// The level of detail of a rendered grain (CAL 1.0, section 14.3).
    pub enum DisclosureLevel {
        /// The required parts only.
        Summary = "summary",
        /// The name of `standard` in the grammar.
        Headlines = "headlines",
        /// Also the attributes that are relevant for decisions.
        Standard = "standard",
        /// All parts that may be shown.
        Full = "full",
    }
}

vocabulary! {
    /// A set operation.
    pub enum SetOperator {
        /// In either operand.
        Union = "UNION",
        /// In both operands.
        Intersect = "INTERSECT",
        /// Only in the left operand.
        Except = "EXCEPT",
    }
}

vocabulary! {
    /// A stage that converts grains to a list of values.
    pub enum Extractor {
        /// The distinct subjects.
        Subjects = "SUBJECTS",
        /// The distinct objects.
        Objects = "OBJECTS",
        /// The addresses.
        Hashes = "HASHES",
    }
}

vocabulary! {
    /// A sort order.
    pub enum Direction {
        /// Smallest first.
        Ascending = "ASC",
        /// Largest first.
        Descending = "DESC",
    }
}

vocabulary! {
    /// A section of a template (CAL 1.0, section 10.6).
    pub enum SectionName {
        /// Once, before all.
        Header = "HEADER",
        /// Once per grain.
        Element = "ELEMENT",
        /// Once per grain at the summary level.
        ElementSummary = "ELEMENT_SUMMARY",
        /// Once per grain that the budget cut.
        ElementOmit = "ELEMENT_OMIT",
        /// Between two sources that have grains.
        SourceBreak = "SOURCE_BREAK",
        /// Once, after all grains.
        Footer = "FOOTER",
    }
}

vocabulary! {
    /// The name of a WITH option, except for extension options (`x_…`).
    pub enum OptionName {
        /// Also superseded versions.
        Superseded = "superseded",
        /// The composition of the score.
        ScoreBreakdown = "score_breakdown",
        /// The conditions that a grain matched.
        Explanation = "explanation",
        /// The origin of a grain.
        Provenance = "provenance",
        /// Contradictions of the grains.
        ContradictionDetection = "contradiction_detection",
        /// A summary of the result.
        Summarize = "summarize",
        /// The level of detail of rendered grains.
        ProgressiveDisclosure = "progressive_disclosure",
        /// Diverse results.
        Diversity = "diversity",
        /// The freshness of the answer.
        Consistency = "consistency",
        /// One grain per value of a field.
        Dedup = "dedup",
        /// Sort order of a language.
        Locale = "locale",
        /// The cache lifetime of an answer.
        Cache = "cache",
        /// Absolute times instead of "2d ago".
        IsoTimestamps = "iso_timestamps",
    }
}

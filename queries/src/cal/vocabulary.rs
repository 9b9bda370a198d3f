//! The closed word lists of CAL, each an enum with the spelling of its members: one definition for
//! the lexer, the parser, the printers, completion and DESCRIBE.

/// Defines an enum whose members have one spelling each.
macro_rules! vocabulary {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$member_doc:meta])* $member:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$member_doc])* $member,)+
        }

        impl $name {
            /// Every member, in the order of the specification.
            pub const ALL: &'static [$name] = &[$($name::$member,)+];
            /// The spelling of every member, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($text,)+];

            /// The canonical spelling.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$member => $text,)+
                }
            }

            /// The member spelled `text`, whatever its case.
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
    /// A named format of ASSEMBLE that says what the output is for (CAL 1.0, section 10.1).
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
    /// The format that the preset stands for.
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
    /// What a BUDGET counts.
    pub enum BudgetUnit {
        /// Estimated tokens of the rendered grains.
        Tokens = "tokens",
        /// Grains.
        Grains = "grains",
    }
}

vocabulary! {
    /// A kind of event that STREAM asks for (CAL 1.0, section 11.2).
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
    /// What DESCRIBE describes (CAL 1.0, section 8.6).
    pub enum DescribeTarget {
        /// The grain types.
        GrainTypes = "grain_types",
        /// The fields of all grains or of one type.
        Fields = "fields",
        /// What this engine can do.
        Capabilities = "capabilities",
        /// Which engine this is.
        Server = "server",
        /// The templates of the namespace.
        Templates = "templates",
        /// The grammar.
        Grammar = "grammar",
    }
}

vocabulary! {
    /// How much a rendered grain tells (CAL 1.0, section 14.3).
    pub enum DisclosureLevel {
        /// Only what can't be left out.
        Summary = "summary",
        /// The grammar's word for `standard`.
        Headlines = "headlines",
        /// The attributes that help to decide.
        Standard = "standard",
        /// Everything that may be shown.
        Full = "full",
    }
}

vocabulary! {
    /// A set operation.
    pub enum SetOperator {
        /// In either.
        Union = "UNION",
        /// In both.
        Intersect = "INTERSECT",
        /// In the left one only.
        Except = "EXCEPT",
    }
}

vocabulary! {
    /// A stage that makes a list of values out of grains.
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
        /// Once, behind all.
        Footer = "FOOTER",
    }
}

vocabulary! {
    /// The name of a WITH option; extension options (`x_…`) are not among them.
    pub enum OptionName {
        /// Superseded versions too.
        Superseded = "superseded",
        /// How the score came about.
        ScoreBreakdown = "score_breakdown",
        /// Why a grain was found.
        Explanation = "explanation",
        /// Where a grain comes from.
        Provenance = "provenance",
        /// Contradictions told with the grains.
        ContradictionDetection = "contradiction_detection",
        /// A summary of the result.
        Summarize = "summarize",
        /// How much rendered grains tell.
        ProgressiveDisclosure = "progressive_disclosure",
        /// Results that differ from one another.
        Diversity = "diversity",
        /// How fresh the answer must be.
        Consistency = "consistency",
        /// One grain per value of a field.
        Dedup = "dedup",
        /// Sort order of a language.
        Locale = "locale",
        /// How long an answer may be kept.
        Cache = "cache",
        /// Times in full instead of "2d ago".
        IsoTimestamps = "iso_timestamps",
    }
}

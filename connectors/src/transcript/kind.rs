//! The kinds of transcripts: their names, their codes in a lake's log, and what they are.

/// Declares the kinds, each with its code, its name and its description.
macro_rules! kinds {
    ($($variant:ident $code:literal $name:literal $description:literal;)*) => {
        /// A kind of transcript.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum TranscriptKind {
            $(#[doc = concat!($description, ".")] $variant,)*
        }

        impl TranscriptKind {
            /// All kinds.
            pub const ALL: &[TranscriptKind] = &[$(TranscriptKind::$variant),*];

            /// Returns the name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(TranscriptKind::$variant => $name,)* }
            }

            /// Returns the code in a lake's log. A code never changes and is never reused.
            pub const fn code(self) -> u8 {
                match self { $(TranscriptKind::$variant => $code,)* }
            }

            /// Returns a description for users.
            pub const fn description(self) -> &'static str {
                match self { $(TranscriptKind::$variant => $description,)* }
            }
        }
    };
}

kinds! {
    Exchanges 16 "exchanges" "Recorded requests and responses of model providers, one pair per line";
    Batch 17 "batch" "Input and output files of batch endpoints";
    Bodies 18 "bodies" "Bodies of requests or responses, one per line or one per file";
    Har 19 "har" "HTTP archives of browsers and proxies";
    Cassette 20 "cassette" "Cassettes of HTTP recorders of test suites, as JSON or YAML";
    ClaudeCode 21 "claude-code" "Sessions of Claude Code";
    Codex 22 "codex" "Sessions of Codex";
    Mcp 23 "mcp" "Captures of the Model Context Protocol: JSON-RPC messages, bare, wrapped or as \
                  exchanges";
    Messages 24 "messages" "Canonical messages, one per line";
    Cmf 25 "cmf" "CMF messages with their extensions, one per line";
    GrainLines 26 "grains" "Grains as JSON, one per line";
    Sqlite 27 "sqlite" "SQLite databases: canonical sessions, the history of mem0, the store and \
                        checkpoints of LangGraph";
    Mem0 28 "mem0" "Memories and their history, as returned by mem0";
    Letta 29 "letta" "Agent files of Letta: memory blocks and messages";
    Zep 30 "zep" "Facts of a Graphiti graph, and threads of Zep";
    LangGraph 31 "langgraph" "Items of a LangGraph store, and snapshots of its threads";
}

impl TranscriptKind {
    /// Returns the kind with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Returns true for traffic of providers, whose requests resend earlier messages.
    pub const fn is_traffic(self) -> bool {
        use TranscriptKind::{Batch, Bodies, Cassette, Exchanges, Har};
        matches!(self, Exchanges | Batch | Bodies | Har | Cassette)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        for kind in TranscriptKind::ALL {
            assert_eq!(TranscriptKind::from_name(kind.name()), Some(*kind));
        }
    }
}

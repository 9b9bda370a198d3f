//! The closed sets of names that the format has, each one declaration (§2.1–2.3, §3.6.1, §3.8,
//! §4.3).

/// Declares an enumeration together with its wire names.
macro_rules! vocabulary {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )* }

        impl $name {
            /// All values, in the order in which the specification lists them.
            pub const ALL: &'static [$name] = &[$( $name::$variant ),*];
            /// Their wire names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$( $text ),*];

            /// The wire name.
            pub const fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $text, )* }
            }

            /// The value that `name` stands for, spelled exactly.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $( $text => Some($name::$variant), )* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl $crate::cmf::record::Read for $name {
            const EXPECTED: &'static str = "string";

            fn read(
                json: &$crate::json::Json,
                place: &$crate::cmf::error::Place,
            ) -> Result<Self, $crate::cmf::CmfError> {
                let name = json.as_str().ok_or_else(|| $crate::cmf::record::wrong_type::<Self>(json, place))?;
                Self::from_name(name).ok_or_else(|| $crate::cmf::CmfError::UnknownName {
                    path: place.path(),
                    expected: Self::NAMES,
                    found: $crate::cmf::error::quoted(name),
                })
            }
        }

        impl $crate::cmf::record::Write for $name {
            fn write(&self) -> $crate::json::Json<'static> {
                $crate::json::Json::from(self.as_str())
            }
        }
    };
}

pub(super) use vocabulary;

vocabulary! {
    /// Who speaks (§2.1).
    pub enum Role {
        /// Instructions of the system.
        System = "system",
        /// Instructions of the developer.
        Developer = "developer",
        /// A person.
        User = "user",
        /// A language model or agent.
        Assistant = "assistant",
        /// The outcome of a tool.
        Tool = "tool",
    }
}

vocabulary! {
    /// What kind of output a message is (§2.3).
    pub enum Channel {
        /// Reasoning on the way, not the answer.
        Analysis = "analysis",
        /// Remarks about the task.
        Commentary = "commentary",
        /// The answer for the consumer.
        Final = "final",
    }
}

vocabulary! {
    /// What a content part holds (§2.2); a view over the part has the same kind (§4.3).
    pub enum ContentType {
        /// Plain text.
        Text = "text",
        /// Reasoning.
        Thinking = "thinking",
        /// A call of a tool.
        ToolCall = "tool_call",
        /// What a tool gave.
        ToolResult = "tool_result",
        /// A resource with its content.
        Resource = "resource",
        /// A resource without its content.
        ResourceRef = "resource_ref",
        /// A request to render a prompt template.
        PromptRequest = "prompt_request",
        /// A rendered prompt template.
        PromptResult = "prompt_result",
        /// A picture.
        Image = "image",
        /// A moving picture.
        Video = "video",
        /// Sound.
        Audio = "audio",
        /// A document such as a PDF.
        Document = "document",
    }
}

vocabulary! {
    /// What a resource is (§2.2).
    pub enum ResourceType {
        /// A file.
        File = "file",
        /// A large binary object.
        Blob = "blob",
        /// Anything with a URI.
        Uri = "uri",
        /// An entity of a database.
        Database = "database",
        /// An endpoint.
        Api = "api",
        /// Something held in memory.
        Memory = "memory",
        /// Something that was produced.
        Artifact = "artifact",
    }
}

vocabulary! {
    /// How a media part carries its data (§2.2).
    pub enum SourceType {
        /// By address.
        Url = "url",
        /// As base64 text.
        Base64 = "base64",
    }
}

vocabulary! {
    /// What kind of entity asks (§3.6.1).
    pub enum SubjectType {
        /// A person.
        User = "user",
        /// An autonomous agent.
        Agent = "agent",
        /// A backend service.
        Service = "service",
        /// The system itself.
        System = "system",
    }
}

vocabulary! {
    /// Why a language model stopped (§3.8).
    pub enum StopReason {
        /// It was done.
        End = "end",
        /// It returned a structured result.
        Return = "return",
        /// It calls a tool.
        Call = "call",
        /// It ran into its limit of tokens.
        MaxTokens = "max_tokens",
        /// It met a stop sequence.
        StopSequence = "stop_sequence",
    }
}

vocabulary! {
    /// What a view means to do (§4.3). `write` is part of the set although no kind of content gives
    /// it.
    pub enum ViewAction {
        /// Reads a resource.
        Read = "read",
        /// Writes a resource.
        Write = "write",
        /// Runs a tool.
        Execute = "execute",
        /// Renders a prompt template.
        Invoke = "invoke",
        /// Sends something to a model.
        Send = "send",
        /// Takes in what a tool or template gave.
        Receive = "receive",
        /// Is generated by a model.
        Generate = "generate",
    }
}

vocabulary! {
    /// The places of a pipeline at which messages are evaluated. Views carry any text as hook;
    /// these are the known ones.
    pub enum MessageHook {
        /// Nowhere in particular.
        Evaluate = "evaluate",
        /// Before a model is asked.
        LlmInput = "llm_input",
        /// After a model answered.
        LlmOutput = "llm_output",
        /// Before a tool runs.
        ToolPreInvoke = "tool_pre_invoke",
        /// After a tool ran.
        ToolPostInvoke = "tool_post_invoke",
        /// Before a prompt template is rendered.
        PromptPreFetch = "prompt_pre_fetch",
        /// After a prompt template was rendered.
        PromptPostFetch = "prompt_post_fetch",
        /// Before a resource is fetched.
        ResourcePreFetch = "resource_pre_fetch",
        /// After a resource was fetched.
        ResourcePostFetch = "resource_post_fetch",
    }
}

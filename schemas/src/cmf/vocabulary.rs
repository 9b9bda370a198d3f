//! The closed sets of names in the format (§2.1–2.3, §3.6.1, §3.8, §4.3).

/// Declares an enum with its wire names.
macro_rules! vocabulary {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )* }

        impl $name {
            /// All values in the order of the specification.
            pub const ALL: &'static [$name] = &[$( $name::$variant ),*];
            /// The wire names in the same order.
            pub const NAMES: &'static [&'static str] = &[$( $text ),*];

            /// Returns the wire name.
            pub const fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $text, )* }
            }

            /// Returns the value with the given name; case-sensitive.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $( $text => Some($name::$variant), )* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl $crate::cmf::json_record::FromJson for $name {
            const EXPECTED: &'static str = "string";

            fn read(
                json: &$crate::json::Json,
                place: &$crate::cmf::error::JsonPath,
            ) -> Result<Self, $crate::cmf::CmfError> {
                let name = json
                    .as_str()
                    .ok_or_else(|| $crate::cmf::json_record::wrong_type::<Self>(json, place))?;
                Self::from_name(name).ok_or_else(|| $crate::cmf::CmfError::UnknownName {
                    path: place.path(),
                    expected: Self::NAMES,
                    found: $crate::cmf::error::quoted(name),
                })
            }
        }

        impl $crate::cmf::json_record::ToJson for $name {
            fn write(&self) -> $crate::json::Json<'static> {
                $crate::json::Json::from(self.as_str())
            }
        }
    };
}

pub(super) use vocabulary;

vocabulary! {
    /// The author of a message (§2.1).
    pub enum CmfRole {
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
    /// The kind of output of a message (§2.3).
    pub enum Channel {
        /// Reasoning, not the answer.
        Analysis = "analysis",
        /// Remarks about the task.
        Commentary = "commentary",
        /// The answer for the consumer.
        Final = "final",
    }
}

vocabulary! {
    /// The kind of a content part (§2.2), also of the view of the part (§4.3).
    pub enum ContentType {
        /// Plain text.
        Text = "text",
        /// Reasoning.
        Thinking = "thinking",
        /// A tool call.
        ToolCall = "tool_call",
        /// The result of a tool call.
        ToolResult = "tool_result",
        /// A resource with its content.
        Resource = "resource",
        /// A resource without its content.
        ResourceRef = "resource_ref",
        /// A request to render a prompt template.
        PromptRequest = "prompt_request",
        /// A rendered prompt template.
        PromptResult = "prompt_result",
        /// An image.
        Image = "image",
        /// A video.
        Video = "video",
        /// Audio.
        Audio = "audio",
        /// A document such as a PDF.
        Document = "document",
    }
}

vocabulary! {
    /// The type of a resource (§2.2).
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
        /// An object in memory.
        Memory = "memory",
        /// A generated artifact.
        Artifact = "artifact",
    }
}

vocabulary! {
    /// How a media part holds its data (§2.2).
    pub enum SourceType {
        /// By URL.
        Url = "url",
        /// As base64 text.
        Base64 = "base64",
    }
}

vocabulary! {
    /// The type of the subject (§3.6.1).
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
    /// The reason for the end of an answer (§3.8).
    pub enum CmfStopReason {
        /// The model finished.
        End = "end",
        /// The model returned a structured result.
        Return = "return",
        /// The model calls a tool.
        Call = "call",
        /// The token limit was reached.
        MaxTokens = "max_tokens",
        /// A stop sequence was generated.
        StopSequence = "stop_sequence",
    }
}

vocabulary! {
    /// The action of a view (§4.3). `write` is in the set although no kind of content yields it.
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
        /// Receives the output of a tool or template.
        Receive = "receive",
        /// Is generated by a model.
        Generate = "generate",
    }
}

vocabulary! {
    /// The known hooks of a pipeline at which messages are evaluated. Views accept any text as
    /// hook.
    pub enum MessageHook {
        /// No particular hook.
        Evaluate = "evaluate",
        /// Before a model is called.
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

//! Requests to models and their responses (§8.1).

use std::borrow::Cow;

use super::tool::ToolDefinition;
use super::{Message, MessageStatus, Timestamp, Usage};
use crate::json::{Json, Number, Object};

/// A request to a model, independent of the provider.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request<'a> {
    /// The model, `provider:name`, or the name that the client used.
    pub model: Option<Cow<'a, str>>,
    /// The conversation, system messages included.
    pub messages: Vec<Message<'a>>,
    /// Instructions that are constant across turns, before those of system messages.
    pub system_prompt: Option<Cow<'a, str>>,
    /// Instructions that change from turn to turn, after all others.
    pub system_prompt_volatile: Option<Cow<'a, str>>,
    /// The tools that the model may call.
    pub tools: Vec<RequestTool<'a>>,
    /// The maximum number of output tokens.
    pub max_output_tokens: Option<u64>,
    /// Texts that end the generation.
    pub stop_sequences: Vec<Cow<'a, str>>,
    /// The temperature, with its spelling.
    pub temperature: Option<Number<'a>>,
    /// The schema that the output must match.
    pub output_schema: Option<Json<'a>>,
    /// True if the answer is to be streamed.
    pub stream: bool,
    /// Data that the adapter needs to restore the exact request, in addition to the messages.
    pub provider_raw: Option<Object<'a>>,
}

/// A tool in a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestTool<'a> {
    /// A tool that the client runs.
    Defined(ToolDefinition<'a>),
    /// A tool of a provider, such as its web search.
    Wire {
        /// The adapter.
        adapter: Cow<'a, str>,
        /// The tool, unchanged.
        json: Json<'a>,
    },
}

impl Request<'_> {
    /// Returns the text of all constant instructions: the prompt, then all system messages in
    /// order, without empty ones, joined by blank lines.
    pub fn stable_system_text(&self) -> String {
        let prompt = self.system_prompt.as_deref().into_iter();
        let system = self
            .messages
            .iter()
            .filter(|message| message.role == super::Role::System);
        let texts = system
            .flat_map(|message| &message.content)
            .filter_map(|block| block.as_text());
        let parts: Vec<&str> = prompt
            .chain(texts)
            .filter(|text| !text.is_empty())
            .collect();
        parts.join("\n\n")
    }
}

/// A response of a model, independent of the provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Response<'a> {
    /// The provider's id of the response.
    pub id: Option<Cow<'a, str>>,
    /// The time of creation according to the provider.
    pub created_at: Option<Timestamp>,
    /// The provider's name of the model.
    pub model: Option<Cow<'a, str>>,
    /// The answers. The first is the primary one, others are alternatives.
    pub choices: Vec<Choice<'a>>,
    /// The tokens used, if the provider reports them.
    pub usage: Option<TokenUsage>,
    /// Data that the adapter needs to restore the exact response, in addition to the messages.
    pub provider_raw: Option<Object<'a>>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice<'a> {
    /// The message.
    pub message: Message<'a>,
    /// The reason for its end, if the provider reports one.
    pub stop_reason: Option<StopReason>,
}

impl Choice<'_> {
    /// Returns the reason for the end of the answer. A complete answer with no reason, or one of an
    /// unknown kind, ended its turn (§9.2, §9.3).
    pub fn reason(&self) -> StopReason {
        self.stop_reason
            .unwrap_or(match self.message.metadata.status {
                MessageStatus::Complete => StopReason::EndTurn,
                MessageStatus::Cancelled => StopReason::Cancelled,
                MessageStatus::Partial | MessageStatus::Error => StopReason::Error,
            })
    }
}

impl<'a> Response<'a> {
    /// Returns the primary answer.
    pub fn message(&self) -> Option<&Message<'a>> {
        self.choices.first().map(|choice| &choice.message)
    }
}

/// The reason for the end of an answer (§8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The model finished.
    EndTurn,
    /// The token limit was reached.
    MaxTokens,
    /// A stop sequence was generated.
    StopSequence,
    /// The model calls a tool.
    ToolUse,
    /// The user cancelled the answer.
    Cancelled,
    /// Generation failed.
    Error,
}

impl StopReason {
    const ALL: [StopReason; 6] = [
        StopReason::EndTurn,
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::ToolUse,
        StopReason::Cancelled,
        StopReason::Error,
    ];

    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::MaxTokens => "max_tokens",
            StopReason::StopSequence => "stop_sequence",
            StopReason::ToolUse => "tool_use",
            StopReason::Cancelled => "cancelled",
            StopReason::Error => "error",
        }
    }

    /// Returns the reason with the given name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// The tokens of a request. The three input counts are disjoint and sum to the prompt (§4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TokenUsage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens read from a cache.
    pub cached_input_tokens: u64,
    /// Input tokens written to a cache.
    pub cache_creation_input_tokens: u64,
}

impl TokenUsage {
    /// Returns the counts of a usage record.
    pub fn of(usage: &Usage) -> Self {
        TokenUsage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_input_tokens: usage.cached_input_tokens,
            cache_creation_input_tokens: usage.cache_creation_input_tokens,
        }
    }

    /// Returns the number of prompt tokens; saturates.
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cached_input_tokens)
            .saturating_add(self.cache_creation_input_tokens)
    }

    /// Returns the four counts as JSON.
    pub fn to_json(&self) -> Json<'static> {
        let counts = [
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
            ("cached_input_tokens", self.cached_input_tokens),
            (
                "cache_creation_input_tokens",
                self.cache_creation_input_tokens,
            ),
        ];
        Json::Object(counts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    #[test]
    fn only_a_complete_answer_without_reason_ended_its_turn() {
        for (status, reported, reason) in [
            (MessageStatus::Complete, None, StopReason::EndTurn),
            (
                MessageStatus::Complete,
                Some(StopReason::MaxTokens),
                StopReason::MaxTokens,
            ),
            (MessageStatus::Partial, None, StopReason::Error),
            (
                MessageStatus::Partial,
                Some(StopReason::ToolUse),
                StopReason::ToolUse,
            ),
            (MessageStatus::Error, None, StopReason::Error),
            (MessageStatus::Cancelled, None, StopReason::Cancelled),
        ] {
            let mut message = Message::new(
                "m",
                "s",
                Role::Assistant,
                Vec::new(),
                Timestamp::from_micros(0),
            );
            message.metadata.status = status;
            assert_eq!(
                Choice {
                    message,
                    stop_reason: reported
                }
                .reason(),
                reason
            );
        }
    }
}

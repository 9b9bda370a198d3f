//! What goes to a model and what comes back (§8.1).

use std::borrow::Cow;

use super::tool::ToolDefinition;
use super::{Message, MessageStatus, Timestamp, Usage};
use crate::json::{Json, Number, Object};

/// One call of a model, in no provider's form.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request<'a> {
    /// The model, `provider:name`, or as the client called it.
    pub model: Option<Cow<'a, str>>,
    /// The conversation, system messages included.
    pub messages: Vec<Message<'a>>,
    /// Instructions that stay the same from turn to turn, before those of system messages.
    pub system_prompt: Option<Cow<'a, str>>,
    /// Instructions that change from turn to turn, after all others.
    pub system_prompt_volatile: Option<Cow<'a, str>>,
    /// The tools that the model may call.
    pub tools: Vec<RequestTool<'a>>,
    /// At most so many tokens of output.
    pub max_output_tokens: Option<u64>,
    /// Texts at which to stop.
    pub stop_sequences: Vec<Cow<'a, str>>,
    /// The temperature, as it was written.
    pub temperature: Option<Number<'a>>,
    /// The schema that the output must match.
    pub output_schema: Option<Json<'a>>,
    /// True if the answer shall come piece by piece.
    pub stream: bool,
    /// What the adapter that read the request needs to write it again to the letter, beside what
    /// the messages hold of it.
    pub provider_raw: Option<Object<'a>>,
}

/// A tool in a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestTool<'a> {
    /// One that the client runs.
    Defined(ToolDefinition<'a>),
    /// One that only a provider knows, such as its own web search.
    Wire {
        /// The adapter whose it is.
        adapter: Cow<'a, str>,
        /// The tool as it came.
        json: Json<'a>,
    },
}

impl Request<'_> {
    /// The text of all instructions that stay the same: the prompt, then every system message in
    /// its order, what is empty left out, with a blank line between.
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

    /// [`Request::stable_system_text`] and the instructions that change, with a blank line between.
    pub fn system_text(&self) -> String {
        let mut text = self.stable_system_text();
        if let Some(volatile) = self
            .system_prompt_volatile
            .as_deref()
            .filter(|volatile| !volatile.is_empty())
        {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(volatile);
        }
        text
    }
}

/// What a model answered, in no provider's form.
#[derive(Debug, Clone, PartialEq)]
pub struct Response<'a> {
    /// The provider's id of the answer.
    pub id: Option<Cow<'a, str>>,
    /// When the provider says that it was made.
    pub created_at: Option<Timestamp>,
    /// The model as the provider names it.
    pub model: Option<Cow<'a, str>>,
    /// The answers: the first is the one that counts, others are branches beside it.
    pub choices: Vec<Choice<'a>>,
    /// Tokens, if the provider told.
    pub usage: Option<TokenUsage>,
    /// What the adapter that read the response needs to write it again to the letter, beside what
    /// the messages hold of it.
    pub provider_raw: Option<Object<'a>>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice<'a> {
    /// The message.
    pub message: Message<'a>,
    /// Why it ends, if it was told.
    pub stop_reason: Option<StopReason>,
}

impl Choice<'_> {
    /// Why the answer ends. One that is whole and doesn't tell ended its turn, as one does that
    /// tells a reason of no known kind (§9.2, §9.3).
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
    /// The answer that counts.
    pub fn message(&self) -> Option<&Message<'a>> {
        self.choices.first().map(|choice| &choice.message)
    }
}

/// Why an answer ends (§8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The model was done.
    EndTurn,
    /// It had no more tokens.
    MaxTokens,
    /// It came to a text at which to stop.
    StopSequence,
    /// It wants a tool's result.
    ToolUse,
    /// Its reader stopped it.
    Cancelled,
    /// It failed.
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

    /// The reason as it is written.
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

    /// The reason that is written `text`.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// Tokens of one call; the three counts of input are disjoint and sum to the whole prompt (§4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TokenUsage {
    /// Input that no cache has to do with.
    pub input_tokens: u64,
    /// Output.
    pub output_tokens: u64,
    /// Input read from a cache.
    pub cached_input_tokens: u64,
    /// Input written to a cache.
    pub cache_creation_input_tokens: u64,
}

impl TokenUsage {
    /// The counts of a usage record.
    pub fn of(usage: &Usage) -> Self {
        TokenUsage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_input_tokens: usage.cached_input_tokens,
            cache_creation_input_tokens: usage.cache_creation_input_tokens,
        }
    }

    /// The whole prompt; saturates.
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cached_input_tokens)
            .saturating_add(self.cache_creation_input_tokens)
    }

    /// The four counts as JSON.
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
    fn an_answer_that_tells_no_reason_ended_its_turn_only_if_it_is_whole() {
        for (status, told, reason) in [
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
                    stop_reason: told
                }
                .reason(),
                reason
            );
        }
    }
}

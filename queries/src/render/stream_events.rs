//! The events of a streamed assembly (CAL 1.0, section 11).
//!
//! Events are derived from the finished assembly, in causal order; transport and timing are the
//! caller's. A chunk ends at a line break, so that rows of tables stay whole.

use gristmill_schemas::json::{Json, Object};

use super::assemble::{Assembled, AssemblyInput};
use super::budget::token_cost;
use crate::cal::ast::Stream;
use crate::cal::limits;
use crate::cal::vocabulary::StreamEvent;

/// Returns the kind under which STREAM selects an event; `None` for errors and cancellation, which
/// are always sent.
fn kind_of(event: &str) -> Option<StreamEvent> {
    match event {
        "assembly_started" | "source_started" | "source_completed" | "assembly_completed" => {
            Some(StreamEvent::Progress)
        }
        "dedup_completed" | "budget_allocated" | "disclosure_decided" => Some(StreamEvent::Budget),
        "chunk" => Some(StreamEvent::Chunks),
        _ => None,
    }
}

/// Collects the selected events.
struct EventBuffer<'s> {
    stream: &'s Stream,
    events: Vec<Json<'static>>,
}

impl EventBuffer<'_> {
    fn push(
        &mut self,
        event: &'static str,
        members: impl IntoIterator<Item = (&'static str, Json<'static>)>,
    ) {
        if kind_of(event).is_some_and(|kind| !self.stream.wants(kind)) {
            return;
        }
        let mut object = Object::new();
        object.insert("type", event);
        for (key, value) in members {
            object.insert(key, value);
        }
        self.events.push(Json::Object(object));
    }
}

/// Returns all events of a successful assembly, as JSON objects with a `type`.
pub fn events<G>(
    id: &str,
    stream: &Stream,
    input: &AssemblyInput<'_, G>,
    assembled: &Assembled,
) -> Vec<Json<'static>> {
    let mut out = EventBuffer {
        stream,
        events: Vec::new(),
    };
    let number = |value: u64| Json::from(value);
    let label = |at: usize| {
        let label = input.sources.get(at).and_then(|source| source.label);
        label.map_or_else(|| number(at as u64), |label| Json::from(label.to_owned()))
    };
    out.push(
        "assembly_started",
        [
            ("assembly_id", Json::from(id.to_owned())),
            ("budget", number(u64::from(input.budget.amount))),
            ("unit", Json::from(input.budget.unit.name())),
        ],
    );
    for (at, source) in input.sources.iter().enumerate() {
        out.push("source_started", [("source", label(at))]);
        let failed = source.failed.then_some(("failed", Json::from(true)));
        let grains = ("grains", number(source.grains.len() as u64));
        out.push(
            "source_completed",
            [("source", label(at)), grains].into_iter().chain(failed),
        );
    }
    let dropped: usize = assembled
        .sources
        .iter()
        .map(|source| source.duplicates)
        .sum();
    out.push("dedup_completed", [("duplicates", number(dropped as u64))]);
    let allocations = assembled.sources.iter().enumerate().map(|(at, source)| {
        Json::Object(
            [
                ("source", label(at)),
                ("allocated", number(source.allocated)),
            ]
            .into_iter()
            .collect(),
        )
    });
    out.push(
        "budget_allocated",
        [("allocations", Json::Array(allocations.collect()))],
    );
    out.push(
        "disclosure_decided",
        [("level", Json::from(input.style.level.name()))],
    );
    let size = u64::from(stream.chunk_size.unwrap_or(limits::DEFAULT_CHUNK_TOKENS));
    for (at, content) in chunks(&assembled.text, size).into_iter().enumerate() {
        out.push(
            "chunk",
            [
                ("chunk_index", number(at as u64)),
                ("content", Json::from(content.to_owned())),
                ("tokens", number(token_cost(content))),
            ],
        );
    }
    out.push(
        "assembly_completed",
        [
            ("grains", number(assembled.grains.len() as u64)),
            ("tokens_used", number(assembled.tokens_used)),
            ("used", number(assembled.used)),
            ("total", number(u64::from(input.budget.amount))),
        ],
    );
    out.events
}

/// Splits the text into chunks of about `tokens` tokens, each of whole lines.
fn chunks(text: &str, tokens: u64) -> Vec<&str> {
    let mut chunks = Vec::new();
    let (mut start, mut end) = (0, 0);
    for line in text.split_inclusive('\n') {
        let next = end + line.len();
        if end > start && token_cost(&text[start..next]) > tokens {
            chunks.push(&text[start..end]);
            start = end;
        }
        end = next;
    }
    if end > start {
        chunks.push(&text[start..end]);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_lines_and_together_the_text() {
        let text: String = (0..50).map(|at| format!("line number {at}\n")).collect();
        let pieces = chunks(&text, 20);
        assert!(pieces.len() > 5);
        assert!(
            pieces
                .iter()
                .all(|piece| piece.ends_with('\n') && token_cost(piece) <= 20)
        );
        assert_eq!(pieces.concat(), text);
        assert_eq!(chunks("", 20), Vec::<&str>::new());
        let long = "x".repeat(1000);
        assert_eq!(chunks(&long, 20), [long.as_str()], "a line is never cut");
    }
}

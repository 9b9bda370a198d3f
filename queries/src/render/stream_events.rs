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
        if kind_of(event).is_some_and(|kind| !self.stream.includes(kind)) {
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
    let budget = u64::from(input.budget.amount);
    out.push(
        "assembly_started",
        [
            ("assembly_id", Json::from(id.to_owned())),
            ("budget", Json::from(budget)),
            ("unit", Json::from(input.budget.unit.name())),
        ],
    );
    push_sources(&mut out, input);
    push_budget(&mut out, input, assembled);
    push_chunks(&mut out, &assembled.text);
    out.push(
        "assembly_completed",
        [
            ("grains", Json::from(assembled.grains.len() as u64)),
            ("tokens_used", Json::from(assembled.tokens_used)),
            ("used", Json::from(assembled.used)),
            ("total", Json::from(budget)),
        ],
    );
    out.events
}

/// Returns the label of a source, or its index if it has none.
fn label_of<G>(input: &AssemblyInput<'_, G>, at: usize) -> Json<'static> {
    let label = input.sources.get(at).and_then(|source| source.label);
    label.map_or_else(
        || Json::from(at as u64),
        |label| Json::from(label.to_owned()),
    )
}

/// Pushes start and completion of each source.
fn push_sources<G>(out: &mut EventBuffer<'_>, input: &AssemblyInput<'_, G>) {
    for (at, source) in input.sources.iter().enumerate() {
        out.push("source_started", [("source", label_of(input, at))]);
        let failed = source.failed.then_some(("failed", Json::from(true)));
        let grains = ("grains", Json::from(source.grains.len() as u64));
        out.push(
            "source_completed",
            [("source", label_of(input, at)), grains]
                .into_iter()
                .chain(failed),
        );
    }
}

/// Pushes the text in chunks.
fn push_chunks(out: &mut EventBuffer<'_>, text: &str) {
    let size = u64::from(
        out.stream
            .chunk_size
            .unwrap_or(limits::DEFAULT_CHUNK_TOKENS),
    );
    for (at, content) in chunks(text, size).into_iter().enumerate() {
        out.push(
            "chunk",
            [
                ("chunk_index", Json::from(at as u64)),
                ("content", Json::from(content.to_owned())),
                ("tokens", Json::from(token_cost(content))),
            ],
        );
    }
}

/// Pushes the results of deduplication, allocation and disclosure.
fn push_budget<G>(out: &mut EventBuffer<'_>, input: &AssemblyInput<'_, G>, assembled: &Assembled) {
    let sources = assembled.sources.iter();
    let dropped: usize = sources.map(|source| source.duplicates).sum();
    out.push(
        "dedup_completed",
        [("duplicates", Json::from(dropped as u64))],
    );

    out.push(
        "budget_allocated",
        [("allocations", Json::Array(allocations(input, assembled)))],
    );
    let level = Json::from(input.style.level.name());
    out.push("disclosure_decided", [("level", level)]);
}

/// Returns the budget of each source, with its label.
fn allocations<G>(input: &AssemblyInput<'_, G>, assembled: &Assembled) -> Vec<Json<'static>> {
    let sources = assembled.sources.iter().enumerate();
    let allocations = sources.map(|(at, source)| {
        let members = [
            ("source", label_of(input, at)),
            ("allocated", Json::from(source.allocated)),
        ];
        Json::Object(members.into_iter().collect())
    });
    allocations.collect()
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

//! The order of the events of mem0's memories.

use std::collections::HashMap;

use gristmill_schemas::message::Timestamp;

use super::mem0::Mem0Record;

/// An event of a memory, and when it was.
#[derive(Debug)]
pub(super) struct TimedEvent<'r> {
    pub(super) event: &'r Mem0Record,
    pub(super) time: Timestamp,
    /// Nothing comes after it: it deletes the memory, which isn't added again later.
    is_last: bool,
}

/// Returns `events` with their times, those of each memory in the order in which they were.
///
/// Histories are also newest first, and events also have no time of their own: mem0 records
/// deletions without one, or all events with that of the memory. Then the event is as late as what
/// it follows in the file. A deletion is the last event of its memory, unless the memory is added
/// again later; without a time of its own it was at `fallback`, or with the latest other event.
pub(super) fn in_order(events: &[Mem0Record], fallback: Timestamp) -> Vec<TimedEvent<'_>> {
    let mut memories: HashMap<String, Vec<&Mem0Record>> = HashMap::new();
    let mut ids = Vec::new();
    for event in events {
        let id = event.memory_id();
        if !memories.contains_key(&id) {
            ids.push(id.clone());
        }
        memories.entry(id).or_default().push(event);
    }
    let in_memory = |id: &String| timed(&memories[id], fallback);
    ids.iter().flat_map(in_memory).collect()
}

/// Returns the `events` of one memory in their order.
fn timed<'r>(events: &[&'r Mem0Record], fallback: Timestamp) -> Vec<TimedEvent<'r>> {
    let mut created: HashMap<i64, usize> = HashMap::new();
    for time in events.iter().filter_map(|event| event.created_at()) {
        *created.entry(time.micros()).or_default() += 1;
    }
    // When the event itself was: several events with the same creation have that of the memory.
    let own = |event: &Mem0Record| {
        let is_of_event = |time: &Timestamp| event.is_addition() || created[&time.micros()] == 1;
        let time = event.updated_at();
        time.or_else(|| event.created_at().filter(is_of_event))
    };
    let later = |one: Timestamp, other: Timestamp| match one < other {
        true => other,
        false => one,
    };
    let times = events.iter().filter_map(|event| own(event));
    let end = times.fold(fallback, later);
    let mut latest: Option<Timestamp> = None;
    let mut timed: Vec<TimedEvent> = Vec::with_capacity(events.len());
    for event in oldest_first(events, own) {
        let own = own(event);
        latest = match (latest, own) {
            (Some(latest), Some(own)) => Some(later(latest, own)),
            (latest, own) => own.or(latest),
        };
        let time = match own {
            Some(time) => time,
            None if event.is_deletion() => end,
            None => latest.unwrap_or_else(|| event.created_at().unwrap_or(fallback)),
        };
        timed.push(TimedEvent {
            event,
            time,
            is_last: false,
        });
    }
    let additions = timed.iter().filter(|timed| timed.event.is_addition());
    let additions = additions.map(|timed| timed.time);
    let added = additions.clone().min().zip(additions.max());
    for timed in &mut timed {
        let is_added_again = added.is_some_and(|(first, last)| {
            let time = timed.time;
            first <= time && time < last
        });
        timed.is_last = timed.event.is_deletion() && !is_added_again;
    }
    // Events of the same time stay in their order.
    timed.sort_by_key(|timed| (timed.is_last, timed.time));
    timed
}

/// Returns `events` from the oldest to the newest: in the order of the file, or against it if the
/// times of their `own` descend, or if the event that adds the memory is at the end.
fn oldest_first<'r>(
    events: &[&'r Mem0Record],
    own: impl Fn(&Mem0Record) -> Option<Timestamp>,
) -> Vec<&'r Mem0Record> {
    let mut times = events.iter().filter_map(|event| own(event));
    let ends = times.next().zip(times.last());
    let is_addition = |event: Option<&&Mem0Record>| event.is_some_and(|it| it.is_addition());
    let is_newest_first = match ends {
        Some((first, last)) if first != last => last < first,
        _ => is_addition(events.last()) && !is_addition(events.first()),
    };
    let mut ordered = events.to_vec();
    if is_newest_first {
        ordered.reverse();
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::super::tests::{facts, parsed};
    use crate::transcript::kind::TranscriptKind;

    /// Returns an event of the memory `m`, created and updated on these days of January 2026.
    fn event(kind: &str, texts: [&str; 2], created: Option<u8>, updated: Option<u8>) -> String {
        let text = |text: &str| match text {
            "" => "null".to_owned(),
            text => format!("\"{text}\""),
        };
        let day = |day: Option<u8>| match day {
            Some(day) => format!("\"2026-01-0{day}T00:00:00Z\""),
            None => "null".to_owned(),
        };
        format!(
            r#"{{"memory_id":"m","event":"{kind}","old_memory":{},"new_memory":{},"created_at":{},"updated_at":{},"user_id":"u"}}"#,
            text(texts[0]),
            text(texts[1]),
            day(created),
            day(updated)
        )
    }

    const ENDED: [&str; 2] = ["u mg:knows A", "u mg:knows B < A ! "];

    #[test]
    fn a_deletion_without_a_time_of_its_own_is_the_end() {
        let add = event("ADD", ["", "A"], Some(1), None);
        let update = event("UPDATE", ["A", "B"], Some(1), Some(2));
        for delete in [
            event("DELETE", ["B", ""], None, None),
            event("DELETE", ["B", ""], Some(1), None),
            // Clocks differ.
            event("DELETE", ["B", ""], Some(1), Some(1)),
        ] {
            for order in [[&add, &update, &delete], [&delete, &update, &add]] {
                let text = order.map(String::as_str).join("\n");
                let found = facts(&parsed(&text, TranscriptKind::Mem0));
                assert_eq!(found.len(), 2, "{text}: {found:?}");
                assert_eq!(found[0], ENDED[0], "{text}");
                assert!(found[1].starts_with(ENDED[1]), "{text}: {found:?}");
            }
        }
    }

    #[test]
    fn a_history_that_is_newest_first_ends_with_its_first_event() {
        let add = event("ADD", ["", "A"], Some(1), None);
        let untimed = event("UPDATE", ["A", "B"], Some(1), None);
        let update = event("UPDATE", ["B", "C"], Some(1), Some(5));
        for lines in [[&update, &untimed, &add], [&add, &untimed, &update]] {
            let text = lines.map(String::as_str).join("\n");
            let found = facts(&parsed(&text, TranscriptKind::Mem0));
            let expected = ["u mg:knows A", "u mg:knows B < A", "u mg:knows C < B"];
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn updates_without_a_time_of_their_own_follow_what_is_before_them() {
        let lines = [
            event("ADD", ["", "A"], Some(1), None),
            event("UPDATE", ["A", "B"], Some(1), None),
            event("UPDATE", ["B", "C"], Some(1), None),
        ];
        let found = facts(&parsed(&lines.join("\n"), TranscriptKind::Mem0));
        let expected = ["u mg:knows A", "u mg:knows B < A", "u mg:knows C < B"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_memory_that_is_added_again_later_is_current() {
        let lines = [
            event("ADD", ["", "A"], Some(1), None),
            event("DELETE", ["A", ""], Some(1), Some(2)),
            event("ADD", ["", "B"], Some(3), None),
        ];
        let found = facts(&parsed(&lines.join("\n"), TranscriptKind::Mem0));
        assert_eq!(found, ["u mg:knows A", "u mg:knows B < A"]);
    }
}

//! Messages to grains: each message once, each grain after those that it refers to.

use std::collections::{HashMap, HashSet};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::EncodedGrain;
use gristmill_schemas::message::TimeSource;
use gristmill_schemas::message::grains::{Draft, Note, SealedDraft, opaque_event};
use gristmill_schemas::message::ids::Position;

use super::kind::TranscriptKind;
use super::line::{Line, LineFault};
use super::read::{Found, Maker, ReadOptions, Subject, read_exchanges, survey_exchanges};
use super::recast::recast;
use super::said::Said;
use super::told::{Made, Told, told_for_grains};
use super::traffic::Node;
use super::tree::Tree;

/// A message whose grains wait for the one before it.
struct Waiting {
    position: Position,
    parent: Option<Position>,
    line: Line,
    /// Its grains, or why it can't have any.
    draft: Result<SealedDraft, GrainError>,
    /// True for a message of a file whose grains are taken in already: only its address is wanted.
    quiet: bool,
}

/// What comes out of [`read_grains`].
#[derive(Debug)]
pub enum GrainOutput<'o> {
    /// A grain, of the line where its message was seen best.
    Grain(&'o Line, EncodedGrain),
    /// A grain that is no part of a message, with what it takes the place of.
    Made(Made),
    /// A line, or a message of it, that can't go in.
    Fault(LineFault),
}

/// How many of what [`read_grains`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct GrainCounts {
    /// Messages.
    pub messages: u64,
    /// Results whose call was never seen.
    pub orphan_results: u64,
    /// Parts of messages that are of no known kind, and messages of no known role: all are kept as
    /// they are.
    pub unknown_parts: u64,
    /// Calls whose arguments are not a JSON object; the arguments are kept as they are.
    pub raw_arguments: u64,
    /// Exchanges that no adapter reads, kept whole.
    pub opaque_exchanges: u64,
    /// Grains that are no part of a message.
    pub other_grains: u64,
    /// Messages whose time the provider's response gave.
    pub dated_by_response: u64,
    /// Messages whose time the `Date` header of the response gave.
    pub dated_by_header: u64,
    /// Messages whose time nobody gave: it is when their file was last changed.
    pub dated_by_file: u64,
}

impl GrainCounts {
    /// True if nothing was found.
    pub fn is_empty(&self) -> bool {
        *self == GrainCounts::default()
    }

    /// Adds what was found elsewhere.
    pub fn add(&mut self, other: GrainCounts) {
        self.messages += other.messages;
        self.orphan_results += other.orphan_results;
        self.unknown_parts += other.unknown_parts;
        self.raw_arguments += other.raw_arguments;
        self.opaque_exchanges += other.opaque_exchanges;
        self.other_grains += other.other_grains;
        self.dated_by_response += other.dated_by_response;
        self.dated_by_header += other.dated_by_header;
        self.dated_by_file += other.dated_by_file;
    }

    /// Counts a message whose time `source` gave.
    pub(super) fn date(&mut self, source: TimeSource) {
        match source {
            TimeSource::Recorded => {}
            TimeSource::Response => self.dated_by_response += 1,
            TimeSource::Header => self.dated_by_header += 1,
            TimeSource::File => self.dated_by_file += 1,
        }
    }
}

/// Reads the exchange lines of `bytes` as grains. A grain comes after those that it refers to.
pub fn read_grains(
    bytes: &[u8],
    options: ReadOptions<'_>,
    tell: &mut dyn FnMut(GrainOutput<'_>),
) -> GrainCounts {
    let mut linker = Linker::default();
    read_linked(bytes, options, &mut linker, tell);
    linker.counts
}

/// [`read_grains`] of a file whose messages may follow those of others.
fn read_linked(
    bytes: &[u8],
    options: ReadOptions<'_>,
    linker: &mut Linker,
    tell: &mut dyn FnMut(GrainOutput<'_>),
) {
    read_exchanges(
        bytes,
        options,
        &Preparer(options.namespace),
        &mut |line, found| match found {
            Found::Fault(_) if linker.quiet => {}
            Found::Fault(fault) => tell(GrainOutput::Fault(fault)),
            Found::Made(prepared) => prepared.into_iter().for_each(|prepared| match prepared {
                Prepared::Message {
                    position,
                    parent,
                    draft,
                } => {
                    let quiet = linker.quiet;
                    linker.take(
                        Waiting {
                            position,
                            parent,
                            line: line.clone(),
                            draft,
                            quiet,
                        },
                        tell,
                    );
                }
                Prepared::Opaque(_) if linker.quiet => {}
                Prepared::Opaque(grain) => {
                    linker.counts.opaque_exchanges += 1;
                    match grain {
                        Ok(grain) => tell(GrainOutput::Grain(line, grain)),
                        Err(error) => tell(GrainOutput::Fault(line.grain_fault(&error))),
                    }
                }
            }),
        },
    );
}

/// All that can be done for a grain on many threads.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are of the large kind"
)]
enum Prepared {
    Message {
        position: Position,
        parent: Option<Position>,
        draft: Result<SealedDraft, GrainError>,
    },
    Opaque(Result<EncodedGrain, GrainError>),
}

/// Prepares the grains of a namespace, if they are of one.
struct Preparer<'n>(Option<&'n str>);

impl Maker<Prepared> for Preparer<'_> {
    fn make(&self, subject: Subject<'_>) -> Prepared {
        let Preparer(namespace) = *self;
        match subject {
            Subject::Message(
                Node {
                    position,
                    parent,
                    message,
                    stop_reason,
                    usage,
                    response,
                    ..
                },
                _,
            ) => {
                let note = Note {
                    stop_reason,
                    usage,
                    response: response.as_ref(),
                    namespace,
                };
                Prepared::Message {
                    position,
                    parent,
                    draft: Draft::of(&message, note).seal(parent.is_some()),
                }
            }
            Subject::Opaque(opaque) => Prepared::Opaque(opaque_event(
                opaque.json,
                opaque.time,
                &opaque.label(),
                opaque.reason,
                namespace,
            )),
        }
    }

    fn moved(&self, made: Prepared, session: &str) -> Option<Prepared> {
        match made {
            Prepared::Message {
                position,
                parent,
                draft,
            } => Some(Prepared::Message {
                position,
                parent,
                draft: Ok(draft.ok()?.in_session(session)?),
            }),
            opaque @ Prepared::Opaque(_) => Some(opaque),
        }
    }
}

/// The first pass over traffic that is read together with other files, as number `file`.
pub fn survey(bytes: &[u8], kind: TranscriptKind, options: ReadOptions<'_>, file: u32) -> Tree {
    match recast(bytes, kind) {
        Some(recast) => survey_exchanges(recast.lines.as_bytes(), options, file),
        None => survey_exchanges(bytes, options, file),
    }
}

/// [`grains_of`] traffic that is read together with other files; the options say with which.
/// `linker` has read those before it. With the `last` of them comes what still waited for a message
/// that isn't there.
pub fn grains_together(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    linker: &mut Linker,
    last: bool,
    tell: &mut dyn FnMut(GrainOutput<'_>),
) -> GrainCounts {
    match recast(bytes, kind) {
        Some(recast) => {
            let faults = recast.faults.into_iter().filter(|_| !linker.quiet);
            faults.for_each(|fault| tell(GrainOutput::Fault(fault)));
            read_linked(recast.lines.as_bytes(), options, linker, tell);
        }
        None => read_linked(bytes, options, linker, tell),
    }
    linker.leave_file();
    if last {
        linker.finish(tell);
    }
    std::mem::take(&mut linker.counts)
}

/// Reads a transcript of any kind as grains, as [`read_grains`] does.
pub fn grains_of(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    tell: &mut dyn FnMut(GrainOutput<'_>),
) -> GrainCounts {
    if let Some(recast) = recast(bytes, kind) {
        recast
            .faults
            .into_iter()
            .for_each(|fault| tell(GrainOutput::Fault(fault)));
        return read_grains(recast.lines.as_bytes(), options, tell);
    }
    if kind == TranscriptKind::Exchanges {
        return read_grains(bytes, options, tell);
    }
    let mut counts = GrainCounts::default();
    told_for_grains(bytes, kind, options, &mut |part| {
        counts.add(grains_of_told(part, options.namespace, tell))
    });
    counts
}

/// The grains of a part of a transcript that isn't traffic.
pub fn grains_of_told(
    part: Told,
    namespace: Option<&str>,
    tell: &mut dyn FnMut(GrainOutput<'_>),
) -> GrainCounts {
    let mut linker = Linker::default();
    part.faults
        .into_iter()
        .for_each(|fault| tell(GrainOutput::Fault(fault)));
    for made in part.made {
        linker.counts.other_grains += 1;
        tell(GrainOutput::Made(made));
    }
    for Said {
        position,
        parent,
        message,
        stop_reason,
        usage,
        line,
    } in part.said
    {
        let draft = Draft::of(
            &message,
            Note {
                stop_reason,
                usage,
                response: None,
                namespace,
            },
        )
        .seal(parent.is_some());
        linker.take(
            Waiting {
                position,
                parent,
                line,
                draft,
                quiet: false,
            },
            tell,
        );
    }
    linker.counts
}

/// Gives messages their addresses, parents first.
#[derive(Default)]
pub struct Linker {
    /// True while a file is read whose grains are taken in already.
    pub quiet: bool,
    /// Places whose grains are made; `None` where they couldn't be.
    addresses: HashMap<[u8; 32], Option<ContentAddress>>,
    calls: HashMap<String, ContentAddress>,
    waiting: HashMap<[u8; 32], Vec<Waiting>>,
    counts: GrainCounts,
}

impl Linker {
    /// The file ends; what waits for messages of a later one has no line there.
    fn leave_file(&mut self) {
        self.waiting
            .values_mut()
            .flatten()
            .for_each(|message| message.line.range = 0..0);
    }

    /// The last file ends. What still waits follows a message that a file lost since the first
    /// pass: it follows none then.
    fn finish(&mut self, tell: &mut dyn FnMut(GrainOutput<'_>)) {
        let mut left: Vec<Waiting> = std::mem::take(&mut self.waiting)
            .into_values()
            .flatten()
            .collect();
        left.sort_by_key(|message| message.position);
        let here: HashSet<Position> = left.iter().map(|message| message.position).collect();
        for message in left {
            if let Some(parent) = message.parent.filter(|parent| !here.contains(parent)) {
                self.addresses.entry(*parent.digest()).or_insert(None);
            }
            self.take(message, tell);
        }
    }

    fn take(&mut self, message: Waiting, tell: &mut dyn FnMut(GrainOutput<'_>)) {
        let mut ready = vec![message];
        while let Some(message) = ready.pop() {
            let digest = *message.position.digest();
            if self.addresses.contains_key(&digest) {
                continue;
            }
            let parent = match message.parent {
                None => None,
                Some(parent) => match self.addresses.get(parent.digest()) {
                    Some(address) => *address,
                    None => {
                        self.waiting
                            .entry(*parent.digest())
                            .or_default()
                            .push(message);
                        continue;
                    }
                },
            };
            self.link(message, parent, tell);
            // Last first, so that they come out in the order in which they came.
            ready.extend(self.waiting.remove(&digest).into_iter().flatten().rev());
        }
    }

    fn link(
        &mut self,
        message: Waiting,
        parent: Option<ContentAddress>,
        tell: &mut dyn FnMut(GrainOutput<'_>),
    ) {
        let Waiting {
            position,
            line,
            draft,
            quiet,
            ..
        } = message;
        let address =
            match draft.and_then(|draft| draft.link(parent, |id| self.calls.get(id).copied())) {
                Ok(grains) => {
                    self.calls.extend(grains.calls);
                    let address = grains.event.address;
                    if !quiet {
                        self.counts.messages += 1;
                        self.counts.orphan_results += grains.orphans as u64;
                        self.counts.unknown_parts += grains.unknown as u64;
                        self.counts.raw_arguments += grains.raw_arguments as u64;
                        self.counts.date(grains.time_source);
                        tell(GrainOutput::Grain(&line, grains.event));
                        grains
                            .parts
                            .into_iter()
                            .for_each(|part| tell(GrainOutput::Grain(&line, part)));
                    }
                    Some(address)
                }
                Err(_) if quiet => None,
                Err(error) => {
                    tell(GrainOutput::Fault(line.grain_fault(&error)));
                    None
                }
            };
        self.addresses.insert(*position.digest(), address);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Mode, Payload};
    use gristmill_schemas::json::Json;

    use super::*;

    /// A conversation of `turns` turns as a client without memory records it: every request brings
    /// the whole history.
    fn recorded(turns: usize) -> Vec<String> {
        let mut history = Vec::new();
        let mut recorded = Vec::new();
        for turn in 0..turns {
            history.push(format!(r#"{{"role":"user","content":"question {turn}"}}"#));
            let call = format!(
                r#"{{"id":"call_{turn}","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}"#
            );
            let answer = format!(
                r#"{{"role":"assistant","content":"answer {turn}","tool_calls":[{call}]}}"#
            );
            recorded.push(format!(
                r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:{turn:02}:00Z","request":{{"model":"m","messages":[{}]}},
                "response":{{"id":"r{turn}","model":"m","choices":[{{"index":0,"message":{answer},"finish_reason":"tool_calls"}}],
                "usage":{{"prompt_tokens":5,"completion_tokens":7}}}}}}"#,
                history.join(",")
            ).replace('\n', ""));
            history.push(answer);
            history.push(format!(
                r#"{{"role":"tool","tool_call_id":"call_{turn}","content":"found {turn}"}}"#
            ));
        }
        recorded
    }

    fn grains(lines: &[String], threads: usize) -> (Vec<Json<'static>>, Vec<String>, GrainCounts) {
        let text = lines.join("\n");
        let options = ReadOptions {
            threads,
            ..ReadOptions::default()
        };
        let (mut grains, mut addresses) = (Vec::new(), Vec::new());
        let counts = read_grains(text.as_bytes(), options, &mut |output| match output {
            GrainOutput::Grain(_, grain) => {
                let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
                grains.push(Grain::decode(&payload, Mode::Strict).unwrap().to_json());
                addresses.push(grain.address.to_string());
            }
            other => panic!("{other:?}"),
        });
        (grains, addresses, counts)
    }

    #[test]
    fn a_conversation_that_is_resent_with_every_turn_is_stored_once() {
        let (grains, addresses, counts) = grains(&recorded(20), 1);
        // A question, an answer and a result per turn, but the last result was never sent.
        assert_eq!(
            counts,
            GrainCounts {
                messages: 59,
                ..GrainCounts::default()
            }
        );
        assert_eq!(grains.len(), 59 + 20 + 19);
        assert_eq!(
            addresses.iter().collect::<BTreeSet<_>>().len(),
            addresses.len()
        );
        // Answers are told as the model gave them, and everything refers to what came before.
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for (grain, address) in grains.iter().zip(&addresses) {
            let text = |key| grain.get(key).and_then(Json::as_str);
            assert_eq!(
                text("role") == Some("assistant"),
                grain.get("token_usage").is_some()
            );
            assert!(text("parent_message_id").is_none_or(|parent| known.contains(parent)));
            let from = grain
                .get("derived_from")
                .and_then(Json::as_array)
                .unwrap_or_default();
            assert!(
                from.iter()
                    .all(|from| known.contains(from.as_str().unwrap()))
            );
            known.insert(address);
        }
    }

    #[test]
    fn neither_the_order_of_lines_nor_the_number_of_threads_changes_an_address() {
        let lines = recorded(12);
        let expected: BTreeSet<String> = grains(&lines, 1).1.into_iter().collect();
        for (turn, threads) in [(1, 2), (5, 1), (7, 3)] {
            let mut other = lines.clone();
            other.rotate_left(turn);
            other[2..6].reverse();
            // Recorded twice is recorded once.
            other.push(lines[3].clone());
            assert_eq!(
                grains(&other, threads)
                    .1
                    .into_iter()
                    .collect::<BTreeSet<_>>(),
                expected
            );
        }
    }

    #[test]
    fn a_session_is_called_after_its_first_message_wherever_in_the_file_that_was_seen_first() {
        let line = |minute: usize, messages: &str, answer: &str| {
            format!(
                r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:{minute:02}:00Z","request":{{"model":"m","messages":[{messages}]}},"response":{{"id":"r{minute}","model":"m","choices":[{{"index":0,"message":{answer},"finish_reason":"stop"}}]}}}}"#
            )
        };
        let question = r#"{"role":"user","content":"question"}"#;
        let call = r#"{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{}"}}]}"#;
        let result = r#"{"role":"tool","tool_call_id":"c","content":"found"}"#;
        let answered = |text: &str| format!(r#"{{"role":"assistant","content":"{text}"}}"#);
        let asked_first = line(0, question, &answered("at once"));
        let called = line(5, question, call);
        let went_on = line(
            6,
            &[question, call, result].join(","),
            &answered("in the end"),
        );
        let (told, expected, _) =
            grains(&[asked_first.clone(), called.clone(), went_on.clone()], 1);
        let sessions: BTreeSet<_> = told
            .iter()
            .map(|grain| grain.get("session_id").map(Json::to_string))
            .collect();
        assert_eq!((told.len(), sessions.len()), (8, 1), "{told:?}");
        let (_, late, _) = grains(&[called, went_on, asked_first], 1);
        assert_eq!(
            late.into_iter().collect::<BTreeSet<_>>(),
            expected.into_iter().collect()
        );
    }

    #[test]
    fn requests_that_go_on_from_an_answer_are_one_conversation_with_it() {
        let line = |turn: usize| {
            let previous = match turn {
                0 => String::new(),
                turn => format!(r#""previous_response_id":"r{}","#, turn - 1),
            };
            format!(
                r#"{{"provider":"openai","endpoint":"responses","recorded_at":"2026-05-08T12:{turn:02}:00Z","request":{{"model":"m",{previous}"input":"question"}},"response":{{"id":"r{turn}","object":"response","status":"completed","model":"m","output":[{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"answer"}}]}}]}}}}"#
            )
        };
        let mut lines: Vec<String> = (0..5).map(line).collect();
        let (grains, expected, counts) = self::grains(&lines, 1);
        assert_eq!(counts.messages, 10);
        let sessions: BTreeSet<_> = grains
            .iter()
            .map(|grain| grain.get("session_id").map(Json::to_string))
            .collect();
        let roots = grains
            .iter()
            .filter(|grain| grain.get("parent_message_id").is_none())
            .count();
        assert_eq!((sessions.len(), roots), (1, 1));
        lines.reverse();
        // An answer that goes on from itself is followed once.
        lines.push(r#"{"provider":"openai","endpoint":"responses","request":{"previous_response_id":"x","input":"q"},"response":{"id":"x","output":[]}}"#.to_owned());
        let again: BTreeSet<String> = self::grains(&lines, 2).1.into_iter().collect();
        assert!(expected.iter().all(|address| again.contains(address)));
    }

    #[test]
    fn an_edited_turn_is_a_branch() {
        let mut lines = recorded(2);
        lines.push(lines[1].replace("question 1", "question one"));
        let (grains, _, counts) = grains(&lines, 1);
        assert_eq!(counts.messages, 5 + 2);
        let parents: Vec<_> = grains
            .iter()
            .filter(|grain| {
                grain
                    .get("content")
                    .and_then(Json::as_str)
                    .is_some_and(|text| text.starts_with("question"))
            })
            .map(|grain| grain.get("parent_message_id").and_then(Json::as_str))
            .collect();
        assert_eq!(
            (parents.len(), parents[1] == parents[2], parents[0]),
            (3, true, None)
        );
    }

    #[test]
    fn errors_and_traffic_that_nobody_reads_are_kept_and_broken_lines_are_told() {
        let lines = [
            r#"{"provider":"openai","endpoint":"chat","status":429,"request":{"messages":[{"role":"user","content":"hi"}]},"response":{"error":{"message":"slow down"}}}"#,
            r#"{"provider":"x","endpoint":"embed","request":{"texts":["e"]},"response":{"n":1.50}}"#,
            r#"{"provider":"#,
            r#"[1]"#,
        ];
        let text = lines.join("\n");
        let (mut grains, mut faults) = (0, Vec::new());
        let counts = read_grains(
            text.as_bytes(),
            ReadOptions::default(),
            &mut |output| match output {
                GrainOutput::Grain(..) | GrainOutput::Made(_) => grains += 1,
                GrainOutput::Fault(fault) => faults.push((fault.number, fault.code.name())),
            },
        );
        assert_eq!(
            (counts.messages, counts.opaque_exchanges, grains),
            (2, 1, 3)
        );
        assert_eq!(faults, [(3, "ERR_JSON"), (4, "ERR_SHAPE")]);
    }
}

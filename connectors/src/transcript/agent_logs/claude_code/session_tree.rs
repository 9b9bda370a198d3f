//! The tree of the lines of a session, and the walk over its branches.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::branch::Branch;
use super::log_line::LogLine;
use super::merged_answer::{AnswerParts, MergedMessage};
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::ParsedPart;

/// The lines of a file, linked by their parents. A file may hold several trees.
#[derive(Default)]
pub(super) struct SessionTree {
    lines: HashMap<String, LogLine>,
    /// The ids in the order of the file.
    order: Vec<String>,
    children: HashMap<String, Vec<String>>,
}

/// What the walk has visited.
#[derive(Default)]
struct Visited {
    /// The ids of lines.
    lines: HashSet<String>,
    /// The ids of answers, whose usage is counted.
    answers: HashSet<String>,
}

impl SessionTree {
    /// Adds a line. Of lines with the same id the first is kept, or else the first with a message.
    /// Returns false if the line isn't kept although its message has another content.
    pub(super) fn insert(&mut self, uuid: String, line: LogLine) -> bool {
        match self.lines.entry(uuid) {
            Entry::Vacant(slot) => {
                self.order.push(slot.key().clone());
                slot.insert(line);
                true
            }
            Entry::Occupied(mut slot) => {
                // Some forks have their copies twice, of which one isn't marked.
                slot.get_mut().is_copy |= line.is_copy;
                let Some(message) = &line.message else {
                    return true;
                };
                if let Some(known) = &slot.get().message {
                    return known.get("content") == message.get("content");
                }
                slot.insert(line);
                true
            }
        }
    }

    /// Reads the messages of all branches.
    pub(super) fn read_branches(mut self, options: ReadOptions<'_>, part: &mut ParsedPart) {
        let mut visited = Visited::default();
        for start in self.link() {
            if !visited.lines.contains(&start) {
                self.read_subtree(start, &mut visited, options, part);
            }
        }
    }

    /// Reads the messages of all branches below `start`, depth first. There is one conversation,
    /// which returns to the message before a branch when the walk comes to it: a copy for each
    /// branch takes as long as the conversation is.
    fn read_subtree(
        &mut self,
        start: String,
        visited: &mut Visited,
        options: ReadOptions<'_>,
        part: &mut ParsedPart,
    ) {
        let session = self
            .lines
            .get(&start)
            .map(|line| line.session.clone())
            .unwrap_or_default();
        let mut branch = Branch::new(&session);
        let mut stack = vec![(start, Rc::new(branch.point()))];
        while let Some((uuid, before)) = stack.pop() {
            if !visited.lines.insert(uuid.clone()) {
                continue;
            }
            branch.return_to(&before);
            if let Some(mut message) = self.take_message(&uuid, &mut visited.lines) {
                message.is_counted |= message
                    .answer_id()
                    .is_some_and(|id| !visited.answers.insert(id));
                branch.read(message, options, part);
            }
            let mut next: Vec<String> = self.children.remove(&uuid).unwrap_or_default();
            next.retain(|uuid| !visited.lines.contains(uuid));
            let point = Rc::new(branch.point());
            stack.extend(next.into_iter().rev().map(|uuid| (uuid, Rc::clone(&point))));
        }
    }

    /// Links all lines to their parents. Returns the ids at which to start: first the roots, then
    /// all lines, because lines in a cycle are below no root.
    fn link(&mut self) -> Vec<String> {
        let mut starts = Vec::new();
        for uuid in &self.order {
            match self
                .lines
                .get(uuid)
                .and_then(|line| line.parent.clone())
                .filter(|parent| self.lines.contains_key(parent))
            {
                Some(parent) => self.children.entry(parent).or_default().push(uuid.clone()),
                None => starts.push(uuid.clone()),
            }
        }
        starts.append(&mut self.order);
        starts
    }

    /// Takes the message of `uuid`, merged with all lines of the same answer. Their children become
    /// children of `uuid` or of the last result.
    fn take_message(&mut self, uuid: &str, done: &mut HashSet<String>) -> Option<MergedMessage> {
        let mut message = MergedMessage::take(self.lines.get_mut(uuid)?)?;
        if let Some(id) = message.answer_id() {
            let mut parts = self.answer_parts(uuid, &id);
            parts
                .continuations
                .sort_by_key(|uuid| self.line_number(uuid));
            for uuid in &parts.continuations {
                if let Some(line) = self.lines.get_mut(uuid) {
                    message.append(line);
                }
                done.insert(uuid.clone());
            }
            self.relink_answer(uuid, parts);
        }
        Some(message)
    }

    fn line_number(&self, uuid: &str) -> u64 {
        self.lines.get(uuid).map_or(0, |line| line.line.number)
    }

    /// Collects the lines below `first`, the first line of the answer `id`. The search stops at
    /// other messages.
    fn answer_parts(&self, first: &str, id: &str) -> AnswerParts {
        let mut parts = AnswerParts::default();
        let mut stack = vec![(first.to_owned(), false)];
        let mut seen: HashSet<String> = HashSet::from([first.to_owned()]);
        while let Some((uuid, after_result)) = stack.pop() {
            for child in self.children.get(&uuid).into_iter().flatten() {
                if !seen.insert(child.clone()) {
                    continue;
                }
                let Some(line) = self.lines.get(child) else {
                    continue;
                };
                let after_result = after_result || line.is_tool_result();
                if line.answer_id() == Some(id) {
                    parts.continuations.push(child.clone());
                } else if line.is_tool_result() {
                    parts.results.push(child.clone());
                } else if line.message.is_some() {
                    parts.following.push((child.clone(), after_result));
                    continue;
                } else {
                    parts.silent.push(child.clone());
                }
                stack.push((child.clone(), after_result));
            }
        }
        parts
    }

    /// Links the lines after an answer anew: its results follow its first line in sequence, and
    /// what followed a result follows the last one.
    fn relink_answer(&mut self, first: &str, parts: AnswerParts) {
        let AnswerParts {
            continuations,
            mut results,
            silent,
            following,
        } = parts;
        self.children.remove(first);
        for uuid in continuations.iter().chain(&silent).chain(&results) {
            self.children.remove(uuid);
        }
        results.sort_by_key(|uuid| self.line_number(uuid));
        let last = results.last().cloned().unwrap_or_else(|| first.to_owned());
        let mut previous = first.to_owned();
        for result in results {
            let parent = std::mem::replace(&mut previous, result.clone());
            self.children.entry(parent).or_default().push(result);
        }
        for (uuid, after_result) in following {
            let parent = if after_result { &*last } else { first };
            let children = self.children.entry(parent.to_owned()).or_default();
            children.push(uuid);
        }
        for parent in [first, &last] {
            let mut children = self.children.remove(parent).unwrap_or_default();
            children.sort_by_key(|child| self.line_number(child));
            self.children.insert(parent.to_owned(), children);
        }
    }
}

//! Texts from templates.
//!
//! `{slot}` is replaced by a value, `[one|another]` by one of the alternatives. A slot keeps its
//! value within a scene; `{slot2}` is another value of the same slot. Single numbers (`{n}`,
//! `{nn}`, `{nnn}`), lists of rows and further sentences (`{more}`) are new each time. Values of a
//! person, such as `{email}`, are the same in all scenes of the person.

use std::ops::Range;

use super::draws::Draws;
use super::people::Person;
use super::personal_data::Found;
use super::script::{Department, Script, script};

/// Personal data in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlantedData {
    /// The kind, by the name that scans use.
    pub(super) kind: &'static str,
    /// The identifier as it is written.
    pub(super) value: String,
}

/// The value of a slot in a scene.
#[derive(Debug)]
struct BoundSlot {
    slot: &'static str,
    /// Where the value is in [`TextWriter::values`].
    value: Range<usize>,
    /// Kind and position of personal data in `values`.
    personal: Option<Found>,
}

/// Fills templates for one person.
#[derive(Debug, Default)]
pub(super) struct TextWriter {
    bound: Vec<BoundSlot>,
    values: String,
    /// Personal data in the texts since the last grain.
    planted: Vec<PlantedData>,
}

/// Whom texts are about, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextContext<'p> {
    pub(super) person: &'p Person,
    /// The current time, in milliseconds since 1970.
    pub(super) now_ms: i64,
    /// Determines the values of the scene's slots.
    pub(super) scene: u64,
}

impl TextContext<'_> {
    pub(super) fn script(&self) -> &'static Script {
        script(self.person.town.language)
    }

    pub(super) fn department(&self) -> &'static Department {
        &self.script().departments[self.person.department]
    }
}

impl TextWriter {
    /// Clears the values of slots.
    pub(super) fn begin_scene(&mut self) {
        self.bound.clear();
        self.values.clear();
    }

    /// Sets the value of a slot, in which there may be personal data.
    pub(super) fn bind(&mut self, slot: &'static str, value: &str, planted: &[PlantedData]) {
        self.bound.retain(|bound| bound.slot != slot);
        let personal = planted.first().and_then(|planted| {
            let start = value.find(&planted.value)?;
            Some((planted.kind, start..start + planted.value.len()))
        });
        self.bind_value(slot, value, personal);
    }

    /// Adds personal data of a text that belongs to the next grain.
    pub(super) fn plant(&mut self, planted: Vec<PlantedData>) {
        self.planted.extend(planted);
    }

    /// Returns the personal data of the texts since the last call.
    pub(super) fn take_planted(&mut self) -> Vec<PlantedData> {
        std::mem::take(&mut self.planted)
    }

    /// Returns the text of a template.
    pub(super) fn text(
        &mut self,
        context: &TextContext<'_>,
        draws: &mut Draws,
        template: &'static str,
    ) -> String {
        let mut out = String::with_capacity(template.len() * 2);
        self.expand(context, draws, template, false, &mut out);
        out
    }

    /// Appends a template; values of slots are kept unless they are `fresh`.
    pub(super) fn expand(
        &mut self,
        context: &TextContext<'_>,
        draws: &mut Draws,
        template: &'static str,
        fresh: bool,
        out: &mut String,
    ) {
        let mut rest = template;
        while let Some(at) = memchr::memchr2(b'{', b'[', rest.as_bytes()) {
            let (literal, marked) = rest.split_at(at);
            out.push_str(literal);
            let is_slot = marked.starts_with('{');
            let close = if is_slot { '}' } else { ']' };
            let Some(end) = marked.find(close) else {
                out.push_str(marked);
                return;
            };
            let inner = &marked[1..end];
            rest = &marked[end + 1..];
            if is_slot {
                self.slot(context, draws, inner, fresh, out);
            } else if inner.contains('|') {
                let choice = draws.below(inner.split('|').count());
                let choice = inner.split('|').nth(choice).unwrap_or_default();
                self.expand(context, draws, choice, fresh, out);
            } else {
                out.push_str(&marked[..=end]);
            }
        }
        out.push_str(rest);
    }

    /// Appends the value of a slot.
    fn slot(
        &mut self,
        context: &TextContext<'_>,
        draws: &mut Draws,
        slot: &'static str,
        fresh: bool,
        out: &mut String,
    ) {
        let base = slot.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let is_always_new = matches!(base, "n" | "nn" | "nnn" | "isodate" | "rows" | "more");
        let fresh = fresh || is_always_new && base == slot;
        if !fresh && self.push_bound(slot, out) {
            return;
        }
        let start = out.len();
        let number = slot[base.len()..].parse().unwrap_or(1);
        let personal = self.fill(context, draws, (base, number), fresh, out);
        if let Some((kind, range)) = &personal {
            let value = out[range.clone()].to_owned();
            self.planted.push(PlantedData { kind, value });
        }
        if !fresh {
            let personal =
                personal.map(|(kind, range)| (kind, range.start - start..range.end - start));
            let value = out[start..].to_owned();
            self.bind_value(slot, &value, personal);
        }
    }

    /// Appends the value that a slot has in the scene. Returns false if it has none yet.
    fn push_bound(&mut self, slot: &str, out: &mut String) -> bool {
        let Some(bound) = self.bound.iter().find(|bound| bound.slot == slot) else {
            return false;
        };
        out.push_str(&self.values[bound.value.clone()]);
        if let Some((kind, range)) = &bound.personal {
            let value = self.values[range.clone()].to_owned();
            self.planted.push(PlantedData { kind, value });
        }
        true
    }

    fn bind_value(&mut self, slot: &'static str, value: &str, personal: Option<Found>) {
        let start = self.values.len();
        self.values.push_str(value);
        let personal = personal.map(|(kind, range)| (kind, range.start + start..range.end + start));
        self.bound.push(BoundSlot {
            slot,
            value: start..self.values.len(),
            personal,
        });
    }
}

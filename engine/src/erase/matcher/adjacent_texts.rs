//! Texts that follow each other in the encoding of a grain, over which a name may be split.
//!
//! The byte search sees no more than the bytes between two texts ([`crate::erase::decoded`]): the
//! headers of maps, nulls, booleans and a few short texts. What it takes for a name is found here
//! too, because what isn't selected isn't erased, and would be a remnant.

use std::collections::VecDeque;

use gristmill_schemas::grain::{Field, Grain, RawValue};

use crate::erase::decoded::{KEYS, STRUCTURE};

/// The texts that precede a place, the nearest last.
#[derive(Debug, Default)]
pub(super) struct AdjacentTexts<'g> {
    preceding: VecDeque<PrecedingText<'g>>,
}

#[derive(Debug)]
struct PrecedingText<'g> {
    text: &'g str,
    /// Minimal number of bytes after it.
    bytes: usize,
    /// Whether a map begins after it.
    has_map: bool,
}

impl<'g> AdjacentTexts<'g> {
    /// Calls `found` with every two adjacent texts of `grain`, in the order in which it is stored.
    pub(super) fn visit_grain(&mut self, grain: &Grain<'g>, found: &mut dyn FnMut(&str, &str)) {
        for (key, value) in grain.entries() {
            // The name of a field is no part of a name.
            let field = Field::from_short_key(key).or_else(|| Field::from_name(key));
            self.text(if field.is_some() { "" } else { key }, found);
            self.visit(&value, found);
        }
        self.preceding.clear();
    }

    /// Calls `found` with every two adjacent texts of which `value` contains the second.
    pub(super) fn visit(&mut self, value: &RawValue<'g>, found: &mut dyn FnMut(&str, &str)) {
        match value {
            RawValue::Text(text) => self.text(text, found),
            RawValue::Map(encoded) => {
                self.pass(1, true);
                for (key, value) in encoded.all_entries() {
                    self.text(key, found);
                    self.visit(&value, found);
                }
            }
            RawValue::Array(encoded) => {
                self.preceding.clear();
                encoded.items().for_each(|item| self.visit(&item, found));
            }
            RawValue::Nil | RawValue::Bool(_) => self.pass(1, false),
            _ => self.preceding.clear(),
        }
    }

    /// Calls `found` with each preceding text that is adjacent to `text`, and adds this one.
    fn text(&mut self, text: &'g str, found: &mut dyn FnMut(&str, &str)) {
        for (between, before) in self.preceding.iter().rev().enumerate() {
            let is_adjacent = (between == 0 || before.has_map) && before.bytes < STRUCTURE;
            if is_adjacent && !before.text.is_empty() && !text.is_empty() {
                found(before.text, text);
            }
        }
        self.pass(1 + text.len(), false);
        if self.preceding.len() > KEYS {
            self.preceding.pop_front();
        }
        self.preceding.push_back(PrecedingText {
            text,
            bytes: 0,
            has_map: false,
        });
    }

    /// Adds `bytes` to those after each preceding text.
    fn pass(&mut self, bytes: usize, is_map: bool) {
        for before in &mut self.preceding {
            before.bytes = before.bytes.saturating_add(bytes);
            before.has_map |= is_map;
        }
    }
}

//! Finds a pattern at a position of a text.

use super::words::{
    extend_words, found, gap_after, gap_after_word, gap_before, has_prefix, has_suffix, words,
};
use super::{Coverage, IdentifierPattern, MAX_GAP, MAX_TAG, Occurrence, PatternKind};
use crate::erase::variations::Variation;
use crate::text::fold::{is_segmented, is_unsegmented};

impl IdentifierPattern {
    /// Returns whether it occurs in `text`, which is folded in the same form.
    pub(in crate::erase) fn occurs_in(&self, text: &str) -> bool {
        let word = self.anchor_word();
        match word.is_empty() || self.text.chars().any(is_unsegmented) {
            true => text.contains(&self.text),
            false => words(text)
                .any(|(start, found)| found == word && self.match_at(text, start).is_some()),
        }
    }

    /// Returns the occurrence of the pattern whose anchor begins at `at` in `text`, if there is
    /// one.
    pub(in crate::erase) fn match_at(&self, text: &str, at: usize) -> Option<Occurrence> {
        let mut found = self.occurrence_at(text, at)?;
        found.classes = found.classes.with(self.classes);
        Some(found)
    }

    /// Returns the occurrence whose anchor begins at `at`, by the kind of the pattern, without the
    /// variations of the pattern itself.
    fn occurrence_at(&self, text: &str, at: usize) -> Option<Occurrence> {
        let end = at + self.anchor_word().len();
        match &self.kind {
            PatternKind::Literal { affixes } => {
                self.literal_at(text, at.checked_sub(self.anchor.0)?, *affixes)
            }
            PatternKind::Name {
                rotates,
                separators,
            } => self.name_at(text, at, *rotates, *separators),
            PatternKind::Id => self.id_at(text, at),
            PatternKind::Word => Some(found(text, at, end)),
            PatternKind::Initial(initial) => initial_at(text, at, end, *initial),
            PatternKind::TaggedEmail { domain, had_tag } => {
                self.tagged_at(text, at.checked_sub(self.anchor.0)?, domain, *had_tag)
            }
        }
    }

    /// Returns the literal occurrence that begins at `start`, if word boundaries or affixes delimit
    /// it.
    fn literal_at(&self, text: &str, start: usize, affixes: bool) -> Option<Occurrence> {
        let rest = text.get(start..)?.strip_prefix(&*self.text)?;
        let before = text.get(..start)?;
        let mut found = found(text, start, start + self.text.len());
        let is_did_url = self.is_did && rest.starts_with(['#', '/', '?', ';']);
        if before.is_empty() && (rest.is_empty() || is_did_url) {
            found.coverage = Coverage::Whole;
            return Some(found);
        }
        let opens = before.is_empty() || !self.continues_before(before);
        let closes = rest.is_empty() || !self.continues_after(rest);
        let in_underscores = affixes && !self.text.contains('_');
        let has_prefix = || has_prefix(before) || in_underscores && before.ends_with('_');
        let has_suffix = || has_suffix(rest) || in_underscores && rest.starts_with('_');
        let is_delimited =
            (opens || affixes && has_prefix()) && (closes || affixes && has_suffix());
        if !is_delimited {
            return None;
        }
        found.coverage = Coverage::Part;
        if !opens || !closes {
            found.classes.insert(Variation::IdAffixes);
            return Some(found);
        }
        let is_segment = (before.is_empty() || before.ends_with(':'))
            && (rest.is_empty() || rest.starts_with(':'));
        if is_segment {
            found.coverage = Coverage::Segment;
        }
        Some(found)
    }

    /// Returns whether the letters next to an occurrence are part of the same word or identifier.
    fn continues(&self, letters: &mut dyn Iterator<Item = char>) -> bool {
        match letters.next() {
            Some('-' | '_') if self.joined => letters.next().is_some_and(is_segmented),
            Some(letter) => is_segmented(letter),
            None => false,
        }
    }

    /// Returns whether the beginning of `rest`, which follows an occurrence, is part of the same
    /// word or identifier. No domain has an underscore.
    fn continues_after(&self, rest: &str) -> bool {
        let is_after_domain = self.is_email && rest.starts_with('_');
        !is_after_domain && self.continues(&mut rest.chars())
    }

    /// Returns whether the end of `before`, which precedes an occurrence, is part of the same word
    /// or identifier.
    fn continues_before(&self, before: &str) -> bool {
        let mut letters = before.chars().rev();
        let is_local_part = self.is_email
            && letters
                .next()
                .is_some_and(|letter| matches!(letter, '.' | '+'))
            && letters.next().is_some_and(is_segmented);
        is_local_part || self.continues(&mut before.chars().rev())
    }

    /// Returns the occurrence of a name whose anchor begins at `at`, in another order or with other
    /// separators than the identifier's own.
    fn name_at(
        &self,
        text: &str,
        at: usize,
        rotates: bool,
        separators: bool,
    ) -> Option<Occurrence> {
        let own: Vec<(usize, &str)> = words(&self.text).collect();
        let anchor = own.iter().position(|(start, _)| *start == self.anchor.0)?;
        let rotations = if rotates { own.len() } else { 1 };
        (0..rotations).find_map(|rotation| {
            let (mut found, is_separated) =
                self.rotated_name_at(text, at, &own, anchor, rotation)?;
            if is_separated && !separators || !is_separated && rotation == 0 {
                return None;
            }
            if rotation > 0 {
                found.classes.insert(Variation::NameOrder);
            }
            if is_separated {
                found.classes.insert(Variation::NameSeparators);
            }
            Some(found)
        })
    }

    /// Returns the occurrence of the words `own` rotated by `rotation`, of which the word `anchor`
    /// begins at `at`, and whether it has other separators than the identifier.
    fn rotated_name_at(
        &self,
        text: &str,
        at: usize,
        own: &[(usize, &str)],
        anchor: usize,
        rotation: usize,
    ) -> Option<(Occurrence, bool)> {
        let word_at = |place: usize| (place + rotation) % own.len();
        let place = (anchor + own.len() - rotation) % own.len();
        let word = |place: usize| {
            let is_word = place < own.len();
            let word = is_word.then(|| own.get(word_at(place)));
            word.flatten().map(|(_, word)| *word)
        };
        let (start, end, gaps) = extend_words(text, at, place, own.len(), word)?;
        let is_original_gap = |(place, gap): (usize, &&str)| {
            let word = word_at(place);
            // The last word of the identifier precedes its first one.
            match word + 1 == own.len() {
                true => matches!(*gap, " " | "," | ", "),
                false => gap_after_word(&self.text, own, word) == *gap,
            }
        };
        let is_separated = !gaps.iter().enumerate().all(is_original_gap);
        Some((found(text, start, end), is_separated))
    }

    /// Returns the occurrence of an id whose anchor begins at `at`, with another separator for each
    /// of its own.
    fn id_at(&self, text: &str, at: usize) -> Option<Occurrence> {
        let own: Vec<(usize, &str)> = words(&self.text).collect();
        let place = own.iter().position(|(start, _)| *start == self.anchor.0)?;
        let (start, end, gaps) = extend_words(text, at, place, own.len(), |place| {
            own.get(place).map(|(_, word)| *word)
        })?;
        let is_separator = |gap: &&str| matches!(*gap, "-" | "_" | "." | " ");
        let continues = self.continues(&mut text.get(..start)?.chars().rev())
            || self.continues(&mut text.get(end..)?.chars());
        let is_literal = text.get(start..end)? == self.text;
        (gaps.iter().all(is_separator) && !continues && !is_literal)
            .then(|| found(text, start, end))
    }

    /// Returns the occurrence of an e-mail address whose local part begins at `start`: with a tag,
    /// or without one if the identifier has one.
    fn tagged_at(
        &self,
        text: &str,
        start: usize,
        domain: &str,
        had_tag: bool,
    ) -> Option<Occurrence> {
        let rest = text.get(start..)?.strip_prefix(&*self.text)?;
        // No further than a tag may reach: most texts with the local part contain no address.
        let at = rest
            .bytes()
            .take(MAX_TAG + 2)
            .position(|byte| byte == b'@')?;
        let (tag, rest) = (rest.get(..at)?, rest.get(at + 1..)?);
        let is_untagged = tag.is_empty() && had_tag;
        if !(is_tag(tag) || is_untagged) {
            return None;
        }
        let rest = rest.strip_prefix(domain)?;
        let continues = self.continues_before(text.get(..start)?) || self.continues_after(rest);
        if continues {
            return None;
        }
        let mut found = found(text, start, text.len() - rest.len());
        if had_tag && !is_untagged {
            // Tags may also be what distinguishes people: `team+ada@…` and `team+ben@…`.
            found.coverage = Coverage::Part;
        }
        Some(found)
    }
}

/// Returns the occurrence of the last name at `at..end` with the initial before it (`a. okafor`,
/// `a.b. okafor`) or after it (`okafor, a.`).
fn initial_at(text: &str, at: usize, end: usize, initial: char) -> Option<Occurrence> {
    if let Some(start) = initial_before(text.get(..at)?, initial) {
        return Some(found(text, start, end));
    }
    let (gap, after) = gap_after(text.get(end..)?)?;
    let rest = after.strip_prefix(initial)?;
    let has_comma = matches!(gap, "," | ", ");
    let closes = !rest.chars().next().is_some_and(is_segmented);
    (closes && (has_comma || gap == " " && rest.starts_with('.')))
        .then(|| found(text, at, text.len() - rest.len()))
}

/// Returns the start of the initials at the end of `before`, if `initial` is the first of them.
fn initial_before(mut before: &str, initial: char) -> Option<usize> {
    for _ in 0..MAX_GAP {
        let (rest, _) =
            gap_before(before).filter(|(_, gap)| gap.starts_with('.') && is_initials_gap(gap))?;
        let letter = rest.chars().next_back()?;
        before = rest.get(..rest.len() - letter.len_utf8())?;
        if before.chars().next_back().is_some_and(is_segmented) {
            return None;
        }
        if letter == initial && !before.ends_with('.') {
            return Some(before.len());
        }
    }
    None
}

fn is_initials_gap(gap: &str) -> bool {
    gap.chars().all(|letter| matches!(letter, '.' | ' ' | '-'))
}

/// Returns whether `tag` is the tag of an e-mail address, with its plus.
fn is_tag(tag: &str) -> bool {
    tag.strip_prefix('+')
        .is_some_and(|tag| tag.len() <= MAX_TAG && !tag.contains(char::is_whitespace))
}

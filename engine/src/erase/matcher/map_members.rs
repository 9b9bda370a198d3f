//! Names whose parts are values of one map: `{"first": "Ada", "last": "Okafor"}`.
//!
//! Each part is a whole value, so that texts which merely contain a word of a name make none. The
//! values may be in any order. The byte search doesn't find such names: any text may be between
//! their parts.

use gristmill_schemas::grain::RawValue;

use super::{Hits, IdentifierMatcher};
use crate::erase::patterns::{IdentifierPattern, MAX_NAME_WORDS, words};

/// Maximal length in bytes of a part of a name.
const MAX_PART_BYTES: usize = 64;

/// Maximal number of values of a map that are compared.
const MAX_PARTS: usize = 64;

/// A value that may be a part of a name.
struct NamePart<'g> {
    text: &'g str,
    /// Its words in the coarsest form.
    words: Vec<String>,
}

impl IdentifierMatcher {
    /// Matches names over the values of `members`, the members of a map.
    pub(super) fn match_members<'g>(
        &self,
        members: impl Iterator<Item = (&'g str, RawValue<'g>)>,
        hits: &mut Hits,
    ) {
        let texts = members.filter_map(|(_, value)| match value {
            RawValue::Text(text) if text.len() <= MAX_PART_BYTES => Some(text),
            _ => None,
        });
        let texts: Vec<&str> = texts.take(MAX_PARTS).collect();
        let may_match = |text: &&str| self.scan_text(text, &mut hits.folded).may_match;
        if texts.len() < 2 || !texts.iter().any(may_match) {
            return;
        }
        let parts: Vec<NamePart<'_>> = texts
            .into_iter()
            .map(|text| self.name_part(text))
            .filter(|part| (1..MAX_NAME_WORDS).contains(&part.words.len()))
            .collect();
        let all = parts.iter().flat_map(|part| &part.words);
        let mut numbers: Vec<u32> = all
            .filter_map(|word| self.by_word.get(word.as_str()))
            .flatten()
            .copied()
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        for pattern in numbers
            .into_iter()
            .filter_map(|number| self.pattern(number))
        {
            if let Some(joined) = joined_parts(pattern, &parts) {
                self.match_joined_parts(&joined, hits);
            }
        }
    }

    fn name_part<'g>(&self, text: &'g str) -> NamePart<'g> {
        let folded = self.coarsest_form(text);
        let words = words(&folded).map(|(_, word)| word.to_owned()).collect();
        NamePart { text, words }
    }

    fn match_joined_parts(&self, texts: &[&str], hits: &mut Hits) {
        let (Some(first), Some(last)) = (texts.first(), texts.last()) else {
            return;
        };
        let joined = texts.join(" ");
        let ends = (first.len(), joined.len() - last.len() - 1);
        let mut folded = std::mem::take(&mut hits.folded);
        self.match_joined(&joined, ends, &mut folded, hits);
        hits.folded = folded;
    }
}

/// Returns the texts of those of `parts` whose words, one after another, are those of the name
/// `pattern`. `None` unless there are at least two.
fn joined_parts<'g>(pattern: &IdentifierPattern, parts: &[NamePart<'g>]) -> Option<Vec<&'g str>> {
    let name: Vec<&str> = pattern.name_words()?.collect();
    let mut used = Vec::new();
    let mut place = 0;
    while place < name.len() {
        let rest = name.get(place..)?;
        let fits = |part: &NamePart<'_>| {
            let words = part.words.iter().map(String::as_str);
            part.words.len() <= rest.len() && words.eq(rest.iter().copied().take(part.words.len()))
        };
        let unused = (0..)
            .zip(parts)
            .filter(|(number, _)| !used.contains(number));
        let (number, part) = unused
            .filter(|(_, part)| fits(part))
            .max_by_key(|(_, part)| part.words.len())?;
        used.push(number);
        place += part.words.len();
    }
    let texts = used.iter().filter_map(|number: &usize| parts.get(*number));
    (used.len() > 1).then(|| texts.map(|part| part.text).collect())
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{EncodeOptions, encode_json};
    use gristmill_schemas::json::Json;

    use super::*;
    use crate::erase::SubjectRequest;
    use crate::erase::variations::{Variation, Variations};
    use crate::text::with_grain_if_any;

    fn is_found(name: &str, members: &str) -> bool {
        let json = format!(
            r#"{{"type":"event","created_at":1767225600000,"role":"user","content":"hi",{members}}}"#
        );
        let json = Json::parse(json.as_bytes()).unwrap();
        let blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
        let request = SubjectRequest::of_person([name]);
        let mut hits = Hits::default();
        let matcher = IdentifierMatcher::new(&request);
        with_grain_if_any(&blob, |grain| {
            matcher.match_grain(grain.unwrap(), &mut hits)
        });
        let split: Variations = Variation::SplitBlocks.into();
        assert!(hits.people.is_empty() || hits.variations == split);
        !hits.people.is_empty()
    }

    #[test]
    fn a_name_is_found_whose_parts_are_whole_values_of_one_map() {
        for (name, members) in [
            ("Ada Okafor", r#""context":{"first":"Ada","last":"OKAFOR"}"#),
            (
                "Ada Okafor",
                r#""context":{"family":"okafor","given":"ada"}"#,
            ),
            ("Ada Okafor", r#""first_name":"Ada","last_name":"Okafor""#),
            (
                "Ada Okafor",
                r#""context":{"rows":[{"age":7,"a":"Ada","b":"x","c":"Okafor"}]}"#,
            ),
            (
                "Ada Maria Okafor",
                r#""context":{"first":"Ada","last":"Okafor","middle":"Maria"}"#,
            ),
            (
                "Ada Maria Okafor",
                r#""context":{"first":"Ada Maria","last":"Okafor"}"#,
            ),
            ("Mora Mora", r#""context":{"first":"Mora","last":"Mora"}"#),
        ] {
            assert!(is_found(name, members), "{members}");
        }
        for members in [
            r#""context":{"first":"Ada","last":"Okaforson"}"#,
            r#""context":{"first":"Ada","last":"of Okafor"}"#,
            r#""context":{"first":"Ada","last":["Okafor"]}"#,
            r#""context":{"first":"Ada","middle":"Ada"}"#,
        ] {
            assert!(!is_found("Ada Okafor", members), "{members}");
        }
    }
}

//! Message templates of findings: text with names of evidence in braces.

/// A template such as `about {subject}`. `{{` and `}}` are literal braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTemplate {
    pieces: Vec<TemplatePiece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePiece {
    Text(String),
    Name(String),
}

/// Maximum length of a value in a message, in characters.
const VALUE_LIMIT: usize = 160;

impl MessageTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// An error message if a brace is unmatched or a name is empty.
    pub fn parse(template: &str) -> Result<MessageTemplate, String> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                text.push_str(brace);
                rest = after;
                continue;
            }
            let end = rest
                .find('}')
                .filter(|_| brace == "{")
                .ok_or_else(|| format!("`message` has an unmatched {brace}"))?;
            let name = rest[..end].trim();
            if name.is_empty() {
                return Err("`message` has an empty pair of braces".to_owned());
            }
            pieces.push(TemplatePiece::Text(std::mem::take(&mut text)));
            pieces.push(TemplatePiece::Name(name.to_owned()));
            rest = &rest[end + 1..];
        }
        text.push_str(rest);
        pieces.push(TemplatePiece::Text(text));
        Ok(MessageTemplate { pieces })
    }

    /// Returns the names in the template.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Name(name) => Some(name.as_str()),
            TemplatePiece::Text(_) => None,
        })
    }

    /// Renders the template with `evidence`. A missing value is written as `–`; long values are
    /// truncated.
    pub fn render(&self, evidence: &[(String, String)]) -> String {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Text(text) => out.push_str(text),
                TemplatePiece::Name(name) => match evidence.iter().find(|(key, _)| key == name) {
                    Some((_, value)) => push_shortened(value, &mut out),
                    None => out.push('–'),
                },
            }
        }
        out
    }
}

fn push_shortened(value: &str, out: &mut String) {
    match value.char_indices().nth(VALUE_LIMIT) {
        Some((end, _)) => {
            out.push_str(&value[..end]);
            out.push('…');
        }
        None => out.push_str(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_become_evidence() {
        let message = MessageTemplate::parse("{a} of {{b}} is { c }").expect("a template");
        assert_eq!(message.names().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(message.render(&[("a".into(), "1".into())]), "1 of {b} is –");
    }

    #[test]
    fn an_unmatched_brace_is_refused() {
        assert!(
            MessageTemplate::parse("a { b").is_err()
                && MessageTemplate::parse("a } b").is_err()
                && MessageTemplate::parse("{}").is_err()
        );
    }

    #[test]
    fn long_values_are_truncated_at_a_character_boundary() {
        let text = MessageTemplate::parse("{a}")
            .expect("a template")
            .render(&[("a".into(), "ä".repeat(500))]);
        assert_eq!(text.chars().count(), VALUE_LIMIT + 1);
    }
}

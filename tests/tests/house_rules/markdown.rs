//! Links and headings of pages in Markdown.

/// Returns the relative targets of the Markdown links of a page, code blocks excluded.
pub(super) fn link_targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            let is_url = ["http:", "https:", "mailto:"]
                .iter()
                .any(|scheme| target.starts_with(scheme));
            if !is_url && !target.contains(char::is_whitespace) {
                targets.push(target.to_owned());
            }
        }
    }
    targets
}

/// True if a page has a heading whose anchor, as code hosts make it, is `anchor`.
pub(super) fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .any(|heading| {
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || "- _".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c })
                .eq(anchor.chars())
        })
}

/// Returns the code spans of a page, code blocks excluded.
pub(super) fn code_spans(text: &str) -> Vec<&str> {
    let mut spans = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if !in_code {
            spans.extend(line.split('`').skip(1).step_by(2));
        }
    }
    spans
}

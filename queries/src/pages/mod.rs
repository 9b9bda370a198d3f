//! HTML pages: self-contained, without scripts, light and dark, for screens and paper.
//!
//! Templates share `style.css` and `charts.html`. All text is escaped by the template engine, and
//! control characters, also those that change the direction of text, are made visible.
//!
//! | module | question |
//! |---|---|
//! | `lake_report` | what does a lake contain and cost, and what is wrong with it? |
//! | `subject_page` | what does a lake hold about a person? |
//! | `certificate_page` | what does an erasure certificate prove? |

mod certificate_page;
mod lake_report;
mod subject_page;

pub use certificate_page::certificate_page;
pub use lake_report::{LakeReport, PageError, ReportOptions, lake_report};
pub use subject_page::{SubjectPage, SubjectPageHead};

use minijinja::{AutoEscape, Environment, Value};
use serde::Serialize;
use serde_json::Value as Json;

use crate::render::{escape_control, shell_quoted};

/// A template that is rendered several times.
pub(crate) struct Pages(Environment<'static>);

/// Name of the template of a page.
const PAGE: &str = "page.html";

impl Pages {
    /// Parses a template. It can include `style.css` and import the macro `chart` from
    /// `charts.html`.
    ///
    /// # Errors
    /// Those of the template engine, which only a wrong template causes.
    pub(crate) fn new(template: &'static str) -> Result<Pages, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.add_filter("grouped", grouped);
        environment.add_filter("shell", shell_quoted);
        environment.add_filter("marked", |text: &str| {
            Value::from_safe_string(backticks_as_code(text))
        });
        environment.add_template("style.css", include_str!("style.css"))?;
        environment.add_template("charts.html", include_str!("charts.html"))?;
        environment.add_template(PAGE, template)?;
        Ok(Pages(environment))
    }

    /// Renders the template with the variables of `page`.
    ///
    /// # Errors
    /// Those of the template engine, which only a wrong template causes.
    pub(crate) fn render(&self, page: &impl Serialize) -> Result<String, minijinja::Error> {
        let values = serde_json::to_value(page).map_err(|error| {
            minijinja::Error::new(minijinja::ErrorKind::BadSerialization, error.to_string())
        })?;
        self.0.get_template(PAGE)?.render(template_value(values))
    }
}

/// Renders a template once.
///
/// # Errors
/// Like [`Pages::new`].
pub(crate) fn render_page(
    template: &'static str,
    page: &impl Serialize,
) -> Result<String, minijinja::Error> {
    Pages::new(template)?.render(page)
}

/// Returns the time for the head of a page.
fn now() -> String {
    chrono::Utc::now().format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Converts JSON to values of the template engine.
fn template_value(json: Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(flag),
        Json::Number(number) => match number.as_u64() {
            Some(count) => Value::from(count),
            None => Value::from(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::from(escape_control(&text).into_owned()),
        Json::Array(items) => items
            .into_iter()
            .map(template_value)
            .collect::<Vec<_>>()
            .into(),
        Json::Object(members) => Value::from_pairs(
            members
                .into_iter()
                // Names can be data, such as the types of grain in a certificate.
                .map(|(name, value)| (escape_control(&name).into_owned(), template_value(value))),
        ),
    }
}

/// A bar of a chart; lengths are in per cent of the longest bar.
#[derive(Serialize)]
pub(crate) struct ChartBar {
    pub(crate) name: String,
    pub(crate) count: u64,
    pub(crate) parts: Vec<ChartSegment>,
}

/// A segment of a bar.
#[derive(Serialize)]
pub(crate) struct ChartSegment {
    pub(crate) class: &'static str,
    pub(crate) start: f64,
    pub(crate) length: f64,
    pub(crate) count: u64,
}

/// Returns `count` in per cent of `of`.
pub(crate) fn share(count: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        count as f64 * 100.0 / of as f64
    }
}

/// Smallest visible length of a bar, in per cent.
const VISIBLE: f64 = 0.8;

/// Returns the length of a bar; a non-zero count is always visible.
pub(crate) fn length(count: u64, of: u64) -> f64 {
    if count == 0 {
        0.0
    } else {
        share(count, of).max(VISIBLE)
    }
}

/// Returns a chart's bars of one colour.
pub(crate) fn bars(counts: Vec<(String, u64)>) -> Vec<ChartBar> {
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let bar = |(name, count): (String, u64)| {
        let part = ChartSegment {
            class: "plain",
            start: 0.0,
            length: length(count, most),
            count,
        };
        ChartBar {
            name,
            count,
            parts: vec![part],
        }
    };
    counts.into_iter().map(bar).collect()
}

/// Converts text to HTML, with text between backticks as code.
fn backticks_as_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split('`').peekable();
    let mut code = false;
    while let Some(piece) = pieces.next() {
        // An unmatched backtick is an ordinary character.
        let opens = code && pieces.peek().is_some();
        out.push_str(match (code, opens) {
            (true, true) => "<code>",
            (true, false) => "`",
            _ => "",
        });
        push_escaped(piece, &mut out);
        out.push_str(if opens { "</code>" } else { "" });
        code = !code;
    }
    out
}

fn push_escaped(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
}

/// Formats a number with narrow spaces between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped_on_every_page() {
        let page = render_page(
            "{{ text }} {{ text | marked }}",
            &serde_json::json!({"text": "<script>alert(1)</script>\u{202e}txt.exe"}),
        )
        .unwrap();
        assert!(
            !page.contains("<script") && !page.contains('\u{202e}'),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;"), "{page}");
    }

    #[test]
    fn control_characters_in_names_are_visible() {
        let counts = serde_json::json!({"counts": {"\u{202e}fact\u{1b}[2J": 1}});
        let template = "{% for name, count in counts | items %}{{ name }} {{ count }}{% endfor %}";
        let page = render_page(template, &counts).unwrap();
        assert_eq!(page, "\\u{202e}fact\\x1b[2J 1");
    }

    #[test]
    fn a_chart_has_a_note_and_the_total_of_what_it_cuts() {
        let page = |template: &'static str| {
            let bars = serde_json::json!({"bars": [{"name": "x", "count": 1, "parts": []}]});
            render_page(template, &bars).unwrap()
        };
        let cut = page(
            "{% from \"charts.html\" import chart %}{{ chart(\"t\", bars, \"a `b`\", 1200) }}",
        );
        assert!(cut.contains("a <code>b</code></p>"), "{cut}");
        assert!(cut.contains("The first 1 of 1\u{202f}200."), "{cut}");
        let whole = page("{% from \"charts.html\" import chart %}{{ chart(\"t\", bars) }}");
        assert!(!whole.contains("<p"), "{whole}");
    }

    #[test]
    fn backticks_become_code_and_nothing_becomes_markup() {
        assert_eq!(
            backticks_as_code("run `a<b>` & `c`"),
            "run <code>a&lt;b&gt;</code> &amp; <code>c</code>"
        );
        assert_eq!(backticks_as_code("a ` b <i>"), "a ` b &lt;i&gt;");
        assert_eq!(backticks_as_code("`a"), "`a");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(
            [grouped(7), grouped(1_234_567)],
            ["7".to_owned(), "1\u{202f}234\u{202f}567".to_owned()]
        );
    }
}

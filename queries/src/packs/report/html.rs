//! The HTML report: everything inline, no scripts, all text escaped by the template engine.

use minijinja::{AutoEscape, Environment, Value};
use serde::Serialize;
use serde_json::Value as Json;

use super::super::error::{PackError, Result};
use super::super::pack::{Pack, Rule, Severity};
use super::super::scan::{Scan, ScanSummary};
use super::{FindingStatistics, MAX_SAMPLES};
use crate::render::escape_control;

const TEMPLATE: &str = include_str!("report.html");

/// Maximum number of bars of a chart, without the one for the others.
const MAX_BARS: usize = 8;

/// Renders the page of a scan.
pub(super) fn page(
    scan: &Scan,
    summary: &ScanSummary,
    statistics: &FindingStatistics,
) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("grouped", grouped);
    environment.add_filter("marked", |text: &str| {
        Value::from_safe_string(backticks_as_code(text))
    });
    environment.add_template("report.html", TEMPLATE)?;
    let packs = packs(scan, summary, statistics);
    let clean = packs.iter().map(|pack| pack.passed.len()).sum();
    let page = ReportPage {
        summary,
        severities: severities(statistics),
        total: summary.findings,
        clean,
        rules: scan.rules().len(),
        broken: scan.rules().len() - clean,
        pack_bars: pack_bars(&packs),
        type_bars: bars(statistics.types(MAX_BARS)),
        namespace_bars: bars(statistics.namespaces(MAX_BARS)),
        packs,
        shown: MAX_SAMPLES,
        version: env!("CARGO_PKG_VERSION"),
        now: chrono::Utc::now().format("%Y-%m-%d %H:%M UTC").to_string(),
    };
    let page = serde_json::to_value(page).map_err(|error| PackError::Write(error.into()))?;
    Ok(environment
        .get_template("report.html")?
        .render(template_value(page))?)
}

/// Variables of the template.
#[derive(Serialize)]
struct ReportPage<'s> {
    summary: &'s ScanSummary,
    severities: Vec<SeverityCount>,
    total: u64,
    /// Number of rules without findings.
    clean: usize,
    rules: usize,
    /// Number of rules with findings.
    broken: usize,
    pack_bars: Vec<ChartBar>,
    type_bars: Vec<ChartBar>,
    namespace_bars: Vec<ChartBar>,
    packs: Vec<PackSection>,
    shown: usize,
    version: &'static str,
    now: String,
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
                .map(|(name, value)| (name, template_value(value))),
        ),
    }
}

/// A bar of a chart; lengths are in per cent of the longest bar.
#[derive(Serialize)]
struct ChartBar {
    name: String,
    count: u64,
    parts: Vec<ChartSegment>,
}

/// A segment of a bar.
#[derive(Serialize)]
struct ChartSegment {
    class: &'static str,
    start: f64,
    length: f64,
    count: u64,
}

#[derive(Serialize)]
struct SeverityCount {
    name: &'static str,
    count: u64,
    start: f64,
    length: f64,
}

#[derive(Serialize)]
struct PackSection {
    id: String,
    title: String,
    version: String,
    regulation: String,
    description: String,
    findings: u64,
    broken: Vec<RuleSection>,
    passed: Vec<PassedRule>,
}

#[derive(Serialize)]
struct RuleSection {
    id: String,
    title: String,
    severity: &'static str,
    norm: String,
    remediation: String,
    findings: u64,
    failures: u64,
    first_failure: Option<String>,
    samples: Vec<FindingSample>,
}

#[derive(Serialize)]
struct PassedRule {
    title: String,
    norm: String,
}

#[derive(Serialize)]
struct FindingSample {
    address: Option<String>,
    message: String,
    evidence: Vec<(String, String)>,
}

fn share(count: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        count as f64 * 100.0 / of as f64
    }
}

/// Smallest visible length of a bar, in per cent.
const VISIBLE: f64 = 0.8;

/// Returns the length of a bar; a non-zero count is always visible.
fn length(count: u64, of: u64) -> f64 {
    if count == 0 {
        0.0
    } else {
        share(count, of).max(VISIBLE)
    }
}

fn severities(statistics: &FindingStatistics) -> Vec<SeverityCount> {
    let counts = Severity::ALL.map(|severity| (severity.name(), statistics.of_severity(severity)));
    let total = counts.iter().map(|(_, count)| count).sum();
    let mut start = 0.0;
    let place = |(name, count): (&'static str, u64)| {
        let length = share(count, total);
        let one = SeverityCount {
            name,
            count,
            start,
            length,
        };
        start += length;
        one
    };
    counts.into_iter().map(place).collect()
}

fn packs(scan: &Scan, summary: &ScanSummary, statistics: &FindingStatistics) -> Vec<PackSection> {
    let mut place = 0;
    let mut sections = Vec::new();
    for pack in scan.packs() {
        let mut section = PackSection::empty(pack);
        for rule in &pack.rules {
            section.add(rule, place, summary, statistics);
            place += 1;
        }
        // By severity, then by number of findings.
        let rank = |rule: &RuleSection| {
            Severity::ALL
                .iter()
                .position(|severity| severity.name() == rule.severity)
        };
        section
            .broken
            .sort_by_key(|rule| (rank(rule), u64::MAX - rule.findings));
        sections.push(section);
    }
    sections
}

impl PackSection {
    fn empty(pack: &Pack) -> PackSection {
        PackSection {
            id: pack.id.clone(),
            title: pack.title.clone(),
            version: pack.version.clone(),
            regulation: pack.regulation.clone(),
            description: pack.description.clone(),
            findings: 0,
            broken: Vec::new(),
            passed: Vec::new(),
        }
    }

    fn add(
        &mut self,
        rule: &Rule,
        place: usize,
        summary: &ScanSummary,
        statistics: &FindingStatistics,
    ) {
        let count = summary.rules.get(&rule.id).cloned().unwrap_or_default();
        if count.findings == 0 && count.failures == 0 {
            self.passed.push(PassedRule {
                title: rule.title.clone(),
                norm: rule.norm.clone(),
            });
            return;
        }
        let sample = |finding: &super::super::finding::Finding| FindingSample {
            address: finding.address.clone(),
            message: rule.message.render(&finding.evidence),
            evidence: finding.evidence.clone(),
        };
        self.findings += count.findings;
        self.broken.push(RuleSection {
            id: rule.id.clone(),
            title: rule.title.clone(),
            severity: rule.severity.name(),
            norm: rule.norm.clone(),
            remediation: rule.remediation.clone(),
            findings: count.findings,
            failures: count.failures,
            first_failure: count.first_failure,
            samples: statistics.samples(place).iter().map(sample).collect(),
        });
    }
}

fn pack_bars(packs: &[PackSection]) -> Vec<ChartBar> {
    let most = packs.iter().map(|pack| pack.findings).max().unwrap_or(0);
    let of = |pack: &PackSection, severity: Severity| {
        pack.broken
            .iter()
            .filter(|rule| rule.severity == severity.name())
            .map(|rule| rule.findings)
            .sum::<u64>()
    };
    let bar = |pack: &PackSection| {
        let mut start = 0.0;
        let part = |severity: Severity| {
            let count = of(pack, severity);
            let part = ChartSegment {
                class: severity.name(),
                start,
                length: length(count, most),
                count,
            };
            start += part.length;
            part
        };
        ChartBar {
            name: pack.title.clone(),
            count: pack.findings,
            parts: Severity::ALL.into_iter().map(part).collect(),
        }
    };
    packs.iter().map(bar).collect()
}

fn bars(counts: Vec<(String, u64)>) -> Vec<ChartBar> {
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

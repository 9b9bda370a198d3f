//! The HTML report: everything inline, no scripts, all text escaped by the template engine.

use gristmill_schemas::address::ContentAddress;
use serde::Serialize;

use super::super::error::{PackError, Result};
use super::super::finding::Finding;
use super::super::pack::{Pack, Rule, Severity};
use super::super::scan::{Scan, ScanSummary};
use super::finding_context::{FindingContext, FindingContexts};
use super::{FindingStatistics, MAX_SAMPLES};
use crate::pages::{ChartBar, ChartSegment, bars, length, render_page, share};

const TEMPLATE: &str = include_str!("report.html");

/// Maximum number of bars of a chart, without the one for the others.
const MAX_BARS: usize = 8;

/// Evidence that [`FindingContext`] shows as person, session and time.
const IN_CONTEXT: [&str; 3] = ["user_id", "session_id", "created_at"];

/// Renders the page of a scan.
pub(super) fn page(
    scan: &Scan,
    summary: &ScanSummary,
    statistics: &FindingStatistics,
    contexts: &FindingContexts,
) -> Result<String> {
    let packs = packs(scan, summary, statistics, contexts);
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
    render_page(TEMPLATE, &page).map_err(PackError::Template)
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
    /// Whether the address is one of a grain: a rule of one's own can return any text.
    is_grain: bool,
    context: Option<FindingContext>,
    message: String,
    evidence: Vec<(String, String)>,
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

fn packs(
    scan: &Scan,
    summary: &ScanSummary,
    statistics: &FindingStatistics,
    contexts: &FindingContexts,
) -> Vec<PackSection> {
    let mut place = 0;
    let mut sections = Vec::new();
    for pack in scan.packs() {
        let mut section = PackSection::empty(pack);
        for rule in &pack.rules {
            section.add(rule, summary, statistics.samples(place), contexts);
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
        summary: &ScanSummary,
        samples: &[Finding],
        contexts: &FindingContexts,
    ) {
        let count = summary.rules.get(&rule.id).cloned().unwrap_or_default();
        if count.findings == 0 && count.failures == 0 {
            self.passed.push(PassedRule {
                title: rule.title.clone(),
                norm: rule.norm.clone(),
            });
            return;
        }
        let context = |address: &String| contexts.get(address).cloned();
        let sample = |finding: &Finding| {
            let context = finding.address.as_ref().and_then(context);
            let address = finding.address.as_deref();
            FindingSample {
                is_grain: address.is_some_and(|it| it.parse::<ContentAddress>().is_ok()),
                evidence: further_evidence(finding, context.is_some()),
                context,
                address: finding.address.clone(),
                message: rule.message.render(&finding.evidence),
            }
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
            samples: samples.iter().map(sample).collect(),
        });
    }
}

/// Returns the evidence without what the context of a finding shows.
fn further_evidence(finding: &Finding, has_context: bool) -> Vec<(String, String)> {
    let evidence = finding.evidence.iter();
    let further = evidence.filter(|(name, _)| !has_context || !IN_CONTEXT.contains(&name.as_str()));
    further.cloned().collect()
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

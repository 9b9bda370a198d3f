//! Writes findings as reports.
//!
//! | format | for | contents |
//! |---|---|---|
//! | [`ReportFormat::Jsonl`] | pipes | every finding, one per line, as it is found |
//! | [`ReportFormat::Json`] | programs | every finding, then the summary |
//! | [`ReportFormat::Sarif`] | code-scanning tools | every finding, in SARIF 2.1.0 |
//! | [`ReportFormat::Html`] | people | counts with charts, and the first findings of each rule |
//!
//! All formats except HTML are written while the scan runs. HTML is written from
//! [`FindingStatistics`], whose size doesn't depend on the number of findings.
//!
//! | module | question |
//! |---|---|
//! | `sarif` | what is a finding in SARIF? |
//! | `statistics` | what is kept of all findings for people? |
//! | `finding_context` | what are the findings of a page about? |
//! | `html` | how is the page written? |

mod finding_context;
mod html;
mod sarif;
mod statistics;

use std::io::Write;

pub use statistics::{FindingStatistics, MAX_SAMPLES, OTHERS};

use finding_context::FindingContexts;

use super::error::{PackError, Result};
use super::finding::Finding;
use super::pack::Rule;
use super::scan::{Scan, ScanSummary};

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// One JSON object per finding and line.
    Jsonl,
    /// One JSON document: `{"findings": […], "summary": {…}}`.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// A self-contained HTML page.
    Html,
}

/// Writer of a report.
pub struct ReportWriter<W> {
    out: W,
    form: ReportFormat,
    written: u64,
    statistics: FindingStatistics,
    contexts: FindingContexts,
}

impl<W: Write> ReportWriter<W> {
    /// Starts a report on `scan` in `out`.
    ///
    /// # Errors
    /// [`PackError::Write`] if `out` fails.
    pub fn begin(mut out: W, form: ReportFormat, scan: &Scan) -> Result<Self> {
        match form {
            ReportFormat::Json => out.write_all(b"{\"findings\":[")?,
            ReportFormat::Sarif => sarif::begin(&mut out)?,
            ReportFormat::Jsonl | ReportFormat::Html => {}
        }
        Ok(ReportWriter {
            out,
            form,
            written: 0,
            statistics: FindingStatistics::new(scan.rules().len()),
            contexts: FindingContexts::new(),
        })
    }

    /// Writes a finding.
    ///
    /// # Errors
    /// [`PackError::Write`] if `out` fails.
    pub fn finding(&mut self, rule: &Rule, finding: &Finding) -> Result<()> {
        let separator = if self.written > 0 { ",\n" } else { "\n" };
        self.written += 1;
        match self.form {
            ReportFormat::Jsonl => {
                write_json(&mut self.out, &finding.record(rule))?;
                self.out.write_all(b"\n")?;
            }
            ReportFormat::Json => {
                self.out.write_all(separator.as_bytes())?;
                write_json(&mut self.out, &finding.record(rule))?;
            }
            ReportFormat::Sarif => {
                self.out.write_all(separator.as_bytes())?;
                write_json(&mut self.out, &sarif::result(rule, finding))?;
            }
            ReportFormat::Html => self.statistics.add(rule, finding),
        }
        Ok(())
    }

    /// Looks up what the findings of the page are about: an excerpt, the person, the session and
    /// the source. Does nothing for other formats.
    ///
    /// # Errors
    /// [`PackError::Query`].
    pub async fn add_contexts(&mut self, scan: &Scan) -> Result<()> {
        if self.form == ReportFormat::Html {
            let addresses = self.statistics.addresses();
            self.contexts = finding_context::load(scan.context(), &addresses).await?;
        }
        Ok(())
    }

    /// Finishes the report with the summary of the scan.
    ///
    /// # Errors
    /// [`PackError::Write`], [`PackError::Template`].
    pub fn finish(mut self, scan: &Scan, summary: &ScanSummary) -> Result<()> {
        match self.form {
            ReportFormat::Jsonl => {}
            ReportFormat::Json => {
                self.out.write_all(b"\n],\"summary\":")?;
                write_json(&mut self.out, summary)?;
                self.out.write_all(b"}\n")?;
            }
            ReportFormat::Sarif => sarif::end(&mut self.out, scan, summary)?,
            ReportFormat::Html => self.out.write_all(
                html::page(scan, summary, &self.statistics, &self.contexts)?.as_bytes(),
            )?,
        }
        Ok(self.out.flush()?)
    }
}

fn write_json(out: &mut impl Write, value: &impl serde::Serialize) -> Result<()> {
    serde_json::to_writer(out, value).map_err(|error| PackError::Write(error.into()))
}
